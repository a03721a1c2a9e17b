package advise

import "time"

// leftBehind is the part of a move's bytes that may stay behind: pages that another process uses too do not move.
const leftBehind = 0.1

// move moves the memory of one reclaimed pod from a NUMA node that has been short for a while to one with room. One pod moves at a time, because the
// kernel copies inside of the write of cpuset.mems, which cannot be aborted.
//
// Copying costs the CPUs and the bandwidth of both NUMA nodes. So no more is copied than is lacking, where a pod of that size is there; over time no more than
// BytesPerSecond; and nothing while online pods wait for memory or CPUs, or it is not known whether they do. A move that did not come to an end was paid for nothing: the pause after it doubles.
func (t *memoryTick) move() {
	t.shortSince()
	if t.m.Move != nil {
		t.follow()
		return
	}
	if !t.p.Moves.Enabled || t.p.Moves.BytesPerSecond <= 0 || t.disturbs() || t.now < t.m.NextMove {
		return
	}
	for from := range t.o.NUMANodes {
		if since := t.m.Short[from]; since < 0 || t.now-since < t.p.Moves.After.D() {
			continue
		}
		if t.begin(from) {
			return
		}
	}
}

// shortSince notes since when NUMA nodes have had little free memory. One whose is not known is not short.
func (t *memoryTick) shortSince() {
	for z := range t.o.NUMANodes {
		total, a := bytesOf(t.o.NUMANodes[z].Total)
		free, b := bytesOf(t.o.NUMANodes[z].Free)
		switch {
		case !a || !b || free >= partOf(total, t.p.Cache.FreeLow):
			t.m.Short[z] = -1
		case t.m.Short[z] < 0:
			t.m.Short[z] = t.now
		}
	}
}

// disturbs reports whether online pods may have to pay for a move now.
func (t *memoryTick) disturbs() bool { return t.advice.Paused != "" || t.o.CPUWaits }

// begin chooses a pod of those that may move and that another NUMA node has room for: the smallest that frees what is lacking, else the largest.
func (t *memoryTick) begin(from int) bool {
	best, to, bytes := -1, -1, int64(0)
	total, _ := bytesOf(t.o.NUMANodes[from].Total)
	free, _ := bytesOf(t.o.NUMANodes[from].Free)
	lack := partOf(total, t.p.Cache.FreeHigh) - free
	for i := range t.o.Pods {
		pod := &t.o.Pods[i]
		has, known := t.inNUMANode(pod, from)
		if !pod.Reclaimed || pod.NUMANode != AnyNUMANode || pod.Reclaiming || !known || !closer(has, bytes, lack) || has > t.p.Moves.Most || has < t.p.Limits.Step || t.now < t.pods[i].NextMove {
			continue
		}
		if z := t.roomiest(has); z >= 0 {
			best, to, bytes = i, z, has
		}
	}
	if best < 0 {
		return false
	}
	pod := &t.o.Pods[best]
	t.m.Move = &MemoryMove{Pod: pod.ID, Dir: pod.Dir, From: from, To: to, Bytes: bytes, Began: t.now, Until: t.now + t.p.Moves.Deadline.D()}
	t.pods[best].NextMove = t.now + t.p.Moves.Rest.D()
	t.advise()
	return true
}

// closer reports whether a pod of so many bytes is a better one to move than another: one that is enough, with less to copy, or one that comes closer to enough.
func closer(bytes, than, lack int64) bool {
	if than >= lack {
		return bytes >= lack && bytes < than
	}
	return bytes > than
}

// roomiest is the NUMA node that keeps most free memory when it takes so much more, and FreeHigh of it at least, so no NUMA node that is short; -1: none does.
func (t *memoryTick) roomiest(bytes int64) int {
	best, most := -1, int64(0)
	for z := range t.o.NUMANodes {
		total, a := bytesOf(t.o.NUMANodes[z].Total)
		free, b := bytesOf(t.o.NUMANodes[z].Free)
		left := free - bytes - partOf(total, t.p.Cache.FreeHigh)
		if a && b && left > most {
			best, most = z, left
		}
	}
	return best
}

// inNUMANode is what a pod has in a NUMA node.
func (t *memoryTick) inNUMANode(pod *MemoryPod, numa int) (int64, bool) {
	if numa < 0 || numa >= len(pod.NUMANodes) {
		return 0, false
	}
	anon, a := bytesOf(pod.NUMANodes[numa].Anon)
	file, b := bytesOf(pod.NUMANodes[numa].File)
	return anon + file, a && b
}

// follow ends a move that is done, late, disturbs, or whose pod is gone.
func (t *memoryTick) follow() {
	gone, done := true, false
	for i := range t.o.Pods {
		if pod := &t.o.Pods[i]; pod.ID == t.m.Move.Pod {
			has, known := t.inNUMANode(pod, t.m.Move.From)
			gone, done = false, known && has <= partOf(t.m.Move.Bytes, leftBehind)
		}
	}
	if gone || done || t.now >= t.m.Move.Until || t.disturbs() {
		t.endMove(gone || done)
		return
	}
	t.advise()
}

// endMove says when the next move may begin: after what this one cost.
func (t *memoryTick) endMove(good bool) {
	p, move := &t.p.Moves, t.m.Move
	if good {
		t.m.MovePause = 0
	} else {
		t.m.MovePause = min(max(2*t.m.MovePause, p.Interval.D()), max(p.Rest.D(), p.Interval.D()))
	}
	next := t.now + max(p.Interval.D(), t.m.MovePause)
	if p.BytesPerSecond > 0 {
		next = max(next, move.Began+time.Duration(float64(move.Bytes)/float64(p.BytesPerSecond)*float64(time.Second)))
	}
	t.m.Move, t.m.NextMove = nil, next
}

func (t *memoryTick) advise() {
	move := *t.m.Move
	t.advice.Move = &move
}
