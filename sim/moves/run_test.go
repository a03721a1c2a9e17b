package moves

import (
	"flag"
	"testing"
)

var seeds = flag.Int("seeds", 60, "seeds to play with faults, and a tenth of them without")

// Whatever happens, nobody is evicted without a reserved target, and each eviction ends.
func TestMovesUnderFaults(t *testing.T) {
	var sum Report
	for seed := range uint64(*seeds) {
		r, err := Play(t.Context(), seed, true)
		if err != nil {
			t.Fatal(err)
		}
		sum.Evicted += r.Evicted
		sum.Done += r.Done
		sum.Lost += r.Lost
		sum.Turns += r.Turns
		sum.GivenBack += r.GivenBack
		sum.Stayed += r.Stayed
		sum.Adopted += r.Adopted
		sum.Leaders += r.Leaders
	}
	t.Logf("%d seeds: %+v", *seeds, sum)
	if sum.Evicted == 0 || sum.Done == 0 || sum.Lost == 0 || sum.Turns == 0 || sum.GivenBack == 0 || sum.Adopted == 0 || sum.Leaders == 0 {
		t.Errorf("something has never happened: %+v", sum)
	}
}

// Without faults every eviction ends in its target, and the large pods that waited run.
func TestMovesWithoutFaults(t *testing.T) {
	for seed := range uint64(max(*seeds/10, 3)) {
		r, err := Play(t.Context(), seed, false)
		if err != nil {
			t.Fatal(err)
		}
		if r.Evicted == 0 || r.Done != r.Evicted || r.Lost+r.Stayed+r.GivenBack+r.Turns > 0 || !r.Placed {
			t.Errorf("seed %d: %+v", seed, r)
		}
	}
}
