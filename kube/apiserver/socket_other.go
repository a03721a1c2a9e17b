//go:build !linux

package apiserver

import "time"

// limitUnacknowledged does nothing: only Linux can be told. What lies in the kernel's buffer is then bounded by TCP's own patience.
func limitUnacknowledged(uintptr, time.Duration) {}
