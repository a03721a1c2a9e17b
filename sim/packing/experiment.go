package packing

import (
	"fmt"
	"io"
	"math"
	"slices"

	"hilbert.dev/hilbert/sim/trace"
)

// Ratio is how much arrives, as a multiple of the cluster's GPUs.
const Ratio = 1.3

// FirstSeed is where the published simulator's seeds begin.
const FirstSeed = 42

// Published are means that the paper's artifact reports, percent allocated when 100 and when 130 percent have arrived, by workload and policy.
var Published = map[string]map[string][2]float64{
	"default":    {PolicyFGD: {95.23, 95.39}, PolicyBestFit: {92.86, 93.08}},
	"cpu050":     {PolicyFGD: {95.00, 95.21}, PolicyBestFit: {93.56, 93.79}},
	"gpushare40": {PolicyFGD: {93.96, 94.15}, PolicyBestFit: {91.44, 91.69}},
	"multigpu20": {PolicyFGD: {95.53, 95.65}, PolicyBestFit: {93.73, 93.93}},
	"gpuspec33":  {PolicyFGD: {87.84, 94.55}, PolicyBestFit: {80.39, 93.09}},
}

// Play runs all policies on the arrivals that one seed makes of a workload, where pods may move also without moves.
func Play(w *trace.Workload, seed uint64, policies []string, o Options) ([]*Outcome, error) {
	a, err := NewArrivals(w, Ratio, seed)
	if err != nil {
		return nil, err
	}
	var list []*Outcome
	for _, p := range policies {
		o.Policy = p
		out, err := a.Run(o)
		if err != nil {
			return nil, err
		}
		out.Seed = seed
		if o.Defragment > 0 {
			still := o
			still.Defragment = 0
			unmoved, err := a.Run(still)
			if err != nil {
				return nil, err
			}
			out.Unmoved, out.Bound = unmoved.AtEnd, 100*a.bound(unmoved.unrefused)/float64(a.capacity)
		}
		list = append(list, out)
	}
	return list, nil
}

// Result is the experiment: a Summary for each workload and policy.
type Result struct {
	Seeds      int        `json:"seeds"`
	Defragment float64    `json:"defragmentPercent"`
	Summaries  []*Summary `json:"summaries"`
	// MeanGain is the mean of the gains over FGD, by policy.
	MeanGain map[string]float64 `json:"meanGainOverFGD,omitempty"`
}

// Summary is a policy on a workload: means over the seeds, in percent of the cluster's GPUs.
type Summary struct {
	Workload         string             `json:"workload"`
	Policy           string             `json:"policy"`
	At100            float64            `json:"allocatedPercentAt100"`
	AtEnd            float64            `json:"allocatedPercent"`
	Published        *[2]float64        `json:"published,omitempty"` // at 100 and at 130 percent arrived
	GainOverFGD      *float64           `json:"gainOverFGD,omitempty"`
	LeastGainOverFGD *float64           `json:"leastGainOverFGD,omitempty"` // of the seeds
	RefusedThoughFit int                `json:"refusedThoughFit"`
	Moves            float64            `json:"moves"`
	ByMoves          *Moved             `json:"byMoves,omitempty"`
	PodsPerSecond    float64            `json:"podsPerSecond,omitempty"`
	Stranded         map[string]float64 `json:"strandedPercentByCause"`
	Runs             []*Outcome         `json:"runs"`
}

// Moved is what moves have won, in points, each seed against itself without moves.
type Moved struct {
	Percent   float64 `json:"movedPercent"` // moves, of the pods that run at the end
	Most      float64 `json:"mostMovedPercent"`
	Gain      float64 `json:"gain"`
	LeastGain float64 `json:"leastGain"`
	// BoundGain is what moves without limit could have won at most, see Outcome.Bound.
	BoundGain float64 `json:"boundGain"`
}

func (s *Summary) moved() {
	m := &Moved{LeastGain: math.Inf(1)}
	n := float64(len(s.Runs))
	for _, o := range s.Runs {
		percent := 100 * float64(o.Moves) / float64(max(o.Placed, 1))
		m.Percent += percent / n
		m.Most = max(m.Most, percent)
		m.Gain += (o.AtEnd - o.Unmoved) / n
		m.LeastGain = min(m.LeastGain, o.AtEnd-o.Unmoved)
		m.BoundGain += (o.Bound - o.Unmoved) / n
	}
	s.ByMoves = m
}

// Add puts the outcomes of a seed of a workload in. Outcomes of one workload come in order of their seeds.
func (res *Result) Add(workload string, outcomes []*Outcome) {
	for _, o := range outcomes {
		i := slices.IndexFunc(res.Summaries, func(s *Summary) bool { return s.Workload == workload && s.Policy == o.Policy })
		if i < 0 {
			i = len(res.Summaries)
			res.Summaries = append(res.Summaries, &Summary{Workload: workload, Policy: o.Policy})
		}
		res.Summaries[i].Runs = append(res.Summaries[i].Runs, o)
	}
}

// Finish computes the means and the gains.
func (res *Result) Finish() {
	for _, s := range res.Summaries {
		s.means()
		if res.Defragment > 0 {
			s.moved()
		}
	}
	total, count := make(map[string]float64), make(map[string]float64)
	for _, s := range res.Summaries {
		if p, ok := Published[s.Workload][s.Policy]; ok {
			s.Published = &p
		}
		base := res.find(s.Workload, PolicyFGD)
		if base == nil || s == base {
			continue
		}
		gain, least := 0.0, math.Inf(1)
		for i := range s.Runs {
			g := s.Runs[i].AtEnd - base.Runs[i].AtEnd
			gain += g / float64(len(s.Runs))
			least = min(least, g)
		}
		s.GainOverFGD, s.LeastGainOverFGD = &gain, &least
		total[s.Policy] += gain
		count[s.Policy]++
	}
	for p := range total {
		if res.MeanGain == nil {
			res.MeanGain = make(map[string]float64)
		}
		res.MeanGain[p] = total[p] / count[p]
	}
}

func (res *Result) find(workload, policy string) *Summary {
	for _, s := range res.Summaries {
		if s.Workload == workload && s.Policy == policy {
			return s
		}
	}
	return nil
}

func (s *Summary) means() {
	n := float64(len(s.Runs))
	s.Stranded = make(map[string]float64)
	for _, o := range s.Runs {
		s.At100 += o.At100 / n
		s.AtEnd += o.AtEnd / n
		s.Moves += float64(o.Moves) / n
		s.PodsPerSecond += o.PodsPerSecond / n
		s.RefusedThoughFit += o.RefusedThoughFit
		for c, x := range o.Stranded {
			s.Stranded[c] += x / n
		}
	}
}

// WriteTable writes the experiment for people.
func (res *Result) WriteTable(w io.Writer) error {
	p := &printer{w: w}
	p.line("%-11s %-8s %-13s %-13s %-14s %-5s %-6s %9s  %s\n", "workload", "policy", "at 100/130 %", "published", "gain (least)", "wrong", "moves", "pods/s", "stranded")
	for _, s := range res.Summaries {
		published, gain := "-", "-"
		if s.Published != nil {
			published = fmt.Sprintf("%.2f/%.2f", s.Published[0], s.Published[1])
		}
		if s.GainOverFGD != nil {
			gain = fmt.Sprintf("%+.2f (%+.2f)", *s.GainOverFGD, *s.LeastGainOverFGD)
		}
		p.line("%-11s %-8s %-13s %-13s %-14s %-5d %-6.0f %9.0f ", s.Workload, s.Policy, fmt.Sprintf("%.2f/%.2f", s.At100, s.AtEnd), published, gain,
			s.RefusedThoughFit, s.Moves, s.PodsPerSecond)
		for _, c := range Causes() {
			p.line(" %s %.2f", c, s.Stranded[c])
		}
		if m := s.ByMoves; m != nil {
			p.line("  %.2f %% moved: %+.2f (%+.2f), at most %+.2f", m.Percent, m.Gain, m.LeastGain, m.BoundGain)
		}
		p.line("\n")
	}
	for _, policy := range Policies() {
		if gain, ok := res.MeanGain[policy]; ok {
			p.line("%s: mean gain over fgd %+.2f\n", policy, gain)
		}
	}
	return p.err
}

// printer remembers the first error.
type printer struct {
	w   io.Writer
	err error
}

func (p *printer) line(format string, args ...any) {
	if p.err == nil {
		_, p.err = fmt.Fprintf(p.w, format, args...)
	}
}
