package node

import (
	"context"
	"math/bits"
	"slices"
	"time"

	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/node/allocate"
)

const (
	// evictPause is the least time between two evictions of one pod, maxEvictions bounds the pods that are remembered for it.
	evictPause   = 30 * time.Second
	maxEvictions = 256
	evictTimeout = 10 * time.Second
	// reopenAfter is how long a NUMA node stays closed whose promise was broken. By then the scheduler has seen what is really held there.
	reopenAfter = time.Minute
)

// brokenPromises handles pods that were promised room on this node and cannot have it. The pod is evicted, so that it finds a place elsewhere. The NUMA nodes
// or devices that were promised are closed, because the scheduler counts them as free and they are not. They are opened again when a report that
// says what is really held has been written, and a minute has passed.
type brokenPromises struct {
	node     *nodeState
	devices  *deviceController
	reporter *reporter
	closed   []closedNUMANode
	evicted  map[string]time.Time // when each pod was last evicted, by UID
}

// closedNUMANode is a NUMA node that a broken promise has closed.
type closedNUMANode struct {
	numa int
	at   time.Time
}

// refuse says that a pod cannot run here, and handles the promise that this breaks, if any.
func (b *brokenPromises) refuse(p spec.PodRef, r allocate.Refusal, asked *allocate.Pod) {
	b.node.counts.Refused[r.Reason]++
	b.node.events.note(p, allocate.Note(r))
	if r.Reason != spec.ReasonPromiseBroken {
		return
	}
	now := time.Now()
	if gpus, nics := asked.Devices.GPUs, asked.Devices.NICs; gpus|nics != 0 {
		b.node.manager.Devices.Close(gpus, nics)
		b.devices.shut(gpus, nics, r.Reason+": "+p.Namespace+"/"+p.Name+": "+r.Message, now)
		b.evict(p, r, now)
		return // the devices could not be had, or may be the reason
	}
	for set := asked.Promise.NUMANodes(); set != 0; set &= set - 1 {
		numa := bits.TrailingZeros8(set)
		b.node.manager.CloseNUMANode(numa, allocate.Note{Reason: r.Reason, Message: p.Namespace + "/" + p.Name + ": " + r.Message})
		if !slices.ContainsFunc(b.closed, func(c closedNUMANode) bool { return c.numa == numa }) {
			b.closed = append(b.closed, closedNUMANode{numa, now})
		}
	}
	b.evict(p, r, now)
}

// Tick implements controller: it opens NUMA nodes and devices again whose closing has served its purpose.
func (b *brokenPromises) Tick(in *inputs) (changed bool) {
	over := func(at time.Time) bool {
		reported := b.node.ports.Report == nil || b.reporter.written.After(at)
		return reported && in.now.Sub(at) >= reopenAfter
	}
	b.closed = slices.DeleteFunc(b.closed, func(c closedNUMANode) bool {
		if over(c.at) {
			b.node.manager.OpenNUMANode(c.numa)
			return true
		}
		return false
	})
	b.devices.reopen(over)
	return false
}

// evict asks for the pod's eviction, beside the loop.
func (b *brokenPromises) evict(p spec.PodRef, r allocate.Refusal, now time.Time) {
	for uid, at := range b.evicted {
		if now.Sub(at) >= evictPause {
			delete(b.evicted, uid)
		}
	}
	n := b.node
	if _, lately := b.evicted[p.UID]; lately || n.ports.Evict == nil || len(b.evicted) >= maxEvictions || !n.loop.Running() {
		return
	}
	b.evicted[p.UID] = now
	n.loop.Work(func(ctx context.Context) {
		ctx, cancel := context.WithTimeout(ctx, evictTimeout)
		defer cancel()
		err := n.ports.Evict(ctx, p, r.Reason, r.Message)
		n.loop.Post(func() {
			if err != nil {
				n.counts.EvictionsFailed++
				n.log.Warn("the eviction failed; the pod is tried again when the kubelet tries it", "pod", p.Namespace+"/"+p.Name, "err", err)
				return
			}
			n.counts.Evictions++
		})
	})
}
