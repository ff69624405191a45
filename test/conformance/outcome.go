package main

import (
	"fmt"
	"slices"
	"strings"
)

// What the suite calls things.
const (
	roundsPrefix     = "input-required-result-"
	tamperedScenario = "input-required-result-tampered-state"
	tamperedCheck    = "sep-2322-reject-tampered-state"
	tamperedReason   = "Server accepted tampered requestState"
)

// outcome is what all runs come to.
type outcome struct {
	bare, proxied         int  // checks passed of the newest revision
	bare2025, proxied2025 int  // and of those before it
	differences           int  // that must not be
	rounds                int  // scenarios of input-required results
	passed                int  // those of them that the plain server passes behind the proxy
	failsBare             bool // bare, it takes a forged state for its own
}

func (o outcome) good() bool {
	return o.bare > 0 && o.bare2025 > 0 && o.differences == 0 && o.rounds > 0 && o.passed == o.rounds && o.failsBare
}

func (o outcome) String() string {
	tampered := "passed"
	if o.failsBare {
		tampered = "failed"
	}
	return fmt.Sprintf("conformance: bare=%d proxied=%d bare-2025=%d proxied-2025=%d differences=%d input-required=%d/%d tampered-state-bare=%s",
		o.bare, o.proxied, o.bare2025, o.proxied2025, o.differences, o.passed, o.rounds, tampered)
}

// roundScenarios returns the scenarios of input-required results among those of a run, sorted.
func roundScenarios(v verdicts) []string {
	var found []string
	for _, scenario := range v.scenarios() {
		if strings.HasPrefix(scenario, roundsPrefix) {
			found = append(found, scenario)
		}
	}
	return found
}

// believesForgery tells whether the server of a run took a forged state for its own. That it fails the scenario for any other reason would show nothing.
func believesForgery(v verdicts) bool {
	return slices.ContainsFunc(v[tamperedScenario], isForgeryBelieved)
}

func isForgeryBelieved(c check) bool {
	return c.ID == tamperedCheck && c.Status == failure && strings.HasPrefix(c.ErrorMessage, tamperedReason)
}

// faults returns the differences between the plain server's runs without the one that the sidecar is there for: bare it believes a forged state, and proxied it
// no longer does.
func faults(differences []difference) []difference {
	return slices.DeleteFunc(slices.Clone(differences), func(d difference) bool {
		return d.scenario == tamperedScenario && d.bare != nil && isForgeryBelieved(*d.bare) && d.proxied != nil && d.proxied.Status == success
	})
}
