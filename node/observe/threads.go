package observe

import (
	"strconv"
	"time"
)

// thread is one thread of a cgroup, known from an earlier read.
type thread struct {
	id    int32
	file  File  // nil where there was no room to keep it open
	delay int64 // ns
	known bool  // delay was read
	tick  int   // the read that listed it last
}

// readThreads reads the run delay of the cgroups that ask for it, each at its slow turn, until the budget is spent. Those that it did not
// reach come first at the next read. It goes by threads, not processes: /proc/PID/schedstat is about the first thread of PID alone.
func (r *Reader) readThreads(now time.Duration) {
	budget := r.params.ThreadBudget
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
		count := 0
		if why == fine {
			count, why = parseThreads(data, r.tids[:])
		}
		switch {
		case why == fine && count > MaxThreads:
			why = Limit
		case why == fine && count > budget:
			why, spent, r.turn = Budget, true, at
		case why == fine:
			budget -= count
			why = r.readDelays(s, r.tids[:count])
		}
		if why == fine {
			s.delay[source.free] = s.waited
		}
		r.settle(source, now, why)
	}
}

// readDelays adds what the threads that are listed waited since they were read last. A thread that is new has nothing to be compared with,
// and one that is gone takes what it waited last with it.
func (r *Reader) readDelays(s *slot, ids []int32) Reason {
	reading, blind := 0, 0
	for i, id := range ids {
		t := s.thread(i, id)
		t.tick = r.tick
		delay, why := r.readDelay(t)
		switch why {
		case fine:
			reading++
			if t.known && delay >= t.delay {
				s.waited += delay - t.delay
			}
			t.delay, t.known = delay, true
		case Unsupported:
			blind++ // it has not run yet; or none can be seen
		case Gone, Absent: // it ended meanwhile
			t.known = false
		default:
			t.known = false
			r.counts.Faults[why]++
		}
	}
	r.prune(s)
	if len(ids) > 0 && reading == 0 && blind > 0 {
		return Unsupported
	}
	if len(ids) > 0 && reading == 0 {
		return Gone
	}
	return fine
}

// thread finds a thread, or makes room for it. at is where it stands if the list is as it was.
func (s *slot) thread(at int, id int32) *thread {
	if at < len(s.threads) && s.threads[at].id == id {
		return &s.threads[at]
	}
	for i := range s.threads {
		if s.threads[i].id == id {
			return &s.threads[i]
		}
	}
	s.threads = append(s.threads, thread{id: id})
	return &s.threads[len(s.threads)-1]
}

// prune closes the threads that are no longer listed, and keeps the others in order.
func (r *Reader) prune(s *slot) {
	kept := s.threads[:0]
	for i := range s.threads {
		if s.threads[i].tick != r.tick {
			r.close(&s.threads[i].file)
			continue
		}
		kept = append(kept, s.threads[i])
	}
	clear(s.threads[len(kept):])
	s.threads = kept
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
