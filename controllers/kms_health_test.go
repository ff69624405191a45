package controllers

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/requeststate/operator/api/v1alpha1"
	"github.com/requeststate/operator/internal/envelope"
	"github.com/requeststate/operator/internal/kms"
)

// A scriptedKMS answers as it is told to.
type scriptedKMS struct {
	mu             sync.Mutex
	status         kms.Status
	statusErr      error
	wrapErr        error
	hang           chan struct{} // closed when it may answer; nil: at once
	statuses, keys int
}

func (k *scriptedKMS) set(change func()) {
	k.mu.Lock()
	defer k.mu.Unlock()
	change()
}

func (k *scriptedKMS) asked() int {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.statuses
}

func (k *scriptedKMS) wrappers(context.Context, v1alpha1.KMSSpec) (kms.Wrapper, error) { return k, nil }

func (k *scriptedKMS) GenerateWrapped(context.Context, kms.EncryptionContext) (kms.Wrapped, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.keys++
	return kms.Wrapped{Blob: []byte{byte(k.keys)}, ResolvedARN: "arn:aws:kms:eu-west-1:1:key/1"}, k.wrapErr
}

func (k *scriptedKMS) Unwrap(context.Context, kms.Wrapped, kms.EncryptionContext) (envelope.DataKey, error) {
	panic("the controller unwraps nothing")
}

func (k *scriptedKMS) Status(ctx context.Context) (kms.Status, error) {
	k.mu.Lock()
	k.statuses++
	hang := k.hang
	k.mu.Unlock()
	if hang != nil {
		select {
		case <-hang:
		case <-ctx.Done():
			return kms.Status{}, kms.NewError(kms.Retry, "scripted", kms.CodeTimeout, "wait", ctx.Err())
		}
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.status, k.statusErr
}

func awsKey(id string) v1alpha1.KMSSpec {
	return v1alpha1.KMSSpec{AWS: &v1alpha1.AWSKMSSpec{KeyID: id}}
}

func TestAKMSKeyIsAskedForNowAndThenHoweverManyNameIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := &scriptedKMS{status: kms.Status{Available: true, Reason: "Enabled"}}
		h := NewKMSHealth(k.wrappers, nil, time.Now)
		look := func(id string) (problem string, known bool) {
			o, _, again := h.look(t.Context(), "prod", awsKey(id))
			if again <= 0 {
				t.Errorf("again %s", again)
			}
			if o == nil {
				return "", false
			}
			return o.Problem, true
		}
		if _, known := look("a"); known {
			t.Error("known before it was asked for")
		}
		synctest.Wait()
		for range 1000 {
			if problem, known := look("a"); problem != "" || !known {
				t.Errorf("%q, %t", problem, known)
			}
		}
		time.Sleep(healthEvery / 2)
		look("a")
		synctest.Wait()
		if k.asked() != 1 {
			t.Errorf("asked %d times, want once", k.asked())
		}
		k.set(func() { k.status = kms.Status{Reason: "PendingDeletion", Message: "cancel its deletion"} })
		time.Sleep(healthEvery)
		look("a")
		synctest.Wait()
		if problem, _ := look("a"); problem != "PendingDeletion: cancel its deletion" {
			t.Errorf("problem %q", problem)
		}
		k.set(func() { k.status = kms.Status{Available: true, Reason: "Enabled"} })
		time.Sleep(2 * healthSoon) // sooner, while something is wrong
		look("a")
		synctest.Wait()
		if problem, _ := look("a"); problem != "" {
			t.Errorf("problem %q after it was mended", problem)
		}
		k.set(func() { k.statusErr = kms.NewError(kms.Alert, "aws DescribeKey", "AccessDenied", "allow it", nil) })
		time.Sleep(2 * healthEvery)
		look("a")
		synctest.Wait()
		if problem, known := look("a"); problem != "" || !known {
			t.Errorf("that it may not ask is no problem of the key: %q, %t", problem, known)
		}
		look("b")
		time.Sleep(2 * healthForget)
		look("c")
		synctest.Wait()
		if len(h.known) != 1 {
			t.Errorf("%d keys are remembered, want the one that is looked at", len(h.known))
		}
	})
}

func TestANamespaceSeesNothingOfAKeyThatItMayNotUse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := &scriptedKMS{status: kms.Status{Reason: "Disabled", Message: "enable it"}}
		h := NewKMSHealth(k.wrappers, nil, time.Now)
		h.Allows = func(namespace string, _ *v1alpha1.KMSSpec) bool { return namespace == "prod" }
		for _, namespace := range []string{"test", "prod", "prod", "test"} {
			o, _, _ := h.look(t.Context(), namespace, awsKey("a"))
			synctest.Wait()
			if namespace == "test" && o != nil {
				t.Errorf("%+v", o)
			}
		}
		if k.asked() != 1 {
			t.Errorf("asked %d times", k.asked())
		}
	})
}

func TestAKMSThatHangsHoldsUpNobodyWhoLooks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := &scriptedKMS{hang: make(chan struct{})}
		h := NewKMSHealth(k.wrappers, nil, time.Now)
		start := time.Now()
		for range 10 {
			for _, id := range []string{"a", "b", "c", "d"} {
				h.look(t.Context(), "prod", awsKey(id))
			}
		}
		synctest.Wait()
		if time.Since(start) != 0 || k.asked() != healthAtOnce {
			t.Errorf("%s passed, %d questions under way", time.Since(start), k.asked())
		}
		time.Sleep(2 * healthDeadline)
		synctest.Wait()
		if o, _, _ := h.look(t.Context(), "prod", awsKey("a")); o == nil || !strings.Contains(o.Problem, "Timeout") {
			t.Errorf("%+v", o)
		}
		close(k.hang)
		synctest.Wait()
	})
}

func TestAKMSThatDoesNotAnswerIsLeftAloneForAWhile(t *testing.T) {
	var o outages
	now := time.Now()
	timeout := kms.NewError(kms.Retry, "op", kms.CodeTimeout, "", nil)
	throttled := kms.NewError(kms.Retry, "op", "Throttling", "", nil)
	for i, step := range []struct {
		after time.Duration
		begin bool
		err   error
	}{
		{0, true, throttled}, {0, true, timeout}, {time.Second, false, nil}, {outageProbe, true, timeout}, {time.Second, false, nil}, {outageProbe, true, nil}, {0, true, nil},
	} {
		now = now.Add(step.after)
		if got := o.begin("aws eu-west-1", now) == nil; got != step.begin {
			t.Errorf("step %d: %t", i, got)
		} else if got {
			o.end("aws eu-west-1", step.err, now)
		}
	}
	o.end("aws eu-west-1", timeout, now)
	now = now.Add(outageProbe)
	if o.begin("aws eu-west-1", now) != nil || o.begin("aws eu-west-1", now) == nil {
		t.Error("one question finds out, not two")
	}
	if o.end("", timeout, now); o.begin("aws us-east-1", now) != nil || o.begin("", now) != nil {
		t.Error("another service is another matter")
	}
	for want, stanza := range map[string]v1alpha1.KMSSpec{
		"aws eu-west-1": awsKey("arn:aws:kms:eu-west-1:111122223333:key/x"), "aws ": awsKey("alias/x"),
		"aws us-east-1": {AWS: &v1alpha1.AWSKMSSpec{KeyID: "x", Region: "us-east-1"}}, "": {Age: &v1alpha1.AgeKMSSpec{}},
	} {
		if got := serviceOf(&stanza); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// asks returns a Reconciler whose every request goes to a scripted KMS, and a function that has it wrap a data key in a namespace.
func asks(k *scriptedKMS, now func() time.Time) (*Reconciler, func(t *testing.T, namespace string, stanza v1alpha1.KMSSpec) error) {
	r := &Reconciler{Wrappers: k.wrappers, Now: now}
	return r, func(t *testing.T, namespace string, stanza v1alpha1.KMSSpec) error {
		t.Helper()
		key := &v1alpha1.RequestStateKey{Spec: v1alpha1.RequestStateKeySpec{KMS: stanza}}
		key.Namespace, key.Name = namespace, "deployer"
		_, err := r.wrap(t.Context(), key)
		return err
	}
}

const euWest = "arn:aws:kms:eu-west-1:111122223333:key/"

func TestWhatIsRefusedWithoutAskingIsRefusedForThatReasonInAnOutageToo(t *testing.T) {
	now := time.Now()
	k := &scriptedKMS{wrapErr: kms.NewError(kms.Retry, "aws GenerateDataKeyWithoutPlaintext", kms.CodeTimeout, "AWS KMS cannot be reached", nil)}
	r, wrap := asks(k, func() time.Time { return now })
	r.Refuses = func(namespace string, _ *v1alpha1.KMSSpec) error {
		if namespace == "prod" {
			return nil
		}
		return kms.NewError(kms.Alert, "kms", kms.CodeNotAllowed, "not here", nil)
	}
	r.Wrappers = func(ctx context.Context, stanza v1alpha1.KMSSpec) (kms.Wrapper, error) {
		if stanza.AWS.Region == "us-east-1" {
			return nil, kms.NewError(kms.Alert, "aws", kms.CodeInvalidSpec, "the region contradicts the ARN", nil)
		}
		return k.wrappers(ctx, stanza)
	}
	wrong := awsKey(euWest + "x")
	wrong.AWS.Region = "us-east-1"
	if err := wrap(t, "prod", awsKey(euWest+"x")); kms.CodeOf(err) != kms.CodeTimeout {
		t.Fatal(err)
	}
	for range 3 {
		if err := wrap(t, "test", awsKey(euWest+"x")); kms.CodeOf(err) != kms.CodeNotAllowed {
			t.Errorf("%v, want NotAllowed", err)
		}
		if err := wrap(t, "prod", wrong); kms.CodeOf(err) != kms.CodeInvalidSpec {
			t.Errorf("%v, want InvalidSpec", err)
		}
		// Nobody was asked, and so the outage is not over.
		if err := wrap(t, "prod", awsKey(euWest+"y")); kms.CodeOf(err) != kms.CodeOutage {
			t.Errorf("%v, want Outage", err)
		}
	}
	if k.keys != 1 {
		t.Errorf("the KMS was asked %d times, want once", k.keys)
	}
}

func TestAnOutageRepeatsItsCause(t *testing.T) {
	now := time.Now()
	k := &scriptedKMS{wrapErr: kms.NewError(kms.Retry, "aws GenerateDataKeyWithoutPlaintext", kms.CodeNetwork, "AWS KMS cannot be reached: check DNS", errors.New("dial tcp 192.0.2.1"))}
	_, wrap := asks(k, func() time.Time { return now })
	_ = wrap(t, "prod", awsKey(euWest+"x"))
	for range 2 {
		err := wrap(t, "prod", awsKey(euWest+"y"))
		if kms.CodeOf(err) != kms.CodeOutage || !strings.Contains(err.Error(), "the KMS does not answer (Network: AWS KMS cannot be reached: check DNS); ") ||
			strings.Contains(err.Error(), "192.0.2.1") {
			t.Errorf("%v", err)
		}
	}
}

func TestADisabledKMSKeyIsSeenBeforeTheNextRotation(t *testing.T) {
	k := &scriptedKMS{status: kms.Status{Available: true, Reason: "Enabled"}}
	w := newWorld(t)
	w.wrappers = k.wrappers
	w.createKey(func(key *v1alpha1.RequestStateKey) { key.Spec.KMS = awsKey("arn:aws:kms:eu-west-1:111122223333:key/x") })
	r := w.byHand(nil)
	r.Health = NewKMSHealth(k.wrappers, nil, w.now)
	generation := w.settle(r).Status.Keyring.Generation
	// await has the key asked for and what comes of it written.
	await := func(what string, fine func(*v1alpha1.RequestStateKey) bool) {
		t.Helper()
		w.sleep(2 * healthEvery)
		for deadline := time.Now().Add(patience); ; time.Sleep(10 * time.Millisecond) {
			if key := w.settle(r); fine(key) {
				return
			} else if time.Now().After(deadline) {
				t.Fatalf("%s: conditions %+v", what, key.Status.Conditions)
			}
		}
	}
	condition := func(key *v1alpha1.RequestStateKey) (status, reason, message string) {
		c := meta.FindStatusCondition(key.Status.Conditions, v1alpha1.ConditionKMSAvailable)
		if c == nil {
			return "", "", ""
		}
		return string(c.Status), c.Reason, c.Message
	}
	k.set(func() { k.status = kms.Status{Reason: "Disabled", Message: "enable it"} })
	await("disabled", func(key *v1alpha1.RequestStateKey) bool {
		status, reason, message := condition(key)
		return status == "False" && reason == v1alpha1.ReasonKMSCheckFailed && message == "Disabled: enable it" &&
			meta.IsStatusConditionTrue(key.Status.Conditions, v1alpha1.ConditionReady) && key.Status.Keyring.Generation == generation
	})
	told := 0
	for len(w.recorder.Events) > 0 {
		if event := <-w.recorder.Events; strings.Contains(event, "KMSUnavailable") && strings.Contains(event, "enable it") {
			told++
		}
	}
	if told != 1 {
		t.Errorf("%d events, want one", told)
	}
	// A rotation is tried nevertheless, and at once: what a look showed puts nothing off.
	k.set(func() {
		k.wrapErr = kms.NewError(kms.Alert, "aws GenerateDataKeyWithoutPlaintext", "Disabled", "enable the key", nil)
	})
	w.requestRotation()
	await("a rotation that needs it", func(key *v1alpha1.RequestStateKey) bool {
		_, reason, message := condition(key)
		return reason == v1alpha1.ReasonKMSError && strings.Contains(message, "enable the key") && key.Status.Phase == v1alpha1.PhaseStable
	})
	// While a step waits for a data key, only a request for one says that the KMS is well again.
	k.set(func() { k.status = kms.Status{Available: true, Reason: "Enabled"} })
	w.settle(r)
	if status, _, _ := condition(w.get()); status != "False" {
		t.Error("a look is taken for an answer to the request that failed")
	}
	k.set(func() { k.wrapErr = nil })
	await("mended", func(key *v1alpha1.RequestStateKey) bool {
		status, _, _ := condition(key)
		return status == "True" && key.Status.Keyring.Generation > generation
	})
}
