package budget

import (
	"testing"
	"time"

	"pgregory.net/rapid"
)

// Whoever asks for whatever and whenever: no window of time sees more than the limits allow, and nothing is withheld that they allow.
func TestNoWindowHasMoreThanTheLimits(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		limits := Limits{PerHour: rapid.IntRange(0, 3600).Draw(t, "per hour"), Burst: rapid.IntRange(0, 20).Draw(t, "burst")}
		now := time.Unix(1000, 0)
		b := New(limits, now)
		type given struct {
			at time.Time
			n  int
		}
		var all []given
		for range rapid.IntRange(1, 50).Draw(t, "turns") {
			now = now.Add(time.Duration(rapid.IntRange(-5, 120).Draw(t, "seconds")) * time.Second)
			asked := rapid.IntRange(0, 30).Draw(t, "asked")
			left := b.Left(now)
			got := b.Take(asked, now)
			if got != min(asked, left) {
				t.Fatalf("asked for %d of %d, got %d", asked, left, got)
			}
			if got > 0 && rapid.IntRange(0, 4).Draw(t, "not used") == 0 {
				b.GiveBack(got)
				got = 0
			}
			all = append(all, given{now, got})
		}
		for i := range all {
			sum, latest := 0, all[i].at
			for _, g := range all[i:] {
				sum += g.n
				if g.at.After(latest) {
					latest = g.at
				}
				if most := float64(limits.Burst) + latest.Sub(all[i].at).Hours()*float64(limits.PerHour) + 1e-6; float64(sum) > most {
					t.Fatalf("%d within %v, at most %.3f are allowed", sum, latest.Sub(all[i].at), most)
				}
			}
		}
	})
}

func TestBudget(t *testing.T) {
	now := time.Unix(1000, 0)
	b := New(Limits{PerHour: 60, Burst: 10}, now)
	for i, step := range []struct {
		after     time.Duration
		ask, want int
	}{{0, 8, 8}, {0, 8, 2}, {0, 1, 0}, {time.Minute, 3, 1}, {time.Hour, 20, 10}} {
		now = now.Add(step.after)
		if got := b.Take(step.ask, now); got != step.want {
			t.Errorf("step %d: got %d of %d, want %d", i, got, step.ask, step.want)
		}
	}
	var none Budget
	if none.Take(1, now) != 0 {
		t.Error("the zero value gives something")
	}
}
