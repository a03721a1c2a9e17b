package interference

import (
	"context"
	"fmt"
	"io"
	"slices"
	"text/tabwriter"

	"hilbert.dev/hilbert/node/interference"
)

// Options say what is played.
type Options struct {
	// Seeds is how many mixes are drawn: half of them have a hog.
	Seeds int `json:"seeds"`
	// Tuning plays the mixes that parameters were tuned on instead of others.
	Tuning bool                `json:"tuning,omitempty"`
	Params interference.Params `json:"params"`
}

// DefaultOptions take seconds.
func DefaultOptions() Options { return Options{Seeds: 200, Params: interference.DefaultParams()} }

// heldOut is the first seed of the mixes that parameters were not tuned on.
const heldOut = 1_000_000

// maxSeeds bounds a run.
const maxSeeds = 100_000

// Validate says what is wrong with the options.
func (o *Options) Validate() error {
	if o.Seeds < 2 || o.Seeds > maxSeeds {
		return fmt.Errorf("interference: %d seeds: want 2 to %d", o.Seeds, maxSeeds)
	}
	return o.Params.Validate()
}

// seed is that of a mix.
func (o *Options) seed(n int) uint64 {
	if o.Tuning {
		return uint64(n)
	}
	return uint64(n) + heldOut
}

// Score is how well harm was told.
type Score struct {
	// Sees is what was seen: the kernel's counters alone, or the service's indicator, the processor's counters, or for whom threads wait too.
	Sees string `json:"sees"`
	// Hog is the kind of hog, or all.
	Hog   string `json:"hog"`
	Mixes int    `json:"mixes"`
	// Harmed are the mixes whose hog harmed a service. Right and Wrong are those of them in which the hog, or another, was named first.
	Harmed int     `json:"harmed"`
	Right  int     `json:"right"`
	Wrong  int     `json:"wrong"`
	Named  float64 `json:"namingAccuracy"`
	// Largest is how often the neighbour that uses most would have been right, of those in which one was named: a control.
	Largest float64 `json:"largestIsRight"`
	// FalseAlarms is the share of mixes with an alarm while no hog was there.
	FalseAlarms float64 `json:"falseAlarms"`
	// NamedAfter and ReliefAfter are seconds from when the hog came: the median of those named right; ReliefMost is the longest.
	NamedAfter  float64 `json:"secondsToName"`
	ReliefAfter float64 `json:"secondsToRelief"`
	ReliefMost  float64 `json:"longestSecondsToRelief"`
}

// Result is the whole experiment.
type Result struct {
	Setup  Options `json:"setup"`
	Scores []Score `json:"scores"`
	// Ladder is how far the steps against culprits went.
	Ladder []Ladder `json:"ladder"`
	// Restarts are whether an agent that starts again names the hog.
	Restarts []Restart `json:"restarts"`
}

// What a Watch may see.
const (
	withIndicator = "counters and indicator"
	// asAgent is as an agent sees: it does not know what a service has to do, and takes its CPU use for that.
	asAgent       = "the same, load by CPU use"
	countersAlone = "counters alone"
	// withCycles adds the processor's counters, and no indicator.
	withCycles = "counters and cycles per instruction"
	// withQueues adds the probe of the run queues.
	withQueues = "counters and run queues"
	// withBandwidth adds the memory bandwidth of neighbours to cycles.
	withBandwidth = "the same, and memory bandwidth"
	crowdCycles   = "counters and cycles per instruction, two come together"
	crowdMemory   = "the same, and memory bandwidth of the two"
	crowdAlone    = "counters alone, two come together"
	crowdQueues   = "the same, and run queues"
	allHogs       = "all"
)

// way is what a Watch may see, and of which mixes. crowd is the kind of hog with which, whenever it may come, one comes that harms nobody, or alone; empty: none does.
type way struct {
	name                      string
	cycles, queues, bandwidth bool
	crowd                     string
}

func ways() []way {
	return []way{
		{name: withIndicator},
		{name: asAgent},
		{name: countersAlone},
		{name: withCycles, cycles: true},
		{name: withQueues, queues: true},
		{name: crowdAlone, crowd: hogThreads},
		{name: crowdQueues, crowd: hogThreads, queues: true},
		{name: withBandwidth, cycles: true, bandwidth: true},
		{name: crowdCycles, crowd: hogBandwidth, cycles: true},
		{name: crowdMemory, crowd: hogBandwidth, cycles: true, bandwidth: true},
	}
}

// The kinds of hog.
const (
	hogThreads   = "threads"
	hogBandwidth = "bandwidth"
	hogCache     = "cache"
)

// Run plays all mixes. progress, which may be nil, is told before each how many of how many are done.
func Run(ctx context.Context, o *Options, progress func(done, of int)) (*Result, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	res := &Result{Setup: *o}
	ways, done := ways(), 0
	tell := func() {
		if progress != nil {
			progress(done, (len(ways)+len(ladderWays()))*o.Seeds+len(outages())*(o.Seeds/2))
		}
		done++
	}
	for _, sees := range ways {
		var list []outcome
		for n := range o.Seeds {
			if err := ctx.Err(); err != nil {
				return nil, err
			}
			tell()
			list = append(list, newMix(o.seed(n), n%2 == 0, sees, &o.Params).play())
		}
		for _, hog := range hogs(sees) {
			res.Scores = append(res.Scores, scored(sees.name, hog, list))
		}
	}
	var err error
	if res.Ladder, err = runLadder(ctx, o, tell); err != nil {
		return nil, err
	}
	res.Restarts, err = runRestarts(ctx, o, tell)
	return res, err
}

// hogs are the kinds of hog in the mixes of a way.
func hogs(w way) []string {
	if w.crowd != "" {
		return []string{allHogs}
	}
	return []string{allHogs, hogThreads, hogBandwidth, hogCache}
}

// scored sums up the mixes of a kind of hog, or all.
func scored(sees, hog string, list []outcome) Score {
	s := Score{Sees: sees, Hog: hog}
	var named, relief []float64
	alarms, largest := 0, 0
	for i := range list {
		o := &list[i]
		if hog != allHogs && o.kind != hog {
			continue
		}
		s.Mixes++
		if o.falseAlarm {
			alarms++
		}
		if !o.harmed {
			continue
		}
		s.Harmed++
		if o.largest {
			largest++
		}
		switch {
		case o.named < 0:
		case !o.right:
			s.Wrong++
		default:
			s.Right++
			named = append(named, o.named)
			if o.relief >= 0 {
				relief = append(relief, o.relief)
				s.ReliefMost = max(s.ReliefMost, o.relief)
			}
		}
	}
	s.Named = float64(s.Right) / float64(max(s.Harmed, 1))
	s.Largest = float64(largest) / float64(max(s.Right+s.Wrong, 1))
	s.FalseAlarms = float64(alarms) / float64(max(s.Mixes, 1))
	s.NamedAfter, s.ReliefAfter = median(named), median(relief)
	return s
}

func median(list []float64) float64 {
	if len(list) == 0 {
		return 0
	}
	slices.Sort(list)
	return list[len(list)/2]
}

// WriteTable writes the figures for people.
func (r *Result) WriteTable(w io.Writer) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "SEES\tHOG\tMIXES\tHARMED\tNAMED RIGHT\tWRONG\tACCURACY\tLARGEST\tFALSE ALARMS\tNAMED s\tRELIEF s\tLONGEST s\t")
	for i := range r.Scores {
		s := &r.Scores[i]
		fmt.Fprintf(t, "%s\t%s\t%d\t%d\t%d\t%d\t%.1f%%\t%.1f%%\t%.1f%%\t%.0f\t%.0f\t%.0f\t\n", s.Sees, s.Hog, s.Mixes, s.Harmed, s.Right, s.Wrong, 100*s.Named, 100*s.Largest,
			100*s.FalseAlarms, s.NamedAfter, s.ReliefAfter, s.ReliefMost)
	}
	fmt.Fprintln(t, "\t\t\t\t\t\t\t\t\t\t\t\t")
	fmt.Fprintln(t, "SEES\tHOG\tITS LIMIT\tMIXES\tHARMED\tLIMITED\tEVICTED\tNEEDLESSLY\tOTHERS EVICTED\tEVICTED s\tLONGEST s\tAPART s\t")
	for i := range r.Ladder {
		l := &r.Ladder[i]
		fmt.Fprintf(t, "%s\t%s\t%s\t%d\t%d\t%d\t%d\t%d\t%d\t%.0f\t%.0f\t%.0f\t\n", l.Sees, l.Hog, l.Limit, l.Mixes, l.Harmed, l.Limited, l.Evicted, l.Needless, l.Others, l.EvictedAfter, l.EvictedMost, l.Closest)
	}
	fmt.Fprintln(t, "\t\t\t\t\t\t\t\t\t\t\t\t")
	fmt.Fprintln(t, "THE AGENT ENDS\tTHE NEXT ONE KNOWS\tHARMED\tNAMED RIGHT\tWRONG\tNAMED s\t")
	for i := range r.Restarts {
		s := &r.Restarts[i]
		fmt.Fprintf(t, "%s\t%t\t%d\t%d\t%d\t%.0f\t\n", s.When, s.Kept, s.Harmed, s.Right, s.Wrong, s.NamedAfter)
	}
	return t.Flush()
}
