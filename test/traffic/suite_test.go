// Package traffic sends real sidecar processes what an app's clients send: rounds of every protocol version to the Go SDK's own server, and all the other traffic
// of the same port.
package traffic

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/requeststate/operator/internal/testenv"
	"github.com/requeststate/operator/internal/testport"
)

// plainState is what the servers hand out. It must never reach a client.
const plainState = "plain-secret-state"

var binary string // the sidecar, built from the present sources

func TestMain(m *testing.M) {
	os.Exit(func() int {
		root, err := testenv.Root()
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		dir, err := os.MkdirTemp("", "requeststate-bin-")
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		defer func() { _ = os.RemoveAll(dir) }()
		binary = filepath.Join(dir, "sidecar")
		cmd := exec.Command("go", "build", "-trimpath", "-ldflags", "-s -w", "-o", binary, "./cmd/sidecar")
		cmd.Dir, cmd.Env = root, append(os.Environ(), "CGO_ENABLED=0")
		if out, err := cmd.CombinedOutput(); err != nil {
			fmt.Fprintf(os.Stderr, "%v\n%s", err, out)
			return 1
		}
		return m.Run()
	}())
}

// A sidecar is a running process.
type sidecar struct {
	t     *testing.T
	cmd   *exec.Cmd
	proxy string // URL

	mu  sync.Mutex
	log bytes.Buffer
}

// Write takes the log.
func (s *sidecar) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.log.Write(p)
}

func (s *sidecar) logged() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.log.String()
}

func freeAddress(t *testing.T) string {
	t.Helper()
	address, err := testport.Free()
	if err != nil {
		t.Fatal(err)
	}
	return address
}

// startSidecar starts a sidecar in front of upstream. At the end it must exit with 0 and have kept silent about the state.
func startSidecar(t *testing.T, upstream string, args ...string) *sidecar {
	t.Helper()
	proxy, health := freeAddress(t), freeAddress(t)
	s := &sidecar{t: t, proxy: "http://" + proxy}
	s.cmd = exec.Command(binary, append(args, "--dev", "--codec-listen=", "--upstream="+upstream, "--proxy-listen="+proxy, "--health-listen="+health)...)
	s.cmd.Stderr = s
	if err := s.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.end)
	for deadline := time.Now().Add(30 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		res, err := http.Get("http://" + health + "/readyz")
		if err == nil {
			_ = res.Body.Close()
			if res.StatusCode == http.StatusOK {
				return s
			}
		}
		if time.Now().After(deadline) {
			t.Fatalf("not ready: %v\n%s", err, s.logged())
		}
	}
}

func (s *sidecar) end() {
	_ = s.cmd.Process.Signal(syscall.SIGTERM) // Wait tells if it had ended
	if err := s.cmd.Wait(); err != nil {
		s.t.Errorf("the sidecar: %v\n%s", err, s.logged())
	}
	if bytes.Contains([]byte(s.logged()), []byte(plainState)) || bytes.Contains([]byte(s.logged()), []byte("panic")) {
		s.t.Errorf("log:\n%s", s.logged())
	}
}

// send sends a request and returns its answer, read whole.
func send(t *testing.T, method, url string, header http.Header, body string) (*http.Response, string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, url, bytes.NewReader([]byte(body)))
	if err != nil {
		t.Fatal(err)
	}
	for name, values := range header {
		req.Header[name] = values
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return res, string(text)
}
