package proxy

import (
	"bytes"
	"errors"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// idleConnTimeout is how long an unused connection to upstream is kept: less than servers keep theirs, or a request may be sent on one that is just being closed,
// and is lost, since a call must not be made twice. Uvicorn and Node close theirs after 5 s, Gunicorn after 2.
const idleConnTimeout = time.Second

// newTransport returns a transport for a server next door: no proxy from the
// environment, no compression of its own, no limit on how long the server thinks.
func newTransport() *http.Transport {
	dialer := &net.Dialer{Timeout: 10 * time.Second}
	return &http.Transport{
		DialContext:         dialer.DialContext,
		DisableCompression:  true,
		MaxIdleConnsPerHost: 64,
		IdleConnTimeout:     idleConnTimeout,
	}
}

// outgoing returns the request to send upstream. If the client hangs up, it is
// canceled.
func (p *Proxy) outgoing(r *http.Request, body payload, carries bool) *http.Request {
	out := (&http.Request{
		Method: r.Method,
		URL:    p.target(r),
		Header: r.Header.Clone(),
	}).WithContext(r.Context())
	body.attach(out)
	if out.Body != nil && len(r.Trailer) > 0 {
		// The same map: a trailer's values come with the end of the body.
		out.Trailer, out.ContentLength = r.Trailer, -1
		removeFraming(out.Trailer)
	}
	// The answer to a HEAD has no body. A server that sends one nevertheless would
	// answer the next request on the connection with it.
	out.Close = r.Method == http.MethodHead
	removeHopByHop(out.Header)
	// What is compressed cannot be judged, and neither is a part of an answer, or one in
	// a charset of the client's choice.
	out.Header.Set("Accept-Encoding", "identity")
	for _, name := range []string{"Range", "If-Range", "Accept-Charset"} {
		if carries {
			out.Header.Del(name)
		}
	}
	if _, given := out.Header["User-Agent"]; !given {
		out.Header["User-Agent"] = nil // or net/http would send its own
	}
	rewriteHost(out, r)
	return out
}

func (b payload) attach(out *http.Request) {
	switch {
	case b.stream != nil:
		out.Body, out.ContentLength = b.stream, b.length
	case b.bytes != nil:
		out.ContentLength = int64(len(b.bytes))
		// With GetBody the transport can send again what a connection
		// that had idled out never took.
		out.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(b.bytes)), nil }
		out.Body, _ = out.GetBody()
	}
}

// headerBytes counts what a request's target and header take on the wire, about.
func headerBytes(r *http.Request) int {
	n := len(r.Method) + len(r.RequestURI) + len(r.Host)
	for name, values := range r.Header {
		for _, value := range values {
			n += len(name) + len(value) + len(": \r\n")
		}
	}
	return n
}

// target returns the URL that has the request's path and query as they came, on
// upstream's authority.
func (p *Proxy) target(r *http.Request) *url.URL {
	target := &url.URL{
		Scheme:     p.config.Upstream.Scheme,
		Host:       p.config.Upstream.Host,
		Path:       r.URL.Path,
		RawPath:    r.URL.RawPath,
		RawQuery:   r.URL.RawQuery,
		ForceQuery: r.URL.ForceQuery,
	}
	raw, _, _ := strings.Cut(r.RequestURI, "?")
	// An opaque part is sent as it is, unless it begins with two slashes.
	if strings.HasPrefix(raw, "/") && !strings.HasPrefix(raw, "//") {
		target.Path, target.RawPath, target.Opaque = "", "", raw
	}
	return target
}

// hopByHop are the headers that end at each hop, besides those that Connection
// names.
var hopByHop = []string{
	"Connection", "Proxy-Connection", "Keep-Alive", "Proxy-Authenticate", "Proxy-Authorization",
	"Te", "Trailer", "Transfer-Encoding", "Upgrade", "Expect", "Http2-Settings",
}

// removeFraming removes from a trailer what net/http refuses to send in one.
func removeFraming(trailer http.Header) {
	for _, name := range []string{"Content-Length", "Transfer-Encoding", "Trailer"} {
		trailer.Del(name)
	}
}

func removeHopByHop(h http.Header) {
	for _, line := range h["Connection"] {
		for name := range strings.SplitSeq(line, ",") {
			if name = strings.TrimSpace(name); name != "" {
				h.Del(name)
			}
		}
	}
	for _, name := range hopByHop {
		h.Del(name)
	}
}

// dialCause describes why upstream did not answer. Only errors of the network are
// quoted: those of the protocol hold bytes of the answer.
func dialCause(err error) string {
	var network *net.OpError
	if errors.As(err, &network) {
		return network.Error()
	}
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return "it closed the connection before it answered"
	}
	return "no valid HTTP answer"
}

// dialRemedy is the attribute of a log line that says what to check if upstream
// could not be dialled; none otherwise.
func dialRemedy(err error) []any {
	var network *net.OpError
	if !errors.As(err, &network) || network.Op != "dial" {
		return nil
	}
	return []any{"remedy", "check the annotation requeststate.dev/upstream-port (--upstream), and that the server listens on 127.0.0.1"}
}
