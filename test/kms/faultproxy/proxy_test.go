package faultproxy

import (
	"context"
	"errors"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

const whole = `{"KeyId":"the whole answer"}`

// start starts a proxy in front of a KMS that answers everything, and counts
// what reaches it.
func start(t *testing.T) (p *Proxy, reached *atomic.Int32) {
	t.Helper()
	reached = new(atomic.Int32)
	kms := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body)
		if string(b) != "{}" || r.Header.Get("Authorization") != "signature" {
			t.Errorf("the KMS got %q from %q", b, r.Header.Get("Authorization"))
		}
		reached.Add(1)
		w.Header().Set("Content-Type", contentType)
		_, _ = io.WriteString(w, whole)
	}))
	t.Cleanup(kms.Close)
	p = Start(kms.URL)
	t.Cleanup(p.Close)
	if !strings.HasPrefix(p.URL, "http://127.0.0.1:") {
		t.Fatalf("listening on %s", p.URL)
	}
	return p, reached
}

func call(ctx context.Context, p *Proxy, op string) (status int, body string, err error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, p.URL, strings.NewReader("{}"))
	if err != nil {
		return 0, "", err
	}
	r.Header.Set("X-Amz-Target", "TrentService."+op)
	r.Header.Set("Authorization", "signature")
	a, err := http.DefaultClient.Do(r)
	if err != nil {
		return 0, "", err
	}
	defer func() { _ = a.Body.Close() }()
	b, err := io.ReadAll(a.Body)
	return a.StatusCode, string(b), err
}

func passes(t *testing.T, p *Proxy, op string) {
	t.Helper()
	if status, body, err := call(t.Context(), p, op); status != 200 || body != whole || err != nil {
		t.Errorf("%s: %d %q, %v: want the KMS's answer", op, status, body, err)
	}
}

func fails(t *testing.T, p *Proxy, op string, fault Fault, want int) {
	t.Helper()
	status, body, err := call(t.Context(), p, op)
	if err != nil || status != want || !strings.Contains(body, `"__type":"`+string(fault)+`"`) {
		t.Errorf("%s: %d %q, %v: want %d %s", op, status, body, err, want, fault)
	}
}

func TestWithoutOrdersTheKMSAnswersAndCallsAreCounted(t *testing.T) {
	p, reached := start(t)
	passes(t, p, "Decrypt")
	passes(t, p, "Decrypt")
	passes(t, p, "DescribeKey")
	if reached.Load() != 3 || p.Count("Decrypt") != 2 || p.Count(AnyOp) != 3 || p.Count("Encrypt") != 0 {
		t.Errorf("%d reached the KMS, counts %v", reached.Load(), p.Counts())
	}
	if want := map[string]int{"Decrypt": 2, "DescribeKey": 1}; !maps.Equal(p.Counts(), want) {
		t.Errorf("counts %v, want %v", p.Counts(), want)
	}
}

func TestOrdersAreByOperationAndByCount(t *testing.T) {
	p, reached := start(t)
	p.Fail("Decrypt", Pass, 1)
	p.Fail("Decrypt", Throttling, 2)
	p.Fail("Decrypt", KMSInternal, 1)
	p.Fail(AnyOp, AccessDenied, 1)
	passes(t, p, "Decrypt")
	fails(t, p, "Decrypt", Throttling, 400)
	fails(t, p, "DescribeKey", AccessDenied, 400)
	passes(t, p, "DescribeKey")
	fails(t, p, "Decrypt", Throttling, 400)
	fails(t, p, "Decrypt", KMSInternal, 500)
	passes(t, p, "Decrypt")

	p.Fail("Decrypt", DependencyTimeout, -1)
	for range 5 {
		fails(t, p, "Decrypt", DependencyTimeout, 503)
	}
	p.Heal()
	passes(t, p, "Decrypt")
	if reached.Load() != 4 {
		t.Errorf("%d reached the KMS, want 4", reached.Load())
	}
	var faults []Fault
	for _, c := range p.Calls() {
		if c.Op == "DescribeKey" {
			faults = append(faults, c.Fault)
		}
	}
	if len(faults) != 2 || faults[0] != AccessDenied || faults[1] != Pass {
		t.Errorf("faults %v", faults)
	}
}

func TestBrokenAnswers(t *testing.T) {
	p, _ := start(t)
	for _, c := range []struct {
		fault  Fault
		status int
		body   string
		err    error
	}{
		{HTML, 503, "<html>", nil},
		{Truncated, 200, whole[:len(whole)/2], nil},
		{Cut, 200, whole[:len(whole)/2], io.ErrUnexpectedEOF},
		{Reset, 0, "", syscall.ECONNRESET},
	} {
		p.Fail("Decrypt", c.fault, 1)
		status, body, err := call(t.Context(), p, "Decrypt")
		if status != c.status || !strings.HasPrefix(body, c.body) || !errors.Is(err, c.err) {
			t.Errorf("%s: %d %q, %v", c.fault, status, body, err)
		}
	}
	passes(t, p, "Decrypt")
}

func TestWhatHangsIsLetGo(t *testing.T) {
	for _, fault := range []Fault{Hang, SlowBody} {
		p, _ := start(t)
		p.Fail("Decrypt", fault, 1)
		done := make(chan struct{})
		go func() {
			defer close(done)
			passes(t, p, "Decrypt")
		}()
		if err := p.Await(t.Context(), "Decrypt", 1); err != nil {
			t.Fatal(err)
		}
		passes(t, p, "Decrypt") // others do not hang
		select {
		case <-done:
			t.Errorf("%s: answered before it was let go", fault)
		default:
		}
		p.Release()
		<-done
	}
}

func TestAClientThatLeavesOrACloseEndsWhatHangs(t *testing.T) {
	p, reached := start(t)
	p.Fail("Decrypt", Hang, -1)
	ctx, cancel := context.WithCancel(t.Context())
	gone := make(chan error, 1)
	go func() {
		_, _, err := call(ctx, p, "Decrypt")
		gone <- err
	}()
	if err := p.Await(t.Context(), "Decrypt", 1); err != nil {
		t.Fatal(err)
	}
	cancel()
	if err := <-gone; !errors.Is(err, context.Canceled) {
		t.Errorf("error %v", err)
	}
	if err := p.AwaitLeft(t.Context(), 1); err != nil {
		t.Fatal(err)
	}
	closed := make(chan struct{})
	go func() {
		defer close(closed)
		_, _, _ = call(t.Context(), p, "Decrypt")
	}()
	if err := p.Await(t.Context(), "Decrypt", 2); err != nil {
		t.Fatal(err)
	}
	p.Close()
	<-closed
	if reached.Load() > 1 {
		t.Error("the call of a client that had gone was answered")
	}
	if err := p.Await(ctx, "Decrypt", 3); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v of a wait that was given up", err)
	}
}

func TestTheLimitIsOfCallsPerSecond(t *testing.T) {
	b := &bucket{rate: 5, tokens: 5, last: time.Unix(0, 0)}
	allowed := 0
	for ms := range 10_000 { // 1,000 calls a second for 10 s
		if b.allow(time.UnixMilli(int64(ms))) {
			allowed++
		}
	}
	if allowed < 54 || allowed > 55 {
		t.Errorf("%d calls in 10 s, want the burst of 5 and 5 a second", allowed)
	}
	slow := &bucket{rate: 0.5, tokens: 1, last: time.Unix(0, 0)}
	if !slow.allow(time.Unix(0, 0)) || slow.allow(time.Unix(1, 0)) || !slow.allow(time.Unix(2, 0)) {
		t.Error("less than one call a second is not kept")
	}

	p, reached := start(t)
	p.Limit(1)
	passes(t, p, "Decrypt")
	fails(t, p, "DescribeKey", Throttling, 400)
	p.Fail("Decrypt", AccessDenied, 1)
	p.Fail("Decrypt", Pass, 1)
	fails(t, p, "Decrypt", AccessDenied, 400) // orders come before the limit
	passes(t, p, "Decrypt")
	fails(t, p, "Decrypt", Throttling, 400)
	p.Heal()
	passes(t, p, "Decrypt")
	if reached.Load() != 3 {
		t.Errorf("%d reached the KMS", reached.Load())
	}
}

func TestADisableTakesEffectLater(t *testing.T) {
	p, reached := start(t)
	p.StaleAfterDisable(2)
	if status, body, err := call(t.Context(), p, "DisableKey"); status != 200 || body != "" || err != nil {
		t.Fatalf("%d %q, %v", status, body, err)
	}
	for i, want := range []int32{1, 2, 4, 5} { // the third call comes after the DisableKey
		passes(t, p, "Decrypt")
		if reached.Load() != want {
			t.Errorf("after call %d %d had reached the KMS, want %d", i+1, reached.Load(), want)
		}
	}
	passes(t, p, "DisableKey")
	if p.Count("DisableKey") != 2 {
		t.Errorf("counts %v", p.Counts())
	}
}
