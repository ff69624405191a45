package manager

import (
	"bytes"
	"context"
	"encoding/json"
	"encoding/pem"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync"

	"k8s.io/client-go/rest"

	"github.com/requeststate/operator/api/v1alpha1"
	"github.com/requeststate/operator/test/lab"
)

// gate stands between one manager and the API server and sees every write of the key's status: before it is made, and when it has been and its answer is not yet told.
type gate struct {
	world  *world
	server *httptest.Server
	proxy  *httputil.ReverseProxy

	mu      sync.Mutex
	before  func(*v1alpha1.RequestStateKey)
	stored  func(*v1alpha1.RequestStateKey)
	answers map[int]int // by HTTP status code
	down    bool        // to reads of this project's kinds
}

// newGate opens a gate, which is closed after the managers have been stopped: what they do then goes through it, too.
func (w *world) newGate() *gate {
	t := w.t
	t.Helper()
	target, err := url.Parse(env.Config.Host)
	if err != nil {
		t.Fatal(err)
	}
	// The manager's own token passes through.
	transport, err := rest.TransportFor(rest.AnonymousClientConfig(env.Config))
	if err != nil {
		t.Fatal(err)
	}
	g := &gate{world: w, answers: map[int]int{}}
	g.proxy = &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(target)
			r.Out.Host = ""
		},
		Transport:     transport,
		FlushInterval: -1, // watches
		ErrorHandler:  func(w http.ResponseWriter, _ *http.Request, _ error) { w.WriteHeader(http.StatusBadGateway) },
	}
	g.server = httptest.NewTLSServer(g) // a kubeconfig sends no token without TLS
	w.gates = append(w.gates, g)
	return g
}

func (g *gate) close() {
	g.server.CloseClientConnections()
	g.server.Close()
}

// passTo makes a manager take the gate for the API server.
func (g *gate) passTo(o *lab.ManagerOptions) {
	o.Server = g.server.URL
	o.ServerCA = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: g.server.Certificate().Raw})
}

// ServeHTTP implements http.Handler.
func (g *gate) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if g.isDown() && r.Method == http.MethodGet && strings.HasPrefix(r.URL.Path, "/apis/"+v1alpha1.GroupVersion.String()+"/") {
		w.WriteHeader(http.StatusServiceUnavailable)
		return
	}
	if r.Method != http.MethodPut || !strings.HasSuffix(r.URL.Path, "/requeststatekeys/"+lab.KeyName+"/status") {
		g.proxy.ServeHTTP(w, r)
		return
	}
	body, err := io.ReadAll(r.Body)
	key := &v1alpha1.RequestStateKey{}
	if err != nil || json.Unmarshal(body, key) != nil {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	g.mu.Lock()
	before := g.before
	g.mu.Unlock()
	if before != nil {
		before(key)
	}
	// Whatever becomes of the manager now, its request is on its way.
	forwarded := r.Clone(context.WithoutCancel(r.Context()))
	forwarded.Body = io.NopCloser(bytes.NewReader(body))
	answer := httptest.NewRecorder()
	g.proxy.ServeHTTP(answer, forwarded)
	g.mu.Lock()
	g.answers[answer.Code]++
	stored := g.stored
	g.mu.Unlock()
	if answer.Code == http.StatusOK {
		g.world.ledger.stored(g.world.t, key.Status.Keyring)
	}
	if stored != nil && answer.Code == http.StatusOK {
		stored(key)
	}
	copyAnswer(w, answer)
}

func (g *gate) isDown() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.down
}

// takeDown makes reads of this project's kinds fail.
func (g *gate) takeDown() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.down = true
}

// answered returns how many writes were answered with an HTTP status code.
func (g *gate) answered(code int) int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.answers[code]
}

// onWrite lets do be done before each write.
func (g *gate) onWrite(do func(*v1alpha1.RequestStateKey)) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.before = do
}

// onceStored lets do be done, once, between the storing of a status that shows a phase and the answer that tells it. done is closed after that.
func (g *gate) onceStored(phase v1alpha1.Phase, do func()) (done <-chan struct{}) {
	struck := make(chan struct{})
	var once sync.Once
	g.mu.Lock()
	defer g.mu.Unlock()
	g.stored = func(key *v1alpha1.RequestStateKey) {
		if key.Status.Phase == phase {
			once.Do(func() {
				do()
				close(struck)
			})
		}
	}
	return struck
}
