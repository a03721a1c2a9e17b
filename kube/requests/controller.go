package requests

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"sync"
	"time"

	"hilbert.dev/hilbert/control/request"
	"hilbert.dev/hilbert/kube/apiserver"
	"hilbert.dev/hilbert/kube/lease"
)

const (
	// pause is the least time between two decisions: what changes meanwhile is decided upon together.
	pause = 20 * time.Millisecond
	// idle is the most, where something is expected.
	idle = 30 * time.Second
	// writers is how many writes are under way at once.
	writers = 32
	// queued is how many more may wait for one of them.
	queued = 512
)

// Options say how ResourceRequests are answered.
type Options struct {
	// SchedulerName schedules the pods of templates that name nobody.
	SchedulerName string
	// PodsPerSecond bounds the pods that are made.
	PodsPerSecond int
	// Params bound what is decided.
	Params request.Params
	// Timeout bounds one write.
	Timeout time.Duration
	// Wrote, if it is set, is told of each write: what it was, and why it failed. It must not block.
	Wrote func(what string, err error)
	// Saw, if it is set, is told after each decision how many requests there are, and how many of their pods wait for a node.
	Saw func(requests, waiting int)
}

// Controller answers ResourceRequests while its process leads.
type Controller struct {
	connection *apiserver.Connection
	fence      *lease.Fence
	log        *slog.Logger
	Options
}

// New returns a Controller.
func New(c *apiserver.Connection, fence *lease.Fence, o Options, log *slog.Logger) *Controller {
	return &Controller{connection: c, fence: fence, log: log, Options: o}
}

// done is a write that has come back.
type done struct {
	action *request.Action
	outcome
}

// term is one leadership: what is remembered of the one before may be wrong by now.
type term struct {
	*Controller
	watch   *Watch
	writer  *Writer
	state   *request.State
	tokens  float64 // pods that may be made now
	at      time.Time
	due     map[request.Key]time.Time
	todo    chan *request.Action
	results chan done
	flying  int
	backlog []request.Action // decided, and not yet handed to a writer
	trouble map[string]bool  // what was logged and has not ended
}

// Run answers until ctx ends, and waits for what is under way.
func (c *Controller) Run(ctx context.Context) error {
	watch, err := NewWatch(ctx, c.connection, c.log)
	if err != nil {
		return err
	}
	defer watch.Close()
	writer, err := NewWriter(c.connection, c.fence, watch, c.SchedulerName, c.Timeout)
	if err != nil {
		return err
	}
	defer writer.Close()
	t := &term{
		Controller: c, watch: watch, writer: writer, state: request.NewState(c.Params), at: time.Now(),
		due: make(map[request.Key]time.Time), todo: make(chan *request.Action, queued), results: make(chan done, writers+queued), trouble: make(map[string]bool),
	}
	var running sync.WaitGroup
	for range writers {
		running.Go(func() { t.write(ctx) })
	}
	t.loop(ctx)
	close(t.todo)
	running.Wait()
	return nil
}

// write is one of the writers. When ctx ends nobody takes results any more.
func (t *term) write(ctx context.Context) {
	for a := range t.todo {
		if ctx.Err() != nil {
			continue
		}
		select {
		case t.results <- done{a, t.writer.do(ctx, a)}:
		case <-ctx.Done():
		}
	}
}

func (t *term) loop(ctx context.Context) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case d := <-t.results:
			t.came(&d)
		case <-t.watch.Changed():
		case <-timer.C:
		}
		for more := true; more; {
			select {
			case d := <-t.results:
				t.came(&d)
			default:
				more = false
			}
		}
		wake := idle
		if t.watch.Listed() {
			wake = t.round(time.Now())
		}
		timer.Reset(wake)
		if !apiserver.Pause(ctx, pause) && ctx.Err() != nil {
			return
		}
	}
}

// came takes in what came of a write. Its request is looked at again: it may have waited for that.
func (t *term) came(d *done) {
	t.flying--
	now := time.Now()
	t.state.Done(d.action, d.result, d.message, now)
	t.due[d.action.Request] = now
	if d.what == "none" {
		return
	}
	if t.Wrote != nil {
		t.Wrote(d.what, d.err)
	}
	what := d.what + " " + d.action.Request.String()
	if d.err == nil {
		delete(t.trouble, what)
		return
	}
	if !t.trouble[what] && !errors.Is(d.err, lease.ErrFenced) {
		const most = 1000
		if len(t.trouble) >= most {
			clear(t.trouble)
		}
		t.trouble[what] = true
		t.log.Warn("a write for a ResourceRequest failed; it is tried again", "resourceRequest", d.action.Request.String(), "what", d.what, "err", d.err)
	}
}

// round decides once, as far as there are writers for it, and returns when to look again though nothing changes.
func (t *term) round(now time.Time) time.Duration {
	t.hand()
	rate := float64(t.PodsPerSecond)
	t.tokens, t.at = min(rate, t.tokens+rate*now.Sub(t.at).Seconds()), now
	if len(t.backlog) == 0 {
		t.decide(max(0, min(int(t.tokens), writers+queued-t.flying)), now)
		t.hand()
	}
	wake := idle
	for _, at := range t.due {
		wake = min(wake, at.Sub(now))
	}
	if t.Saw != nil {
		t.Saw(t.watch.Counts())
	}
	return max(wake, pause)
}

func (t *term) decide(room int, now time.Time) {
	var due []request.Key
	for key, at := range t.due {
		if !now.Before(at) {
			due = append(due, key)
			delete(t.due, key)
		}
	}
	t.watch.decide(due, t.state.Forget, func(v *request.View) {
		v.Room = room
		actions, wake := t.state.Decide(v, now)
		maps.Copy(t.due, wake)
		t.backlog = append(t.backlog, actions...)
		for i := range actions {
			if actions[i].Create != nil {
				t.tokens--
			}
		}
	})
}

// hand gives writers what was decided, as far as they take it.
func (t *term) hand() {
	for len(t.backlog) > 0 {
		select {
		case t.todo <- &t.backlog[0]:
			t.backlog = t.backlog[1:]
			t.flying++
		default:
			return
		}
	}
	t.backlog = nil
}
