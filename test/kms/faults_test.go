package kms

import (
	"context"
	"strings"
	"testing"
	"time"

	awsconfig "github.com/aws/aws-sdk-go-v2/config"
	awskms "github.com/aws/aws-sdk-go-v2/service/kms"

	"github.com/requeststate/operator/internal/kms"
	"github.com/requeststate/operator/test/kms/faultproxy"
)

// patience is for what must end by itself soon.
const patience = 10 * time.Second

// The three requests that a Wrapper makes.
var requests = map[string]func(context.Context, kms.Wrapper, kms.Wrapped) error{
	"GenerateDataKeyWithoutPlaintext": func(ctx context.Context, w kms.Wrapper, _ kms.Wrapped) error {
		_, err := w.GenerateWrapped(ctx, testContext)
		return err
	},
	"Decrypt": func(ctx context.Context, w kms.Wrapper, wrapped kms.Wrapped) error {
		_, err := w.Unwrap(ctx, wrapped, testContext)
		return err
	},
	"DescribeKey": func(ctx context.Context, w kms.Wrapper, _ kms.Wrapped) error {
		_, err := w.Status(ctx)
		return err
	},
}

// faulty is what a fault comes to: the class and code of the error, and how
// often the SDK asks before it gives up.
type faulty struct {
	fault    faultproxy.Fault
	class    kms.Class
	code     string
	attempts int
}

var faults = []faulty{
	{faultproxy.Throttling, kms.Retry, "Throttling", 3},
	{faultproxy.LimitExceeded, kms.Retry, "LimitExceeded", 3},
	{faultproxy.KMSInternal, kms.Retry, "KMSInternal", 3},
	{faultproxy.DependencyTimeout, kms.Retry, "DependencyTimeout", 3},
	{faultproxy.KeyUnavailable, kms.Retry, "KeyUnavailable", 3},
	{faultproxy.HTML, kms.Retry, kms.CodeUnexpected, 3},
	{faultproxy.Hang, kms.Retry, kms.CodeTimeout, 3},
	{faultproxy.SlowBody, kms.Retry, kms.CodeTimeout, 3},
	{faultproxy.Reset, kms.Retry, kms.CodeNetwork, 3},
	// The SDK takes an answer that was cut off for one that it cannot read: it
	// waits for the caller's next call.
	{faultproxy.Cut, kms.Retry, kms.CodeNetwork, 1},

	// Whole by its length and still no JSON: whoever stands between made that.
	{faultproxy.Truncated, kms.Alert, kms.CodeClient, 1},
	{faultproxy.AccessDenied, kms.Alert, "AccessDenied", 1},
	{faultproxy.Disabled, kms.Alert, "Disabled", 1},
	{faultproxy.InvalidState, kms.Alert, "KMSInvalidState", 1},
	{faultproxy.NotFound, kms.Alert, "NotFound", 1},
	{faultproxy.ExpiredToken, kms.Alert, "ExpiredToken", 1},
	{faultproxy.UnrecognizedClient, kms.Alert, "UnrecognizedClient", 1},

	{faultproxy.IncorrectKey, kms.KeyOnly, "IncorrectKey", 1},
	{faultproxy.InvalidCiphertext, kms.KeyOnly, "InvalidCiphertext", 1},
}

func TestEachFaultHasItsClassAndItsNumberOfAttempts(t *testing.T) {
	url := serveLocalKMS(t)
	arn, _ := behind(t, url).key(t)
	wrapped, err := behind(t, url).wrapper(t, arn, settings{}).GenerateWrapped(t.Context(), testContext)
	if err != nil {
		t.Fatal(err)
	}
	// Grouped, so that the KMS outlives the parallel tests.
	t.Run("faults", func(t *testing.T) {
		for _, f := range faults {
			t.Run(string(f.fault), func(t *testing.T) {
				t.Parallel()
				p := behind(t, url)
				timeout := patience // for what is answered, however slowly on a busy machine
				if f.code == kms.CodeTimeout {
					timeout = 500 * time.Millisecond
				}
				w := p.wrapper(t, arn, settings{attempts: -1, attemptTimeout: timeout})
				p.Fail(faultproxy.AnyOp, f.fault, -1)
				for op, ask := range requests {
					err := ask(t.Context(), w, wrapped)
					wantError(t, err, f.class, f.code)
					if n := p.Count(op); n != f.attempts {
						t.Errorf("%s was asked %d times, want %d", op, n, f.attempts)
					}
					if err != nil && (strings.Contains(err.Error(), "role-of-secrets") || strings.Contains(err.Error(), "html")) {
						t.Errorf("the error repeats what was answered: %v", err)
					}
				}
				p.Heal()
				for op, ask := range requests {
					if err := ask(t.Context(), w, wrapped); err != nil {
						t.Errorf("%s after the fault was gone: %v", op, err)
					}
				}
			})
		}
	})
}

func TestAFaultThatGoesAwayIsOvercomeWithinOneCall(t *testing.T) {
	url := serveLocalKMS(t)
	arn, _ := behind(t, url).key(t)
	t.Run("faults", func(t *testing.T) {
		for _, f := range faults {
			if f.attempts == 1 {
				continue
			}
			t.Run(string(f.fault), func(t *testing.T) {
				t.Parallel()
				p := behind(t, url)
				w := p.wrapper(t, arn, settings{attempts: -1, attemptTimeout: time.Second})
				p.Fail(faultproxy.AnyOp, f.fault, 2)
				if _, err := w.GenerateWrapped(t.Context(), testContext); err != nil {
					t.Errorf("error %v", err)
				}
				if n := p.Count(faultproxy.AnyOp); n != 3 {
					t.Errorf("%d attempts, want 3", n)
				}
			})
		}
	})
}

func TestCredentialsThatExpireInMidFlightAreAnAlertAndNewOnesAreEnough(t *testing.T) {
	p := localKMS(t)
	arn, _ := p.key(t)
	w := p.wrapper(t, arn, settings{attempts: -1})
	wrapped, err := w.GenerateWrapped(t.Context(), testContext)
	if err != nil {
		t.Fatal(err)
	}
	p.Fail("Decrypt", faultproxy.Pass, 1)
	p.Fail("Decrypt", faultproxy.ExpiredToken, 1)
	p.Fail("Decrypt", faultproxy.UnrecognizedClient, 1)
	for i, code := range []string{"OK", "ExpiredToken", "UnrecognizedClient", "OK"} {
		_, err := w.Unwrap(t.Context(), wrapped, testContext)
		if code == "OK" {
			if err != nil {
				t.Errorf("call %d: %v", i+1, err)
			}
			continue
		}
		wantError(t, err, kms.Alert, code)
		if err != nil && !strings.Contains(err.Error(), "credentials") {
			t.Errorf("the error does not say what to mend: %v", err)
		}
	}
	if n := p.Count("Decrypt"); n != 4 {
		t.Errorf("%d requests for 4 calls", n)
	}
}

func TestADisabledKeyIsSeenOnceTheKMSKnows(t *testing.T) {
	p := localKMS(t)
	arn, _ := p.key(t)
	config, err := awsconfig.LoadDefaultConfig(t.Context(), awsconfig.WithRegion(region), awsconfig.WithBaseEndpoint(p.URL))
	if err != nil {
		t.Fatal(err)
	}
	w := p.wrapper(t, arn, settings{})
	wrapped, err := w.GenerateWrapped(t.Context(), testContext)
	if err != nil {
		t.Fatal(err)
	}
	p.StaleAfterDisable(3)
	if _, err := awskms.NewFromConfig(config).DisableKey(t.Context(), &awskms.DisableKeyInput{KeyId: &arn}); err != nil {
		t.Fatal(err)
	}
	for op, ask := range requests {
		if err := ask(t.Context(), w, wrapped); err != nil {
			t.Errorf("%s while the KMS does not know yet: %v", op, err)
		}
	}
	// No Wrapper keeps the answer of before.
	if s, err := w.Status(t.Context()); err != nil || s.Available || s.Reason != "Disabled" {
		t.Errorf("status %+v, %v", s, err)
	}
	_, err = w.GenerateWrapped(t.Context(), testContext)
	wantError(t, err, kms.Alert, "Disabled")
	_, err = w.Unwrap(t.Context(), wrapped, testContext)
	wantError(t, err, kms.Alert, "Disabled")
}
