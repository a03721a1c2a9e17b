//go:build !linux

package daemon

import "time"

// uptime is not known here, where no agent can run.
func uptime() time.Duration { return 0 }
