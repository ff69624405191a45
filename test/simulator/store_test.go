package simulator

import (
	"fmt"
	"maps"
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/requeststate/operator/api/v1alpha1"
)

// The resources that the simulated API server has.
const (
	keys    = "requeststatekeys"
	reports = "keyringreports"
	pods    = "pods"
)

// A store holds the objects of one namespace. It is touched only between the instants and by events, and so by one goroutine at a time.
type store struct {
	version int64
	uids    int
	objects map[string]map[string]client.Object // by resource and name
	changed func(resource, name string)         // called after each change
}

func newStore() *store {
	return &store{objects: map[string]map[string]client.Object{keys: {}, reports: {}, pods: {}}}
}

// get returns a copy of an object, or nil.
func (s *store) get(resource, name string) client.Object {
	object := s.objects[resource][name]
	if object == nil {
		return nil
	}
	return object.DeepCopyObject().(client.Object)
}

// list returns the objects of a resource in the order of their names. They must not be changed.
func (s *store) list(resource string) []client.Object {
	var objects []client.Object
	for _, name := range slices.Sorted(maps.Keys(s.objects[resource])) {
		objects = append(objects, s.objects[resource][name])
	}
	return objects
}

func resourceOf(object client.Object) string {
	switch object.(type) {
	case *v1alpha1.RequestStateKey:
		return keys
	case *v1alpha1.KeyringReport:
		return reports
	case *corev1.Pod:
		return pods
	}
	panic(fmt.Sprintf("no such resource: %T", object))
}

func groupResource(resource string) schema.GroupResource {
	if resource == pods {
		return schema.GroupResource{Resource: resource}
	}
	return schema.GroupResource{Group: v1alpha1.GroupVersion.Group, Resource: resource}
}

// put stores an object as it is, under a new resourceVersion.
func (s *store) put(object client.Object) {
	s.version++
	object.SetResourceVersion(strconv.FormatInt(s.version, 10))
	resource := resourceOf(object)
	s.objects[resource][object.GetName()] = object.DeepCopyObject().(client.Object)
	s.changed(resource, object.GetName())
}

// create stores an object that must be new, and fills in what a server fills in.
func (s *store) create(object client.Object) error {
	resource := resourceOf(object)
	if s.objects[resource][object.GetName()] != nil {
		return apierrors.NewAlreadyExists(groupResource(resource), object.GetName())
	}
	s.uids++
	object.SetUID(types.UID(fmt.Sprintf("uid-%d", s.uids)))
	object.SetCreationTimestamp(metav1.Now())
	object.SetGeneration(1)
	s.put(object)
	return nil
}

// update stores an object over the one that it was made from: all of it but its status, or nothing but its status.
func (s *store) update(object client.Object, status bool) error {
	resource := resourceOf(object)
	stored := s.get(resource, object.GetName())
	switch {
	case stored == nil:
		return apierrors.NewNotFound(groupResource(resource), object.GetName())
	case object.GetResourceVersion() == "":
		return apierrors.NewBadRequest("an update without a resourceVersion: nothing in this project makes one")
	case object.GetResourceVersion() != stored.GetResourceVersion() || object.GetUID() != stored.GetUID():
		return apierrors.NewConflict(groupResource(resource), object.GetName(), fmt.Errorf("it has been modified"))
	}
	if key, ok := object.(*v1alpha1.RequestStateKey); ok {
		was := stored.(*v1alpha1.RequestStateKey)
		if status {
			status := key.Status
			was.DeepCopyInto(key)
			key.Status = status
		} else {
			key.Status = was.Status
			if !equality.Semantic.DeepEqual(key.Spec, was.Spec) {
				key.Generation = was.Generation + 1
			}
		}
	}
	if equality.Semantic.DeepEqual(object, stored) {
		return nil
	}
	s.put(object)
	return nil
}

// remove deletes an object at once.
func (s *store) remove(resource, name string) {
	if s.objects[resource][name] == nil {
		return
	}
	s.version++
	delete(s.objects[resource], name)
	s.changed(resource, name)
}
