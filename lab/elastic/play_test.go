package elastic

import (
	"context"
	"fmt"
	"time"
)

// play goes through the phases.
func (b *bed) play(ctx context.Context) error {
	if err := b.fill(ctx); err != nil {
		return err
	}
	b.rise()
	if err := b.high(ctx); err != nil {
		return err
	}
	if b.Ebb > 0 {
		if err := b.ebb(ctx); err != nil {
			return err
		}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.result.Ended = b.now()
	return nil
}

// fill has online pods on all nodes, and what they do not use lent to the queue.
func (b *bed) fill(ctx context.Context) error {
	if err := b.createAll(ctx, b.Nodes*onlinePods, member{online: true}); err != nil {
		return err
	}
	if err := b.await(ctx, "all online pods run", b.allRun); err != nil {
		return err
	}
	b.log.Info("the online pods run", "at", b.now())
	if err := b.await(ctx, "all nodes lend", func() (bool, string) {
		n, err := b.offer(ctx)
		return n == b.Nodes, fmt.Sprintf("%d of %d (%v)", n, b.Nodes, err)
	}); err != nil {
		return err
	}
	const late = 2 * time.Second
	if err := b.until(ctx, late, never); err != nil { // hilbertd has heard it of all
		return err
	}
	b.result.Offered = b.now()
	b.log.Info("all nodes lend", "at", b.now())
	if err := b.createAll(ctx, b.Nodes*b.Queue, member{}); err != nil {
		return err
	}
	if err := b.await(ctx, "the whole queue runs", b.allRun); err != nil {
		return err
	}
	b.result.Filled = b.now()
	b.log.Info("the queue runs", "at", b.now())
	return b.until(ctx, b.Lend, never)
}

func (b *bed) allRun() (bool, string) {
	n, of := b.running()
	return n == of, fmt.Sprintf("%d of %d", n, of)
}

// until waits for a time, or until something holds.
func (b *bed) until(ctx context.Context, most time.Duration, holds func() bool) error {
	for end := time.Now().Add(most); time.Now().Before(end) && !holds(); {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(look):
		}
	}
	return nil
}

func never() bool { return false }

// rise makes the load rise, and zero of all times now.
func (b *bed) rise() {
	b.loadAvg()
	b.mu.Lock()
	zero, r := time.Now(), &b.result
	shift := zero.Sub(b.began).Seconds()
	for _, at := range []*float64{&r.Began, &r.Offered, &r.Filled} {
		*at -= shift
	}
	for i := range r.Events {
		r.Events[i].At -= shift
	}
	for i := range r.Samples {
		r.Samples[i].At -= shift
	}
	b.began = zero
	b.mu.Unlock()
	for i, name := range b.names {
		switch agent := b.agents.Agent(name); b.role(i) {
		case roleBlind:
			agent.Blind(true)
			agent.SetOnline(b.High)
		case roleTide:
			agent.SetOnline(b.High)
		case roleKill:
			agent.Kill()
		}
	}
	b.log.Info("the load has risen", "after", shift)
}

// high waits while the load is high, and asks for more reclaimed pods once those of the killed nodes are stale.
func (b *bed) high(ctx context.Context) error {
	if err := b.untilStale(ctx); err != nil {
		return err
	}
	b.result.Probed = b.now()
	probes := b.Nodes - b.Tide - b.Blind + 1
	if err := b.createAll(ctx, probes, member{probe: true}); err != nil {
		return err
	}
	if err := b.until(ctx, b.Rise-time.Since(b.began), never); err != nil {
		return err
	}
	b.noteShort()
	if b.Quiet == 0 {
		return nil
	}
	return b.until(ctx, b.Most-time.Since(b.began), func() bool {
		all, _ := b.allRun()
		return all && b.sinceEviction() > b.Quiet
	})
}

// noteShort writes down until when online pods lacked CPUs.
func (b *bed) noteShort() {
	for i, name := range b.names {
		w := b.agents.Agent(name).Work()
		n := &b.result.Nodes[i]
		if w.Short.After(b.began) {
			n.Short = w.Short.Sub(b.began).Seconds()
			n.StillShort = w.OnlineGets < w.OnlineWants*0.999
		}
		b.log.Info("online pods", "node", name, "role", n.Role, "short until", n.Short, "still", n.StillShort)
	}
}

func (b *bed) sinceEviction() time.Duration {
	b.mu.Lock()
	defer b.mu.Unlock()
	last := 0.0
	for i := range b.result.Events {
		if e := &b.result.Events[i]; e.What == leaves {
			last = e.At
		}
	}
	return time.Since(b.began) - time.Duration(last*float64(time.Second))
}

// ebb makes the load fall, and waits until work is back.
func (b *bed) ebb(ctx context.Context) error {
	b.result.Fell = b.now()
	for i, name := range b.names {
		if role := b.role(i); role == roleTide || role == roleBlind {
			b.agents.Agent(name).Blind(false)
			b.agents.Agent(name).SetOnline(b.Low)
		}
	}
	b.log.Info("the load has fallen", "at", b.now())
	return b.until(ctx, b.Ebb, func() bool {
		for i, name := range b.names {
			w, n := b.agents.Agent(name).Work(), &b.result.Nodes[i]
			if n.Resumed == 0 && w.ReclaimedGets >= w.ReclaimedWants*0.999 {
				n.Resumed = b.now()
			}
		}
		return false
	})
}

// finish works the figures out. Nobody writes any more.
func (b *bed) finish() *Result {
	b.loadAvg()
	r := &b.result
	r.Figures = r.figures()
	return r
}
