package loop

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

// own runs messages as an agent does, until the loop's test ends it.
func own(l *Loop, stop <-chan struct{}) {
	defer l.Close()
	for {
		select {
		case message := <-l.Messages():
			message()
		case <-stop:
			return
		}
	}
}

// TestMessagesKeepTheirOrder posts from one goroutine and calls from another: each message runs once, one at a time, in the order of its sender.
func TestMessagesKeepTheirOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, stop := New(), make(chan struct{})
		const each = 3 * MaxMessages
		var posted, called []int // only messages touch them
		running := 0
		alone := func(f func()) {
			if running++; running != 1 {
				t.Error("two messages run at once")
			}
			f()
			running--
		}
		go func() {
			for i := range each {
				l.Post(func() { alone(func() { posted = append(posted, i) }) })
			}
		}()
		go func() {
			for i := range each {
				if err := l.Call(t.Context(), func() { alone(func() { called = append(called, i) }) }); err != nil {
					t.Errorf("call %d: %v", i, err)
				}
			}
		}()
		go own(l, stop)
		synctest.Wait()
		close(stop)
		synctest.Wait()
		for name, got := range map[string][]int{"posted": posted, "called": called} {
			if len(got) != each || !slices.IsSorted(got) {
				t.Errorf("%s: %d of %d messages ran, in order: %v", name, len(got), each, slices.IsSorted(got))
			}
		}
	})
}

// TestPostIsBounded fills the inbox: the next post waits for room, and returns when the loop ends.
func TestPostIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := New()
		returned := 0
		go func() {
			for range MaxMessages + 2 {
				l.Post(func() {})
				returned++
			}
		}()
		synctest.Wait()
		if returned != MaxMessages || l.Waiting() != MaxMessages {
			t.Fatalf("%d posts returned, %d messages wait: want %d of each", returned, l.Waiting(), MaxMessages)
		}
		(<-l.Messages())()
		synctest.Wait()
		if returned != MaxMessages+1 {
			t.Fatalf("%d posts returned after one message ran: want %d", returned, MaxMessages+1)
		}
		l.Close()
		synctest.Wait()
		if returned != MaxMessages+2 {
			t.Fatal("a post waits for a loop that has ended")
		}
	})
}

// TestCallFails: a caller never waits for longer than its context or the loop lasts, whether its message waits outside or in the inbox. The message may
// still run later: the caller must not rely on its absence.
func TestCallFails(t *testing.T) {
	why := errors.New("shutting down")
	for name, full := range map[string]bool{"in the inbox": false, "outside of a full inbox": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := New()
				for full && l.Waiting() < MaxMessages {
					l.Post(func() {})
				}
				ctx, cancel := context.WithCancelCause(t.Context())
				results := make(chan error, 2)
				ran := false
				go func() { results <- l.Call(ctx, func() { ran = true }) }()
				synctest.Wait()
				if len(results) > 0 {
					t.Fatalf("the call returned (%v) before its message ran", <-results)
				}
				cancel(why)
				if err := <-results; !errors.Is(err, why) {
					t.Errorf("the context ended because of %q, and the call says %v", why, err)
				}
				if !full {
					if (<-l.Messages())(); !ran {
						t.Error("the message of a call that was given up is lost")
					}
				}
				go func() { results <- l.Call(t.Context(), func() {}) }()
				synctest.Wait()
				l.Close()
				if err := <-results; !errors.Is(err, errStopped) {
					t.Errorf("the loop ended, and the call says %v", err)
				}
			})
		})
	}
}

// TestAskTimesOut: a scrape has no context, and must not wait for a loop that is stuck.
func TestAskTimesOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, stop := New(), make(chan struct{})
		start := time.Now()
		if l.Ask(time.Second, func() {}) {
			t.Error("no goroutine runs messages, and Ask says that its message ran")
		}
		if took := time.Since(start); took != time.Second {
			t.Errorf("Ask gave up after %v, not after its timeout", took)
		}
		go own(l, stop)
		ran := false
		if !l.Ask(time.Second, func() { time.Sleep(time.Second / 2); ran = true }) || !ran {
			t.Error("Ask returns before its message has run")
		}
		close(stop)
	})
}

// TestReturned: the caller gets what f returned, and nothing of it if the call failed.
func TestReturned(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, stop := New(), make(chan struct{})
		go own(l, stop)
		refused := errors.New("refused")
		if n, err := Returned(t.Context(), l, func() (int, error) { return 7, refused }); n != 7 || !errors.Is(err, refused) {
			t.Errorf("got %d, %v: want 7, %v", n, err, refused)
		}
		close(stop)
		synctest.Wait()
		if n, err := Returned(t.Context(), l, func() (int, error) { return 7, nil }); n != 0 || !errors.Is(err, errStopped) {
			t.Errorf("the loop has ended: got %d, %v", n, err)
		}
	})
}

// TestWorkRunsBeside: work runs beside the loop, at most maxBeside at once, and all of it runs. Work that still waits when the agent ends is dropped, and
// wait returns only after the work and the workers that run have ended.
func TestWorkRunsBeside(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := New()
		if l.Running() {
			t.Error("a loop that was not started is running")
		}
		ctx, cancel := context.WithCancel(t.Context())
		worked := false
		wait := l.Start(ctx, []func(context.Context){func(ctx context.Context) { <-ctx.Done(); time.Sleep(time.Minute); worked = true }})
		if !l.Running() {
			t.Error("a loop that was started is not running")
		}
		began, gate := make(chan struct{}, 3*maxBeside), make(chan struct{})
		for range 3 * maxBeside {
			l.Work(func(context.Context) { began <- struct{}{}; <-gate })
		}
		synctest.Wait()
		if len(began) != maxBeside {
			t.Fatalf("%d run at once: want %d", len(began), maxBeside)
		}
		for range maxBeside {
			gate <- struct{}{}
		}
		synctest.Wait()
		if len(began) != 2*maxBeside {
			t.Fatalf("%d began after %d ended: want %d", len(began), maxBeside, 2*maxBeside)
		}
		cancel()
		synctest.Wait()
		ended := make(chan struct{})
		go func() { wait(); close(ended) }()
		synctest.Wait()
		select {
		case <-ended:
			t.Fatal("wait returned while work was running")
		default:
		}
		close(gate)
		<-ended
		if len(began) != 2*maxBeside || !worked {
			t.Errorf("%d began: want %d, the rest dropped; the worker ended: %v", len(began), 2*maxBeside, worked)
		}
	})
}
