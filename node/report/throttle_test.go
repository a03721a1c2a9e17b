package report

import (
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"
)

const (
	write   = 10 * time.Second
	refresh = 5 * time.Minute
)

var epoch = time.Unix(1_700_000_000, 0)

// node plays a node: each step some time passes, something may have changed, and what is due is written.
type node struct {
	*Throttle
	now    time.Time
	change Change
	began  []time.Time
	urgent []bool // of began
}

func (n *node) step(d time.Duration, change Change, answered, written bool) {
	n.now = n.now.Add(d)
	n.change = max(n.change, change)
	if n.inFlight && answered {
		n.Ended(written)
		if !written {
			n.change = Major
		}
	}
	if n.Wait(n.now, n.change) > 0 {
		return
	}
	n.Began(n.now)
	n.began, n.urgent, n.change = append(n.began, n.now), append(n.urgent, n.change == Urgent), Same
}

// However much changes and fails, two writes are never nearer than the write interval, or than a second where the later one is urgent, and none is
// begun while one is under way.
func TestWritesKeepTheirDistance(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := &node{Throttle: NewThrottle(rapid.String().Draw(t, "node"), write, refresh), now: epoch}
		for range rapid.IntRange(1, 300).Draw(t, "steps") {
			n.step(time.Duration(rapid.IntRange(0, 30_000).Draw(t, "ms"))*time.Millisecond, Change(rapid.IntRange(0, 3).Draw(t, "change")),
				rapid.Bool().Draw(t, "answered"), rapid.Bool().Draw(t, "written"))
		}
		for i := 1; i < len(n.began); i++ {
			least := write
			if n.urgent[i] {
				least = urgentPause
			}
			if d := n.began[i].Sub(n.began[i-1]); d < least {
				t.Fatalf("%s between writes %d and %d", d, i-1, i)
			}
		}
	})
}

// A change is written as soon as it may be; what does not matter to the scheduler waits, and no more than 12 writes an hour come of it.
func TestSteadyState(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := &node{Throttle: NewThrottle(rapid.String().Draw(t, "node"), write, refresh), now: epoch}
		const hour = 3600
		for range 4 * hour {
			n.step(time.Second, Change(rapid.IntRange(0, 40).Draw(t, "change")/40), true, true)
		}
		for i := range n.began {
			in := 0
			for j := i; j < len(n.began) && n.began[j].Before(n.began[i].Add(time.Hour)); j++ {
				in++
			}
			if in > 12 {
				t.Fatalf("%d writes in an hour: %v", in, n.began)
			}
		}
		if len(n.began) < 4*10 {
			t.Fatalf("only %d writes in four hours", len(n.began))
		}
	})
}

func TestChangesDoNotWaitForTheRefresh(t *testing.T) {
	n := NewThrottle("n", write, refresh)
	if wait := n.Wait(epoch, Major); wait < 0 || wait >= 2*write {
		t.Errorf("the first write waits %s", wait)
	}
	for range 2 {
		n.Began(epoch)
	}
	if wait := n.Wait(epoch, Major); wait != write {
		t.Errorf("while a write is under way: %s", wait)
	}
	n.Ended(true)
	for _, c := range []struct {
		change   Change
		at       time.Duration
		low, top time.Duration
	}{
		{Major, 0, write, write},
		{Major, 4 * time.Second, 6 * time.Second, 6 * time.Second},
		{Urgent, 0, urgentPause, urgentPause},
		{Urgent, 4 * time.Second, 0, 0},
		{Major, time.Minute, 0, 0},
		{Minor, time.Minute, 4 * time.Minute, 4*time.Minute + refresh/refreshJitter},
		{Same, time.Minute, 4 * time.Minute, 4*time.Minute + refresh/refreshJitter},
		{Same, refresh + refresh/refreshJitter, 0, 0},
		{Same, -time.Hour, refresh, refresh + refresh/refreshJitter}, // the clock went back: no time has passed
		{Major, -time.Hour, write, write},
	} {
		if got := n.Wait(epoch.Add(c.at), c.change); got < c.low || got > c.top {
			t.Errorf("change %d after %s: waits %s, want %s to %s", c.change, c.at, got, c.low, c.top)
		}
	}
}

// Failures are tried again after pauses that double, and stop at the refresh interval, or at some seconds for what is urgent; a success forgets them.
func TestFailuresBackOff(t *testing.T) {
	n := NewThrottle("n", write, refresh)
	now := epoch
	want, urgent := write, urgentPause
	for range 100 {
		now = now.Add(n.Wait(now, Same))
		n.Began(now)
		n.Ended(false)
		for c, want := range map[Change]time.Duration{Same: want, Major: want, Urgent: urgent} {
			if got := n.Wait(now, c); got < want || got > want+want/2 {
				t.Fatalf("change %d waits %s, want about %s", c, got, want)
			}
		}
		want, urgent = min(2*want, refresh), min(2*urgent, maxUrgentPause)
	}
	n.Began(now)
	n.Ended(true)
	if got := n.Wait(now, Major); got != write {
		t.Errorf("after a success: %s", got)
	}
}

// 20,000 nodes that start at once do not write at once: neither first nor later.
func TestNodesSpreadOut(t *testing.T) {
	const nodes, seconds = 20_000, 3600
	var at [seconds]int
	for i := range nodes {
		n := NewThrottle(fmt.Sprintf("node-%05d", i), write, refresh)
		for now := epoch; ; {
			now = now.Add(n.Wait(now, Major))
			for second := int(now.Sub(epoch) / time.Second); second < seconds; {
				at[second]++
				n.Began(now)
				n.Ended(true)
				now = now.Add(n.Wait(now, Same))
				second = int(now.Sub(epoch) / time.Second)
			}
			break
		}
	}
	most := func(from, to int) (m int) {
		for _, n := range at[from:to] {
			m = max(m, n)
		}
		return m
	}
	// The first writes take two write intervals; from then on it is as good as even: 20,000 each refresh interval and a little are 63 a second.
	if first, later := most(0, seconds), most(60, seconds); first > 1200 || later > 120 {
		t.Errorf("at most %d writes a second, and %d after the first minute", first, later)
	}
}
