package aws

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"

	"github.com/requeststate/operator/internal/kms"
)

// A role that STS does not give is no fault of the key, and a provider of identities that does not answer is none of the role.
func TestCredentialsThatSTSDoesNotGiveAreToldApart(t *testing.T) {
	code := ""
	sts := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusForbidden)
		_, _ = fmt.Fprintf(w, `<ErrorResponse><Error><Type>Sender</Type><Code>%s</Code><Message>role of secrets</Message></Error></ErrorResponse>`, code)
	}))
	t.Cleanup(sts.Close)
	service := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("the KMS was asked without credentials") }))
	t.Cleanup(service.Close)
	token := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(token, []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, value := range map[string]string{
		"AWS_ROLE_ARN": "arn:aws:iam::111122223333:role/pods", "AWS_WEB_IDENTITY_TOKEN_FILE": token, "AWS_ENDPOINT_URL_STS": sts.URL, "AWS_ENDPOINT_URL_KMS": service.URL,
		"AWS_REGION": "eu-west-1", "AWS_MAX_ATTEMPTS": "1", "AWS_EC2_METADATA_DISABLED": "true", "AWS_ACCESS_KEY_ID": "", "AWS_SECRET_ACCESS_KEY": "",
		"AWS_CONFIG_FILE": token + "-none", "AWS_SHARED_CREDENTIALS_FILE": token + "-none", "AWS_PROFILE": "",
	} {
		t.Setenv(name, value)
	}
	for sent, class := range map[string]kms.Class{"AccessDenied": kms.Alert, "InvalidIdentityToken": kms.Alert, "IDPCommunicationError": kms.Retry, "Throttling": kms.Retry} {
		code = sent
		w, err := new(Clients).Wrapper(t.Context(), "arn:aws:kms:eu-west-1:111122223333:key/1", "")
		if err != nil {
			t.Fatal(err)
		}
		_, err = w.GenerateWrapped(t.Context(), testContext)
		if kms.ClassOf(err) != class || kms.CodeOf(err) != kms.CodeCredentials {
			t.Errorf("%s: class %s, code %s, %v", sent, kms.ClassOf(err), kms.CodeOf(err), err)
		}
		if _, err := w.Status(t.Context()); kms.CodeOf(err) != kms.CodeCredentials {
			t.Errorf("%s: status %v", sent, err)
		}
	}
}
