package kms

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"strings"
	"testing"
)

func TestCanonicalContextVector(t *testing.T) {
	c := EncryptionContext{Namespace: "prod", Name: "deployer", KeyID: "0102030405060708"}
	b, err := c.Canonical()
	if err != nil {
		t.Fatal(err)
	}
	const want = "7265717565737473746174652e6465762f636f6e746578742f763100" + // the label and its NUL
		"0004" + "70726f64" +
		"0008" + "6465706c6f796572" +
		"0010" + "30313032303330343035303630373038"
	if got := hex.EncodeToString(b); got != want {
		t.Errorf("canonical form\n%s, want\n%s", got, want)
	}
	if !maps.Equal(c.AWS(), map[string]string{
		"requeststate.dev/namespace": "prod",
		"requeststate.dev/name":      "deployer",
		"requeststate.dev/key-id":    "0102030405060708",
	}) {
		t.Errorf("AWS context %v", c.AWS())
	}
}

// "a"+"bc" and "ab"+"c" must not meet.
func TestCanonicalContextIsInjective(t *testing.T) {
	seen := map[string]EncryptionContext{}
	for _, c := range []EncryptionContext{
		{"a", "bc", "0102030405060708"}, {"ab", "c", "0102030405060708"}, {"abc", "\x00", "0102030405060708"},
		{"a", "bc", "0102030405060709"}, {"a\x00\x02bc", "x", "0102030405060708"},
	} {
		b, err := c.Canonical()
		if err != nil {
			t.Fatal(err)
		}
		if other, ok := seen[string(b)]; ok {
			t.Errorf("%v and %v have one form", c, other)
		}
		seen[string(b)] = c
	}
}

func TestCanonicalContextRefusesByField(t *testing.T) {
	for field, c := range map[string]EncryptionContext{
		"namespace":  {"", "n", "0102030405060708"},
		"name must":  {"ns", "", "0102030405060708"},
		"name must ": {"ns", strings.Repeat("n", 65536), "0102030405060708"},
		"key-id":     {"ns", "n", ""},
		"key-id: a":  {"ns", "n", "010203040506070A"},
	} {
		if _, err := c.Canonical(); err == nil || !strings.Contains(err.Error(), field) {
			t.Errorf("error %v, want one that names %q", err, field)
		}
	}
}

func TestErrorsShowNothingOfWhatTheyWrap(t *testing.T) {
	inner := errors.New("secret from a service")
	err := fmt.Errorf("loading: %w", NewError(Alert, "aws Decrypt", "AccessDenied", "allow kms:Decrypt", inner))
	if strings.Contains(err.Error(), "secret") || !errors.Is(err, inner) {
		t.Errorf("error %v", err)
	}
	if err.Error() != "loading: aws Decrypt: AccessDenied: allow kms:Decrypt" {
		t.Errorf("error %v", err)
	}
	if ClassOf(err) != Alert || CodeOf(err) != "AccessDenied" {
		t.Errorf("class %v, code %v", ClassOf(err), CodeOf(err))
	}
	if ClassOf(context.DeadlineExceeded) != Retry || CodeOf(inner) != "Error" || CodeOf(nil) != "OK" {
		t.Error("errors of others are not classed")
	}
}
