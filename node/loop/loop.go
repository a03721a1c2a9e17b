// Package loop is the goroutine that owns an agent's state: messages in, one at a time, and what may take long beside it.
//
// A message is a function. The owner takes messages from Messages and runs them; other goroutines hand them over with Post, Call or Ask. So what messages
// touch needs no lock. Work runs something beside the loop, which posts its result back:
//
//	l.Work(func(ctx context.Context) {
//		err := write(ctx)               // beside the loop: must not touch what the loop owns
//		l.Post(func() { done(err) })    // in the loop again
//	})
package loop

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

// Loop is the queue of messages, and the workers beside it.
type Loop struct {
	inbox   chan func()
	stopped chan struct{} // closed when the loop has ended
	work    func(func(context.Context))
}

// New returns a Loop without workers. A goroutine has to run its Messages.
func New() *Loop {
	return &Loop{inbox: make(chan func(), MaxMessages), stopped: make(chan struct{})}
}

// Start starts the workers, which run until ctx ends, and makes Work available. wait returns when all of them have ended.
func (l *Loop) Start(ctx context.Context, workers []func(context.Context)) (wait func()) {
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

// Messages are for the goroutine that owns the state: it runs them.
func (l *Loop) Messages() <-chan func() { return l.inbox }

// Waiting is how many messages wait.
func (l *Loop) Waiting() int { return len(l.inbox) }

// Close ends the loop: waiting callers get an error.
func (l *Loop) Close() { close(l.stopped) }

// Running reports whether Work can be called: the loop was started.
func (l *Loop) Running() bool { return l.work != nil }

// Work runs something beside the loop, at most maxBeside at a time.
func (l *Loop) Work(f func(context.Context)) { l.work(f) }

// Post hands the loop a message and does not wait until it has run.
func (l *Loop) Post(message func()) {
	select {
	case l.inbox <- message:
	case <-l.stopped:
	}
}

// Call has the loop run f, and waits for it. If Call fails, f may still run later.
func (l *Loop) Call(ctx context.Context, f func()) error {
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

// Ask is Call with a timeout. False: the loop has not run f in time.
func (l *Loop) Ask(timeout time.Duration, f func()) bool {
	ctx, cancel := context.WithTimeout(context.Background(), timeout) //nolint:forbidigo // callers such as a scrape have a timeout and no context
	defer cancel()
	return l.Call(ctx, f) == nil
}

// Returned has the loop run f and returns its result. If the call itself fails, the result of f is dropped: f may run later.
func Returned[T any](ctx context.Context, l *Loop, f func() (T, error)) (T, error) {
	var got, none T
	var failed error
	if err := l.Call(ctx, func() { got, failed = f() }); err != nil {
		return none, err
	}
	return got, failed
}
