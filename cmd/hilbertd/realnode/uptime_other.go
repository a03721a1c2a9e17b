//go:build !linux

package realnode

import "time"

// Uptime is not known here, where no agent can run.
func Uptime() time.Duration { return 0 }
