package agent

import (
	"context"
	"errors"
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/lab/vm/join"
	"hilbert.dev/hilbert/topology"
)

// classes are the CPUs of the kubelet's cgroups of Burstable and of BestEffort pods.
func (r *rig) classes() (out [2]topology.CPUSet, err error) {
	for i, class := range []string{"burstable", "besteffort"} {
		text, err := r.Guest.Field(r.t.Context(), kubepods+"/"+class+"/cpuset.cpus.effective")
		if err != nil {
			return out, err
		}
		if out[i], err = topology.ParseCPUSet(text); err != nil {
			return out, err
		}
	}
	return out, nil
}

// haveCPUs returns when both classes have some CPUs.
func (r *rig) haveCPUs(want topology.CPUSet) {
	r.t.Helper()
	r.eventually(tick+slack, "the kubelet's classes have "+want.String(), func() error {
		if has, err := r.classes(); err != nil || has != [2]topology.CPUSet{want, want} {
			return fmt.Errorf("they have %v, %w", has, err)
		}
		return nil
	})
}

// TestNobodyThere: while neither agent nor watchdog is there, Burstable and BestEffort pods start off the CPUs of dedicated ones, also after a restart of the
// kubelet and of containerd. A Guaranteed pod starts everywhere, because its cgroup lies beside the dedicated pod's: this much stays open. When the agent is back,
// all are where they belong, and when the dedicated pod ends, its CPUs are for all.
func TestNobodyThere(t *testing.T) {
	r := newRig(t)
	ctx := t.Context()
	all := r.numa(0).Union(r.numa(1))
	r.haveCPUs(all)
	own := r.run(r.dedicated("own", "2", "64Mi", spec.NUMABound, "sleep"))[0]
	cpus := r.asPromised(r.sees(), own, 2)
	others := all.Minus(cpus)
	r.haveCPUs(others)

	agent := r.Guest.Service(agentName)
	if err := agent.Stop(ctx); err != nil {
		t.Fatal(err)
	}
	restarted := []string{join.Containerd, join.Kubelet}
	if testing.Short() {
		restarted = nil
	}
	for _, name := range restarted {
		if err := r.Guest.Service(name).Restart(ctx); err != nil {
			t.Fatal(err)
		}
		if err := r.AwaitContainerd(ctx); err != nil {
			t.Fatal(err)
		}
	}
	here := onNode(r.Name)
	late := r.run(r.pod("burstable", requests("500m"), here), r.pod("best-effort", here))
	k := r.sees()
	for _, p := range late {
		if has, _, err := k.where(p); err != nil || has != others {
			t.Errorf("pod %s, which nobody placed, runs on %v, %v; want %v", p.Name, has, err, others)
		}
	}
	if err := k.alone(own, cpus); err != nil {
		t.Error(err)
	}
	guaranteed := r.run(r.pod("guaranteed", asks("500m", "64Mi"), here))[0]
	if has, _ := r.places(guaranteed); has != all {
		t.Errorf("a Guaranteed pod that nobody placed runs on %v: docs/concepts/node.md says that it runs everywhere", has)
	}

	if err := agent.Start(ctx); err != nil {
		t.Fatal(err)
	}
	r.ready()
	r.eventually(tick+slack, "the dedicated pod is alone again", func() error {
		now, _, err := r.sees().where(own)
		if err == nil && now != cpus {
			err = fmt.Errorf("it had %v and has %v", cpus, now)
		}
		return errors.Join(err, r.sees().alone(own, cpus))
	})
	r.remove(own)
	r.haveCPUs(all)
	r.eventually(tick+slack, "all share its CPUs", func() error {
		for _, p := range append([]*corev1.Pod{guaranteed}, late...) {
			if has, _, err := r.sees().where(p); err != nil || has.Intersection(cpus) != cpus {
				return fmt.Errorf("pod %s has %v, %w", p.Name, has, err)
			}
		}
		return nil
	})
}

// TestReboot: the node loses its power, and comes back with neither agent nor watchdog. Pods that need no agent start everywhere; those that do wait. When the agent
// is back, the dedicated pod has what it was promised, alone.
func TestReboot(t *testing.T) {
	long(t)
	r := newRig(t)
	ctx := t.Context()
	own := r.run(r.dedicated("own", "2", "64Mi", spec.NUMABound, "sleep"))[0]
	r.asPromised(r.sees(), own, 2)
	reclaimed := r.run(r.pod("reclaimed", level(spec.QoSReclaimed)))[0]
	plain := r.run(r.pod("burstable", requests("500m")), r.pod("best-effort"), r.pod("guaranteed", asks("500m", "64Mi")))
	t.Cleanup(func() { // for the tests that follow
		if err := r.DefineAgent(context.WithoutCancel(ctx), agentName); err != nil {
			t.Error(err)
		}
	})
	if err := r.Reboot(ctx); err != nil {
		t.Fatal(err)
	}
	all := r.numa(0).Union(r.numa(1))
	for i, p := range plain {
		plain[i] = r.runsAgain(p)
		if has, _ := r.places(plain[i]); has != all {
			t.Errorf("after a reboot without agent pod %s runs on %v: docs/concepts/node.md says that it runs everywhere", p.Name, has)
		}
	}
	for _, p := range []*corev1.Pod{own, reclaimed} {
		r.eventually(patience, "pod "+p.Name+" does not start", func() error { return r.refusedStart(p) })
	}
	if err := r.DefineAgent(ctx, agentName); err != nil {
		t.Fatal(err)
	}
	r.ready()
	own, _ = r.runsAgain(own), r.runsAgain(reclaimed) // the kubelet's pause may have grown to minutes
	r.eventually(patience, "the dedicated pod is alone", func() error {
		cpus, _, err := r.sees().where(own)
		if err != nil {
			return err
		}
		return r.sees().alone(own, cpus)
	})
	r.haveCPUs(all.Minus(r.asPromised(r.sees(), own, 2)))
}

// refusedStart is nil where a pod that has run before has no process, and its container is said to wait. Why it does is said only between two pauses of the kubelet's.
func (r *rig) refusedStart(p *corev1.Pod) error {
	now, err := r.Client.CoreV1().Pods(p.Namespace).Get(r.t.Context(), p.Name, metav1.GetOptions{})
	if err != nil {
		return err
	}
	if _, _, err := r.sees().where(now); err == nil {
		r.t.Fatalf("pod %s runs without an agent", p.Name)
	}
	for _, c := range now.Status.ContainerStatuses {
		if w := c.State.Waiting; w == nil || w.Reason != "CreateContainerError" && w.Reason != "CrashLoopBackOff" {
			return fmt.Errorf("its container is %+v", c.State)
		}
	}
	return nil
}

// runsAgain returns a pod when its container is in the kernel. What the API server says of it may be older.
func (r *rig) runsAgain(p *corev1.Pod) (now *corev1.Pod) {
	r.t.Helper()
	r.eventually(2*patience, "pod "+p.Name+" runs again", func() (err error) {
		if now, err = r.Client.CoreV1().Pods(p.Namespace).Get(r.t.Context(), p.Name, metav1.GetOptions{}); err != nil {
			return err
		}
		_, _, err = r.sees().where(now)
		return err
	})
	return now
}
