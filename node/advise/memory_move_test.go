package advise

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"hilbert.dev/hilbert/api/spec"
)

// mover is a machine of two NUMA nodes, of 8 GiB each, whose first has 100 MiB free, and reclaimed pods that have so many MiB there.
func mover(at time.Duration, held ...float64) *MemoryObservation {
	o := mem()
	o.At = at
	o.NUMANodes = []MemoryNUMANode{{Known(8 * gib), Known(100 * mib), Known(4 * gib)}, {Known(8 * gib), Known(4 * gib), Known(4 * gib)}}
	for i, n := range held {
		pod := offline(string(rune('a'+i)), 4000, 1000)
		pod.InactiveFile, pod.NUMANodes = Known(0), []MemoryShare{{Known(n * mib), Known(0)}, {Known(0), Known(0)}}
		o.Pods = append(o.Pods, pod)
	}
	return o
}

// The smallest pod moves that frees what is lacking, else the largest: less is copied for the same.
func TestMoveCopiesNoMoreThanIsLacking(t *testing.T) {
	for _, c := range []struct {
		held []float64
		want string
	}{{[]float64{500, 320, 400}, "b"}, {[]float64{100, 200, 50}, "b"}, {[]float64{500}, "a"}, {[]float64{600, 40}, "b"}} { // 310 MiB are lacking, 512 may move
		p, m := spec.DefaultNodeMemory(), MemoryState{}
		StepMemory(mover(0, c.held...), &p, &m)
		if a := StepMemory(mover(10*time.Second, c.held...), &p, &m); a.Move == nil || a.Move.Pod != c.want {
			t.Errorf("of %v %+v moves, want %s", c.held, a.Move, c.want)
		}
	}
}

// After a move the next waits for what was copied; after ones that came to no end it waits longer each time.
func TestMovePause(t *testing.T) {
	p, m := spec.DefaultNodeMemory(), MemoryState{}
	p.Moves.Interval, p.Moves.Rest, p.Moves.BytesPerSecond = seconds(20), seconds(100), 2*mib
	next := func(step time.Duration, held ...float64) (began time.Duration) {
		t.Helper()
		for at := m.At; at < m.At+time.Hour; at += step {
			if a := StepMemory(mover(at, held...), &p, &m); a.Move != nil {
				return at
			}
		}
		t.Fatal("nothing moves")
		return 0
	}
	begin := next(time.Second, 400)
	if a := StepMemory(mover(begin+time.Second, 4), &p, &m); a.Move != nil { // done
		t.Fatalf("%+v", a.Move)
	}
	if waited := next(time.Second, 400) - begin; waited != 200*time.Second {
		t.Errorf("after 400 MiB at 2 MiB a second the next move came after %s", waited)
	}
	p.Moves.BytesPerSecond, p.Moves.Rest = gib, seconds(80)
	var pauses []time.Duration
	for range 4 { // each is late
		late := m.At + p.Moves.Deadline.D()
		if a := StepMemory(mover(late, 400), &p, &m); a.Move != nil {
			t.Fatalf("%+v", a.Move)
		}
		m.Pods["a"] = MemoryPodState{} // as if it were another pod
		pauses = append(pauses, next(time.Second, 400)-late)
	}
	if want := []time.Duration{20, 40, 80, 80}; pauses[0] != want[0]*time.Second || pauses[1] != want[1]*time.Second || pauses[2] != want[2]*time.Second || pauses[3] != want[3]*time.Second {
		t.Errorf("pauses %v, want %v s", pauses, want)
	}
}

// While online pods wait, for memory or for CPUs, or it is not known whether they do, nothing begins to move, and what moves is ended.
func TestMoveStops(t *testing.T) {
	for name, disturb := range map[string]func(*MemoryObservation){
		"memory":     func(o *MemoryObservation) { o.OnlinePressure = Known(0.5) },
		"not known":  func(o *MemoryObservation) { o.OnlinePressure = Sample{} },
		"CPUs":       func(o *MemoryObservation) { o.CPUWaits = true },
		"is nothing": nil,
	} {
		p, m := spec.DefaultNodeMemory(), MemoryState{}
		StepMemory(mover(0, 400), &p, &m)
		if disturb != nil {
			o := mover(10*time.Second, 400)
			disturb(o)
			if a := StepMemory(o, &p, &m); a.Move != nil {
				t.Errorf("%s: it begins", name)
			}
		}
		if a := StepMemory(mover(11*time.Second, 400), &p, &m); a.Move == nil {
			t.Errorf("%s: it does not begin", name)
		}
		o := mover(12*time.Second, 400)
		if disturb != nil {
			disturb(o)
		}
		if a := StepMemory(o, &p, &m); (a.Move == nil) != (disturb != nil) {
			t.Errorf("%s: %+v", name, a.Move)
		}
	}
	p, m := spec.DefaultNodeMemory(), MemoryState{}
	p.Moves.BytesPerSecond = 0
	for at := range 30 {
		if a := StepMemory(mover(time.Duration(at)*time.Second, 400), &p, &m); a.Move != nil {
			t.Fatal("it moves at no rate")
		}
	}
}

// Whatever is observed, moves begin no faster than their rate, one at a time, and never while online pods may wait.
func TestMovesAlways(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		p, m := spec.DefaultNodeMemory(), MemoryState{}
		p.Moves.After, p.Moves.Rest, p.Moves.Interval = seconds(1), seconds(1), seconds(1)
		p.Moves.BytesPerSecond = rapid.Int64Range(0, 64*mib).Draw(r, "rate")
		var last *MemoryMove
		var allowed time.Duration
		at := time.Duration(0)
		for range rapid.IntRange(1, 80).Draw(r, "ticks") {
			at += time.Duration(rapid.IntRange(0, 20).Draw(r, "after")) * time.Second
			o := mover(at, rapid.Float64Range(0, 600).Draw(r, "a"), rapid.Float64Range(0, 600).Draw(r, "b"))
			o.CPUWaits = rapid.IntRange(0, 3).Draw(r, "waits") == 0
			move := StepMemory(o, &p, &m).Move
			if move == nil {
				last = nil
				continue
			}
			if o.CPUWaits || p.Moves.BytesPerSecond == 0 || move.Bytes > p.Moves.Most {
				r.Fatalf("%+v at %s", move, at)
			}
			if last == nil {
				if at < allowed {
					r.Fatalf("it begins at %s, and may from %s on", at, allowed)
				}
				allowed = at + time.Duration(float64(move.Bytes)/float64(p.Moves.BytesPerSecond)*float64(time.Second))
			}
			last = move
		}
	})
}
