package simulator

import (
	"context"
	"slices"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/requeststate/operator/api/v1alpha1"
	"github.com/requeststate/operator/internal/rotation"
)

// A stream shows one client what becomes of the objects of one resource: late, but in order. While the client is cut off the stream is broken; afterwards
// it shows everything anew, and what came and went meanwhile it never shows.
type stream struct {
	w        *world
	actor    string
	resource string
	deliver  func(name string, object client.Object) // nil: it is gone
	relisted func(names []string)                    // what there is, after everything was shown anew; may be nil

	last   time.Duration // when the last event that is on its way arrives
	broken bool
	closed bool
}

func (w *world) watch(s *stream) *stream {
	s.w = w
	w.mu.Lock()
	w.streams = append(w.streams, s)
	w.mu.Unlock()
	s.relist()
	return s
}

// send lets something arrive after what was sent before.
func (s *stream) send(act func()) {
	delay := s.w.delay(s.actor, delayWatch, "watch of "+s.resource)
	s.last = max(s.last+1, s.w.kernel.now()+delay)
	s.w.kernel.after(s.last-s.w.kernel.now(), func() {
		switch {
		case s.closed:
		case s.w.cut[s.actor]:
			s.broken = true
		default:
			act()
		}
	})
}

// relist shows everything, as a client does that opens a watch.
func (s *stream) relist() {
	s.send(func() {
		s.broken = false
		var names []string
		for _, object := range s.w.store.list(s.resource) {
			names = append(names, object.GetName())
			s.deliver(object.GetName(), object.DeepCopyObject().(client.Object))
		}
		if s.relisted != nil {
			s.relisted(names)
		}
	})
}

// show sends one object to everybody who watches its resource.
func (w *world) show(resource, name string) {
	object := w.store.get(resource, name)
	for _, s := range w.openStreams() {
		if s.resource == resource && !s.broken {
			s.send(func() { s.deliver(name, object) })
		}
	}
}

// openStreams forgets the streams that were closed and returns the others.
func (w *world) openStreams() []*stream {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.streams = slices.DeleteFunc(w.streams, func(s *stream) bool { return s.closed })
	return slices.Clone(w.streams)
}

// cutOff cuts somebody off from the API server: what it asked for may have been done, but no answer arrives, and no event.
func (w *world) cutOff(actor string) {
	w.journal.add(actor, "cut off", "from the API server")
	w.cut[actor] = true
	for _, s := range w.openStreams() {
		if s.actor == actor {
			s.broken = true
		}
	}
}

// reconnect ends that.
func (w *world) reconnect(actor string) {
	w.journal.add(actor, "reconnected", "to the API server")
	delete(w.cut, actor)
	for _, s := range w.openStreams() {
		if s.actor == actor && s.broken {
			s.relist()
		}
	}
}

// watchKey is the watch of a sidecar: the key of its pod, and nothing else.
func (w *world) watchKey(ctx context.Context, actor string, seen func(rotation.View)) {
	views := make(chan rotation.View, 1000) // so that what arrives never waits for who looks
	shown := false
	s := w.watch(&stream{
		actor: actor, resource: keys,
		deliver: func(_ string, object client.Object) {
			shown = object != nil
			if !shown {
				views <- rotation.View{}
				return
			}
			views <- rotation.ViewOf(object.(*v1alpha1.RequestStateKey))
		},
		relisted: func(names []string) {
			if len(names) == 0 && shown {
				shown = false
				views <- rotation.View{}
			}
		},
	})
	for {
		select {
		case v := <-views:
			seen(v)
		case <-ctx.Done():
			s.closed = true
			return
		}
	}
}
