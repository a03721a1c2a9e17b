package observe

import (
	"cmp"
	"math"
	"slices"
	"strconv"
	"time"
)

// thread is one thread of a cgroup, known from an earlier read.
type thread struct {
	id    int32
	file  File  // nil where there was no room to keep it open
	delay int64 // ns
	known bool  // delay was read
	seen  int   // the read that listed it last
	kept  int   // the read that chose it last for the next sample
}

// leastSample is how many threads a cgroup's turn reads at least. With fewer, one thread would speak for thousands.
const leastSample = 16

// readThreads reads the run delay of the cgroups that ask for it, each at its slow turn, until the budget is spent. Those that it did not
// reach come first at the next read. It goes by threads, not processes: /proc/PID/schedstat is about the first thread of PID alone.
//
// A cgroup of few threads has all of them read. Of one with many, a sample is: a turn reads the threads that the turn before drew, whose growth stands for that of
// all, and draws others, each thread with the same chance, for the next. How many are few depends on the node: see level.
func (r *Reader) readThreads(now time.Duration) {
	budget, most := r.params.ThreadBudget, r.level()
	n := len(r.list)
	start, spent := r.turn, false
	for i := range n {
		at := (start + i) % n
		s := r.list[at]
		source := &s.sources[fileThreads]
		due := r.slowTurn(s.phase) || source.fault == Budget || r.overdue(&source.track, now) && !source.absent
		if !due || s.refused || !s.wanted || source.good && source.at == now {
			continue
		}
		if spent {
			r.settle(source, now, Budget)
			continue
		}
		data, why := r.load(source, s.dir, cgroupNames[fileThreads], s)
		if why == fine {
			s.count, why = r.listThreads(s, data, most)
		}
		switch {
		case why == fine && min(s.count, most) > budget:
			why, spent, r.turn = Budget, true, at
		case why == fine:
			budget -= min(s.count, most)
			why = r.readDelays(s, now, most)
		}
		if why == fine {
			s.delay[source.free] = s.waited
		}
		r.settle(source, now, why)
	}
}

// level is the most threads that the turn of one cgroup reads: as many as let each cgroup have its turn within SlowEvery reads. So those with few threads are read
// whole, whatever the others have. Where even leastSample is too many, turns come less often, and values get old.
func (r *Reader) level() int {
	for most := MaxThreads; most > leastSample; most /= 2 {
		sum := 0
		for _, s := range r.list {
			if s.wanted && !s.refused {
				sum += min(s.threadCount(), most)
			}
		}
		if sum <= r.params.ThreadBudget*r.params.SlowEvery {
			return most
		}
	}
	return leastSample
}

// threadCount is how many threads a cgroup has, as far as is known: by its last list, or by pids.current, which is read for all cgroups.
func (s *slot) threadCount() int {
	if tasks := &s.sources[fileTasks]; tasks.good {
		return max(s.count, int(min(s.tasks[tasks.last], math.MaxInt32)))
	}
	return s.count
}

// listThreads goes through the threads of a cgroup once: it marks those that are known, and draws the next sample into r.tids. Each set of threads is as likely as any
// other.
func (r *Reader) listThreads(s *slot, data []byte, most int) (int, Reason) {
	at := 0
	count, why := parseThreads(data, func(id int32) {
		if t := s.thread(id); t != nil {
			t.seen = r.tick
		}
		if at < most {
			r.tids[at] = id
		} else if i := r.random.IntN(at + 1); i < most {
			r.tids[i] = id
		}
		at++
	})
	r.sample = r.tids[:min(count, most)]
	if count > most { // half of what is read is the sample that was drawn before
		r.random.Shuffle(most, func(i, j int) { r.tids[i], r.tids[j] = r.tids[j], r.tids[i] })
		r.sample = r.tids[:most/2]
	}
	return count, why
}

// readDelays adds what the threads waited since the turn before. A thread that has come since has nothing to be compared with, and one that is gone takes what it
// waited last with it.
func (r *Reader) readDelays(s *slot, now time.Duration, most int) Reason {
	whole := s.count <= most
	if !whole {
		r.thin(s, most-len(r.sample))
	}
	var o outcomes
	for i := range s.threads {
		if t := &s.threads[i]; t.seen == r.tick {
			r.follow(t, &o)
		}
	}
	known := len(s.threads)
	for _, id := range r.sample {
		t := s.known(id, known)
		if t == nil {
			s.threads = append(s.threads, thread{id: id})
			t = &s.threads[len(s.threads)-1]
		}
		if t.seen != r.tick { // it is new, or was left out of what is compared
			t.known = false
			r.follow(t, &o)
		}
		t.kept = r.tick
	}
	r.prune(s)
	source := &s.sources[fileThreads]
	before, complete := s.sampled, s.complete && whole
	s.sampled, s.complete = now, whole
	switch {
	case s.count == 0 || o.compared > 0 && complete:
		s.waited += o.grown
		return fine
	case o.read == 0 && o.blind > 0:
		return Unsupported
	case o.read == 0:
		return Gone
	case !source.good:
		return fine // the first turn, which makes no rate
	case o.compared == 0 || now <= before:
		return First // all have come since: what they waited is not known
	}
	// The sample stands for all, and the turn for the time since the last one that was good.
	share := float64(s.count) / float64(o.compared) * float64(now-source.at) / float64(now-before)
	s.waited += int64(float64(o.grown) * share)
	return fine
}

// outcomes are of the threads that one turn reads.
type outcomes struct {
	read, blind int
	compared    int   // how many were read before too
	grown       int64 // ns: what these waited since
}

// follow reads one thread.
func (r *Reader) follow(t *thread, o *outcomes) {
	r.counts.ThreadReads++
	delay, why := r.readDelay(t)
	switch why {
	case fine:
		o.read++
		if t.known && delay >= t.delay {
			o.compared++
			o.grown += delay - t.delay
		}
		t.delay, t.known = delay, true
	case Unsupported:
		o.blind++ // it has not run yet; or none can be seen
	case Gone, Absent: // it ended meanwhile
		t.known = false
	default:
		t.known = false
		r.counts.Faults[why]++
	}
}

// thin leaves so many of the threads that are known and still there, each with the same chance.
func (r *Reader) thin(s *slot, most int) {
	there := 0
	for i := range s.threads {
		if s.threads[i].seen == r.tick {
			s.threads[i], s.threads[there] = s.threads[there], s.threads[i]
			there++
		}
	}
	if there > most {
		r.random.Shuffle(there, func(i, j int) { s.threads[i], s.threads[j] = s.threads[j], s.threads[i] })
		for i := most; i < there; i++ {
			s.threads[i].seen = 0
		}
	}
	slices.SortFunc(s.threads, byID)
}

func byID(x, y thread) int { return cmp.Compare(x.id, y.id) }

// thread finds a thread that is known.
func (s *slot) thread(id int32) *thread { return s.known(id, len(s.threads)) }

// known finds a thread among the first n, which are in order.
func (s *slot) known(id int32, n int) *thread {
	i, found := slices.BinarySearchFunc(s.threads[:n], id, func(t thread, id int32) int { return cmp.Compare(t.id, id) })
	if !found {
		return nil
	}
	return &s.threads[i]
}

// prune closes the threads that are not of the next sample, and keeps the others in order.
func (r *Reader) prune(s *slot) {
	kept := s.threads[:0]
	for i := range s.threads {
		if s.threads[i].kept != r.tick {
			r.close(&s.threads[i].file)
			continue
		}
		kept = append(kept, s.threads[i])
	}
	clear(s.threads[len(kept):])
	s.threads = kept
	slices.SortFunc(s.threads, byID)
}

// readDelay reads one thread. A file that is open stays with its thread, even when the number is given to another.
func (r *Reader) readDelay(t *thread) (int64, Reason) {
	file := t.file
	if file == nil {
		var err error
		if file, err = r.files.Open("proc/" + strconv.Itoa(int(t.id)) + "/schedstat"); err != nil {
			return 0, reasonOf(err)
		}
	}
	data, err := readInto(file, r.buffer, record)
	if t.file == nil {
		r.keep(file, &t.file)
	}
	if err != nil {
		r.close(&t.file)
		return 0, reasonOf(err)
	}
	return parseThreadDelay(data)
}
