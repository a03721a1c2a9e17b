package agent

import (
	"context"
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/topology"
)

const (
	// lendingFast has the agent lend in the largest steps that it takes, and most of what is idle.
	lendingFast = "writeInterval: 1s, lending: {interval: 10s, step: 25, targetUtilization: 95, refreshInterval: 10s}"
	// maxSilence is how long what is lent may stay lent while the agent is away.
	maxSilence = 30 * time.Second
)

// watch runs the watchdog until the test ends, and returns when it is the agent's turn.
func (r *rig) watch() {
	r.t.Helper()
	dog, err := shared.cluster.StartWatchdog(r.t.Context())
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		if err := dog.Stop(ctx); err != nil {
			r.t.Error(err)
		}
	})
	r.hasTurn("agent")
}

// hasTurn returns when it is somebody's turn.
func (r *rig) hasTurn(who string) {
	r.t.Helper()
	r.eventually(patience, "it is the turn of the "+who, func() error {
		now, err := shared.cluster.Turn(r.t.Context())
		if err == nil && now != who {
			err = fmt.Errorf("it is the turn of %q", now)
		}
		return err
	})
}

// loan is CPUs that a reclaimed pod has and an online pod lacks.
type loan struct {
	r              *rig
	online, batch  string // cgroups of containers
	before, lended topology.CPUSet
}

// borrowed returns when a reclaimed pod has what an online one does not use: more than the floor.
func (r *rig) borrowed(online, batch *corev1.Pod) *loan {
	r.t.Helper()
	l := &loan{r: r}
	for p, group := range map[*corev1.Pod]*string{online: &l.online, batch: &l.batch} {
		var err error
		if *group, err = r.ContainerCgroup(r.t.Context(), p, container); err != nil {
			r.t.Fatal(err)
		}
	}
	r.eventually(patience, "CPUs are lent", func() (err error) {
		if l.lended, err = l.cpus(l.batch); err == nil && l.lended.Len() <= 2 {
			err = fmt.Errorf("the reclaimed pod has %v", l.lended)
		}
		return err
	})
	var err error
	if l.before, err = l.cpus(l.online); err != nil {
		r.t.Fatal(err)
	}
	return l
}

func (l *loan) cpus(cgroup string) (topology.CPUSet, error) {
	text, err := l.r.Guest.Field(l.r.t.Context(), cgroup+"/cpuset.cpus.effective")
	if err != nil {
		return topology.CPUSet{}, err
	}
	return topology.ParseCPUSet(text)
}

// back returns when the online pod has all that the reclaimed one had beyond the floor, and says how long after a moment that was.
func (l *loan) back(since time.Time, how string) {
	l.r.t.Helper()
	l.r.eventually(2*maxSilence, "the online pod has back what was lent", func() error {
		online, err := l.cpus(l.online)
		if err != nil {
			return err
		}
		batch, err := l.cpus(l.batch)
		if err == nil && (batch.Len() > 2 || !l.before.Union(l.lended).Minus(online).Minus(batch).IsEmpty()) {
			err = fmt.Errorf("the online pod had %v, and has %v; the reclaimed one had %v, and has %v", l.before, online, l.lended, batch)
		}
		return err
	})
	took := time.Since(since)
	now, err := l.cpus(l.online)
	l.r.t.Logf("the agent %s: after %.1f s the online pod, which had %v, has %v (%v)", how, took.Seconds(), l.before, now, err)
	if took > maxSilence {
		l.r.t.Errorf("the agent %s: what was lent came back after %v, want at most %v", how, took, maxSilence)
	}
}

// TestStoppedAgent: while the agent is stopped by a signal, or is killed and cannot start again, no container that needs it is created, and what was lent comes
// back to online pods. When it goes on, it takes over.
func TestStoppedAgent(t *testing.T) {
	r := newRig(t)
	ctx := t.Context()
	r.reconfigure("lending: {enabled: false}", lendingFast)
	r.watch()
	online := r.run(r.pod("online", requests("500m")))[0]
	// Bound as the scheduler would do it minutes later, when the node has offered that for a while.
	batch := r.create(r.pod("batch", level(spec.QoSReclaimed), reclaiming("4000", "64Mi"), func(p *corev1.Pod) { p.Spec.SchedulerName = "by-hand" }))
	if err := r.bindWith(batch, map[string]string{spec.AnnotationReclaimed: "4000m/64Mi"}); err != nil {
		t.Fatal(err)
	}
	batch = r.awaitRunning(batch)
	lent := r.borrowed(online, batch)
	if _, err := r.Guest.Signal(ctx, agentName, syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	lent.back(time.Now(), "was stopped")
	r.hasTurn("watchdog")
	own := r.create(r.dedicated("own", "2", "64Mi", spec.NUMABound))
	r.eventually(patience, "the container that needs the agent is refused", func() error {
		now, err := r.AwaitPod(ctx, own, func(*corev1.Pod) error { return nil })
		if err != nil {
			return err
		}
		if why := waits(now); !strings.Contains(why, "needs Hilbert's agent") && !strings.Contains(why, "required") {
			return fmt.Errorf("it waits: %q", why)
		}
		return nil
	})
	if _, _, err := r.sees().where(own); err == nil {
		t.Error("the dedicated pod runs while the agent is stopped")
	}
	if _, err := r.Guest.Signal(ctx, agentName, syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	own = r.awaitRunning(own)
	r.hasTurn("agent")
	k := r.sees()
	cpus := r.asPromised(k, own, 2)
	now, _, err := k.where(online)
	if err != nil || !now.Intersection(cpus).IsEmpty() {
		t.Errorf("the online pod has %v, %v, and the dedicated one %v", now, err, cpus)
	}
	r.remove(own)

	lent = r.borrowed(online, batch)
	r.crashes(func(killed time.Time) { lent.back(killed, "was killed, and does not start") })
	r.hasTurn("agent")
}

// crashes kills the agent, which then ends at each start, as with a bad image, while something is looked at.
func (r *rig) crashes(look func(killed time.Time)) {
	r.t.Helper()
	const config = "/etc/hilbert/agent.yaml"
	ctx := r.t.Context()
	good, err := r.Guest.ReadFile(ctx, config)
	if err != nil {
		r.t.Fatal(err)
	}
	if err := r.Guest.WriteString(ctx, config, "kind: nothing\n"); err != nil {
		r.t.Fatal(err)
	}
	defer func() {
		if err := r.Guest.WriteString(context.WithoutCancel(ctx), config, good); err != nil {
			r.t.Error(err)
		}
		r.ready()
	}()
	if _, err := r.Guest.Signal(ctx, agentName, syscall.SIGKILL); err != nil {
		r.t.Fatal(err)
	}
	look(time.Now())
	if _, err := r.ask("/readyz"); err == nil {
		r.t.Error("the agent is there")
	}
}
