package controllers

import (
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

func TestCountsAreWrittenOnceTheyHaveSettledAndThenEvery30Seconds(t *testing.T) {
	var p pacer
	name := types.NamespacedName{Namespace: "prod", Name: "deployer"}
	now := time.Date(2026, 7, 28, 12, 0, 0, 0, time.UTC)
	expect := func(what string, after, want time.Duration) {
		t.Helper()
		now = now.Add(after)
		if got := p.wait(name, now); got != want {
			t.Errorf("%s: waits %s, want %s", what, got, want)
		}
	}
	expect("the first pod has reported", 0, 2*time.Second)
	expect("two more have", time.Second, time.Second)
	expect("settled", time.Second, 0)
	p.settled(name)
	p.wroteCounts(name, now)
	expect("another pod", 5*time.Second, 25*time.Second)
	p.settled(name) // it is gone again
	expect("and another, late", 24*time.Second, 2*time.Second)
	expect("settled again", 2*time.Second, 0)
	expect("the clock went back", -time.Hour, 0)
	p.settled(name)
	p.wroteCounts(name, now)
	p.settled(name)
	expect("a write with a phase counts for nothing", time.Second, 29*time.Second)
	p.forget(name)
	expect("a new key of the name", 0, 2*time.Second)
}
