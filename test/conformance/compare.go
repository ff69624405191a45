package main

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// difference is one check whose verdict is not the same in two runs.
type difference struct {
	scenario, id  string
	nth           int // of the checks with that id in the scenario, from 0
	bare, proxied *check
}

func (d difference) String() string {
	id := d.id
	if d.nth > 0 {
		id = fmt.Sprintf("%s (no. %d)", d.id, d.nth+1)
	}
	return fmt.Sprintf("%s: %s: bare %s, proxied %s", d.scenario, id, d.bare, d.proxied)
}

func (c *check) String() string {
	switch {
	case c == nil:
		return "absent"
	case c.ErrorMessage == "":
		return c.Status
	default:
		return fmt.Sprintf("%s (%s)", c.Status, c.ErrorMessage)
	}
}

// compare returns the checks that are absent from one of the runs, or differ in their status or in the reason for it, sorted by scenario.
func compare(bare, proxied verdicts) []difference {
	all := maps.Clone(bare)
	maps.Copy(all, proxied)
	var found []difference
	for _, scenario := range all.scenarios() {
		one, other := bare.byID(scenario), proxied.byID(scenario)
		for _, id := range slices.Sorted(maps.Keys(union(one, other))) {
			for nth := range max(len(one[id]), len(other[id])) {
				d := difference{scenario: scenario, id: id, nth: nth, bare: at(one[id], nth), proxied: at(other[id], nth)}
				if d.bare == nil || d.proxied == nil || *d.bare != *d.proxied {
					found = append(found, d)
				}
			}
		}
	}
	return found
}

func (v verdicts) byID(scenario string) map[string][]check {
	checks := map[string][]check{}
	for _, c := range v[scenario] {
		checks[c.ID] = append(checks[c.ID], c)
	}
	return checks
}

func union(a, b map[string][]check) map[string][]check {
	all := maps.Clone(a)
	maps.Copy(all, b)
	return all
}

func at(checks []check, n int) *check {
	if n >= len(checks) {
		return nil
	}
	return &checks[n]
}

// withoutAddress returns the verdicts with the server's address taken out of the reasons: it is another one in each run.
func (v verdicts) withoutAddress(address string) verdicts {
	out := verdicts{}
	for scenario, checks := range v {
		for _, c := range checks {
			c.ErrorMessage = strings.ReplaceAll(c.ErrorMessage, address, "ADDRESS")
			out[scenario] = append(out[scenario], c)
		}
	}
	return out
}
