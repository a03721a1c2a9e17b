package node

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"hilbert.dev/hilbert/node/loop"
)

const (
	// slowSave is after how long a write that has not ended is told of.
	slowSave = 10 * time.Second
	// maxLastSave bounds how long an agent that ends waits for what it has not written yet.
	maxLastSave = 2 * time.Second
)

// saver keeps the newest value of a Store on disk, beside the loop: a disk that does not answer delays nobody. One write is under way at a time, in a
// goroutine that nobody waits for; values that come meanwhile are merged to the newest.
type saver struct {
	loop  *loop.Loop
	store Store // nil: nothing is kept
	ended func(error)
	now   func() time.Time

	wanted, saved, writing []byte // the newest; what is on disk; what is being written
	busy                   bool
	began                  time.Time
	err                    error         // why the last write failed; nil: it did not
	idle                   chan struct{} // closed when no write is under way
}

// newSaver returns a saver that calls ended in the loop after each write.
func newSaver(n *nodeState, store Store, ended func(error)) *saver {
	return &saver{loop: n.loop, now: n.now, store: store, ended: ended}
}

// save has the value written if it is not on disk. It does not wait.
func (s *saver) save(data []byte, now time.Time) {
	if s.store == nil {
		return
	}
	s.wanted = data
	s.next(now)
}

// late says for how long a write has not ended that should have; nil: none.
func (s *saver) late(now time.Time) error {
	if took := now.Sub(s.began); s.busy && took >= slowSave {
		return fmt.Errorf("the disk has not answered for %v", took.Round(time.Second))
	}
	return nil
}

func (s *saver) next(now time.Time) {
	if s.busy || s.wanted == nil || bytes.Equal(s.wanted, s.saved) {
		return
	}
	s.busy, s.began, s.writing = true, now, s.wanted
	idle := make(chan struct{})
	s.idle = idle
	data, store := s.writing, s.store
	go func() { // not a worker of the loop: their end is waited for
		err := store.Save(data)
		close(idle)
		s.loop.Post(func() { s.done(data, err) })
	}()
}

// done takes the end of a write. After a failure the next call of save tries again.
func (s *saver) done(data []byte, err error) {
	s.busy, s.err = false, err
	if err == nil {
		s.saved = data
	}
	s.ended(err)
	if err == nil {
		s.next(s.now())
	}
}

// flush writes what is not on disk yet, when the loop has ended. It waits no longer than until the timeout.
func (s *saver) flush(timeout <-chan struct{}) error {
	if s.store == nil {
		return nil
	}
	if s.busy {
		select {
		case <-s.idle:
		case <-timeout:
			return errors.New("the disk does not answer")
		}
		s.busy = false
		if bytes.Equal(s.writing, s.wanted) { // whether that failed is not known here
			s.saved = s.writing
			return nil
		}
	}
	if s.wanted == nil || bytes.Equal(s.wanted, s.saved) {
		return nil
	}
	failed := make(chan error, 1)
	go func() { failed <- s.store.Save(s.wanted) }()
	select {
	case err := <-failed:
		return err
	case <-timeout:
		return errors.New("the disk does not answer")
	}
}

// flush has on disk what is not there yet, if the disk answers. Each has the whole time: one that does not answer takes none from the others.
func (a *Agent) flush() {
	timeout, cancel := context.WithTimeout(context.Background(), maxLastSave) //nolint:forbidigo // that of the agent has ended
	defer cancel()
	last := map[string]*saver{"the checkpoint": a.checkpoint.saver, "the numbers of devices": a.devices.numbers.saver, "the configuration": a.configuration.saver, "the uplinks": a.governors.saver, "what plugins gave": a.plugins.saver}
	if a.absence.with != nil {
		last["the plan for the agent's absence"] = a.absence.saver
	}
	var writes sync.WaitGroup
	for what, s := range last {
		writes.Go(func() {
			if err := s.flush(timeout.Done()); err != nil {
				a.node.log.Warn("not written before the end", "what", what, "err", err)
			}
		})
	}
	writes.Wait()
}
