package store

import (
	"bytes"
	"errors"
	"fmt"
	"time"

	"hilbert.dev/hilbert/node/loop"
)

// slowSave is after how long a write that has not ended is told of.
const slowSave = 10 * time.Second

// Saver keeps the newest value of a Store on disk, beside the loop: a disk that does not answer delays nobody. One write is under way at a time, in a
// goroutine that nobody waits for; values that come meanwhile are merged to the newest.
type Saver struct {
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

// NewSaver returns a saver that calls ended in the loop after each write. A nil store keeps nothing.
func NewSaver(l *loop.Loop, now func() time.Time, store Store, ended func(error)) *Saver {
	return &Saver{loop: l, now: now, store: store, ended: ended}
}

// Loaded says what is on disk already.
func (s *Saver) Loaded(data []byte) { s.saved = data }

// Writes reports whether a write is under way.
func (s *Saver) Writes() bool { return s.busy }

// Save has the value written if it is not on disk. It does not wait.
func (s *Saver) Save(data []byte, now time.Time) {
	if s.store == nil {
		return
	}
	s.wanted = data
	s.next(now)
}

// Late says for how long a write has not ended that should have; nil: none.
func (s *Saver) Late(now time.Time) error {
	if took := now.Sub(s.began); s.busy && took >= slowSave {
		return fmt.Errorf("the disk has not answered for %v", took.Round(time.Second))
	}
	return nil
}

func (s *Saver) next(now time.Time) {
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
func (s *Saver) done(data []byte, err error) {
	s.busy, s.err = false, err
	if err == nil {
		s.saved = data
	}
	s.ended(err)
	if err == nil {
		s.next(s.now())
	}
}

// Flush writes what is not on disk yet, when the loop has ended. It waits no longer than until the timeout.
func (s *Saver) Flush(timeout <-chan struct{}) error {
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
