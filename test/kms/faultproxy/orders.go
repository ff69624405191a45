package faultproxy

import (
	"context"
	"net/http"
	"time"
)

const opDisable = "DisableKey"

// AnyOp stands for every operation in [Proxy.Fail].
const AnyOp = ""

// A Call is one request that the proxy got.
type Call struct {
	// Op is the AWS operation, such as "Decrypt".
	Op string
	// At is when it came.
	At time.Time
	// Fault is what it was answered with; [Pass] if the KMS answered.
	Fault Fault
}

// An order is a fault for the next calls of an operation.
type order struct {
	fault Fault
	times int // negative: without end
}

// Fail has the next calls of op answered with fault, so many times; negative
// means until [Proxy.Heal]. Orders for one operation follow each other: with
// [Pass] some calls are let through first. An order for [AnyOp] is for calls
// that no order for their operation takes.
func (p *Proxy) Fail(op string, fault Fault, times int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.orders[op] = append(p.orders[op], order{fault, times})
}

// Heal ends all faults that were ordered, the limit included. What hangs goes
// on hanging, see [Proxy.Release].
func (p *Proxy) Heal() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.orders, p.bucket = map[string][]order{}, nil
}

// Limit answers calls of any operation beyond so many a second with
// [Throttling], as an account's quota does. A second's worth may come at once.
func (p *Proxy) Limit(perSecond float64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.bucket = &bucket{rate: perSecond, tokens: max(perSecond, 1), last: time.Now()}
}

// StaleAfterDisable has the next DisableKey acknowledged at once and take
// effect only after so many more calls: states of keys are eventually
// consistent.
func (p *Proxy) StaleAfterDisable(calls int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.stale = calls
}

// Release lets go of every call that hangs now; it is then answered by the
// KMS, if the client still waits.
func (p *Proxy) Release() {
	p.mu.Lock()
	defer p.mu.Unlock()
	close(p.released)
	p.released = make(chan struct{})
}

// Count returns how many calls of op there were, however answered; of all
// operations for [AnyOp].
func (p *Proxy) Count(op string) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	n := 0
	for _, c := range p.calls {
		if op == AnyOp || c.Op == op {
			n++
		}
	}
	return n
}

// Counts returns how many calls there were of each operation.
func (p *Proxy) Counts() map[string]int {
	counts := map[string]int{}
	for _, c := range p.Calls() {
		counts[c.Op]++
	}
	return counts
}

// Calls returns all calls in the order in which they came.
func (p *Proxy) Calls() []Call {
	p.mu.Lock()
	defer p.mu.Unlock()
	return append([]Call(nil), p.calls...)
}

// Await waits until there have been n calls of op, or of any operation for
// [AnyOp]. It returns ctx's error if that ends first.
func (p *Proxy) Await(ctx context.Context, op string, n int) error {
	return p.await(ctx, func() bool { return p.Count(op) >= n })
}

// AwaitLeft waits until n calls that hung have been given up because their clients left. It returns ctx's error if that ends first.
func (p *Proxy) AwaitLeft(ctx context.Context, n int) error {
	return p.await(ctx, func() bool {
		p.mu.Lock()
		defer p.mu.Unlock()
		return p.left >= n
	})
}

func (p *Proxy) await(ctx context.Context, done func() bool) error {
	for {
		p.mu.Lock()
		came := p.came
		p.mu.Unlock()
		if done() {
			return nil
		}
		select {
		case <-came:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// A decision is what becomes of one call.
type decision struct {
	fault    Fault
	overdue  []*withheldCall // to be forwarded before it
	released <-chan struct{} // closed when it is let go, should it hang
}

// take notes a call and decides on it.
func (p *Proxy) take(op string, now time.Time) decision {
	p.mu.Lock()
	defer p.mu.Unlock()
	fault, ordered := p.next(op)
	if !ordered {
		fault, ordered = p.next(AnyOp)
	}
	if !ordered && p.bucket != nil && !p.bucket.allow(now) {
		fault = Throttling
	}
	p.calls = append(p.calls, Call{op, now, fault})
	close(p.came)
	p.came = make(chan struct{})
	d := decision{fault: fault, released: p.released}
	var kept []*withheldCall
	for _, c := range p.withheld {
		if c.left--; c.left < 0 {
			d.overdue = append(d.overdue, c)
		} else {
			kept = append(kept, c)
		}
	}
	p.withheld = kept
	return d
}

// next uses up one of the orders for op.
func (p *Proxy) next(op string) (Fault, bool) {
	for len(p.orders[op]) > 0 {
		o := &p.orders[op][0]
		if o.times != 0 {
			o.times--
			return o.fault, true
		}
		p.orders[op] = p.orders[op][1:]
	}
	return Pass, false
}

// A withheldCall was acknowledged and not forwarded yet.
type withheldCall struct {
	request *http.Request
	body    []byte
	left    int // calls until it is forwarded
}

// withhold keeps a DisableKey back if that was asked for.
func (p *Proxy) withhold(r *http.Request, body []byte) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.stale < 0 {
		return false
	}
	p.withheld = append(p.withheld, &withheldCall{r.Clone(context.WithoutCancel(r.Context())), body, p.stale})
	p.stale = -1
	return true
}

// A bucket holds up to a second's worth of calls.
type bucket struct {
	rate, tokens float64
	last         time.Time
}

func (b *bucket) allow(now time.Time) bool {
	b.tokens = min(b.tokens+now.Sub(b.last).Seconds()*b.rate, max(b.rate, 1))
	b.last = now
	if b.tokens < 1 {
		return false
	}
	b.tokens--
	return true
}
