package trace

import (
	"fmt"
	"hash/fnv"
	"testing"

	"hilbert.dev/hilbert/cluster"
)

// fingerprint hashes everything about a workload.
func fingerprint(w *Workload) string {
	h := fnv.New64a()
	for _, n := range w.Nodes {
		fmt.Fprintf(h, "%+v\n", *n)
	}
	for i := range w.Tasks {
		task := w.Tasks[i]
		r := *task.Requirements
		task.Requirements = nil
		fmt.Fprintf(h, "%+v %+v\n", task, r)
	}
	return fmt.Sprintf("%016x", h.Sum64())
}

// TestSyntheticIsTheSameEverywhere pins a workload: whoever changes the generator changes every published digest, and has to say so here.
func TestSyntheticIsTheSameEverywhere(t *testing.T) {
	s := Synthetic{Nodes: 50, Pods: 1000, Classes: 20, Load: 90, Minutes: 30}
	if got, want := fingerprint(s.Generate(7)), "1ca59a0e011e369a"; got != want {
		t.Errorf("fingerprint %s, want %s", got, want)
	}
	if fingerprint(s.Generate(7)) == fingerprint(s.Generate(8)) {
		t.Error("two seeds gave the same workload")
	}
}

func TestSyntheticIsWhatWasAskedFor(t *testing.T) {
	for _, text := range []string{
		"nodes=1,pods=1,classes=1", "nodes=200,pods=2000,classes=16", "nodes=100,pods=10000,classes=40,load=70,minutes=120",
		"nodes=3,pods=5000,classes=7",
	} {
		s, err := ParseSynthetic(text)
		if err != nil {
			t.Fatal(err)
		}
		w := s.Generate(3)
		if err := unsound(w); err != nil {
			t.Errorf("%s: %v", text, err)
		}
		if len(w.Nodes) != s.Nodes || len(w.Tasks) != s.Pods {
			t.Errorf("%s: %d nodes, %d tasks", text, len(w.Nodes), len(w.Tasks))
		}
	}
}

// TestSyntheticLoad: the CPU that all pods ask for at once comes near the load.
func TestSyntheticLoad(t *testing.T) {
	for _, load := range []int{50, 90, 120} {
		s := Synthetic{Nodes: 1000, Pods: 20000, Classes: 16, Load: load, Minutes: 60}
		w := s.Generate(1)
		var at, asked int64
		at = w.Tasks[len(w.Tasks)-1].Created
		for i := range w.Tasks {
			if task := &w.Tasks[i]; task.Deleted == Never || task.Deleted > at {
				asked += task.Request("cpu")
			}
		}
		if percent := int(100 * asked / w.Capacity().CPU); percent < load-10 || percent > load+10 {
			t.Errorf("load %d: the pods that are there at the end ask for %d %%", load, percent)
		}
	}
}

// TestSyntheticVariety: every constraint that the generator promises occurs, on both sides.
func TestSyntheticVariety(t *testing.T) {
	w := Synthetic{Nodes: 500, Pods: 5000, Classes: 16, Load: 90, Minutes: 60}.Generate(1)
	seen := make(map[string]int)
	for _, n := range w.Nodes {
		seen["zone "+n.Labels[LabelZone]]++
		for _, taint := range n.Taints {
			seen["taint "+taint.Key]++
		}
		if n.GPU.GPUs > 0 {
			seen["gpu node"]++
		}
	}
	groups := make(map[string]*cluster.Requirements)
	bursts := 0
	for i := range w.Tasks {
		task := &w.Tasks[i]
		r := task.Requirements
		groups[task.Group] = r
		if i > 0 && w.Tasks[i-1].Created == task.Created {
			bursts++
		}
		for name, has := range map[string]bool{
			"part": r.GPU.Milli > 0, "whole": r.GPU.Whole == 1, "several": r.GPU.Whole > 1, "port": len(r.Ports) > 0,
			"selector": len(r.NodeSelector) > 0, "model": r.Required != nil, "toleration": len(r.Tolerations) > 0,
			"preference": len(r.Preferred) > 0, "leaves": task.Deleted != Never, "stays": task.Deleted == Never,
		} {
			if has {
				seen[name]++
			}
		}
	}
	for _, name := range []string{
		"zone zone-a", "zone zone-b", "zone zone-c", "taint " + taintBatch.Key, "gpu node",
		"part", "whole", "several", "port", "selector", "model", "toleration", "preference", "leaves", "stays",
	} {
		if seen[name] == 0 {
			t.Errorf("nothing has: %s", name)
		}
	}
	if len(groups) != 16 {
		t.Errorf("%d classes", len(groups))
	}
	if bursts < len(w.Tasks)/2 {
		t.Errorf("only %d of %d pods come with another", bursts, len(w.Tasks))
	}
}
