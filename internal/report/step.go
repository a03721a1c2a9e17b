package report

import "math"

// Step is a round distance between the lines of a grid: the least of 1, 2 and 5 times a power of ten that divides span into at most n parts.
func Step(span float64, n int) float64 {
	if span <= 0 {
		return 1
	}
	power := math.Pow(10, math.Floor(math.Log10(span/float64(n))))
	for _, factor := range []float64{1, 2, 5, 10} {
		if span/(factor*power) <= float64(n)*(1+1e-9) {
			return factor * power
		}
	}
	return 10 * power
}
