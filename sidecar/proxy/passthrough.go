package proxy

import (
	"io"
	"log"
	"net/http"
	"net/http/httputil"
	"strings"

	"golang.org/x/net/http/httpguts"
)

// isPassthrough reports whether the request's raw path is one of those that pass
// unread. Only plain paths are compared: how a server resolves any other is its
// own affair.
func (p *Proxy) isPassthrough(r *http.Request) bool {
	path, _, _ := strings.Cut(r.RequestURI, "?")
	if !strings.HasPrefix(path, "/") || !isPlainPath(path) {
		return false
	}
	for _, allowed := range p.config.PassthroughPaths {
		if path == allowed || strings.HasSuffix(allowed, "/") && strings.HasPrefix(path, allowed) {
			return true
		}
	}
	return false
}

// ValidPassthroughPath reports whether a path of Config.PassthroughPaths can match any
// request.
func ValidPassthroughPath(path string) bool { return strings.HasPrefix(path, "/") && isPlainPath(path) }

// isPlainPath reports whether all servers read the path alike.
func isPlainPath(path string) bool {
	if strings.ContainsAny(path, `%\;?#`) || strings.Contains(path, "//") {
		return false
	}
	for segment := range strings.SplitSeq(path, "/") {
		if segment == "." || segment == ".." {
			return false
		}
	}
	return true
}

// isPlainHTTP reports whether the request keeps to HTTP/1 or HTTP/2, or changes to
// WebSocket where nothing is read. The preface of HTTP/2 is the one request without
// a meaning that net/http hands to a handler, if its server does not speak HTTP/2.
func isPlainHTTP(r *http.Request, passthrough bool) bool {
	upgrade := r.Header["Upgrade"]
	if r.Method == http.MethodConnect || r.Method == "PRI" || r.ProtoMajor != 1 && r.ProtoMajor != 2 {
		return false
	}
	if len(upgrade) == 0 {
		return true
	}
	return passthrough && len(upgrade) == 1 && strings.EqualFold(upgrade[0], "websocket")
}

// isPlainLine reports whether method and target are such that they can stand in a line
// of HTTP/1: in HTTP/2 they come in fields of their own.
func isPlainLine(r *http.Request) bool {
	return httpguts.ValidHeaderFieldName(r.Method) && !strings.ContainsFunc(r.RequestURI, func(c rune) bool { return c <= ' ' || c == 0x7f })
}

// passThrough forwards the exchange unread. It may last as long as a stream, so it
// is counted as one.
func (x *exchange) passThrough() {
	if !x.holdOrAnswer(x.proxy.streams) {
		return
	}
	r := x.r
	if x.body != nil {
		r = r.WithContext(r.Context()) // a copy: the request is not ours to change
		r.Body = x.body
	}
	upstream := x.proxy.config.Upstream
	through := &httputil.ReverseProxy{
		Transport:     x.proxy.transport,
		FlushInterval: -1,
		Rewrite: func(r *httputil.ProxyRequest) {
			r.Out.URL.Scheme, r.Out.URL.Host = upstream.Scheme, upstream.Host
			r.Out.URL.RawQuery = r.In.URL.RawQuery
			keepForwarded(r.Out.Header, r.In.Header)
			rewriteHost(r.Out, r.In)
		},
		ModifyResponse: func(res *http.Response) error {
			if !isFinal(res) && res.StatusCode != http.StatusSwitchingProtocols {
				return errStatus
			}
			return nil
		},
		ErrorHandler: func(_ http.ResponseWriter, _ *http.Request, err error) { x.unreachable(err) },
		ErrorLog:     log.New(io.Discard, "", 0), // it would quote what upstream sent
	}
	through.ServeHTTP(x.w, r)
}

// keepForwarded restores the headers that httputil.ReverseProxy drops.
func keepForwarded(out, in http.Header) {
	for _, name := range []string{"Forwarded", "X-Forwarded-For", "X-Forwarded-Proto"} {
		if values, ok := in[name]; ok {
			out[name] = values
		}
	}
}
