package main

import (
	"slices"
	"testing"
)

// sample is a run, made anew for each use.
func sample() verdicts {
	return verdicts{
		"ping":       {{ID: "a", Status: success}, {ID: "b", Status: failure, ErrorMessage: "no"}, {ID: "b", Status: success}},
		"tools-list": {{ID: "c", Status: success}},
	}
}

func TestTheSameVerdictsDoNotDiffer(t *testing.T) {
	other := sample()
	slices.Reverse(other["ping"][:2]) // checks of different ids may come in any order
	if found := compare(sample(), other); len(found) != 0 {
		t.Errorf("%v", found)
	}
}

func TestEveryDifferenceIsFound(t *testing.T) {
	for name, c := range map[string]struct {
		change func(verdicts)
		want   string
	}{
		"another status":           {func(v verdicts) { v["tools-list"][0].Status = failure }, "tools-list: c: bare SUCCESS, proxied FAILURE"},
		"another reason":           {func(v verdicts) { v["ping"][1].ErrorMessage = "never" }, "ping: b: bare FAILURE (no), proxied FAILURE (never)"},
		"the second of one id":     {func(v verdicts) { v["ping"][2].Status = "WARNING" }, "ping: b (no. 2): bare SUCCESS, proxied WARNING"},
		"a check less":             {func(v verdicts) { v["ping"] = v["ping"][:2] }, "ping: b (no. 2): bare SUCCESS, proxied absent"},
		"a check more":             {func(v verdicts) { v["ping"] = append(v["ping"], check{ID: "d", Status: success}) }, "ping: d: bare absent, proxied SUCCESS"},
		"a scenario less":          {func(v verdicts) { delete(v, "tools-list") }, "tools-list: c: bare SUCCESS, proxied absent"},
		"a scenario more":          {func(v verdicts) { v["x"] = []check{{ID: "e", Status: success}} }, "x: e: bare absent, proxied SUCCESS"},
		"a check under another id": {func(v verdicts) { v["tools-list"][0].ID = "d" }, "tools-list: c: bare SUCCESS, proxied absent"},
	} {
		other := sample()
		c.change(other)
		found := compare(sample(), other)
		if len(found) == 0 || found[0].String() != c.want {
			t.Errorf("%s: %v", name, found)
		}
	}
}

func TestTheAddressOfTheServerIsNoDifference(t *testing.T) {
	run := func(address string) verdicts {
		return verdicts{"ping": {{ID: "a", Status: failure, ErrorMessage: "no answer from http://" + address + "/mcp"}}}.withoutAddress(address)
	}
	if found := compare(run("127.0.0.1:4100"), run("127.0.0.1:4101")); len(found) != 0 {
		t.Errorf("%v", found)
	}
}
