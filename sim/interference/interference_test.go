package interference

import (
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// TestNames: on mixes that nothing was tuned on, hogs that harm are named first in four of five, at few false alarms.
func TestNames(t *testing.T) {
	t.Parallel()
	o := DefaultOptions()
	o.Seeds = mixes(t)
	res, err := Run(t.Context(), &o, nil)
	if err != nil {
		t.Fatal(err)
	}
	all := res.Scores[0]
	// The processor's counters do for services that have no indicator; without either it is missed.
	if blind := res.Scores[8]; blind.Sees != countersAlone || blind.Named > 0.8 {
		t.Errorf("%+v: the kernel's counters do alone", blind)
	}
	// Of two that come together, correlation names whom chance says; for whom threads wait tells them apart.
	if blind := res.Scores[20]; blind.Sees != crowdAlone || blind.Named > 0.6 {
		t.Errorf("%+v: correlation does alone", blind)
	}
	if queues := res.Scores[21]; queues.Sees != crowdQueues || queues.Harmed < 5 || queues.Named < 0.8 || queues.FalseAlarms > 0.1 {
		t.Errorf("%+v", queues)
	}
	// So it is with two that come together where one fills the memory bus; its memory bandwidth tells them apart, and costs nothing elsewhere.
	if blind := res.Scores[26]; blind.Sees != crowdCycles || blind.Named > 0.6 {
		t.Errorf("%+v: cycles do alone", blind)
	}
	if memory := res.Scores[27]; memory.Sees != crowdMemory || memory.Harmed < 5 || memory.Named < 0.6 || memory.Named < 2*res.Scores[26].Named || memory.FalseAlarms > 0.1 {
		t.Errorf("%+v", memory)
	}
	if alone, both := res.Scores[12], res.Scores[22]; both.Sees != withBandwidth || both.Named < alone.Named || both.FalseAlarms > alone.FalseAlarms {
		t.Errorf("with memory bandwidth %+v, without %+v", both, alone)
	}
	checkLadder(t, res.Ladder)
	checkRestarts(t, res.Restarts)
	for _, s := range []Score{all, res.Scores[4], res.Scores[12]} {
		if s.Hog != allHogs || s.Harmed < 5 || s.Named < 0.8 || s.FalseAlarms > 0.1 || s.ReliefAfter > 60 || s.Largest > 0.8 {
			t.Errorf("%+v", s)
		}
	}
	if err := res.WriteHTML(&strings.Builder{}); err != nil {
		t.Error(err)
	}
}

// checkLadder: a hog whose limit takes nothing of the harm is evicted soon after, one whose limit takes it is not, and hardly ever is another.
func checkLadder(t *testing.T, list []Ladder) {
	t.Helper()
	vain := 0
	for _, l := range list {
		if l.Harmed < 5 || float64(l.Others) > 0.1*float64(l.Mixes) || l.Closest != 0 && l.Closest < 600 {
			t.Errorf("%+v", l)
		}
		switch {
		case l.Limit == limitHelps && float64(l.Evicted) > 0.2*float64(l.Limited):
			t.Errorf("the limit helps: %+v", l)
		case l.Limit == limitNothing && l.Hog == hogComes:
			if vain++; float64(l.Limited) < 0.7*float64(l.Harmed) || float64(l.Evicted) < 0.7*float64(l.Limited) || l.EvictedAfter > 120 {
				t.Errorf("the limit is in vain: %+v", l)
			}
		}
	}
	if vain != 2 {
		t.Errorf("%d kinds of hog whose limit is in vain", vain)
	}
}

// checkRestarts: an agent that starts again names the hog if it knows what the one before it knew, and else cannot.
func checkRestarts(t *testing.T, list []Restart) {
	t.Helper()
	for _, r := range list {
		right := float64(r.Right) / float64(max(r.Harmed, 1))
		if r.Harmed < 3 || r.Kept && (right < 0.8 || r.NamedAfter > 60) || !r.Kept && right > 0.2 {
			t.Errorf("%+v", r)
		}
	}
}

// TestEvictionsArePaused: two hogs come, and limits take nothing of the harm of either. The second one is evicted ten minutes after the first, and no sooner.
func TestEvictionsArePaused(t *testing.T) {
	t.Parallel()
	o := DefaultOptions()
	pairs := 0
	for n := range 10 {
		a := newActing(o.seed(n), true, ladderWay{asAgent, hogComes, limitNothing}, &o)
		second := a.neighbours[a.hog]
		second.name, second.job.ID, second.at = "second", 101, a.hogAt+20
		a.neighbours, a.wants = append(a.neighbours, second), append(a.wants, second.job.Demand)
		a.play()
		for i := 1; i < len(a.evicted); i++ {
			gap := time.Duration(a.evicted[i].window-a.evicted[i-1].window) * windowSeconds * time.Second
			if gap < a.rules.EvictPause {
				t.Errorf("mix %d: %v between two evictions", n, gap)
			}
			pairs++
		}
	}
	if pairs == 0 {
		t.Error("no mix has two evictions")
	}
}

// TestSameSeeds: the same seeds give the same figures.
func TestSameSeeds(t *testing.T) {
	t.Parallel()
	o := DefaultOptions()
	o.Seeds = 2
	first, err := Run(t.Context(), &o, nil)
	if err != nil {
		t.Fatal(err)
	}
	again, err := Run(t.Context(), &o, nil)
	if err != nil || !slices.Equal(again.Scores, first.Scores) || !slices.Equal(again.Ladder, first.Ladder) || !slices.Equal(again.Restarts, first.Restarts) {
		t.Errorf("%+v, then %+v, %v", first, again, err)
	}
}

// mixes is how many mixes are played; HILBERT_SIM_SEEDS sets it.
func mixes(t *testing.T) int {
	t.Helper()
	text := os.Getenv("HILBERT_SIM_SEEDS")
	if text == "" {
		return 20
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 20 {
		t.Fatalf("HILBERT_SIM_SEEDS=%q: want a number of mixes, at least 20", text)
	}
	return n
}
