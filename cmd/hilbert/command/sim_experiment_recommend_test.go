package command

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// jobsUse writes a made-up trace: jobs whose CPU has a tide, over three days.
func jobsUse(t *testing.T) string {
	t.Helper()
	var text strings.Builder
	text.WriteString("job,day,resource")
	for k := range 48 {
		fmt.Fprintf(&text, ",t%d", k)
	}
	text.WriteByte('\n')
	for job := range 8 {
		for day := 1; day <= 3; day++ {
			for _, resource := range []string{"cpu", "memory"} {
				fmt.Fprintf(&text, "job%d,%d,%s", job, day, resource)
				for k := range 48 {
					fmt.Fprintf(&text, ",%d", 20+job+(k%24)/2+day)
				}
				text.WriteByte('\n')
			}
		}
	}
	path := filepath.Join(t.TempDir(), "use.csv")
	if err := os.WriteFile(path, []byte(text.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestExperimentRecommend(t *testing.T) {
	use := jobsUse(t)
	page := filepath.Join(t.TempDir(), "out.html")
	out, err := run(t.Context(), t, "sim", "experiment", "recommend", "--use", use, "-o", "json", "--report", page)
	if err != nil {
		t.Fatal(err)
	}
	var said struct {
		Jobs   int
		Scores []struct {
			Policy                           string
			PodDays                          int
			CPUSlack, MemorySlack            *float64
			OOMsPerThousandPodDays           *float64
			ThrottledHoursPerThousandPodDays *float64
		}
	}
	if err := json.Unmarshal([]byte(out), &said); err != nil {
		t.Fatal(err)
	}
	if said.Jobs == 0 || len(said.Scores) != 7 {
		t.Fatalf("it says %s", out)
	}
	for _, s := range said.Scores {
		if s.PodDays != 2*said.Jobs || s.CPUSlack == nil || s.MemorySlack == nil || s.OOMsPerThousandPodDays == nil || s.ThrottledHoursPerThousandPodDays == nil {
			t.Errorf("%s says %+v", s.Policy, s)
		}
	}
	if html, err := os.ReadFile(page); err != nil || !strings.Contains(string(html), "<svg") {
		t.Errorf("the page: %v", err)
	}
	if out, err = run(t.Context(), t, "sim", "experiment", "recommend", "--use", use); err != nil || !strings.Contains(out, "vpa, recreate") {
		t.Errorf("the table: %v\n%s", err, out)
	}
	for _, args := range [][]string{{}, {"--use", "absent.csv"}, {"--use", use, "--cpu", "0"}, {"--use", use, "-o", "xml"}} {
		if _, err := run(t.Context(), t, append([]string{"sim", "experiment", "recommend"}, args...)...); err == nil {
			t.Errorf("%v is accepted", args)
		}
	}
}
