package main

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// unruly is a server that says more than HTTP lets it: a body where there is none, or one beyond its length. It keeps its connections open.
func unruly(t *testing.T) string {
	t.Helper()
	const body = `{"jsonrpc":"2.0","id":1,"result":{"requestState":"` + plainState + `"}}`
	answers := map[string]string{
		"/204":   "HTTP/1.1 204 No Content\r\n\r\n" + body,
		"/304":   "HTTP/1.1 304 Not Modified\r\n\r\n" + body,
		"/short": "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}" + body,
		"/head":  fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", len(body), body),
		"/bad":   "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: " + plainState + "\r\n\r\n" + body,
		"/none":  body + "\r\n\r\n",
		"/099":   fmt.Sprintf("HTTP/1.1 099 %s\r\nContent-Length: %d\r\n\r\n%s", plainState, len(body), body),
		"/early": "HTTP/1.1 103 Early Hints\r\nLink: " + plainState + "\r\n\r\nHTTP/1.1 204 No Content\r\n\r\n" + body,
	}
	var config net.ListenConfig
	l, err := config.Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer func() { _ = conn.Close() }()
				for r := bufio.NewReader(conn); ; {
					req, err := http.ReadRequest(r)
					if err != nil {
						return
					}
					_, _ = io.Copy(io.Discard, req.Body)
					_, _ = io.WriteString(conn, answers[strings.TrimPrefix(req.URL.Path, "/through")])
				}
			}()
		}
	}()
	return "http://" + l.Addr().String()
}

func TestNothingOfAPeerReachesTheLog(t *testing.T) {
	s := start(t, unruly(t), "--dev", "--log-level=debug", "--passthrough-path=/through/")
	s.await("/startupz", http.StatusOK)
	const call = `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"deploy"}}`
	for _, prefix := range []string{"", "/through"} {
		for _, path := range []string{"/204", "/304", "/short", "/bad", "/none", "/099", "/early"} {
			_, _ = s.request(http.MethodPost, s.proxy+prefix+path, call)
		}
		_, _ = s.request(http.MethodHead, s.proxy+prefix+"/head", "")
	}
	// And of the other peer.
	for _, request := range []string{
		"POST /x HTTP/1.1\r\nHost: x\r\nContent-Length: " + plainState + "\r\n\r\n", plainState + "\r\n\r\n",
		"POST /" + plainState + " HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: " + plainState + "\r\n\r\n",
		"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + plainState,
	} {
		conn, err := net.Dial("tcp", strings.TrimPrefix(s.proxy, "http://"))
		if err != nil {
			t.Fatal(err)
		}
		_ = conn.SetDeadline(time.Now().Add(10 * time.Second))
		_, _ = io.WriteString(conn, request)
		_, _ = io.ReadAll(conn)
		_ = conn.Close()
	}
	time.Sleep(100 * time.Millisecond) // the transport logs in a goroutine of its own
	s.end()
	log := s.log.String()
	if strings.Contains(log, plainState) || strings.Contains(log, "Unsolicited") {
		t.Errorf("log:\n%s", log)
	}
	if !strings.Contains(log, "a server sent more than its answer") {
		t.Errorf("nothing is said of it:\n%s", log)
	}
}

func kubeconfig(t *testing.T, address string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "kubeconfig")
	text := "apiVersion: v1\nkind: Config\ncurrent-context: c\ncontexts: [{name: c, context: {cluster: c, user: u}}]\n" +
		"clusters: [{name: c, cluster: {server: \"http://" + address + "\"}}]\nusers: [{name: u, user: {}}]\n"
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestTheReasonWhenTheAPIServerIsDown(t *testing.T) {
	address := freeAddress(t)
	s := start(t, upstream(t), "--key=prod/deployer", "--pod-name=mcp-0", "--pod-uid=u", "--pod-namespace=prod", "--kubeconfig="+kubeconfig(t, address))
	s.awaitReason("API server is out of reach")
	if body := s.await("/readyz", http.StatusServiceUnavailable); strings.Contains(body, address) {
		t.Errorf("the reason quotes an address: %s", body)
	}
	s.end()
}
