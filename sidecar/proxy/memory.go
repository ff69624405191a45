package proxy

import (
	"errors"
	"io"
)

// freeBody is what of each body is not counted, so that large ones cannot keep out the
// small ones that most are.
const freeBody = 64 << 10

var errNoMemory = errors.New("the bodies under way take as much as --max-body-memory-bytes allows")

// takeBody counts n more bytes of the exchange's body. It reports whether there was room.
func (x *exchange) takeBody(n int64) bool {
	if x.proxy.bodies.Add(n) > x.proxy.config.MaxBodyMemoryBytes {
		x.proxy.bodies.Add(-n)
		return false
	}
	x.taken += n
	return true
}

// releaseBody gives back what was taken.
func (x *exchange) releaseBody() {
	x.proxy.bodies.Add(-x.taken)
	x.taken = 0
}

// readAll reads the body, up to limit bytes and one more. Its memory grows with what came,
// not with what was announced.
func (x *exchange) readAll(body io.Reader, limit int64) ([]byte, error) {
	text := make([]byte, 0, min(max(x.r.ContentLength, 512), freeBody)+1)
	for int64(len(text)) <= limit {
		if len(text) == cap(text) {
			size := min(2*int64(cap(text)), limit+1)
			if x.r.ContentLength > int64(cap(text)) {
				size = min(size, x.r.ContentLength+1)
			}
			if size > freeBody && !x.takeBody(size-max(int64(cap(text)), freeBody)) {
				return nil, errNoMemory
			}
			text = append(make([]byte, 0, size), text...)
		}
		n, err := body.Read(text[len(text):min(cap(text), int(limit)+1)])
		text = text[:len(text)+n]
		if errors.Is(err, io.EOF) {
			return text, nil
		}
		if err != nil {
			return text, err
		}
	}
	return text, nil
}
