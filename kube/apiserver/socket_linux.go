package apiserver

import (
	"time"

	"golang.org/x/sys/unix"
)

// limitUnacknowledged sets the socket option; a socket that does not have it (not TCP) stays as it is.
func limitUnacknowledged(fd uintptr, after time.Duration) {
	_ = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT, int(after.Milliseconds()))
}
