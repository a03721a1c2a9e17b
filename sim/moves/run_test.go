package moves

import (
	"flag"
	"fmt"
	"testing"
)

var seeds = flag.Int("seeds", 40, "seeds to play with faults, and a tenth of them without; each with evictions, and with EvictionRequests")

func (r *Report) add(o *Report) {
	r.Evicted += o.Evicted
	r.Done += o.Done
	r.Lost += o.Lost
	r.Turns += o.Turns
	r.Late += o.Late
	r.GivenBack += o.GivenBack
	r.Stayed += o.Stayed
	r.Adopted += o.Adopted
	r.Leaders += o.Leaders
}

// Whatever happens, nobody is evicted without a reserved target, and each eviction ends.
func TestMovesUnderFaults(t *testing.T) {
	t.Parallel()
	for _, requests := range []bool{false, true} {
		t.Run(fmt.Sprintf("requests %v", requests), func(t *testing.T) {
			t.Parallel()
			var sum Report
			for seed := range uint64(*seeds) {
				r, err := Play(t.Context(), seed, true, requests)
				if err != nil {
					t.Fatal(err)
				}
				sum.add(&r)
			}
			t.Logf("%d seeds: %+v", *seeds, sum)
			if sum.Evicted == 0 || sum.Done == 0 || sum.Lost == 0 || sum.Turns == 0 || sum.GivenBack == 0 || sum.Adopted == 0 || sum.Leaders == 0 || requests && (sum.Stayed == 0 || sum.Late == 0) {
				t.Errorf("something has never happened: %+v", sum)
			}
		})
	}
}

// Without faults every eviction ends in its target, and the large pods that waited run; where responders refuse or hang, pods stay.
func TestMovesWithoutFaults(t *testing.T) {
	t.Parallel()
	for _, requests := range []bool{false, true} {
		placed := 0
		for seed := range uint64(max(*seeds/10, 3)) {
			r, err := Play(t.Context(), seed, false, requests)
			if err != nil {
				t.Fatal(err)
			}
			if r.Done != r.Evicted || r.Lost+r.GivenBack+r.Turns > 0 || !requests && (r.Evicted == 0 || r.Stayed > 0 || !r.Placed) {
				t.Errorf("seed %d, requests %v: %+v", seed, requests, r)
			}
			if r.Placed {
				placed++
			}
		}
		if placed == 0 {
			t.Errorf("requests %v: no moves have made room", requests)
		}
	}
}
