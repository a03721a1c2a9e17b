package recommend

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"k8s.io/autoscaler/vertical-pod-autoscaler/pkg/recommender/util"

	"hilbert.dev/hilbert/control/recommend"
)

// The histograms of the Vertical Pod Autoscaler: see its pkg/recommender/model/aggregations_config.go.
const epsilon = 1e-4

// scales are its own, for CPU and memory, and a coarse one.
var scales = []recommend.Scale{{First: 0.01, Growth: 1.05, Most: 1000}, {First: 1e7, Growth: 1.05, Most: 1e12}, {First: 1, Growth: 2, Most: 100}}

// FuzzHistogram draws samples from the seed and gives them to both.
func FuzzHistogram(f *testing.F) {
	for seed := range uint64(50) {
		f.Add(seed, uint8(seed%3), uint16(1+seed*7), uint16(10*seed))
	}
	f.Fuzz(func(t *testing.T, seed uint64, scale uint8, halfLifeHours, samples uint16) {
		s := scales[int(scale)%len(scales)]
		halfLife := time.Duration(1+halfLifeHours%200) * time.Hour
		options, err := util.NewExponentialHistogramOptions(s.Most, s.First, s.Growth, epsilon)
		if err != nil {
			t.Fatal(err)
		}
		theirs, ours := util.NewDecayingHistogram(options, halfLife), recommend.NewHistogram(s, halfLife)
		random := rand.New(rand.NewPCG(seed, 1))
		at := time.Date(2026, time.March, 1, 0, 0, 0, 0, time.UTC)
		type sample struct {
			value, weight float64
			at            time.Time
		}
		var added []sample
		for range samples % 500 {
			gap := time.Minute
			if random.IntN(20) == 0 {
				gap = time.Duration(random.IntN(400)) * halfLife
			}
			at = at.Add(gap)
			if len(added) > 0 && random.IntN(4) == 0 {
				i := random.IntN(len(added))
				x := added[i]
				added = append(added[:i], added[i+1:]...)
				theirs.SubtractSample(x.value, x.weight, x.at)
				ours.Subtract(x.value, x.weight, x.at)
			} else {
				x := sample{s.First * math.Exp(random.NormFloat64()*4), []float64{0.1, 1, 3}[random.IntN(3)], at}
				added = append(added, x)
				theirs.AddSample(x.value, x.weight, x.at)
				ours.Add(x.value, x.weight, x.at)
			}
			compare(t, theirs, ours)
		}
	})
}

func compare(t *testing.T, theirs util.Histogram, ours *recommend.Histogram) {
	t.Helper()
	for _, share := range []float64{0, 0.1, 0.5, 0.9, 0.95, 1} {
		want := theirs.Percentile(share)
		got, known := ours.Percentile(share)
		if known == theirs.IsEmpty() || math.Abs(got-want) > 1e-9*want {
			t.Fatalf("percentile %g: %g (known: %t), theirs %g (empty: %t)", share, got, known, want, theirs.IsEmpty())
		}
	}
}
