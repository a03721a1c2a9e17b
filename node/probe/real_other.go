//go:build !linux

package probe

import "time"

// Real is nil: only Linux has what is probed.
func Real(time.Time, string, bool) *Machine { return nil }
