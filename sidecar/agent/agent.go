package agent

import (
	"context"
	"log/slog"
	"time"

	"github.com/requeststate/operator/api/v1alpha1"
	"github.com/requeststate/operator/internal/envelope"
	"github.com/requeststate/operator/internal/kms"
	"github.com/requeststate/operator/internal/rotation"
	"github.com/requeststate/operator/sidecar/ring"
)

// Defaults for fields of Config that are zero.
const (
	DefaultLookEvery     = 5 * time.Minute
	DefaultRetryMin      = 200 * time.Millisecond
	DefaultRetryMax      = 10 * time.Second
	DefaultRetryMaxHeld  = time.Minute
	DefaultReadTimeout   = 10 * time.Second
	DefaultUnwrapTimeout = 10 * time.Second
)

// Config is what an Agent is made of. Zero durations are the defaults above.
type Config struct {
	// Source is where the ring comes from.
	Source Source
	// Holder gets it.
	Holder *ring.Holder
	// Metrics count what comes of it.
	Metrics *ring.Metrics
	// OpenKMS returns what unwraps keys with this stanza.
	OpenKMS func(ctx context.Context, stanza v1alpha1.KMSSpec, resolvedARN string) (kms.Wrapper, error)
	// OpenPrincipals returns who tells principals by these settings, which are neither None nor unknown. Its error says what to change.
	OpenPrincipals func(spec v1alpha1.PrincipalSpec, clockSkew time.Duration) (Principals, error)
	// MaxStateBytes is for the rings that are made.
	MaxStateBytes int
	// LookEvery is the time between two looks at key and report, give or take a fifth: for what the watch missed, and for a report that is lost.
	LookEvery time.Duration
	// RetryMin and RetryMax bound the wait before what failed is tried again, RetryMaxHeld once a ring is served, when less is urgent.
	RetryMin, RetryMax, RetryMaxHeld time.Duration
	// ReadTimeout bounds one read of the key or one write of the report, UnwrapTimeout one request to the KMS.
	ReadTimeout, UnwrapTimeout time.Duration
	// Spread varies a wait, so that a fleet that started at once does not act at once; nil: give or take a fifth, at random.
	Spread func(time.Duration) time.Duration
	// Logger gets each change of the ring as one line, and each failure; nil discards them.
	Logger *slog.Logger
}

// An Agent joins a ring and follows it. Its fields belong to the goroutine that calls Run.
type Agent struct {
	Config
	member    *rotation.Member
	events    chan rotation.View
	refreshes chan chan struct{}
	exposures chan bool
	outcomes  chan *outcome
	keys      *keyCache

	running    *operation                      // nil: nothing is under way
	principals *boundPrincipals                // at work; nil: no ring yet
	written    *Report                         // what the report surely says; nil: unknown
	ring       map[string]v1alpha1.ReportedKey // the keys of the ring held, those dropped too
	waiters    []chan struct{}                 // who waits for the ring to have been read anew

	lookAt, retryAt time.Time // retryAt is zero if nothing failed
	failures        int       // in a row
	mustGet         bool      // read the key before the next report
	lookDue         bool      // and look at the report with it
	getHeld         bool      // no read before retryAt
	reportHeld      bool      // no report before retryAt
	obstacle        string    // why the source has no ring to give
	outOfReach      bool      // the last read failed, and not by a source that had something to say
	wasServing      bool
	exposed         bool // the app can be reached around the sidecar
	complaints      complaints
}

// New returns an Agent; it does nothing before Run.
func New(c Config) *Agent {
	setDefault(&c.LookEvery, DefaultLookEvery)
	setDefault(&c.RetryMin, DefaultRetryMin)
	setDefault(&c.RetryMax, DefaultRetryMax)
	setDefault(&c.RetryMaxHeld, DefaultRetryMaxHeld)
	setDefault(&c.ReadTimeout, DefaultReadTimeout)
	setDefault(&c.UnwrapTimeout, DefaultUnwrapTimeout)
	if c.Spread == nil {
		c.Spread = spread
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	return &Agent{
		Config:    c,
		member:    rotation.NewMember(),
		events:    make(chan rotation.View),
		refreshes: make(chan chan struct{}),
		exposures: make(chan bool),
		outcomes:  make(chan *outcome),
		keys:      newKeyCache(),

		complaints: complaints{},
	}
}

func setDefault(field *time.Duration, value time.Duration) {
	if *field == 0 {
		*field = value
	}
}

// Run joins and follows the ring until ctx ends. What is held then stays held: the Holder goes on serving while connections drain.
func (a *Agent) Run(ctx context.Context) {
	a.lookAt = time.Now().Add(a.Spread(a.LookEvery))
	go a.Source.Watch(ctx, func(v rotation.View) {
		select {
		case a.events <- v:
		case <-ctx.Done():
		}
	})
	for ctx.Err() == nil {
		a.advance(ctx)
		a.publish()
		a.await(ctx)
	}
	if a.running != nil {
		a.running.cancel()
	}
}

// Refresh makes the key be read anew and returns when that has been done and what it showed is loaded, when it has failed, or when ctx ends. It is safe
// for concurrent use. While the source is known to be out of reach it returns at once.
func (a *Agent) Refresh(ctx context.Context) {
	done := make(chan struct{})
	select {
	case a.refreshes <- done:
	case <-ctx.Done():
		return
	}
	select {
	case <-done:
	case <-ctx.Done():
	}
}

// Exposed tells whether the app can be reached around the sidecar, for the report. It returns when that is noted, or when ctx ends, and is safe for
// concurrent use.
func (a *Agent) Exposed(ctx context.Context, exposed bool) {
	select {
	case a.exposures <- exposed:
	case <-ctx.Done():
	}
}

// await waits for one thing to happen and takes note of it.
func (a *Agent) await(ctx context.Context) {
	timer := time.NewTimer(time.Until(a.nextTime()))
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case v := <-a.events:
		a.saw(v)
	case o := <-a.outcomes:
		a.finish(o)
	case done := <-a.refreshes:
		a.waiters = append(a.waiters, done)
		a.mustGet = a.mustGet || !a.getHeld
	case exposed := <-a.exposures:
		a.exposed = exposed
		a.member.ReportSeen(false) // it is to say so
	case <-timer.C:
		a.tick(time.Now())
	}
}

func (a *Agent) nextTime() time.Time {
	if !a.retryAt.IsZero() && a.retryAt.Before(a.lookAt) {
		return a.retryAt
	}
	return a.lookAt
}

// tick does what is due. What failed is never just tried again: the key is read first.
func (a *Agent) tick(now time.Time) {
	if !a.retryAt.IsZero() && !now.Before(a.retryAt) {
		a.retryAt = time.Time{}
		a.getHeld, a.reportHeld, a.mustGet = false, false, true
	}
	if !now.Before(a.lookAt) {
		a.lookAt = now.Add(a.Spread(a.LookEvery))
		a.lookDue = true
		a.mustGet = a.mustGet || !a.getHeld
	}
}

// saw takes note of what the watch shows.
func (a *Agent) saw(v rotation.View) {
	a.getHeld, a.outOfReach = false, false // the source is there
	if op := a.running; op != nil {
		op.touched = true
		if op.kind == rotation.ActGet {
			a.abandon()
			a.mustGet = true
		}
	}
	a.member.Saw(v, false)
}

// advance does what the member asks for, until an operation is under way or there is nothing to do now.
func (a *Agent) advance(ctx context.Context) {
	for {
		action := a.member.Next()
		if action.Kind == rotation.ActDrop {
			a.drop(action.Drop)
			continue
		}
		if a.running != nil {
			if !a.superseded(action) {
				break
			}
			a.abandon()
		}
		if !a.begin(ctx, action) {
			break
		}
	}
	if !a.mustGet && (a.running == nil || a.running.kind == rotation.ActReport) {
		a.releaseWaiters()
	}
}

// begin begins what the member asks for. It returns false if there is nothing to do now, and true if the member is to be asked again.
func (a *Agent) begin(ctx context.Context, action rotation.Action) bool {
	switch {
	case action.Kind == rotation.ActLoad:
		a.beginLoad(ctx, action.View)
	case a.mustGet:
		a.beginGet(ctx)
	case action.Kind == rotation.ActReport:
		if a.reportHeld {
			return false
		}
		a.beginReport(ctx, action.Report)
	case action.Kind == rotation.ActGet:
		if a.getHeld {
			return false
		}
		a.beginGet(ctx)
	default:
		if a.member.Problem() == nil && a.retryAt.IsZero() {
			a.failures = 0
		}
		return false
	}
	return true
}

func (a *Agent) releaseWaiters() {
	for _, done := range a.waiters {
		close(done)
	}
	a.waiters = nil
}

// drop forgets keys at once.
func (a *Agent) drop(ids []string) {
	dropped := make([]envelope.KeyID, 0, len(ids))
	for _, id := range ids {
		a.keys.forget(id)
		if kid, err := envelope.ParseKeyID(id); err == nil {
			dropped = append(dropped, kid)
		}
	}
	a.Holder.Drop(dropped...)
	a.Logger.Info("keys forgotten", "keyIDs", ids)
}

// failed arranges for another try.
func (a *Agent) failed() {
	limit := a.RetryMax
	if a.member.Serving() {
		limit = a.RetryMaxHeld
	}
	wait := limit
	if a.failures < 20 { // beyond, the shift alone would overflow
		wait = min(limit, a.RetryMin<<a.failures)
	}
	a.failures++
	a.retryAt = time.Now().Add(a.Spread(wait))
}
