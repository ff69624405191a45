package proxy

import (
	"io"
	"log"
	"net/http"
	"net/http/httputil"
	"strings"
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

// mayUpgrade reports whether the request keeps to HTTP as we read it, or changes
// to WebSocket where nothing is read.
func mayUpgrade(r *http.Request, passthrough bool) bool {
	upgrade := r.Header["Upgrade"]
	if r.Method == http.MethodConnect {
		return false
	}
	if len(upgrade) == 0 {
		return true
	}
	return passthrough && len(upgrade) == 1 && strings.EqualFold(upgrade[0], "websocket")
}

func (p *Proxy) newPassthrough() *httputil.ReverseProxy {
	return &httputil.ReverseProxy{
		Transport:     p.transport,
		FlushInterval: -1,
		Rewrite: func(r *httputil.ProxyRequest) {
			r.Out.URL.Scheme, r.Out.URL.Host = p.config.Upstream.Scheme, p.config.Upstream.Host
			r.Out.URL.RawQuery = r.In.URL.RawQuery
			keepForwarded(r.Out.Header, r.In.Header)
			rewriteHost(r.Out, r.In.Host)
		},
		ErrorHandler: func(w http.ResponseWriter, _ *http.Request, err error) {
			p.config.Logger.Warn("upstream did not answer", "cause", dialCause(err))
			answerBadGateway(w, nil, "Upstream did not answer")
		},
		ErrorLog: log.New(io.Discard, "", 0), // it would quote what upstream sent
	}
}

// keepForwarded restores the headers that httputil.ReverseProxy drops.
func keepForwarded(out, in http.Header) {
	for _, name := range []string{"Forwarded", "X-Forwarded-For", "X-Forwarded-Proto"} {
		if values, ok := in[name]; ok {
			out[name] = values
		}
	}
}

// passThrough forwards the exchange unread. It may last as long as a stream, so it
// is counted as one.
func (x *exchange) passThrough() {
	if !x.becomeStream() {
		answerUnavailable(x.w, nil, "Busy")
		return
	}
	x.proxy.passthrough.ServeHTTP(x.w, x.r)
}

// becomeStream moves the exchange from the count of exchanges to that of streams.
func (x *exchange) becomeStream() bool {
	if !x.proxy.streams.take() {
		return false
	}
	x.release()
	x.release = x.proxy.streams.release
	return true
}
