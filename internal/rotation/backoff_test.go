package rotation

import (
	"testing"
	"time"

	"github.com/requeststate/operator/api/v1alpha1"
)

// failing returns a fleet whose bootstrap the KMS has just refused, and which may be planned again.
func failing(t *testing.T) *fleet {
	t.Helper()
	f := newFleet(t, 0)
	f.fail()
	return f
}

// fail lets the KMS refuse what is planned now.
func (f *fleet) fail() {
	f.t.Helper()
	o := f.observe(true)
	d := Plan(o)
	if !d.Fresh {
		f.t.Fatalf("nothing is asked of the KMS: %+v", d)
	}
	o.KMS = &KMSOutcome{Problem: "the KMS does not answer"}
	status, err := Apply(o, WithoutKMS(d, o.KMS.Problem), nil)
	if err != nil {
		f.t.Fatal(err)
	}
	f.key.Status = *status
	f.lastKMS = f.now
}

func TestPitfall24AKMSThatFailsIsAskedLessAndLessOften(t *testing.T) {
	f := failing(t)
	start, attempts := f.now, 0
	for f.now = f.now.Add(time.Second); f.now.Sub(start) < time.Hour; f.now = f.now.Add(time.Second) {
		d := Plan(f.observe(true))
		if !d.Fresh {
			if d.RequeueAfter <= 0 || d.RequeueAfter > longestKMSDelay*6/5 {
				t.Fatalf("after %s: RequeueAfter %s", f.now.Sub(start), d.RequeueAfter)
			}
			continue
		}
		attempts++
		f.fail()
	}
	if attempts < 15 || attempts > 25 {
		t.Fatalf("%d attempts in an hour", attempts)
	}
}

func TestTheBackOffSurvivesARestart(t *testing.T) {
	f := failing(t)
	f.now = f.now.Add(20 * time.Minute)
	f.lastKMS = f.now // a process that has just started
	if d := Plan(f.observe(true)); d.Fresh {
		t.Fatal("a new process asks at once")
	}
	f.now = f.now.Add(longestKMSDelay * 6 / 5)
	if d := Plan(f.observe(true)); !d.Fresh {
		t.Fatalf("it never asks again: %+v", d)
	}
}

func TestAChangedSpecIsTriedAtOnce(t *testing.T) {
	f := failing(t)
	f.key.Spec.KMS = ageStanza("age1z")
	f.key.Generation++
	if d := Plan(f.observe(true)); !d.Fresh {
		t.Fatalf("%+v", d)
	}
}

func TestARevocationStaysStalledDuringTheBackOff(t *testing.T) {
	f := stable(t, 1)
	f.key.Spec.RevokedKeyIDs = []v1alpha1.KeyID{idA}
	f.fail()
	if d := Plan(f.observe(true)); d.Fresh || d.Stalled == nil || d.Stalled.Reason != v1alpha1.ReasonRevocationPending {
		t.Fatalf("%+v", d)
	}
}
