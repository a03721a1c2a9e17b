package advise

import (
	"testing"
	"time"
)

// A window covers its length, and at most a part more.
func TestWindows(t *testing.T) {
	const length = 12 * time.Second
	high, low := Highest{}, Lowest{}
	low.restart(9, 0, length)
	for now := range 40 * time.Second / time.Second {
		value, bottom := 1.0, int64(9)
		if now == 10 {
			value, bottom = 5, 2
		}
		at := now * time.Second
		h, l := high.see(value, at, length), low.see(bottom, 0, at, length)
		in := now >= 10 && now <= 22
		if in != (h == 5) || in != (l == 2) {
			t.Errorf("%v: the highest is %v, the lowest %v", at, h, l)
		}
	}
}

// Of a time in which nobody looked nothing is known: the need stays, a headroom was no more than was told.
func TestWindowGaps(t *testing.T) {
	const length = 12 * time.Second
	for _, gap := range []time.Duration{5 * time.Second, 13 * time.Second, time.Hour} { // 13 s: once around
		high, low := Highest{}, Lowest{}
		for now := range 30 * time.Second / time.Second {
			high.see(1, now*time.Second, length)
			low.see(9, 9, now*time.Second, length)
		}
		now := 29 * time.Second
		high.see(7, now, length)
		now += gap
		if got := high.see(1, now, length); got != 7 {
			t.Errorf("%v later the highest is %v, want 7", gap, got)
		}
		if got := low.see(9, 4, now, length); got != 4 {
			t.Errorf("%v later the lowest is %v, want 4", gap, got)
		}
	}
}

// What is found is told by its rules.
func TestPublished(t *testing.T) {
	const length, deadband = 12 * time.Second, 100
	now, h := time.Duration(0), Published{}
	tell := func(seconds int, found int64, f freeze) (out int64) {
		for range seconds {
			now += time.Second
			out = h.see(found, deadband, f, now, length)
		}
		return out
	}
	for _, c := range []struct {
		name    string
		seconds int
		found   int64
		freeze  freeze
		want    int64
	}{
		{"too soon", 11, 1000, mayRise, 0},
		{"it was so all the while", 3, 1000, mayRise, 1000},
		{"a rise too small to tell", 30, 1099, mayRise, 1000},
		{"a fall too small to tell", 30, 900, mayRise, 1000},
		{"a fall", 1, 899, mayRise, 899},
		{"frozen", 30, 2000, frozen, 899},
		{"it was seen while it was frozen", 1, 2000, mayRise, 2000},
		{"frozen, it falls", 1, 1500, frozen, 1500},
		{"unseen", 30, 3000, unseen, 1500},
		{"what was not seen does not count", 11, 3000, mayRise, 1500},
		{"now it does", 3, 3000, mayRise, 3000},
		{"little", 1, 40, mayRise, 40},
		{"nothing is told as nothing", 1, 0, mayRise, 0},
	} {
		if got := tell(c.seconds, c.found, c.freeze); got != c.want {
			t.Errorf("%s: %d, want %d", c.name, got, c.want)
		}
	}
}

// Ticks that lie further apart than the parts of a short window leave no gap in it; an agent that was stopped does.
func TestPublishedTicks(t *testing.T) {
	for _, c := range []struct {
		length, tick time.Duration
		want         int64
	}{
		{time.Second, time.Second, 1000},
		{time.Minute, 10 * time.Second, 1000},
		{time.Minute, 20 * time.Second, 0},
	} {
		h := Published{}
		for now := c.tick; now <= 10*time.Minute; now += c.tick {
			h.see(1000, 100, mayRise, now, c.length)
		}
		if h.Value != c.want {
			t.Errorf("ticks of %v, %v to rise: %d, want %d", c.tick, c.length, h.Value, c.want)
		}
	}
}

// After a boot time starts anew: what is remembered neither blocks nor hurries anything.
func TestReboot(t *testing.T) {
	o, p, m := quiet(1), Defaults(), State{}
	run := func(seconds int) (a Advice) {
		for range seconds {
			o.At, o.Wall = o.At+time.Second, o.Wall.Add(time.Second)
			a = Step(o, &p, &m)
			o.NUMANodes[0].Lent = a.NUMANodes[0].Lend * 2
		}
		return a
	}
	run(20_000)
	o.NUMANodes[0].SharedUse = Known(12)
	o.NUMANodes[0].SharedDelay = Known(20)
	run(3)
	o.At, o.NUMANodes[0].Lent = 0, 2
	o.NUMANodes[0].SharedUse, o.NUMANodes[0].SharedDelay = Known(4), Known(0.1)
	if a := run(25); a.NUMANodes[0].Lend != 1 {
		t.Errorf("25 s after the boot %d cores are lent", a.NUMANodes[0].Lend)
	}
	if a := run(120); a.NUMANodes[0].Lend != 11 || a.Suppression != SuppressNone {
		t.Errorf("two minutes later: %+v", a)
	}
}
