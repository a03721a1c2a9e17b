package colocation

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"text/tabwriter"
)

// Result is what an experiment found: the Figures of each round of each arm.
type Result struct {
	Name  string     `json:"experiment"`
	Title string     `json:"title"`
	Guest string     `json:"guest"`
	Arms  []ArmFound `json:"arms"`
}

// ArmFound is of one arm.
type ArmFound struct {
	Name   string    `json:"name"`
	Title  string    `json:"title"`
	Rounds []Figures `json:"rounds"`
}

// Add files the figures of a round.
func (r *Result) Add(a Arm, f Figures) {
	i := slices.IndexFunc(r.Arms, func(known ArmFound) bool { return known.Name == a.Name })
	if i < 0 {
		i, r.Arms = len(r.Arms), append(r.Arms, ArmFound{Name: a.Name, Title: a.Title})
	}
	r.Arms[i].Rounds = append(r.Arms[i].Rounds, f)
}

// Spread is the middle of the values of all rounds, and the middle half of them.
type Spread struct{ Low, Median, High float64 }

func (s Spread) String() string {
	return fmt.Sprintf("%s (%s–%s)", number(s.Median), number(s.Low), number(s.High))
}

// number has three digits that say something.
func number(v float64) string {
	switch {
	case v >= 100:
		return fmt.Sprintf("%.0f", v)
	case v >= 10:
		return fmt.Sprintf("%.1f", v)
	}
	return fmt.Sprintf("%.2f", v)
}

// Of is a figure of an arm, over all rounds; the zero Spread where there are none.
func (r *Result) Of(arm string, figure func(Figures) float64) Spread {
	values := r.values(arm, figure)
	if len(values) == 0 {
		return Spread{}
	}
	slices.Sort(values)
	return Spread{quantile(values, 0.25), quantile(values, 0.5), quantile(values, 0.75)}
}

func (r *Result) values(arm string, figure func(Figures) float64) (out []float64) {
	for _, a := range r.Arms {
		for _, f := range a.Rounds {
			if a.Name == arm {
				out = append(out, figure(f))
			}
		}
	}
	return out
}

// Measure is a figure as people see it.
type Measure struct {
	Title string
	Of    func(Figures) float64
}

// Measures are what every experiment shows, the primary ones first.
func Measures() []Measure {
	return []Measure{
		{"run delay, ms/s", func(f Figures) float64 { return f.RunDelay }},
		{"had of the CPU it wanted, %", func(f Figures) float64 { return 100 * f.Had }},
		{"CPU pressure (some), %", func(f Figures) float64 { return 100 * f.Pressure }},
		{"p50, ms", func(f Figures) float64 { return f.P50 }},
		{"p99, ms", func(f Figures) float64 { return f.P99 }},
		{"answers/s", func(f Figures) float64 { return f.Answers }},
		{"longest gap, ms", func(f Figures) float64 { return f.Gap }},
		{"offline CPUs", func(f Figures) float64 { return f.OfflineCPUs }},
		{"services' CPUs", func(f Figures) float64 { return f.SystemCPUs }},
		{"guest busy, %", func(f Figures) float64 { return 100 * f.Busy }},
		{"host load", func(f Figures) float64 { return f.Load }},
	}
}

// Table has a row for each measure and a column for each arm: the median, and the middle half of the rounds.
func (r *Result) Table() string {
	var text strings.Builder
	out := tabwriter.NewWriter(&text, 0, 0, 2, ' ', 0)
	row := func(title string, cell func(ArmFound) string) {
		fmt.Fprint(out, title)
		for _, a := range r.Arms {
			fmt.Fprint(out, "\t", cell(a))
		}
		fmt.Fprintln(out)
	}
	row("", func(a ArmFound) string { return fmt.Sprintf("%s, %d rounds", a.Title, len(a.Rounds)) })
	for _, m := range r.shown() {
		row(m.Title, func(a ArmFound) string { return r.Of(a.Name, m.Of).String() })
	}
	for _, job := range r.jobs() {
		row(job+", pieces/s", func(a ArmFound) string {
			return r.Of(a.Name, func(f Figures) float64 { return f.Work[job] }).String()
		})
	}
	_ = out.Flush() // a builder takes all
	return text.String()
}

// shown are the measures that are not 0 throughout: a pod that answers nothing has no latency.
func (r *Result) shown() []Measure {
	return slices.DeleteFunc(Measures(), func(m Measure) bool {
		return !slices.ContainsFunc(r.Arms, func(a ArmFound) bool { return slices.Max(append(r.values(a.Name, m.Of), 0)) > 0 })
	})
}

// jobs are the offline pods of all arms.
func (r *Result) jobs() (out []string) {
	for _, a := range r.Arms {
		for _, f := range a.Rounds {
			for job := range f.Work {
				if !slices.Contains(out, job) {
					out = append(out, job)
				}
			}
		}
	}
	slices.Sort(out)
	return out
}

// Write leaves the result in a directory, as NAME.json, NAME.txt and NAME.svg.
func (r *Result) Write(dir string) error {
	text, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return fmt.Errorf("result: %w", err)
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("result: %w", err)
	}
	for ending, text := range map[string]string{".json": string(text) + "\n", ".txt": r.Table(), ".svg": r.Picture()} {
		if err := os.WriteFile(filepath.Join(dir, r.Name+ending), []byte(text), 0o644); err != nil {
			return fmt.Errorf("result: %w", err)
		}
	}
	return nil
}
