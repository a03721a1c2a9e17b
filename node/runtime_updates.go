package node

import (
	"context"
)

const (
	// maxUpdates bounds the containers that one request to the runtime changes: it creates none meanwhile.
	maxUpdates = 16
	// maxUpdateFailures is how often a container's update is tried, at a tick each. The kernel has the value by then; only a later update of
	// the runtime's own would undo it until the next tick.
	maxUpdateFailures = 5
)

// runtimeUpdates tells the container runtime the CPUs and memory nodes of running containers, so that what the runtime writes later keeps them. One request
// is under way at a time. The runtime may hold its answer back while it waits for the agent, so the loop never calls it.
type runtimeUpdates struct {
	node     *nodeState
	knobs    *knobController
	requests chan updateRequest
	busy     bool
}

// updateRequest is a request to the runtime.
type updateRequest struct {
	updater Updater
	updates []Update
}

func newRuntimeUpdates(n *nodeState, knobs *knobController) *runtimeUpdates {
	return &runtimeUpdates{node: n, knobs: knobs, requests: make(chan updateRequest, 1)}
}

// run calls the runtime until ctx ends, beside the loop.
func (u *runtimeUpdates) run(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case r := <-u.requests:
			failed, err := r.updater.Update(r.updates)
			u.node.loop.post(func() { u.updated(r, failed, err) })
		}
	}
}

// Tick implements controller: what failed is tried again.
func (u *runtimeUpdates) Tick(*inputs) (changed bool) {
	u.send()
	return false
}

// placementsChanged gives containers whose update failed another chance if they have a new placement, and sends what is new.
func (u *runtimeUpdates) placementsChanged() {
	for _, c := range u.node.pods.containers {
		if p, ok := u.node.placement(c.pod); ok && (p.CPUs != c.asked.CPUs || p.Mems != c.asked.Mems) {
			c.failures = 0
		}
	}
	u.send()
}

// send tells the runtime what it does not know yet of the running containers.
func (u *runtimeUpdates) send() {
	updater := u.node.runtime.updater
	if u.busy || updater == nil {
		return
	}
	var updates []Update
	for _, id := range sortedKeys(u.node.pods.containers) {
		c := u.node.pods.containers[id]
		p, ok := u.node.placement(c.pod)
		if !ok || !c.exists || c.failures >= maxUpdateFailures || (p.CPUs == c.cpus && (p.Mems.IsEmpty() || p.Mems == c.mems)) {
			continue
		}
		c.asked = p
		updates = append(updates, Update{Container: id, CPUs: p.CPUs, Mems: p.Mems})
		if len(updates) == maxUpdates {
			break
		}
	}
	if len(updates) > 0 {
		u.busy = true
		u.requests <- updateRequest{updater, updates} // there is room: nothing is under way
	}
}

// updated takes the runtime's answer. It has written to the containers' cgroups, maybe older values than are desired by now.
func (u *runtimeUpdates) updated(r updateRequest, failed []string, err error) {
	u.busy = false
	bad := make(map[string]bool, len(failed))
	for _, id := range failed {
		bad[id] = true
	}
	var recheck []string
	for i := range r.updates {
		c := u.node.pods.containers[r.updates[i].Container]
		switch {
		case c == nil: // it has ended
		case err != nil || bad[c.id]:
			c.failures++
			u.node.counts.UpdatesFailed++
		default:
			c.cpus, c.mems, c.failures = c.asked.CPUs, c.asked.Mems, 0
			u.node.counts.Updates++
			recheck = append(recheck, c.cgroup)
		}
	}
	if err != nil {
		u.node.log.Warn("the runtime refuses an update", "err", err)
	}
	u.knobs.recheck(recheck...)
	if err == nil && len(failed) == 0 {
		u.send()
	}
}
