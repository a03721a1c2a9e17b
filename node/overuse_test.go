package node

import (
	"slices"
	"strings"
	"testing"
	"time"

	"hilbert.dev/hilbert/api/spec"
)

// An online pod that holds more memory than it requested is told of, in an Event, a condition and a metric, and nothing is done to it. Pods that hold less, that
// requested nothing, or of which it is not known what they requested, are not.
func TestOverusersAreTold(t *testing.T) {
	l := newLender(t)
	for uid, score := range map[string]int{"over": 998, "within": 900, "best": 1000} {
		l.mustRun(sandbox(uid, 1), kubelets(score))
	}
	l.mustRun(sandbox("silent", 1))
	l.mustRun(sandbox("lent", 0, "qos=reclaimed_cores", "besteffort"), kubelets(998))
	condition := func() (out string) {
		l.agent.Ask(time.Minute, func(a *Agent) {
			for _, c := range a.Status().Conditions {
				if c.Type == spec.ConditionOnlineOveruse {
					out = c.Reason + " " + c.Message
				}
			}
		})
		return out
	}
	l.run(50)
	if got := condition(); got != "" {
		t.Fatalf("before it has lasted: %s", got)
	}
	out := l.run(20)
	if got := condition(); got != "MemoryOveruse 1 online pods hold more memory than they requested: default/pod-over" {
		t.Errorf("the condition says %q", got)
	}
	if n := l.state().Overusing; n != 1 {
		t.Errorf("%d are counted", n)
	}
	events := slices.DeleteFunc(l.events(), func(e string) bool { return !strings.Contains(e, spec.ReasonMemoryOveruse) })
	if len(events) != 1 || events[0] != "pod-over: MemoryOveruse: it holds 100 MiB of memory and requested 12 MiB" {
		t.Errorf("the events are %q", events)
	}
	if len(out.Evictions) > 0 {
		t.Errorf("requested are %+v", out.Evictions)
	}
	l.agent.Ask(time.Minute, func(a *Agent) { a.options.Config.Eviction.Online.Mode = spec.OnlineOff })
	l.run(1)
	if got := condition(); got != "" {
		t.Errorf("switched off: %s", got)
	}
}
