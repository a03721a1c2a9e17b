package recommend

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"text/tabwriter"

	"hilbert.dev/hilbert/control/recommend"
	"hilbert.dev/hilbert/sim/trace"
)

// Options say what is played.
type Options struct {
	// Request is what each job is taken to have asked for: a trace of shares does not say. Floors and steps of policies depend on it.
	Request recommend.Amounts `json:"request"`
	// Params are Hilbert's.
	Params recommend.Params `json:"-"`
	// Tuning judges the half of the jobs that parameters were tuned on instead of the other.
	Tuning bool `json:"tuning,omitempty"`
}

// DefaultOptions have the defaults of Hilbert.
func DefaultOptions() Options {
	return Options{Request: recommend.Amounts{CPU: 4, Memory: 16 << 30}, Params: recommend.DefaultParams()}
}

// Validate says what is wrong with the options.
func (o *Options) Validate() error {
	if !(o.Request.CPU >= 0.1 && o.Request.CPU <= 1000 && o.Request.Memory >= 1<<20 && o.Request.Memory <= 1<<44) {
		return fmt.Errorf("recommend: a request of %g cores and %g bytes: want 0.1 to 1,000 cores, and 1 MiB to 16 TiB", o.Request.CPU, o.Request.Memory)
	}
	return o.Params.Validate()
}

// Result is the whole experiment.
type Result struct {
	Setup Options `json:"setup"`
	// Jobs are those judged; Single jobs ran for one day only, so nothing could be held out.
	Jobs   int     `json:"jobs"`
	Single int     `json:"jobsOfOneDay"`
	Scores []Score `json:"scores"`
}

// The names of the policies.
const (
	nameHilbert  = "hilbert, in place"
	nameNewPods  = "hilbert, new pods only"
	nameVPA      = "vpa, recreate"
	nameVPAPlace = "vpa, in place"
	nameMost     = "most so far"
	nameMostPlus = "most so far + 15 %"
	nameAsked    = "as asked"
)

// contender is a policy to be, made anew for each job.
type contender struct {
	name string
	make func(o *Options) policy
}

var contenders = []contender{
	{nameHilbert, func(o *Options) policy { return newHilbert(o, true) }},
	{nameNewPods, func(o *Options) policy { return newHilbert(o, false) }},
	{nameVPA, func(*Options) policy { return newVPA(false) }},
	{nameVPAPlace, func(*Options) policy { return newVPA(true) }},
	{nameMost, func(*Options) policy { return &mostSoFar{} }},
	{nameMostPlus, func(*Options) policy { return &mostSoFar{margin: vpaMargin} }},
	{nameAsked, func(o *Options) policy { return &asked{o.Request} }},
}

func newHilbert(o *Options, inPlace bool) policy {
	params := o.Params
	if !inPlace {
		params.Every = o.Params.NewPodsEvery
	}
	return &hilbert{profile: recommend.NewProfile(&params), inPlace: inPlace, params: &params}
}

// Run plays all policies over the jobs. progress, which may be nil, is told before each job how many of how many are done.
func Run(ctx context.Context, jobs []trace.Job, o *Options, progress func(done, of int)) (*Result, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	res := &Result{Setup: *o}
	all := make([]sums, len(contenders))
	for i := range jobs {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		if progress != nil {
			progress(i, len(jobs))
		}
		if tuned(jobs[i].Name) != o.Tuning {
			continue
		}
		if len(jobs[i].Days) < 2 {
			res.Single++
			continue
		}
		res.Jobs++
		for k, c := range contenders {
			p := c.make(o)
			s := play(p, &jobs[i], o.Request)
			if counting, ok := p.(interface{ changes() int }); ok {
				s.changes = counting.changes()
			}
			all[k].add(&s)
		}
	}
	if res.Jobs == 0 {
		return nil, errors.New("recommend: no job that is judged ran on two days: give more jobs, or the other half")
	}
	for k, c := range contenders {
		res.Scores = append(res.Scores, all[k].score(c.name))
	}
	return res, nil
}

// tuned says whether a job is of the half that parameters are tuned on.
func tuned(name string) bool {
	h := fnv.New32a()
	_, _ = io.WriteString(h, name) // a hash takes all
	return h.Sum32()%2 == 0
}

// WriteTable writes the figures for people.
func (r *Result) WriteTable(w io.Writer) error {
	fmt.Fprintf(w, "%d jobs of two days or more; %d of one day are left out.\n", r.Jobs, r.Single)
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "POLICY\tPOD-DAYS\tCPU SLACK\tMEMORY SLACK\tOOMS/1000\tTHROTTLED h/1000\tCPU SHORT\tCPU OF ASKED\tMEMORY OF ASKED\tCHANGES/DAY\t")
	for i := range r.Scores {
		s := &r.Scores[i]
		fmt.Fprintf(t, "%s\t%d\t%.1f%%\t%.1f%%\t%.1f\t%.0f\t%.2f%%\t%.1f%%\t%.1f%%\t%.2f\t\n", s.Policy, s.PodDays, 100*s.CPUSlack, 100*s.MemorySlack,
			s.OOMs, s.ThrottledHours, 100*s.Short, 100*s.CPUOfAsked, 100*s.MemoryOfAsked, s.Changes)
	}
	return t.Flush()
}
