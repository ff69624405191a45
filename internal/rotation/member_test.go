package rotation

import (
	"slices"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/requeststate/operator/api/v1alpha1"
)

// view makes a view of a ring with the given generation, minting key and further keys.
func view(uid, epoch string, generation int64, minting string, others ...string) View {
	ring := &v1alpha1.Keyring{
		Format: 1, Epoch: epoch, Generation: generation, MintingKeyID: minting,
		Settings: v1alpha1.KeyringSettings{Audience: "a", TTL: metav1.Duration{Duration: time.Minute}},
	}
	for _, id := range append([]string{minting}, others...) {
		ring.Keys = append(ring.Keys, v1alpha1.KeyringKey{ID: id, WrappedKey: []byte(id)})
	}
	return View{UID: uid, Ring: ring}
}

// act asserts the kind of the next action and returns it.
func act(t *testing.T, m *Member, want ActionKind) Action {
	t.Helper()
	a := m.Next()
	if a.Kind != want {
		t.Fatalf("next action is %d, want %d", a.Kind, want)
	}
	return a
}

// join brings a member into the ring of a view.
func join(t *testing.T, v View) *Member {
	t.Helper()
	m := NewMember()
	act(t, m, ActGet)
	m.Saw(v, true)
	m.Loaded(act(t, m, ActLoad).View, nil)
	act(t, m, ActReport)
	m.Reported()
	act(t, m, ActGet)
	if m.Serving() {
		t.Fatal("it serves before the second read")
	}
	m.Saw(v, true)
	if !m.Serving() {
		t.Fatal("it does not serve after the second read showed the ring it reported")
	}
	act(t, m, ActWait)
	return m
}

func TestJoinIsRepeatedUntilAReadShowsTheRingJustReported(t *testing.T) {
	m := NewMember()
	m.Saw(view("u", "e", 1, idA), true)
	m.Loaded(act(t, m, ActLoad).View, nil)
	act(t, m, ActReport)
	m.Reported()
	for generation := int64(2); generation < 5; generation++ {
		act(t, m, ActGet)
		m.Saw(view("u", "e", generation, idA, idB), true)
		if m.Serving() {
			t.Fatal("it serves a ring that has moved on")
		}
		m.Loaded(act(t, m, ActLoad).View, nil)
		if r := act(t, m, ActReport).Report; r.Generation != generation {
			t.Fatalf("it reports generation %d, want %d", r.Generation, generation)
		}
		m.Reported()
	}
	act(t, m, ActGet)
	m.Saw(view("u", "e", 4, idA, idB), true)
	if !m.Serving() {
		t.Fatal("it does not serve")
	}
}

func TestAWatchEventNeverEndsAJoin(t *testing.T) {
	m := NewMember()
	m.Saw(view("u", "e", 1, idA), false)
	act(t, m, ActGet)
	m.Saw(view("u", "e", 1, idA), true)
	m.Loaded(act(t, m, ActLoad).View, nil)
	act(t, m, ActReport)
	m.Reported()
	m.Saw(view("u", "e", 1, idA), false)
	if m.Serving() {
		t.Fatal("an event, which may be old, ended the join")
	}
}

func TestAStarterThatCannotLoadEveryKeyReportsThatItHasNotJoined(t *testing.T) {
	m := NewMember()
	m.Saw(view("u", "e", 1, idA), true)
	m.Loaded(act(t, m, ActLoad).View, nil)
	act(t, m, ActReport)
	m.Reported()
	act(t, m, ActGet)
	m.Saw(view("u", "e", 2, idA, idB), true)
	m.Loaded(act(t, m, ActLoad).View, &v1alpha1.ReportError{Reason: v1alpha1.ReportUnwrapFailed})
	r := act(t, m, ActReport).Report
	if r.Generation != 0 || r.Error == nil || len(r.KeyIDs) != 0 || m.Serving() {
		t.Fatalf("report %+v, serving %t", r, m.Serving())
	}
	m.Reported()
	act(t, m, ActWait)
	m.Retry()
	act(t, m, ActGet)
	m.Saw(view("u", "e", 2, idA, idB), true)
	m.Loaded(act(t, m, ActLoad).View, &v1alpha1.ReportError{Reason: v1alpha1.ReportUnwrapFailed})
	act(t, m, ActWait) // the same error is not written twice
}

func TestARunnerThatCannotLoadKeepsWhatItHoldsAndSaysSo(t *testing.T) {
	m := join(t, view("u", "e", 1, idA))
	m.Saw(view("u", "e", 2, idA, idB), false)
	m.Loaded(act(t, m, ActLoad).View, &v1alpha1.ReportError{Reason: v1alpha1.ReportUnwrapFailed})
	r := act(t, m, ActReport).Report
	if r.Generation != 1 || r.Error == nil || !slices.Equal(r.KeyIDs, []string{idA}) || !m.Serving() {
		t.Fatalf("report %+v, serving %t", r, m.Serving())
	}
}

func TestRemovalsDoNotWaitForTheRingThatBringsThem(t *testing.T) {
	m := join(t, view("u", epoch, 3, idB, idA))
	m.Saw(view("u", epoch, 4, idC), false)
	if a := act(t, m, ActDrop); !slices.Contains(a.Drop, idA) || !slices.Contains(a.Drop, idB) {
		t.Fatalf("it drops %v", a.Drop)
	}
	act(t, m, ActLoad)
}

func TestWhatAMalformedRingLacksIsNotForgotten(t *testing.T) {
	m := join(t, view("u", epoch, 3, idB, idA))
	v := view("u", epoch, 4, idB)
	v.Ring.MintingKeyID = idC
	m.Saw(v, false)
	act(t, m, ActLoad)
}

func TestAStatusThatIsRolledBackBringsForgottenKeysBack(t *testing.T) {
	before := view("u", epoch, 3, idB, idA)
	m := join(t, before)
	m.Saw(view("u", epoch, 4, idB), false)
	act(t, m, ActDrop)
	v := act(t, m, ActLoad).View
	m.Loaded(v, &v1alpha1.ReportError{Reason: v1alpha1.ReportKMSUnavailable})
	m.Saw(before, true)
	if got := m.Wanted(act(t, m, ActLoad).View); !slices.Equal(got, []string{idB, idA}) {
		t.Fatalf("it loads %v", got)
	}
}

func TestAJoinReadsAgainAfterAReportThatTookTwoTries(t *testing.T) {
	m := NewMember()
	m.Saw(view("u", epoch, 1, idA), true)
	m.Loaded(act(t, m, ActLoad).View, nil)
	act(t, m, ActReport)
	m.Saw(view("u", epoch, 1, idA), true) // a read before the report was written proves nothing
	act(t, m, ActReport)
	m.Reported()
	act(t, m, ActGet)
}

func TestARevokedKeyIsForgottenAtOnceAndNeverLoadedAgain(t *testing.T) {
	m := join(t, view("u", "e", 2, idB, idA))
	v := view("u", "e", 2, idB, idA)
	v.Revoked = []string{idA}
	m.Saw(v, false)
	if a := act(t, m, ActDrop); !slices.Equal(a.Drop, []string{idA}) {
		t.Fatalf("it drops %v", a.Drop)
	}
	if r := act(t, m, ActReport).Report; !slices.Equal(r.KeyIDs, []string{idB}) || r.Generation != 2 {
		t.Fatalf("report %+v", r)
	}
	m.Reported()
	act(t, m, ActWait)
	m.Saw(view("u", "e", 3, idB, idA), false) // an older list of revocations brings nothing back
	if got := m.Wanted(act(t, m, ActLoad).View); !slices.Equal(got, []string{idB}) {
		t.Fatalf("it wants %v", got)
	}
}

func TestAJoinDoesNotEndWithARingThatWasReportedButIsNoLongerHeld(t *testing.T) {
	m := NewMember()
	m.Saw(view("u", epoch, 3, idB, idA), true)
	m.Loaded(act(t, m, ActLoad).View, nil)
	act(t, m, ActReport)
	m.Reported()
	m.Saw(view("u", epoch, 2, idA, idB), true) // a status was restored
	m.Loaded(act(t, m, ActLoad).View, nil)
	m.Saw(view("u", epoch, 3, idB, idA), true) // and the ring has grown into what it was
	if m.Serving() {
		t.Fatal("it serves a ring that it has not reported")
	}
	act(t, m, ActLoad)
}

func TestAMemberWithdrawsItsReportBeforeItGoesBack(t *testing.T) {
	after, before := view("u", epoch, 3, idB, idA), view("u", epoch, 2, idA, idB)
	withdraw := func() *Member {
		m := join(t, after)
		m.Saw(before, true)
		if r := act(t, m, ActReport).Report; r.Generation == 0 || len(r.KeyIDs) != 0 || r.MintingKeyID != "" {
			t.Fatalf("report %+v", r)
		}
		if m.Held().Ring.Generation != 3 || !m.Serving() {
			t.Fatal("it went back at once")
		}
		m.Reported()
		act(t, m, ActGet)
		return m
	}

	m := withdraw()
	m.Saw(before, true)
	m.Loaded(act(t, m, ActLoad).View, nil)
	if r := act(t, m, ActReport).Report; r.Generation != 2 || r.MintingKeyID != idA || len(r.KeyIDs) != 2 {
		t.Fatalf("report %+v", r)
	}
	m.Reported()
	act(t, m, ActWait)
	m.Saw(view("u", epoch, 4, idB), false) // of the time before the status was restored
	act(t, m, ActGet)
	m.Saw(before, true)
	act(t, m, ActWait)

	m = withdraw()
	m.Saw(after, true) // the ring has grown again into what it was
	if r := act(t, m, ActReport).Report; r.Generation != 3 || r.MintingKeyID != idB || len(r.KeyIDs) != 2 {
		t.Fatalf("report %+v", r)
	}
	m.Reported()
	act(t, m, ActWait)
}

func TestARevocationThatIsTakenBackBringsTheKeyBack(t *testing.T) {
	m := join(t, view("u", epoch, 2, idB, idA))
	v := view("u", epoch, 2, idB, idA)
	v.Revoked = []string{idA}
	m.Saw(v, true)
	act(t, m, ActDrop)
	act(t, m, ActReport)
	m.Reported()
	m.Saw(view("u", epoch, 2, idB, idA), false) // it may be older than the revocation
	act(t, m, ActGet)
	m.Saw(view("u", epoch, 2, idB, idA), true)
	a := act(t, m, ActLoad)
	if got := m.Wanted(a.View); !slices.Equal(got, []string{idB, idA}) {
		t.Fatalf("it wants %v", got)
	}
	m.Loaded(a.View, &v1alpha1.ReportError{Reason: v1alpha1.ReportKMSUnavailable})
	if r := act(t, m, ActReport).Report; !slices.Equal(r.KeyIDs, []string{idB}) {
		t.Fatalf("it reports a key that is not in memory: %+v", r)
	}
	m.Reported()
	m.Retry()
	act(t, m, ActGet)
	m.Saw(view("u", epoch, 2, idB, idA), true)
	m.Loaded(act(t, m, ActLoad).View, nil)
	if r := act(t, m, ActReport).Report; !slices.Equal(r.KeyIDs, []string{idB, idA}) || r.Error != nil {
		t.Fatalf("report %+v", r)
	}
}

func TestJudge(t *testing.T) {
	held := view("u", "e", 5, idA)
	changed := view("u", "e", 5, idA)
	changed.Ring.Settings.Audience = "other"
	cases := []struct {
		name       string
		seen       View
		consistent bool
		want       Verdict
	}{
		{"the same ring", view("u", "e", 5, idA), false, Ignore},
		{"a later generation, by an event", view("u", "e", 6, idA, idB), false, Load},
		{"an older event", view("u", "e", 4, idA), false, Confirm},
		{"a lower generation, by a consistent read", view("u", "e", 4, idA), true, Load},
		{"another epoch, by an event", view("u", "f", 1, idB), false, Confirm},
		{"another epoch, by a consistent read", view("u", "f", 1, idB), true, Load},
		{"another object, by an event", view("v", "f", 9, idB), false, Confirm},
		{"another object, by a consistent read", view("v", "f", 9, idB), true, Load},
		{"other content under the same generation, by an event", changed, false, Confirm},
		{"other content under the same generation, by a consistent read", changed, true, Load},
		{"the object gone, by an event", View{}, false, Confirm},
		{"the object gone, by a consistent read", View{}, true, Ignore},
		{"the ring gone, by a consistent read", View{UID: "u"}, true, Ignore},
	}
	for _, c := range cases {
		if got := Judge(&held, &c.seen, c.consistent); got != c.want {
			t.Errorf("%s: %d, want %d", c.name, got, c.want)
		}
	}
}

func TestAnOlderEventDoesNotTakeThePlaceOfWhatIsAboutToBeLoaded(t *testing.T) {
	m := join(t, view("u", "e", 1, idA))
	m.Saw(view("u", "e", 3, idB, idA), false)
	m.Saw(view("u", "e", 2, idA, idB), false)
	if a := act(t, m, ActLoad); a.View.Ring.Generation != 3 {
		t.Fatalf("it loads generation %d", a.View.Ring.Generation)
	}
}

func TestALostOrForeignReportIsWrittenAgain(t *testing.T) {
	m := join(t, view("u", "e", 1, idA))
	m.ReportSeen(true)
	act(t, m, ActWait)
	m.ReportSeen(false)
	if r := act(t, m, ActReport).Report; r.Generation != 1 {
		t.Fatalf("report %+v", r)
	}
}

func TestAnObjectThatIsGoneIsNoReasonToStopServing(t *testing.T) {
	m := join(t, view("u", "e", 1, idA))
	m.Saw(View{}, false)
	act(t, m, ActGet)
	m.Saw(View{}, true)
	act(t, m, ActWait)
	if !m.Serving() || m.Held() == nil {
		t.Fatal("it stopped serving")
	}
}

func TestALostStatusIsNoReasonToStopServing(t *testing.T) {
	m := join(t, view("u", "e", 1, idA))
	m.Saw(View{UID: "u"}, false)
	act(t, m, ActGet)
	m.Saw(View{UID: "u"}, true)
	act(t, m, ActWait)
	if !m.Serving() || m.Held() == nil {
		t.Fatal("it stopped serving")
	}
}

func TestAnotherLifeThatCannotBeLoadedLeavesWhatIsHeld(t *testing.T) {
	m := join(t, view("u", "e", 5, idA))
	m.Saw(view("v", "f", 1, idB), true)
	m.Loaded(act(t, m, ActLoad).View, &v1alpha1.ReportError{Reason: v1alpha1.ReportUnwrapFailed})
	if r := act(t, m, ActReport).Report; r.UID != "u" || r.Generation != 5 || r.Error == nil || !m.Serving() {
		t.Fatalf("report %+v", r)
	}
	m.Reported()
	m.Saw(view("v", "f", 1, idB), true)
	m.Loaded(act(t, m, ActLoad).View, nil)
	if r := act(t, m, ActReport).Report; r.UID != "v" || r.Generation != 1 || r.Error != nil {
		t.Fatalf("report %+v", r)
	}
}
