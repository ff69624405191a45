package lab

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/requeststate/operator/api/v1alpha1"
	"github.com/requeststate/operator/internal/testenv"
)

// The settings of a Lab's key. A short ttl keeps a rotation short; nobody would run with it.
const (
	TTL       = 10 * time.Second
	ClockSkew = time.Second
)

// ApplyKey makes an age identity and a key for it with the kubectl plugin, as a platform team would, and applies the key with a short ttl. With a KMS the key is
// wrapped by a new key of that instead. change, if not nil, may change the key before.
func (l *Lab) ApplyKey(ctx context.Context, change func(*v1alpha1.RequestStateKey)) error {
	l.identity = filepath.Join(l.dir, "identity.txt")
	plugin := exec.CommandContext(ctx, filepath.Join(l.options.Binaries, "kubectl-requeststate"), "init", KeyName, "--namespace", l.Namespace, "--identity-out", l.identity)
	manifest, err := plugin.Output()
	if err != nil {
		return fmt.Errorf("kubectl requeststate init: %w", err)
	}
	path := filepath.Join(l.dir, "manifest.yaml")
	if err := os.WriteFile(path, manifest, 0o600); err != nil {
		return err
	}
	objects, err := testenv.Manifest(path)
	if err != nil {
		return err
	}
	for _, o := range objects {
		if o.GetKind() != "RequestStateKey" {
			continue
		}
		raw, err := o.MarshalJSON()
		if err != nil {
			return err
		}
		key := &v1alpha1.RequestStateKey{}
		if err := yaml.UnmarshalStrict(raw, key); err != nil {
			return err
		}
		key.Spec.TTL, key.Spec.ClockSkew = &metav1.Duration{Duration: TTL}, &metav1.Duration{Duration: ClockSkew}
		wrapping := "kms.age with a fresh identity"
		if kms := l.options.KMS; kms != nil {
			arn, err := kms.CreateKey(ctx)
			if err != nil {
				return err
			}
			key.Spec.KMS = v1alpha1.KMSSpec{AWS: &v1alpha1.AWSKMSSpec{KeyID: arn}}
			l.identity, wrapping = "", "kms.aws with "+arn
		}
		if change != nil {
			change(key)
		}
		if err := l.Env.Client.Create(ctx, key); err != nil {
			return err
		}
		l.say("applied RequestStateKey %s/%s: ttl %s, clockSkew %s, %s", key.Namespace, key.Name, TTL, ClockSkew, wrapping)
		return nil
	}
	return errors.New("kubectl requeststate init printed no RequestStateKey")
}

// Key reads the key.
func (l *Lab) Key(ctx context.Context) (*v1alpha1.RequestStateKey, error) {
	key := &v1alpha1.RequestStateKey{}
	return key, l.Env.Client.Get(ctx, types.NamespacedName{Namespace: l.Namespace, Name: KeyName}, key)
}

// RequestRotation annotates the key, as kubectl annotate would, and returns the nonce that status will echo.
func (l *Lab) RequestRotation(ctx context.Context) (nonce string, err error) {
	nonce = time.Now().UTC().Format(time.RFC3339Nano)
	patch := fmt.Appendf(nil, `{"metadata":{"annotations":{%q:%q}}}`, v1alpha1.AnnotationRotateAt, nonce)
	key := &v1alpha1.RequestStateKey{ObjectMeta: metav1.ObjectMeta{Namespace: l.Namespace, Name: KeyName}}
	return nonce, l.Env.Client.Patch(ctx, key, client.RawPatch(types.MergePatchType, patch))
}

// rewatch is the wait before a watch that ended, or could not be had, is asked for again.
const rewatch = 100 * time.Millisecond

// Await watches the key until it fulfils a condition, and returns it. It survives a restart of the API server. The error says what was waited for.
func (l *Lab) Await(ctx context.Context, what string, condition func(*v1alpha1.RequestStateKey) bool) (*v1alpha1.RequestStateKey, error) {
	watcher, err := client.NewWithWatch(l.Env.Config, client.Options{Scheme: l.Env.Scheme})
	if err != nil {
		return nil, err
	}
	var last *v1alpha1.RequestStateKey
	for ctx.Err() == nil {
		stream, err := watcher.Watch(ctx, &v1alpha1.RequestStateKeyList{}, client.InNamespace(l.Namespace))
		if err == nil {
			done := follow(ctx, stream, func(key *v1alpha1.RequestStateKey) bool {
				last = key
				return condition(key)
			})
			if done {
				return last, nil
			}
		}
		_ = Wait(ctx, rewatch)
	}
	return last, fmt.Errorf("waiting for %s: %w; the key is now:\n%s", what, ctx.Err(), describe(last))
}

// follow shows the keys of a watch to seen until that returns true or the watch ends.
func follow(ctx context.Context, stream watch.Interface, seen func(*v1alpha1.RequestStateKey) bool) bool {
	defer stream.Stop()
	for {
		select {
		case <-ctx.Done():
			return false
		case event, ok := <-stream.ResultChan():
			if !ok {
				return false
			}
			if key, ok := event.Object.(*v1alpha1.RequestStateKey); ok && seen(key) {
				return true
			}
		}
	}
}

// describe prints a key's status for an error.
func describe(key *v1alpha1.RequestStateKey) string {
	if key == nil {
		return "unknown"
	}
	content, err := yaml.Marshal(key.Status)
	if err != nil {
		return err.Error()
	}
	return string(content)
}

// AwaitRotation waits until the rotation that a nonce asked for is over.
func (l *Lab) AwaitRotation(ctx context.Context, nonce string) (*v1alpha1.RequestStateKey, error) {
	return l.Await(ctx, "the end of the rotation", func(key *v1alpha1.RequestStateKey) bool {
		return key.Status.LastHandledRotateAt == nonce && key.Status.Phase == v1alpha1.PhaseStable
	})
}
