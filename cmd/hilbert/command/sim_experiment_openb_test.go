package command

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"hilbert.dev/hilbert/sim/packing"
)

// writeOpenB makes a folder of traces with a small openb cluster.
func writeOpenB(t *testing.T) string {
	t.Helper()
	folder := t.TempDir()
	if err := os.Mkdir(filepath.Join(folder, "openb"), 0o700); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{
		"openb_node_list_gpu_node.csv":   "sn,cpu_milli,memory_mib,gpu,model\na,32000,65536,4,G2\nb,64000,65536,2,T4\n",
		"openb_pod_list_default.csv":     "name,cpu_milli,memory_mib,num_gpu,gpu_milli\np,4000,1024,1,810\nq,4000,1024,1,190\nr,8000,1024,0,0\ns,8000,1024,2,1000\n",
		"openb_pod_list_gpushare40.csv":  "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec\np,4000,1024,1,500,T4|G2\n",
		"openb_pod_list_incomplete.csv":  "name,cpu_milli\np,4000\n",
		"openb_pod_list_without-gpu.csv": "name,cpu_milli,memory_mib,num_gpu,gpu_milli\np,4000,1024,0,0\n",
	} {
		if err := os.WriteFile(filepath.Join(folder, "openb", name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return folder
}

func TestExperimentOpenB(t *testing.T) {
	folder := writeOpenB(t)
	page := filepath.Join(folder, "out.html")
	out, err := run(t.Context(), t, "sim", "experiment", "openb", "--traces", folder, "--workload", "default,gpushare40", "--seeds", "3", "--defragment", "2%", "-o", "json", "--report", page)
	if err != nil {
		t.Fatal(err)
	}
	var result packing.Result
	if err := json.Unmarshal([]byte(out), &result); err != nil {
		t.Fatal(err)
	}
	if len(result.Summaries) != 6 || result.Defragment != 2 || result.Seeds != 3 {
		t.Fatalf("%d summaries, %v %% moved, %d seeds", len(result.Summaries), result.Defragment, result.Seeds)
	}
	for _, s := range result.Summaries {
		if len(s.Runs) != 3 || s.RefusedThoughFit != 0 || s.Published == nil && s.Policy != packing.PolicyHilbert {
			t.Errorf("%s, %s: %d runs, %d wrong refusals, published %v", s.Workload, s.Policy, len(s.Runs), s.RefusedThoughFit, s.Published)
		}
	}
	if text, err := os.ReadFile(page); err != nil || strings.Count(string(text), "<svg") != 2 {
		t.Errorf("the page: %v, %d pictures", err, strings.Count(string(text), "<svg"))
	}
	t.Setenv("HILBERT_TRACES", folder)
	if out, err = run(t.Context(), t, "sim", "experiment", "openb", "--seeds", "1", "--policy", "hilbert"); err != nil || !strings.Contains(out, "default     hilbert") {
		t.Errorf("with the folder from the environment: %v\n%s", err, out)
	}
}

func TestExperimentOpenBRefuses(t *testing.T) {
	folder := writeOpenB(t)
	for _, c := range []struct{ want, flags string }{
		{"want a percentage", "--defragment 2"},
		{"want a percentage", "--defragment 101%"},
		{"--policy \"guess\" is not known", "--policy guess"},
		{"want 1 to", "--seeds 0"},
		{"want a name such as default", "--workload ../default"},
		{"--output \"xml\"", "-o xml"},
		{"want a number behind the colon", "--workload default:x"},
		{"no such file", "--workload absent"},
		{"column memory_mib", "--workload incomplete"},
		{"no task asks for a GPU", "--workload without-gpu"},
	} {
		args := append([]string{"sim", "experiment", "openb", "--traces", folder}, strings.Fields(c.flags)...)
		if _, err := run(t.Context(), t, args...); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", c.flags, err, c.want)
		}
	}
}
