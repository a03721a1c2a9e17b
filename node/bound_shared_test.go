package node

import (
	"slices"
	"testing"
	"time"

	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/topology"
)

// A shared pod that is bound runs beside others on the pool's CPUs in its NUMA node, has its memory there, and stands in the report; a restart changes nothing of it.
func TestSharedPodInItsNUMANode(t *testing.T) {
	w := newWorld(t)
	w.start()
	free, bound := sandbox("free", 1), sandbox("bound", 2, "qos=shared_cores", "numa=bound", "numaNodes=1:2/512Mi")
	w.mustRun(free)
	a := w.mustRun(bound)
	if want := topology.CPUs(4, 5, 6, 7); a.CPUs != want || a.Mems != topology.CPUs(1) {
		t.Fatalf("it runs on %v with memory of %v, want %v of NUMA node 1", a.CPUs, a.Mems, want)
	}
	w.has(free, "cpuset.cpus", topology.CPUs(1, 2, 3, 4, 5, 6, 7).String())
	// A dedicated pod has only what the room leaves, and both that share move off its cores.
	own := w.mustRun(sandbox("own", 2, "qos=dedicated_cores", "numa=bound", "numaNodes=1:2/512Mi"))
	w.has(bound, "cpuset.cpus", topology.CPUs(4, 5, 6, 7).Minus(own.CPUs).String())
	w.has(bound, "cpuset.mems", "1")
	if _, err := w.run(sandbox("more", 4, "qos=dedicated_cores", "numa=bound", "numaNodes=0:4/512Mi")); err == nil {
		t.Error("a dedicated pod was given what there is not")
	}
	reported := func() bool {
		w.mu.Lock()
		defer w.mu.Unlock()
		if len(w.reports) == 0 {
			return false
		}
		s := &w.reports[len(w.reports)-1].Status
		held := slices.IndexFunc(s.Topology[1].Children[0].Allocations, func(a spec.NUMAAllocation) bool {
			return a.Name == "pod-bound" && a.Shared && a.CPUs == 2 && a.CPUSet == "" && a.MemoryMiB == 512
		})
		return s.BindsShared && held >= 0 && s.Summary.DedicatedPods == 1
	}
	w.eventually("the report has what it holds", reported)
	if s := w.state(); s.Allocated.Kept != 2 {
		t.Errorf("%d promises were kept, want 2", s.Allocated.Kept)
	}
	for _, remembers := range []bool{true, false} {
		w.stop()
		if !remembers {
			w.store.data = []byte("half a checkpo")
		}
		for uid, p := range w.running {
			set, err := topology.ParseCPUSet(w.kernel.get(p.containers[0].Cgroup + "/cpuset.cpus"))
			if err != nil {
				t.Fatal(err)
			}
			p.containers[0].CPUs = set
			w.running[uid] = p
		}
		w.mu.Lock()
		w.reports = nil
		w.mu.Unlock()
		w.start()
		w.has(bound, "cpuset.cpus", topology.CPUs(4, 5, 6, 7).Minus(own.CPUs).String())
		w.has(bound, "cpuset.mems", "1")
		w.eventually("the report has it again", reported)
	}
	w.stop()
}

// A bound pod that has grown where it runs is taken over where it was promised room, and grows there again: no record of it is needed, and nobody forged anything.
func TestSharedPodGrewBeforeRestart(t *testing.T) {
	w := newWorld(t)
	w.start()
	bound := sandbox("bound", 2, "qos=shared_cores", "numa=bound", "numaNodes=1:2/512Mi")
	w.mustRun(bound)
	w.stop()
	w.store.data = []byte("half a checkpo")
	w.running["bound"].containers[0].MilliCPU = 3000
	w.start()
	w.has(bound, "cpuset.mems", "1")
	var held []spec.NUMAAllocation
	w.agent.Ask(time.Minute, func(a *Agent) {
		for _, socket := range a.Status().Status.Topology {
			held = append(held, socket.Children[0].Allocations...)
		}
	})
	if len(held) != 1 || held[0].CPUs != 3 || held[0].MemoryMiB != 512 {
		t.Errorf("it holds %+v, want room for 3 CPUs and its memory", held)
	}
	if s := w.state(); s.Allocated.Forged != 0 || s.Allocated.Kept != 1 {
		t.Errorf("%d promises were forged and %d kept, want one kept", s.Allocated.Forged, s.Allocated.Kept)
	}
	w.stop()
}
