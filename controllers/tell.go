package controllers

import (
	"context"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/requeststate/operator/api/v1alpha1"
	"github.com/requeststate/operator/internal/rotation"
)

// Reasons of events. Each is emitted on a transition, never while a state lasts.
const (
	eventRotationStarted = "RotationStarted"
	eventKeyMinting      = "KeyMinting"
	eventKeyRetired      = "KeyRetired"
	eventKeyRevoked      = "KeyRevoked"
	eventAborted         = "RotationAborted"
	eventSettings        = "SettingsChanged"
	eventStalled         = "RotationStalled"
	eventResumed         = "RotationResumed"
	eventKMSUnavailable  = "KMSUnavailable"
	eventUnregistered    = "ConsumerUnregistered"
	eventExposed         = "UpstreamExposed"
)

// tell says what a write changed: one line of audit log for each change of a ring, and events for people. It is called only after the write was stored.
func (r *Reconciler) tell(ctx context.Context, key *v1alpha1.RequestStateKey, after *v1alpha1.RequestStateKeyStatus, d rotation.Decision) {
	before := &key.Status
	if d.Step.ChangesRing() {
		log.FromContext(ctx).Info("ring changed", "audit", true, "step", d.Step, "why", d.Reason,
			"trigger", rotationReason(before, after), "before", describe(before.Keyring), "after", describe(after.Keyring))
	} else if d.Step != rotation.StepNone {
		log.FromContext(ctx).Info("ring bookkeeping", "step", d.Step, "why", d.Reason)
	}

	switch d.Step {
	case rotation.StepBootstrap, rotation.StepMintNew:
		r.event(key, corev1.EventTypeNormal, eventKeyMinting, "key "+after.Keyring.MintingKeyID+" mints: "+d.Reason)
	case rotation.StepVerifyNew:
		r.event(key, corev1.EventTypeNormal, eventRotationStarted, "a new key is to be verified everywhere: "+d.Reason)
	case rotation.StepRetireOld:
		r.event(key, corev1.EventTypeNormal, eventKeyRetired, "key "+d.KeyID+" left the ring: "+d.Reason)
	case rotation.StepRevoke:
		r.event(key, corev1.EventTypeWarning, eventKeyRevoked, "key "+d.KeyID+" left the ring, and key "+after.Keyring.MintingKeyID+" mints: "+d.Reason)
	case rotation.StepAbort:
		r.event(key, corev1.EventTypeNormal, eventAborted, "key "+d.KeyID+" left the ring before it minted: "+d.Reason)
	case rotation.StepSettings:
		r.event(key, corev1.EventTypeNormal, eventSettings, d.Reason)
	}

	r.unregistered(key, after, d.Census)
	r.exposed(key, after, d.Census)
	was, is := meta.FindStatusCondition(before.Conditions, v1alpha1.ConditionStalled), meta.FindStatusCondition(after.Conditions, v1alpha1.ConditionStalled)
	switch {
	case is != nil && (was == nil || was.Reason != is.Reason):
		r.event(key, corev1.EventTypeWarning, eventStalled, is.Reason+": "+is.Message)
	case is == nil && was != nil:
		r.event(key, corev1.EventTypeNormal, eventResumed, "no longer stalled: "+d.Reason)
	}
	if meta.IsStatusConditionFalse(after.Conditions, v1alpha1.ConditionKMSAvailable) && !meta.IsStatusConditionFalse(before.Conditions, v1alpha1.ConditionKMSAvailable) {
		r.event(key, corev1.EventTypeWarning, eventKMSUnavailable, meta.FindStatusCondition(after.Conditions, v1alpha1.ConditionKMSAvailable).Message)
	}
}

// unregistered says that pods with the label run no sidecar, when there are more of them than before.
func (r *Reconciler) unregistered(key *v1alpha1.RequestStateKey, after *v1alpha1.RequestStateKeyStatus, c rotation.Census) {
	if n := increased(key, after, func(c *v1alpha1.Consumers) int32 { return c.Unregistered }); n > 0 {
		r.event(key, corev1.EventTypeWarning, eventUnregistered, fmt.Sprintf("%s the label %s but no container %s, and so neither the ring nor a say in a rotation: replace what is named here (kubectl rollout restart), so that injection adds it, add it by hand, or remove the label (what is annotated requeststate.dev/mode: none stays without): %s",
			counted(n, "pod has", "pods have"), v1alpha1.LabelKey, v1alpha1.SidecarContainerName, some(c.Unregistered)))
	}
}

// exposed says that apps can be reached around their sidecars, when there are more of them than before.
func (r *Reconciler) exposed(key *v1alpha1.RequestStateKey, after *v1alpha1.RequestStateKeyStatus, c rotation.Census) {
	if n := increased(key, after, func(c *v1alpha1.Consumers) int32 { return c.Exposed }); n > 0 {
		r.event(key, corev1.EventTypeWarning, eventExposed, fmt.Sprintf("in %s the app answers on the pod's own address, where forged states reach it around the sidecar: let it listen on 127.0.0.1: %s",
			counted(n, "pod", "pods"), some(c.Exposed)))
	}
}

// increased returns a count of consumers if it is larger than before, else 0.
func increased(key *v1alpha1.RequestStateKey, after *v1alpha1.RequestStateKeyStatus, count func(*v1alpha1.Consumers) int32) int32 {
	before := int32(0)
	if key.Status.Consumers != nil {
		before = count(key.Status.Consumers)
	}
	if after.Consumers == nil || count(after.Consumers) <= before {
		return 0
	}
	return count(after.Consumers)
}

func counted(n int32, one, more string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, more)
}

// some names the first few pods.
func some(pods []string) string {
	return strings.Join(pods[:min(len(pods), v1alpha1.MaxBehindNames)], ", ")
}

func (r *Reconciler) event(key *v1alpha1.RequestStateKey, kind, reason, note string) {
	const limit = 1024 // of an event's note
	if len(note) > limit {
		note = note[:limit-3] + "..."
	}
	r.Recorder.Eventf(key, nil, kind, reason, "Rotate", "%s", note)
}

// rotationReason says why the rotation under way started, before or after a step.
func rotationReason(before, after *v1alpha1.RequestStateKeyStatus) string {
	for _, s := range []*v1alpha1.RequestStateKeyStatus{after, before} {
		if s.Rotation != nil {
			return s.Rotation.Reason
		}
	}
	return ""
}

// describe gives an auditor the ring in a few words. Ids are public; wrapped keys are left out, being of no use to a reader.
func describe(ring *v1alpha1.Keyring) map[string]any {
	if ring == nil {
		return nil
	}
	ids := make([]string, len(ring.Keys))
	for i := range ring.Keys {
		ids[i] = ring.Keys[i].ID
	}
	return map[string]any{"epoch": ring.Epoch, "generation": ring.Generation, "minting": ring.MintingKeyID, "keys": ids}
}
