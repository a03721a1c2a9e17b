package node

import (
	"maps"
	"slices"
	"testing"
	"time"

	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/node/advise"
	"hilbert.dev/hilbert/node/allocate"
	"hilbert.dev/hilbert/node/controller"
	"hilbert.dev/hilbert/node/enforce"
	"hilbert.dev/hilbert/node/evict"
	"hilbert.dev/hilbert/node/pods"
	"hilbert.dev/hilbert/node/runtime"
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
			a.onTick = slices.DeleteFunc(a.onTick, func(c controller.Ticker) bool { return c == controller.Ticker(a.governors) }) // by the test's time alone
			a.options.Governors = []Governor{&uplink{map[string]advise.Sample{
				web.Cgroup: advise.Known(9e6), low.Cgroup: advise.Known(2e5), high.Cgroup: advise.Known(9e5),
			}}}
		})
		look := func() {
			l.agent.Ask(time.Minute, func(a *Agent) { a.governors.Tick(l.now) })
			l.eventually("the governor has looked", func() (done bool) {
				l.agent.Ask(time.Minute, func(a *Agent) { done = a.governors.seen.Equal(l.now) })
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
		a.onTick = slices.DeleteFunc(a.onTick, func(c controller.Ticker) bool { return c == controller.Ticker(a.governors) }) // by the test's time alone
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
			a.governors.seen = time.Time{}
			a.governors.Tick(l.now.Add(time.Duration(i) * time.Second))
		})
		l.eventually("the governor has run", func() (done bool) {
			l.agent.Ask(time.Minute, func(a *Agent) { done = !a.governors.seen.IsZero() })
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

// An agent that starts while nobody answers goes on from the uplinks that its Node named last, until the Node names none any more; what cannot be read counts as nothing.
func TestUplinksAreKept(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	uplinks := func() (out []string) {
		w.agent.Ask(time.Minute, func(a *Agent) { out = a.governors.uplinks })
		return out
	}
	again := func() {
		w.stop()
		w.start()
	}
	w.start()
	w.agent.Annotated(map[string]string{spec.AnnotationUplinks: "eth0,eth1=10000"})
	w.agent.Annotated(map[string]string{spec.AnnotationUplinks: "eth0 eth1"})
	again()
	if got := uplinks(); !slices.Equal(got, []string{"eth0", "eth1=10000"}) {
		t.Errorf("after a start: %q", got)
	}
	w.agent.Annotated(nil)
	again()
	if got := uplinks(); len(got) != 0 {
		t.Errorf("the Node names none: %q", got)
	}
	for _, text := range []string{"{", `["eth0/"]`} {
		w.stop()
		w.uplinks.data = []byte(text)
		w.start()
		if got := uplinks(); len(got) != 0 {
			t.Errorf("%s: %q", text, got)
		}
	}
}

// The governors are told of each pod whether its traffic is background; a word that means nothing is told once.
func TestGovernorsKnowTrafficClasses(t *testing.T) {
	l := newLender(t)
	governor := &adjusted{}
	l.agent.Ask(time.Minute, func(a *Agent) {
		a.onTick = slices.DeleteFunc(a.onTick, func(c controller.Ticker) bool { return c == controller.Ticker(a.governors) }) // by the test's time alone
		a.options.Governors = []Governor{governor}
	})
	want := map[string]bool{}
	for word, background := range map[string]bool{"none": false, spec.TrafficBackground: true, "voice": false} {
		s := sandbox(word, 1)
		if word != "none" {
			s.Annotations[spec.AnnotationTrafficClass] = word
		}
		l.kernel.make(s.Cgroup)
		if err := l.agent.RunSandbox(t.Context(), s); err != nil {
			t.Fatal(err)
		}
		want[s.Cgroup] = background
	}
	faults := 0
	for range 2 {
		l.agent.Ask(time.Minute, func(a *Agent) {
			for _, p := range a.node.Pods.Sorted() {
				if p.TrafficFault != nil {
					faults++
				}
			}
			a.governors.seen = time.Time{}
			a.governors.Tick(l.now.Add(time.Second))
		})
		l.eventually("the governor has run", func() (done bool) {
			l.agent.Ask(time.Minute, func(a *Agent) { done = !a.governors.seen.IsZero() })
			return done
		})
	}
	got := map[string]bool{}
	for _, p := range governor.pods {
		got[p.Cgroup] = p.Background
	}
	if !maps.Equal(got, want) || faults != 1 {
		t.Errorf("%v, want %v; %d faults", got, want, faults)
	}
}

// A pod's word on its traffic is read; one that means nothing does not, and costs the pod nothing else.
func TestTrafficClassOfPods(t *testing.T) {
	t.Parallel()
	table := pods.NewTable(time.Now)
	for word, want := range map[string]bool{"": false, spec.TrafficBestEffort: false, spec.TrafficBackground: true, "voice": false} {
		p := table.Remember(&runtime.Sandbox{UID: "u" + word, ID: "s" + word, Cgroup: "kubepods/pod" + word, Annotations: map[string]string{spec.AnnotationTrafficClass: word}})
		if p.Background != want || (p.TrafficFault != nil) != (word == "voice") {
			t.Errorf("%q: background %v, %v", word, p.Background, p.TrafficFault)
		}
	}
}
