package command

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestExperimentTide(t *testing.T) {
	var text strings.Builder
	text.WriteString("timestamp,value\n")
	at := time.Date(2026, time.March, 2, 0, 0, 0, 0, time.UTC)
	for i := range 8 * 48 {
		load := 20
		if hour := i / 2 % 24; hour >= 8 && hour < 18 {
			load = 90 + i%3
		}
		fmt.Fprintf(&text, "%s,%d\n", at.Add(time.Duration(i)*30*time.Minute).Format(time.DateTime), load)
	}
	series, page := filepath.Join(t.TempDir(), "load.csv"), filepath.Join(t.TempDir(), "out.html")
	if err := os.WriteFile(series, []byte(text.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	out, err := run(t.Context(), t, "sim", "experiment", "tide", "--series", series, "-o", "json", "--report", page)
	if err != nil {
		t.Fatal(err)
	}
	var said struct {
		Outcomes []struct {
			Way               string
			MinutesToCapacity *float64
			TargetsMissed     *float64
			Evictions         *int
			WorkLostHours     *float64
			ForecastTrusted   float64
			Forecast          string
		}
	}
	if err := json.Unmarshal([]byte(out), &said); err != nil {
		t.Fatal(err)
	}
	if len(said.Outcomes) != 12 {
		t.Fatalf("it says %s", out)
	}
	for _, o := range said.Outcomes {
		if o.MinutesToCapacity == nil || o.TargetsMissed == nil || o.Evictions == nil || o.WorkLostHours == nil || (o.Way == "hilbert" || o.Way == "nodes") != (o.Forecast != "") {
			t.Errorf("%+v", o)
		}
	}
	if html, err := os.ReadFile(page); err != nil || !strings.Contains(string(html), "<svg") {
		t.Errorf("the page: %v", err)
	}
	if out, err = run(t.Context(), t, "sim", "experiment", "tide", "--series", series, "--peak", ""); err != nil || strings.Count(out, "load.csv") != 6 {
		t.Errorf("the table: %v\n%s", err, out)
	}
	for _, args := range [][]string{{}, {"--series", "absent.csv"}, {"--series", series, "--peak", "noon"}, {"--series", series, "--target", "0.9"}, {"--series", series, "--quantile", "1"}, {"--series", series, "--workload-time-loss-permille", "0"}} {
		if _, err := run(t.Context(), t, append([]string{"sim", "experiment", "tide"}, args...)...); err == nil {
			t.Errorf("%v is accepted", args)
		}
	}
}
