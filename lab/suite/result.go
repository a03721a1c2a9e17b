package suite

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
)

// Hilbert and KubeScheduler are the schedulers that can be run.
const (
	Hilbert       = "hilbert"
	KubeScheduler = "kube-scheduler"
)

// Row is one spec with every scheduler.
type Row struct {
	Spec     string           `json:"spec"`
	BothFail string           `json:"bothFail,omitempty"`
	Ended    map[string]Ended `json:"ended"`
}

// Result is the outcome of a run.
type Result struct {
	Kubernetes string   `json:"kubernetes"`
	Nodes      int      `json:"nodes"`
	Schedulers []string `json:"schedulers"`
	Rows       []Row    `json:"specs"`
	// Passed and Failed count what Hilbert did, or the one scheduler that was run. OnlyHilbert counts what Hilbert does not pass and kube-scheduler does; where
	// kube-scheduler was not run, the list says what it passes.
	Passed      int `json:"passed"`
	Failed      int `json:"failed"`
	OnlyHilbert int `json:"failedOnlyWithHilbert"`
}

// compare joins what each scheduler's specs came to.
func compare(specs []Spec, schedulers []string, ended map[string]map[string]Ended) *Result {
	r := &Result{Schedulers: schedulers}
	for _, s := range specs {
		row := Row{Spec: s.Name, BothFail: s.BothFail, Ended: make(map[string]Ended, len(schedulers))}
		for _, scheduler := range schedulers {
			row.Ended[scheduler] = ended[scheduler][s.Name]
		}
		r.Rows = append(r.Rows, row)
		switch row.Ended[schedulers[0]].Outcome {
		case Passed:
			r.Passed++
		case Failed:
			r.Failed++
		}
		if row.onlyHilbert() {
			r.OnlyHilbert++
		}
	}
	return r
}

// onlyHilbert reports whether Hilbert does not pass a spec that kube-scheduler passes. One that is skipped with Hilbert is not passed either.
func (r *Row) onlyHilbert() bool {
	ours, run := r.Ended[Hilbert]
	theirs, compared := r.Ended[KubeScheduler]
	switch {
	case !run || ours.Outcome == Passed:
		return false
	case compared:
		return theirs.Outcome == Passed
	}
	return r.BothFail == ""
}

// Write prints the table, the reasons of what failed, and the line.
func (r *Result) Write(w io.Writer) error {
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintf(table, "%s\tspec\n", strings.Join(r.Schedulers, "\t"))
	for i := range r.Rows {
		for _, scheduler := range r.Schedulers {
			e := r.Rows[i].Ended[scheduler]
			fmt.Fprintf(table, "%s %.0f s\t", e.Outcome, e.Seconds)
		}
		fmt.Fprintln(table, r.Rows[i].Spec)
	}
	if err := table.Flush(); err != nil {
		return fmt.Errorf("print the table: %w", err)
	}
	for i := range r.Rows {
		row := &r.Rows[i]
		for _, scheduler := range r.Schedulers {
			if e := row.Ended[scheduler]; e.Outcome == Failed {
				fmt.Fprintf(w, "\n%s, %s: %s\n", scheduler, row.Spec, e.Why)
			}
		}
		if row.BothFail != "" {
			fmt.Fprintf(w, "\nno scheduler passes %s here: %s\n", row.Spec, row.BothFail)
		}
	}
	_, err := fmt.Fprintf(w, "\npassed %d, failed %d, failed only with hilbert %d\n", r.Passed, r.Failed, r.OnlyHilbert)
	return err
}

// Err is not nil when Hilbert fails what kube-scheduler passes.
func (r *Result) Err() error {
	if r.OnlyHilbert > 0 {
		return fmt.Errorf("%d specs fail with Hilbert and pass with kube-scheduler", r.OnlyHilbert)
	}
	return nil
}
