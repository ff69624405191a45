package main

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// A codecClient calls the codec on a socket.
type codecClient struct {
	t      *testing.T
	client *http.Client
}

func newCodecClient(t *testing.T, socket string) *codecClient {
	transport := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", socket)
	}}
	t.Cleanup(transport.CloseIdleConnections)
	return &codecClient{t, &http.Client{Transport: transport}}
}

func (c *codecClient) call(path string, request map[string]any) (int, map[string]any) {
	c.t.Helper()
	text, err := json.Marshal(request)
	if err != nil {
		c.t.Fatal(err)
	}
	res, err := c.client.Post("http://codec"+path, "application/json", bytes.NewReader(text))
	if err != nil {
		c.t.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	var answer map[string]any
	body, err := io.ReadAll(res.Body)
	if err != nil || json.Unmarshal(body, &answer) != nil {
		c.t.Fatalf("%s: %q, %v", path, body, err)
	}
	return res.StatusCode, answer
}

// round seals and unseals one state, and asserts that another call does not open it.
func (c *codecClient) round() {
	c.t.Helper()
	status, sealed := c.call("/v1/seal", map[string]any{"state": plainState, "method": "tools/call", "target": "deploy", "principal": "alice"})
	if status != http.StatusOK {
		c.t.Fatalf("seal: %d %v", status, sealed)
	}
	opening := map[string]any{"token": sealed["token"], "method": "tools/call", "target": "deploy", "principal": "alice"}
	status, opened := c.call("/v1/unseal", opening)
	if status != http.StatusOK || opened["state"] != plainState || opened["stateBase64"] != base64.StdEncoding.EncodeToString([]byte(plainState)) {
		c.t.Errorf("unseal: %d %v", status, opened)
	}
	opening["principal"] = "mallory"
	if status, refused := c.call("/v1/unseal", opening); status != http.StatusUnprocessableEntity || refused["error"] == nil {
		c.t.Errorf("another principal: %d %v", status, refused)
	}
}

func TestTheCodecServesWithoutAProxyAndComesBackAfterAKill(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "codec.sock")
	s := start(t, "", "--dev", "--codec-listen=unix://"+socket)
	s.await("/readyz", http.StatusOK)
	newCodecClient(t, socket).round()
	if code, _ := s.request(http.MethodGet, s.proxy, ""); code != 0 {
		t.Errorf("without --upstream there is a proxy: %d", code)
	}
	// A second sidecar must not take the socket from the first.
	var exit *exec.ExitError
	out, err := command(t, "--dev", "--codec-listen=unix://"+socket, "--health-listen=127.0.0.1:0").CombinedOutput()
	if !errors.As(err, &exit) || exit.ExitCode() != exitFailed || !strings.Contains(string(out), "another process serves") {
		t.Errorf("a second sidecar: %v\n%s", err, out)
	}
	if err := s.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = s.cmd.Wait() // killed
	s = start(t, "", "--dev", "--codec-listen=unix://"+socket)
	s.await("/readyz", http.StatusOK)
	newCodecClient(t, socket).round()
	s.end()
	if log := s.log.String(); strings.Contains(log, plainState) || strings.Contains(log, "mallory") {
		t.Errorf("log:\n%s", log)
	}
}

// Proxy, codec and all between them use approved cryptography only.
func TestARoundUnderFIPSOnly(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "codec.sock")
	s := startIn(t, []string{"GODEBUG=fips140=only"}, upstream(t), "--dev", "--codec-listen=unix://"+socket)
	s.await("/readyz", http.StatusOK)
	_, token := s.call("")
	if text, _ := s.call(token); !strings.Contains(text, `"got":true`) {
		t.Errorf("round 2: %s", text)
	}
	newCodecClient(t, socket).round()
	s.end()
}
