package model

import (
	"github.com/requeststate/operator/api/v1alpha1"
	"github.com/requeststate/operator/internal/rotation"
)

// Rules are the seams at which a test may weaken the protocol, to see that the search finds out. The zero value is the protocol as it is.
type Rules struct {
	// Observe rewrites what a pass is about to plan from.
	Observe func(o *rotation.Observation)
	// Decide rewrites a decision.
	Decide func(o *rotation.Observation, d *rotation.Decision)
	// Applied rewrites the status that a pass is about to write.
	Applied func(o *rotation.Observation, d *rotation.Decision, s *v1alpha1.RequestStateKeyStatus)

	// ListsFirst makes a pass list reports and pods before it reads the key, as a cache would have it.
	ListsFirst bool
	// EarlyClock makes a pass read the clock before it lists.
	EarlyClock bool
	// Retries makes a pass whose write conflicts apply its decision to the key as it is by then.
	Retries bool
	// ByPodName makes a report count for every pod of its name.
	ByPodName bool
	// Started makes a pod count as having run only while its container's status says `started`.
	Started bool

	// Serves tells whether a process serves.
	Serves func(m *rotation.Member) bool
	// Reported is called when a report is written; again tells that it is not the process's first.
	Reported func(m *rotation.Member, again bool)
	// Ignores tells whether a member is not to learn of a view.
	Ignores func(m *rotation.Member, v *rotation.View, consistent bool) bool
	// EventsAreReads makes every watch event count as a consistent read.
	EventsAreReads bool
	// GoesBackAtOnce makes a member take an earlier ring with its report standing.
	GoesBackAtOnce bool
	// NeverPardons makes a member refuse for ever what it saw revoked.
	NeverPardons bool
	// Quarantine makes a starting process do without keys that do not unwrap.
	Quarantine bool
	// SilentFailures makes a starting process that cannot load a later ring keep what it holds, and its report.
	SilentFailures bool
	// SettingsOfPartialLoads makes a process that cannot load a ring take its settings.
	SettingsOfPartialLoads bool
	// SealsBySpec makes every process seal with spec.ttl.
	SealsBySpec bool
	// LateWritesWin makes the write of a dead process land whatever was written since.
	LateWritesWin bool
	// LooksForAbsence makes a process restore its report only if there is none.
	LooksForAbsence bool
	// KeepsOldReport makes a process that cannot join leave a report that is there.
	KeepsOldReport bool
}
