package provider

import (
	"context"
	"errors"
	"strings"

	"github.com/requeststate/operator/api/v1alpha1"
	"github.com/requeststate/operator/internal/envelope"
	"github.com/requeststate/operator/internal/kms"
)

// Allow limits which namespace may use which AWS keys. A controller has one
// AWS identity for all namespaces; without a limit whoever may create a
// RequestStateKey anywhere makes that identity use any key it can. An empty
// list allows everything; otherwise what no rule allows is refused.
type Allow []Rule

// A Rule allows a namespace the keys whose ARN matches a glob.
type Rule struct {
	// Namespace is the name of one namespace, or "*" for all.
	Namespace string
	// ARN is a glob over the whole key ARN, never an alias's: "*" stands for
	// any characters, also none, also ":" and "/".
	ARN string
}

// ParseRule parses NAMESPACE=ARN-GLOB.
func ParseRule(s string) (Rule, error) {
	ns, arn, ok := strings.Cut(s, "=")
	switch {
	case !ok || ns == "" || arn == "":
		return Rule{}, errors.New("want NAMESPACE=ARN-GLOB, for example prod=arn:aws:kms:eu-west-1:111122223333:key/*")
	case ns != "*" && strings.Contains(ns, "*"):
		return Rule{}, errors.New("a namespace is a whole name, or * for all")
	case !strings.HasPrefix(arn, "arn:") && !strings.HasPrefix(arn, "*"):
		return Rule{}, errors.New("the glob is matched with a key's whole ARN: begin it with arn: or *")
	case strings.Contains(arn, ":alias/"):
		return Rule{}, errors.New("the glob is matched with a key's ARN, which never holds :alias/: name the key behind the alias")
	}
	return Rule{Namespace: ns, ARN: arn}, nil
}

// Allows tells whether namespace may use the key with this ARN.
func (a Allow) Allows(namespace, arn string) bool {
	if len(a) == 0 {
		return true
	}
	for _, r := range a {
		if (r.Namespace == "*" || r.Namespace == namespace) && glob(r.ARN, arn) {
			return true
		}
	}
	return false
}

// AllowsLook tells whether the state of the key that a resource names may be asked
// for on behalf of namespace, and shown there. Under a limit that is so only for a
// key named by its ARN: what an alias or a key id stands for is not known before.
func (a Allow) AllowsLook(namespace string, stanza *v1alpha1.KMSSpec) bool {
	if len(a) == 0 || stanza.AWS == nil {
		return true
	}
	return namesKey(stanza.AWS.KeyID) && a.Allows(namespace, stanza.AWS.KeyID)
}

// Refuses returns the error with which namespace is refused the key that a resource
// names, a [*kms.Error] of code NotAllowed, if that is known without asking AWS: the
// key is named by its ARN. It returns nil otherwise; GenerateWrapped then judges the
// key that answered.
func (a Allow) Refuses(namespace string, stanza *v1alpha1.KMSSpec) error {
	if stanza.AWS == nil {
		return nil
	}
	return a.refuses(namespace, stanza.AWS.KeyID)
}

func (a Allow) refuses(namespace, keyID string) error {
	if namesKey(keyID) && !a.Allows(namespace, keyID) {
		return notAllowed()
	}
	return nil
}

// namesKey tells whether keyID is the ARN of a key.
func namesKey(keyID string) bool {
	return strings.HasPrefix(keyID, "arn:") && strings.Contains(keyID, ":key/")
}

// glob tells whether s matches pattern, in which "*" stands for any text.
func glob(pattern, s string) bool {
	head, rest, star := strings.Cut(pattern, "*")
	s, ok := strings.CutPrefix(s, head)
	if !ok || !star {
		return ok && s == ""
	}
	for {
		var part string
		part, rest, star = strings.Cut(rest, "*")
		if !star {
			return strings.HasSuffix(s, part)
		}
		i := strings.Index(s, part)
		if i < 0 {
			return false
		}
		s = s[i+len(part):]
	}
}

// limited is a Wrapper under an Allow list.
type limited struct {
	kms.Wrapper
	allow Allow
	keyID string
}

// GenerateWrapped refuses before the request if the key is named by its ARN.
// What an alias or a key id stands for is known only from the answer; what was
// wrapped is then dropped, and nothing is left of it but a line in CloudTrail.
func (l *limited) GenerateWrapped(ctx context.Context, ec kms.EncryptionContext) (kms.Wrapped, error) {
	if err := l.allow.refuses(ec.Namespace, l.keyID); err != nil {
		return kms.Wrapped{}, err
	}
	w, err := l.Wrapper.GenerateWrapped(ctx, ec)
	if err != nil {
		return kms.Wrapped{}, err
	}
	if !l.allow.Allows(ec.Namespace, w.ResolvedARN) {
		return kms.Wrapped{}, notAllowed()
	}
	return w, nil
}

// Unwrap refuses keys that the namespace may not use.
func (l *limited) Unwrap(ctx context.Context, w kms.Wrapped, ec kms.EncryptionContext) (envelope.DataKey, error) {
	if !l.allow.Allows(ec.Namespace, w.ResolvedARN) {
		return envelope.DataKey{}, notAllowed()
	}
	return l.Wrapper.Unwrap(ctx, w, ec)
}

func notAllowed() error {
	return kms.NewError(kms.Alert, "kms", kms.CodeNotAllowed,
		"this namespace may not use this AWS KMS key: name an allowed key, or have the operator's --kms-allow (kmsAllow in the chart) extended", nil)
}
