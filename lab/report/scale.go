package report

import (
	"math"
	"strconv"

	draw "hilbert.dev/hilbert/internal/report"
)

// scale maps values to positions on one axis of a drawing.
type scale struct {
	min, max float64 // values; min < max
	from, to float64 // positions of min and max
	log      bool    // of base 10; min > 0
	ticks    []tick
}

// tick is a labelled value on an axis.
type tick struct {
	at    float64
	label string
}

// at is the position of a value; values outside of the scale are put at its end.
func (s *scale) at(v float64) float64 {
	v = min(max(v, s.min), s.max)
	part := (v - s.min) / (s.max - s.min)
	if s.log {
		part = math.Log(v/s.min) / math.Log(s.max/s.min)
	}
	return s.from + part*(s.to-s.from)
}

// percentScale goes from 0 to a round percentage at or above most, with four steps.
func percentScale(most float64) scale {
	top := 100.0
	for _, round := range []float64{1, 2, 4, 10, 20, 40, 100} {
		if most <= round {
			top = round
			break
		}
	}
	if most > 100 {
		top = 100 * math.Ceil(most/100)
	}
	s := scale{max: top}
	for i := range 5 {
		v := top * float64(i) / 4
		s.ticks = append(s.ticks, tick{v, strconv.FormatFloat(v, 'f', -1, 64) + " %"})
	}
	return s
}

// countScale goes from 0 to a round count at or above most.
func countScale(most float64) scale {
	most = max(most, 4)
	step := draw.Step(most, 5)
	s := scale{max: step * math.Ceil(most/step-1e-9)}
	for v := 0.0; v <= s.max+step/2; v += step {
		s.ticks = append(s.ticks, tick{v, shortCount(v)})
	}
	return s
}

// timeScale goes from 0 to the end of the run, in seconds, with ticks at round seconds, minutes or hours.
func timeScale(end float64) scale {
	end = max(end, 1)
	s := scale{max: end}
	unit, name := 1.0, "s"
	switch {
	case end > 3*3600:
		unit, name = 3600, "h"
	case end > 300:
		unit, name = 60, "min"
	}
	step := draw.Step(end/unit, 7)
	for _, round := range []float64{1, 2, 5, 10, 15, 20, 30, 60} { // sixtieths divide otherwise than tenths
		if unit < 3600 && step >= 1 && end/unit <= 7*round {
			step = round
			break
		}
	}
	for i := 0; float64(i)*step <= end/unit*(1+1e-9); i++ {
		v := float64(i) * step
		s.ticks = append(s.ticks, tick{v * unit, strconv.FormatFloat(round(v, 3), 'f', -1, 64) + " " + name})
	}
	return s
}

// waitScale is logarithmic, in milliseconds, over whole decades that hold both ends.
func waitScale(least, most float64) scale {
	low := math.Floor(math.Log10(max(least, shortestWait)) + 1e-9)
	high := max(math.Ceil(math.Log10(max(most, shortestWait))-1e-9), low+1)
	s := scale{min: math.Pow(10, low), max: math.Pow(10, high), log: true}
	for p := low; p <= high; p++ {
		s.ticks = append(s.ticks, tick{math.Pow(10, p), waitLabel(p)})
	}
	return s
}

// shortestWait is what shorter waits are drawn as, in milliseconds: the observer's clock sees no finer.
const shortestWait = 0.1

func waitLabel(power float64) string {
	if power < 3 {
		return strconv.FormatFloat(math.Pow(10, power), 'f', -1, 64) + " ms"
	}
	return strconv.FormatFloat(math.Pow(10, power-3), 'f', -1, 64) + " s"
}

// shortCount writes 12500 as "12.5k".
func shortCount(v float64) string {
	switch {
	case v >= 1e6:
		return strconv.FormatFloat(v/1e6, 'f', -1, 64) + "M"
	case v >= 1e4:
		return strconv.FormatFloat(v/1e3, 'f', -1, 64) + "k"
	default:
		return count(int(v))
	}
}
