package principal

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"time"
)

const (
	fetchTimeout   = 5 * time.Second // for discovery and keys together
	maxAnswerBytes = 1 << 20
	maxHeaderBytes = 64 << 10
)

// Why keys were not fetched. The texts are all that is ever told: errors of net/http quote what a peer sent.
var (
	errNotKeySet    = errors.New("it answered with something else than a JSON Web Key Set")
	errNotDiscovery = errors.New("it answered with something else than an OpenID Connect configuration")
	errOtherIssuer  = errors.New("its OpenID Connect configuration names another issuer: spec.principal.jwt.issuer must be exactly that text")
	errInsecureKeys = errors.New("its OpenID Connect configuration has no jwks_uri that is https")
	errRedirect     = errors.New("it answered with a redirect, which is not followed: set spec.principal.jwt.jwksURI to where the keys are")
	errAnswerSize   = fmt.Errorf("its answer is longer than %d bytes", maxAnswerBytes)
	errTimeout      = fmt.Errorf("no whole answer within %v", fetchTimeout)
	errNoName       = errors.New("its name cannot be resolved")
	errNoConnection = errors.New("no connection to it can be made")
	errNotTrusted   = errors.New("its certificate is not trusted: set spec.principal.jwt.caBundle to the authority's certificates")
	errNotHTTP      = errors.New("it gave no valid HTTPS answer")
	errStopped      = errors.New("the settings are no longer in use")
)

// A fetcher fetches an issuer's keys. It keeps nothing.
type fetcher struct {
	client       *http.Client
	issuer       string
	jwksURI      string // empty: found by discovery, each time
	loopbackHTTP bool
}

// newClient returns a client that goes straight to the issuer and nowhere else: it follows no redirect, and no proxy of the environment. Fetches are
// so far apart that connections are not kept.
func newClient(roots *x509.CertPool) *http.Client {
	return &http.Client{
		Transport: &http.Transport{
			TLSClientConfig:        &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12},
			DisableKeepAlives:      true,
			DisableCompression:     true, // so that the bound on an answer is one on its text
			MaxResponseHeaderBytes: maxHeaderBytes,
		},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// keys fetches the key set. It takes at most fetchTimeout. Its errors hold nothing that a peer sent.
func (f *fetcher) keys(ctx context.Context) (*keySet, error) {
	ctx, cancel := context.WithTimeout(ctx, fetchTimeout)
	defer cancel()
	uri := f.jwksURI
	if uri == "" {
		var err error
		if uri, err = f.discover(ctx); err != nil {
			return nil, err
		}
	}
	text, err := f.get(ctx, uri)
	if err != nil {
		return nil, err
	}
	return readKeySet(text)
}

// discover finds where the keys are (OpenID Connect Discovery 1.0, section 4). An issuer that ends in a slash does not get two.
func (f *fetcher) discover(ctx context.Context) (jwksURI string, err error) {
	text, err := f.get(ctx, strings.TrimSuffix(f.issuer, "/")+"/.well-known/openid-configuration")
	if err != nil {
		return "", err
	}
	document, err := readObject(text)
	if err != nil {
		return "", errNotDiscovery
	}
	if string(document.get("issuer")) != literal(f.issuer) {
		return "", errOtherIssuer
	}
	uri, ok := document.text("jwks_uri")
	if !ok || !isFetchable(uri, f.loopbackHTTP) {
		return "", errInsecureKeys
	}
	return uri, nil
}

func (f *fetcher) get(ctx context.Context, uri string) ([]byte, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, uri, nil)
	if err != nil {
		return nil, errNotHTTP
	}
	req.Header.Set("Accept", "application/json")
	req.Header.Set("User-Agent", "requeststate-sidecar")
	res, err := f.client.Do(req)
	if err != nil {
		return nil, cause(err)
	}
	defer func() { _ = res.Body.Close() }()
	switch {
	case res.StatusCode >= 300 && res.StatusCode < 400:
		return nil, errRedirect
	case res.StatusCode != http.StatusOK:
		return nil, fmt.Errorf("it answered with HTTP status %d", res.StatusCode)
	}
	text, err := io.ReadAll(io.LimitReader(res.Body, maxAnswerBytes+1))
	switch {
	case err != nil:
		return nil, cause(err)
	case len(text) > maxAnswerBytes:
		return nil, errAnswerSize
	}
	return text, nil
}

// cause says in fixed words why an exchange failed.
func cause(err error) error {
	var (
		network     net.Error
		name        *net.DNSError
		dial        *net.OpError
		certificate *tls.CertificateVerificationError
	)
	switch {
	case errors.Is(err, context.Canceled):
		return errStopped
	case errors.As(err, &certificate):
		return errNotTrusted
	case errors.Is(err, context.DeadlineExceeded), errors.As(err, &network) && network.Timeout():
		return errTimeout
	case errors.As(err, &name):
		return errNoName
	case errors.As(err, &dial) && dial.Op == "dial":
		return errNoConnection
	default:
		return errNotHTTP
	}
}
