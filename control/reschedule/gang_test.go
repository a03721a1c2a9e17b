package reschedule

import (
	"slices"
	"strings"
	"testing"
	"time"

	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/control/budget"
)

// What is seen of a gang is what holds for all of its members and places.
func TestSeenGang(t *testing.T) {
	run, gone, leaving := Seen{Running: true}, Seen{Gone: true}, Seen{Evicted: true}
	here, some, none := []Seen{run, run}, []Seen{gone, run}, []Seen{gone, leaving}
	for name, c := range map[string]struct {
		members []Seen
		places  []Place
		want    Seen
	}{
		"nothing yet":                       {here, nil, Seen{Running: true, Place: Absent}},
		"one is asked for":                  {here, []Place{Reserved, Asked}, Seen{Running: true, Place: Asked}},
		"all are reserved":                  {here, []Place{Reserved, Reserved}, Seen{Running: true, Place: Reserved}},
		"one is lost":                       {here, []Place{Reserved, Lost}, Seen{Running: true, Place: Lost, Served: true}},
		"somebody of the gang has one":      {here, []Place{Reserved, Consumed}, Seen{Running: true, Place: Consumed}},
		"a place too few":                   {here, []Place{Reserved}, Seen{Running: true, Place: Absent}},
		"one has left, and has its place":   {some, []Place{Reserved, Consumed}, Seen{Partly: true, Place: Reserved}},
		"all have left":                     {none, []Place{Reserved, Reserved}, Seen{Evicted: true, Place: Reserved}},
		"all are gone, one has its place":   {[]Seen{gone, gone}, []Place{Consumed, Reserved}, Seen{Gone: true, Evicted: true, Place: Reserved}},
		"all have their places":             {none, []Place{Consumed, Consumed}, Seen{Evicted: true, Place: Consumed}},
		"one refuses":                       {[]Seen{run, {Running: true, Vetoed: "no"}}, []Place{Reserved, Reserved}, Seen{Running: true, Place: Reserved, Vetoed: "no"}},
		"one is no member any more":         {[]Seen{gone, {Running: true, NoMember: "no"}}, []Place{Reserved, Reserved}, Seen{Partly: true, Place: Reserved, NoMember: "no"}},
		"one is somewhere else, none leave": {[]Seen{run, {}}, []Place{Reserved, Reserved}, Seen{Place: Reserved}},
	} {
		c.want.Known = true
		if got := SeenGang(c.members, c.places, ""); got != c.want {
			t.Errorf("%s: got %+v, want %+v", name, got, c.want)
		}
	}
}

// Before the first eviction a gang gives its places back whatever goes wrong; after it the others follow.
func TestGangMove(t *testing.T) {
	now, limits := time.Unix(1000, 0), DefaultTimeouts()
	late := now.Add(limits.Evict)
	for name, c := range map[string]struct {
		at    Move
		seen  Seen
		now   time.Time
		stage Stage
		do    []Do
	}{
		"not all places yet":                     {Move{Stage: Reserving}, Seen{Running: true, Place: Asked}, now, Reserving, nil},
		"all places":                             {Move{Stage: Reserving}, Seen{Running: true, Place: Reserved}, now, Evicting, []Do{Evict}},
		"a member has left by itself":            {Move{Stage: Reserving}, Seen{Partly: true, Place: Reserved}, now, GivenBack, []Do{GiveBack}},
		"the first was refused":                  {Move{Stage: Evicting}, Seen{Running: true, Place: Reserved, Refused: "no"}, now, Evicting, []Do{Evict}},
		"a place is lost before the first":       {Move{Stage: Evicting}, Seen{Running: true, Place: Lost}, now, GivenBack, []Do{GiveBack}},
		"one left by itself, the first refused":  {Move{Stage: Evicting}, Seen{Partly: true, Place: Reserved, Refused: "no"}, now, GivenBack, []Do{GiveBack}},
		"one has left":                           {Move{Stage: Evicting}, Seen{Partly: true, Place: Reserved}, now, Evicting, []Do{Evict}},
		"one has left, another refuses by now":   {Move{Stage: Evicting, Begun: true}, Seen{Partly: true, Place: Reserved, Vetoed: "no"}, now, Evicting, []Do{Evict}},
		"one has left, and a place is lost":      {Move{Stage: Evicting, Begun: true}, Seen{Partly: true, Place: Lost, Served: true}, now, Evicting, []Do{Evict}},
		"one is no member, nobody has left":      {Move{Stage: Evicting}, Seen{Running: true, Place: Reserved, NoMember: "no"}, now, GivenBack, []Do{GiveBack}},
		"one is no member, places are asked for": {Move{Stage: Reserving}, Seen{Running: true, Place: Asked, NoMember: "no"}, now, GivenBack, []Do{GiveBack}},
		"one has left, another is no member":     {Move{Stage: Evicting, Begun: true}, Seen{Partly: true, Place: Reserved, NoMember: "no"}, now, Replacing, nil},
		"another leader: one is no member":       {Recover(Move{}, &Seen{Partly: true, Place: Reserved}, now, now, &limits), Seen{Partly: true, Place: Reserved, NoMember: "no"}, now, Replacing, nil},
		"the others could not be evicted":        {Move{Stage: Evicting, Begun: true}, Seen{Partly: true, Place: Reserved}, late, Replacing, nil},
		"all have left":                          {Move{Stage: Evicting, Begun: true}, Seen{Evicted: true, Place: Reserved}, now, Replacing, nil},
		"all have left, and a place is lost":     {Move{Stage: Replacing}, Seen{Gone: true, Place: Lost, Served: true}, now, LostTarget, []Do{GiveBack}},
		"all have their places":                  {Move{Stage: Replacing}, Seen{Gone: true, Place: Consumed}, now, Done, []Do{GiveBack}},
		"another leader: places are kept awhile": {Recover(Move{}, &Seen{Partly: true, Place: Asked}, now, now, &limits), Seen{Partly: true, Place: Asked}, now, Evicting, nil},
		"another leader: one was evicted":        {Recover(Move{}, &Seen{Partly: true, Place: Reserved}, now, now, &limits), Seen{Partly: true, Place: Reserved}, now, Evicting, []Do{Evict}},
		"another leader: one has its place":      {Recover(Move{}, &Seen{Partly: true, Place: Consumed}, now, now, &limits), Seen{Partly: true, Place: Consumed}, now, Evicting, []Do{Evict}},
		"another leader: nobody was evicted yet": {Recover(Move{}, &Seen{Running: true, Place: Reserved}, now, now, &limits), Seen{Running: true, Place: Reserved}, now, Evicting, []Do{Evict}},
	} {
		c.seen.Known, c.at.Since = true, now
		got, do := Advance(c.at, &c.seen, c.now, &limits)
		if got.Stage != c.stage || !slices.Equal(do, c.do) {
			t.Errorf("%s: %s, %v; want %s, %v", name, got.Stage, do, c.stage, c.do)
		}
		if c.seen.Partly && slices.Contains(do, Evict) && !got.Begun {
			t.Errorf("%s: the first refusal would end it, though some have left", name)
		}
	}
}

func gangWanted(name string, members int) Wanted {
	w := Wanted{Pod: name + "0", Namespace: "ns", Name: name + "0", Workload: name, Reason: ReasonHands, Gang: &GangMove{PodGroup: name, Nodes: []string{"b"}}}
	for i := range members {
		uid := name + string(rune('0'+i))
		w.Gang.Members = append(w.Gang.Members, Member{uid, uid, "a"})
	}
	return w
}

// A gang takes of the budget and of the moves at once as many as it has members, or nothing; what it does not need it gives back.
func TestGangTakesWhole(t *testing.T) {
	now := time.Unix(1000, 0)
	for name, c := range map[string]struct {
		most, burst int
		want        string
		left        int
	}{
		"room for both":          {9, 9, "a0 b0 ", 3},
		"the budget has five":    {9, 5, "a0 ", 1},
		"the budget has two":     {9, 2, "b0 ", 0},
		"five at once":           {5, 9, "a0 ", 5},
		"three at once":          {3, 9, "b0 ", 7},
		"one at once, of a gang": {1, 9, "", 9},
	} {
		b := budget.New(budget.Limits{Burst: c.burst}, now)
		carrier := NewCarrier(DefaultTimeouts(), c.most, b, new(History))
		if got := names(carrier.Begin([]Wanted{gangWanted("a", 4), gangWanted("b", 2)}, now)); got != c.want || b.Left(now) != c.left {
			t.Errorf("%s: began %q, want %q; %d are left, want %d", name, got, c.want, b.Left(now), c.left)
		}
		for _, m := range carrier.Moves() {
			carrier.Advance(m.Wanted.Pod, &Seen{Known: true, Running: true, Vetoed: "no"}, now)
		}
		if left := b.Left(now); left != c.burst || carrier.Busy() != 0 {
			t.Errorf("%s: %d of %d are given back, %d busy", name, left, c.burst, carrier.Busy())
		}
	}
	carrier := NewCarrier(DefaultTimeouts(), 9, budget.New(budget.Limits{Burst: 9}, now), new(History))
	carrier.Adopt(gangWanted("a", 3), &Seen{Known: true, Running: true}, now, now)
	carrier.Advance("a0", &Seen{Known: true, Running: true, Place: Reserved}, now)
	carrier.Advance("a0", &Seen{Known: true, Gone: true, Evicted: true, Place: Reserved}, now)
	if got := carrier.Counts().Evicted; got != 3 {
		t.Errorf("%d pods were evicted, want 3", got)
	}
	w := gangWanted("a", 3)
	if got := w.Pods(); !slices.Equal(got, []string{"a0", "a1", "a2"}) {
		t.Errorf("pods %v", got)
	}
}

func TestGangRefusal(t *testing.T) {
	for want, change := range map[string]func(*Pod){
		"":                          func(*Pod) {},
		"belongs to its node":       func(p *Pod) { p.Pinned = true },
		"its annotations refuse":    func(p *Pod) { p.Consent = spec.ConsentRefused },
		"nobody would make":         func(p *Pod) { p.Workload = "" },
		"has 2 members, and at mos": nil,
	} {
		v, most := View{Pods: []Pod{{Name: "a", Workload: "w"}, {Name: "b", Workload: "w"}}}, 2
		if change == nil {
			most = 1
		} else {
			change(&v.Pods[1])
		}
		if got := GangRefusal(&v, make([]int, MaxGang+1), 1000); !strings.Contains(got, "at most 256 pods") {
			t.Errorf("of more members than a Reservation has places: %q", got)
		}
		if got := GangRefusal(&v, []int{0, 1}, most); want == "" && got != "" || !strings.Contains(got, want) {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}
