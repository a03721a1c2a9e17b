package evict

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/node/advise"
)

// pressedNode is calm but for its network, which is pressed with reclaimed pods at the floor. Of these a sends most.
func pressedNode() (*Observation, Params) {
	o, p := calm(), Defaults()
	p.Network.PerHour = 10
	o.Network = Network{Known: true, Pressed: []string{"eth0"}, Floored: true}
	for i, sent := range []float64{600_000, 200_000, 200_000, 9e9} {
		o.Pods[i].Sent = advise.Known(sent)
	}
	return o, p
}

// Who sends most goes, with notice, and nobody where anything is not known or not so.
func TestNetworkEvictsWhoSendsMost(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name   string
		change func(*Observation, *Params)
		want   []string
	}{
		{"who sends most, and then those who do", func(*Observation, *Params) {}, []string{"a", "c", "b"}},
		{"by default nobody", func(_ *Observation, p *Params) { p.Network = Defaults().Network }, nil},
		{"one in an hour", func(_ *Observation, p *Params) { p.Network.PerHour = 1 }, []string{"a"}},
		{"not pressed", func(o *Observation, _ *Params) { o.Network.Pressed = nil }, nil},
		{"reclaimed pods may send more", func(o *Observation, _ *Params) { o.Network.Floored = false }, nil},
		{"not known", func(o *Observation, _ *Params) { o.Network.Known = false }, nil},
		{"nobody's traffic is known", func(o *Observation, _ *Params) {
			for i := range o.Pods {
				o.Pods[i].Sent.Known = false
			}
		}, nil},
		{"the first one's traffic is not known", func(o *Observation, _ *Params) { o.Pods[0].Sent.Known = false }, []string{"c", "b"}},
		{"all send next to nothing", func(o *Observation, _ *Params) {
			for i := range o.Pods {
				o.Pods[i].Sent.Value = 1000
			}
		}, nil},
		{"all are online", func(o *Observation, _ *Params) {
			for i := range o.Pods {
				o.Pods[i].Level = spec.QoSShared
			}
		}, nil},
	} {
		o, p := pressedNode()
		c.change(o, &p)
		if gone := play(t, o, &p, &State{}, 30*time.Minute); !slices.Equal(gone, c.want) {
			t.Errorf("%s: %v go, not %v", c.name, gone, c.want)
		}
	}
}

// A pressure that ends in its first minute, or within the notice, has nobody go.
func TestNetworkThatPasses(t *testing.T) {
	t.Parallel()
	o, p := pressedNode()
	var m State
	for range 20 {
		for _, pressed := range []bool{true, false} {
			if o.Network.Pressed = nil; pressed {
				o.Network.Pressed = []string{"eth0"}
			}
			for range 59 {
				if d := Step(o, &p, &m); len(d.Requests)+len(d.Notices) > 0 {
					t.Fatal(d.Explain())
				}
				o.At += time.Second
			}
		}
	}
}

// Whatever the network does, and whatever else the node is short of: no more pods go for the network in any hour than may, each has had notice, none is urgent, and only reclaimed ones go.
func TestNetworkIsBounded(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		o, p := pressedNode()
		var m State
		p.Network.PerHour = rapid.IntRange(0, 4).Draw(t, "per hour")
		for i := range 30 {
			pod := hog(fmt.Sprint(i), spec.QoSReclaimed)
			pod.MemoryAmount, pod.Sent = advise.Known(8*gibibyte), advise.Known(rapid.Float64Range(0, 1e6).Draw(t, "sent"))
			o.Pods = append(o.Pods, pod)
		}
		var times []time.Duration
		noticed, stays := map[string]bool{}, map[string]bool{}
		for o.At < 3*time.Hour {
			if rapid.IntRange(0, 9).Draw(t, "changes") == 0 {
				drawNetwork(t, o)
			}
			d := Step(o, &p, &m)
			for i := range d.Notices {
				noticed[d.Notices[i].Pod.UID] = true
			}
			for _, r := range d.Requests {
				if r.Reason != NetworkPressure.String() {
					continue
				}
				if r.UID == "online" || r.Urgent || !noticed[r.UID] {
					t.Fatalf("%+v, with notice %v", r, noticed[r.UID])
				}
				if !stays[r.UID] {
					times = append(times, o.At)
				}
				if stays[r.UID] = true; rapid.Bool().Draw(t, "leaves") {
					o.Pods = slices.DeleteFunc(o.Pods, func(pod Pod) bool { return pod.UID == r.UID })
				}
			}
			o.At += time.Duration(rapid.IntRange(1, 15).Draw(t, "s")) * time.Second
		}
		withinAnHour(t, times, p.Network.PerHour)
	})
}

// drawNetwork draws how the network is, and how much memory there is beside it.
func drawNetwork(t *rapid.T, o *Observation) {
	o.Network = Network{Known: rapid.IntRange(0, 9).Draw(t, "known") > 0, Floored: rapid.IntRange(0, 5).Draw(t, "floored") > 0}
	if rapid.IntRange(0, 5).Draw(t, "pressed") > 0 {
		o.Network.Pressed = []string{"eth0"}
	}
	o.Node.MemoryAvailable = advise.Known(rapid.SampledFrom([]float64{12, 12, 1}).Draw(t, "available") * gibibyte) // 1: soft
}

// withinAnHour holds times, which ascend, to a most in any hour.
func withinAnHour(t *rapid.T, times []time.Duration, most int) {
	for i, at := range times {
		if last := i - most; last >= 0 && at-times[last] < time.Hour {
			t.Fatalf("%d pods from %v to %v, and %d are allowed", most+1, times[last], at, most)
		}
	}
}

// A pod that was asked for want of memory, and is wanted for the network once there is memory again, counts as asked for the network: where no more may be asked, its request is taken back.
func TestNetworkTakesOverWithinItsBound(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		perHour, spent int
		want           bool
	}{{1, 0, true}, {1, 1, false}} {
		o, p := pressedNode()
		p.Network.PerHour = c.perHour
		p.Escalation.NoticeAfter = spec.Duration(time.Second)
		var m State
		for range c.spent {
			m.GrantedNetwork = append(m.GrantedNetwork, 0)
		}
		o.Pods = o.Pods[:1]
		o.Node.MemoryAvailable = advise.Known(gibibyte) // soft
		var d Decision
		for ; o.At < 3*time.Minute; o.At += time.Second {
			d = Step(o, &p, &m)
		}
		if len(d.Requests) != 1 || d.Requests[0].Reason != MemoryAvailable.String() {
			t.Fatal(d.Explain())
		}
		o.Node.MemoryAvailable = advise.Known(12 * gibibyte)
		for end := o.At + 30*time.Second; o.At < end; o.At += time.Second {
			d = Step(o, &p, &m)
		}
		if asked := len(d.Requests) == 1 && d.Requests[0].Reason == NetworkPressure.String(); asked != c.want || len(m.GrantedNetwork) != 1 {
			t.Errorf("%d an hour, %d spent: granted %v\n%s", c.perHour, c.spent, m.GrantedNetwork, d.Explain())
		}
	}
}
