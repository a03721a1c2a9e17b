package observe

import (
	"errors"
	"io/fs"
	"math/rand/v2"
	"os"
	"path"
	"slices"
	"strings"
	"time"
)

// The bounds of a Reader's memory. What is beyond is left out and counted.
const (
	// MaxCgroups is how many cgroups are read at one Read: 250 pods, a pause and two containers each, fit. Of more each has its turn, and the samples of the others
	// say how old they are. MaxListed is how many there may be at all.
	MaxCgroups = 1024
	MaxListed  = 4 * MaxCgroups
	// MaxThreads is how many threads of one cgroup are read for its run delay at one turn. Of more, a sample is read.
	MaxThreads = 256
	// maxFile is the longest file that is read whole: /proc/zoneinfo of 8 NUMA nodes and 1,024 CPUs is the longest we know.
	maxFile = 2 << 20
	// maxFree is how many observations that were given back are kept for reuse.
	maxFree = 4
)

// Params tune a Reader. A zero field has its default.
type Params struct {
	// CgroupRoot is where cgroup v2 is mounted, below the root: "sys/fs/cgroup".
	CgroupRoot string
	// MinInterval and MaxInterval are what a rate may be taken over: 100 ms and 1 min.
	MinInterval, MaxInterval time.Duration
	// MaxAge is for how long a value that can no longer be read is Stale, before it is Missing: 30 s.
	MaxAge time.Duration
	// SlowEvery is at which Read the counters are read again that change slowly or cost much: all but cpu.stat, cpu.pressure and
	// memory.current. Cgroups take turns. 1 reads everything each time; the default is 5.
	SlowEvery int
	// MaxOpenFiles is how many files stay open between reads: 4096, each some 300 bytes of kernel memory, and a page while it is read.
	MaxOpenFiles int
	// ThreadBudget is how many threads are read at one Read: 512. Cgroups take turns.
	ThreadBudget int
	// Seed is of the samples of threads.
	Seed uint64
	// PageSize is the kernel's: that of this machine.
	PageSize int
}

func (p Params) withDefaults() Params {
	orDefault := func(value *int, standard int) {
		if *value <= 0 {
			*value = standard
		}
	}
	orTime := func(value *time.Duration, standard time.Duration) {
		if *value <= 0 {
			*value = standard
		}
	}
	if p.CgroupRoot == "" {
		p.CgroupRoot = "sys/fs/cgroup"
	}
	orTime(&p.MinInterval, 100*time.Millisecond)
	orTime(&p.MaxInterval, time.Minute)
	orTime(&p.MaxAge, 30*time.Second)
	orDefault(&p.SlowEvery, 5)
	orDefault(&p.MaxOpenFiles, 4096)
	orDefault(&p.ThreadBudget, 512)
	orDefault(&p.PageSize, os.Getpagesize())
	p.ThreadBudget = max(p.ThreadBudget, MaxThreads) // or a cgroup of MaxThreads would never have its turn
	return p
}

// Cgroup is one to be observed.
type Cgroup struct {
	// ID names it in the observation.
	ID string
	// Dir is its directory below the mount of cgroup v2, as the runtime names it, with or without a slash before it.
	Dir string
	// Threads asks for the run delay of its threads, which says at each Read how long they waited for a CPU; so cpu.pressure is then among what is read
	// slowly. It is meant for containers: a pod's would be read twice.
	Threads bool
	// Peak asks for the peaks of its memory.
	Peak bool
}

// Reader reads observations. It protects its caller from what the kernel's files may do: they vanish between two reads, are cut off, and their counters
// go backwards. Each of these gives a Sample that says so, and never a 0. It is used by one goroutine.
//
// Example: the agent reads 100 containers each second. The Reader keeps their files open, so that a read costs one system call per file. A container
// ends: its samples are Missing, and its files are closed when it is no longer asked for.
type Reader struct {
	files  Files
	params Params
	limits limits
	buffer []byte

	node   *node
	slots  map[string]*slot // by Cgroup.Dir
	list   []*slot          // of the current Read, as the caller listed them
	listed int              // how many slots are in list, each counted once
	turn   int              // where in list the reading of threads begins
	first  int              // where in list the reading of cgroups begins
	tids   [MaxThreads]int32
	sample []int32 // of tids: the threads that the next turn of the cgroup reads that is read now
	random *rand.Rand
	tick   int // reads so far
	made   int // slots so far, which spreads their slow turns
	last   time.Duration
	counts Counts
	free   []*Observation
}

// New returns a Reader of the files of a machine; Root("/") are those of this one. It reads nothing yet.
func New(files Files, params Params) *Reader {
	params = params.withDefaults()
	return &Reader{
		files: files, params: params, buffer: make([]byte, maxFile), node: newNode(int64(params.PageSize)), slots: map[string]*slot{},
		random: rand.New(rand.NewPCG(params.Seed, 0)), //nolint:gosec // a sample, not a secret
		limits: limits{params.MinInterval, params.MaxInterval, params.MaxAge},
	}
}

// Read observes the node and the cgroups. now is monotonic; what it counts from does not matter. It never fails: what cannot be read is so
// in the samples. The observation is the caller's, for ever or until Recycle.
func (r *Reader) Read(now time.Duration, cgroups []Cgroup) *Observation {
	if r.tick > 0 && now < r.last {
		r.counts.ClockJumps++
		r.forget()
	}
	r.tick, r.last = r.tick+1, now
	if len(cgroups) > MaxListed {
		r.counts.DroppedCgroups += uint64(len(cgroups) - MaxListed)
		cgroups = cgroups[:MaxListed]
	}
	o := r.take(now, len(cgroups))
	r.readNode(now)
	r.list, r.listed = r.list[:0], 0
	for i := range cgroups {
		s := r.slot(&cgroups[i])
		r.list = append(r.list, s)
		if s.tick != r.tick {
			s.tick, s.wanted, s.peaks = r.tick, cgroups[i].Threads, cgroups[i].Peak
			r.listed++
			if r.hasTurn(i, len(cgroups)) {
				r.readCgroup(now, s)
			}
		}
		s.wanted = s.wanted || cgroups[i].Threads
	}
	r.first = (r.first + MaxCgroups) % max(len(cgroups), 1)
	r.readThreads(now)
	r.node.describe(now, r.limits, &o.Node, &r.counts)
	for i, s := range r.list {
		o.Cgroups[i] = CgroupUse{ID: cgroups[i].ID, Dir: cgroups[i].Dir}
		s.describe(now, r.limits, &o.Cgroups[i], &r.counts)
	}
	r.sweep()
	o.Counts = r.counts
	return o
}

// hasTurn reports whether the cgroup at a place of a list of n is read now: MaxCgroups from first on are.
func (r *Reader) hasTurn(at, n int) bool { return n <= MaxCgroups || (at-r.first+n)%n < MaxCgroups }

// forget drops all counters, since the clock went back: there is no telling how old they are.
func (r *Reader) forget() {
	for i := range r.node.sources {
		r.node.sources[i].forget()
	}
	for _, s := range r.slots {
		for i := range s.sources {
			s.sources[i].forget()
		}
	}
}

// Recycle gives an observation back, to be overwritten by a later Read. It must not be used any more. nil is allowed.
func (r *Reader) Recycle(o *Observation) {
	if o != nil && len(r.free) < maxFree && !slices.Contains(r.free, o) {
		r.free = append(r.free, o)
	}
}

// take returns an observation with room for n cgroups.
func (r *Reader) take(now time.Duration, cgroups int) *Observation {
	var o *Observation
	if last := len(r.free) - 1; last >= 0 {
		o, r.free = r.free[last], r.free[:last]
	} else {
		o = &Observation{}
	}
	if cap(o.Cgroups) < cgroups {
		o.Cgroups = make([]CgroupUse, cgroups)
	}
	o.At, o.Cgroups = now, o.Cgroups[:cgroups]
	return o
}

// slot is what is kept of a cgroup between reads.
func (r *Reader) slot(c *Cgroup) *slot {
	s, ok := r.slots[c.Dir]
	if !ok {
		below := strings.TrimSuffix(strings.TrimPrefix(c.Dir, "/"), "/")
		s = newSlot(path.Join(r.params.CgroupRoot, below), r.made)
		if below != "" && !fs.ValidPath(below) { // an element "..", or none
			s.refuse(BadPath)
		}
		r.made++
		r.slots[c.Dir] = s
	}
	return s
}

// sweep forgets the cgroups that the caller no longer lists.
func (r *Reader) sweep() {
	if len(r.slots) == r.listed {
		return
	}
	for dir, s := range r.slots {
		if s.tick != r.tick {
			r.closeSlot(s)
			delete(r.slots, dir)
		}
	}
}

// Close closes all files. The Reader can still be used, and starts over.
func (r *Reader) Close() {
	for dir, s := range r.slots {
		r.closeSlot(s)
		delete(r.slots, dir)
	}
	for i := range r.node.sources {
		r.close(&r.node.sources[i].file)
	}
}

func (r *Reader) close(f *File) {
	if *f == nil {
		return
	}
	//nolint:errcheck // a file that was only read has nothing to lose
	(*f).Close()
	*f = nil
	r.counts.OpenFiles--
}

// source is one file and the state of its reading.
type source struct {
	track
	file   File
	shape  shape
	absent bool // it could not be opened: it is tried again only at slow turns
	opened int  // how often it was
}

// errReplaced says that the cgroup is another one than it was.
var errReplaced = errors.New("the cgroup was made anew")

// load reads a file as it is now, opening it where it is not open. owner is nil for files of the node. The bytes are good until the next load.
func (r *Reader) load(s *source, dir, name string, owner *slot) ([]byte, Reason) {
	if s.file != nil {
		data, err := readInto(s.file, r.buffer, s.shape)
		if err == nil {
			return r.whole(data, s.shape)
		}
		why := reasonOf(err)
		if why != Gone && why != Absent {
			return nil, why
		}
		r.close(&s.file) // its cgroup is gone; there may be a new one of the same name
	}
	file, err := r.open(path.Join(dir, name), owner)
	if errors.Is(err, errReplaced) {
		file, err = r.open(path.Join(dir, name), owner)
	}
	if err != nil {
		s.absent = true
		return nil, r.refusal(err, owner)
	}
	s.absent = false
	s.opened++
	data, err := readInto(file, r.buffer, s.shape)
	r.keep(file, &s.file)
	if err != nil {
		return nil, reasonOf(err)
	}
	return r.whole(data, s.shape)
}

// open opens a file and sees to it that its cgroup is the one that the slot is about. The identity is asked for after the file is open: asked
// before, a cgroup that was created again in between would pass for the old one.
func (r *Reader) open(name string, owner *slot) (File, error) {
	open := r.files.Open
	if peaks, can := r.files.(PeakFiles); can && path.Base(name) == cgroupNames[filePeak] {
		open = peaks.OpenPeak
	}
	file, err := open(name)
	if err != nil || owner == nil {
		return file, err
	}
	identity, err := r.files.Identity(owner.dir)
	if err == nil && identity != owner.identity {
		if owner.identity != 0 {
			r.counts.Replaced++
			err = errReplaced
		}
		r.closeSlot(owner)
		owner.reset(identity)
	}
	if err != nil {
		//nolint:errcheck // the identity is what failed
		file.Close()
		return nil, err
	}
	return file, nil
}

// refusal tells a file that a cgroup does not have from a cgroup that is gone.
func (r *Reader) refusal(err error, owner *slot) Reason {
	if errors.Is(err, errReplaced) {
		return Gone // twice in a moment: the next read will see
	}
	why := reasonOf(err)
	if why == Absent && owner != nil {
		if _, err := r.files.Identity(owner.dir); errors.Is(err, fs.ErrNotExist) {
			return Gone
		}
	}
	return why
}

// keep holds a file open for the next read, if there is room.
func (r *Reader) keep(file File, into *File) {
	if r.counts.OpenFiles >= r.params.MaxOpenFiles {
		r.counts.Uncached++
		//nolint:errcheck // a file that was only read has nothing to lose
		file.Close()
		return
	}
	*into = file
	r.counts.OpenFiles++
}

func (r *Reader) whole(data []byte, s shape) ([]byte, Reason) {
	if len(data) == len(r.buffer) && s != prefix {
		return nil, TooLarge
	}
	return data, fine
}

// settle notes how the reading of a file went.
func (r *Reader) settle(s *source, now time.Duration, why Reason) {
	if why == fine {
		s.accept(now, r.limits.least)
		return
	}
	s.fail(why)
	r.counts.Faults[why]++
}

// overdue says that a file was never read, or so long ago that its turn does not matter.
func (r *Reader) overdue(t *track, now time.Duration) bool {
	return t.fault == NotRead || t.good && now-t.at >= r.limits.maxAge
}

// slowTurn says that at this read the things numbered so are read in full.
func (r *Reader) slowTurn(phase int) bool { return (r.tick+phase)%r.params.SlowEvery == 0 }
