package interference

import (
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
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
	for _, s := range []Score{all, res.Scores[4], res.Scores[12]} {
		if s.Hog != allHogs || s.Harmed < 5 || s.Named < 0.8 || s.FalseAlarms > 0.1 || s.ReliefAfter > 60 || s.Largest > 0.8 {
			t.Errorf("%+v", s)
		}
	}
	if err := res.WriteHTML(&strings.Builder{}); err != nil {
		t.Error(err)
	}
}

// TestSameSeeds: the same seeds give the same figures.
func TestSameSeeds(t *testing.T) {
	t.Parallel()
	o := DefaultOptions()
	o.Seeds = 4
	first, err := Run(t.Context(), &o, nil)
	if err != nil {
		t.Fatal(err)
	}
	again, err := Run(t.Context(), &o, nil)
	if err != nil || !slices.Equal(again.Scores, first.Scores) {
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
