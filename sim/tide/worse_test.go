package tide

import (
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"hilbert.dev/hilbert/control/reschedule"
	"hilbert.dev/hilbert/sim/trace"
)

// noise is what a way may miss more than HPA alone: 17 seconds a day.
const noise = 0.0002

// restless is a small service whose load rises for a quarter of an hour at times that nobody knows, so that nodes go to and fro.
func restless(days int) *trace.Series {
	s := daily(days)
	s.Name = "restless"
	random := rand.New(rand.NewPCG(3, 3))
	until, level := 0, 0.0
	for i := range s.Loads {
		if i >= until+3 && random.IntN(16) == 0 {
			until, level = i+3, 40+30*random.Float64()
		}
		if s.Loads[i] = 7 + 0.6*math.Sin(float64(i)/9); i < until {
			s.Loads[i] = level
		}
	}
	return s
}

// TestMovesMissNothing: nodes that change hands miss no more than HPA alone of a load that goes to and fro. Without the bound on what a service loses to moves they would, and that is the cause
// that is told. Each time in which capacity is missing has one cause, and the autoscaler's own are at most what HPA alone misses. Who knows the load to come misses nothing.
func TestMovesMissNothing(t *testing.T) {
	t.Parallel()
	o, s := DefaultOptions(), restless(10)
	o.Rises = false
	alone, bounded, oracle := play(&o, s, HPAAlone, nil), play(&o, s, NodesByNeed, nil), play(&o, s, Oracle, nil)
	o.WorkloadTimeLossPermille = reschedule.WholeWorkload
	unbounded := play(&o, s, NodesByNeed, nil)
	if alone.Missed == 0 || bounded.Missed > alone.Missed || bounded.ReplicasMoved == 0 {
		t.Errorf("alone %+v\nnodes %+v", alone, bounded)
	}
	if unbounded.Missed <= alone.Missed || unbounded.MissedBy[CauseMoves] < 0.9*(unbounded.Missed-alone.Missed) {
		t.Errorf("alone %+v\nwithout the bound %+v", alone, unbounded)
	}
	if oracle.Missed > noise || oracle.NodesHanded == 0 {
		t.Errorf("oracle %+v", oracle)
	}
	sum := 0.0
	for _, c := range Causes {
		sum += unbounded.MissedBy[c]
	}
	if own := unbounded.MissedBy[CauseStart] + unbounded.MissedBy[CauseMetric]; math.Abs(sum-unbounded.Missed) > 1e-9 || own == 0 || own > alone.Missed {
		t.Errorf("alone %+v\nits causes %+v", alone, unbounded)
	}
}

// TestNoSeriesIsWorse: on no recorded load does a way of ours miss more than HPA alone, and on most of them at most half. HILBERT_SIM_SERIES=all plays all of them, else two.
func TestNoSeriesIsWorse(t *testing.T) {
	t.Parallel()
	folder := os.Getenv("HILBERT_TRACES")
	files, _ := filepath.Glob(filepath.Join(folder, "series", "*.csv"))
	if len(files) == 0 {
		t.Skip("no traces: set HILBERT_TRACES to the folder that holds series/")
	}
	if os.Getenv("HILBERT_SIM_SERIES") != "all" {
		files = []string{filepath.Join(folder, "series", "ec2_cpu_utilization_fe7f93.csv")}
	}
	files = append(files, filepath.Join(folder, "genai2026", "qps.tar.gz"))
	// Of one a day is known only; the other was silent for a day at the beginning of what is judged.
	more := map[string]bool{"qps.tar.gz": true, "ec2_cpu_utilization_77c1ca.csv": true}
	for _, file := range files {
		s, err := trace.LoadSeries(file)
		if err != nil {
			t.Fatal(err)
		}
		t.Run(strings.TrimSuffix(s.Name, ".csv"), func(t *testing.T) {
			t.Parallel()
			o := DefaultOptions()
			alone := play(&o, s, HPAAlone, nil)
			for _, way := range []Way{Hilbert, NodesByNeed, Nodes, Oracle} {
				got := play(&o, s, way, nil)
				if got.Missed > alone.Missed+noise {
					t.Errorf("alone %+v\nours %+v", alone, got)
				}
				if (way == Hilbert || way == Nodes) && !more[s.Name] && got.Missed > alone.Missed/2 {
					t.Errorf("more than half:\nalone %+v\nours %+v", alone, got)
				}
				if way == Oracle && got.Missed > 0.001 {
					t.Errorf("the floor: %+v", got)
				}
			}
		})
	}
}
