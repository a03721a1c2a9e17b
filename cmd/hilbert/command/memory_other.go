//go:build !linux && !darwin

package command

// peakMemory is not known here.
func peakMemory() (int64, bool) { return 0, false }
