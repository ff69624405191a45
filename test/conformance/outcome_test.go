package main

import (
	"slices"
	"testing"
)

func TestOnlyWhatTheSidecarIsThereForMayDiffer(t *testing.T) {
	gain := func(change func(*difference)) difference {
		d := difference{
			scenario: tamperedScenario, id: tamperedCheck,
			bare:    &check{ID: tamperedCheck, Status: failure, ErrorMessage: tamperedReason + " and returned complete result."},
			proxied: &check{ID: tamperedCheck, Status: success},
		}
		if change != nil {
			change(&d)
		}
		return d
	}
	if rest := faults([]difference{gain(nil)}); len(rest) != 0 {
		t.Errorf("the gain: %v", rest)
	}
	for name, change := range map[string]func(*difference){
		"another scenario":         func(d *difference) { d.scenario = "ping" },
		"another check":            func(d *difference) { d.bare.ID = "wire-schema-valid" },
		"bare it did not run":      func(d *difference) { d.bare = nil },
		"bare it passed":           func(d *difference) { d.bare.Status = success },
		"bare it failed otherwise": func(d *difference) { d.bare.ErrorMessage = "Prerequisite failed" },
		"proxied it did not run":   func(d *difference) { d.proxied = nil },
		"proxied it failed too":    func(d *difference) { d.proxied = &check{Status: failure, ErrorMessage: "another"} },
	} {
		if rest := faults([]difference{gain(nil), gain(change)}); len(rest) != 1 {
			t.Errorf("%s: %v", name, rest)
		}
	}
}

func TestAServerFailsAsItMustOnlyIfItBelievesTheForgery(t *testing.T) {
	run := func(c check) verdicts {
		return verdicts{tamperedScenario: {{ID: "wire-schema-valid", Status: success}, c}}
	}
	if !believesForgery(run(check{tamperedCheck, failure, tamperedReason + " and more"})) {
		t.Error("it believes the forgery, and this is not seen")
	}
	for name, v := range map[string]verdicts{
		"it was not run":            {},
		"in another scenario":       {"ping": {{tamperedCheck, failure, tamperedReason}}},
		"it passed":                 run(check{tamperedCheck, success, ""}),
		"it did not get so far":     run(check{tamperedCheck, failure, "Prerequisite failed"}),
		"another check failed":      run(check{"wire-schema-valid", failure, tamperedReason}),
		"it is no more than warned": run(check{tamperedCheck, "WARNING", tamperedReason}),
	} {
		if believesForgery(v) {
			t.Errorf("%s: taken for believing the forgery", name)
		}
	}
}

func TestAnOutcomeIsGoodOnlyIfEverythingIs(t *testing.T) {
	good := outcome{bare: 165, proxied: 165, bare2025: 141, proxied2025: 141, rounds: 14, passed: 14, failsBare: true}
	if !good.good() {
		t.Errorf("%s is not good", good)
	}
	const want = "conformance: bare=165 proxied=165 bare-2025=141 proxied-2025=141 differences=0 input-required=14/14 tampered-state-bare=failed"
	if good.String() != want {
		t.Errorf("%s", good)
	}
	for name, change := range map[string]func(*outcome){
		"no check passed":             func(o *outcome) { o.bare = 0 },
		"no check of 2025 passed":     func(o *outcome) { o.bare2025 = 0 },
		"a difference":                func(o *outcome) { o.differences = 1 },
		"a scenario failed":           func(o *outcome) { o.passed = 13 },
		"no scenarios":                func(o *outcome) { o.rounds, o.passed = 0, 0 },
		"a forged state failed bare?": func(o *outcome) { o.failsBare = false },
	} {
		o := good
		change(&o)
		if o.good() {
			t.Errorf("%s: %s is good", name, o)
		}
	}
}

func TestTheScenariosOfInputRequiredResultsAreFoundByName(t *testing.T) {
	got := roundScenarios(verdicts{"ping": nil, "input-required-result-b": nil, "input-required-result-a": nil})
	if !slices.Equal(got, []string{"input-required-result-a", "input-required-result-b"}) {
		t.Errorf("%q", got)
	}
}
