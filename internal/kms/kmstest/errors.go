package kmstest

import (
	"encoding/base64"
	"encoding/hex"
	"errors"
	"regexp"
	"slices"
	"strings"

	"github.com/requeststate/operator/internal/envelope"
	"github.com/requeststate/operator/internal/kms"
)

// word is what fits a metric's label and a condition's reason.
var word = regexp.MustCompile(`^[A-Z][A-Za-z0-9]{0,63}$`)

// refused checks that wrapped did not unwrap for ec, because of c.
func (p *probe) refused(c Case, wrapped kms.Wrapped, ec kms.EncryptionContext, key envelope.DataKey, err error) {
	p.Helper()
	p.failed(kms.KeyOnly, p.Codes[c], wrapped, ec, key, err)
}

// failed checks an error that must be of a class and have one of codes; any
// will do if there are none.
func (p *probe) failed(class kms.Class, codes []string, wrapped kms.Wrapped, ec kms.EncryptionContext, key envelope.DataKey, err error) {
	p.Helper()
	if d, ok := p.deviation(); ok && !(d.Sometimes && kms.ClassOf(err) == class && slices.Contains(codes, kms.CodeOf(err))) {
		class, codes = d.Class, []string{d.Code}
		if d.Code == "OK" {
			if err != nil {
				p.Errorf("error %v, but the known deviation is that there is none: %s", err, d.Why)
			}
			return
		}
	}
	if err == nil {
		p.Errorf("no error, want one of class %s", class)
		return
	}
	if key.CheckValue() != "" {
		p.Errorf("a data key came with the error %v", err)
	}
	if got := kms.ClassOf(err); got != class {
		p.Errorf("error %v of class %s, want %s", err, got, class)
	}
	if got := kms.CodeOf(err); len(codes) > 0 && !slices.Contains(codes, got) {
		p.Errorf("error %v has code %s, want one of %v", err, got, codes)
	}
	p.fit(wrapped, ec, err)
}

// fit checks that others may read the text of err: it goes into conditions,
// reports and logs.
func (p *probe) fit(wrapped kms.Wrapped, ec kms.EncryptionContext, err error) {
	p.Helper()
	var e *kms.Error
	if !errors.As(err, &e) {
		p.Errorf("error %v is no *kms.Error", err)
		return
	}
	if e.Op == "" || e.Remedy == "" || !word.MatchString(e.Code) {
		p.Errorf("error %v has operation %q, code %q and remedy %q: want each, and the code as one word", err, e.Op, e.Code, e.Remedy)
	}
	text := err.Error()
	if strings.ContainsAny(text, "\r\n\x00") {
		p.Errorf("the error %q is more than a line", text)
	}
	hidden := map[string]string{
		"the namespace": ec.Namespace, "the name": ec.Name, "the key id": ec.KeyID,
		"the key's ARN": wrapped.ResolvedARN,
		"the blob":      string(wrapped.Blob),
		"hex":           hex.EncodeToString(wrapped.Blob),
		"base64":        base64.StdEncoding.EncodeToString(wrapped.Blob),
	}
	// What a service said may name roles, accounts, or anything at all.
	var said interface{ ErrorMessage() string }
	if errors.As(err, &said) {
		hidden["the service's message"] = said.ErrorMessage()
	}
	for what, s := range hidden {
		if len(s) > 2 && strings.Contains(text, s) {
			p.Errorf("the error quotes %s: %q", what, text)
		}
	}
	for _, s := range p.Secrets {
		if strings.Contains(text, s) {
			p.Errorf("the error holds a secret") // and this text must not
		}
	}
}

// deviation returns the one that is known of this test.
func (p *probe) deviation() (Deviation, bool) {
	for _, d := range p.Deviations {
		if d.In == p.sentence {
			p.met[d.In] = true
			return d, true
		}
	}
	return Deviation{}, false
}
