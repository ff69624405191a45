package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	libage "filippo.io/age"

	"github.com/requeststate/operator/internal/kms"
	"github.com/requeststate/operator/internal/kms/age"
	"github.com/requeststate/operator/internal/testport"
)

// build builds the binary once for all tests.
var build = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "requeststate-sidecar-")
	if err != nil {
		return "", err
	}
	path := filepath.Join(dir, "sidecar")
	out, err := exec.Command("go", "build", "-ldflags", "-s -w -X main.version=v9.9.9", "-o", path, ".").CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("%w: %s", err, out)
	}
	return path, nil
})

func TestMain(m *testing.M) {
	code := m.Run()
	if path, err := build(); err == nil {
		_ = os.RemoveAll(filepath.Dir(path))
	}
	os.Exit(code)
}

func command(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	path, err := build()
	if err != nil {
		t.Fatal(err)
	}
	return exec.CommandContext(t.Context(), path, args...)
}

// A sidecar is a running process.
type sidecar struct {
	t             *testing.T
	cmd           *exec.Cmd
	proxy, health string // URLs
	log           *bytes.Buffer
	header        http.Header // of requests
}

func freeAddress(t *testing.T) string {
	t.Helper()
	address, err := testport.Free()
	if err != nil {
		t.Fatal(err)
	}
	return address
}

func start(t *testing.T, upstream string, args ...string) *sidecar {
	t.Helper()
	return startIn(t, nil, upstream, args...)
}

// startIn starts a sidecar with more of an environment. Without an upstream there is no proxy.
func startIn(t *testing.T, env []string, upstream string, args ...string) *sidecar {
	t.Helper()
	proxyAddress, healthAddress := freeAddress(t), freeAddress(t)
	s := &sidecar{t: t, proxy: "http://" + proxyAddress, health: "http://" + healthAddress, log: &bytes.Buffer{}}
	s.cmd = command(t, append(args, "--upstream="+upstream, "--proxy-listen="+proxyAddress, "--health-listen="+healthAddress)...)
	s.cmd.Env = append(os.Environ(), env...)
	s.cmd.Stderr = s.log
	if err := s.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.cmd.Process.Kill() })
	s.await("/livez", http.StatusOK)
	return s
}

func (s *sidecar) await(path string, status int) string {
	s.t.Helper()
	for deadline := time.Now().Add(30 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		code, body := s.request(http.MethodGet, s.health+path, "")
		if code == status {
			return body
		}
		if time.Now().After(deadline) {
			s.t.Fatalf("%s: %d %s\n%s", path, code, body, s.log)
		}
	}
}

func (s *sidecar) request(method, url, body string) (int, string) {
	s.t.Helper()
	req, err := http.NewRequestWithContext(s.t.Context(), method, url, strings.NewReader(body))
	if err != nil {
		s.t.Fatal(err)
	}
	for name, values := range s.header {
		req.Header[name] = values
	}
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, err.Error()
	}
	defer func() { _ = res.Body.Close() }()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		s.t.Fatal(err)
	}
	return res.StatusCode, string(text)
}

// call calls a tool with a state, none if it is empty, and returns the state of the answer.
func (s *sidecar) call(state string) (answer, newState string) {
	s.t.Helper()
	params := map[string]any{"name": "deploy", "arguments": map[string]any{"to": "prod"}}
	if state != "" {
		params["requestState"] = state
	}
	message, err := json.Marshal(map[string]any{"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params})
	if err != nil {
		s.t.Fatal(err)
	}
	_, text := s.request(http.MethodPost, s.proxy+"/mcp", string(message))
	var got struct {
		Result struct {
			RequestState string `json:"requestState"`
		} `json:"result"`
	}
	_ = json.Unmarshal([]byte(text), &got) // the caller sees the text
	return text, got.Result.RequestState
}

// end sends SIGTERM and asserts that the process exits with 0.
func (s *sidecar) end() {
	s.t.Helper()
	if err := s.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		s.t.Fatal(err)
	}
	if err := s.cmd.Wait(); err != nil {
		s.t.Errorf("at the end: %v\n%s", err, s.log)
	}
	for line := range strings.Lines(s.log.String()) {
		if !json.Valid([]byte(line)) {
			s.t.Errorf("not structured: %s", line)
		}
	}
}

const plainState = "plain-text-state"

// upstream is a server that asks for input at first, and then tells whether it got its own state back.
func upstream(t *testing.T) string {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var call struct {
			Params struct {
				RequestState *string `json:"requestState"`
			} `json:"params"`
		}
		if err := json.NewDecoder(r.Body).Decode(&call); err != nil {
			http.Error(w, "unreadable", http.StatusBadRequest)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		if call.Params.RequestState == nil {
			_, _ = io.WriteString(w, `{"jsonrpc":"2.0","id":1,"result":{"resultType":"input_required","requestState":"`+plainState+`"}}`)
			return
		}
		_, _ = fmt.Fprintf(w, `{"jsonrpc":"2.0","id":1,"result":{"got":%t}}`, *call.Params.RequestState == plainState)
	}))
	t.Cleanup(server.Close)
	return server.URL
}

func TestDevServesARound(t *testing.T) {
	s := start(t, upstream(t), "--dev")
	s.await("/startupz", http.StatusOK)
	text, token := s.call("")
	if !strings.HasPrefix(token, "rsk1.") || strings.Contains(text, plainState) {
		t.Fatalf("round 1: %s", text)
	}
	if text, _ := s.call(token); !strings.Contains(text, `"got":true`) {
		t.Errorf("round 2: %s", text)
	}
	if text, _ := s.call(token[:len(token)-2] + "AA"); !strings.Contains(text, "invalid_request_state") {
		t.Errorf("a changed token: %s", text)
	}
	metrics := s.await("/metrics", http.StatusOK)
	for _, want := range []string{
		"requeststate_seal_total 1", `requeststate_unseal_total{result="ok"} 1`, `requeststate_unseal_total{result="expired"} 0`,
		"requeststate_keyring_generation 1", `requeststate_keyring_keys{state="minting"} 1`, "go_goroutines", "requeststate_unseal_duration_seconds_count 2",
	} {
		if !strings.Contains(metrics, want) {
			t.Errorf("/metrics lacks %s", want)
		}
	}
	s.end()
	if log := s.log.String(); !strings.Contains(log, "Not for production") || strings.Contains(log, token) || strings.Contains(log, plainState) {
		t.Errorf("log:\n%s", log)
	}
}

func TestPitfall36TwoReplicasOfDifferentNamesShareAKeyFile(t *testing.T) {
	dir := t.TempDir()
	identity, err := libage.GenerateX25519Identity()
	if err != nil {
		t.Fatal(err)
	}
	identityFile, keyFile := filepath.Join(dir, "identity.txt"), filepath.Join(dir, "key.yaml")
	write := func(path, text string) {
		t.Helper()
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(identityFile, identity.String())
	url := upstream(t)
	one := startIn(t, []string{"POD_NAME=one", "POD_NAMESPACE=here"}, url, "--key-file="+keyFile, "--age-identity-file="+identityFile)
	if code, body := one.request(http.MethodPost, one.proxy+"/mcp", `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`); code != http.StatusServiceUnavailable || !strings.Contains(body, "jsonrpc") {
		t.Errorf("before the ring: %d %s", code, body)
	}
	// A file without a ring: the reason names the command.
	write(keyFile, "apiVersion: requeststate.dev/v1alpha1\nkind: RequestStateKey\nmetadata: {name: deployer, namespace: prod}\nspec: {}\n")
	one.awaitReason("kubectl requeststate init NAME --with-ring")

	write(keyFile, keyText(t, identity))
	one.await("/readyz", http.StatusOK)
	two := startIn(t, []string{"POD_NAME=two", "POD_NAMESPACE=there"}, url, "--key-file="+keyFile, "--age-identity-file="+identityFile)
	two.await("/readyz", http.StatusOK)
	_, token := one.call("")
	if text, _ := two.call(token); !strings.Contains(text, `"got":true`) {
		t.Errorf("round 2 on the other replica: %s", text)
	}
	// Pitfall 33: what is malformed is logged, and the last good ring stays in use.
	write(keyFile, "status: {keyring: [")
	time.Sleep(2500 * time.Millisecond) // two looks at the file
	if text, _ := two.call(token); !strings.Contains(text, `"got":true`) {
		t.Errorf("after a malformed file: %s", text)
	}
	one.end()
	two.end()
	if !strings.Contains(two.log.String(), "not a ring that can be used") {
		t.Errorf("not in the log:\n%s", two.log)
	}
}

func (s *sidecar) awaitReason(want string) {
	s.t.Helper()
	for deadline := time.Now().Add(30 * time.Second); ; time.Sleep(50 * time.Millisecond) {
		body := s.await("/readyz", http.StatusServiceUnavailable)
		if strings.Contains(body, want) {
			return
		}
		if time.Now().After(deadline) {
			s.t.Fatalf("reason %q, want one with %q", body, want)
		}
	}
}

func keyText(t *testing.T, identity *libage.X25519Identity) string {
	t.Helper()
	const id = "00000000000000aa"
	wrapper, err := age.New([]string{identity.Recipient().String()}, nil)
	if err != nil {
		t.Fatal(err)
	}
	wrapped, err := wrapper.GenerateWrapped(t.Context(), kms.EncryptionContext{Namespace: "prod", Name: "deployer", KeyID: id})
	if err != nil {
		t.Fatal(err)
	}
	blob, err := json.Marshal(wrapped.Blob) // base64, as in YAML
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf(`apiVersion: requeststate.dev/v1alpha1
kind: RequestStateKey
metadata: {name: deployer, namespace: prod}
spec: {kms: {age: {recipients: [%[1]s]}}}
status:
  keyring:
    format: 1
    epoch: "00000000000000e1"
    generation: 1
    mintingKeyID: "%[2]s"
    settings: {audience: prod/deployer, ttl: 10m, clockSkew: 60s, principal: {source: None}}
    keys:
    - {id: "%[2]s", wrappedKey: %[3]s, kms: {age: {recipients: [%[1]s]}}, mintingSince: "2026-07-28T12:00:00Z"}
`, identity.Recipient(), id, blob)
}

func TestUsageAndVersion(t *testing.T) {
	out, err := command(t, "--version").Output()
	if err != nil || strings.TrimSpace(string(out)) != "v9.9.9" {
		t.Errorf("--version: %q, %v", out, err)
	}
	for _, args := range [][]string{{}, {"--dev", "--key-file=x"}, {"--nonsense"}, {"--dev", "--upstream=http://127.0.0.1:1/path"}} {
		out, err := command(t, args...).CombinedOutput()
		var exit *exec.ExitError
		if !errors.As(err, &exit) || exit.ExitCode() != exitUsage || !strings.Contains(string(out), "sidecar --help") {
			t.Errorf("%v: %v\n%s", args, err, out)
		}
	}
}
