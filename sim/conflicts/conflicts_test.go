package conflicts

import (
	"bytes"
	"reflect"
	"strings"
	"testing"
	"time"
)

func small() Options {
	o := DefaultOptions()
	o.Nodes, o.Schedulers, o.Pods = []int{300}, []int{1, 8}, 600
	o.Lags = []time.Duration{time.Millisecond}
	return o
}

func play(t *testing.T, o Options) *Result {
	t.Helper()
	r, err := Run(t.Context(), o, nil)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// TestEveryPodIsAccountedFor: with every strategy each pod is placed or counted, and Plans are placements and rejections.
func TestEveryPodIsAccountedFor(t *testing.T) {
	r := play(t, small())
	for _, o := range r.Outcomes {
		if o.Placed+o.Unplaced != r.Setup.Pods {
			t.Errorf("%s, %s, %d schedulers: %d placed and %d not, of %d", o.Score, o.Strategy, o.Schedulers, o.Placed, o.Unplaced, r.Setup.Pods)
		}
		if rejected := int(o.Rejected*float64(o.Plans) + 0.5); o.Plans != o.Placed+rejected {
			t.Errorf("%s, %s, %d schedulers: %d Plans, %d placed and %d rejected", o.Score, o.Strategy, o.Schedulers, o.Plans, o.Placed, rejected)
		}
		if o.Schedulers == 1 && (o.Rejected != 0 || o.Best != 1 || o.ScoreLost != 0) {
			t.Errorf("%s: one scheduler has %.3f rejected and loses %.3f points", o.Score, o.Rejected, o.ScoreLost)
		}
	}
}

// TestWhatTheStrategiesAreFor holds the differences that the strategies are made for, where packing has all want the same nodes.
func TestWhatTheStrategiesAreFor(t *testing.T) {
	o := small()
	o.Scores, o.Schedulers = []Score{Pack}, []int{8}
	by := map[Strategy]Outcome{}
	for _, out := range play(t, o).Outcomes {
		by[out.Strategy] = out
	}
	plain := by[Plain]
	if plain.Rejected < 0.02 {
		t.Fatalf("plain has %.1f %% rejected: nothing is shown here", 100*plain.Rejected)
	}
	for _, s := range []Strategy{RunnersUp, KBest, Partitions, Rotating} {
		if by[s].Rejected > 0.9*plain.Rejected {
			t.Errorf("%s has %.1f %% rejected, plain %.1f %%", s, 100*by[s].Rejected, 100*plain.Rejected)
		}
	}
	if by[Partitions].Rejected > plain.Rejected/2 {
		t.Errorf("partitions have %.1f %% rejected, plain %.1f %%", 100*by[Partitions].Rejected, 100*plain.Rejected)
	}
	if by[RunnersUp].RunnersUp == 0 {
		t.Error("no runner-up was taken")
	}
}

// TestNoLag: who knows all at once conflicts with nobody but those that decide at the same time.
func TestNoLag(t *testing.T) {
	o := small()
	o.Lags = []time.Duration{0, 50 * time.Millisecond}
	o.Strategies, o.Schedulers, o.Scores = []Strategy{Plain}, []int{8}, []Score{Pack}
	r := play(t, o)
	if r.Outcomes[0].Rejected >= r.Outcomes[1].Rejected {
		t.Errorf("%.3f rejected without a lag, %.3f with one", r.Outcomes[0].Rejected, r.Outcomes[1].Rejected)
	}
}

func TestSameSeedSameFigures(t *testing.T) {
	o := small()
	o.Pods = 200
	one, two := play(t, o), play(t, o)
	if !reflect.DeepEqual(one, two) {
		t.Error("two runs of one seed differ")
	}
	o.Seed = 2
	if reflect.DeepEqual(one.Outcomes, play(t, o).Outcomes) {
		t.Error("another seed gives the same figures")
	}
}

func TestReports(t *testing.T) {
	o := small()
	o.Pods = 100
	r := play(t, o)
	var page, table bytes.Buffer
	if err := r.WriteHTML(&page); err != nil {
		t.Fatal(err)
	}
	if err := r.WriteTable(&table); err != nil {
		t.Fatal(err)
	}
	for _, s := range Strategies {
		if !strings.Contains(page.String(), string(s)) || !strings.Contains(table.String(), string(s)) {
			t.Errorf("%s is not told of", s)
		}
	}
	if n := strings.Count(page.String(), "<svg"); n != 2*len(o.Scores) {
		t.Errorf("%d pictures, want two for each score", n)
	}
}

func TestOptionsAreChecked(t *testing.T) {
	for name, change := range map[string]func(*Options){
		"nodes":        func(o *Options) { o.Nodes = []int{3} },
		"schedulers":   func(o *Options) { o.Schedulers = []int{0} },
		"lag":          func(o *Options) { o.Lags = []time.Duration{-1} },
		"strategy":     func(o *Options) { o.Strategies = []Strategy{"best"} },
		"score":        func(o *Options) { o.Scores = []Score{"best"} },
		"empty":        func(o *Options) { o.Lags = nil },
		"pods":         func(o *Options) { o.Pods = 0 },
		"fill":         func(o *Options) { o.Fill = 1.1 },
		"decision":     func(o *Options) { o.Decision = 0 },
		"alternatives": func(o *Options) { o.Alternatives = 0 },
	} {
		o := small()
		change(&o)
		if _, err := Run(t.Context(), o, nil); err == nil || !strings.HasPrefix(err.Error(), "conflicts: ") {
			t.Errorf("%s: %v", name, err)
		}
	}
}
