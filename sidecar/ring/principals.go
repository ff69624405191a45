package ring

import "net/http"

// Principals tell who makes a request, under the settings of one ring. They are safe for concurrent use.
type Principals interface {
	// Principal returns the digest of the principal, zeros for a request that is to be unbound. An error means that nothing may be opened or sealed for
	// the request; it holds no credentials.
	Principal(r *http.Request) ([32]byte, error)
	// Screen removes from the request what its peer may not say of the principal.
	Screen(r *http.Request)
}

// Principal asks the principals of the ring held, see [Principals]. Without any all requests are unbound.
func (h *Holder) Principal(r *http.Request) ([32]byte, error) {
	if who := h.current.Load().who; who != nil {
		return who.Principal(r)
	}
	return [32]byte{}, nil
}

// Screen lets the principals of the ring held screen the request, see [Principals].
func (h *Holder) Screen(r *http.Request) {
	if who := h.current.Load().who; who != nil {
		who.Screen(r)
	}
}
