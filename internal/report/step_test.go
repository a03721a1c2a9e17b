package report

import (
	"math"
	"testing"

	"pgregory.net/rapid"
)

// TestStep: a step is 1, 2 or 5 times a power of ten, at most so many of them make the span, and no smaller round step would do.
func TestStep(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		span, n := rapid.Float64Range(1e-3, 1e6).Draw(t, "span"), rapid.IntRange(1, 12).Draw(t, "n")
		step := Step(span, n)
		if span/step > float64(n)*(1+1e-9) {
			t.Fatalf("%g has more than %d steps of %g", span, n, step)
		}
		digit := step / math.Pow(10, math.Floor(math.Log10(step)+1e-9))
		before := map[int]float64{1: 2, 2: 2, 5: 2.5}[int(math.Round(digit))] // by which the next smaller round step is less
		if before == 0 || math.Abs(digit-math.Round(digit)) > 1e-6 {
			t.Fatalf("%g is no round step", step)
		}
		if span/(step/before) <= float64(n) {
			t.Fatalf("%g has at most %d steps of %g too, which is less than %g", span, n, step/before, step)
		}
	})
	if Step(0, 5) != 1 {
		t.Error("nothing has no step")
	}
}
