package intensive

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"
	"pgregory.net/rapid"

	"hilbert.dev/hilbert/node/advise"
)

const giga = 1e9

// TestTranscript runs testdata/stories. A line is a pod and its GB/s, "?" where it is not known; "for" is how many seconds that lasts, with a reading in each. Output has a line for each change.
func TestTranscript(t *testing.T) {
	datadriven.Walk(t, "testdata/stories", func(t *testing.T, path string) {
		now, state, before := time.Duration(0), State{}, "nobody"
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			seconds, threshold := 0, 10.0
			d.ScanArgs(t, "for", &seconds)
			if d.HasArg("threshold") {
				d.ScanArgs(t, "threshold", &threshold)
			}
			var list []Pod
			for line := range strings.Lines(d.Input) {
				fields := strings.Fields(line)
				p := Pod{UID: fields[0], Counted: slices.Contains(fields, "counted")}
				var rate float64
				if _, err := fmt.Sscan(fields[1], &rate); err == nil {
					p.Rate = advise.Known(rate * giga)
				}
				list = append(list, p)
			}
			var out strings.Builder
			for range seconds {
				now += time.Second
				var uids []string
				uids, state = Step(now, list, threshold*giga, state)
				text := strings.Join(uids, " ")
				if text == "" {
					text = "nobody"
				}
				if text != before {
					fmt.Fprintf(&out, "%4.0fs %s\n", now.Seconds(), text)
					before = text
				}
			}
			return out.String()
		})
	})
}

// anyRate is known or not, and sometimes no number of bytes.
func anyRate(t *rapid.T, about float64) advise.Sample {
	switch kind := rapid.IntRange(0, 40).Draw(t, "kind"); {
	case kind == 0:
		return advise.Known(rapid.SampledFrom([]float64{math.NaN(), -1}).Draw(t, "value"))
	case kind < 8:
		return advise.Sample{}
	}
	return advise.Known(about * rapid.Float64Range(0, 1.5).Draw(t, "rate"))
}

// Whatever is read: a pod begins to count only when six of its last ten known windows were above the threshold, and ends only after thirty below half of it or a long time without any; it never
// counts without a threshold; and no more is remembered than the pods that are there.
func TestProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		const uid, threshold = "scan", 10 * giga
		var means []float64 // of the known windows, by a reader with its own bookkeeping
		at, state, was, silent := time.Duration(0), State{}, false, 0
		busy := rapid.Float64Range(0, 2).Draw(t, "busy")
		for range rapid.IntRange(1, 150).Draw(t, "windows") {
			rate := anyRate(t, threshold*busy)
			at += Window
			if silent++; rate.Known && rate.Value >= 0 {
				means, silent = append(means, rate.Value), 0
			}
			var uids []string
			uids, state = Step(at, []Pod{{UID: uid, Rate: rate}}, threshold, state)
			is := slices.Equal(uids, []string{uid})
			if len(state.pods) != 1 || len(uids) > 1 {
				t.Fatalf("%q, %d are remembered", uids, len(state.pods))
			}
			if is && !was && above(means[max(len(means)-of-1, 0):], threshold) < enough { // one more: windows may begin between two readings
				t.Fatalf("it counts after %v", means)
			}
			if was && !is && !ended(means, silent, leave*threshold) {
				t.Fatalf("it does not count any more after %v", means)
			}
			was = is
		}
		if uids, empty := Step(at, []Pod{{UID: uid, Rate: advise.Known(1e12), Counted: true}}, 0, state); len(uids) > 0 || len(empty.pods) > 0 {
			t.Fatal("something counts without a threshold")
		}
		if _, empty := Step(at, nil, threshold, state); len(empty.pods) > 0 {
			t.Fatal("a pod that is gone is remembered")
		}
	})
}

// ended reports whether a pod may have ended to count: it was calm, or nothing was known for so many windows.
func ended(means []float64, silent int, below float64) bool {
	if time.Duration(silent)*Window > forgetAfter {
		return true
	}
	quiet := means[max(len(means)-calm, 0):]
	return len(quiet) == calm && slices.Max(quiet[1:]) < below
}

func above(means []float64, threshold float64) (n int) {
	for _, mean := range means {
		if mean > threshold {
			n++
		}
	}
	return n
}
