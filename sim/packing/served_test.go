package packing

import (
	"math"
	"os"
	"strconv"
	"testing"
	"time"
)

// TestMovesServeNoLess: pods that are moved, up to a fifth of them in a day, serve no less in the mean than those that stay, below what the cluster can take and beyond. Each seed plays the same
// arrivals with moves and without. One seed alone may lose: a move takes a place that a large pod would have had hours later. HILBERT_SIM_SEEDS plays more of them.
func TestMovesServeNoLess(t *testing.T) {
	seeds, err := strconv.Atoi(os.Getenv("HILBERT_SIM_SEEDS"))
	if err != nil {
		seeds = 6
	}
	for _, load := range []float64{0.8, 0.95, 1.2} {
		t.Run(strconv.FormatFloat(load, 'g', -1, 64), func(t *testing.T) {
			t.Parallel()
			sum, squares, moves := 0.0, 0.0, 0
			for seed := range uint64(seeds) { //nolint:gosec // a number of seeds
				s := inventChurn(t, 20, 100, seed)
				o := ChurnOptions{Policy: PolicyHilbert, Load: load, Warmup: 24 * time.Hour, Measured: 4 * 24 * time.Hour}
				without := churned(t, s, o)
				o.Moves = 0.2
				with := churned(t, s, o)
				gain := with.Served - without.Served
				sum, squares, moves = sum+gain, squares+gain*gain, moves+with.Moves
			}
			n := float64(seeds)
			mean := sum / n
			deviation := math.Sqrt((squares/n - mean*mean) / (n - 1)) // of the mean
			t.Logf("%d seeds, %d moves: %.2f points more are served, standard deviation %.2f", seeds, moves, mean, deviation)
			if moves == 0 {
				t.Error("nothing was moved")
			}
			if mean < -2*deviation {
				t.Errorf("with moves %.2f points less are served, standard deviation %.2f", -mean, deviation)
			}
		})
	}
}
