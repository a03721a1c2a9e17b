package advise

import (
	"cmp"
	"slices"
)

// reclaimCache asks for page cache where the node or a NUMA node has little free memory: first for that of reclaimed pods, then for what online pods have
// beyond a part of their working set. Anonymous memory is never asked for here.
func (t *memoryTick) reclaimCache(asked []MemoryReclaim) {
	t.reclaimCacheFrom(asked, t.shortfall(0, t.o.Total, t.o.Free), AnyNUMANode)
	for z := range t.o.NUMANodes {
		t.reclaimCacheFrom(asked, t.shortfall(z+1, t.o.NUMANodes[z].Total, t.o.NUMANodes[z].Free), z)
	}
}

// shortfall is how much is to be freed: from below FreeLow up to FreeHigh.
func (t *memoryTick) shortfall(index int, total, free Sample) int64 {
	all, a := bytesOf(total)
	has, b := bytesOf(free)
	dropping := &t.m.Dropping[index]
	switch {
	case !a || !b || has >= partOf(all, t.p.Cache.FreeHigh):
		*dropping = false
	case has < partOf(all, t.p.Cache.FreeLow):
		*dropping = true
	}
	if !*dropping {
		return 0
	}
	return partOf(all, t.p.Cache.FreeHigh) - has
}

// reclaimCacheFrom divides what is lacking among the pods. What is under way and what is asked for already counts.
func (t *memoryTick) reclaimCacheFrom(asked []MemoryReclaim, lack int64, numa int) {
	if lack <= 0 {
		return
	}
	type candidate struct {
		index int
		bytes int64
	}
	var from []candidate
	for i := range t.o.Pods {
		pod := &t.o.Pods[i]
		bytes := t.cache(pod, numa)
		switch {
		case bytes == 0:
		case pod.Reclaiming:
			lack -= min(t.pods[i].Asked, bytes)
		case asked[i].Bytes > 0:
			lack -= min(asked[i].Bytes, bytes)
		case t.due(i):
			from = append(from, candidate{i, bytes})
		}
	}
	slices.SortStableFunc(from, func(a, b candidate) int {
		if x, y := t.o.Pods[a.index].Reclaimed, t.o.Pods[b.index].Reclaimed; x != y {
			if x {
				return -1
			}
			return 1
		}
		return cmp.Compare(b.bytes, a.bytes)
	})
	for _, c := range from {
		if lack <= 0 {
			return
		}
		ask := t.reclaim(c.index, min(c.bytes, lack), ReclaimFree)
		ask.FileOnly = ask.FileOnly || t.swaps()
		if ask.Bytes > 0 {
			asked[c.index] = ask
			lack -= ask.Bytes
		}
	}
}

// swaps reports whether the node may have swap.
func (t *memoryTick) swaps() bool {
	total, known := bytesOf(t.o.SwapTotal)
	return !known || total > 0
}

// cache is the inactive page cache that may be taken from a pod, in one NUMA node or in all.
func (t *memoryTick) cache(pod *MemoryPod, numa int) int64 {
	inactive, a := bytesOf(pod.InactiveFile)
	current, b := bytesOf(pod.Current)
	if !a || !b {
		return 0
	}
	if !pod.Reclaimed {
		inactive = max(inactive-partOf(max(current-inactive, 0), t.p.Cache.Keep), 0)
	}
	if numa == AnyNUMANode {
		return inactive
	}
	if numa >= len(pod.NUMANodes) {
		return 0
	}
	file, known := bytesOf(pod.NUMANodes[numa].File)
	if !known {
		return 0
	}
	return min(inactive, file)
}
