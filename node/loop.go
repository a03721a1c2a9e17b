package node

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

const (
	// MaxMessages bounds the messages that wait for the loop.
	MaxMessages = 256
	// maxBeside bounds what runs beside the loop at once: writes of the report and evictions.
	maxBeside = 16
)

var errStopped = errors.New("hilbert's agent is stopping")

// loop carries messages to the one goroutine that owns what the agent knows. A message is a function; the goroutine runs them one at a time, in
// order, so what they touch needs no lock. What may take long runs beside the loop, and posts its result back:
//
//	l.work(func(ctx context.Context) {
//		err := write(ctx)               // beside the loop: must not touch what the loop owns
//		l.post(func() { done(err) })    // in the loop again
//	})
type loop struct {
	inbox   chan func()
	stopped chan struct{} // closed when the loop has ended
	// work runs something beside the loop; nil until the loop runs.
	work func(func(context.Context))
}

func newLoop() *loop {
	return &loop{inbox: make(chan func(), MaxMessages), stopped: make(chan struct{})}
}

// start starts the workers, which run until ctx ends, and makes work available. wait returns when all of them have ended.
func (l *loop) start(ctx context.Context, workers []func(context.Context)) (wait func()) {
	var group sync.WaitGroup
	for _, run := range workers {
		group.Go(func() { run(ctx) })
	}
	slots := make(chan struct{}, maxBeside)
	l.work = func(f func(context.Context)) {
		group.Go(func() {
			select {
			case slots <- struct{}{}:
			case <-ctx.Done():
				return
			}
			defer func() { <-slots }()
			f(ctx)
		})
	}
	return group.Wait
}

// post hands the loop a message and does not wait until it has run.
func (l *loop) post(message func()) {
	select {
	case l.inbox <- message:
	case <-l.stopped:
	}
}

// call has the loop run f, and waits for it. If call fails, f may still run later.
func (l *loop) call(ctx context.Context, f func()) error {
	done := make(chan struct{})
	select {
	case l.inbox <- func() { f(); close(done) }:
	case <-ctx.Done():
		return fmt.Errorf("hilbert's agent is busy: %w", context.Cause(ctx))
	case <-l.stopped:
		return errStopped
	}
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("hilbert's agent is busy: %w", context.Cause(ctx))
	case <-l.stopped:
		return errStopped
	}
}

// ask is call with a timeout. False: the loop has not run f in time.
func (l *loop) ask(timeout time.Duration, f func()) bool {
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	return l.call(ctx, f) == nil
}

// returned has the loop run f and returns its result. If the call itself fails, the result of f is dropped: f may run later.
func returned[T any](ctx context.Context, l *loop, f func() (T, error)) (T, error) {
	var got, none T
	var failed error
	if err := l.call(ctx, func() { got, failed = f() }); err != nil {
		return none, err
	}
	return got, failed
}
