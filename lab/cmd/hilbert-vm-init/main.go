// Command hilbert-vm-init is the first process of a guest of the VM test bed. From the initial RAM disk it loads modules, mounts the root disk
// and moves there; then it reaps orphans, while a child of its own, the same binary, serves the host.
//
// The child runs commands, reads and writes files, sends signals, keeps services running and connects the host to what the guest reaches, as package wire describes. It knows nothing
// of containers or Kubernetes: the host defines what runs. Reaping is apart from serving because a wait for any child would steal the
// exit status of the child that a request waits for.
//
// Where the root disk has systemd, that becomes the first process; serving is then one of its services, and so is what the host defines.
//
// Anyone who reaches its port is root in the guest: the guest is thrown away, and the port is forwarded from the host's loopback only.
package main

import (
	"fmt"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

func main() {
	for name, command := range map[string]func([]string) error{"serve": serve, "relay": relay} {
		if len(os.Args) < 2 || os.Args[1] != name {
			continue
		}
		if err := command(os.Args[2:]); err != nil {
			say("%s: %v", name, err)
			os.Exit(1)
		}
		return
	}
	if os.Getpid() != 1 {
		fmt.Fprintln(os.Stderr, "hilbert-vm-init: not the first process of a machine")
		os.Exit(2)
	}
	problems, err := start()
	switch {
	case err != nil:
	case hasSystemd():
		err = becomeSystemd(problems)
	default:
		err = reap(problems)
	}
	say("%v", err)
	time.Sleep(time.Second) // the console is slow, and this may be all that anyone will see
	unix.Sync()
	_ = unix.Reboot(unix.LINUX_REBOOT_CMD_POWER_OFF)
}

// reap starts the serving child, collects whatever ends, and returns when the child has ended.
func reap(problems []string) error {
	argv := append([]string{self, "serve"}, problems...)
	console, err := os.OpenFile("/dev/console", os.O_RDWR, 0)
	if err != nil {
		return fmt.Errorf("console: %w", err)
	}
	child, err := syscall.ForkExec(self, argv, &syscall.ProcAttr{
		Dir: "/", Env: environment, Files: []uintptr{console.Fd(), console.Fd(), console.Fd()},
	})
	if err != nil {
		return fmt.Errorf("start %s: %w", self, err)
	}
	for {
		var status syscall.WaitStatus
		pid, err := syscall.Wait4(-1, &status, 0, nil)
		switch {
		case err == syscall.EINTR: //nolint:errorlint // a bare system call returns a bare number
		case err != nil:
			return fmt.Errorf("wait: %w", err)
		case pid == child:
			return fmt.Errorf("the serving process ended with status %d", exitStatus(status))
		}
	}
}

// exitStatus is a shell's $?: the status, or 128 and the signal.
func exitStatus(w syscall.WaitStatus) int {
	if w.Signaled() {
		return 128 + int(w.Signal())
	}
	return w.ExitStatus()
}

// say writes to the kernel's log, which the host keeps.
func say(format string, args ...any) {
	line := "<4>hilbert-vm-init: " + fmt.Sprintf(format, args...) + "\n"
	if f, err := os.OpenFile("/dev/kmsg", os.O_WRONLY, 0); err == nil {
		_, err = f.WriteString(line)
		if f.Close() == nil && err == nil {
			return
		}
	}
	fmt.Fprint(os.Stderr, line)
}
