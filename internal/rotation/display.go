package rotation

import (
	"slices"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/requeststate/operator/api/v1alpha1"
)

// display fills in all of status that people read and no rule does: phase, counts, derived times, conditions.
func display(o Observation, d Decision, s *v1alpha1.RequestStateKeyStatus) {
	s.ObservedGeneration = o.Key.Generation
	s.Phase = v1alpha1.PhasePending
	s.NextRotationTime = nil
	if s.Keyring != nil && CheckRing(s.Keyring) == nil {
		s.Phase = PhaseOf(s.Keyring)
		for i := range s.Keyring.Keys {
			k := &s.Keyring.Keys[i]
			k.RetireAt = nil
			if t, ok := RetireAt(k); ok {
				k.RetireAt = at(t)
			}
		}
		after := *o.Key
		after.Status = *s
		if due, ok := nextRotation(&after); ok && s.Phase == v1alpha1.PhaseStable {
			s.NextRotationTime = at(due)
		}
	}
	if o.Evidence != nil {
		// Against the ring as it will be: who acknowledged the one before is no news of this one.
		d.Census = Count(string(o.Key.UID), s.Keyring, o.Key.Spec.RevokedKeyIDs, o.Evidence)
		displayConsumers(d.Census, s)
	}
	displayConditions(o, d, s)
}

func displayConsumers(c Census, s *v1alpha1.RequestStateKeyStatus) {
	behind := make([]string, 0, v1alpha1.MaxBehindNames)
	for _, l := range c.Behind[:min(len(c.Behind), v1alpha1.MaxBehindNames)] {
		behind = append(behind, l.PodName)
	}
	s.Consumers = &v1alpha1.Consumers{
		Summary:      c.Summary(),
		Registered:   int32(c.Registered),
		Current:      int32(c.Current),
		Unregistered: int32(len(c.Unregistered)),
		Exposed:      int32(len(c.Exposed)),
		Behind:       behind,
	}
}

// displayConditions sets the conditions by the rules of kstatus: Reconciling and Stalled are there only while they are true, and Ready is Unknown, not False,
// before there has been a ring.
func displayConditions(o Observation, d Decision, s *v1alpha1.RequestStateKeyStatus) {
	set := func(kind string, status metav1.ConditionStatus, reason, message string) {
		meta.SetStatusCondition(&s.Conditions, metav1.Condition{
			Type: kind, Status: status, Reason: reason, Message: bounded(message),
			ObservedGeneration: o.Key.Generation, LastTransitionTime: *at(o.Now),
		})
	}

	status, reason, message := readiness(o, d, s)
	set(v1alpha1.ConditionReady, status, reason, message)

	switch {
	case s.Keyring == nil:
		set(v1alpha1.ConditionReconciling, metav1.ConditionTrue, v1alpha1.ReasonBootstrapping, d.Reason)
	case s.Phase != v1alpha1.PhaseStable && s.Phase != v1alpha1.PhasePending:
		set(v1alpha1.ConditionReconciling, metav1.ConditionTrue, v1alpha1.ReasonRotating, "phase "+string(s.Phase)+": "+d.Reason)
	default:
		meta.RemoveStatusCondition(&s.Conditions, v1alpha1.ConditionReconciling)
	}

	if d.Stalled != nil {
		set(v1alpha1.ConditionStalled, metav1.ConditionTrue, d.Stalled.Reason, d.Stalled.Message)
	} else {
		meta.RemoveStatusCondition(&s.Conditions, v1alpha1.ConditionStalled)
	}

	if o.KMS != nil && o.KMS.Problem == "" {
		set(v1alpha1.ConditionKMSAvailable, metav1.ConditionTrue, v1alpha1.ReasonKMSAvailable, "the last request to the KMS succeeded")
	} else if o.KMS != nil {
		reason := v1alpha1.ReasonKMSError
		if o.KMS.Check { // no reason to put off the next request for a data key
			reason = v1alpha1.ReasonKMSCheckFailed
		}
		set(v1alpha1.ConditionKMSAvailable, metav1.ConditionFalse, reason, o.KMS.Problem)
	}

	switch c := d.Census; {
	case o.Evidence == nil:
		set(v1alpha1.ConditionConsumersCurrent, metav1.ConditionUnknown, v1alpha1.ReasonListFailed, d.Reason)
	case c.Registered == 0 && len(c.NotJoined) == 0:
		set(v1alpha1.ConditionConsumersCurrent, metav1.ConditionTrue, v1alpha1.ReasonNoConsumers, "no pod consumes this key at present")
	case !c.AllCurrent():
		set(v1alpha1.ConditionConsumersCurrent, metav1.ConditionFalse, v1alpha1.ReasonWaitingForConsumers, names(c.Behind))
	case len(c.NotJoined) > 0:
		set(v1alpha1.ConditionConsumersCurrent, metav1.ConditionFalse, v1alpha1.ReasonWaitingForConsumers, "not ready: "+names(c.NotJoined))
	default:
		set(v1alpha1.ConditionConsumersCurrent, metav1.ConditionTrue, v1alpha1.ReasonAllCurrent, c.Summary()+" consumers acknowledge the current ring")
	}
}

// readiness returns what the condition Ready says.
func readiness(o Observation, d Decision, s *v1alpha1.RequestStateKeyStatus) (status metav1.ConditionStatus, reason, message string) {
	stalled := ""
	if d.Stalled != nil {
		stalled = d.Stalled.Reason
	}
	switch fault := ringFault(s.Keyring); {
	case s.Keyring == nil && stalled == v1alpha1.ReasonRingLost:
		return metav1.ConditionFalse, stalled, d.Stalled.Message
	case s.Keyring == nil:
		return metav1.ConditionUnknown, v1alpha1.ReasonPending, "there is no ring yet: " + d.Reason
	case fault != nil:
		return metav1.ConditionFalse, fault.Reason, fault.Message
	case stalled == v1alpha1.ReasonRevocationPending: // nothing is sealed
		return metav1.ConditionFalse, stalled, d.Stalled.Message
	default:
		return metav1.ConditionTrue, v1alpha1.ReasonRingAvailable,
			"the ring can be loaded, and its minting key is " + s.Keyring.MintingKeyID + paused(o, s) + unknownRevoked(o.Key.Spec.RevokedKeyIDs, s)
	}
}

// paused words what spec.rotation.paused holds up, or "": whoever asks for a rotation should not wait for it in vain.
func paused(o Observation, s *v1alpha1.RequestStateKeyStatus) string {
	if !o.Key.Spec.Rotation.Paused || s.Phase != v1alpha1.PhaseStable {
		return ""
	}
	after := *o.Key
	after.Status = *s
	if reason, _ := trigger(&after, o.Now); reason != "" {
		return "; " + heldByPause(reason)
	}
	return ""
}

func ringFault(ring *v1alpha1.Keyring) *RingFault {
	if ring == nil {
		return nil
	}
	return CheckRing(ring)
}

// bounded cuts a message to a length that events and conditions admit.
func bounded(s string) string {
	const limit = 1024
	if len(s) > limit {
		return s[:limit-3] + "..."
	}
	return s
}

// OnlyConsumersDiffer tells whether two states of status differ in nothing but the counts of consumers and the condition that words them. Such a difference is
// written at most once in 30 s, so that a rollout of many pods does not write once a pod.
func OnlyConsumersDiffer(a, b *v1alpha1.RequestStateKeyStatus) bool {
	strip := func(s *v1alpha1.RequestStateKeyStatus) *v1alpha1.RequestStateKeyStatus {
		s = s.DeepCopy()
		s.Consumers = nil
		s.Conditions = slices.DeleteFunc(s.Conditions, func(c metav1.Condition) bool { return c.Type == v1alpha1.ConditionConsumersCurrent })
		for i := range s.Conditions {
			if s.Conditions[i].Type == v1alpha1.ConditionReconciling || s.Conditions[i].Type == v1alpha1.ConditionStalled {
				s.Conditions[i].Message = "" // it names the consumers that are waited for
			}
		}
		return s
	}
	return equality.Semantic.DeepEqual(strip(a), strip(b))
}
