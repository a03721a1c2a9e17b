package reschedule

import (
	"slices"
	"testing"
	"time"

	"hilbert.dev/hilbert/control/budget"
)

func wanted(pod, workload, reason, why string) Wanted {
	return Wanted{Pod: pod, Namespace: "ns", Name: pod, Workload: workload, From: "a", To: "b", Reason: reason, Why: why}
}

func names(list []Wanted) (text string) {
	for _, w := range list {
		text += w.Pod + " "
	}
	return text
}

// Groups that make room are taken whole; the budget and the bound on moves at once hold.
func TestCarrierBegins(t *testing.T) {
	now := time.Unix(1000, 0)
	room := func(pods ...string) (list []Wanted) {
		for _, p := range pods {
			list = append(list, wanted(p, p, ReasonRoom, "train waits"))
		}
		return list
	}
	one := wanted("x", "x", ReasonFragmentation, "y")
	for name, c := range map[string]struct {
		most, burst int
		batch       []Wanted
		want        string
		left        int
	}{
		"all":                           {9, 9, append(room("a", "b", "c"), one), "a b c x ", 5},
		"the budget has two":            {9, 2, append(room("a", "b", "c"), one), "x ", 1},
		"two at once":                   {2, 9, append(room("a", "b", "c"), one), "x ", 8},
		"no budget":                     {9, 0, append(room("a"), one), "", 0},
		"one of two, which stand alone": {1, 9, []Wanted{one, wanted("z", "z", ReasonFragmentation, "y")}, "x ", 8},
	} {
		b := budget.New(budget.Limits{Burst: c.burst}, now)
		carrier := NewCarrier(DefaultTimeouts(), c.most, b, new(History))
		if got := names(carrier.Begin(c.batch, now)); got != c.want || b.Left(now) != c.left {
			t.Errorf("%s: began %q, want %q; %d are left, want %d", name, got, c.want, b.Left(now), c.left)
		}
		if again := carrier.Begin(c.batch[:1], now); names(again) != "" && carrier.moves[again[0].Pod] == nil {
			t.Errorf("%s: a pod moves twice", name)
		}
	}
}

// A move that ends before its eviction gives its part of the budget back, and its workload does not count as moved; one that ends after it does.
func TestCarrierEnds(t *testing.T) {
	now := time.Unix(1000, 0)
	for name, c := range map[string]struct {
		seen  []Seen
		end   Stage
		left  int
		moved bool
	}{
		"vetoed":      {[]Seen{{Known: true, Running: true, Vetoed: "no"}}, GivenBack, 1, false},
		"target lost": {[]Seen{{Known: true, Running: true}, {Known: true, Running: true, Place: Lost}}, GivenBack, 1, false},
		"nobody does what the EvictionRequest asks for": {[]Seen{
			{Known: true, Running: true}, {Known: true, Running: true, Place: Reserved}, {Known: true, Running: true, Place: Reserved, Requested: true, Failed: "no"}, {Known: true, Running: true, Place: Reserved},
		}, Stayed, 1, true},
		"done": {[]Seen{
			{Known: true, Running: true}, {Known: true, Running: true, Place: Reserved}, {Known: true, Gone: true, Place: Reserved}, {Known: true, Gone: true, Place: Consumed},
		}, Done, 0, true},
		"lost after": {[]Seen{
			{Known: true, Running: true}, {Known: true, Running: true, Place: Reserved}, {Known: true, Gone: true, Place: Lost}, {Known: true, Gone: true, Place: Lost, Served: true},
		}, LostTarget, 0, true},
		"lost after, and its Reservation deleted": {[]Seen{
			{Known: true, Running: true}, {Known: true, Running: true, Place: Reserved}, {Known: true, Gone: true, Place: Absent},
		}, LostTarget, 0, true},
	} {
		b := budget.New(budget.Limits{Burst: 1}, now)
		carrier := NewCarrier(DefaultTimeouts(), 9, b, new(History))
		carrier.Begin([]Wanted{wanted("p", "web", ReasonFragmentation, "y")}, now)
		for i := range c.seen {
			carrier.Advance("p", &c.seen[i], now.Add(time.Duration(i)*2*time.Minute))
		}
		_, moved := carrier.History().workload("web", now)
		if counts := carrier.Counts(); counts.Ended[c.end] != 1 || b.Left(now) != c.left || moved != c.moved || len(carrier.Moves()) > 0 {
			t.Errorf("%s: %+v, %d left, moved %v", name, counts, b.Left(now), moved)
		}
		if after, do, _ := carrier.Advance("p", &c.seen[0], now); do != nil || after.Wanted.Pod != "" {
			t.Errorf("%s: a move that has ended goes on: %+v", name, do)
		}
	}
}

// A move whose replacement waits for its turn keeps nobody else from moving.
func TestRequeuedMovesAreNotBusy(t *testing.T) {
	now := time.Unix(1000, 0)
	carrier := NewCarrier(DefaultTimeouts(), 1, budget.New(budget.Limits{Burst: 2}, now), new(History))
	carrier.Begin([]Wanted{wanted("p", "web", ReasonFragmentation, "y")}, now)
	for _, seen := range []Seen{{Known: true, Running: true}, {Known: true, Running: true, Place: Reserved}, {Known: true, Gone: true, Place: Reserved}} {
		carrier.Advance("p", &seen, now)
		if again := carrier.Begin([]Wanted{wanted("q", "db", ReasonFragmentation, "y")}, now); len(again) > 0 {
			t.Fatal("two moves at once, and one may be")
		}
	}
	if m, do, _ := carrier.Advance("p", &Seen{Known: true, Gone: true, Place: Lost, Why: "NodeGone"}, now); m.Stage != Requeued || !slices.Equal(do, []Do{QueueFirst}) {
		t.Errorf("%v %v", m.Stage, do)
	}
	if again := carrier.Begin([]Wanted{wanted("q", "db", ReasonFragmentation, "y")}, now); len(again) != 1 || carrier.Busy() != 1 || len(carrier.Moves()) != 2 {
		t.Errorf("begun %v, %d busy of %d", again, carrier.Busy(), len(carrier.Moves()))
	}
}

// The next leader goes on with what it finds, and asks no budget for it.
func TestCarrierAdopts(t *testing.T) {
	now := time.Unix(10_000, 0)
	carrier := NewCarrier(DefaultTimeouts(), 0, &budget.Budget{}, new(History))
	carrier.Adopt(wanted("p", "web", ReasonRoom, "y"), &Seen{Known: true, Gone: true, Place: Reserved}, now, now)
	carrier.Adopt(wanted("p", "web", ReasonRoom, "y"), &Seen{}, now, now)
	if m, do, _ := carrier.Advance("p", &Seen{Known: true, Gone: true, Place: Consumed}, now); m.Stage != Done || len(do) != 1 || carrier.Counts().Adopted != 1 {
		t.Errorf("%+v, %v, %+v", m, do, carrier.Counts())
	}
}

// What a leader before took from its budget is not given back to the next one's: it would evict more than both may.
func TestAdoptedMovesGiveNothingBack(t *testing.T) {
	now := time.Unix(10_000, 0)
	b := budget.New(budget.Limits{Burst: 2}, now)
	carrier := NewCarrier(DefaultTimeouts(), 9, b, new(History))
	running := &Seen{Known: true, Running: true, Place: Asked}
	carrier.Adopt(wanted("p", "web", ReasonFragmentation, "y"), running, now, now)
	carrier.Begin([]Wanted{wanted("q", "db", ReasonFragmentation, "y")}, now)
	if b.Left(now) != 1 {
		t.Fatalf("%d are left", b.Left(now))
	}
	for i, c := range []struct {
		pod  string
		left int
	}{{"p", 1}, {"q", 2}} {
		later := now.Add(DefaultTimeouts().Withdraw) // nobody has been asked for longer than that
		carrier.Advance(c.pod, &Seen{Known: true, Running: true, Vetoed: "no"}, later)
		if len(carrier.Moves()) != 1-i || b.Left(now) != c.left {
			t.Errorf("after %s %d are left, want %d; %d moves go on", c.pod, b.Left(now), c.left, len(carrier.Moves()))
		}
	}
}
