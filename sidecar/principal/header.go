package principal

import (
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"regexp"
	"strings"

	"github.com/requeststate/operator/api/v1alpha1"
)

// headerTeller takes the principal from a header that a trusted proxy sets.
type headerTeller struct {
	name    string // folded
	trusted []netip.Prefix
}

var headerName = regexp.MustCompile(`^[A-Za-z0-9-]{1,64}$`)

// framing are headers that net/http takes out of a request, or that say how it is framed: none of them can name anybody.
var framing = map[string]bool{
	"host": true, "transfer-encoding": true, "trailer": true, "content-length": true, "connection": true,
}

func newHeader(spec *v1alpha1.HeaderPrincipalSpec) (*headerTeller, error) {
	switch {
	case spec == nil:
		return nil, errors.New("spec.principal.header is missing: set header.name and header.trustedProxies")
	case !headerName.MatchString(spec.Name):
		return nil, errors.New("spec.principal.header.name must be 1 to 64 letters, digits and '-', such as X-Forwarded-User")
	case framing[fold(spec.Name)]:
		return nil, errors.New("spec.principal.header.name is a header of HTTP itself: choose the one in which your proxy names the user")
	case len(spec.TrustedProxies) == 0:
		return nil, errors.New("spec.principal.header.trustedProxies is empty, so that nobody could name a principal: list the CIDRs of the proxies that set the header")
	}
	t := &headerTeller{name: fold(spec.Name)}
	for i, text := range spec.TrustedProxies {
		prefix, err := netip.ParsePrefix(text)
		if err != nil {
			return nil, fmt.Errorf("spec.principal.header.trustedProxies[%d] is not a CIDR such as 10.0.0.0/8; write a single address as 10.0.0.1/32", i)
		}
		if prefix.Addr().Is4In6() {
			return nil, fmt.Errorf("spec.principal.header.trustedProxies[%d] is an IPv4 range in IPv6 form: write it as IPv4, such as 10.0.0.0/8", i)
		}
		t.trusted = append(t.trusted, prefix)
	}
	return t, nil
}

// tell does not rely on screen having been called.
func (t *headerTeller) tell(r *http.Request) ([]byte, error) {
	if !t.trusts(r.RemoteAddr) {
		return nil, ErrAbsent
	}
	if endsHere(r.Header, t.name) {
		return nil, errEndsHere
	}
	switch values := lines(r.Header, t.name); {
	case len(values) == 0:
		return nil, ErrAbsent
	case len(values) > 1:
		return nil, errTwoValues
	case values[0] == "":
		return nil, errNoValue
	default:
		return []byte(values[0]), nil
	}
}

func (t *headerTeller) screen(r *http.Request) {
	// In a trailer it is never the proxy's: that sets a header, and a server may merge the two.
	remove(r.Trailer, t.name)
	if !t.trusts(r.RemoteAddr) {
		remove(r.Header, t.name)
	}
}

func (t *headerTeller) close() {}

// trusts tells whether the TCP peer is a trusted proxy. An address that cannot be read is not. IPv4 peers of a socket that listens on IPv6 too appear
// as ::ffff:a.b.c.d. A prefix cannot name a zone, so that of a link-local peer is left out.
func (t *headerTeller) trusts(remote string) bool {
	peer, err := netip.ParseAddrPort(remote)
	if err != nil {
		return false
	}
	address := peer.Addr().Unmap().WithZone("")
	for _, prefix := range t.trusted {
		if prefix.Contains(address) {
			return true
		}
	}
	return false
}

// fold returns the one form of all header names that some server behind may take for each other: they differ in case, which HTTP ignores, or in `_`
// or another sign for `-`, which whoever turns headers into CGI or WSGI variables no longer sees.
func fold(name string) string {
	return strings.Map(func(r rune) rune {
		if 'a' <= r && r <= 'z' || '0' <= r && r <= '9' {
			return r
		}
		return '-'
	}, strings.ToLower(name))
}

// endsHere tells whether a Connection line names the header: it is then taken out before the request reaches the server, which would see nobody where a state is
// bound to somebody.
func endsHere(h http.Header, folded string) bool {
	for _, line := range h["Connection"] {
		for name := range strings.SplitSeq(line, ",") {
			if fold(strings.TrimSpace(name)) == folded {
				return true
			}
		}
	}
	return false
}

// lines returns the values of every line whose name folds to folded. Keys of the map need not be in the canonical form of net/http.
func lines(h http.Header, folded string) []string {
	var all []string
	for name, values := range h {
		if fold(name) == folded {
			all = append(all, values...)
		}
	}
	return all
}

func remove(h http.Header, folded string) {
	for name := range h {
		if fold(name) == folded {
			delete(h, name)
		}
	}
}
