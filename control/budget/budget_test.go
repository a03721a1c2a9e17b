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

// Leaders that come and go give out together no more than one budget would.
func TestLeadersShareOneBudget(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		limits := Limits{PerHour: rapid.IntRange(0, 3600).Draw(t, "per hour"), Burst: rapid.IntRange(0, 20).Draw(t, "burst")}
		now := time.Unix(1000, 0)
		b, began, sum := New(limits, now), now, 0
		for range rapid.IntRange(1, 50).Draw(t, "turns") {
			now = now.Add(time.Duration(rapid.IntRange(0, 120).Draw(t, "seconds")) * time.Second)
			if rapid.IntRange(0, 2).Draw(t, "a new leader") == 0 {
				b = NewEmpty(limits, now)
			}
			sum += b.Take(rapid.IntRange(0, 30).Draw(t, "asked"), now)
			if most := float64(limits.Burst) + now.Sub(began).Hours()*float64(limits.PerHour) + 1e-6; float64(sum) > most {
				t.Fatalf("%d within %v, at most %.3f are allowed", sum, now.Sub(began), most)
			}
		}
		if later := now.Add(time.Hour + time.Second); limits.Burst > 0 && limits.PerHour > 0 && b.Left(later) == 0 {
			t.Fatal("an hour later nothing is left")
		}
	})
}

// With charges: what was given out after them, and they themselves, are together no more than the limits allow, but for what was charged beyond the budget. Nothing is given while there is a
// debt, and a debt is over after an hour.
func TestChargesCount(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		limits := Limits{PerHour: rapid.IntRange(1, 3600).Draw(t, "per hour"), Burst: rapid.IntRange(1, 20).Draw(t, "burst")}
		now := time.Unix(1000, 0)
		b := New(limits, now)
		began, sum := now, 0
		for range rapid.IntRange(1, 50).Draw(t, "turns") {
			now = now.Add(time.Duration(rapid.IntRange(0, 120).Draw(t, "seconds")) * time.Second)
			if rapid.Bool().Draw(t, "charged") {
				n := rapid.IntRange(0, 30).Draw(t, "n")
				b.Charge(n, now)
				sum = min(sum+n, int(float64(limits.Burst)+now.Sub(began).Hours()*float64(limits.PerHour))+limits.PerHour+1) // what is beyond the debt is forgiven
				continue
			}
			got := b.Take(rapid.IntRange(0, 30).Draw(t, "asked"), now)
			sum += got
			if most := float64(limits.Burst) + now.Sub(began).Hours()*float64(limits.PerHour) + 1e-6; got > 0 && float64(sum) > most {
				t.Fatalf("%d within %v with what was charged, at most %.3f are allowed", sum, now.Sub(began), most)
			}
		}
		b.Charge(1_000_000, now)
		if b.Left(now) > 0 || b.Take(1, now) > 0 {
			t.Fatal("something is left beside a debt")
		}
		if later := now.Add(time.Hour + time.Duration(float64(time.Hour)/float64(limits.PerHour)) + time.Second); b.Take(1, later) != 1 {
			t.Fatal("a debt is not over after an hour")
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
