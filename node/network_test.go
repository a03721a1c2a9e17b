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
