// Package scale has a real manager bring many keys to life by a KMS that allows few requests a second.
package scale

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/requeststate/operator/api/v1alpha1"
	"github.com/requeststate/operator/internal/testenv"
	"github.com/requeststate/operator/test/lab"
	"github.com/requeststate/operator/test/localkms"
)

var keys = flag.Int("keys", 50, "how many keys; make scale tries 1000")

// perSecond is what the KMS allows.
const perSecond = 5

func build(t *testing.T) (dir string) {
	t.Helper()
	root, err := testenv.Root()
	if err != nil {
		t.Fatal(err)
	}
	dir = t.TempDir()
	cmd := exec.Command("go", "build", "-trimpath", "-ldflags", "-s -w", "-o", dir+"/", "./cmd/manager", "./cmd/kubectl-requeststate")
	cmd.Dir, cmd.Env = root, append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return dir
}

// A fleet whose controller asks as fast as it is told to, of a KMS that allows less or just as much.
func TestPitfall24ManyKeysConvergeByAKMSThatAllowsFewRequests(t *testing.T) {
	binaries := build(t)
	for _, c := range []struct {
		name  string
		qps   string
		limit int
	}{
		{"the limiter is the KMS's own limit", fmt.Sprint(perSecond), perSecond},
		{"the limiter lets too much through", fmt.Sprint(4 * perSecond), perSecond},
	} {
		t.Run(c.name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), 15*time.Minute)
			defer cancel()
			server := localkms.Start(t.TempDir(), nil)
			t.Cleanup(server.Close)
			arn, err := server.CreateKey(ctx)
			if err != nil {
				t.Fatal(err)
			}
			l, err := lab.Start(ctx, lab.Options{Binaries: binaries, KMS: server})
			if err != nil {
				t.Fatal(err)
			}
			defer func() {
				if err := l.Stop(); err != nil {
					t.Error(err)
				}
			}()
			for i := range *keys {
				key := &v1alpha1.RequestStateKey{
					ObjectMeta: metav1.ObjectMeta{Namespace: l.Namespace, Name: fmt.Sprintf("key-%04d", i)},
					Spec:       v1alpha1.RequestStateKeySpec{KMS: v1alpha1.KMSSpec{AWS: &v1alpha1.AWSKMSSpec{KeyID: arn}}},
				}
				if err := l.Env.Client.Create(ctx, key); err != nil {
					t.Fatal(err)
				}
			}
			server.Limit(c.limit)
			before, _, _ := server.Load()
			start := time.Now()
			if _, err := l.StartManager(ctx, lab.ManagerOptions{Args: []string{"--kms-qps", c.qps}}); err != nil {
				t.Fatal(err)
			}
			awaitReady(ctx, t, l)
			took := time.Since(start)
			requests, throttled, peak := server.Load()
			requests -= before
			t.Logf("scale: keys=%d seconds=%.0f requests=%d (%.1f/s, at most %d in a second) throttled=%d", *keys, took.Seconds(), requests, float64(requests)/took.Seconds(), peak, throttled)
			if made := server.Granted("GenerateDataKeyWithoutPlaintext"); made < *keys || made > *keys+1 {
				t.Errorf("%d data keys for %d RequestStateKeys", made, *keys)
			}
			if described := server.Count("DescribeKey"); described > 10 {
				t.Errorf("%d looks at one KMS key", described)
			}
			if requests > 4**keys+10 {
				t.Errorf("%d requests for %d keys: what is throttled is asked again too often", requests, *keys)
			}
		})
	}
}

func awaitReady(ctx context.Context, t *testing.T, l *lab.Lab) {
	t.Helper()
	for {
		list := &v1alpha1.RequestStateKeyList{}
		if err := l.Env.Client.List(ctx, list, client.InNamespace(l.Namespace)); err != nil {
			t.Fatal(err)
		}
		ready := 0
		for i := range list.Items {
			if meta.IsStatusConditionTrue(list.Items[i].Status.Conditions, v1alpha1.ConditionReady) {
				ready++
			}
		}
		if ready == *keys {
			return
		}
		if err := lab.Wait(ctx, time.Second); err != nil {
			t.Fatalf("%d of %d keys are ready: %v", ready, *keys, err)
		}
	}
}
