package node

import (
	"context"
	"encoding/json"
	"sync"
	"time"

	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/node/allocate"
	"hilbert.dev/hilbert/node/store"
)

// checkpoint keeps what the allocator has decided, so that a restart of the agent moves no pod. It is written beside the loop, and no answer waits for it: a
// disk that does not answer must not have containers start without the agent. What was answered and was not on disk when the agent died is recovered from
// what the container runtime tells, see admission.synchronize.
type checkpoint struct {
	node  *nodeState
	saver *store.Saver
}

func newCheckpoint(n *nodeState) *checkpoint {
	c := &checkpoint{node: n}
	c.saver = store.NewSaver(n.Loop, n.Now, n.ports.Checkpoint, c.written)
	return c
}

// Tick implements ticker: it tries again what could not be written, and says so where the disk does not answer.
func (c *checkpoint) Tick(now time.Time) (changed bool) {
	c.save()
	if err := c.saver.Late(now); err != nil {
		c.node.Events.Problems.Set(spec.ReasonCheckpointLost, err.Error())
	}
	return false
}

// save has the checkpoint written if it has changed.
func (c *checkpoint) save() {
	if c.node.ports.Checkpoint == nil {
		return
	}
	data, err := json.Marshal(c.node.Manager.Checkpoint())
	if err != nil {
		c.written(err)
		return
	}
	c.saver.Save(data, c.node.Now())
}

// written takes the end of a write. If it failed the node goes on: after a restart what runs is adopted.
func (c *checkpoint) written(err error) {
	n := c.node
	if err != nil {
		n.Counts.CheckpointErrors++
		n.Events.Problems.Set(spec.ReasonCheckpointLost, err.Error())
		n.Log.Error("the checkpoint cannot be written; after a restart what runs is adopted", "err", err)
		return
	}
	n.Counts.Checkpoints++
	n.Events.Problems.Resolve(spec.ReasonCheckpointLost)
}

// restore takes the last checkpoint over, as far as it can be read, and returns the NUMA nodes that it has closed.
func (c *checkpoint) restore() (closed []closedNUMANode) {
	n := c.node
	if n.ports.Checkpoint == nil {
		return nil
	}
	data, err := n.ports.Checkpoint.Load()
	if err == nil && data == nil {
		return nil
	}
	known := &allocate.Checkpoint{}
	if err == nil {
		err = json.Unmarshal(data, known)
	}
	if err != nil {
		n.Counts.CheckpointErrors++
		n.Log.Warn("the checkpoint cannot be read; what runs is adopted", "err", err)
		return nil
	}
	n.Events.Notes(spec.PodRef{}, n.Manager.Restore(known))
	for _, z := range n.Manager.Report().Closed {
		closed = append(closed, closedNUMANode{z.NUMANode, n.Now()})
	}
	return closed
}

// maxLastSave bounds how long an agent that ends waits for what it has not written yet.
const maxLastSave = 2 * time.Second

// flush has on disk what is not there yet, if the disk answers. Each has the whole time: one that does not answer takes none from the others.
func (a *Agent) flush() {
	timeout, cancel := context.WithTimeout(context.Background(), maxLastSave) //nolint:forbidigo // that of the agent has ended
	defer cancel()
	last := map[string]*store.Saver{"the checkpoint": a.checkpoint.saver, "the numbers of devices": a.devices.Saver(), "the configuration": a.configuration.saver, "the uplinks": a.governors.saver, "what plugins gave": a.plugins.Saver(), "what was learned": a.laws.saver}
	if a.absence.with != nil {
		last["the plan for the agent's absence"] = a.absence.saver
	}
	var writes sync.WaitGroup
	for what, s := range last {
		writes.Go(func() {
			if err := s.Flush(timeout.Done()); err != nil {
				a.node.Log.Warn("not written before the end", "what", what, "err", err)
			}
		})
	}
	writes.Wait()
}
