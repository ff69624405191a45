package controllers

import (
	"errors"
	"strings"
	"sync"
	"time"

	"github.com/requeststate/operator/api/v1alpha1"
	"github.com/requeststate/operator/internal/kms"
)

// outageProbe is how long a KMS that did not answer is left alone. Each question to one that hangs would otherwise hold up a worker, and with it the rotations of
// keys that have nothing to do with that KMS.
const outageProbe = 10 * time.Second

// outages remember which KMS did not answer of late. The zero value is ready for use, and it is safe for concurrent use.
type outages struct {
	mu   sync.Mutex
	down map[string]outage
}

// An outage is that of one KMS.
type outage struct {
	until time.Time // when to ask again
	cause string    // what was found: a code and a remedy
}

// begin tells whether a KMS is to be asked now: nil, or an error that says why not. It is not asked if it failed to answer a moment ago, but for one question when
// that moment is over.
func (o *outages) begin(service string, now time.Time) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	found, down := o.down[service]
	if !down {
		return nil // "" is never down
	}
	if now.Before(found.until) {
		return kms.NewError(kms.Retry, "ask the KMS", kms.CodeOutage,
			"the KMS does not answer ("+found.cause+"); a request for another key found that a moment ago, and it is asked again soon", nil)
	}
	found.until = now.Add(kmsDeadline) // nobody else until this one has its answer
	o.down[service] = found
	return nil
}

// end notes what became of a question.
func (o *outages) end(service string, err error, now time.Time) {
	o.mu.Lock()
	defer o.mu.Unlock()
	var e *kms.Error
	if service == "" || !errors.As(err, &e) || (e.Code != kms.CodeTimeout && e.Code != kms.CodeNetwork) {
		delete(o.down, service)
		return
	}
	if o.down == nil {
		o.down = map[string]outage{}
	}
	o.down[service] = outage{now.Add(outageProbe), e.Code + ": " + e.Remedy}
}

// serviceOf names what fails together: AWS KMS of one region. A provider that asks nobody has none.
func serviceOf(stanza *v1alpha1.KMSSpec) string {
	if stanza.AWS == nil {
		return ""
	}
	if parts := strings.SplitN(stanza.AWS.KeyID, ":", 5); len(parts) == 5 && parts[0] == "arn" {
		return "aws " + parts[3]
	}
	return "aws " + stanza.AWS.Region
}
