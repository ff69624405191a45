package lab

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"time"
)

// router sends each request of one client to a replica, and every retry to another one than the request before. It stands for a load balancer at its worst.
type router struct {
	fleet *Fleet
	at    int
	last  *Replica                  // that answered
	sent  atomic.Pointer[time.Time] // when the last request was; a token in its answer is no older
}

// RoundTrip implements http.RoundTripper.
func (r *router) RoundTrip(req *http.Request) (*http.Response, error) {
	var body []byte
	if req.Body != nil {
		var err error
		if body, err = io.ReadAll(req.Body); err != nil {
			return nil, err
		}
		_ = req.Body.Close()
		r.inspect(body)
	}
	var failed []*Replica
	for {
		target := r.next(failed)
		if target == nil {
			return nil, fmt.Errorf("no replica is left but those that failed (%d) and the one that answered last", len(failed))
		}
		sidecar := target.Sidecar()
		resp, err := r.send(req, body, sidecar)
		if err == nil {
			r.last = target
			return resp, nil
		}
		if !r.fleet.options.Stubborn || req.Context().Err() != nil {
			return nil, err
		}
		if !sidecar.Process.Ending() {
			return nil, fmt.Errorf("at the sidecar of %s, which nobody killed: %w", target.Name, err)
		}
		r.fleet.retried.Add(1)
		failed = append(failed, target)
	}
}

// next chooses an endpoint that neither answered last nor failed.
func (r *router) next(failed []*Replica) *Replica {
	endpoints := r.fleet.lab.Endpoints()
	for range endpoints {
		r.at = (r.at + 1) % len(endpoints)
		if target := endpoints[r.at]; target != r.last && !slices.Contains(failed, target) {
			return target
		}
	}
	return nil
}

// send makes one request. The answers of a Lab are small; one that breaks off half way must be known before the client sees its beginning.
func (r *router) send(req *http.Request, body []byte, sidecar *Sidecar) (*http.Response, error) {
	now := time.Now()
	r.sent.Store(&now)
	req = req.Clone(req.Context())
	req.URL.Host, req.Host = sidecar.Proxy, ""
	if body != nil {
		req.Body, req.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	}
	resp, err := http.DefaultTransport.RoundTrip(req)
	if err != nil || !r.fleet.options.Stubborn {
		return resp, err
	}
	content, err := io.ReadAll(resp.Body)
	if err = errors.Join(err, resp.Body.Close()); err != nil {
		return nil, err
	}
	resp.Body = io.NopCloser(bytes.NewReader(content))
	return resp, nil
}

// inspect counts states that the client was given in plain text.
func (r *router) inspect(body []byte) {
	var message struct {
		Params struct{ RequestState string }
	}
	if json.Unmarshal(body, &message) == nil && message.Params.RequestState != "" && !strings.HasPrefix(message.Params.RequestState, "rsk1.") {
		r.fleet.plaintext.Add(1)
	}
}
