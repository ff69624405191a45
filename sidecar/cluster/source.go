package cluster

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"sync"

	"github.com/go-logr/logr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"github.com/requeststate/operator/api/v1alpha1"
	"github.com/requeststate/operator/internal/rotation"
	"github.com/requeststate/operator/sidecar/agent"
)

// A Pod identifies the pod whose report is written.
type Pod struct {
	// Name and UID are the pod's. The UID is its identity: a StatefulSet's next pod has the same name.
	Name, UID string
	// Node is the node's name; it may be empty.
	Node string
}

// Config is what a Source is made of.
type Config struct {
	// REST reaches the API server as the pod's service account.
	REST *rest.Config
	// Key names the RequestStateKey, in the pod's namespace.
	Key types.NamespacedName
	// Pod is the sidecar's own.
	Pod Pod
	// Version is the sidecar's, for the report.
	Version string
	// Logger is for the watch; nil discards.
	Logger *slog.Logger
}

// A Source is an agent.Source. It is safe for concurrent use.
type Source struct {
	Config
	keys    keyClient
	reports reportClient
	bootID  string

	mu     sync.Mutex
	stored *v1alpha1.KeyringReport // as last read or written; nil: not known
}

var _ agent.Source = (*Source)(nil)

// New returns a Source with a boot id of its own. It makes no request.
func New(c Config) (*Source, error) {
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	keys, reports, err := clients(c.REST, c.Key.Namespace)
	if err != nil {
		return nil, fmt.Errorf("client for the API server: %w", err)
	}
	var boot [16]byte
	_, _ = rand.Read(boot[:]) // never fails: it ends the process instead
	return &Source{Config: c, keys: keys, reports: reports, bootID: hex.EncodeToString(boot[:])}, nil
}

// Key returns the key's name.
func (s *Source) Key() types.NamespacedName { return s.Config.Key }

// forbidden says what the API server's 403 may mean. A Role that the manager makes allows this key alone and goes with it, so that of a key that is gone the API
// server says 403, too, and not 404. It fits into a report.
const forbidden = "this pod's service account may not read the RequestStateKey: it is not named in the key's spec.serviceAccountNames, or the key was deleted, " +
	"or no manager serves this namespace (without one: config/samples/consumer_rbac.yaml)"

// Get reads the key consistently. A refusal is an *agent.Unreadable that names the remedy.
func (s *Source) Get(ctx context.Context) (rotation.View, error) {
	key, err := s.keys.Get(ctx, s.Config.Key.Name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return rotation.View{}, nil
	case apierrors.IsForbidden(err):
		return rotation.View{}, &agent.Unreadable{Message: forbidden}
	case err != nil:
		return rotation.View{}, err
	}
	return rotation.ViewOf(key), nil
}

// Watch watches the one key until ctx ends. It reconnects by itself, with back-off.
func (s *Source) Watch(ctx context.Context, seen func(rotation.View)) {
	show := func(object any) {
		if key, ok := object.(*v1alpha1.RequestStateKey); ok {
			seen(rotation.ViewOf(key))
		}
	}
	logger := logr.FromSlogHandler(s.Logger.Handler())
	informer := toolscache.NewSharedIndexInformerWithOptions(toolscache.ToListWatcherWithWatchListSemantics(s.listWatch(), s.keys),
		&v1alpha1.RequestStateKey{}, toolscache.SharedIndexInformerOptions{})
	handler := toolscache.ResourceEventHandlerFuncs{
		AddFunc:    show,
		UpdateFunc: func(_, object any) { show(object) },
		DeleteFunc: func(any) { seen(rotation.View{}) },
	}
	// Both fail only of an informer that was started before.
	_, err := informer.AddEventHandlerWithOptions(handler, toolscache.HandlerOptions{Logger: &logger})
	if err = errors.Join(err, informer.SetWatchErrorHandlerWithContext(s.watchFailed)); err != nil {
		s.Logger.Error("the key cannot be watched", "error", err.Error())
		return
	}
	informer.RunWithContext(klog.NewContext(ctx, logger))
}

// watchFailed logs why a watch ended, and no more often than the back-off lets it begin anew: about once a minute, at last. The library's own line is an error in
// its own words, which would drown what Get says of the same refusal.
func (s *Source) watchFailed(ctx context.Context, _ *toolscache.Reflector, err error) {
	const message = "the key cannot be watched for now; it is read now and then"
	switch {
	case ctx.Err() != nil || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || apierrors.IsResourceExpired(err) || apierrors.IsGone(err):
		s.Logger.Debug("the watch of the key ended, and begins anew", "error", err.Error())
	case apierrors.IsForbidden(err):
		s.Logger.Warn(message, "cause", forbidden)
	default:
		s.Logger.Warn(message, "error", err.Error())
	}
}

func (s *Source) listWatch() *toolscache.ListWatch {
	// The role names the one key; such a role allows a list or a watch only with this selector.
	only := fields.OneTermEqualSelector(metav1.ObjectNameField, s.Config.Key.Name).String()
	return &toolscache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			o.FieldSelector = only
			return s.keys.List(ctx, o)
		},
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			o.FieldSelector = only
			return s.keys.Watch(ctx, o)
		},
	}
}
