package aws

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/requeststate/operator/internal/kms"
)

// A data key that a multi-Region primary wrapped is unwrapped by whichever of
// the related keys the stored ARN names, in the Region of that key. The service
// here has one key in two Regions and, as AWS does, finds by an ARN only what
// is in the Region that a request is signed for.
func TestTheStoredARNDecidesWhichRegionUnwraps(t *testing.T) {
	const (
		id      = ":111122223333:key/mrk-1234abcd12ab34cd56ef1234567890ab"
		primary = "arn:aws:kms:eu-west-1" + id
		replica = "arn:aws:kms:eu-central-1" + id
	)
	var calls []string
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body)
		var in map[string]any
		if err := json.Unmarshal(b, &in); err != nil {
			t.Error(err)
		}
		region := strings.Split(r.Header.Get("Authorization"), "/")[2] // Credential=ID/date/region/…
		calls = append(calls, strings.TrimPrefix(r.Header.Get("X-Amz-Target"), "TrentService.")+" in "+region)
		w.Header().Set("Content-Type", "application/x-amz-json-1.1")
		if in["KeyId"] != "arn:aws:kms:"+region+id {
			w.WriteHeader(http.StatusBadRequest)
			_, _ = io.WriteString(w, `{"__type": "NotFoundException"}`)
			return
		}
		_ = json.NewEncoder(w).Encode(map[string]any{"KeyId": in["KeyId"], "CiphertextBlob": []byte("x"), "Plaintext": bytes.Repeat([]byte{7}, 32)})
	}))
	t.Cleanup(srv.Close)
	cfg := testConfig(srv.URL)
	cfg.Region = "us-east-1" // nobody's

	wrapped, err := mustNew(t, cfg, primary).GenerateWrapped(t.Context(), testContext)
	if err != nil || wrapped.ResolvedARN != primary {
		t.Fatalf("wrapped by %s, %v", wrapped.ResolvedARN, err)
	}
	for _, arn := range []string{primary, replica} {
		// As provider.New does: a client for the ARN, and the ARN in the request.
		if _, err := mustNew(t, cfg, arn).Unwrap(t.Context(), kms.Wrapped{Blob: wrapped.Blob, ResolvedARN: arn}, testContext); err != nil {
			t.Errorf("%s: %v", arn, err)
		}
	}
	want := []string{"GenerateDataKeyWithoutPlaintext in eu-west-1", "Decrypt in eu-west-1", "Decrypt in eu-central-1"}
	if !slices.Equal(calls, want) {
		t.Errorf("calls %q, want %q", calls, want)
	}
}
