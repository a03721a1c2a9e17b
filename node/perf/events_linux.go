package perf

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"hilbert.dev/hilbert/topology"
)

// Events counts by perf_event_open. root is where cgroup v2 is mounted, online the kernel's list of CPUs, such as "/sys/devices/system/cpu/online".
type Events struct {
	root, online string
	events       [2]event // what cycles and instructions are; tests have others
}

// event is one of the kernel's: a kind and a number.
type event struct {
	kind   uint32
	config uint64
}

// NewEvents returns a Kernel of the processor's cycles and instructions.
func NewEvents(root, online string) *Events {
	return &Events{root, online, [2]event{{unix.PERF_TYPE_HARDWARE, unix.PERF_COUNT_HW_CPU_CYCLES}, {unix.PERF_TYPE_HARDWARE, unix.PERF_COUNT_HW_INSTRUCTIONS}}}
}

// MaxFiles is how many of the files that this process may open counters may take: a quarter, and no more than most.
func MaxFiles(most int) int {
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		return 0
	}
	return int(min(limit.Cur/4, uint64(most))) //nolint:gosec // no more than most
}

// cpus are those that are online now.
func (p *Events) cpus() (topology.CPUSet, error) {
	text, err := os.ReadFile(p.online)
	if err != nil {
		return topology.CPUSet{}, err
	}
	return topology.ParseCPUSet(strings.TrimSpace(string(text)))
}

// Files implements Kernel. Where the CPUs are not known, none can be counted.
func (p *Events) Files() int {
	cpus, err := p.cpus()
	if err != nil {
		return 0
	}
	return len(p.events) * cpus.Len()
}

// Open implements Kernel.
func (p *Events) Open(cgroup string) (out []Counter, err error) {
	cpus, err := p.cpus()
	if err != nil {
		return nil, fmt.Errorf("list CPUs: %w", err)
	}
	dir, err := unix.Open(filepath.Join(p.root, cgroup), unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrGone, err)
	}
	defer func() { _ = unix.Close(dir) }() // the kernel has its own hold on the cgroup
	for cpu := range cpus.All() {
		c, err := p.open(dir, int(cpu))
		if errors.Is(err, unix.ENODEV) && len(out) > 0 {
			continue // it has gone offline
		}
		if err != nil {
			for _, c := range out {
				err = errors.Join(err, c.Close())
			}
			if p.gone(dir, cgroup) { // the kernel says of it what it says of counters that are not there
				return nil, fmt.Errorf("%w: %w", ErrGone, err)
			}
			return nil, fmt.Errorf("%w: perf_event_open for %s on CPU %d: %w", why(err), cgroup, cpu, err)
		}
		out = append(out, c)
	}
	return out, nil
}

// gone reports whether a cgroup that was opened is not there any more, or another one has its name.
func (p *Events) gone(dir int, cgroup string) bool {
	var was, is unix.Stat_t
	return unix.Fstat(dir, &was) != nil || unix.Stat(filepath.Join(p.root, cgroup), &is) != nil || was.Ino != is.Ino || was.Dev != is.Dev
}

// why is which of the reasons a refusal is.
func why(err error) error {
	switch {
	case errors.Is(err, unix.EPERM), errors.Is(err, unix.EACCES):
		return ErrRefused
	case errors.Is(err, unix.EMFILE), errors.Is(err, unix.ENFILE):
		return errors.New("too many files are open")
	}
	return ErrAbsent
}

// open opens the events of a CPU as one group, which is on the processor as a whole or not at all.
func (p *Events) open(dir, cpu int) (*perfCounter, error) {
	c := &perfCounter{files: [2]int{-1, -1}}
	for i, e := range p.events {
		attr := unix.PerfEventAttr{
			Type: e.kind, Size: uint32(unix.PERF_ATTR_SIZE_VER1), Config: e.config, Bits: unix.PerfBitExcludeHv,
			Read_format: unix.PERF_FORMAT_GROUP | unix.PERF_FORMAT_TOTAL_TIME_ENABLED | unix.PERF_FORMAT_TOTAL_TIME_RUNNING,
		}
		file, err := unix.PerfEventOpen(&attr, dir, cpu, c.files[0], unix.PERF_FLAG_PID_CGROUP|unix.PERF_FLAG_FD_CLOEXEC)
		if err != nil {
			return nil, errors.Join(err, c.Close())
		}
		c.files[i] = file
	}
	return c, nil
}

// perfCounter are the two events of one CPU; the first leads.
type perfCounter struct{ files [2]int }

// Read implements Counter.
func (c *perfCounter) Read() (Count, error) {
	var text [5 * 8]byte // how many, enabled, running, and the values
	n, err := unix.Read(c.files[0], text[:])
	if err != nil || n != len(text) {
		return Count{}, fmt.Errorf("read a counter: %d bytes: %w", n, errors.Join(err, errShort(n, len(text))))
	}
	at := func(i int) uint64 { return binary.NativeEndian.Uint64(text[8*i:]) }
	return Count{Enabled: at(1), Running: at(2), Cycles: at(3), Instructions: at(4)}, nil
}

// errShort says that a reading has not all: the group's file ends when an event of it has failed.
func errShort(n, want int) error {
	if n < want {
		return fmt.Errorf("want %d bytes", want)
	}
	return nil
}

// Close implements Counter.
func (c *perfCounter) Close() (err error) {
	for i, file := range c.files {
		if file >= 0 {
			err = errors.Join(err, unix.Close(file))
			c.files[i] = -1
		}
	}
	return err
}
