package integration

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path"
	"slices"
	"strings"
	"text/tabwriter"
)

// Outcome is what a test came to.
type Outcome string

// What a test can come to.
const (
	Passed  Outcome = "passed"
	Failed  Outcome = "failed"
	Skipped Outcome = "skipped"
	// NotRun is one that ended with neither: its process died before.
	NotRun Outcome = ""
)

// Ended is how a test ended.
type Ended struct {
	Outcome Outcome `json:"outcome"`
	Seconds float64 `json:"seconds"`
	// Message is what it printed last about itself, of one that failed.
	Message string `json:"message,omitempty"`
	// parent says that it has subtests, and is not counted.
	parent bool
	// outside says that the test, or one of its subtests, had a scheduler outside its process.
	outside bool
	// broken says that its API server did not start.
	broken bool
}

// event is what go test -json prints.
type event struct {
	Action  string
	Test    string
	Elapsed float64
	Output  string
}

const (
	// outsideLine begins what outside.go.txt prints when a test runs its scheduler.
	outsideLine = "outside scheduler: runs"
	// messageLines bounds what is kept of a test's own output.
	messageLines = 6
	// framework and tooLate are in what upstream's framework says when the API server of a test does not start in 10 s.
	framework, tooLate = "test_server.go:", "context deadline exceeded"
)

// readEvents reads the outcome of each test of a package into ended, by PACKAGE/TEST, and copies what they print to log.
func readEvents(r io.Reader, name string, log io.Writer, ended map[string]Ended) error {
	j := journal{name: name, ended: ended, said: make(map[string][]string)}
	lines := bufio.NewReader(r)
	for {
		line, err := lines.ReadBytes('\n')
		if len(line) == 0 && err != nil {
			if errors.Is(err, io.EOF) {
				return nil
			}
			return fmt.Errorf("output of go test: %w", err)
		}
		var e event
		if json.Unmarshal(line, &e) != nil {
			e = event{Action: "output", Output: string(line)} // what the go command itself prints
		}
		if _, err := io.WriteString(log, e.Output); err != nil {
			return fmt.Errorf("log: %w", err)
		}
		if e.Test != "" {
			j.add(&e)
		}
	}
}

// journal is what the events of a package say so far.
type journal struct {
	name  string
	ended map[string]Ended
	// said are the lines of each test's own.
	said map[string][]string
}

// change changes what is known of a test.
func (j *journal) change(test string, by func(*Ended)) {
	full := path.Join(j.name, test)
	e := j.ended[full]
	by(&e)
	j.ended[full] = e
}

func (j *journal) add(e *event) {
	switch e.Action {
	case "output":
		j.output(e)
	case "run":
		delete(j.said, e.Test)
		j.change(e.Test, func(of *Ended) { *of = Ended{} })
		for up := path.Dir(e.Test); up != "."; up = path.Dir(up) {
			j.change(up, func(of *Ended) { of.parent = true })
		}
	case "pass", "fail", "skip":
		j.change(e.Test, func(of *Ended) {
			of.Outcome, of.Seconds = map[string]Outcome{"pass": Passed, "fail": Failed, "skip": Skipped}[e.Action], e.Elapsed
			if of.Outcome == Failed {
				said := j.said[e.Test]
				of.Message = strings.Join(said[max(0, len(said)-messageLines):], "; ")
			}
		})
	}
}

func (j *journal) output(e *event) {
	line := strings.TrimSpace(e.Output)
	if strings.HasPrefix(line, outsideLine) {
		for up := e.Test; up != "."; up = path.Dir(up) {
			j.change(up, func(of *Ended) { of.outside = true })
		}
	}
	if spoken(line) {
		j.said[e.Test] = append(j.said[e.Test], line)
		j.change(e.Test, func(of *Ended) {
			of.broken = of.broken || strings.HasPrefix(line, framework) && strings.HasSuffix(line, tooLate)
		})
	}
}

// spoken reports whether a line is the test's own word, and no line of a log or of the frame.
func spoken(line string) bool {
	at := strings.Index(line, ".go:")
	return at > 0 && !strings.ContainsAny(line[:at], " ]") && !strings.Contains(line, "] ")
}

// Row is one test with every scheduler.
type Row struct {
	Test  string           `json:"test"`
	Ended map[string]Ended `json:"ended"`
}

// Result is the outcome of a run.
type Result struct {
	Kubernetes string   `json:"kubernetes"`
	Schedulers []string `json:"schedulers"`
	Rows       []Row    `json:"tests"`
	// Passed, Failed and Skipped count what Hilbert did, or the one scheduler that was run. OnlyHilbert counts what Hilbert does not pass and kube-scheduler does;
	// where kube-scheduler was not run, it is taken to pass them all, as the list holds nothing else.
	Passed      int `json:"passed"`
	Failed      int `json:"failed"`
	Skipped     int `json:"skipped"`
	OnlyHilbert int `json:"failedOnlyWithHilbert"`
}

// compare joins what each scheduler's tests came to. A test that has subtests is not counted beside them, unless it failed by itself.
func compare(schedulers []string, ended map[string]map[string]Ended) *Result {
	r := &Result{Schedulers: schedulers}
	var names []string
	for _, scheduler := range schedulers {
		for name, e := range ended[scheduler] {
			if (!e.parent || e.Outcome == Failed && e.Message != "") && !slices.Contains(names, name) {
				names = append(names, name)
			}
		}
	}
	slices.Sort(names)
	for _, name := range names {
		row := Row{Test: name, Ended: make(map[string]Ended, len(schedulers))}
		for _, scheduler := range schedulers {
			row.Ended[scheduler] = ended[scheduler][name]
		}
		r.Rows = append(r.Rows, row)
		switch row.Ended[schedulers[0]].Outcome {
		case Passed:
			r.Passed++
		case Skipped:
			r.Skipped++
		default:
			r.Failed++
		}
		if row.onlyHilbert() {
			r.OnlyHilbert++
		}
	}
	return r
}

// onlyHilbert reports whether Hilbert does not pass a test that kube-scheduler passes. One that both skip is nobody's.
func (r *Row) onlyHilbert() bool {
	ours, run := r.Ended[Hilbert]
	theirs, compared := r.Ended[KubeScheduler]
	switch {
	case !run || ours.Outcome == Passed:
		return false
	case compared:
		return theirs.Outcome == Passed
	}
	return ours.Outcome != Skipped
}

// Write prints the table, the reasons of what failed, and the line.
func (r *Result) Write(w io.Writer) error {
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintf(table, "%s\ttest\n", strings.Join(r.Schedulers, "\t"))
	for i := range r.Rows {
		for _, scheduler := range r.Schedulers {
			e := r.Rows[i].Ended[scheduler]
			outcome := string(e.Outcome)
			if e.Outcome == NotRun {
				outcome = "not run"
			}
			fmt.Fprintf(table, "%s %.0f s\t", outcome, e.Seconds)
		}
		fmt.Fprintln(table, r.Rows[i].Test)
	}
	if err := table.Flush(); err != nil {
		return err
	}
	for i := range r.Rows {
		for _, scheduler := range r.Schedulers {
			if e := r.Rows[i].Ended[scheduler]; e.Outcome == Failed {
				fmt.Fprintf(w, "\n%s, %s:\n  %s\n", r.Rows[i].Test, scheduler, e.Message)
			}
		}
	}
	_, err := fmt.Fprintf(w, "\npassed %d, failed %d, failed only with hilbert %d\n", r.Passed, r.Failed, r.OnlyHilbert)
	return err
}

// Err is not nil if Hilbert fails what kube-scheduler passes.
func (r *Result) Err() error {
	if r.OnlyHilbert > 0 {
		return fmt.Errorf("%d tests fail only with hilbert", r.OnlyHilbert)
	}
	return nil
}
