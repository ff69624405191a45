package kms

import (
	"bytes"
	"encoding/json"
	"io"
	"maps"
	"net/http"
	"sync"
	"testing"

	awsconfig "github.com/aws/aws-sdk-go-v2/config"

	"github.com/requeststate/operator/internal/kms"
	"github.com/requeststate/operator/internal/kms/aws"
	"github.com/requeststate/operator/test/kms/faultproxy"
)

// A witness is an HTTP client that keeps what the KMS answered.
type witness struct {
	mu      sync.Mutex
	answers [][]byte
}

func (c *witness) Do(r *http.Request) (*http.Response, error) {
	a, err := http.DefaultTransport.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	b, err := io.ReadAll(a.Body)
	_ = a.Body.Close()
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.answers = append(c.answers, b)
	a.Body = io.NopCloser(bytes.NewReader(b))
	return a, nil
}

// Everything that the controller does with AWS KMS, by an identity that may
// neither Decrypt nor have plaintext generated.
func TestTheControllerNeverHoldsPlaintextOfAWSKMS(t *testing.T) {
	for name, start := range map[string]func(*testing.T) *peer{"local-kms": localKMS, "moto": moto} {
		t.Run(name, func(t *testing.T) {
			p := start(t)
			arn, _ := p.key(t)
			pods := p.wrapper(t, arn, settings{})
			controller := faultproxy.Start(p.URL)
			t.Cleanup(controller.Close)
			for _, op := range []string{"Decrypt", "GenerateDataKey", "Encrypt", "ReEncrypt", "GenerateDataKeyPair"} {
				controller.Fail(op, faultproxy.AccessDenied, -1)
			}
			seen := &witness{}
			config, err := awsconfig.LoadDefaultConfig(t.Context(), awsconfig.WithRegion(region),
				awsconfig.WithBaseEndpoint(controller.URL), awsconfig.WithHTTPClient(seen))
			if err != nil {
				t.Fatal(err)
			}
			w, err := aws.New(config, arn, "", aws.Options{})
			if err != nil {
				t.Fatal(err)
			}

			if s, err := w.Status(t.Context()); err != nil || !s.Available {
				t.Fatalf("status %+v, %v", s, err)
			}
			const keys = 3
			for range keys {
				wrapped, err := w.GenerateWrapped(t.Context(), testContext)
				if err != nil {
					t.Fatalf("with Decrypt denied: %v", err)
				}
				if _, err := pods.Unwrap(t.Context(), wrapped, testContext); err != nil {
					t.Errorf("what was wrapped does not unwrap in a pod: %v", err)
				}
			}
			if want := map[string]int{"DescribeKey": 1, "GenerateDataKeyWithoutPlaintext": keys}; !maps.Equal(controller.Counts(), want) {
				t.Errorf("the controller called %v, want %v", controller.Counts(), want)
			}
			if len(seen.answers) != keys+1 {
				t.Errorf("%d answers were seen", len(seen.answers))
			}
			for _, b := range seen.answers {
				var answer struct{ Plaintext []byte }
				if err := json.Unmarshal(b, &answer); err != nil || len(answer.Plaintext) > 0 {
					t.Errorf("an answer held plaintext (%v)", err)
				}
			}
			// The identity of the test is as it says.
			wrapped, err := w.GenerateWrapped(t.Context(), testContext)
			if err != nil {
				t.Fatal(err)
			}
			_, err = w.Unwrap(t.Context(), wrapped, testContext)
			wantError(t, err, kms.Alert, "AccessDenied")
		})
	}
}

// One GenerateDataKeyWithoutPlaintext a rotation and one Decrypt a key and
// process come down to this: a call is a request.
func TestACallIsOneRequest(t *testing.T) {
	p := localKMS(t)
	arn, _ := p.key(t)
	w := p.wrapper(t, arn, settings{attempts: -1})
	wrapped, err := w.GenerateWrapped(t.Context(), testContext)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.Unwrap(t.Context(), wrapped, testContext); err != nil {
		t.Fatal(err)
	}
	if _, err := w.Status(t.Context()); err != nil {
		t.Fatal(err)
	}
	want := map[string]int{"GenerateDataKeyWithoutPlaintext": 1, "Decrypt": 1, "DescribeKey": 1}
	if !maps.Equal(p.Counts(), want) {
		t.Errorf("requests %v, want %v", p.Counts(), want)
	}
}
