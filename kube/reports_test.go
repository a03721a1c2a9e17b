package kube

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	nodev1alpha1 "hilbert.dev/hilbert/api/node/v1alpha1"
	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/cluster/facts"
)

// agentReport is what a node of one zone says, observed so long after the test began by its own clock.
func agentReport(name string, cpus int, began time.Time, observed time.Duration) *nodev1alpha1.CustomNodeResource {
	amounts := spec.ZoneAmounts{CPUs: cpus, MemoryMiB: 64}
	n := &nodev1alpha1.CustomNodeResource{ObjectMeta: metav1.ObjectMeta{Name: name}}
	n.Status.ObservedAt = metav1.NewTime(began.Add(observed))
	n.Status.Mode, n.Status.ThreadsPerCore = spec.ModeAgent, 1
	n.Status.Zones = []spec.Zone{{Type: spec.ZoneSocket, Name: "0", Children: []spec.Zone{{Type: spec.ZoneNUMA, Name: "0", Capacity: &amounts, Allocatable: &amounts}}}}
	return n
}

// unsaid is what an agent has created and not yet said anything in.
func unsaid(name string) *nodev1alpha1.CustomNodeResource {
	return &nodev1alpha1.CustomNodeResource{ObjectMeta: metav1.ObjectMeta{Name: name}}
}

// Reports grow stale unless their agents vouch for them; clocks that differ do no harm.
func TestReportsGrowStale(t *testing.T) {
	began := time.Unix(1_800_000_000, 0)
	now := began
	told := &collector{}
	f := newFreshness(told, 10*time.Minute, time.Hour)
	f.now = func() time.Time { return now }
	var log bytes.Buffer
	m := mirrorReports(f, NewParser("hilbert", slog.New(slog.NewTextHandler(&log, nil))))
	odd := unsaid("m")
	odd.Status.Mode = "odd"
	at := func(minutes int) time.Duration { return time.Duration(minutes) * time.Minute }
	update := func(cpus, observed int) func() {
		return func() { _ = m.Update(agentReport("n", cpus, began, at(observed))) }
	}
	for i, step := range []struct {
		minute int
		do     func()
		want   string
	}{
		{0, func() { _ = m.Replace(nil, "") }, ""},
		{0, update(4, -4), "report n agent 4/64 []"}, // seen for the first time, it is as old as it says
		{5, func() { _ = f.expire() }, ""},
		{6, func() { _ = f.expire() }, "report n none 4/64 [] stale"},
		{7, func() { _ = f.expire() }, ""},                // told once
		{7, update(5, -4), "report n none 5/64 [] stale"}, // it says something else, and vouches for nothing
		{8, update(5, -3), "report n agent 5/64 []"},      // its clock is slow, but it runs
		{17, update(5, -3), ""},
		{18, func() { _ = f.expire() }, "report n none 5/64 [] stale"},
		{19, update(5, 900), "report n agent 5/64 []"}, // its clock is fast
		{28, update(5, 901), "report n agent 5/64 []"}, // it says the same again, which is news
		{30, func() { _ = f.expire() }, ""},
		{31, func() { _ = m.Delete(agentReport("n", 5, began, 0)) }, "report n gone"},
		{60, func() { _ = f.expire() }, ""},
		{61, update(6, 0), "report n none 6/64 [] stale"}, // after a restart of ours, of an agent that is long silent
		{62, func() { _ = m.Replace([]any{agentReport("n", 6, began, 0), agentReport("m", 7, began, at(62))}, "") }, "report m agent 7/64 []; report n none 6/64 [] stale"},
		{63, func() { _ = m.Update(odd) }, "report m none 0/0 [] malformed"},
		{99, func() { _ = f.expire() }, "report m none 0/0 [] malformed"},
		{99, func() { _ = m.Add(unsaid("x")) }, ""},                 // there is an agent, which has said nothing yet
		{99, func() { _ = m.Update(unsaid("m")) }, "report m gone"}, // it is made anew
		{99, func() { _ = m.Update(odd) }, "report m none 0/0 [] malformed"},
		{99, func() { _ = m.Replace([]any{unsaid("n"), unsaid("m")}, "") }, ""}, // a list of no reports
	} {
		now = began.Add(at(step.minute))
		step.do()
		if got := told.take(); got != step.want {
			t.Errorf("step %d: told %q, want %q", i, got, step.want)
		}
	}
	if complaints := log.String(); strings.Count(complaints, "malformed") != 1 || !strings.Contains(complaints, "customnoderesource m") {
		t.Errorf("complained %q, want once, of m", complaints)
	}
}

// What is stale is told by the clock, without anything from the API server.
func TestFreshnessRuns(t *testing.T) {
	events := make(chan facts.Event, 9)
	f := newFreshness(outlet{t.Context(), events}, 40*time.Millisecond, time.Hour)
	m := mirrorReports(f, NewParser("hilbert", nil))
	_ = m.Update(agentReport("n", 4, time.Now(), time.Hour))
	go f.run(t.Context())
	for _, want := range []string{"report n agent 4/64 []", "report n none 4/64 [] stale"} {
		if got := describeOther(<-events); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}
