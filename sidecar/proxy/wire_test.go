package proxy

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"regexp"
	"strings"
	"testing"
)

// A capture is what go-sdk's client and server said to each other.
type capture struct {
	requests  []*http.Request
	bodies    []string // of the requests
	responses []string // raw, header and all
}

var captureMarker = regexp.MustCompile(`\n(?:#####[^\n]*|----- (CLIENT->SERVER|SERVER->CLIENT) -----)\n`)

func readCapture(t *testing.T, file string) capture {
	t.Helper()
	text, err := os.ReadFile("testdata/" + file)
	if err != nil {
		t.Fatal(err)
	}
	sides := map[string]*bytes.Buffer{"": {}, "CLIENT->SERVER": {}, "SERVER->CLIENT": {}}
	marks := captureMarker.FindAllSubmatchIndex(text, -1)
	for i, m := range marks {
		side := ""
		if m[2] >= 0 {
			side = string(text[m[2]:m[3]])
		}
		end := len(text)
		if i+1 < len(marks) {
			end = marks[i+1][0]
		}
		sides[side].Write(text[m[1]:max(end, m[1])])
	}
	var c capture
	for r := bufio.NewReader(sides["CLIENT->SERVER"]); ; {
		request, err := http.ReadRequest(r)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(request.Body)
		if err != nil {
			t.Fatal(err)
		}
		c.requests = append(c.requests, request)
		c.bodies = append(c.bodies, string(body))
	}
	for _, response := range strings.Split(sides["SERVER->CLIENT"].String(), "HTTP/1.1 200 OK\r\n")[1:] {
		c.responses = append(c.responses, "HTTP/1.1 200 OK\r\n"+response)
	}
	if len(c.requests) < 2 || len(c.requests) != len(c.responses) {
		t.Fatalf("%d requests, %d responses", len(c.requests), len(c.responses))
	}
	return c
}

// replay serves the captured responses byte for byte and passes on what it was
// asked.
func (c *capture) replay(t *testing.T) (address string, seen <-chan *http.Request, bodies <-chan string) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	requests, texts := make(chan *http.Request, 10), make(chan string, 10)
	go func() {
		conn, err := listener.Accept()
		if err != nil {
			return
		}
		defer func() { _ = conn.Close() }()
		r := bufio.NewReader(conn)
		for _, response := range c.responses {
			request, err := http.ReadRequest(r)
			if err != nil {
				return
			}
			body, _ := io.ReadAll(request.Body)
			requests <- request
			texts <- string(body)
			if _, err := io.WriteString(conn, response); err != nil {
				return
			}
		}
		_, _ = io.Copy(io.Discard, r)
	}()
	return listener.Addr().String(), requests, texts
}

const plainState = `"requestState":"plain:deploy:prod"`

// The captured client talks to the captured server. Outside the one string, both
// get the very bytes that they got without a proxy.
func TestCapturedExchangesPassByteForByte(t *testing.T) {
	for file, sealedStates := range map[string]int{
		"go-sdk-1.8.0-json.txt":                 1,
		"go-sdk-1.8.0-sse.txt":                  1,
		"go-sdk-1.8.0-state-only-empty-map.txt": 1,
		"go-sdk-1.8.0-state-only-nil-map.txt":   1,
	} {
		t.Run(file, func(t *testing.T) {
			c := readCapture(t, file)
			address, seen, bodies := c.replay(t)
			b := newBenchAt(t, "http://"+address)
			token, sealed := "", 0
			for i, request := range c.requests {
				body := strings.Replace(c.bodies[i], plainState, `"requestState":"`+token+`"`, 1)
				got := b.replayRequest(request, body)

				if upstream := <-bodies; upstream != c.bodies[i] {
					t.Errorf("upstream got %s\nwant %s", upstream, c.bodies[i])
				}
				checkForwardedHeader(t, request, <-seen, address)

				want, err := http.ReadResponse(bufio.NewReader(strings.NewReader(c.responses[i])), request)
				if err != nil {
					t.Fatal(err)
				}
				text, err := io.ReadAll(want.Body)
				if err != nil {
					t.Fatal(err)
				}
				wantBody := string(text)
				if strings.Contains(wantBody, plainState) {
					_, rest, _ := strings.Cut(got.body, `"requestState":"`)
					token, _, _ = strings.Cut(rest, `"`)
					wantBody = strings.Replace(wantBody, plainState, `"requestState":"`+token+`"`, 1)
					sealed++
				}
				if got.body != wantBody || strings.Contains(got.body, plainState) {
					t.Errorf("client got %s\nwant %s", got.body, wantBody)
				}
				checkAnsweredHeader(t, want.Header, got)
			}
			if sealed != sealedStates || !strings.HasPrefix(token, "rsk1.") {
				t.Errorf("%d states sealed, token %q", sealed, token)
			}
		})
	}
}

func (b *bench) replayRequest(request *http.Request, body string) reply {
	b.t.Helper()
	header := []string{}
	for name, values := range request.Header {
		header = append(header, name, values[0])
	}
	return b.do(request.Method, request.URL.Path, body, header...)
}

func checkForwardedHeader(t *testing.T, sent, seen *http.Request, address string) {
	t.Helper()
	if seen.Host != address {
		t.Errorf("Host %q, want %q", seen.Host, address)
	}
	for name := range sent.Header {
		if name != "Accept-Encoding" && name != "Content-Length" && seen.Header.Get(name) != sent.Header.Get(name) {
			t.Errorf("%s: %q, want %q", name, seen.Header.Get(name), sent.Header.Get(name))
		}
	}
	if seen.Header.Get("Accept-Encoding") != "identity" {
		t.Errorf("Accept-Encoding: %q", seen.Header.Get("Accept-Encoding"))
	}
}

func checkAnsweredHeader(t *testing.T, want http.Header, got reply) {
	t.Helper()
	for name := range want {
		if name != "Connection" && name != "Content-Length" && want.Get(name) != got.header.Get(name) {
			t.Errorf("%s: %q, want %q", name, got.header.Get(name), want.Get(name))
		}
	}
	if want.Get("Content-Length") != "" && got.length != int64(len(got.body)) {
		t.Errorf("Content-Length %d of %d", got.length, len(got.body))
	}
}
