package realnode

import (
	"time"

	"golang.org/x/sys/unix"
)

// Uptime is how long the node has been up, sleep included; 0 where it does not say.
func Uptime() time.Duration {
	var now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &now); err != nil {
		return 0
	}
	return time.Duration(now.Nano())
}
