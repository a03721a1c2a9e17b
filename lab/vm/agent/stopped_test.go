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
	"hilbert.dev/hilbert/lab/vm/deploytest"
	"hilbert.dev/hilbert/topology"
)

const (
	// lendingFast has the agent lend in the largest steps that it takes, and most of what is idle.
	lendingFast = "writeInterval: 1s, lending: {interval: 10s, step: 25, targetUtilization: 95, refreshInterval: 10s}"
	// standsIn is how soon the watchdog has carried out the plan: its 20 s of silence, and some for an emulated machine.
	standsIn = 60 * time.Second
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
	r.hasTurn(deploytest.Agent)
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

// TestStoppedAgent: while the agent is stopped by a signal, no container that needs it is created, and online pods get back what they lacked. When it goes
// on, it takes over.
func TestStoppedAgent(t *testing.T) {
	r := newRig(t)
	ctx := t.Context()
	r.watch()
	shared := r.run(r.pod("shared", requests("500m")))[0]
	has, _ := r.places(shared)
	if _, err := r.Guest.Signal(ctx, agentName, syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	stopped := time.Now()
	// As after a loan: the online pod has one CPU.
	cgroup, err := r.ContainerCgroup(ctx, shared, "main")
	if err != nil {
		t.Fatal(err)
	}
	if out, err := r.Guest.Shell(ctx, "echo 1 > "+cgroup+"/cpuset.cpus"); err != nil {
		t.Fatal(out, err)
	}
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
	r.eventually(standsIn, "the online pod has its CPUs back", func() error {
		now, _, err := r.sees().where(shared)
		if err != nil || now != has {
			return fmt.Errorf("it has %v, %v, want %v", now, err, has)
		}
		return nil
	})
	t.Logf("the online pod has its CPUs back after %v", time.Since(stopped).Round(time.Second))
	r.hasTurn(deploytest.Watchdog)
	if _, err := r.Guest.Signal(ctx, agentName, syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	own = r.awaitRunning(own)
	r.hasTurn(deploytest.Agent)
	k := r.sees()
	cpus := r.asPromised(k, own, 2)
	now, _, err := k.where(shared)
	if err != nil || now.Intersection(cpus) != (topology.CPUSet{}) {
		t.Errorf("the shared pod has %v, %v, and the dedicated one %v", now, err, cpus)
	}
}

// TestLoanOfAStoppedAgent: CPUs are lent to a running reclaimed pod when the agent is stopped by a signal. They are back with the online pod within half a minute.
// When the agent goes on, it takes over.
func TestLoanOfAStoppedAgent(t *testing.T) {
	long(t)
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
	lent := r.borrowed(online, r.awaitRunning(batch))
	if _, err := r.Guest.Signal(ctx, agentName, syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	lent.back(time.Now(), "was stopped")
	r.hasTurn(deploytest.Watchdog)
	if _, err := r.Guest.Signal(ctx, agentName, syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	r.hasTurn(deploytest.Agent)
}
