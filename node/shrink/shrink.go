package shrink

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"sync"
	"sync/atomic"

	"hilbert.dev/hilbert/api/spec"
)

const (
	// MaxStep is the most that one write asks for, in bytes: a write cannot be called back.
	MaxStep = spec.MaxMemoryWrite
	// leastStep is the least, unless there is less to do: below it the overhead of a write counts.
	leastStep = spec.LeastMemoryWrite
	// MaxWorkers bounds Params.Workers: each may hold a thread of the process in the kernel.
	MaxWorkers = spec.MaxMemoryWorkers
)

// Kernel is the cgroup v2 hierarchy; paths are below its root. A write returns when the kernel has answered: enforce.Files does, os.WriteFile
// would wait for ever when memory.reclaim answers EAGAIN. Several goroutines use it at once.
type Kernel interface {
	Read(path string) (string, error)
	Write(path, value string) error
}

// Params are how requests are carried out.
type Params = spec.MemoryWrites

// Defaults returns what suits a node with some hundred pods.
func Defaults() Params { return spec.DefaultNodeMemory().Writes }

// bounded returns p with every value in its bounds.
func bounded(p Params) Params {
	p.Step = min(max(p.Step, leastStep), MaxStep)
	p.Workers = min(max(p.Workers, 1), MaxWorkers)
	return p
}

// Request asks for memory of a cgroup, with all below it.
type Request struct {
	// ID is chosen by the caller, and comes back in the Result.
	ID string
	// Cgroup is a directory below the root of the hierarchy.
	Cgroup string
	Bytes  int64
	// FileOnly takes page cache alone. Kernels before 6.9 cannot be asked that: the Outcome is then Unsupported, and nothing is taken.
	FileOnly bool
}

// Why a request is not taken.
var (
	ErrBusy    = errors.New("the cgroup is being shrunk")
	ErrFull    = errors.New("as many cgroups are being shrunk as may be at once")
	ErrStopped = errors.New("cgroups are not shrunk: the agent is not running")
	ErrNothing = errors.New("a request needs a cgroup and more than no bytes")
)

// Shrinker carries requests to reclaim memory out. It keeps them off the agent's loop, because one write to memory.reclaim can take seconds, and it stops
// within one write when online pods feel pressure.
type Shrinker struct {
	kernel Kernel
	params atomic.Pointer[Params]
	halt   func() bool
	told   func(Result)

	mu      sync.Mutex
	ctx     context.Context //nolint:containedctx // Run's: the goroutines that Ask starts end with it
	busy    map[string]bool
	counts  Counts
	workers sync.WaitGroup
}

// New returns a Shrinker. halt says whether online pods feel pressure now; it is called before each write, by several goroutines. told gets
// what came of each request, from the goroutine that did it; it may wait for the agent's loop.
func New(k Kernel, p Params, halt func() bool, told func(Result)) *Shrinker {
	s := &Shrinker{kernel: k, halt: halt, told: told, busy: make(map[string]bool)}
	s.SetParams(p)
	return s
}

// SetParams changes the parameters, also of what is under way.
func (s *Shrinker) SetParams(p Params) { s.params.Store(new(bounded(p))) }

// Run takes requests until ctx ends, and returns when those under way have ended: within one write of each.
func (s *Shrinker) Run(ctx context.Context) {
	s.mu.Lock()
	s.ctx = ctx
	s.mu.Unlock()
	<-ctx.Done()
	s.mu.Lock() // no worker is added after this
	s.ctx = nil
	s.mu.Unlock()
	s.workers.Wait()
}

// Ask has a request carried out, and returns at once. The error says why it is not accepted; then nothing is reported for it.
func (s *Shrinker) Ask(r Request) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	err := s.refusal(&r)
	if err != nil {
		s.counts.Refused++
		return fmt.Errorf("shrink %q by %d: %w", r.Cgroup, r.Bytes, err)
	}
	s.busy[r.Cgroup] = true
	s.counts.Requests++
	ctx := s.ctx
	s.workers.Go(func() {
		result := s.work(ctx, r)
		s.mu.Lock()
		delete(s.busy, r.Cgroup)
		s.counts.add(&result)
		s.mu.Unlock()
		s.told(result)
	})
	return nil
}

// refusal is called with mu held.
func (s *Shrinker) refusal(r *Request) error {
	switch {
	case r.Cgroup == "" || r.Bytes <= 0:
		return ErrNothing
	case s.ctx == nil || s.ctx.Err() != nil:
		return ErrStopped
	case s.busy[r.Cgroup]:
		return ErrBusy
	case len(s.busy) >= s.params.Load().Workers:
		return ErrFull
	}
	return nil
}

// Busy reports whether a request of a cgroup is under way.
func (s *Shrinker) Busy(cgroup string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.busy[cgroup]
}

// Counts are what was done since the Shrinker was made, but for Working.
type Counts struct {
	Requests, Refused uint64 // taken, and not taken
	Working           int    // under way now
	Steps             uint64 // writes
	Asked, Got        int64  // bytes, of those that have ended
	Seconds           float64
	Outcomes          map[Outcome]uint64
}

// Counts returns them.
func (s *Shrinker) Counts() Counts {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := s.counts
	out.Working, out.Outcomes = len(s.busy), maps.Clone(s.counts.Outcomes)
	return out
}

func (c *Counts) add(r *Result) {
	if c.Outcomes == nil {
		c.Outcomes = make(map[Outcome]uint64)
	}
	c.Outcomes[r.Outcome]++
	c.Steps += uint64(r.Steps) //nolint:gosec // a count
	c.Asked += r.Bytes
	c.Got += r.Got
	c.Seconds += r.Took.Seconds()
}
