package command

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestExperimentInterference(t *testing.T) {
	page := filepath.Join(t.TempDir(), "out.html")
	out, err := run(t.Context(), t, "sim", "experiment", "interference", "--seeds", "6", "-o", "json", "--report", page)
	if err != nil {
		t.Fatal(err)
	}
	var said struct {
		Scores []struct{ NamingAccuracy, FalseAlarms, SecondsToRelief *float64 }
		Ladder []struct {
			Limited, Evicted, OthersEvicted *int
			Limit                           string
		}
		Restarts []struct {
			Right *int
			Kept  bool
		}
	}
	if err := json.Unmarshal([]byte(out), &said); err != nil {
		t.Fatal(err)
	}
	if len(said.Scores) != 28 || len(said.Ladder) != 6 || len(said.Restarts) != 4 {
		t.Fatalf("it says %s", out)
	}
	for _, s := range said.Scores {
		if s.NamingAccuracy == nil || s.FalseAlarms == nil || s.SecondsToRelief == nil {
			t.Errorf("it says %s", out)
		}
	}
	for _, l := range said.Ladder {
		if l.Limited == nil || l.Evicted == nil || l.OthersEvicted == nil || l.Limit == "" {
			t.Errorf("it says %s", out)
		}
	}
	for _, r := range said.Restarts {
		if r.Right == nil || *r.Right > 0 && !r.Kept {
			t.Errorf("it says %s", out)
		}
	}
	if html, err := os.ReadFile(page); err != nil || !strings.Contains(string(html), "<svg") {
		t.Errorf("the page: %v", err)
	}
	if out, err = run(t.Context(), t, "sim", "experiment", "interference", "--seeds", "2"); err != nil || !strings.Contains(out, "counters alone") {
		t.Errorf("the table: %v\n%s", err, out)
	}
	if _, err := run(t.Context(), t, "sim", "experiment", "interference", "--seeds", "1"); err == nil {
		t.Error("one seed is accepted")
	}
}
