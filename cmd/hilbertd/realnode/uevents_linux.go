package realnode

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"os"

	"golang.org/x/sys/unix"
)

// ueventBytes is more than the kernel puts into one message (2 KiB of variables and a path).
const ueventBytes = 16 << 10

// uevents calls happened after each message of the kernel about CPUs, memory blocks and NUMA nodes, until ctx ends. Where it cannot listen it says so and returns:
// the hardware is also read at intervals.
func uevents(ctx context.Context, log *slog.Logger, happened func()) {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, unix.NETLINK_KOBJECT_UEVENT)
	if err == nil {
		err = unix.Bind(fd, &unix.SockaddrNetlink{Family: unix.AF_NETLINK, Groups: 1})
	}
	if err != nil {
		log.Warn("the kernel does not tell of CPUs that come and go; the hardware is read at intervals", "err", err)
		return
	}
	socket := os.NewFile(uintptr(fd), "uevents")
	stop := context.AfterFunc(ctx, func() { _ = socket.Close() }) // it was only read
	defer stop()
	buffer := make([]byte, ueventBytes)
	for {
		n, err := socket.Read(buffer)
		switch {
		case errors.Is(err, unix.ENOBUFS): // some are lost
			happened()
		case err != nil:
			return
		case aboutMachine(buffer[:n]):
			happened()
		}
	}
}

// aboutMachine reports whether a message is about what machine.Read reads. It is "change@/devices/system/cpu/cpu4" and variables, each with a zero after it.
func aboutMachine(message []byte) bool {
	for variable := range bytes.SplitSeq(message, []byte{0}) {
		if subsystem, ok := bytes.CutPrefix(variable, []byte("SUBSYSTEM=")); ok {
			switch string(subsystem) {
			case "cpu", "memory", "node":
				return true
			}
		}
	}
	return false
}
