package server

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"
)

// serve serves a port until the test ends.
func serve(t *testing.T, p Port) (address string) {
	t.Helper()
	p.Listener = listen(t)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error)
	go func() { ended <- Serve(ctx, []Port{p}, time.Second, discard) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return p.Listener.Addr().String()
}

// exchange sends raw bytes and returns the answers up to the end of the connection.
func exchange(t *testing.T, address, raw string) (answers []*http.Response, bodies []string) {
	t.Helper()
	conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	go func() { _, _ = io.WriteString(conn, raw) }()
	r := bufio.NewReader(conn)
	for {
		res, err := http.ReadResponse(r, nil)
		if err != nil {
			return answers, bodies
		}
		body, err := io.ReadAll(res.Body)
		if err != nil {
			t.Fatal(err)
		}
		answers, bodies = append(answers, res), append(bodies, string(body))
		if res.Close {
			return answers, bodies
		}
	}
}

func TestPitfall41WhatNeverBecomesARequestIsAnsweredInJSONRPC(t *testing.T) {
	address := serve(t, Port{Name: "proxy", JSONRPC: true, MaxHeaderBytes: 1000, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, "fine")
	})})
	const begin = "GET / HTTP/1.1\r\nHost: x\r\n"
	for name, c := range map[string]struct {
		raw    string
		status int
	}{
		"no HTTP":                   {"hello, is there anybody?\r\n\r\n", 400},
		"no Host":                   {"GET / HTTP/1.1\r\n\r\n", 400},
		"header name":               {begin + "a b: c\r\n\r\n", 400},
		"header value":              {begin + "a: \x00\r\n\r\n", 400},
		"two lengths":               {begin + "Content-Length: 1\r\nContent-Length: 2\r\n\r\n", 400},
		"header too large":          {begin + "A: " + strings.Repeat("a", 200_000) + "\r\n\r\n", 431},
		"transfer coding":           {begin + "Transfer-Encoding: gzip\r\n\r\n", 501},
		"version":                   {"GET / HTTP/3.0\r\nHost: x\r\n\r\n", 505},
		"expectation":               {begin + "Expect: miracles\r\n\r\n", 417},
		"after a request":           {begin + "\r\n" + "GET / HTTP/1.1\r\n\r\n", 400},
		"after a request with body": {"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n{}" + begin + "Transfer-Encoding: x\r\n\r\n", 501},
	} {
		answers, bodies := exchange(t, address, c.raw)
		if len(answers) == 0 {
			t.Errorf("%s: no answer", name)
			continue
		}
		last := len(answers) - 1
		if answers[last].StatusCode != c.status || answers[last].Header.Get("Content-Type") != "application/json" || !answers[last].Close ||
			!strings.HasPrefix(bodies[last], `{"jsonrpc":"2.0","id":null,"error":{"code":-32600,`) {
			t.Errorf("%s: %d %v %q", name, answers[last].StatusCode, answers[last].Header, bodies[last])
		}
		if want := strings.HasPrefix(name, "after"); want != (last == 1) || want && bodies[0] != "fine" {
			t.Errorf("%s: answers %q", name, bodies)
		}
	}
}

// What a handler says is its own, though it look like net/http's own words.
func TestHandlersAnswersAreLeftAlone(t *testing.T) {
	text := strings.Repeat("HTTP/1.1 400 Bad Request\r\nContent-Type: text/plain; charset=utf-8\r\nConnection: close\r\n\r\n400 Bad Request", 200)
	address := serve(t, Port{Name: "proxy", JSONRPC: true, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(http.StatusBadRequest)
		for line := range strings.SplitAfterSeq(text, "400 Bad Request") {
			_, _ = io.WriteString(w, line)
			_ = http.NewResponseController(w).Flush()
		}
	})})
	for range 2 {
		_, bodies := exchange(t, address, "GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n")
		if len(bodies) != 1 || bodies[0] != text {
			t.Errorf("%d answers, %.100q", len(bodies), bodies)
		}
	}
}

func TestHTTP2IsSpokenWithoutTLS(t *testing.T) {
	address := serve(t, Port{Name: "proxy", JSONRPC: true, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, r.Proto)
	})})
	transport := &http.Transport{Protocols: new(http.Protocols)}
	transport.Protocols.SetUnencryptedHTTP2(true)
	defer transport.CloseIdleConnections()
	res, err := (&http.Client{Transport: transport}).Get("http://" + address)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	if body, err := io.ReadAll(res.Body); string(body) != "HTTP/2.0" || err != nil {
		t.Errorf("%q, %v", body, err)
	}
}
