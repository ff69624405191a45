package manager

import (
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"

	"github.com/requeststate/operator/test/kms/faultproxy"
	"github.com/requeststate/operator/test/localkms"
)

const region = localkms.Region

// localKMS is AWS KMS in this process, with one key. Managers and sidecars find it by their environment, as in a deployment.
type localKMS struct {
	*localkms.Server
	// faults stands in front: what processes ask goes through it.
	faults *faultproxy.Proxy
	arn    string

	mu       sync.Mutex
	count    int
	answered func() // called once, when a data key has been made and before that is told
}

func startKMS(t *testing.T) *localKMS {
	t.Helper()
	k := &localKMS{}
	server := localkms.Start(t.TempDir(), func(op string, status int) {
		if op == "GenerateDataKeyWithoutPlaintext" && status == http.StatusOK {
			k.made()
		}
	})
	t.Cleanup(server.Close)
	k.Server, k.faults = server, faultproxy.Start(server.URL)
	t.Cleanup(k.faults.Close)
	var err error
	if k.arn, err = server.CreateKey(t.Context()); err != nil {
		t.Fatal(err)
	}
	return k
}

// environment is what processes find it by.
func (k *localKMS) environment() map[string]string {
	environment := k.Environment()
	environment["AWS_ENDPOINT_URL_KMS"] = k.faults.URL
	return environment
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
