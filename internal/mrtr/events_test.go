package mrtr

import (
	"bytes"
	"errors"
	"strings"
	"testing"
)

// stream passes in through an EventWriter in pieces of the given size.
func stream(t testing.TB, x *Exchange, in string, size, limit int) (string, error) {
	t.Helper()
	var out bytes.Buffer
	e := NewEventWriter(&out, nil, x, Anything, limit)
	for len(in) > 0 {
		n := min(size, len(in))
		if _, err := e.Write([]byte(in[:n])); err != nil {
			return out.String(), err
		}
		in = in[n:]
	}
	err := e.Close()
	return out.String(), err
}

func TestEventStreamPassesUnchanged(t *testing.T) {
	for name, in := range map[string]string{
		"empty":                     "",
		"LF":                        "event: message\ndata: {\"a\":1}\n\n",
		"CRLF":                      "event: message\r\nid: 5\r\ndata: {\"a\":1}\r\n\r\n",
		"CR":                        "event: message\rdata: {\"a\":1}\r\rdata: 2\r\r",
		"mixed":                     "data: 1\r\ndata: 2\rdata: 3\n\r\ndata: 4\n\r\rdata: 5\r\n\n",
		"comments and keep-alives":  ": hello\n\n:\n\n:\n: x\ndata: 1\n: y\n\n",
		"byte order mark":           "\ufeffdata: 1\n\n\ufeffdata: 2\n\n",
		"priming event":             "id: 0\nretry: 3000\ndata:\n\n",
		"data without colon":        "data\n\ndata\ndata\n\n",
		"unknown fields":            "Data: x\nfoo: bar\ndatax: 1\n data: 3\n\n",
		"unfinished event":          "data: {\"a\":1}\n\ndata: {\"a\"",
		"unfinished after a line":   "data: {\"a\":1}\n",
		"blank lines":               "\n\n\r\n\r\r\n",
		"endpoint of an older mode": "event: endpoint\ndata: /messages?requestState=1\n\n",
		"no JSON":                   "data: [DONE]\n\n",
		"invalid UTF-8":             "data: \xff\xfe\n\n",
		"NUL":                       "data: \x00\n\n",
		"multi-line":                "data: {\"id\":1,\ndata: \"result\":{}}\n\n",
	} {
		for _, size := range []int{1, 2, 3, 7, 1 << 20} {
			x, faults := testExchange(t, call(`1`))
			got, err := stream(t, x, in, size, 4096)
			if got != in || err != nil || len(*faults) > 0 {
				t.Errorf("%s in pieces of %d: %q, %v, %v", name, size, got, err, *faults)
			}
		}
	}
}

func TestEventStreamSealsStates(t *testing.T) {
	for _, c := range []struct{ name, in, want string }{
		{"LF", "event: message\nid: 7\ndata: {\"id\":1,\"result\":{\"requestState\":\"a\"}}\nretry: 5\n\ndata: 2\n\n",
			"event: message\nid: 7\ndata: {\"id\":1,\"result\":{\"requestState\":\"sealed:t1:61\"}}\nretry: 5\n\ndata: 2\n\n"},
		{"CRLF, no space", "data:{\"id\":1,\"result\":{\"requestState\":\"a\"}}\r\n\r\n",
			"data:{\"id\":1,\"result\":{\"requestState\":\"sealed:t1:61\"}}\r\n\r\n"},
		{"CR, two spaces", "data:  {\"id\":1,\"result\":{\"requestState\":\"a\"}}\r: c\rid: 3\r\r",
			"data:  {\"id\":1,\"result\":{\"requestState\":\"sealed:t1:61\"}}\r: c\rid: 3\r\r"},
		{"several lines", "data: {\"id\":1,\r\n: between\r\ndata:\"result\":{\r\ndata\r\ndata: \"requestState\": \"a\"\r\ndata: ,\"x\":1}}\r\n\r\n",
			"data: {\"id\":1,\r\n: between\r\ndata:\"result\":{\r\ndata\r\ndata: \"requestState\": \"sealed:t1:61\"\r\ndata: ,\"x\":1}}\r\n\r\n"},
		{"byte order mark", "\ufeffdata: {\"id\":1,\"result\":{\"requestState\":\"a\"}}\n\n",
			"\ufeffdata: {\"id\":1,\"result\":{\"requestState\":\"sealed:t1:61\"}}\n\n"},
		{"byte order mark inside", "data: \ufeff{\"id\":1,\"result\":{\"requestState\":\"a\"}}\n\n",
			"data: \ufeff{\"id\":1,\"result\":{\"requestState\":\"sealed:t1:61\"}}\n\n"},
		{"unfinished", "data: 1\n\nevent: message\ndata: {\"id\":1,\"result\":{\"requestState\":\"a\"}}",
			"data: 1\n\nevent: message\ndata: {\"id\":1,\"result\":{\"requestState\":\"sealed:t1:61\"}}"},
		{"unfinished after a line", "data: {\"id\":1,\"result\":{\"requestState\":\"a\"}}\r\nid: 3",
			"data: {\"id\":1,\"result\":{\"requestState\":\"sealed:t1:61\"}}\r\nid: 3"},
		{"two states in one batch", "data: [{\"id\":1,\"result\":{\"requestState\":\"a\"}},\ndata: {\"id\":1,\"result\":{\"requestState\":\"b\"}}]\n\n",
			"data: [{\"id\":1,\"result\":{\"requestState\":\"sealed:t1:61\"}},\ndata: {\"id\":1,\"result\":{\"requestState\":\"sealed:t1:62\"}}]\n\n"},
		{"replaced", "id: 4\ndata: {\"id\":3,\"result\":{\"requestState\":\"a\"}}\nevent: message\n\n",
			"id: 4\ndata: " + internal(`3`) + "\nevent: message\n\n"},
		{"replaced, several lines", "data: {\"id\":3,\r\nid: 4\r\ndata: \"result\":{\"requestState\":\"a\"}}\r\n\r\n",
			"data: " + internal(`3`) + "\r\nid: 4\r\n\r\n"},
		{"one of a batch replaced", "data:[{\"id\":3,\nid: 4\ndata:\"result\":{\"requestState\":\"a\"}},\ndata: 5]\n\n",
			"data: [" + internal(`3`) + ",\ndata: 5]\nid: 4\n\n"},
		{"cut off", "data: {\"id\":1,\"result\":{\"requestState\":\"a", "data: " + internal(`1`)},
	} {
		for _, size := range []int{1, 2, 3, 7, 1 << 20} {
			x, _ := testExchange(t, call(`1`))
			got, err := stream(t, x, c.in, size, 4096)
			if got != c.want || err != nil {
				t.Errorf("%s in pieces of %d: %v\ngot  %q\nwant %q", c.name, size, err, got, c.want)
			}
		}
	}
}

// An event must not wait for bytes that come after it, and a comment must not
// wait for an event.
func TestEventStreamDoesNotWait(t *testing.T) {
	for _, in := range []string{"data: 1\n\n", "data: 1\r\n\r", "data: 1\r\r", ": ping\n", "event: x\n", "\r"} {
		x, _ := testExchange(t, "")
		var out bytes.Buffer
		flushed := ""
		e := NewEventWriter(&out, func() error { flushed = out.String(); return nil }, x, Anything, 100)
		if _, err := e.Write([]byte(in)); err != nil || flushed != in {
			t.Errorf("after %q: flushed %q, %v", in, flushed, err)
		}
	}
}

func TestEventStreamHoldsNoMoreThanTheLimit(t *testing.T) {
	long := strings.Repeat("x", 100)
	for name, in := range map[string]string{
		"a comment":          ": " + long + "\n",
		"comment after data": "data: 1\n:" + long + "\n\n",
		"a line unended":     "event: " + long,
	} {
		for _, size := range []int{1, 9, 1 << 20} {
			x, _ := testExchange(t, "")
			if out, err := stream(t, x, in, size, 64); !errors.Is(err, ErrEventTooLong) || strings.Contains(out, "x") {
				t.Errorf("%s in pieces of %d: %q, %v", name, size, out, err)
			}
		}
	}
	x, _ := testExchange(t, "")
	in := strings.Repeat(": keep-alive\n", 1000) + strings.Repeat("data: 123\n\n", 1000)
	if out, err := stream(t, x, in, 1<<20, 64); err != nil || out != in {
		t.Errorf("a long stream of short events: %v", err)
	}
}

func TestEventStreamReportsWriteAndFlushErrors(t *testing.T) {
	broken := errors.New("broken")
	x, _ := testExchange(t, "")
	e := NewEventWriter(&bytes.Buffer{}, func() error { return broken }, x, Anything, 100)
	if _, err := e.Write([]byte("data: 1\n\n")); !errors.Is(err, broken) {
		t.Errorf("flush: %v", err)
	}
	e = NewEventWriter(writerFunc(func([]byte) (int, error) { return 0, broken }), nil, x, Anything, 100)
	if _, err := e.Write([]byte("data: 1\n\n")); !errors.Is(err, broken) {
		t.Errorf("write: %v", err)
	}
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }

// However a stream is cut, the same comes out; and without requests, no state.
func FuzzEventStream(f *testing.F) {
	f.Add("data: {\"id\":1,\rdata:\"result\":{\"requestState\":\"a\"}}\r\n\r\n", 3)
	f.Add("\ufeffdata: [{\"id\":3,\ndata: \"result\":{\"requestState\":5}}]\n\n: x\n\n", 1)
	f.Fuzz(func(t *testing.T, in string, size int) {
		if size <= 0 {
			return
		}
		run := func(request, in string, size int) string {
			x, _ := testExchange(t, request)
			out, err := stream(t, x, in, size, 1<<20)
			if err != nil && !errors.Is(err, ErrNotData) {
				t.Fatal(err)
			}
			return out
		}
		whole := run(call(`1`), in, len(in)+1)
		if cut := run(call(`1`), in, size); cut != whole {
			t.Fatalf("%q in pieces of %d: %q, whole %q", in, size, cut, whole)
		}
		closed := run("", in, size)
		if again := run("", closed, size); again != closed {
			t.Fatalf("%q became %q, then %q", in, closed, again)
		}
	})
}

func TestLinesThatAreDataForSomeParsersOnly(t *testing.T) {
	for _, line := range []string{"Data: ", " data:", "DATA :", "\ufeffdata: ", "\tdata:", "da\x00ta:", ": x\u2028data: ", "event: x\vdata: ", "id: 1\u0085data:"} {
		for _, limit := range []int{1 << 20, 16} {
			for _, end := range []string{"\n\n", ""} {
				x, _ := testExchange(t, call(`1`))
				in := "event: x\ndata: 12345678\n" + line + stateAnswer + end
				out, err := stream(t, x, in, 7, limit)
				if err == nil || strings.Contains(out, "requestState") {
					t.Errorf("%q within %d: %q, %v", line, limit, out, err)
				}
			}
		}
	}
}
