//go:build !linux && !darwin

package simulation

import "time"

// peakMemory is not known here.
func peakMemory() (int64, bool) { return 0, false }

// cpuTime is not known here.
func cpuTime() time.Duration { return 0 }
