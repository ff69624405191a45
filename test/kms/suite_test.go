package kms

import (
	"testing"

	"github.com/requeststate/operator/internal/kms"
	"github.com/requeststate/operator/internal/kms/kmstest"
	"github.com/requeststate/operator/test/kms/faultproxy"
)

func TestTheProviderSuitePassesAgainstLocalKMS(t *testing.T) {
	runSuite(t, localKMS(t), localKMSDeviations())
}

func TestTheProviderSuitePassesAgainstMoto(t *testing.T) {
	runSuite(t, moto(t), motoDeviations())
}

// runSuite runs the suite for kms.aws against p. A key that is copied to
// another namespace, name or id is in it: the sub-tests "a key copied to
// another …".
func runSuite(t *testing.T, p *peer, deviations []kmstest.Deviation) {
	mine, _ := p.key(t)
	other, _ := p.key(t)
	disabled, id := p.key(t)
	p.disable(t, id)

	wrapOnly, silent := &peer{faultproxy.Start(p.URL), p.admin}, &peer{faultproxy.Start(p.URL), p.admin}
	t.Cleanup(wrapOnly.Close)
	t.Cleanup(silent.Close)
	wrapOnly.Fail("Decrypt", faultproxy.AccessDenied, -1)
	silent.Fail(faultproxy.AnyOp, faultproxy.Hang, -1)
	at := func(p *peer, arn string) func(testing.TB) kms.Wrapper {
		return func(t testing.TB) kms.Wrapper { return p.wrapper(t, arn, settings{}) }
	}
	kmstest.Run(t, kmstest.Provider{
		New:         at(p, mine),
		Other:       at(p, other),
		WrapOnly:    at(wrapOnly, mine),
		Unavailable: at(p, disabled),
		Silent:      at(silent, mine),
		Requests:    func() int { return p.Count(faultproxy.AnyOp) },
		Codes: map[kmstest.Case][]string{ // of AWS KMS
			kmstest.Moved:    {"InvalidCiphertext"},
			kmstest.WrongKey: {"IncorrectKey"},
			kmstest.Altered:  {"InvalidCiphertext", kms.CodeTampered},
			kmstest.Foreign:  {"InvalidCiphertext", kms.CodeInvalidSpec},
		},
		Secrets:    []string{accessKey, secretKey},
		Deviations: deviations,
	})
}
