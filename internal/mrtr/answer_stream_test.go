package mrtr

import (
	"errors"
	"slices"
	"strings"
	"testing"
)

// streamed passes in through an AnswerStream in pieces of the given size.
func streamed(x *Exchange, in string, size, limit int) (out []byte, err error) {
	s := x.Stream(limit)
	for len(in) > 0 {
		n := min(size, len(in))
		if out, err = s.Next(out, []byte(in[:n])); err != nil {
			return out, err
		}
		in = in[n:]
	}
	return out, s.End()
}

var pieces = []int{1, 2, 3, 7, 1 << 20}

func TestStreamedAnswersAreSealedAsHeldOnesAre(t *testing.T) {
	for _, c := range sealedAnswers {
		for _, size := range pieces {
			x, faults := testExchange(t, c.request)
			if out, err := streamed(x, c.in, size, 4096); string(out) != c.want || err != nil || len(*faults) > 0 {
				t.Errorf("%s in pieces of %d: %q, %v, %v", c.name, size, out, err, *faults)
			}
		}
	}
}

func TestPlaintextStateNeverLeavesInAStreamedAnswer(t *testing.T) {
	for _, c := range unsealableAnswers {
		for _, size := range pieces {
			x, faults := testExchange(t, c.request)
			out, err := streamed(x, c.in, size, 1<<20)
			if !errors.Is(err, ErrUnsealable) || len(*faults) != 1 || strings.Contains(string(out), `"a"`) {
				t.Errorf("%s in pieces of %d: %q, %v, %v", c.name, size, out, err, *faults)
			}
		}
	}
}

func TestTheIDMayFollowTheStateInAStreamedAnswer(t *testing.T) {
	for _, c := range []struct {
		name, request, in string
		ok                bool
	}{
		{"one carrier", call(`1`), `{"result":{"requestState":"a"},"id":1}`, true},
		{"one carrier, another id", call(`1`), `{"result":{"requestState":"a"},"id":2}`, false},
		{"one carrier, no id", call(`1`), `{"result":{"requestState":"a"}}`, false},
		{"one carrier, two ids", call(`1`), `{"result":{"requestState":"a"},"id":1,"id":1}`, false},
		{"two carriers, id first", `[` + call(`1`) + `,` + call(`2`) + `]`, `[{"id":2,"result":{"requestState":"a"}}]`, true},
		{"two carriers", `[` + call(`1`) + `,` + call(`2`) + `]`, `[{"result":{"requestState":"a"},"id":2}]`, false},
		{"no carrier", "", `{"result":{"requestState":"a"},"id":1}`, false},
		{"a member twice, after the state", call(`1`), `{"id":1,"result":{"requestState":"a","x":1,"x":2}}`, false},
		{"two states", call(`1`), `{"id":1,"result":{"requestState":"a"},"x":1,"result":{"requestState":"b"}}`, false},
	} {
		x, faults := testExchange(t, c.request)
		if out, err := streamed(x, c.in, 5, 4096); (err == nil) != c.ok || len(*faults) > 0 == c.ok || strings.Contains(string(out), `"a"`) {
			t.Errorf("%s: %q, %v, %v", c.name, out, err, *faults)
		}
	}
}

func TestAStreamedAnswerRemembersNoMoreThanTheLimit(t *testing.T) {
	long := strings.Repeat("x", 5000)
	for name, in := range map[string]string{
		"state": `{"id":1,"result":{"requestState":"` + long + `"}}`,
		"name":  `{"id":1,"result":{"` + long + `":1}}`,
		"id":    `{"id":"` + long + `","result":{}}`,
		"names": `{"id":1,"result":{` + manyNames(100) + `}}`,
	} {
		x, faults := testExchange(t, call(`1`))
		if _, err := streamed(x, in, 100, 4096); !errors.Is(err, ErrUnsealable) || !slices.Equal(*faults, []Fault{FaultTooLong}) {
			t.Errorf("%s: %v, %v", name, err, *faults)
		}
	}
	for name, in := range map[string]string{
		"text":         `{"id":1,"result":{"x":"` + long + `"}}`,
		"nested names": `{"id":1,"result":{"x":{` + manyNames(1000) + `},"y":[{"` + long + `":1}]},"z":{"` + long + `":` + strings.Repeat("1", 5000) + `}}`,
		"responses":    `[` + strings.Repeat(`{"id":1,"result":{"a":1,"b":2}},`, 1000) + `1]`,
		"white space":  strings.Repeat(" ", 5000) + `{}` + strings.Repeat("\n", 5000),
	} {
		x, faults := testExchange(t, call(`1`))
		if out, err := streamed(x, in, 100, 4096); string(out) != in || err != nil || len(*faults) > 0 {
			t.Errorf("%s: %v, %v", name, err, *faults)
		}
	}
}

func manyNames(n int) string {
	var members []string
	for i := range n {
		members = append(members, `"`+strings.Repeat("n", 1+i/26)+string(rune('a'+i%26))+`":0`)
	}
	return strings.Join(members, ",")
}

// A long event becomes what a short one would.
func TestLongEventsAreJudgedAsShortOnesAre(t *testing.T) {
	const long = `{"id":1,"x":"FILL","result":{"requestState":"a"}}`
	for _, in := range []string{
		"data: " + long + "\n\n",
		"\ufeffdata:{\"id\":1,\"x\":\"FILL\",\r\ndata:  \"result\":{\"requestState\":\"a\"\rid: 7\ndata\ndata: }}\r\n\r\n: x\n\ndata: {\"id\":1}\n\n",
		"event: message\ndata:\ndata: {\"x\":\"FILL\"\ndata:,\"id\":1,\"result\":{\"requestState\":\ndata:\"a\"}}\n\ndata: 5\n\n",
		"data: 1\n" + strings.Repeat(": 1234567890\ndata: 12345678901234567890\ndata:[]\n", 20) + "\n",
		"data: [DONE], and then FILL\n\ndata: FILL\ndata:FILL\n\n",
		"data: " + long, "data: " + long + "\n", "data: FILL\ndata", "data: FILL\nda", "data: FILL\ndata:", "data: FILL\ndata: ",
		"data: FILL\r\r\ndata: " + long + "\r\r\r\n",
	} {
		in = strings.ReplaceAll(in, "FILL", strings.Repeat("x", 500))
		x, _ := testExchange(t, call(`1`))
		want, err := stream(t, x, in, 1<<20, 1<<20)
		if err != nil {
			t.Fatal(err)
		}
		for _, limit := range []int{600, 500, 400, 300} {
			for _, size := range append(pieces, 499, 500, 501) {
				if got, err := stream(t, x, in, size, limit); got != want || err != nil {
					t.Errorf("%.60q within %d, in pieces of %d: %.900q, %v", in, limit, size, got, err)
				}
			}
		}
	}
}

// What a held answer becomes, a streamed one becomes, or it is cut off; and what a
// held one is refused for, a streamed one is cut off for.
func FuzzAnswerStream(f *testing.F) {
	for _, c := range sealedAnswers {
		f.Add(c.request, c.in, 3)
	}
	for _, c := range unsealableAnswers {
		if len(c.in) < 1000 {
			f.Add(c.request, c.in, 3)
		}
	}
	f.Fuzz(func(t *testing.T, request, in string, size int) {
		if _, err := ParseRequest([]byte(request), MaxDepth); size <= 0 || err != nil && request != "" {
			return
		}
		x, faults := testExchange(t, request)
		held := string(Replace([]byte(in), x.Edits([]byte(in), JSON)...))
		refused := len(*faults) > 0
		y, _ := testExchange(t, request)
		out, err := streamed(y, in, size, 1<<20)
		switch {
		case err == nil && refused:
			t.Fatalf("%q in pieces of %d passed as %q, held it is refused for %v", in, size, out, *faults)
		case err == nil && string(out) != held:
			t.Fatalf("%q in pieces of %d became %q, held %q", in, size, out, held)
		case err != nil && !refused && !strings.Contains(request, "[") && !strings.Contains(in, "[["):
			t.Fatalf("%q in pieces of %d was cut off, held it becomes %q", in, size, held)
		}
	})
}

func BenchmarkAnswerStream(b *testing.B) {
	in := []byte(`{"id":1,"result":{"x":["` + strings.Repeat(`some text, \"quoted\"`, 2000) + `"]}}`)
	b.SetBytes(int64(len(in)))
	var out []byte
	for b.Loop() {
		s := (&Exchange{}).Stream(1 << 20)
		if out, _ = s.Next(out[:0], in); s.End() != nil {
			b.Fatal("cut off")
		}
	}
}

func TestTheNameIsSeenHoweverTheTextIsCut(t *testing.T) {
	for _, text := range []string{"xx requestState", "REQUESTSTATE", "reque\u017ft\u017ftate", `ab\u0072`, "r_e-q_uest_s_t_a_t_e", "request_state", "r\x00e\x00q\x00u\x00e\x00s\x00t\x00S\x00t\x00a\x00t\x00e\x00"} {
		for size := 1; size <= len(text); size++ {
			var w carryWatch
			for rest := []byte(text); len(rest) > 0; rest = rest[min(size, len(rest)):] {
				w.next(rest[:min(size, len(rest))])
			}
			if !w.seen {
				t.Errorf("%q in pieces of %d", text, size)
			}
		}
	}
	for _, text := range []string{"requestStat", "request State", `\n`, "equestState", "requestXtate", "request__state", "request state"} {
		var w carryWatch
		if w.next([]byte(text)); w.seen {
			t.Errorf("%q", text)
		}
	}
}
