package target

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
)

// MaxRows bounds what is looked at.
const MaxRows = 1 << 20

// Series are rows of the same times: Indicator is the service's own, where less is better, and Measures are a node's, by name. NaN is not known.
type Series struct {
	Indicator []float64
	Measures  map[string][]float64
	// Steered are the measures that can be targets; others are evidence alone. Empty: all can.
	Steered []string
}

// Params say what counts as evidence.
type Params struct {
	// Limit is what the indicator has to stay within.
	Limit float64
	// Within is the share of rows that have to, where the measure is at most its target.
	Within float64
	// Correlation is the least rank correlation, in all rows and in each half of them.
	Correlation float64
	// Rows is the least number of rows that are known, and on each side of a target a tenth of it.
	Rows int
}

// Defaults are careful.
func Defaults() Params { return Params{Within: 0.99, Correlation: 0.5, Rows: 200} }

// Validate says what is wrong with the parameters.
func (p *Params) Validate() error {
	switch {
	case !(p.Limit > 0) || math.IsInf(p.Limit, 0):
		return fmt.Errorf("limit %g: want more than 0: what the indicator has to stay within", p.Limit)
	case !(p.Within > 0 && p.Within <= 1):
		return fmt.Errorf("within %g: want more than 0 and at most 1", p.Within)
	case !(p.Correlation > 0 && p.Correlation <= 1):
		return fmt.Errorf("correlation %g: want more than 0 and at most 1", p.Correlation)
	case p.Rows < 20 || p.Rows > MaxRows:
		return fmt.Errorf("rows %d: want 20 to %d", p.Rows, MaxRows)
	}
	return nil
}

// Evidence is what is known of one measure.
type Evidence struct {
	Measure string `json:"measure"`
	// Rows are those in which it and the indicator are known.
	Rows int `json:"rows"`
	// Correlation is of ranks: 1 is always more together, -1 always less, 0 nothing. First and Second are of the halves of the time.
	Correlation float64 `json:"correlation"`
	First       float64 `json:"first"`
	Second      float64 `json:"second"`
	// Target is up to which value the indicator stays within the limit; 0: there is none.
	Target float64 `json:"target,omitempty"`
	// Below and Above are the shares of rows within the limit, up to the target and above it.
	Below float64 `json:"below"`
	Above float64 `json:"above"`
	// Why says in words why it is proposed or not.
	Why string `json:"why"`
}

// Proposal is the measure that is proposed, and the evidence of all, the best first.
type Proposal struct {
	// Measure and Target are proposed; empty: nothing is.
	Measure  string     `json:"measure,omitempty"`
	Target   float64    `json:"target,omitempty"`
	Evidence []Evidence `json:"evidence"`
}

// Propose says which measure to steer, and to which target.
func Propose(s *Series, p *Params) (*Proposal, error) {
	if err := p.Validate(); err != nil {
		return nil, err
	}
	if len(s.Indicator) > MaxRows {
		return nil, fmt.Errorf("%d rows: want at most %d", len(s.Indicator), MaxRows)
	}
	if len(s.Measures) == 0 {
		return nil, errors.New("there is no measure to relate the indicator to")
	}
	out := &Proposal{}
	for name, values := range s.Measures {
		if len(values) != len(s.Indicator) {
			return nil, fmt.Errorf("measure %s has %d rows, the indicator %d", name, len(values), len(s.Indicator))
		}
		e := p.weigh(name, s.Indicator, values)
		if e.Target > 0 && len(s.Steered) > 0 && !slices.Contains(s.Steered, name) {
			e.Target, e.Why = 0, "no agent steers by it; "+e.Why
		}
		out.Evidence = append(out.Evidence, e)
	}
	slices.SortFunc(out.Evidence, func(a, b Evidence) int {
		return cmp.Or(cmp.Compare(b2i(b.Target > 0), b2i(a.Target > 0)), cmp.Compare(weakest(&b), weakest(&a)), cmp.Compare(a.Measure, b.Measure))
	})
	if best := &out.Evidence[0]; best.Target > 0 {
		out.Measure, out.Target = best.Measure, best.Target
	}
	return out, nil
}

func b2i(b bool) int {
	if b {
		return 1
	}
	return 0
}

// weakest is the least of a measure's correlations.
func weakest(e *Evidence) float64 { return min(e.Correlation, e.First, e.Second) }

// row is what is known of one time.
type row struct{ measure, indicator float64 }

// weigh gathers the evidence of one measure.
func (p *Params) weigh(name string, indicator, values []float64) Evidence {
	rows := make([]row, 0, len(values))
	for i, v := range values {
		if known(v) && known(indicator[i]) {
			rows = append(rows, row{v, indicator[i]})
		}
	}
	e := Evidence{Measure: name, Rows: len(rows)}
	if len(rows) < p.Rows {
		e.Why = fmt.Sprintf("%d rows are known; %d are needed", len(rows), p.Rows)
		return e
	}
	half := len(rows) / 2
	e.Correlation, e.First, e.Second = correlation(rows), correlation(rows[:half]), correlation(rows[half:])
	if weakest(&e) < p.Correlation {
		e.Why = fmt.Sprintf("the indicator does not go with it: rank correlation %.2f, in the halves %.2f and %.2f; %.2f is needed", e.Correlation, e.First, e.Second, p.Correlation)
		return e
	}
	p.threshold(&e, rows)
	return e
}

func known(v float64) bool { return !math.IsNaN(v) && !math.IsInf(v, 0) }

// threshold finds the greatest value up to which the indicator stays within the limit in the wanted share of rows.
func (p *Params) threshold(e *Evidence, rows []row) {
	slices.SortStableFunc(rows, func(a, b row) int { return cmp.Compare(a.measure, b.measure) })
	all := 0
	for _, r := range rows {
		all += b2i(r.indicator <= p.Limit)
	}
	least, within, best, kept := p.Rows/10, 0, -1, 0
	for i, r := range rows {
		within += b2i(r.indicator <= p.Limit)
		if i+1 < len(rows) && rows[i+1].measure == r.measure {
			continue // equal values stand on one side
		}
		if i+1 >= least && float64(within) >= p.Within*float64(i+1) {
			best, kept = i, within
		}
	}
	n := len(rows)
	switch {
	case best < 0:
		e.Below = float64(all) / float64(n)
		e.Why = fmt.Sprintf("no value of it keeps the indicator within the limit in %.4g %% of rows: in all it is in %.4g %%", 100*p.Within, 100*e.Below)
		return
	case n-best-1 < least:
		e.Below = float64(kept) / float64(best+1)
		e.Why = fmt.Sprintf("the indicator stays within the limit at every value that was seen: %d rows lie above %.3g, %d are needed to know where it ends", n-best-1, rows[best].measure, least)
		return
	case rows[best].measure <= 0:
		e.Why = "the indicator stays within the limit only where the measure is 0"
		return
	}
	e.Target = rows[best].measure
	e.Below, e.Above = float64(kept)/float64(best+1), float64(all-kept)/float64(n-best-1)
	e.Why = fmt.Sprintf("rank correlation %.2f, in the halves %.2f and %.2f; up to %.3g the indicator is within the limit in %.4g %% of %d rows, above in %.4g %% of %d",
		e.Correlation, e.First, e.Second, e.Target, 100*e.Below, best+1, 100*e.Above, n-best-1)
}

// correlation is Spearman's: of ranks, where equal values share the mean of theirs. Where one of both never changes it is 0.
func correlation(rows []row) float64 {
	a, b := make([]float64, len(rows)), make([]float64, len(rows))
	for i, r := range rows {
		a[i], b[i] = r.measure, r.indicator
	}
	a, b = ranks(a), ranks(b)
	mean := float64(len(rows)+1) / 2
	var both, aa, bb float64
	for i := range a {
		x, y := a[i]-mean, b[i]-mean
		both, aa, bb = both+x*y, aa+x*x, bb+y*y
	}
	if aa == 0 || bb == 0 {
		return 0
	}
	return both / math.Sqrt(aa*bb)
}

func ranks(values []float64) []float64 {
	order := make([]int, len(values))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(values[a], values[b]) })
	out := make([]float64, len(values))
	for i := 0; i < len(order); {
		end := i + 1
		for end < len(order) && values[order[end]] == values[order[i]] {
			end++
		}
		for _, at := range order[i:end] {
			out[at] = float64(i+end+1) / 2
		}
		i = end
	}
	return out
}
