package command

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestExperimentNUMA(t *testing.T) {
	page := filepath.Join(t.TempDir(), "out.html")
	args := []string{"sim", "experiment", "numa", "--seeds", "2", "--nodes", "1", "--seconds", "0.1", "--sweep-seeds", "0"}
	out, err := run(t.Context(), t, append(args, "-o", "json", "--report", page)...)
	if err != nil {
		t.Fatal(err)
	}
	var said struct {
		Runs  []struct{ Seed uint64 }
		Gains []struct {
			Of, Against             string
			MeanPercent, P99Percent *struct{ Mean, Deviation float64 }
		}
		Published struct{ MeanPercent float64 }
	}
	if err := json.Unmarshal([]byte(out), &said); err != nil {
		t.Fatal(err)
	}
	if len(said.Runs) != 2 || len(said.Gains) != 3 || said.Gains[0].Of != "zoned" || said.Gains[0].Against != "stock" || said.Published.MeanPercent != 21 {
		t.Errorf("it says %s", out)
	}
	for _, g := range said.Gains {
		if g.MeanPercent == nil || g.P99Percent == nil {
			t.Errorf("%s against %s has no gain", g.Of, g.Against)
		}
	}
	if html, err := os.ReadFile(page); err != nil || !strings.Contains(string(html), "</html>") || !strings.Contains(string(html), "<svg") {
		t.Errorf("the page: %v", err)
	}
	if out, err = run(t.Context(), t, args...); err != nil || !strings.Contains(out, "zoned FROM stock") {
		t.Errorf("the table: %v\n%s", err, out)
	}
	for flag, want := range map[string]string{"--load=1": "load 1", "--seeds=0": "0 seeds", "--output=yaml": "write table or json", "--balanced=2": "balanced"} {
		if _, err := run(t.Context(), t, append(args, flag)...); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", flag, err, want)
		}
	}
}
