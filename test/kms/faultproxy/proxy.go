// Package faultproxy is a reverse proxy in front of a stand-in for AWS KMS. It
// counts what is asked, and answers on demand with what the stand-ins cannot
// produce: throttling, internal failures, a KMS that hangs, resets or answers
// by halves, and one that has not noticed yet that a key was disabled. It is
// for tests only; the stand-ins check no signatures, and it makes none.
package faultproxy

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"time"
)

// A Proxy stands in front of one KMS. It is safe for concurrent use.
type Proxy struct {
	// URL is where it listens, on 127.0.0.1: the endpoint for the SDK.
	URL string

	upstream string
	server   *httptest.Server
	client   *http.Client

	mu       sync.Mutex
	calls    []Call
	orders   map[string][]order
	bucket   *bucket
	stale    int             // DisableKey takes effect after so many calls; negative: at once
	withheld []*withheldCall // that were acknowledged and not forwarded
	released chan struct{}   // closed when what hangs is let go
	came     chan struct{}   // closed when a call comes, or one whose client has left is given up
	left     int             // calls that hung until their clients left
}

// Start starts a proxy in front of the KMS at upstream, an http URL. It panics
// if it cannot listen. The caller closes it.
func Start(upstream string) *Proxy {
	p := &Proxy{
		upstream: strings.TrimSuffix(upstream, "/"),
		client:   &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 64}},
		orders:   map[string][]order{},
		stale:    -1,
		released: make(chan struct{}),
		came:     make(chan struct{}),
	}
	p.server = httptest.NewServer(http.HandlerFunc(p.serve))
	p.URL = p.server.URL
	return p
}

// Close lets go of what hangs and stops the proxy. It returns when every
// request has been answered.
func (p *Proxy) Close() {
	p.Heal()
	p.Release()
	p.server.Close()
	p.client.CloseIdleConnections()
}

func (p *Proxy) serve(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return // the client has gone
	}
	op := operation(r)
	d := p.take(op, time.Now())
	for _, c := range d.overdue {
		if a, err := p.forward(c.request, c.body); err == nil {
			_ = a.Body.Close()
		}
	}
	switch {
	case d.fault != Pass:
		p.answer(w, r, body, d)
	case op == opDisable && p.withhold(r, body):
		w.Header().Set("Content-Type", contentType)
		w.WriteHeader(http.StatusOK)
	default:
		p.pass(w, r, body)
	}
}

// operation returns the AWS operation that r asks for; empty if none.
func operation(r *http.Request) string {
	_, op, _ := strings.Cut(r.Header.Get("X-Amz-Target"), ".")
	return op
}

// forward sends r, whose body has been read, to the KMS.
func (p *Proxy) forward(r *http.Request, body []byte) (*http.Response, error) {
	out, err := http.NewRequestWithContext(r.Context(), r.Method, p.upstream+r.URL.RequestURI(), bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	out.Header = r.Header.Clone()
	return p.client.Do(out)
}

// pass answers r with what the KMS answers.
func (p *Proxy) pass(w http.ResponseWriter, r *http.Request, body []byte) {
	status, header, answer, err := p.ask(r, body)
	if err != nil {
		panic(http.ErrAbortHandler) // the client sees what we saw: no answer
	}
	copyHeader(w, header)
	w.WriteHeader(status)
	_, _ = w.Write(answer)
}

func (p *Proxy) ask(r *http.Request, body []byte) (status int, header http.Header, answer []byte, err error) {
	a, err := p.forward(r, body)
	if err != nil {
		return 0, nil, nil, err
	}
	defer func() { _ = a.Body.Close() }()
	answer, err = io.ReadAll(a.Body)
	return a.StatusCode, a.Header, answer, err
}

func copyHeader(w http.ResponseWriter, from http.Header) {
	for name, values := range from {
		if name != "Content-Length" && name != "Connection" {
			w.Header()[name] = values
		}
	}
}
