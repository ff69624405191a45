package rotation

import (
	"hash/fnv"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/requeststate/operator/api/v1alpha1"
)

// The back-off after the KMS failed: tries come 1, 2, 4, ... seconds after the first failure, and then every 5 minutes.
const (
	firstKMSDelay   = time.Second
	longestKMSDelay = 5 * time.Minute
)

// NextKMSAttempt returns the earliest time at which the KMS may be asked again for a key, given when it was last asked, or the zero time if there is nothing to wait
// for. It counts from the KMSAvailable condition, and so goes on where it was after a restart; a process that has not asked yet passes the time of its own start. A
// changed spec may be tried at once. The times of different keys are spread, so that they do not ask all together when a KMS returns.
func NextKMSAttempt(key *v1alpha1.RequestStateKey, last time.Time) time.Time {
	c := meta.FindStatusCondition(key.Status.Conditions, v1alpha1.ConditionKMSAvailable)
	if c == nil || c.Reason != v1alpha1.ReasonKMSError || c.ObservedGeneration != key.Generation || c.LastTransitionTime.IsZero() {
		return time.Time{}
	}
	next, delay := c.LastTransitionTime.Time, firstKMSDelay
	for !next.After(last) {
		if delay >= longestKMSDelay {
			behind := last.Sub(next)/longestKMSDelay + 1
			next = next.Add(behind * longestKMSDelay)
			break
		}
		next = next.Add(delay)
		delay *= 2
	}
	return next.Add(spread(key, min(delay, longestKMSDelay)))
}

// spread returns a part, up to a fifth, of a delay that is always the same for one key.
func spread(key *v1alpha1.RequestStateKey, delay time.Duration) time.Duration {
	h := fnv.New32a()
	_, _ = h.Write([]byte(key.Namespace + "/" + key.Name))
	return delay / 5 * time.Duration(h.Sum32()%1000) / 1000
}

// paceKMS puts a decision off whose fresh key the KMS may not be asked for yet.
func (p *planner) paceKMS() {
	if !p.d.Fresh {
		return
	}
	next := NextKMSAttempt(p.key, p.o.LastKMSAttempt)
	if !p.o.Now.Before(next) {
		return
	}
	problem := meta.FindStatusCondition(p.key.Status.Conditions, v1alpha1.ConditionKMSAvailable).Message
	p.d = WithoutKMS(p.d, problem)
	p.d.RequeueAfter = next.Sub(p.o.Now)
}
