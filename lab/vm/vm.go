// Package vm boots a guest with a real kernel under QEMU, emulated, and lets the host's tests work in it: run commands, read and write
// files, send signals, keep services running.
//
// The guest has eight CPUs on two sockets, two NUMA nodes of two GiB (Options can say otherwise), and in each of them a PCIe switch with a
// network card and a stand-in for a GPU. Its root disk is as package parts made it at every boot; what a guest writes is lost when it ends. Nothing of
// Kubernetes is known here: package join makes a node of a guest.
//
// Invariants: Boot returns a guest that answers, or an error and no process left. A guest that does not answer within its time is killed
// and booted again, twice at most: emulation loses one boot in some. Close ends the guest's processes with it. All methods may be
// called at the same time.
//
// It is not fast: a guest's CPU is some thirty times slower than the host's. Times measured in it compare only with one another.
package vm

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"hilbert.dev/hilbert/lab/vm/parts"
	"hilbert.dev/hilbert/lab/vm/wire"
)

const (
	// Address is the guest's own; HostAddress is where the host's loopback is for it.
	Address, HostAddress = "10.0.2.15", "10.0.2.2"
	// bootTimeout is how long the guest's first process may take to answer. It takes ten seconds on a quiet machine, and has taken a minute where 25
	// others wanted its two cores.
	bootTimeout = 2 * time.Minute
	// boots is how often a guest is booted before Boot gives up.
	boots = 5
	// answerPoll is how often a guest that boots is asked whether it is there.
	answerPoll = 250 * time.Millisecond
	// The guest's clock is compared with the host's over clockWindow, a few times; another pace by clockFactor is wrong.
	clockWindow, clockTries, clockFactor = 700 * time.Millisecond, 3, 2
	// timersTimeout bounds the look at whether all processors wake who sleeps.
	timersTimeout = 20 * time.Second
	// closeTimeout bounds the wait for a killed QEMU.
	closeTimeout = 10 * time.Second
)

// Options says what to boot. The zero value is a guest with the parts of the cache.
type Options struct {
	// Parts are what it is made of; nil opens those in the cache, and builds none.
	Parts *parts.Parts
	// Systemd asks for a guest whose first process is systemd; the parts, where they are given, must be of that profile.
	Systemd bool
	// CPUs and Nodes are how many processors and NUMA nodes it has; 0 is eight and two. CPUs is a multiple of Nodes. A guest whose CPUs are no more than
	// the host's is for measuring: its processors then wait for the host's the least.
	CPUs, Nodes int
	// Forward are ports of the guest, besides its own, to be reached from the host: see Guest.Forwarded.
	Forward []int
	// Dir keeps the guest's console; "" is a temporary directory, removed by Close.
	Dir string
	// BootTimeout is how long the first process may take to answer; 0 is two minutes.
	BootTimeout time.Duration
	// Log gets a line for each step; nil says nothing.
	Log func(format string, args ...any)
}

// Guest is a running guest.
type Guest struct {
	options   Options
	temporary bool
	ports     map[int]int // of the guest, to the host's
	qemu      *exec.Cmd
	said      *bytes.Buffer // by QEMU; read it after ended
	ended     chan struct{}
	closeOnce sync.Once
	closeErr  error
	client
}

// Boot starts a guest and returns when it answers. ctx bounds the boot only; Close ends the guest.
func Boot(ctx context.Context, o Options) (*Guest, error) {
	if o.Log == nil {
		o.Log = func(string, ...any) {}
	}
	if o.BootTimeout == 0 {
		o.BootTimeout = bootTimeout
	}
	if o.CPUs == 0 {
		o.CPUs = CPUs
	}
	if o.Nodes == 0 {
		o.Nodes = Nodes
	}
	if o.CPUs < 0 || o.Nodes < 0 || o.CPUs%o.Nodes != 0 {
		return nil, fmt.Errorf("guest: %d CPUs cannot be divided among %d NUMA nodes", o.CPUs, o.Nodes)
	}
	if o.Parts == nil {
		var err error
		if o.Parts, err = parts.Open(ctx, parts.Options{Systemd: o.Systemd}); err != nil {
			return nil, err
		}
	}
	var errs []error
	for range boots {
		guest, err := bootOnce(ctx, o)
		if err == nil {
			return guest, nil
		}
		errs = append(errs, err)
		o.Log("vm: %v", err)
		if ctx.Err() != nil {
			break
		}
	}
	return nil, fmt.Errorf("no guest after %d boots: %w", len(errs), errors.Join(errs...))
}

func bootOnce(ctx context.Context, o Options) (_ *Guest, err error) {
	g := &Guest{options: o, ports: map[int]int{}, said: new(bytes.Buffer), ended: make(chan struct{})}
	if o.Dir == "" {
		if g.options.Dir, err = os.MkdirTemp("", "hilbert-vm-"); err != nil {
			return nil, fmt.Errorf("guest: %w", err)
		}
		g.temporary = true
	} else if err := os.MkdirAll(o.Dir, 0o755); err != nil {
		return nil, fmt.Errorf("guest: %w", err)
	}
	begin := time.Now()
	defer func() {
		if err != nil {
			err = errors.Join(fmt.Errorf("%w; its console ends:\n%s", err, g.ConsoleEnd()), g.Close())
		}
	}()
	if err := g.forward(append([]int{wire.Port}, o.Forward...)); err != nil {
		return nil, err
	}
	g.client = newClient(g.Forwarded(wire.Port))
	argv := append(append([]string{}, o.Parts.QEMU...), machine(g.options, g.ports)...)
	g.qemu = exec.Command(argv[0], argv[1:]...)
	g.qemu.Stdout, g.qemu.Stderr = g.said, g.said
	// A test process that is killed takes its guest along.
	g.qemu.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	if err := g.start(); err != nil {
		return nil, fmt.Errorf("start QEMU: %w", err)
	}
	ready, err := g.await(ctx)
	if err != nil {
		return nil, err
	}
	if err := errors.Join(g.checkClock(ctx), g.checkTimers(ctx)); err != nil {
		return nil, err
	}
	o.Log("vm: Linux %s answers after %.1f s", ready.Kernel, time.Since(begin).Seconds())
	for _, problem := range ready.Problems {
		o.Log("vm: the guest lacks something: %s", problem)
	}
	return g, nil
}

// start runs QEMU from a goroutine that keeps its thread: the kernel takes the end of the thread that started a process for the death of
// its parent.
func (g *Guest) start() error {
	started := make(chan error, 1)
	go func() {
		// Not unlocked: the thread ends with the goroutine, after QEMU.
		runtime.LockOSThread()
		err := g.qemu.Start()
		started <- err
		if err == nil {
			_ = g.qemu.Wait() // what it said tells more
		}
		close(g.ended)
	}()
	return <-started
}

// await asks until the guest answers.
func (g *Guest) await(ctx context.Context) (wire.Ready, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, g.options.BootTimeout, fmt.Errorf("no answer after %s", g.options.BootTimeout))
	defer cancel()
	ctx, idle := g.whileBusy(ctx, bootIdle)
	defer idle()
	tick := time.NewTicker(answerPoll)
	defer tick.Stop()
	for {
		if ready, err := g.ready(ctx); err == nil {
			return ready, nil
		}
		select {
		case <-tick.C:
		case <-g.ended:
			return wire.Ready{}, fmt.Errorf("QEMU ended: %s", strings.TrimSpace(g.said.String()))
		case <-ctx.Done():
			return wire.Ready{}, fmt.Errorf("the guest: %w", context.Cause(ctx))
		}
	}
}

// checkClock is an error where the guest's time runs at another pace than the host's. A guest whose processors the host takes away while it
// measures how fast its counter counts is wrong for as long as it lives: one did 16 seconds in each, and all its timeouts passed at once.
func (g *Guest) checkClock(ctx context.Context) error {
	var there, here time.Duration
	for range clockTries {
		before, err := g.ready(ctx)
		if err != nil {
			return fmt.Errorf("the guest's clock: %w", err)
		}
		begin := time.Now()
		time.Sleep(clockWindow)
		here = time.Since(begin)
		now, err := g.ready(ctx)
		if err != nil {
			return fmt.Errorf("the guest's clock: %w", err)
		}
		// Between the readings lies at least what passed here, and at most that and two requests.
		there = time.Duration(now.UptimeMS-before.UptimeMS) * time.Millisecond
		if most := clockFactor * time.Since(begin); here < clockFactor*there && there < most {
			return nil
		}
	}
	return fmt.Errorf("the guest's clock went %s while the host's went %s", there, here)
}

// checkTimers is an error where a processor of the guest does not wake who sleeps on it. Emulation has lost the timer of one while the guest booted:
// most of it goes on, and what comes to sleep there sleeps for ever.
func (g *Guest) checkTimers(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, timersTimeout)
	defer cancel()
	ctx, idle := g.whileBusy(ctx, timersIdle)
	defer idle()
	const script = "for cpu in $(busybox seq 0 %d); do busybox taskset -c $cpu busybox usleep 1000 || exit 1; echo $cpu; done"
	if woke, err := g.Shell(ctx, fmt.Sprintf(script, g.options.CPUs-1)); err != nil {
		return fmt.Errorf("the guest's timers: who slept woke on the CPUs %q alone: %w", strings.Fields(woke), errors.Join(err, context.Cause(ctx)))
	}
	return nil
}

// forward picks a free port of the host for each of the guest's. Another process may take it meanwhile: QEMU then ends, and the next boot
// picks others.
func (g *Guest) forward(ports []int) error {
	for _, port := range ports {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return fmt.Errorf("a port for the guest: %w", err)
		}
		defer l.Close() // all at once, so that no two get the same
		g.ports[port] = l.Addr().(*net.TCPAddr).Port
	}
	return nil
}

// Forwarded is where on the host a port of the guest is reached, as host:port; "" if it was not in Options.Forward.
func (g *Guest) Forwarded(port int) string {
	if g.ports[port] == 0 {
		return ""
	}
	return net.JoinHostPort("127.0.0.1", strconv.Itoa(g.ports[port]))
}

// Ended is closed when the guest has ended, by itself or by Close.
func (g *Guest) Ended() <-chan struct{} { return g.ended }

// Console is the file that the kernel's messages go to.
func (g *Guest) Console() string { return filepath.Join(g.options.Dir, "console") }

// ConsoleEnd is what the kernel said last, or why that cannot be read.
func (g *Guest) ConsoleEnd() string {
	const most = 6000
	text, err := os.ReadFile(g.Console())
	if err != nil {
		return err.Error()
	}
	return string(text[max(0, len(text)-most):])
}

// Close kills the guest and waits for its end. It may be called more than once.
func (g *Guest) Close() error {
	g.closeOnce.Do(func() {
		var errs []error
		if g.qemu != nil && g.qemu.Process != nil {
			if err := g.qemu.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
				errs = append(errs, fmt.Errorf("end the guest: %w", err))
			}
			select {
			case <-g.ended:
			case <-time.After(closeTimeout):
				errs = append(errs, fmt.Errorf("QEMU (process %d) does not end", g.qemu.Process.Pid))
			}
		}
		if g.temporary {
			errs = append(errs, os.RemoveAll(g.options.Dir))
		}
		g.closeErr = errors.Join(errs...)
	})
	return g.closeErr
}
