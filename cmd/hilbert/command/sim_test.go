package command

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"hilbert.dev/hilbert/cmd/hilbert/output"
	"hilbert.dev/hilbert/cmd/hilbert/simulation"
	"hilbert.dev/hilbert/sim"
)

// files of a small trace, which the importer's own tests use too.
var (
	nodesFile     = filepath.Join("..", "..", "..", "sim", "trace", "testdata", "nodes.csv")
	podsFile      = filepath.Join("..", "..", "..", "sim", "trace", "testdata", "pods.csv")
	instancesFile = filepath.Join("..", "..", "..", "sim", "trace", "testdata", "instances.csv")
)

// run runs hilbert with arguments.
func run(ctx context.Context, t *testing.T, args ...string) (out string, err error) {
	t.Helper()
	var stdout, stderr bytes.Buffer
	root := New()
	root.SetArgs(args)
	root.SetOut(&stdout)
	root.SetErr(&stderr)
	err = root.ExecuteContext(ctx)
	if said := progressLine.ReplaceAllString(stderr.String(), ""); said != "" {
		t.Errorf("hilbert %s wrote to stderr, which is no terminal: %q", strings.Join(args, " "), said)
	}
	return stdout.String(), err
}

// progressLine is what an experiment tells each 15 s, on a machine that is so slow.
var progressLine = regexp.MustCompile(`(?m)^(\d+m)?\d+s: .*\n`)

// TestSimContract: the JSON has every field that was promised, with its type.
func TestSimContract(t *testing.T) {
	out, err := run(t.Context(), t, "sim", "--synthetic", "nodes=20,pods=400,classes=8", "--schedulers", "4", "-o", "json")
	if err != nil {
		t.Fatal(err)
	}
	var got map[string]any
	if err := json.Unmarshal([]byte(out), &got); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{
		"nodes", "pods", "placed", "unplaced", "cpuAllocatedPercent", "memoryAllocatedPercent", "gpuAllocatedPercent",
		"decisionsPerSecond", "decisionsPerCPUSecond", "decisionP99Micros", "wallSeconds", "peakRSSBytes", "conflictPercent",
	} {
		if _, ok := got[name].(float64); !ok {
			t.Errorf("%s is %v, want a number", name, got[name])
		}
	}
	if _, ok := got["reasons"].(map[string]any); !ok {
		t.Errorf("reasons is %v, want an object", got["reasons"])
	}
	if digest, _ := got["digest"].(string); len(digest) != 64 {
		t.Errorf("digest is %v", got["digest"])
	}
	if got["nodes"] != 20.0 || got["pods"] != 400.0 || got["placed"].(float64)+got["unplaced"].(float64) != 400 {
		t.Errorf("%v nodes, %v pods, %v placed, %v not", got["nodes"], got["pods"], got["placed"], got["unplaced"])
	}
	if got["conflictPercent"] == 0.0 {
		t.Error("four schedulers with lag never conflicted")
	}
}

// report runs hilbert sim with JSON and reads it back.
func readReport(t *testing.T, args ...string) sim.Report {
	t.Helper()
	out, err := run(t.Context(), t, append([]string{"sim", "-o", "json"}, args...)...)
	if err != nil {
		t.Fatal(err)
	}
	var r sim.Report
	if err := json.Unmarshal([]byte(out), &r); err != nil {
		t.Fatal(err)
	}
	return r
}

func TestSimFormats(t *testing.T) {
	r := readReport(t, "--format", "openb", "--nodes", nodesFile, "--pods", podsFile, "--check")
	if r.Nodes != 3 || r.Pods != 5 || r.Placed != 5 || r.Measure != sim.MeasureMean {
		t.Errorf("openb: %+v", r)
	}
	r = readReport(t, "--format", "openb", "--nodes", nodesFile, "--pods", podsFile, "--arrive", "1.3", "--seed", "42")
	if r.Measure != sim.MeasureFinal || r.GPUAllocatedPercent < 50 || r.GPUAllocatedPercentAtFull == nil {
		t.Errorf("openb, arriving: %+v", r)
	}
	r = readReport(t, "--format", "dlrm", "--pods", instancesFile, "--check")
	if r.Pods != 4 || r.Placed != 4 {
		t.Errorf("dlrm: %+v", r)
	}
	one := readReport(t, "--synthetic", "nodes=10,pods=100,classes=4", "--seed", "7", "--faults", "--check")
	two := readReport(t, "--synthetic", "nodes=10,pods=100,classes=4", "--seed", "7", "--faults", "--check")
	if one.Digest != two.Digest || len(one.Faults) == 0 {
		t.Errorf("digests %s and %s, faults %v", one.Digest, two.Digest, one.Faults)
	}
}

func TestSimScores(t *testing.T) {
	args := []string{"--synthetic", "nodes=40,pods=200,classes=4"}
	plain := readReport(t, args...)
	weighed := readReport(t, append(args, "--scores", "LeastAllocated=0")...)
	if plain.Digest == weighed.Digest {
		t.Error("without LeastAllocated the placements are the same")
	}
}

func TestSimSeeds(t *testing.T) {
	out, err := run(t.Context(), t, "sim", "--synthetic", "nodes=10,pods=100,classes=4", "--seed", "5", "--seeds", "3", "-o", "json")
	if err != nil {
		t.Fatal(err)
	}
	var s simulation.Summary
	if err := json.Unmarshal([]byte(out), &s); err != nil {
		t.Fatal(err)
	}
	if s.Seeds != 3 || len(s.Runs) != 3 || s.Runs[0].Seed != 5 || s.Runs[2].Seed != 7 || s.Runs[0].Digest == s.Runs[1].Digest {
		t.Errorf("%+v", s)
	}
	mean := (s.Runs[0].GPUAllocatedPercent + s.Runs[1].GPUAllocatedPercent + s.Runs[2].GPUAllocatedPercent) / 3
	if diff := s.MeanGPUAllocatedPercent - mean; diff > 1e-9 || diff < -1e-9 {
		t.Errorf("mean %g, want %g", s.MeanGPUAllocatedPercent, mean)
	}
	out, err = run(t.Context(), t, "sim", "--synthetic", "nodes=10,pods=100,classes=4", "--seed", "5", "--seeds", "3")
	if err != nil || strings.Count(out, "\nseed ")+1 != 3 || !strings.Contains(out, "3 seeds: mean gpu") {
		t.Errorf("%s (%v)", out, err)
	}
}

func TestSimTable(t *testing.T) {
	out, err := run(t.Context(), t, "sim", "--synthetic", "nodes=10,pods=1000,classes=16,load=200", "--seed", "3")
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"nodes ", "placed", "NodeResourcesFit", "allocated mean over time", "decisions/s", "peak memory", "digest"} {
		if !strings.Contains(out, want) {
			t.Errorf("the table does not tell %q:\n%s", want, out)
		}
	}
}

// TestSimMistakes: each mistake is told with what to write instead.
func TestSimMistakes(t *testing.T) {
	bad := filepath.Join(t.TempDir(), "bad.csv")
	if err := os.WriteFile(bad, []byte("sn,cpu_milli,memory_mib,gpu,model\nn0,1,1,99,T4\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		args string
		want string
	}{
		{"sim", "either --format openb|dlrm"},
		{"sim --format openb --synthetic nodes=1,pods=1,classes=1", "either --format openb|dlrm"},
		{"sim --format borg --pods x", `"borg" is not known; write openb or dlrm`},
		{"sim --format openb --pods x", "needs --nodes FILE and --pods FILE"},
		{"sim --format dlrm", "needs --pods FILE"},
		{"sim --format dlrm --pods x --nodes y", "leave --nodes out"},
		{"sim --synthetic nodes=1,pods=1,classes=1 --pods x", "belong to --format"},
		{"sim --synthetic nodes=1,pods=1", "classes is missing"},
		{"sim --synthetic nodes=1,pods=1,classes=1 -o yaml", "write table or json"},
		{"sim --synthetic nodes=1,pods=1,classes=1 --schedulers 0", "want 1 to"},
		{"sim --synthetic nodes=1,pods=1,classes=1 --seeds 0", "want 1 to"},
		{"sim --synthetic nodes=1,pods=1,classes=1 --arrive -1", "want a number above 0"},
		{"sim --synthetic nodes=1,pods=1,classes=1 --scores Speed=1", "Speed"},
		{"sim --synthetic nodes=1,pods=1,classes=1 --scores LeastAllocated=-1", "scheduling.scores.LeastAllocated"},
		{"sim --synthetic nodes=1,pods=1,classes=1 extra", "extra"},
		{"sim --format openb --nodes /nowhere/n.csv --pods " + podsFile, "/nowhere/n.csv"},
		{"sim --format openb --nodes " + bad + " --pods " + podsFile, "bad.csv:2: column gpu: want a whole number from 0 to 16, found \"99\""},
	} {
		out, err := run(t.Context(), t, strings.Fields(c.args)...)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("hilbert %s: %v, want %q", c.args, err, c.want)
		}
		if out != "" {
			t.Errorf("hilbert %s printed %q", c.args, out)
		}
	}
}

// TestSimInterrupted: a run that is ended early prints what it reached, and says so.
func TestSimInterrupted(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	out, err := run(ctx, t, "sim", "--synthetic", "nodes=2000,pods=2000000,classes=8", "-o", "json")
	if !errors.Is(err, output.ErrInterrupted) {
		t.Fatalf("got %v", err)
	}
	var r sim.Report
	if err := json.Unmarshal([]byte(out), &r); err != nil || !r.Interrupted || r.Pods >= 2000000 {
		t.Errorf("%+v (%v)", r, err)
	}
}
