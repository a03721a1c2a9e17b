package packing

import (
	"math"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"hilbert.dev/hilbert/sim/trace"
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

// servedNoise is how many points less may be served with moves on a real list, in the mean of the seeds. Moves that only make room served 0.16 points less than none on gpuspec33 at
// 105 % with seed 42, as one refused pod of eight GPUs that runs for days does; moves that do not pause while pods wait served 2.1 less there.
const servedNoise = 0.25

// TestMovesServeNoLessOnTraces plays real lists at loads in which pods of several GPUs wait, where moves against fragmentation did harm before they paused.
func TestMovesServeNoLessOnTraces(t *testing.T) {
	if os.Getenv("HILBERT_SIM_SEEDS") == "" {
		t.Skip("takes a minute of CPU: make sim-churn plays it")
	}
	for _, list := range []string{"gpuspec33", "gpushare40"} {
		t.Run(list, func(t *testing.T) {
			t.Parallel()
			sum, moves := 0.0, 0
			seeds := []uint64{42, 43, 44}
			for _, seed := range seeds {
				s := openbChurn(t, list, seed)
				o := ChurnOptions{Policy: PolicyHilbert, Load: 1.05, Warmup: 7 * 24 * time.Hour, Measured: 7 * 24 * time.Hour}
				without := churned(t, s, o)
				o.Moves = 0.02
				with := churned(t, s, o)
				t.Logf("seed %d: served %.2f without moves, %.2f with %d", seed, without.Served, with.Served, with.Moves)
				sum, moves = sum+with.Served-without.Served, moves+with.Moves
			}
			if moves == 0 {
				t.Error("nothing was moved")
			}
			if mean := sum / float64(len(seeds)); mean < -servedNoise {
				t.Errorf("with moves %.2f points less are served", -mean)
			}
		})
	}
}

// openbChurn is a list of openb; one without times has default's.
func openbChurn(t *testing.T, list string, seed uint64) *Steady {
	folder := filepath.Join(os.Getenv("HILBERT_TRACES"), "openb")
	load := func(list string) *trace.Workload {
		w, err := trace.LoadOpenB(filepath.Join(folder, "openb_node_list_gpu_node.csv"), filepath.Join(folder, "openb_pod_list_"+list+".csv"))
		if err != nil {
			t.Skipf("no traces: set HILBERT_TRACES to the folder that holds openb/: %v", err)
		}
		return w
	}
	w, err := WithDurations(load(list), load("default"), 42)
	if err != nil {
		t.Fatal(err)
	}
	s, err := NewSteady(w, seed)
	if err != nil {
		t.Fatal(err)
	}
	return s
}
