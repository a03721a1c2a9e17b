package trace

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"hilbert.dev/hilbert/cluster/facts"
	"hilbert.dev/hilbert/resource"
)

// traces is the folder of the real traces; the test is skipped where there is none.
func traces(t *testing.T) string {
	t.Helper()
	dir := os.Getenv("HILBERT_TRACES")
	if dir == "" {
		dir = filepath.Join("..", "..", "..", "shared", "traces")
	}
	if _, err := os.Stat(dir); errors.Is(err, fs.ErrNotExist) {
		t.Skipf("no traces in %s: set HILBERT_TRACES to the folder that holds openb/ and dlrm2025/", dir)
	}
	return dir
}

// TestRealOpenB reads every list of the public trace and holds it against counts taken from the files themselves.
func TestRealOpenB(t *testing.T) {
	dir := filepath.Join(traces(t), "openb")
	for _, c := range []struct {
		list                         string
		tasks, parts, several, bound int // bound: to GPU models
	}{
		{"default", 8152, 3078, 75, 0},
		{"cpu050", 7439, 3078, 75, 0},
		{"gpushare40", 8152, 4001, 62, 0},
		{"multigpu20", 8324, 3078, 247, 0},
		{"gpuspec33", 8152, 3078, 75, 2388},
	} {
		w, err := LoadOpenB(filepath.Join(dir, "openb_node_list_gpu_node.csv"), filepath.Join(dir, "openb_pod_list_"+c.list+".csv"))
		if err != nil {
			t.Fatal(err)
		}
		if err := unsound(w); err != nil {
			t.Errorf("%s: %v", c.list, err)
		}
		parts, several, bound := 0, 0, 0
		requirements := make(map[*facts.Requirements]bool)
		for i := range w.Tasks {
			r := w.Tasks[i].Requirements
			requirements[r] = true
			if r.GPU.Milli > 0 {
				parts++
			}
			if r.GPU.Whole > 1 {
				several++
			}
			if r.Required != nil {
				bound++
			}
		}
		if len(w.Tasks) != c.tasks || parts != c.parts || several != c.several || bound != c.bound {
			t.Errorf("%s: %d tasks, %d with a part of a GPU, %d with several, %d bound to models; want %+v", c.list, len(w.Tasks), parts, several, bound, c)
		}
		if len(requirements) > 500 {
			t.Errorf("%s: %d Requirements for %d tasks: they are not shared", c.list, len(requirements), len(w.Tasks))
		}
		if got := w.Capacity(); len(w.Nodes) != 1213 || got.GPUMilli != 6212*1000 || got.CPU != 107_018_000 {
			t.Errorf("%s: %d nodes, %+v", c.list, len(w.Nodes), got)
		}
	}
	nodes, err := os.Open(filepath.Join(dir, "openb_node_list_all_node.csv"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = nodes.Close() }()
	if all, err := ReadOpenBNodes("all", nodes); err != nil || len(all) != 1523 {
		t.Errorf("all nodes: %d, %v", len(all), err)
	}
}

func TestRealDLRM(t *testing.T) {
	w, err := LoadDLRM(filepath.Join(traces(t), "dlrm2025", "disaggregated_DLRM_trace.csv"))
	if err != nil {
		t.Fatal(err)
	}
	if err := unsound(w); err != nil {
		t.Error(err)
	}
	byRole, stay, gpus := make(map[string]int), 0, 0
	for i := range w.Tasks {
		r := w.Tasks[i].Requirements
		byRole[r.NodeSelector[0].Value]++
		if r.GPU.Whole != 0 && r.NodeSelector[0].Value == "CN" {
			gpus++
		}
		if w.Tasks[i].Deleted == Never {
			stay++
		}
	}
	if byRole["HN"] != 7386 || byRole["CN"] != 16485 || stay != 8878 || gpus != 0 {
		t.Errorf("%v instances by role, %d stay, %d CPU instances with GPUs", byRole, stay, gpus)
	}
	// What is derived must hold the peak: the demand of no resource may exceed the nodes of its role.
	offered := make(map[string]map[string]int64)
	for _, n := range w.Nodes {
		role := n.Labels[LabelRole]
		if offered[role] == nil {
			offered[role] = make(map[string]int64)
		}
		for _, q := range n.Allocatable {
			offered[role][q.Name] += q.Amount
		}
		offered[role][gpuColumn] += int64(n.GPU.GPUs)
	}
	for role, peaks := range dlrmPeaks(w.Tasks) {
		for name, peak := range peaks {
			if peak > offered[role][name] {
				t.Errorf("%s: up to %d of %s asked for, %d offered", role, peak, name, offered[role][name])
			}
		}
		if offered[role][resource.NameCPU] == 0 {
			t.Errorf("no nodes for %s", role)
		}
	}
}
