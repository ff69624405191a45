package model

import (
	"flag"
	"strings"
	"testing"
	"time"
)

var full = flag.Bool("model.full", false, "search the large configurations too: some minutes, and some gigabytes of memory")

func TestNoInterleavingBreaksThePromise(t *testing.T) {
	configs := small
	if *full {
		configs = append(configs[:len(configs):len(configs)], large...)
	}
	states := 0
	for _, c := range configs {
		t.Run(c.Name, func(t *testing.T) { states += search(t, c) })
	}
	t.Logf("%d states in %d configurations, no violation", states, len(configs))
}

// search visits every state of a configuration and returns how many there are.
func search(t *testing.T, c Config) int {
	t.Helper()
	start := time.Now()
	limit := 0
	if raced {
		limit = 1000
	}
	r := New(c, nil).Search(limit)
	t.Logf("%-18s %8d states, %2d steps deep, %5.1f s: %s", c.Name, r.States, r.Depth, time.Since(start).Seconds(), c.Shows)
	if r.Violation != "" || !r.Complete && !raced {
		t.Fatalf("complete: %t\n%s", r.Complete, strings.Join(r.Trace, "\n"))
	}
	return r.States
}

type b = map[budget]uint8

// small are the configurations that every run of the tests searches.
var small = []Config{
	{
		Name: "late pods", Shows: "two pods that start at any moment of a rotation",
		Pods: 3, Joined: 1, TTL: 1, Budgets: b{requests: 1, starts: 2},
	},
	{
		Name: "from nothing", Shows: "the first ring, with pods that are there before it",
		Pods: 2, None: true, TTL: 1, Budgets: b{starts: 2, crashes: 1},
	},
	{
		Name: "endings", Shows: "a crash, with or without a report under way, and a deletion",
		Pods: 2, Joined: 2, TTL: 1, Budgets: b{requests: 1, crashes: 1, deletions: 1},
	},
	{
		Name: "reports", Shows: "a crash and a report that is lost",
		Pods: 2, Joined: 2, TTL: 1, Budgets: b{requests: 1, crashes: 1, lostReports: 1},
	},
	{
		Name: "relabelled", Shows: "a pod that loses its label",
		Pods: 2, Joined: 2, TTL: 1, Budgets: b{requests: 1, crashes: 1, relabels: 1},
	},
	{
		Name: "settings", Shows: "ttl and clockSkew up and down in a rotation",
		Pods: 2, Joined: 2, TTL: 1, OtherTTL: 2, OtherSkew: 1, Budgets: b{requests: 1, ttlChanges: 2, skewChanges: 1},
	},
	{
		Name: "revocation", Shows: "a key revoked and an abort, with loads that fail",
		Pods: 2, Joined: 2, TTL: 1, Budgets: b{requests: 1, revocations: 1, aborts: 1, failures: 1},
	},
	{
		Name: "pardon", Shows: "a revocation that is taken back, with old events",
		Pods: 2, Joined: 2, OldEvents: 1, TTL: 1, Budgets: b{requests: 1, revocations: 1, unrevocations: 1},
	},
	{
		Name: "old events", Shows: "events that arrive two rings late",
		Pods: 2, Joined: 2, OldEvents: 2, TTL: 1, Budgets: b{requests: 1, kmsChanges: 1, aborts: 1},
	},
	{
		Name: "re-creation", Shows: "the key deleted and created anew under its name",
		Pods: 2, Joined: 2, OldEvents: 1, TTL: 1, Budgets: b{requests: 1, recreations: 1, forces: 1},
	},
	{
		Name: "restored", Shows: "a status that is put back to what it was, with old events",
		Pods: 2, Joined: 2, OldEvents: 1, TTL: 1, Budgets: b{requests: 1, restores: 1},
	},
	{
		Name: "lost", Shows: "a status that is lost, with pods that start, and a new ring forced",
		Pods: 2, Joined: 1, TTL: 1, Budgets: b{requests: 1, starts: 1, lostStatuses: 1, forces: 1},
	},
	{
		Name: "two controllers", Shows: "two passes at once, each read and clock a step of its own",
		Pods: 2, Joined: 1, Controllers: 2, Fine: true, TTL: 1, Budgets: b{requests: 1},
	},
	{
		Name: "broken", Shows: "a pod that can unwrap no new key",
		Pods: 2, Joined: 2, Broken: 1, TTL: 1, Budgets: b{requests: 1, aborts: 1, crashes: 1},
	},
}

// large are searched with -model.full.
var large = []Config{
	{
		Name: "three pods", Shows: "a crash, a deletion and a start among three pods",
		Pods: 3, Joined: 2, TTL: 1, Budgets: b{requests: 1, starts: 1, crashes: 1, deletions: 1},
	},
	{
		Name: "two controllers+", Shows: "the same with a pod that starts",
		Pods: 2, Joined: 1, Controllers: 2, Fine: true, TTL: 1, Budgets: b{requests: 1, starts: 1},
	},
	{
		Name: "broken+", Shows: "a pod that can unwrap no new key, and a revocation",
		Pods: 2, Joined: 2, Broken: 1, TTL: 1, Budgets: b{requests: 1, aborts: 1, crashes: 1, revocations: 1},
	},
	{
		Name: "re-creation+", Shows: "the key created anew among three pods",
		Pods: 3, Joined: 2, OldEvents: 1, TTL: 1, Budgets: b{requests: 1, starts: 1, recreations: 1, forces: 1},
	},
	{
		Name: "revocation+", Shows: "a key revoked while a pod starts, with loads that fail",
		Pods: 2, Joined: 1, TTL: 1, Budgets: b{requests: 1, starts: 1, revocations: 1, failures: 1},
	},
	{
		Name: "settings+", Shows: "ttl and clockSkew changed while a pod starts",
		Pods: 2, Joined: 1, TTL: 2, OtherTTL: 1, Skew: 1, Budgets: b{requests: 1, starts: 1, ttlChanges: 1, skewChanges: 1},
	},
	{
		Name: "restored, settings", Shows: "a status put back around a change of ttl",
		Pods: 2, Joined: 2, OldEvents: 1, TTL: 1, OtherTTL: 2, Budgets: b{requests: 1, ttlChanges: 1, restores: 1},
	},
	{
		Name: "restored, failures", Shows: "a status put back around an abort and a load that fails",
		Pods: 2, Joined: 2, OldEvents: 1, TTL: 1, Budgets: b{requests: 1, failures: 1, restores: 1, aborts: 1},
	},
}
