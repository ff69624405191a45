package rotation

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/requeststate/operator/api/v1alpha1"
)

// SidecarState says what is known of the sidecar's container in a pod.
type SidecarState int

const (
	// SidecarAbsent: the pod has no such container.
	SidecarAbsent SidecarState = iota
	// SidecarNeverRan: the container has not been started: no status, or its first Waiting.
	SidecarNeverRan
	// SidecarRan: the container runs, or is between an end and a restart.
	SidecarRan
	// SidecarEnded: the container's last known state is an end.
	SidecarEnded
)

// Pod is what the rules need to know of a pod.
type Pod struct {
	// Name is for messages only: a StatefulSet's next pod has the same one.
	Name string
	// UID is the pod's identity.
	UID string
	// Labelled tells whether the pod carries the label that names this key.
	Labelled bool
	// Finished tells whether the pod's phase is Succeeded or Failed.
	Finished bool
	// Terminating tells whether the pod has a deletionTimestamp.
	Terminating bool
	// Sidecar is the state of the sidecar's container.
	Sidecar SidecarState
	// Hint says in words what the API server knows of why the pod may not report, or "". It is for messages only.
	Hint string
}

// serves tells whether a sidecar in this pod may still seal or open, now or after a restart of its container. Only a finished pod surely does not. That the
// container has ended says nothing, in a terminating pod either: it may have ended, started again and joined before the pod was deleted, and the kubelet be late
// to say so.
func (p *Pod) serves() bool { return !p.Finished }

// Evidence is who holds which ring, as far as one look showed.
type Evidence struct {
	// Consistent is true if reports and pods come from consistent, uncached lists, reports first, made after the key was read. Only such evidence opens a gate.
	Consistent bool
	// ReadAt is the time, read from the clock after both lists.
	ReadAt time.Time
	// Reports are the reports that name this key.
	Reports []v1alpha1.KeyringReportSpec
	// Pods are the pods with the label, and each pod that a report names if it exists.
	Pods []Pod
}

// Laggard is a live consumer that does not acknowledge the ring.
type Laggard struct {
	// PodName names the pod.
	PodName string
	// Why says in words what keeps it.
	Why string
}

// Census is what the evidence says about one ring.
type Census struct {
	// Registered counts the live pods that have joined, or that must be waited for since their report is missing.
	Registered int
	// Current counts the registered pods that acknowledge the ring.
	Current int
	// Unregistered are the names of live pods with the label but without a sidecar.
	Unregistered []string
	// Exposed are the names of live pods whose app can be reached around the sidecar.
	Exposed []string
	// Behind are the registered pods that do not acknowledge the ring, by name.
	Behind []Laggard
	// NotJoined are the live pods whose sidecar says that it cannot join, by name. They serve nothing and hold up nothing.
	NotJoined []Laggard
	// Missing counts the pods in Behind that have no report at all.
	Missing int
	// OfThisObject counts the live reports of a ring of this object's UID, of whatever epoch.
	OfThisObject int
	// Mismatch is the id of a key for which two pods report different check values, or "".
	Mismatch string
}

// AllCurrent tells whether every live consumer acknowledges the ring.
func (c *Census) AllCurrent() bool { return len(c.Behind) == 0 && c.Mismatch == "" }

// Summary returns "<current>/<registered>".
func (c *Census) Summary() string { return fmt.Sprintf("%d/%d", c.Current, c.Registered) }

// Count judges every consumer of a key by the evidence. ring is nil before bootstrap. Ids named in revoked are no longer expected to be held.
func Count(keyUID string, ring *v1alpha1.Keyring, revoked []v1alpha1.KeyID, ev *Evidence) Census {
	var c Census
	reports := make(map[string]*v1alpha1.KeyringReportSpec, len(ev.Reports))
	for i := range ev.Reports {
		reports[ev.Reports[i].PodUID] = &ev.Reports[i]
	}
	checks := make(map[string]string)
	for i := range ev.Pods {
		pod := &ev.Pods[i]
		if !pod.serves() {
			continue
		}
		report := reports[pod.UID]
		if report != nil && report.Error != nil && report.Error.Reason == v1alpha1.ReportUpstreamExposed {
			c.Exposed = append(c.Exposed, pod.Name)
		}
		switch {
		case report != nil && report.Generation > 0:
			c.Registered++
			if report.KeyUID == keyUID {
				c.OfThisObject++
			}
			c.compare(checks, report)
			if why := behind(keyUID, ring, revoked, report); why != "" {
				c.Behind = append(c.Behind, Laggard{pod.Name, why})
			} else {
				c.Current++
			}
		case report != nil:
			c.NotJoined = append(c.NotJoined, Laggard{pod.Name, "has not joined" + errorOf(report)})
		case pod.Sidecar == SidecarRan || pod.Sidecar == SidecarEnded:
			c.Registered++
			c.Missing++
			c.Behind = append(c.Behind, Laggard{pod.Name, "its sidecar has run but there is no report of it" + hintOf(pod)})
		case pod.Sidecar == SidecarAbsent && pod.Labelled:
			c.Unregistered = append(c.Unregistered, pod.Name)
		}
	}
	byName := func(a, b Laggard) int { return strings.Compare(a.PodName, b.PodName) }
	slices.SortFunc(c.Behind, byName)
	slices.SortFunc(c.NotJoined, byName)
	slices.Sort(c.Unregistered)
	slices.Sort(c.Exposed)
	return c
}

// compare notes the first key for which two reports of the same object disagree about its material.
func (c *Census) compare(checks map[string]string, report *v1alpha1.KeyringReportSpec) {
	for _, k := range report.Keys {
		id := report.KeyUID + "/" + k.ID
		if other, ok := checks[id]; ok && other != k.CheckValue && c.Mismatch == "" {
			c.Mismatch = printable(k.ID, 16)
		}
		checks[id] = k.CheckValue
	}
}

// behind says what keeps a report from acknowledging the ring, or "". To acknowledge it is to name its object, epoch, minting key and exactly its keys, at its
// generation or at an older one: ids never return, so that a ring of the same epoch, minting key and keys differs in nothing that a token depends on. A
// generation above the ring's is no acknowledgement of anything.
func behind(keyUID string, ring *v1alpha1.Keyring, revoked []v1alpha1.KeyID, r *v1alpha1.KeyringReportSpec) string {
	switch {
	case ring == nil:
		return "holds a ring, but there is none"
	case r.KeyUID != keyUID:
		return "holds a ring of an earlier object of this name" + errorOf(r)
	case r.Epoch != ring.Epoch:
		return "holds a ring of another epoch" + errorOf(r)
	case r.Generation > ring.Generation:
		return fmt.Sprintf("claims generation %d, which has never been published", r.Generation)
	case holdsRevoked(revoked, r):
		return fmt.Sprintf("holds a revoked key in generation %d", r.Generation) + errorOf(r)
	case r.MintingKeyID != ring.MintingKeyID || !sameKeys(ring, revoked, r):
		return fmt.Sprintf("holds generation %d", r.Generation) + errorOf(r)
	default:
		return ""
	}
}

// holdsRevoked tells whether a report names a revoked key.
func holdsRevoked(revoked []v1alpha1.KeyID, r *v1alpha1.KeyringReportSpec) bool {
	return slices.ContainsFunc(r.Keys, func(k v1alpha1.ReportedKey) bool { return slices.Contains(revoked, v1alpha1.KeyID(k.ID)) })
}

// sameKeys tells whether a report names exactly the keys of the ring that are not revoked.
func sameKeys(ring *v1alpha1.Keyring, revoked []v1alpha1.KeyID, r *v1alpha1.KeyringReportSpec) bool {
	expected := 0
	for i := range ring.Keys {
		id := ring.Keys[i].ID
		if slices.Contains(revoked, v1alpha1.KeyID(id)) {
			continue
		}
		expected++
		if !slices.ContainsFunc(r.Keys, func(k v1alpha1.ReportedKey) bool { return k.ID == id }) {
			return false
		}
	}
	return expected == len(r.Keys)
}

// errorOf returns the error of a report for use at the end of a sentence, made safe to print.
func errorOf(r *v1alpha1.KeyringReportSpec) string {
	if r.Error == nil {
		return ""
	}
	return fmt.Sprintf(" (%s: %s)", printable(string(r.Error.Reason), 32), printable(r.Error.Message, v1alpha1.MaxReportMessageLength))
}

// hintOf returns the hint of a pod for use at the end of a sentence, made safe to print.
func hintOf(pod *Pod) string {
	if pod.Hint == "" {
		return ""
	}
	return " (" + printable(pod.Hint, v1alpha1.MaxReportMessageLength) + ")"
}

// names joins at most MaxBehindNames laggards for a message.
func names(laggards []Laggard) string {
	var b strings.Builder
	for i, l := range laggards {
		if i == v1alpha1.MaxBehindNames {
			fmt.Fprintf(&b, " and %d more", len(laggards)-i)
			break
		}
		if i > 0 {
			b.WriteString("; ")
		}
		b.WriteString(l.PodName + " " + l.Why)
	}
	return b.String()
}
