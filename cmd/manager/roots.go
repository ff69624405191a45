package main

// A FROM scratch image has no certificates of public authorities, which AWS and token issuers are known by. Where the system has any, or SSL_CERT_FILE
// names some, these are not used.
import _ "golang.org/x/crypto/x509roots/fallback"
