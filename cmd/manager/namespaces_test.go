package main

import (
	"slices"
	"strings"
	"testing"
)

func TestWatchNamespacesIsAListOfNames(t *testing.T) {
	o, err := parse([]string{"--watch-namespaces", "a,b", "--watch-namespaces=c"})
	if err != nil || !slices.Equal(o.watchNamespaces, []string{"a", "b", "c"}) {
		t.Errorf("%v, %v, want a, b, c", o.watchNamespaces, err)
	}
	if o, err := parse(nil); err != nil || len(o.watchNamespaces) > 0 {
		t.Errorf("without the flag: %v, %v, want every namespace", o.watchNamespaces, err)
	}
}

// An empty list would mean every namespace, which is the opposite of what whoever gives the flag is after.
func TestWatchNamespacesThatSayNothingAreRefused(t *testing.T) {
	for _, value := range []string{"", ",", "a,", "a,,b", "a, b", "*", "A", "a.b", "a,a"} {
		o, err := parse([]string{"--watch-namespaces=" + value})
		if err == nil || !strings.Contains(err.Error(), "--watch-namespaces") {
			t.Errorf("--watch-namespaces=%q: %q, %v, want a refusal that names the flag", value, o.watchNamespaces, err)
		}
	}
}
