package traffic

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

const largeChunk = "lorem ipsum \\u00e9 \\\"requestStates\\\" "

// writeLarge writes a result of some 100 MiB with a state in its midst.
func writeLarge(w io.Writer, state string) {
	out := bufio.NewWriterSize(w, 1<<16)
	chunks := func() {
		for range 50 << 20 / len(largeChunk) {
			_, _ = out.WriteString(largeChunk)
		}
	}
	_, _ = out.WriteString(`{"jsonrpc":"2.0","id":1,"result":{"content":[{"type":"text","text":"`)
	chunks()
	_, _ = fmt.Fprintf(out, `"}],"requestState":"%s","more":"`, state)
	chunks()
	_, _ = out.WriteString(`"}}`)
	_ = out.Flush()
}

// peak returns the most memory, in MiB, that a process has had.
func peak(t *testing.T, pid int) int {
	t.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		t.Fatal(err)
	}
	match := regexp.MustCompile(`VmHWM:\s+(\d+) kB`).FindSubmatch(status)
	if match == nil {
		t.Fatalf("no VmHWM in %s", status)
	}
	kib, err := strconv.Atoi(string(match[1]))
	if err != nil {
		t.Fatal(err)
	}
	return kib >> 10
}

func TestA100MiBResultPassesWithFlatMemory(t *testing.T) {
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/json" {
			w.Header().Set("Content-Type", "application/json")
			writeLarge(w, plainState)
			return
		}
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = io.WriteString(w, ": begins\n\nevent: message\ndata: ")
		writeLarge(w, plainState)
		_, _ = io.WriteString(w, "\n\n")
	}))
	t.Cleanup(web.Close)
	s := startSidecar(t, web.URL)
	before := peak(t, s.cmd.Process.Pid)
	for path, framing := range map[string][2]string{"/json": {}, "/stream": {": begins\n\nevent: message\ndata: ", "\n\n"}} {
		res, err := http.Post(s.proxy+path, "application/json", strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"t"}}`))
		if err != nil {
			t.Fatal(err)
		}
		// Its bytes are compared by digest, with the token read out of the way.
		got, token := sha256.New(), ""
		reader := bufio.NewReaderSize(res.Body, 1<<16)
		var length int
		for {
			piece, err := reader.ReadSlice(':')
			length += len(piece)
			if i := bytes.Index(piece, []byte(`"rsk1.`)); i >= 0 {
				token, _, _ = strings.Cut(string(piece[i+1:]), `"`)
				piece = bytes.Replace(piece, []byte(token), []byte(plainState), 1)
			}
			_, _ = got.Write(piece)
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil && !errors.Is(err, bufio.ErrBufferFull) {
				t.Fatal(err)
			}
		}
		_ = res.Body.Close()
		want := sha256.New()
		_, _ = io.WriteString(want, framing[0])
		writeLarge(want, plainState)
		_, _ = io.WriteString(want, framing[1])
		if token == "" || !bytes.Equal(got.Sum(nil), want.Sum(nil)) || length < 95<<20 {
			t.Errorf("%s: %d bytes, token %.20q; they differ by more than the token", path, length, token)
		}
	}
	if grown := peak(t, s.cmd.Process.Pid) - before; grown > 40 {
		t.Errorf("the sidecar grew by %d MiB", grown)
	} else {
		t.Logf("the sidecar grew by %d MiB from %d", grown, before)
	}
}
