package advise

import (
	"maps"
	"slices"
	"strings"
	"time"
)

// MemoryProtection is how well an online pod is protected.
type MemoryProtection struct {
	Pod string `json:"pod"`
	// Wanted is the pod's memory.low, Effective what the kernel makes of all that stands on the path now.
	Wanted    int64         `json:"wanted"`
	Effective Sample        `json:"effective"`
	Reason    ProtectReason `json:"reason,omitempty"`
	// At is the directory that the reason is about.
	At string `json:"at,omitempty"`
}

// ProtectReason says why a pod is not protected as wanted; empty: it is.
type ProtectReason string

// The reasons.
const (
	ProtectMissing     ProtectReason = "Missing"     // what the pod needs is not known
	ProtectUnsupported ProtectReason = "Unsupported" // the kernel has no memory.low there
	ProtectKubelet     ProtectReason = "Kubelet"     // the kubelet sets memory.min itself (MemoryQoS); nothing of ours is written beside it
	ProtectShort       ProtectReason = "Short"       // some cgroup of the path has less than is wanted, or not yet
)

const (
	// lowGrain is the least change of a memory.low that is written, and lowStep its least as a part of what was there.
	lowGrain, lowStep = 4 << 20, 1.0 / 16
	// enough is the part of what is wanted from which on a protection counts as there: sandboxes and rounding take some.
	enough = 0.9
)

// protect gives online pods memory.low: each container its own, and each cgroup above the sum of what is below, because the kernel protects no
// cgroup more than those above it.
func (t *memoryTick) protect() {
	if !t.p.Protection.Enabled {
		t.m.Lows, t.m.Shared = nil, nil
		return
	}
	tree := newLowTree(t.o)
	lows, sums := t.containers(tree), make(map[string]int64)
	var missing []string // pods
	for i := range t.o.Pods {
		pod := &t.o.Pods[i]
		if pod.Reclaimed {
			continue
		}
		out := MemoryProtection{Pod: pod.ID}
		out.Reason, out.At = tree.foreign(pod.Dir)
		for c := range pod.Containers {
			container := &pod.Containers[c]
			low, known := lows[container.Dir]
			if !known && out.Reason == "" {
				out.Reason, out.At = ProtectMissing, container.Dir
				missing = append(missing, pod.Dir)
			}
			if low == 0 {
				continue
			}
			out.Wanted += low
			for dir := container.Dir; dir != ""; dir = parentOf(dir) {
				sums[dir] += low
			}
		}
		t.advice.Protection = append(t.advice.Protection, out)
	}
	t.shared(tree, sums, missing)
	for _, dir := range slices.Sorted(maps.Keys(sums)) {
		t.advice.Lows = append(t.advice.Lows, MemoryLow{Dir: dir, Bytes: sums[dir]})
	}
	t.judge(tree, sums)
}

// shared completes the cgroups above the pods. While the need of some pod is unknown, no cgroup above it gets less than now. A cgroup that
// protects no pod any more keeps a desired value of 0 until the kernel has it.
func (t *memoryTick) shared(tree *lowTree, sums map[string]int64, missing []string) {
	for _, pod := range missing {
		for dir := parentOf(pod); dir != ""; dir = parentOf(dir) {
			if g := tree.groups[dir]; g != nil {
				low, _ := settingOf(g.Low)
				for more, up := max(low-sums[dir], 0), dir; more > 0 && up != ""; up = parentOf(up) {
					sums[up] += more
				}
			}
		}
	}
	above := make(map[string]bool)
	for i := range t.o.Pods {
		for dir := parentOf(t.o.Pods[i].Dir); dir != "" && !above[dir]; dir = parentOf(dir) {
			_, above[dir] = sums[dir]
		}
	}
	for _, dir := range t.m.Shared {
		g := tree.groups[dir]
		if _, summed := sums[dir]; summed || g == nil {
			continue
		}
		if reason, _ := tree.foreign(dir); reason == "" && g.Low != Known(0) {
			sums[dir], above[dir] = 0, true
		}
	}
	t.m.Shared = nil
	for _, dir := range slices.Sorted(maps.Keys(above)) {
		if above[dir] {
			t.m.Shared = append(t.m.Shared, dir)
		}
	}
}

// containers is what each container of an online pod shall have, by directory; those whose cgroups the kubelet protects have none.
func (t *memoryTick) containers(tree *lowTree) map[string]int64 {
	states, total := make(map[string]MemoryLowState), int64(0)
	for i := range t.o.Pods {
		pod := &t.o.Pods[i]
		if reason, _ := tree.foreign(pod.Dir); pod.Reclaimed || reason != "" {
			continue
		}
		for c := range pod.Containers {
			container := &pod.Containers[c]
			had, kept := t.m.Lows[container.Dir]
			want, known := t.wants(container)
			if known {
				had, kept = t.follows(had, want), true
			}
			if kept {
				states[container.Dir] = had
				total += had.Bytes
			}
		}
	}
	t.m.Lows = states
	scale := 1.0
	if all, known := bytesOf(t.o.Total); known && total > partOf(all, t.p.Protection.Share) {
		scale = t.p.Protection.Share * float64(all) / float64(total)
	}
	out := make(map[string]int64, len(states))
	for dir, s := range states {
		out[dir] = partOf(s.Bytes, scale) / pageBytes * pageBytes
	}
	return out
}

// wants is a container's request, but at most what it holds and a margin. It is known if the node's memory is, because all containers together are
// limited to a part of that.
func (t *memoryTick) wants(c *MemoryContainer) (int64, bool) {
	current, a := bytesOf(c.Current)
	inactive, b := bytesOf(c.InactiveFile)
	_, d := bytesOf(t.o.Total)
	used := max(current-partOf(inactive, 1-t.p.Protection.Cache), 0)
	return min(max(c.Request, 0), partOf(used, 1+t.p.Protection.Margin), mostBytes), a && b && d
}

// follows brings a protection to what is wanted: up at once, down after a while, and neither for little.
func (t *memoryTick) follows(had MemoryLowState, want int64) MemoryLowState {
	step := max(lowGrain, partOf(had.Bytes, lowStep))
	switch {
	case want > had.Bytes && (had.Bytes == 0 || want >= had.Bytes+step):
		return MemoryLowState{want, t.now}
	case want > had.Bytes-step: // it is right, and has been until now
		had.At = t.now
	case t.now-had.At >= max(t.p.Protection.Interval.D(), time.Second):
		return MemoryLowState{want, t.now}
	}
	return had
}

// judge compares what is wanted with what the kernel makes of the files as they are.
func (t *memoryTick) judge(tree *lowTree, wanted map[string]int64) {
	n := 0
	for i := range t.o.Pods {
		pod := &t.o.Pods[i]
		if pod.Reclaimed {
			continue
		}
		out := &t.advice.Protection[n]
		n++
		var has, needs int64
		known := len(pod.Containers) > 0
		for c := range pod.Containers {
			dir := pod.Containers[c].Dir
			protected, use, ok := tree.effective(dir)
			known = known && ok
			has, needs = has+protected, needs+min(wanted[dir], use)
		}
		if known {
			out.Effective = Known(float64(has))
		}
		if out.Reason == "" && (!known || has < partOf(needs, enough)) {
			out.Reason, out.At = tree.lacking(pod, wanted)
		}
	}
}

// settingOf is a memory.low or memory.min. The kernel's "max", Unlimited, is more than any machine has.
func settingOf(s Sample) (int64, bool) {
	if s.Known && s.Value > mostBytes {
		return mostBytes, true
	}
	return bytesOf(s)
}

// lowTree is what the kernel says of memory.low, by directory.
type lowTree struct {
	groups    map[string]*MemoryGroup
	below     map[string][]*MemoryGroup // by the directory above
	recursive bool
}

func newLowTree(o *MemoryObservation) *lowTree {
	t := &lowTree{groups: make(map[string]*MemoryGroup, len(o.Groups)), below: make(map[string][]*MemoryGroup), recursive: o.Recursive}
	for i := range o.Groups {
		g := &o.Groups[i]
		t.groups[g.Dir] = g
		t.below[parentOf(g.Dir)] = append(t.below[parentOf(g.Dir)], g)
	}
	return t
}

// parentOf is the directory above, "" for the topmost.
func parentOf(dir string) string {
	if i := strings.LastIndexByte(dir, '/'); i >= 0 {
		return dir[:i]
	}
	return ""
}

// foreign says whether another process protects a directory or one above it by memory.min. Only the kubelet does that.
func (t *lowTree) foreign(dir string) (ProtectReason, string) {
	for ; dir != ""; dir = parentOf(dir) {
		if g := t.groups[dir]; g != nil {
			if least, known := settingOf(g.Min); known && least > 0 {
				return ProtectKubelet, dir
			}
		}
	}
	return "", ""
}

// effective is what the kernel protects of a cgroup, and what that holds, as mm/page_counter.c reckons (Linux 6.12): what is claimed, cut down
// in proportion where the siblings claim more than the cgroup above has; with memory_recursiveprot what no sibling claims goes to those that use more.
func (t *lowTree) effective(dir string) (protected, use int64, known bool) {
	g := t.groups[dir]
	if g == nil {
		return 0, 0, false
	}
	low, a := settingOf(g.Low)
	use, b := bytesOf(g.Current)
	if !a || !b {
		return 0, 0, false
	}
	above := parentOf(dir)
	if above == "" {
		return low, use, true
	}
	has, holds, known := t.effective(above)
	if !known {
		return 0, 0, false
	}
	var claimed int64
	for _, s := range t.below[above] {
		l, a := settingOf(s.Low)
		c, b := bytesOf(s.Current)
		if !a || !b {
			return 0, 0, false
		}
		claimed += min(l, c)
	}
	protected = min(low, use)
	if claimed > has {
		return partOf(protected, float64(has)/float64(claimed)), use, true
	}
	if t.recursive && has > claimed && holds > claimed && use > protected {
		protected += partOf(use-protected, float64(has-claimed)/float64(holds-claimed))
	}
	return min(protected, use), use, true
}

// lacking finds the first directory of a pod's path, from the top, that has less than is wanted.
func (t *lowTree) lacking(pod *MemoryPod, wanted map[string]int64) (ProtectReason, string) {
	var path []string
	for dir := pod.Dir; dir != ""; dir = parentOf(dir) {
		path = append(path, dir)
	}
	slices.Reverse(path)
	for c := range pod.Containers {
		path = append(path, pod.Containers[c].Dir)
	}
	if len(pod.Containers) == 0 {
		return ProtectMissing, pod.Dir
	}
	for _, dir := range path {
		g := t.groups[dir]
		if g == nil {
			return ProtectMissing, dir
		}
		low, known := settingOf(g.Low)
		switch {
		case !known:
			return ProtectUnsupported, dir
		case low < partOf(wanted[dir], enough):
			return ProtectShort, dir
		}
	}
	return ProtectShort, pod.Dir
}
