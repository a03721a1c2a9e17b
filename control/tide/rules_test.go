package tide

import (
	"slices"
	"strings"
	"testing"
	"time"
)

// twelve is a pool of twelve nodes, of which online has so many: a, b, c and so on. It asks for four.
func twelve(online int) *View {
	v := &View{Need: 4, Budget: 100, Pool: Pool{ReserveOffline: 2, PerHour: 3, Slack: 1, Lead: 10 * time.Minute, Stay: 5 * time.Minute, Hold: 20 * time.Minute}}
	for i := range 12 {
		n := Node{Name: string(rune('a' + i)), Side: Offline, Open: true}
		if i < online {
			n.Side = Online
		}
		v.Nodes = append(v.Nodes, n)
	}
	return v
}

// surplus is twelve(9) whose online has had too many nodes for long enough.
func surplus() *View {
	v := twelve(9)
	v.Low, v.Most = start.Add(-time.Hour), 4
	return v
}

// gang has nodes share a gang of their side.
func (v *View) gang(nodes ...int) {
	for _, i := range nodes {
		h := v.Nodes[i].held(v.Nodes[i].of())
		*h = Held{Pods: 2, Stuck: 1, Lost: 100, Gangs: []string{"train"}}
	}
}

// Each rule by itself: what changes hands at one time.
func TestRules(t *testing.T) {
	for name, c := range map[string]struct {
		view func() *View
		want string // "d+ e-": d goes to online, e to offline
	}{
		"what is missing is taken":        {func() *View { return twelve(2) }, "c+ d+"},
		"in an hour no more than allowed": {func() *View { return twelve(0) }, "a+ b+ c+"},
		"what the memory has of the last hour counts": {func() *View {
			v := twelve(2)
			v.HandOvers = []HandOvers{{start.Add(-50 * time.Minute), 2}}
			return v
		}, "c+"},
		"of before it does not": {func() *View {
			v := twelve(2)
			v.HandOvers = []HandOvers{{start.Add(-62 * time.Minute), 2}}
			return v
		}, "c+ d+"},
		"what nodes say counts, where the memory was lost": {func() *View {
			v := twelve(2)
			v.Nodes[0].Since, v.Nodes[11].Since, v.Nodes[10].Since = start.Add(-50*time.Minute), start.Add(-59*time.Minute), start.Add(-61*time.Minute)
			return v
		}, "c+"},
		"what nodes say does not count twice": {func() *View {
			v := twelve(2)
			v.Nodes[0].Since, v.HandOvers = start.Add(-50*time.Minute), []HandOvers{{start.Add(-50 * time.Minute), 1}}
			return v
		}, "c+ d+"},
		"a gang that is larger than what is missing goes whole, if nothing else is left": {func() *View {
			v := twelve(3)
			v.ReserveOffline = 0
			v.gang(3, 4, 5, 6, 7, 8, 9, 10, 11)
			return v
		}, "d+ e+ f+ g+ h+ i+ j+ k+ l+"},
		"it waits if others have changed hands in the hour": {func() *View {
			v := twelve(3)
			v.ReserveOffline, v.HandOvers = 0, []HandOvers{{start.Add(-50 * time.Minute), 1}}
			v.gang(3, 4, 5, 6, 7, 8, 9, 10, 11)
			return v
		}, ""},
		"and goes within what is left": {func() *View {
			v := twelve(3)
			v.ReserveOffline, v.HandOvers = 0, []HandOvers{{start.Add(-50 * time.Minute), 1}}
			v.gang(3, 4)
			for i := 5; i < 12; i++ {
				v.Nodes[i].Open = false
			}
			return v
		}, "d+ e+"},
		"it does not take what offline keeps": {func() *View {
			v := twelve(3)
			v.gang(3, 4, 5, 6, 7, 8, 9, 10, 11)
			return v
		}, ""},
		"what is too many is given back": {surplus, "a- b- c-"},
		"not before Hold": {func() *View {
			v := surplus()
			v.Low = start.Add(time.Second - v.Hold)
			return v
		}, ""},
		"not by a time that is to come": {func() *View {
			v := surplus()
			v.Low = start.Add(time.Hour)
			return v
		}, ""},
		"not what it needed in the meantime": {func() *View {
			v := surplus()
			v.Most = 7
			return v
		}, "a- b-"},
		"not with a pod that nobody may move": {func() *View {
			v := surplus()
			for i := range 8 {
				v.Nodes[i].Online = Held{Pods: 1, Stuck: 1}
			}
			return v
		}, "i-"},
		"not what is within the slack": {func() *View {
			v := surplus()
			v.Most = 8
			return v
		}, ""},
		"nor more pods than the budget has": {func() *View {
			v := surplus()
			v.Budget = 3
			for i := range 9 {
				v.Nodes[i].Online = Held{Pods: 2}
			}
			return v
		}, "a-"},
		"not while a window is near": {func() *View {
			v := surplus()
			v.PerHour = 100
			v.Windows = []Window{{"sale", once(start.Add(v.Lead + v.Hold - time.Second)), time.Hour, 8}}
			return v
		}, ""},
		"what offline is owed goes at once": {func() *View {
			v := twelve(11)
			v.Slack = 9
			return v
		}, "a-"},
		"and with it what online has had too many of for long enough": {func() *View {
			v := twelve(11)
			v.Low, v.Most = start.Add(-time.Hour), 8
			return v
		}, "a- b- c-"},
		"a node that nobody had is online's first": {func() *View {
			v := surplus()
			v.Nodes[0].Side = Unassigned
			return v
		}, "a+ b- c- d-"},
		"paused": {func() *View {
			v := twelve(0)
			v.Paused = true
			return v
		}, ""},
	} {
		var got []string
		for _, h := range Decide(c.view(), start).Hands {
			got = append(got, h.Node+map[Side]string{Online: "+", Offline: "-"}[h.To])
		}
		if slices.Sort(got); strings.Join(got, " ") != c.want {
			t.Errorf("%s: %v, want %s", name, got, c.want)
		}
	}
}

// A time since when online has had too many that is to come, since a clock was set back, begins now: else nothing would be given back until it has come, and for Hold after that.
func TestClockIsSetBack(t *testing.T) {
	v := surplus()
	v.Low, v.Most = start.Add(24*time.Hour), 9
	if d := Decide(v, start); !d.Low.Equal(start) || d.Most != 4 {
		t.Errorf("too many since %v, at the most %d", d.Low, d.Most)
	}
}

// Whose pods are to leave which nodes, and when.
func TestLeaving(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*View)
		want   string
	}{
		"after Stay":                     {func(*View) {}, "a belongs to online, d belongs to offline"},
		"not before":                     {func(v *View) { v.Nodes[0].Since = start.Add(time.Second - v.Stay) }, "d belongs to offline"},
		"at once while services wait":    {func(v *View) { v.Nodes[0].Since, v.Waits = start, true }, "a belongs to online, d belongs to offline"},
		"services have their time then":  {func(v *View) { v.Nodes[3].Since, v.Waits = start, true }, "a belongs to online"},
		"none while the pool is paused":  {func(v *View) { v.Paused, v.Waits = true, true }, ""},
		"none where nobody has the node": {func(v *View) { v.Nodes[0].Side = Unassigned }, "d belongs to offline"},
	} {
		v := twelve(3)
		v.Nodes[0].Offline, v.Nodes[3].Online = Held{Pods: 1}, Held{Pods: 1}
		v.Nodes[0].Since, v.Nodes[3].Since = start.Add(-v.Stay), start.Add(-v.Stay)
		c.change(v)
		var got []string
		for node, why := range Leaving(v, start) {
			if !strings.HasPrefix(why, node) {
				t.Errorf("%s: of %s it says %s", name, node, why)
			}
			got = append(got, why)
		}
		if slices.Sort(got); strings.Join(got, ", ") != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}
