package node

import (
	"slices"
	"testing"
	"time"

	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/node/advise"
	"hilbert.dev/hilbert/node/allocate"
	"hilbert.dev/hilbert/node/enforce"
	"hilbert.dev/hilbert/node/evict"
)

// uplink is a Governor of a network that is pressed.
type uplink struct{ sent map[string]advise.Sample }

func (*uplink) Tick(time.Duration, []enforce.Pod) ([]enforce.DesiredKnob, []allocate.Note) {
	return nil, nil
}
func (*uplink) Close() {}
func (u *uplink) Network() NetworkUse {
	return NetworkUse{Network: evict.Network{Known: true, Pressed: []string{"eth0"}, Floored: true}, Sent: u.sent}
}

// What a governor sees of the network ends in a request for the pod that sends most, though another is less important; by default in none; and what it saw too long ago in none.
func TestNetworkRequestsEviction(t *testing.T) {
	for perHour, want := range []int{0, 1} {
		l, web, low, high := crowded(t)
		l.agent.Ask(time.Minute, func(a *Agent) {
			a.eviction.params.Network.PerHour = perHour
			a.onTick = slices.DeleteFunc(a.onTick, func(c controller) bool { return c == controller(a.governors) }) // by the test's time alone
			a.options.Governors = []Governor{&uplink{map[string]advise.Sample{
				web.Cgroup: advise.Known(9e6), low.Cgroup: advise.Known(2e5), high.Cgroup: advise.Known(9e5),
			}}}
		})
		look := func() {
			l.agent.Ask(time.Minute, func(a *Agent) { a.governors.Tick(&inputs{now: l.now}) })
			l.eventually("the governor has looked", func() (done bool) {
				l.agent.Ask(time.Minute, func(a *Agent) { done = a.governors.networkSeen.Equal(l.now) })
				return done
			})
		}
		var out *spec.Colocation
		for range 26 {
			look()
			out = l.run(5)
		}
		if len(out.Evictions) != want || want > 0 && (out.Evictions[0].UID != high.UID || out.Evictions[0].Urgent || out.Evictions[0].Reason != "NetworkPressure") {
			t.Errorf("%d an hour: requested are %+v", perHour, out.Evictions)
		}
		if killed(l, &low) || killed(l, &high) {
			t.Error("a pod was stopped")
		}
		if out := l.run(60); len(out.Evictions) > 0 {
			t.Errorf("nobody looks any more, and requested are %+v", out.Evictions)
		}
	}
}

// adjusted is a Governor that remembers what it was given.
type adjusted struct {
	uplinks []string
	pods    []enforce.Pod
}

func (a *adjusted) Adjust(p *spec.LendingParameters) { a.uplinks = p.Network.Uplinks }
func (a *adjusted) Tick(_ time.Duration, pods []enforce.Pod) ([]enforce.DesiredKnob, []allocate.Note) {
	a.pods = pods
	return nil, nil
}
func (*adjusted) Close() {}

// The Node's annotation takes the place of the uplinks of the configuration from the next tick on, until it goes; one that cannot be read changes nothing and is told.
func TestUplinksByAnnotation(t *testing.T) {
	l, _, _, _ := crowded(t)
	governor := &adjusted{}
	l.agent.Ask(time.Minute, func(a *Agent) {
		a.onTick = slices.DeleteFunc(a.onTick, func(c controller) bool { return c == controller(a.governors) }) // by the test's time alone
		a.options.Governors = []Governor{governor}
		a.options.Config.Lending.Network.Uplinks = []string{"file0"}
	})
	for i, c := range []struct {
		says string
		want []string
		told bool
	}{
		{"", []string{"file0"}, false},
		{"eth0,eth1=10000", []string{"eth0", "eth1=10000"}, false},
		{"eth0 eth1", []string{"eth0", "eth1=10000"}, true},
		{"eth2", []string{"eth2"}, false},
		{"", []string{"file0"}, false},
	} {
		l.agent.Annotated(map[string]string{spec.AnnotationUplinks: c.says})
		l.agent.Ask(time.Minute, func(a *Agent) {
			a.governors.networkSeen = time.Time{}
			a.governors.Tick(&inputs{now: l.now.Add(time.Duration(i) * time.Second)})
		})
		l.eventually("the governor has run", func() (done bool) {
			l.agent.Ask(time.Minute, func(a *Agent) { done = !a.governors.networkSeen.IsZero() })
			return done
		})
		told := false
		l.agent.Ask(time.Minute, func(a *Agent) {
			for note := range a.governors.notes {
				told = told || note.Reason == spec.ReasonUplinksInvalid
			}
		})
		if !slices.Equal(governor.uplinks, c.want) || told != c.told {
			t.Errorf("%q: uplinks %q, told %v; want %q, %v", c.says, governor.uplinks, told, c.want, c.told)
		}
	}
}

// A pod's word on its traffic reaches the governors; one that means nothing does not, and costs the pod nothing else.
func TestTrafficClassOfPods(t *testing.T) {
	t.Parallel()
	table := podTable{byUID: map[string]*pod{}, sandboxes: map[string]*pod{}, now: time.Now}
	for word, want := range map[string]bool{"": false, spec.TrafficBestEffort: false, spec.TrafficBackground: true, "voice": false} {
		p := table.remember(&Sandbox{UID: "u" + word, ID: "s" + word, Cgroup: "kubepods/pod" + word, Annotations: map[string]string{spec.AnnotationTrafficClass: word}})
		if p.background != want || (p.trafficFault != nil) != (word == "voice") {
			t.Errorf("%q: background %v, %v", word, p.background, p.trafficFault)
		}
	}
}
