package agent

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/lab/vm"
	"hilbert.dev/hilbert/topology"
)

// TestDedicated: pods with cores of their own have exactly those that the scheduler promised NUMA nodes for; no task of any other pod may run
// there; their memory lies where they were promised it; and when they go, those who share get the cores.
func TestDedicated(t *testing.T) {
	r := newRig(t)
	shared := r.run(r.pod("shared", requests("500m")), r.pod("unsaid"))
	before, _ := r.places(shared[0])
	pods := r.run(
		r.dedicated("two", "2", "256Mi", spec.NUMABound, "hold", "64"),
		r.dedicated("one", "1", "128Mi", spec.NUMABound, "sleep"),
	)
	k := r.sees()
	for i, want := range []int{2, 1} {
		r.asPromised(k, pods[i], want)
	}
	one, _ := r.places(pods[0])
	other, _ := r.places(pods[1])
	if !one.Intersection(other).IsEmpty() {
		t.Errorf("both have some of %v and %v", one, other)
	}
	near := r.promise(pods[0]).NUMANodes()
	r.eventually(slack+tick, "what it holds is where it was promised", func() error {
		for numa, mib := range r.anonymousMiB(pods[0]) {
			if in := near&(1<<numa) != 0; in && mib < 64 || !in && mib > 2 {
				return fmt.Errorf("of 64 MiB held, %d are on node %d; promised was %v", mib, numa, r.promise(pods[0]))
			}
		}
		return nil
	})
	r.remove(pods...)
	took := r.eventually(tick+slack, "the pool has the cores again", func() error {
		cpus, _, err := r.sees().where(shared[0])
		if err == nil && cpus != before {
			err = fmt.Errorf("it has %v, before the dedicated pods it had %v", cpus, before)
		}
		return err
	})
	t.Logf("%v grew back from %v within %s", before, before.Minus(one).Minus(other), took)
}

// asPromised fails the test unless a dedicated pod has that many CPUs, alone, in the NUMA nodes of its promise, and memory of those only.
func (r *rig) asPromised(k *kernel, p *corev1.Pod, want int) topology.CPUSet {
	r.t.Helper()
	cpus, mems, err := k.where(p)
	if err != nil {
		r.t.Fatal(err)
	}
	if cpus.Len() != want {
		r.t.Errorf("pod %s may run on %v, want %d CPUs", p.Name, cpus, want)
	}
	g := r.promise(p)
	for numa := range vm.Nodes {
		if got := cpus.Intersection(r.numa(numa)).Len(); got != int(g.CPUs[numa]) {
			r.t.Errorf("pod %s has %d CPUs of NUMA node %d; promised was %v", p.Name, got, numa, g)
		}
		if in := g.NUMANodes()&(1<<numa) != 0; mems.Has(numa) != in {
			r.t.Errorf("pod %s may have memory of %v; promised was %v", p.Name, mems, g)
		}
	}
	if err := k.alone(p, cpus); err != nil {
		r.t.Error(err)
	}
	return cpus
}

// TestExclusive: a pod with a NUMA node alone; nobody else has a CPU or memory there.
func TestExclusive(t *testing.T) {
	r := newRig(t)
	shared := r.run(r.pod("shared", requests("500m")), r.pod("unsaid"), r.pod("reclaimed", level(spec.QoSReclaimed)))
	pod := r.run(r.dedicated("alone", "2", "128Mi", spec.NUMAExclusive, "hold", "32"))[0]
	numa := -1
	for z := range vm.Nodes {
		if r.promise(pod).NUMANodes() == 1<<z {
			numa = z
		}
	}
	if numa < 0 {
		t.Fatalf("promised was %v, want one NUMA node", r.promise(pod))
	}
	all := r.numa(numa)
	r.eventually(tick+slack, "nobody else is in the NUMA node", func() error {
		k := r.sees()
		for _, p := range shared {
			if _, mems, err := k.where(p); err != nil || mems.Has(numa) {
				return fmt.Errorf("pod %s may have memory of %v: %v", p.Name, mems, err)
			}
		}
		return k.alone(pod, all)
	})
	cpus, mems := r.places(pod)
	if !cpus.Minus(all).IsEmpty() || cpus.Len() < 2 || !mems.Has(numa) || mems.Len() != 1 {
		t.Errorf("it has CPUs %v and memory of %v, want NUMA node %d, which has %v", cpus, mems, numa, all)
	}
	r.remove(pod)
	r.eventually(tick+slack, "the NUMA node is for all again", func() error {
		cpus, mems, err := r.sees().where(shared[0])
		if err == nil && (cpus.Intersection(all).IsEmpty() || !mems.Has(numa)) {
			err = fmt.Errorf("pod shared has %v, memory of %v", cpus, mems)
		}
		return err
	})
}

// anonymousMiB is how much of a pod's memory lies on each node.
func (r *rig) anonymousMiB(p *corev1.Pod) (byNode [vm.Nodes]int) {
	r.t.Helper()
	cgroup, err := r.ContainerCgroup(r.t.Context(), p, container)
	if err != nil {
		r.t.Fatal(err)
	}
	text, err := r.Guest.ReadFile(r.t.Context(), cgroup+"/memory.numa_stat")
	if err != nil {
		r.t.Fatal(err)
	}
	var bytes [vm.Nodes]int
	if _, err := fmt.Sscanf(text, "anon N0=%d N1=%d", &bytes[0], &bytes[1]); err != nil {
		r.t.Fatalf("memory.numa_stat says %q: %v", text, err)
	}
	for i := range bytes {
		byNode[i] = bytes[i] >> 20
	}
	return byNode
}
