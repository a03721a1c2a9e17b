package agent

import (
	"errors"
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"

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
