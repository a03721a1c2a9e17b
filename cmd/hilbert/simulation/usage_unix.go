//go:build linux || darwin

package simulation

import (
	"runtime"
	"syscall"
	"time"
)

// peakMemory is the most memory that the process ever had resident, in bytes.
func peakMemory() (int64, bool) {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		return 0, false
	}
	peak := int64(usage.Maxrss)
	if runtime.GOOS == "linux" {
		peak <<= 10 // it counts KiB there
	}
	return peak, true
}

// cpuTime is the time that the process has had on CPUs so far.
func cpuTime() time.Duration {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		return 0
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}
