// Package roots has a program trust the public certificate authorities where its system knows none: an image FROM scratch has no certificates, and AWS and the issuers of
// tokens are known by them. Where the system has any, or SSL_CERT_FILE names some, these are not used. It is imported for its effect alone, by each command that speaks to them.
package roots

import _ "golang.org/x/crypto/x509roots/fallback" // Mozilla's, kept by the Go team
