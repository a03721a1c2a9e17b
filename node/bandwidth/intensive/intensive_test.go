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

// TestTranscript runs testdata. A line is a pod and its GB/s, "?" where it is not known; "for" is how many seconds that lasts, with a reading in each. Output has a line for each change.
func TestTranscript(t *testing.T) {
	datadriven.Walk(t, "testdata", func(t *testing.T, path string) {
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

// Whatever is read: a pod begins to count only when six of its last ten known windows were above the threshold, and ends only after thirty below half of it or a long time without any; it never
// counts without a threshold; and no more is remembered than the pods that are there.
func TestProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		const uid, threshold = "scan", 10 * giga
		var means []float64 // of the known windows, by a reader with its own bookkeeping
		at, state, was, silent := time.Duration(0), State{}, false, 0
		busy := rapid.Float64Range(0, 2).Draw(t, "busy")
		for range rapid.IntRange(1, 150).Draw(t, "windows") {
			rate := advise.Sample{}
			if rapid.IntRange(0, 5).Draw(t, "known") > 0 {
				rate = advise.Known(threshold * busy * rapid.Float64Range(0, 1.5).Draw(t, "rate"))
			}
			if rapid.IntRange(0, 40).Draw(t, "odd") == 0 {
				rate = advise.Known(rapid.SampledFrom([]float64{math.NaN(), -1}).Draw(t, "value"))
			}
			at += Window
			if rate.Known && rate.Value >= 0 {
				means, silent = append(means, rate.Value), 0
			} else {
				silent++
			}
			var uids []string
			uids, state = Step(at, []Pod{{UID: uid, Rate: rate}}, threshold, state)
			if at == Window && rate.Known { // the first reading begins the first window
				if len(uids) > 0 {
					t.Fatal("one reading is enough")
				}
			}
			is := slices.Equal(uids, []string{uid})
			if len(state.pods) != 1 || len(uids) > 1 {
				t.Fatalf("%q, %d are remembered", uids, len(state.pods))
			}
			switch last := means[max(len(means)-of-1, 0):]; { // one more: windows may begin between two readings
			case is && !was:
				if above(last, threshold) < enough {
					t.Fatalf("it counts after %v", means)
				}
			case was && !is:
				if quiet := means[max(len(means)-calm, 0):]; time.Duration(silent)*Window <= forgetAfter && (len(quiet) < calm || slices.Max(quiet[1:]) >= leave*threshold) {
					t.Fatalf("it does not count any more after %v", means)
				}
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

func above(means []float64, threshold float64) (n int) {
	for _, mean := range means {
		if mean > threshold {
			n++
		}
	}
	return n
}
