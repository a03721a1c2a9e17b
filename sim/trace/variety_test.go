package trace

import (
	"fmt"
	"testing"

	"hilbert.dev/hilbert/cluster/facts"
	"hilbert.dev/hilbert/resource"
)

// TestVariety counts what a varied workload was asked to have: sizes, selected labels, images, DaemonSets whose pods each name another node, and
// odd pods of every kind. Without the words the workload is as before.
func TestVariety(t *testing.T) {
	s, err := ParseSynthetic("nodes=40,pods=4000,classes=8,sizes=30,selectors=5,images=20,daemonsets=2,odd=12")
	if err != nil {
		t.Fatal(err)
	}
	w := s.Generate(1)
	if err := unsound(w); err != nil {
		t.Fatal(err)
	}
	if len(w.Tasks) != 4000+2*40+12 {
		t.Errorf("%d tasks", len(w.Tasks))
	}
	sizes, selectors, images, named := map[string]map[int64]bool{}, map[string]bool{}, map[string]bool{}, map[string]bool{}
	selecting := 0
	for i := range w.Tasks {
		task := &w.Tasks[i]
		r := task.Requirements
		switch {
		case task.Group == "odd":
		case len(r.Required) > 0 && len(r.Required[0].Fields) > 0:
			named[task.Group+r.Required[0].Fields[0].Values[0]] = true
		default:
			if sizes[task.Group] == nil {
				sizes[task.Group] = map[int64]bool{}
			}
			sizes[task.Group][task.Request(resource.NameCPU)] = true
			images[r.Images[0]] = true
			for _, label := range r.NodeSelector {
				if label.Key != LabelZone {
					selectors[label.Key] = true
					selecting++
				}
			}
		}
	}
	for group, of := range sizes {
		if len(of) < 8 || len(of) > 30 {
			t.Errorf("the pods of %s are of %d sizes, want up to 30", group, len(of))
		}
	}
	if len(selectors) != 5 || len(images) != 20 || len(named) != 2*40 || selecting < 1800 || selecting > 2200 {
		t.Errorf("%d labels are selected by %d pods, %d images, %d pods of DaemonSets", len(selectors), selecting, len(images), len(named))
	}
	hosts := map[string]bool{}
	for _, n := range w.Nodes {
		hosts[n.Labels[labelInstance]+n.Labels[facts.HostnameKey]] = true
	}
	if len(hosts) != 40 {
		t.Errorf("%d nodes tell themselves apart", len(hosts))
	}
	if kinds := oddKinds(w); len(kinds) != len(oddities()) {
		t.Errorf("odd pods are of kinds %v", kinds)
	}
	plain := Synthetic{Nodes: 40, Pods: 4000, Classes: 8, Load: 90, Minutes: 60}
	if a, b := fingerprint(plain.Generate(1)), fingerprint(w); a == b {
		t.Error("the words change nothing")
	}
}

// oddKinds counts the odd pods by what they name.
func oddKinds(w *Workload) map[string]int {
	kinds := map[string]int{}
	for i := range w.Tasks {
		if r := w.Tasks[i].Requirements; w.Tasks[i].Group == "odd" {
			kinds[fmt.Sprint(len(r.NodeSelector), len(r.Requests), len(r.AntiAffinity), len(r.Tolerations), len(r.Preferred))]++
		}
	}
	return kinds
}
