package node

import (
	"log/slog"
	"strings"
	"testing"
	"time"

	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/node/watchdog"
	"hilbert.dev/hilbert/topology"
)

// The agent leaves a plan in which nothing is lent. A watchdog that has taken the turn carries it out; the agent notices, takes the turn back, and lends
// nothing at first.
func TestAbsence(t *testing.T) {
	l := newLender(t)
	a := l.absence
	web, batch := sandbox("web", 6, "qos=shared_cores"), sandbox("batch", 0, "qos=reclaimed_cores", "besteffort")
	batch.Annotations[spec.AnnotationReclaimed] = "4000m/512Mi"
	l.mustRun(web)
	l.mustRun(batch)
	cpus := func() int {
		set, err := topology.ParseCPUSet(l.kernel.get(web.Cgroup + "/cpuset.cpus"))
		if err != nil {
			t.Fatal(err)
		}
		return set.Len()
	}
	before := cpus()
	for i := range l.busy {
		l.busy[i] = 0.05
	}
	l.run(240)
	l.ticks(5)
	if lent := before - cpus(); lent < 1 {
		t.Fatalf("%d CPUs are lent of an idle machine", lent)
	}
	planned := 0
	l.eventually("the plan has nothing lent", func() bool {
		plan, err := a.Directory.Plan()
		if err != nil {
			return false
		}
		for _, c := range plan.CPUs {
			if c.Cgroup == web.Cgroup {
				set, _ := topology.ParseCPUSet(c.CPUs)
				planned = set.Len()
			}
		}
		return planned == before
	})
	turn, err := a.Directory.Turn()
	if err != nil || turn.Owner != watchdog.Agent {
		t.Fatalf("turn %+v, %v", turn, err)
	}
	// The loop stands still, as in an agent that is stopped, while the watchdog takes the turn.
	l.agent.Ask(time.Minute, func(*Agent) {
		if _, err := a.Directory.Take(turn, watchdog.Watchdog); err != nil {
			t.Error(err)
		}
		watchdog.New(a.Directory, l.kernel, slog.New(slog.DiscardHandler)).Look(0)
		if got := cpus(); got != before {
			t.Errorf("the online pod has %d CPUs by the plan, want %d", got, before)
		}
		if err := a.Kernel.Write(web.Cgroup+"/cpuset.cpus", "0"); err == nil || !strings.Contains(err.Error(), "turn") {
			t.Errorf("an agent whose turn is over writes: %v", err)
		}
	})
	l.eventually("the agent takes the turn back", func() bool {
		now, err := a.Directory.Turn()
		return err == nil && now.Owner == watchdog.Agent && now.Number == turn.Number+2
	})
	l.ticks(3)
	if got := cpus(); got != before {
		t.Errorf("the online pod has %d CPUs when the agent is back, want %d", got, before)
	}
}
