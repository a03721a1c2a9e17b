package trace

import (
	"fmt"
	"hash/fnv"
	"reflect"
	"strings"
	"testing"

	"hilbert.dev/hilbert/cluster/facts"
)

// gpus and ask are what the generator makes of a Shape and a Request: fields that it leaves alone change no digest.
type (
	gpus struct {
		count     int
		model     string
		shareable bool
	}
	ask struct{ milli, whole any }
)

// fingerprint hashes what the generator decides about a workload. Fields are named one by one: a new one in the ledger's types, which it
// leaves empty, changes nothing.
func fingerprint(w *Workload) string {
	h := fnv.New64a()
	for _, n := range w.Nodes {
		fmt.Fprintln(h, n.Name, n.Labels, n.Taints, n.Allocatable, gpus{n.GPU.GPUs, n.GPU.Model, n.GPU.Shareable})
	}
	for i := range w.Tasks {
		task := &w.Tasks[i]
		r := task.Requirements
		fmt.Fprintln(h, task.Name, task.Created, task.Deleted, task.Priority, task.Group, r.Requests, r.ScoreCPU, r.ScoreMemory, ask{r.GPU.Milli, r.GPU.Whole},
			r.NodeSelector, r.Required, r.Preferred, r.Tolerations, r.Ports)
	}
	return fmt.Sprintf("%016x", h.Sum64())
}

// TestSyntheticIsTheSameEverywhere pins a workload: whoever changes the generator changes every published digest, and has to say so here.
func TestSyntheticIsTheSameEverywhere(t *testing.T) {
	s := Synthetic{Nodes: 50, Pods: 1000, Classes: 20, Load: 90, Minutes: 30}
	if got, want := fingerprint(s.Generate(7)), "9e3a16ea51aff82e"; got != want {
		t.Errorf("fingerprint %s, want %s", got, want)
	}
	if fingerprint(s.Generate(7)) == fingerprint(s.Generate(8)) {
		t.Error("two seeds gave the same workload")
	}
}

// What users are told is all that there is.
func TestSyntheticForm(t *testing.T) {
	text := strings.NewReplacer("[", "", "]", "", "PERCENT", "1", "PERMILLE", "1", "N", "1").Replace(SyntheticForm)
	s, err := ParseSynthetic(text)
	if err != nil {
		t.Fatal(err)
	}
	for field, value := range reflect.ValueOf(s).Fields() {
		if value.Int() != 1 {
			t.Errorf("%s does not tell how to set %s", SyntheticForm, field.Name)
		}
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
	groups := make(map[string]*facts.Requirements)
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

// TestSyntheticConstraints: with constraints, every kind of constraint between pods occurs; without, none, and nothing else changes.
func TestSyntheticConstraints(t *testing.T) {
	s, err := ParseSynthetic("nodes=40,pods=2000,classes=32,constraints=1")
	if err != nil || !strings.HasSuffix(s.String(), ",constraints=1") {
		t.Fatalf("%s, %v", s, err)
	}
	w := s.Generate(1)
	if err := unsound(w); err != nil || !w.Tied() {
		t.Errorf("tied %v, %v", w.Tied(), err)
	}
	seen := make(map[string]bool)
	for _, n := range w.Nodes {
		if n.Labels[facts.HostnameKey] != n.Name {
			t.Errorf("node %s: %v", n.Name, n.Labels)
		}
		seen["zoneless"] = seen["zoneless"] || n.Labels[LabelZone] == ""
	}
	for i := range w.Tasks {
		r, id := w.Tasks[i].Requirements, w.Identities[w.Tasks[i].Group]
		for _, c := range r.Spread {
			seen[fmt.Sprintf("spread hard=%v %s", c.Hard, c.TopologyKey)] = true
			seen["minDomains"] = seen["minDomains"] || c.MinDomains > zones
			seen["taints"] = seen["taints"] || c.HonorTaints
		}
		for _, term := range r.Affinity {
			seen["affinity "+term.TopologyKey] = true
		}
		for _, term := range r.AntiAffinity {
			seen["anti-affinity "+term.TopologyKey] = true
		}
		seen["preferred"] = seen["preferred"] || len(r.PreferredPods) > 0
		seen["owned"] = seen["owned"] || id.Owner.Kind == facts.ReplicaSet
		seen["namespace "+id.Namespace] = true
	}
	for _, name := range []string{
		"zoneless", "minDomains", "taints", "preferred", "owned", "namespace default", "namespace other",
		"spread hard=true " + LabelZone, "spread hard=true " + facts.HostnameKey, "spread hard=false " + LabelZone,
		"affinity " + LabelZone, "affinity " + facts.HostnameKey, "anti-affinity " + facts.HostnameKey,
	} {
		if !seen[name] {
			t.Errorf("nothing has: %s", name)
		}
	}
	if len(w.Controllers) != 2 {
		t.Errorf("%d ReplicaSets", len(w.Controllers))
	}
	s.Constraints = 0
	if w := s.Generate(1); w.Tied() || w.Identities != nil || w.Controllers != nil || w.Nodes[0].Labels[facts.HostnameKey] != "" {
		t.Error("there are constraints between pods that nobody asked for")
	}
}
