package proxy

import (
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
)

// rewriteHost names upstream's own authority: server libraries refuse a foreign Host
// on loopback. What they refuse it for, a web page that has had its own name resolve
// to loopback, reaches them as it came, so that their verdict is the one that they
// give without us.
func rewriteHost(out, in *http.Request) {
	out.Host = ""
	if isRebinding(in) {
		out.Host = in.Host
	}
	out.Header.Set("X-Forwarded-Host", in.Host)
}

// isRebinding reports whether the request may come from a page that attacks by DNS
// rebinding: over loopback, with a foreign Host which is the page's own origin. A
// browser sends that origin with each POST.
func isRebinding(r *http.Request) bool {
	local, ok := r.Context().Value(http.LocalAddrContextKey).(net.Addr)
	if !ok || !isLoopback(local.String()) || isLoopback(r.Host) {
		return false
	}
	for _, line := range r.Header["Origin"] {
		if origin, err := url.Parse(line); err == nil && strings.EqualFold(origin.Host, r.Host) {
			return true
		}
	}
	return false
}

// isLoopback reports whether an address or a Host, with or without a port, is one of
// this machine's own.
func isLoopback(address string) bool {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		host = strings.Trim(address, "[]")
	}
	if strings.EqualFold(host, "localhost") {
		return true
	}
	ip, err := netip.ParseAddr(host)
	return err == nil && ip.Unmap().IsLoopback()
}
