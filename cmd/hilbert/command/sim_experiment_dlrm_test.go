package command

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestExperimentDLRM(t *testing.T) {
	dir := t.TempDir()
	page, traces := filepath.Join(dir, "out.html"), filepath.Join(dir, "dlrm2025")
	text, err := os.ReadFile(instancesFile)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(traces, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(traces, "disaggregated_DLRM_trace.csv"), text, 0o600); err != nil {
		t.Fatal(err)
	}
	out, err := run(t.Context(), t, "sim", "experiment", "dlrm", "--traces", dir, "--seeds", "2", "-o", "json", "--report", page)
	if err != nil {
		t.Fatal(err)
	}
	var said struct {
		Settings []struct {
			Name       string
			Mean, Runs []struct {
				Mode                                      string
				Instances, GPUWithCard, GPUWithCardBroken *int
				RefusedThoughFit                          *int
				OneSwitchPercent                          *float64
			}
		}
	}
	if err := json.Unmarshal([]byte(out), &said); err != nil {
		t.Fatal(err)
	}
	if len(said.Settings) != 6 {
		t.Fatalf("it says %s", out)
	}
	for _, s := range said.Settings {
		if len(s.Mean) != 5 || len(s.Runs) < 6 {
			t.Fatalf("%s: %d means of %d runs", s.Name, len(s.Mean), len(s.Runs))
		}
		o := s.Mean[2]
		if o.Mode != "required" || o.RefusedThoughFit == nil || *o.RefusedThoughFit != 0 || *o.GPUWithCard == 0 || *o.GPUWithCardBroken != 0 || *o.OneSwitchPercent != 100 {
			t.Errorf("%s: %+v", s.Name, o)
		}
	}
	if html, err := os.ReadFile(page); err != nil || !strings.Contains(string(html), "</html>") || !strings.Contains(string(html), "<svg") {
		t.Errorf("the page: %v", err)
	}
	if out, err = run(t.Context(), t, "sim", "experiment", "dlrm", "--pods", instancesFile, "--modes", "required", "--fill", "0", "--spare", "0"); err != nil ||
		!strings.Contains(out, "replay, 0% spare") || strings.Contains(out, "fill") || !strings.Contains(out, "100.00%") {
		t.Errorf("the table: %v\n%s", err, out)
	}
	for args, want := range map[string]string{
		"":                                       "either --traces DIR or --pods FILE",
		"--traces x --pods y":                    "either --traces DIR or --pods FILE",
		"--traces " + dir + "/missing":           "disaggregated_DLRM_trace.csv",
		"--pods missing.csv":                     "missing.csv",
		"--pods x --modes wild":                  `"wild" is not known`,
		"--pods x --output yaml":                 "write table or json",
		"--pods " + instancesFile + " --seeds 0": "0 seeds",
	} {
		if _, err := run(t.Context(), t, append([]string{"sim", "experiment", "dlrm"}, strings.Fields(args)...)...); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %s", args, err, want)
		}
	}
}
