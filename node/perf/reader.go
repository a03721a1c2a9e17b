package perf

import (
	"errors"
	"fmt"
	"slices"
	"time"
)

// Why nothing is counted.
var (
	// ErrAbsent: the processor has no such counters, or the hypervisor or the kernel does not show them.
	ErrAbsent = errors.New("the machine shows no counters")
	// ErrRefused: they may be there, and must not be used.
	ErrRefused = errors.New("the agent lacks the capability PERFMON")
	// ErrGone: the cgroup is not there any more.
	ErrGone = errors.New("the cgroup is gone")
)

// Kernel opens counters.
type Kernel interface {
	// Open begins to count what a cgroup and all below it do, with one Counter for each CPU that is online. The error is one of the above where it is one of these.
	Open(cgroup string) ([]Counter, error)
	// Files is how many files Open opens for a cgroup.
	Files() int
}

// Counter counts what a cgroup does on a CPU.
type Counter interface {
	Read() (Count, error)
	Close() error
}

// Count is what was counted since a Counter was opened.
type Count struct {
	// Enabled is nanoseconds that the cgroup ran on the CPU, Running those of them in which the processor counted: it has few counters, and others use them too.
	Enabled, Running uint64
	// Cycles and Instructions were counted at the same time.
	Cycles, Instructions uint64
}

// Params tune a Reader.
type Params struct {
	// MaxFiles bounds the files that are open.
	MaxFiles int
	// Turn is for how long a cgroup is counted where not all can be.
	Turn time.Duration
	// Retry is how long after a refusal it is tried again.
	Retry time.Duration
}

// DefaultParams have room for 64 services on 128 CPUs. A turn is long enough for harm to be told in it, which takes three windows of ten seconds.
func DefaultParams() Params {
	return Params{MaxFiles: 16384, Turn: 5 * time.Minute, Retry: 10 * time.Minute}
}

const (
	// leastShare of the time in which a cgroup ran has to be counted, and leastInstructions: fewer say nothing of the next ones.
	leastShare        = 0.1
	leastInstructions = 1e6
	// maxInterval is the longest time that a value may be of: what was long ago is another load.
	maxInterval = time.Minute
)

// Status is what a Reader does.
type Status struct {
	// Counted are the cgroups with open counters, Waiting those that wait for their turn, Files what is open.
	Counted, Waiting, Files int
	// Why says why nothing is counted; nil: it is, as far as anything is wanted.
	Why error
}

// Reader reads the counters of the cgroups that are wanted. It is used by one goroutine.
type Reader struct {
	kernel Kernel
	params Params
	groups map[string]*group
	first  int           // of those wanted, whose turn it is
	turned time.Duration // when that turn began
	retry  time.Duration
	status Status
	last   time.Duration
}

// group are the counters of one cgroup.
type group struct {
	counters []Counter
	counts   []Count
	good     []bool // whether counts is a reading
	at       time.Duration
	cycles   float64 // per instruction; 0: not known
}

// NewReader returns a Reader that counts nothing yet.
func NewReader(k Kernel, p Params) *Reader {
	return &Reader{kernel: k, params: p, groups: make(map[string]*group)}
}

// Read reads the counters of cgroups, the most wanted first. now is monotonic. What is not wanted any more is closed.
func (r *Reader) Read(now time.Duration, wanted []string) {
	if now < r.last {
		r.Close()
		r.turned, r.retry = now, now
	}
	r.last = now
	chosen := r.choose(now, wanted)
	for cgroup, g := range r.groups {
		if !slices.Contains(chosen, cgroup) {
			g.close()
			delete(r.groups, cgroup)
		}
	}
	r.status.Waiting = len(wanted) - len(chosen)
	switch {
	case len(wanted) == 0:
		r.status.Why = nil
	case len(chosen) == 0:
		r.status.Why = fmt.Errorf("one cgroup needs %d open files, and there may be %d", r.kernel.Files(), r.params.MaxFiles)
	}
	for _, cgroup := range chosen {
		if err := r.read(now, cgroup); err != nil {
			r.status.Why = err
			r.closeAll()
			break
		}
	}
	r.status.Counted, r.status.Files = len(r.groups), len(r.groups)*r.kernel.Files()
}

// choose returns the cgroups that have their turn.
func (r *Reader) choose(now time.Duration, wanted []string) []string {
	room := r.params.MaxFiles / max(r.kernel.Files(), 1)
	if len(wanted) <= room {
		r.first, r.turned = 0, now
		return wanted
	}
	if now-r.turned >= r.params.Turn {
		r.first, r.turned = r.first+room, now
	}
	r.first %= len(wanted)
	out := make([]string, 0, room)
	for i := range room {
		out = append(out, wanted[(r.first+i)%len(wanted)])
	}
	return out
}

// read reads the counters of a cgroup, and opens them where they are not. The error is one that holds for all.
func (r *Reader) read(now time.Duration, cgroup string) error {
	g := r.groups[cgroup]
	if g == nil {
		if r.status.Why != nil && now < r.retry {
			return r.status.Why
		}
		list, err := r.kernel.Open(cgroup)
		if errors.Is(err, ErrGone) {
			return nil
		}
		if err != nil {
			r.retry = now + r.params.Retry
			return err
		}
		r.status.Why = nil
		g = &group{counters: list, counts: make([]Count, len(list)), good: make([]bool, len(list))}
		r.groups[cgroup] = g
	}
	g.read(now)
	return nil
}

// read takes what was counted since the last time.
func (g *group) read(now time.Duration) {
	var cycles, instructions, enabled, running float64
	for i, c := range g.counters {
		was, had := g.counts[i], g.good[i]
		is, err := c.Read()
		g.counts[i], g.good[i] = is, err == nil
		if !had || err != nil || is.Enabled < was.Enabled || is.Running < was.Running || is.Cycles < was.Cycles || is.Instructions < was.Instructions {
			continue
		}
		ran, counted := float64(is.Enabled-was.Enabled), float64(is.Running-was.Running)
		enabled, running = enabled+ran, running+counted
		if counted > 0 {
			cycles += float64(is.Cycles-was.Cycles) * ran / counted
			instructions += float64(is.Instructions-was.Instructions) * ran / counted
		}
	}
	took := now - g.at
	g.at, g.cycles = now, 0
	if took <= maxInterval && running > 0 && running >= leastShare*enabled && instructions >= leastInstructions {
		g.cycles = cycles / instructions
	}
}

// CyclesPerInstruction is what an instruction of a cgroup took on average between the last two readings; false: it is not known.
func (r *Reader) CyclesPerInstruction(cgroup string) (float64, bool) {
	g := r.groups[cgroup]
	if g == nil || g.cycles <= 0 {
		return 0, false
	}
	return g.cycles, true
}

// Status is what the Reader does.
func (r *Reader) Status() Status { return r.status }

// Close closes all counters. The Reader can still be used.
func (r *Reader) Close() {
	r.closeAll()
	r.status = Status{}
}

func (r *Reader) closeAll() {
	for cgroup, g := range r.groups {
		g.close()
		delete(r.groups, cgroup)
	}
}

func (g *group) close() {
	for _, c := range g.counters {
		//nolint:errcheck // what was only read has nothing to lose
		c.Close()
	}
}
