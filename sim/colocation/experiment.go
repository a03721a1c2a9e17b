package colocation

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"time"

	"hilbert.dev/hilbert/node/advise"
	"hilbert.dev/hilbert/sim/corun"
)

// Result is the whole experiment. Percentages are of all CPUs of the fleet unless said otherwise.
type Result struct {
	// UtilisationBefore is with requests only, UtilisationAfter with Hilbert: the mean over the time that counts.
	UtilisationBefore float64 `json:"utilisationBefore"`
	UtilisationAfter  float64 `json:"utilisationAfter"`
	// SLOMissPercent is Hilbert's: of minutes times services on nodes, those in which more than 1 % of the requests were later than the target.
	SLOMissPercent       float64 `json:"sloMissPercent"`
	NaiveSLOMissPercent  float64 `json:"naiveSloMissPercent"`
	BeforeSLOMissPercent float64 `json:"beforeSloMissPercent"`
	NaiveUtilisation     float64 `json:"naiveUtilisation"`
	// Evictions are of the day with Hilbert. RepeatEvictions are those of a job evicted less than ten minutes before, of that day and of the
	// time when all nodes rise together.
	Evictions       int `json:"evictions"`
	RepeatEvictions int `json:"repeatEvictions"`
	// Ablations are Hilbert without one of its laws, and as it is (baseline), on a smaller fleet and a day on which all services rise together
	// twice.
	Ablations map[string]*Outcome `json:"ablations"`
	// Together is Hilbert through a time when all services everywhere want more at once.
	Together *Together `json:"together,omitempty"`
	// Sweep is what neighbours cost, times a factor.
	Sweep    []Swept    `json:"sweep,omitempty"`
	Variants []*Outcome `json:"variants"`
	Setup    Setup      `json:"setup"`
}

// Setup is what was played.
type Setup struct {
	Seed          uint64       `json:"seed"`
	Nodes         int          `json:"nodes"`
	AblationNodes int          `json:"ablationNodes"`
	Hours         float64      `json:"hours"`
	WarmUpMinutes float64      `json:"warmUpMinutes"` // not counted
	TickSeconds   float64      `json:"tickSeconds"`
	Tide          string       `json:"tide"`
	Use           string       `json:"use"`
	Jobs          string       `json:"jobs"`
	Model         corun.Params `json:"model"`
	Laws          any          `json:"laws"`
}

// Together is how a rise everywhere went.
type Together struct {
	*Outcome

	Surge Surge `json:"surge"`
	// MissedMinutes are those of the rise in which more than 0.5 % of the services missed; LentAgainMinutes is how long after its end as much was lent as
	// before. -1: it did not happen.
	MissedMinutes    int `json:"missedMinutes"`
	LentAgainMinutes int `json:"lentAgainMinutes"`
}

// Swept is one factor of the sweep.
type Swept struct {
	Factor  float64  `json:"factor"`
	Hilbert *Outcome `json:"hilbert"`
	Naive   *Outcome `json:"naive"`
}

// Plan says which parts of the experiment to run, and how large.
type Plan struct {
	// Ablations and Sweep are run on SmallNodes at most.
	Ablations, Sweep, Together bool
	// Only are names of ablations and controls: then they and the baseline are all that is run.
	Only       []string
	SmallNodes int
	JobsFrom   string // for the setup
	Workers    int    // 0: as many as there are CPUs
}

// Run plays all variants, several at a time; what they come to does not depend on how many.
func Run(ctx context.Context, o *Options, plan Plan) (*Result, error) {
	if err := o.validate(); err != nil {
		return nil, err
	}
	small := min(o.Nodes, max(plan.SmallNodes, 1))
	res := &Result{
		Ablations: make(map[string]*Outcome),
		Setup: Setup{
			Seed: o.Seed, Nodes: o.Nodes, AblationNodes: small, Hours: o.Length.Hours(), WarmUpMinutes: o.WarmUp.Minutes(), TickSeconds: o.Tick.Seconds(),
			Tide: o.Tide.Name, Use: o.Use.Name, Jobs: plan.JobsFrom, Model: o.Model, Laws: o.Laws,
		},
	}
	if len(plan.Only) > 0 {
		variants, err := chosen(o.Laws, plan.Only)
		if err != nil {
			return nil, err
		}
		return res, runAll(ctx, res.ablate(o, small, variants), plan.Workers)
	}
	var tasks []task
	for _, mode := range []Mode{ModeHilbert, ModeNaive, ModeRequests} {
		tasks = append(tasks, task{o, Variant{Name: string(mode), Mode: mode}, func(out *Outcome) { res.Variants = append(res.Variants, out) }})
	}
	if plan.Together {
		tasks = append(tasks, res.together(o, small))
	}
	if plan.Ablations {
		tasks = append(tasks, res.ablate(o, small, ablations(o.Laws))...)
	}
	if plan.Sweep {
		tasks = append(tasks, res.sweep(o, small)...)
	}
	if err := runAll(ctx, tasks, plan.Workers); err != nil {
		return nil, err
	}
	res.sum()
	return res, nil
}

// task is a variant to play, and where its outcome goes.
type task struct {
	options *Options
	variant Variant
	put     func(*Outcome)
}

// runAll plays tasks on some workers and puts their outcomes in order.
func runAll(ctx context.Context, tasks []task, workers int) error {
	if workers <= 0 {
		workers = runtime.GOMAXPROCS(0)
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	outs, errs := make([]*Outcome, len(tasks)), make([]error, len(tasks))
	next := make(chan int)
	var wait sync.WaitGroup
	for range min(workers, len(tasks)) {
		wait.Go(func() {
			for i := range next {
				if outs[i], errs[i] = Play(ctx, tasks[i].options, &tasks[i].variant); errs[i] != nil {
					cancel()
				}
			}
		})
	}
	for i := range tasks {
		next <- i
	}
	close(next)
	wait.Wait()
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	for i := range tasks {
		tasks[i].put(outs[i])
	}
	return nil
}

// sum fills in the figures at the top.
func (res *Result) sum() {
	for _, v := range res.Variants {
		switch v.Mode {
		case ModeHilbert:
			res.UtilisationAfter, res.SLOMissPercent, res.Evictions = v.UtilisationPercent, v.SLOMissPercent, v.Evictions
			res.RepeatEvictions += v.RepeatEvictions
		case ModeNaive:
			res.NaiveUtilisation, res.NaiveSLOMissPercent = v.UtilisationPercent, v.SLOMissPercent
		case ModeRequests:
			res.UtilisationBefore, res.BeforeSLOMissPercent = v.UtilisationPercent, v.SLOMissPercent
		case ModeFixed:
		}
	}
	if res.Together != nil {
		res.RepeatEvictions += res.Together.RepeatEvictions
	}
}

// A rise of all services: in the fourth hour, or in the middle of a shorter day.
const (
	togetherLength = 6 * time.Hour
	togetherFactor = 1.8
	togetherFor    = 30 * time.Minute
)

func (res *Result) together(o *Options, nodes int) task {
	t := *o
	t.Nodes, t.Length = nodes, min(o.Length, togetherLength)
	surge := Surge{At: (t.Length * 3 / 5).Truncate(time.Minute), For: min(togetherFor, t.Length/6).Truncate(time.Minute), Factor: togetherFactor}
	t.Together = []Surge{surge}
	return task{&t, Variant{Name: "together", Mode: ModeHilbert}, func(out *Outcome) {
		res.Together = &Together{Outcome: out, Surge: surge, LentAgainMinutes: -1}
		res.Together.judge()
	}}
}

// judge finds from the minutes how the rise went.
func (t *Together) judge() {
	begin, end := int(t.Surge.At/time.Minute), int((t.Surge.At+t.Surge.For)/time.Minute)
	before, n := 0.0, 0
	for _, p := range t.Series {
		if p.Minute >= begin-10 && p.Minute < begin {
			before, n = before+p.Lent, n+1
		}
	}
	for _, p := range t.Series {
		if p.Minute >= begin && p.Minute < end && p.Missed > 0.5 {
			t.MissedMinutes++
		}
		if p.Minute >= end && t.LentAgainMinutes < 0 && n > 0 && p.Lent >= 0.9*before/float64(n) {
			t.LentAgainMinutes = p.Minute - end
		}
	}
}

// ablations are the laws that can be switched off, the baseline first.
func ablations(laws advise.Params) []Variant {
	with := func(name string, change func(*advise.Params)) Variant {
		changed := laws
		change(&changed)
		return Variant{Name: name, Mode: ModeHilbert, Laws: &changed}
	}
	return []Variant{
		{Name: "baseline", Mode: ModeHilbert},
		with("noUntouched", func(p *advise.Params) { p.UntouchedShare = 0 }),
		with("noPressure", func(p *advise.Params) {
			p.DelayLow, p.DelayHigh, p.DelayCritical = deaf, deaf, deaf
			p.PressureLow, p.PressureHigh, p.PressureCritical = deaf, deaf, deaf
		}),
		with("noHold", func(p *advise.Params) { p.HoldMin, p.HoldMax = time.Second, time.Second }),
		with("noRiseDelay", func(p *advise.Params) { p.RiseAfter = time.Second }),
		with("noStepBound", func(p *advise.Params) { p.LendStep, p.LendInterval, p.ShrinkAfter = 1, 0, 0 }),
		with("noFloor", func(p *advise.Params) { p.ReclaimedFloor = 0 }),
		with("noRequestShare", func(p *advise.Params) { p.RequestShare = 0 }),
		{Name: "noClosing", Mode: ModeHilbert, NoClosing: true},
		{Name: "noBudget", Mode: ModeHilbert, NoBudget: true},
		{Name: "noEviction", Mode: ModeHilbert, NoEviction: true},
		{Name: "noStaleness", Mode: ModeHilbert, NoStaleness: true},
		{Name: "noFeedback", Mode: ModeFixed},
	}
}

// deaf is a threshold that nothing reaches.
const deaf = 1e6

// chosen are the baseline and what is named, of the ablations and of the controls, which are no ablations.
func chosen(laws advise.Params, names []string) (out []Variant, err error) {
	all := append(ablations(laws), Variant{Name: string(ModeNaive), Mode: ModeNaive}, Variant{Name: string(ModeRequests), Mode: ModeRequests})
	for _, name := range names {
		if !slices.ContainsFunc(all, func(v Variant) bool { return v.Name == name }) {
			return nil, fmt.Errorf("colocation: there is no ablation or control %q", name)
		}
	}
	for i := range all {
		if i == 0 || slices.Contains(names, all[i].Name) {
			out = append(out, all[i])
		}
	}
	return out, nil
}

func (res *Result) ablate(o *Options, nodes int, variants []Variant) []task {
	small := *o
	small.Nodes = nodes
	for _, part := range []time.Duration{2, 4} {
		small.Together = append(small.Together, Surge{
			At: (o.Length * part / 5).Truncate(time.Minute), For: min(togetherFor, o.Length/6).Truncate(time.Minute), Factor: togetherFactor,
		})
	}
	var tasks []task
	for _, v := range variants {
		tasks = append(tasks, task{&small, v, func(out *Outcome) {
			out.Series = nil
			res.Ablations[v.Name] = out
		}})
	}
	return tasks
}

func (res *Result) sweep(o *Options, nodes int) []task {
	small := *o
	small.Nodes = nodes
	factors := []float64{0.5, 1, 2}
	res.Sweep = make([]Swept, len(factors))
	var tasks []task
	for i, factor := range factors {
		swept := &res.Sweep[i]
		swept.Factor = factor
		model := o.Model.Scaled(factor)
		put := func(to **Outcome) func(*Outcome) {
			return func(out *Outcome) {
				out.Series = nil
				*to = out
			}
		}
		tasks = append(tasks,
			task{&small, Variant{Name: "sweep hilbert", Mode: ModeHilbert, Model: &model}, put(&swept.Hilbert)},
			task{&small, Variant{Name: "sweep naive", Mode: ModeNaive, Model: &model}, put(&swept.Naive)})
	}
	return tasks
}
