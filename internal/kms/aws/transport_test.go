package aws

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"

	"github.com/requeststate/operator/internal/kms"
)

func TestAnAnswerThatIsCutOffIsTheNetworksFaultAndRetried(t *testing.T) {
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		w.Header().Set("Content-Length", "100")
		_, _ = io.WriteString(w, `{"KeyId":"`)
		_ = http.NewResponseController(w).Flush()
		panic(http.ErrAbortHandler)
	}))
	defer srv.Close()
	_, err := mustNew(t, testConfig(srv.URL), testARN).GenerateWrapped(t.Context(), testContext)
	if kms.ClassOf(err) != kms.Retry || kms.CodeOf(err) != kms.CodeNetwork {
		t.Errorf("error %v of class %s", err, kms.ClassOf(err))
	}
}

// Both close the connection under a reader, and so end in the same error.
func TestAClosedConnectionIsATimeoutOnlyWhenTheTimeWasOver(t *testing.T) {
	w := mustNew(t, testConfig("http://127.0.0.1:1"), testARN)
	closed := fmt.Errorf("reading: %w", net.ErrClosed)
	if err := w.failure(opGenerate, time.Now(), closed); kms.CodeOf(err) != kms.CodeNetwork || kms.ClassOf(err) != kms.Retry {
		t.Errorf("at once: %v", err)
	}
	if err := w.failure(opGenerate, time.Now().Add(-w.attempt), closed); kms.CodeOf(err) != kms.CodeTimeout || kms.ClassOf(err) != kms.Retry {
		t.Errorf("after the time: %v", err)
	}
}

func TestCredentialsThatAreNotAcceptedAreNamedInTheRemedy(t *testing.T) {
	for _, code := range []string{"ExpiredTokenException", "UnrecognizedClientException", "InvalidClientTokenId", "MissingAuthenticationToken"} {
		w := mustNew(t, service(t, func(string, map[string]any) (int, any) {
			return http.StatusBadRequest, map[string]any{"__type": code}
		}), testARN)
		_, err := w.Status(t.Context())
		if kms.ClassOf(err) != kms.Alert || err == nil || !strings.Contains(err.Error(), "credentials of this process") {
			t.Errorf("%s: error %v of class %s", code, err, kms.ClassOf(err))
		}
	}
}

// A configuration with a CA bundle or a proxy brings a client of its own.
func TestTheAttemptTimeoutHoldsForEachClientOfTheSDK(t *testing.T) {
	for name, client := range map[string]*awshttp.BuildableClient{"none": nil, "the configuration's": awshttp.NewBuildableClient()} {
		cfg := testConfig("http://127.0.0.1:1")
		if client != nil {
			cfg.HTTPClient = client
		}
		w, err := New(cfg, testARN, "", Options{AttemptTimeout: 3 * time.Second})
		if err != nil {
			t.Fatal(err)
		}
		if c, ok := w.client.Options().HTTPClient.(*awshttp.BuildableClient); !ok || c.GetTimeout() != 3*time.Second {
			t.Errorf("%s: the client is %T without the timeout", name, w.client.Options().HTTPClient)
		}
	}
}
