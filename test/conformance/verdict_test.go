package main

import (
	"slices"
	"strings"
	"testing"
	"testing/fstest"
)

const at1 = "-2026-11-29T16-21-17-162Z/checks.json"

func file(content string) *fstest.MapFile { return &fstest.MapFile{Data: []byte(content)} }

func TestEveryCheckOfEveryScenarioIsRead(t *testing.T) {
	v, err := readVerdicts(fstest.MapFS{
		"server-tools-list" + at1: file(`[{"id":"a","status":"SUCCESS","timestamp":"x"},{"id":"a","status":"FAILURE","errorMessage":"no","details":{}}]`),
		// A scenario may end in what looks like a date.
		"server-x-2026-07-28" + at1: file(`[{"id":"b","status":"SKIPPED"}]`),
	})
	if err != nil {
		t.Fatal(err)
	}
	if got := v.scenarios(); !slices.Equal(got, []string{"tools-list", "x-2026-07-28"}) {
		t.Errorf("scenarios %q", got)
	}
	if got := v["tools-list"]; !slices.Equal(got, []check{{ID: "a", Status: success}, {ID: "a", Status: failure, ErrorMessage: "no"}}) {
		t.Errorf("checks %v", got)
	}
	if v.count(success) != 1 || v.count(failure) != 1 || v.count("SKIPPED") != 1 {
		t.Errorf("counted %d, %d and %d", v.count(success), v.count(failure), v.count("SKIPPED"))
	}
}

func TestResultsThatAreNotUnderstoodAreAnError(t *testing.T) {
	for name, c := range map[string]struct {
		dir  fstest.MapFS
		want string
	}{
		"nothing":           {fstest.MapFS{}, "no results"},
		"another folder":    {fstest.MapFS{"client-x" + at1: file(`[]`)}, "not the folder"},
		"no time":           {fstest.MapFS{"server-x/checks.json": file(`[]`)}, "not the folder"},
		"two results":       {fstest.MapFS{"server-x" + at1: file(`[{"id":"a","status":"SUCCESS"}]`), "server-x-2026-11-29T16-21-18-000Z/checks.json": file(`[{"id":"a","status":"SUCCESS"}]`)}, "two results"},
		"no checks.json":    {fstest.MapFS{"server-x-2026-11-29T16-21-18-000Z/other": file(``)}, "checks.json"},
		"cut off":           {fstest.MapFS{"server-x" + at1: file(`[{"id":"a","sta`)}, "JSON"},
		"no checks":         {fstest.MapFS{"server-x" + at1: file(`[]`)}, "no checks"},
		"an unknown status": {fstest.MapFS{"server-x" + at1: file(`[{"id":"a","status":"PASSED"}]`)}, `"PASSED"`},
		"no status":         {fstest.MapFS{"server-x" + at1: file(`[{"id":"a"}]`)}, `""`},
		"no id":             {fstest.MapFS{"server-x" + at1: file(`[{"status":"SUCCESS"}]`)}, `""`},
	} {
		if _, err := readVerdicts(c.dir); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

const output = `Running requirements

=== SUMMARY ===
✓ tools-list: 2 passed, 0 failed
✗ ping: 0 passed, 1 failed

Total: 2 passed, 1 failed

Not scored for 2026-07-28: 1 scenario(s) run, 0 failing.
`

func TestTheSuiteMustHaveCountedWhatWasRead(t *testing.T) {
	v := verdicts{"tools-list": {{ID: "a", Status: success}, {ID: "b", Status: success}, {ID: "c", Status: "WARNING"}}, "ping": {{ID: "d", Status: failure}}}
	if err := v.agree(output); err != nil {
		t.Error(err)
	}
	if err := v.agree("=== SUMMARY ===\n"); err == nil {
		t.Error("an output without a total was accepted")
	}
	delete(v, "ping")
	if err := v.agree(output); err == nil {
		t.Error("a failure that was not read went unnoticed")
	}
	v["ping"] = []check{{ID: "d", Status: failure}}
	v["tools-list"] = v["tools-list"][1:]
	if err := v.agree(output); err == nil {
		t.Error("a success that was not read went unnoticed")
	}
}

func TestTheClosingLinesBeginWithTheTotal(t *testing.T) {
	if got := closing(output); !strings.HasPrefix(got, "Total: 2 passed") || !strings.Contains(got, "Not scored") {
		t.Errorf("%q", got)
	}
	if got := closing("crashed"); got != "" {
		t.Errorf("%q", got)
	}
}

func TestAScenarioPassesOnlyIfEachCheckIsASuccess(t *testing.T) {
	v := verdicts{"good": {{ID: "a", Status: success}}}
	for _, status := range statuses[1:] {
		v[status] = []check{{ID: "a", Status: success}, {ID: "b", Status: status}}
		if v.passes(status) {
			t.Errorf("a scenario with a check %s passes", status)
		}
	}
	if !v.passes("good") || v.passes("absent") {
		t.Errorf("good passes: %t, absent passes: %t", v.passes("good"), v.passes("absent"))
	}
}
