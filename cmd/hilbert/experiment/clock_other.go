//go:build !linux && !darwin

package experiment

import "time"

// processTime is a clock for how fast something is; time on CPUs is not known here.
func processTime() func() time.Duration {
	began := time.Now()
	return func() time.Duration { return time.Since(began) }
}
