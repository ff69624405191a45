package manager

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	awsconfig "github.com/aws/aws-sdk-go-v2/config"
	awskms "github.com/aws/aws-sdk-go-v2/service/kms"
	"github.com/nsmithuk/local-kms/src"
	localconfig "github.com/nsmithuk/local-kms/src/config"
	"github.com/nsmithuk/local-kms/src/data"
)

const region = "eu-west-1"

// localKMS is AWS KMS in this process, with one key. Managers and sidecars find it by their environment, as in a deployment.
type localKMS struct {
	arn string

	mu       sync.Mutex
	count    int
	answered func() // called once, when a data key has been made and before that is told
}

func startKMS(t *testing.T) *localKMS {
	t.Helper()
	localconfig.AWSRegion, localconfig.AWSAccountId = region, "111122223333"
	k, db := &localKMS{}, data.NewDatabase(t.TempDir())
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		answer := httptest.NewRecorder()
		src.HandleRequest(answer, r, db)
		if strings.HasSuffix(r.Header.Get("X-Amz-Target"), ".GenerateDataKeyWithoutPlaintext") && answer.Code == http.StatusOK {
			k.made()
		}
		copyAnswer(w, answer)
	}))
	t.Cleanup(func() { server.Close(); db.Close() })
	none := t.TempDir() + "/none"
	for name, value := range map[string]string{
		"AWS_ENDPOINT_URL_KMS":        server.URL,
		"AWS_ACCESS_KEY_ID":           "test",
		"AWS_SECRET_ACCESS_KEY":       "test",
		"AWS_EC2_METADATA_DISABLED":   "true",
		"AWS_CONFIG_FILE":             none,
		"AWS_SHARED_CREDENTIALS_FILE": none,
		"AWS_PROFILE":                 "",
		"AWS_REGION":                  region,
	} {
		t.Setenv(name, value)
	}
	config, err := awsconfig.LoadDefaultConfig(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	out, err := awskms.NewFromConfig(config).CreateKey(t.Context(), &awskms.CreateKeyInput{})
	if err != nil {
		t.Fatal(err)
	}
	k.arn = *out.KeyMetadata.Arn
	return k
}

// made notes that a data key was made, and strikes if that was asked for.
func (k *localKMS) made() {
	k.mu.Lock()
	k.count++
	strike := k.answered
	k.answered = nil
	k.mu.Unlock()
	if strike != nil {
		strike()
	}
}

// generated returns how many data keys were made.
func (k *localKMS) generated() int {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.count
}

// onceAnswered lets do be done, once, between the making of the next data key and the answer that tells it. done is closed after that.
func (k *localKMS) onceAnswered(do func()) (done <-chan struct{}) {
	struck := make(chan struct{})
	k.mu.Lock()
	defer k.mu.Unlock()
	k.answered = func() {
		do()
		close(struck)
	}
	return struck
}

func copyAnswer(w http.ResponseWriter, answer *httptest.ResponseRecorder) {
	for name, values := range answer.Header() {
		w.Header()[name] = values
	}
	w.WriteHeader(answer.Code)
	_, _ = w.Write(answer.Body.Bytes())
}
