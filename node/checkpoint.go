package node

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/node/allocate"
)

// maxCheckpointBytes bounds what is read of a checkpoint: some hundred times what a full node needs.
const maxCheckpointBytes = 16 << 20

// File is a Store in one file. A value is written beside it, made durable, and put in its place, so that the file is the old value or the
// new one and never a part.
type File string

// Load implements Store.
func (f File) Load() ([]byte, error) {
	info, err := os.Stat(string(f))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	if info.Size() > maxCheckpointBytes {
		return nil, fmt.Errorf("%s: %d bytes are too many (at most %d)", f, info.Size(), maxCheckpointBytes)
	}
	return os.ReadFile(string(f))
}

// Save implements Store.
func (f File) Save(data []byte) error {
	dir := filepath.Dir(string(f))
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	beside := string(f) + ".new" // one name: what a crash leaves is overwritten
	if err := write(beside, data); err != nil {
		return err
	}
	if err := os.Rename(beside, string(f)); err != nil {
		return err
	}
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

func write(name string, data []byte) error {
	file, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = file.Write(data)
	if err == nil {
		err = file.Sync()
	}
	return errors.Join(err, file.Close())
}

// checkpoint keeps what the allocator has decided, so that a restart of the agent moves no pod. It is written beside the loop, and no answer waits for it: a
// disk that does not answer must not have containers start without the agent. What was answered and was not on disk when the agent died is recovered from
// what the container runtime tells, see admission.synchronize.
type checkpoint struct {
	node  *nodeState
	saver *saver
}

func newCheckpoint(n *nodeState) *checkpoint {
	c := &checkpoint{node: n}
	c.saver = newSaver(n, n.ports.Checkpoint, c.written)
	return c
}

// Tick implements controller: it tries again what could not be written, and says so where the disk does not answer.
func (c *checkpoint) Tick(in *inputs) (changed bool) {
	c.save()
	if err := c.saver.late(in.now); err != nil {
		c.node.events.problems.set(spec.ReasonCheckpointLost, err.Error())
	}
	return false
}

// save has the checkpoint written if it has changed.
func (c *checkpoint) save() {
	if c.node.ports.Checkpoint == nil {
		return
	}
	data, err := json.Marshal(c.node.manager.Checkpoint())
	if err != nil {
		c.written(err)
		return
	}
	c.saver.save(data, c.node.now())
}

// written takes the end of a write. If it failed the node goes on: after a restart what runs is adopted.
func (c *checkpoint) written(err error) {
	n := c.node
	if err != nil {
		n.counts.CheckpointErrors++
		n.events.problems.set(spec.ReasonCheckpointLost, err.Error())
		n.log.Error("the checkpoint cannot be written; after a restart what runs is adopted", "err", err)
		return
	}
	n.counts.Checkpoints++
	n.events.problems.resolve(spec.ReasonCheckpointLost)
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
		n.counts.CheckpointErrors++
		n.log.Warn("the checkpoint cannot be read; what runs is adopted", "err", err)
		return nil
	}
	n.events.notes(spec.PodRef{}, n.manager.Restore(known))
	for _, z := range n.manager.Report().Closed {
		closed = append(closed, closedNUMANode{z.NUMANode, n.now()})
	}
	return closed
}
