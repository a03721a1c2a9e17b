package bench

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

const (
	// readyLine is what a child prints when it can be used: a control plane part serves, a scheduler is synced.
	readyLine = "ready"
	// childReadyTimeout bounds the time to that line.
	childReadyTimeout = 120 * time.Second
	// childStopTimeout is how long a child may take to end by itself before it is killed.
	childStopTimeout = 10 * time.Second
	// clockTick is the kernel's unit of process times in /proc, USER_HZ, which Linux fixes at 100.
	clockTick = 10 * time.Millisecond
	// logTail is how much of a child's log an error shows, in bytes.
	logTail = 2000
)

// process is a child: this same binary under another subcommand.
type process struct {
	name  string
	cmd   *exec.Cmd
	stdin io.Closer // its end means to the child that the parent is gone
	log   string
	ended chan struct{}
	err   error
}

// Ready says to the parent of this process that it can be used.
func Ready(w io.Writer) error {
	_, err := fmt.Fprintln(w, readyLine)
	return err
}

// EndWithParent returns a context that ends when the parent of this process does: when r, its standard input, ends.
func EndWithParent(ctx context.Context, r io.Reader) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	go func() {
		_, _ = io.Copy(io.Discard, r)
		cancel()
	}()
	return ctx, cancel
}

// spawn runs this binary with args, its log in dir, and returns when it is ready.
func spawn(ctx context.Context, dir, name string, args ...string) (*process, error) {
	binary, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("find this binary: %w", err)
	}
	p := &process{name: name, log: filepath.Join(dir, name+".log"), ended: make(chan struct{})}
	log, err := os.Create(p.log)
	if err != nil {
		return nil, fmt.Errorf("log of %s: %w", name, err)
	}
	defer log.Close()
	p.cmd = exec.Command(binary, args...)
	p.cmd.Stderr = log
	// A group of its own: Ctrl-C is for the harness, which then ends its children in order.
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	stdin, err := p.cmd.StdinPipe()
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	p.stdin = stdin
	stdout, err := p.cmd.StdoutPipe()
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	if err := p.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	ready := make(chan struct{})
	go p.follow(stdout, ready)
	ctx, cancel := context.WithTimeoutCause(ctx, childReadyTimeout, fmt.Errorf("not ready after %s", childReadyTimeout))
	defer cancel()
	select {
	case <-ready:
		return p, nil
	case <-p.ended:
		return nil, p.died()
	case <-ctx.Done():
		p.stop()
		return nil, fmt.Errorf("%s: %w\n%s", name, context.Cause(ctx), p.tail())
	}
}

// Child is a process of this binary under another subcommand, for packages beside the benchmarks.
type Child struct{ *process }

// Spawn runs this binary with args, which has to call EndWithParent and Ready. Its log is NAME.log in dir.
func Spawn(ctx context.Context, dir, name string, args ...string) (Child, error) {
	p, err := spawn(ctx, dir, name, args...)
	return Child{p}, err
}

// Stop ends the child and waits for that.
func (c Child) Stop() { c.stop() }

// Ended is closed when the child has ended, and Died says how then.
func (c Child) Ended() <-chan struct{} { return c.ended }

// Cost is the CPU time that the child has used so far, and the largest resident memory that it had, in bytes.
func (c Child) Cost() (cpu time.Duration, peak int64, err error) {
	if cpu, err = c.cpu(); err != nil {
		return 0, 0, err
	}
	peak, err = c.peak()
	return cpu, peak, err
}

// Died says how the child ended, with the end of its log.
func (c Child) Died() error { return c.died() }

// follow reads what the child prints until it ends, and reaps it.
func (p *process) follow(stdout io.Reader, ready chan<- struct{}) {
	for lines := bufio.NewScanner(stdout); lines.Scan(); {
		if ready != nil && lines.Text() == readyLine {
			close(ready)
			ready = nil
		}
	}
	p.err = p.cmd.Wait()
	close(p.ended)
}

// died says how a child ended that should not have.
func (p *process) died() error {
	return fmt.Errorf("%s ended (%w), its log ends with:\n%s", p.name, orExit(p.err), p.tail())
}

func orExit(err error) error {
	if err == nil {
		return errors.New("exit status 0")
	}
	return err
}

func (p *process) tail() string {
	text, err := os.ReadFile(p.log)
	if err != nil {
		return err.Error()
	}
	return string(text[max(0, len(text)-logTail):])
}

// stop ends the child: by its own means first.
func (p *process) stop() {
	_ = p.cmd.Process.Signal(syscall.SIGTERM) // fails only if it has ended
	_ = p.stdin.Close()
	select {
	case <-p.ended:
	case <-time.After(childStopTimeout):
		_ = p.cmd.Process.Kill()
		<-p.ended
	}
}

// cpu is the user and system time that the process has used so far, to 10 ms.
func (p *process) cpu() (time.Duration, error) {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", p.cmd.Process.Pid))
	if err != nil {
		return 0, fmt.Errorf("CPU time of %s: %w", p.name, err)
	}
	used, err := parseStat(stat)
	if err != nil {
		return 0, fmt.Errorf("CPU time of %s: %w", p.name, err)
	}
	return used, nil
}

// parseStat adds utime and stime, the 14th and 15th field. The 2nd, the command in parentheses, may hold anything.
func parseStat(stat []byte) (time.Duration, error) {
	end := bytes.LastIndexByte(stat, ')')
	fields := strings.Fields(string(stat[end+1:]))
	const utime, stime = 14 - 3, 15 - 3
	if end < 0 || len(fields) <= stime {
		return 0, fmt.Errorf("/proc stat has %d fields after the command, want more than %d", len(fields), stime)
	}
	var ticks int64
	for _, i := range []int{utime, stime} {
		n, err := strconv.ParseInt(fields[i], 10, 64)
		if err != nil {
			return 0, fmt.Errorf("/proc stat: %w", err)
		}
		ticks += n
	}
	return time.Duration(ticks) * clockTick, nil
}

// forgetPeak starts the peak of resident memory anew.
func (p *process) forgetPeak() error {
	const resetPeak = "5"
	if err := os.WriteFile(fmt.Sprintf("/proc/%d/clear_refs", p.cmd.Process.Pid), []byte(resetPeak), 0); err != nil {
		return fmt.Errorf("reset peak memory of %s: %w", p.name, err)
	}
	return nil
}

// peak is the largest resident memory since forgetPeak, in bytes.
func (p *process) peak() (int64, error) {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.cmd.Process.Pid))
	if err != nil {
		return 0, fmt.Errorf("memory of %s: %w", p.name, err)
	}
	kib, err := parsePeak(string(status))
	if err != nil {
		return 0, fmt.Errorf("memory of %s: %w", p.name, err)
	}
	return kib << 10, nil
}

// parsePeak returns VmHWM in KiB.
func parsePeak(status string) (int64, error) {
	for line := range strings.Lines(status) {
		value, found := strings.CutPrefix(line, "VmHWM:")
		if !found {
			continue
		}
		kib, err := strconv.ParseInt(strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(value), "kB")), 10, 64)
		if err != nil {
			return 0, fmt.Errorf("VmHWM: %w", err)
		}
		return kib, nil
	}
	return 0, errors.New("no VmHWM in /proc status")
}

// OwnCPU is the user and system time of this process.
func OwnCPU() (time.Duration, error) {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		return 0, fmt.Errorf("CPU time of this process: %w", err)
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano()), nil
}

// OwnPeak is the largest resident set of this process so far, in bytes.
func OwnPeak() (int64, error) {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		return 0, fmt.Errorf("memory of this process: %w", err)
	}
	return usage.Maxrss << 10, nil
}
