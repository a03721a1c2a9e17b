package node

import (
	"math/bits"
	"slices"
	"time"

	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/node/allocate"
	"hilbert.dev/hilbert/node/devices"
	"hilbert.dev/hilbert/node/report"
)

const (
	// reopenAfter is how long a NUMA node stays closed whose promise was broken. By then the scheduler has seen what is really held there.
	reopenAfter = time.Minute
	// brokenFor is how long a pod stays in the report after its last try. The kubelet tries again within five minutes as long as the pod is there.
	brokenFor = 6 * time.Minute
)

// brokenPromises handles pods that were promised room on this node and cannot have it. The report names them, and hilbertd evicts them, so that they find a place
// elsewhere. The NUMA nodes or devices that were promised are closed, because the scheduler counts them as free and they are not. They are opened again
// when a report that says what is really held has been written, and a minute has passed.
type brokenPromises struct {
	node     *nodeState
	devices  *devices.Controller
	reporter *reporter
	closed   []closedNUMANode
	broken   []brokenPromise // the first broken first; at most spec.MaxBrokenPromises
}

// closedNUMANode is a NUMA node that a broken promise has closed.
type closedNUMANode struct {
	numa int
	at   time.Time
}

// brokenPromise is a pod that cannot have what it was promised, and when it last tried.
type brokenPromise struct {
	spec.BrokenPromise
	at time.Time
}

// refuse says that a pod cannot run here, and handles the promise that this breaks, if any.
func (b *brokenPromises) refuse(p spec.PodRef, r allocate.Refusal, asked *allocate.Pod) {
	b.node.Counts.Refused[r.Reason]++
	b.node.Events.Note(p, allocate.Note(r))
	if r.Reason != spec.ReasonPromiseBroken {
		return
	}
	now := b.node.Now()
	b.add(p, r.Message, now)
	if gpus, nics := asked.Devices.GPUs, asked.Devices.NICs; gpus|nics != 0 {
		b.node.Manager.Devices.Close(gpus, nics)
		b.devices.Shut(gpus, nics, r.Reason+": "+p.Namespace+"/"+p.Name+": "+r.Message, now)
		return // the devices could not be had, or may be the reason
	}
	for set := asked.Promise.NUMANodes(); set != 0; set &= set - 1 {
		numa := bits.TrailingZeros8(set)
		b.node.Manager.CloseNUMANode(numa, allocate.Note{Reason: r.Reason, Message: p.Namespace + "/" + p.Name + ": " + r.Message})
		if !slices.ContainsFunc(b.closed, func(c closedNUMANode) bool { return c.numa == numa }) {
			b.closed = append(b.closed, closedNUMANode{numa, now})
		}
	}
}

// add has the report name a pod. One beyond the bound is named when it tries again and others have gone.
func (b *brokenPromises) add(p spec.PodRef, message string, now time.Time) {
	at := slices.IndexFunc(b.broken, func(known brokenPromise) bool { return known.UID == p.UID })
	switch {
	case at >= 0:
		b.broken[at].at = now
	case len(b.broken) >= spec.MaxBrokenPromises:
		b.node.Log.Warn("more promises are broken than a report can name; the pod is named when the kubelet tries it again", "pod", p.String())
	default:
		b.broken = append(b.broken, brokenPromise{spec.BrokenPromise{PodRef: p, Message: report.Message(message)}, now})
	}
	b.reporter.urgent = true
}

// kept takes a pod out of the report: it runs after all.
func (b *brokenPromises) kept(uid string) {
	b.broken = slices.DeleteFunc(b.broken, func(known brokenPromise) bool { return known.UID == uid })
}

// status is what the report says.
func (b *brokenPromises) status() (out []spec.BrokenPromise) {
	for i := range b.broken {
		out = append(out, b.broken[i].BrokenPromise)
	}
	return out
}

// Tick implements ticker: it opens NUMA nodes and devices again whose closing has served its purpose, and forgets pods that are not tried any more.
func (b *brokenPromises) Tick(now time.Time) (changed bool) {
	b.broken = slices.DeleteFunc(b.broken, func(known brokenPromise) bool { return now.Sub(known.at) >= brokenFor })
	over := func(at time.Time) bool {
		reported := b.node.ports.Report == nil || b.reporter.written.After(at)
		return reported && now.Sub(at) >= reopenAfter
	}
	b.closed = slices.DeleteFunc(b.closed, func(c closedNUMANode) bool {
		if over(c.at) {
			b.node.Manager.OpenNUMANode(c.numa)
			return true
		}
		return false
	})
	b.devices.Reopen(over)
	return false
}
