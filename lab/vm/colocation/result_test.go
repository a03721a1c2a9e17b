package colocation

import (
	"encoding/json"
	"encoding/xml"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestBetween: what two samples of counters make.
func TestBetween(t *testing.T) {
	then := sample{at: 10, threads: map[string]turns{"a": {1, 1}}, some: 1, busy: 5, total: 20, offline: 2, system: 1, work: map[string]float64{"job": 100}}
	now := sample{at: 20, threads: map[string]turns{"a": {4, 2}, "new": {1, 0}}, some: 3, busy: 15, total: 40, offline: 12, system: 2, work: map[string]float64{"job": 400}}
	f := between(then, now)
	for what, test := range map[string]struct{ got, want float64 }{
		"CPU": {f.CPU, 0.4}, "run delay": {f.RunDelay, 100}, "had": {f.Had, 0.8}, "pressure": {f.Pressure, 0.2}, "busy": {f.Busy, 0.5},
		"offline": {f.OfflineCPUs, 1}, "system": {f.SystemCPUs, 0.1}, "work": {f.Work["job"], 30},
	} {
		if d := test.got - test.want; d > 1e-9 || d < -1e-9 {
			t.Errorf("%s is %v, want %v", what, test.got, test.want)
		}
	}
}

// TestAnswers: only what was ready in the window counts, and a time without answers up to its end is a gap.
func TestAnswers(t *testing.T) {
	answers, err := parseAnswers("9000000 900000\n10000000 100000\n9900000 1100000\n12000000 10000\n19900000 200000\n17")
	if err != nil || len(answers) != 5 {
		t.Fatalf("%v, %v", answers, err)
	}
	var f Figures
	f.serve(answers, 10, 20)
	if f.Answers != 0.3 || f.P50 != 100 || f.Longest != 1100 || f.Gap != 7990 {
		t.Errorf("%+v", f)
	}
	f = Figures{}
	f.serve(nil, 10, 12)
	if f.Answers != 0 || f.Gap != milliseconds(2*time.Second) {
		t.Errorf("without answers: %+v", f)
	}
}

// TestWrite: a result is kept whole, and its picture is XML with a dot for each round in each panel.
func TestWrite(t *testing.T) {
	r := &Result{Name: "x", Title: "<offline> & online"}
	for i := range 3 {
		r.Add(Arm{Name: "a", Title: "alone"}, Figures{RunDelay: float64(i), Work: map[string]float64{"job": 7}})
		r.Add(Arm{Name: "b", Title: "beside <others>"}, Figures{RunDelay: float64(10 * i)})
	}
	if got := r.Of("b", func(f Figures) float64 { return f.RunDelay }); got.Median != 10 {
		t.Errorf("median %v", got)
	}
	dir := filepath.Join(t.TempDir(), "out")
	if err := r.Write(dir); err != nil {
		t.Fatal(err)
	}
	var again Result
	text, err := os.ReadFile(filepath.Join(dir, "x.json"))
	if err != nil || json.Unmarshal(text, &again) != nil || len(again.Arms) != 2 || again.Arms[1].Rounds[2].RunDelay != 20 {
		t.Errorf("%v\n%s", err, text)
	}
	if table := r.Table(); !strings.Contains(table, "job, pieces/s") || !strings.Contains(table, "10.0 (") {
		t.Errorf("%s", table)
	}
	picture, err := os.ReadFile(filepath.Join(dir, "x.svg"))
	if err != nil {
		t.Fatal(err)
	}
	dots := 0
	for decoder := xml.NewDecoder(strings.NewReader(string(picture))); ; {
		token, err := decoder.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if start, ok := token.(xml.StartElement); ok && start.Name.Local == "circle" {
			dots++
		}
	}
	if dots != 6*pictured {
		t.Errorf("%d dots, want %d", dots, 6*pictured)
	}
}
