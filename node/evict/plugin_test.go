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

// calm is a node that is short of nothing, with reclaimed pods a, b and c, of which c is the least important, and an online pod.
func calm() *Observation {
	o := &Observation{Node: Node{MemoryTotal: advise.Known(16 * gibibyte), MemoryAvailable: advise.Known(12 * gibibyte)}}
	for i, name := range []string{"a", "b", "c"} {
		pod := hog(name, spec.QoSReclaimed)
		pod.MemoryAmount, pod.Priority = advise.Known(8*gibibyte), int32(-i)
		o.Pods = append(o.Pods, pod)
	}
	o.Pods = append(o.Pods, hog("online", spec.QoSShared))
	return o
}

func alarmed(candidates ...Candidate) []Finding {
	return []Finding{{Plugin: "nic", Condition: "UplinkFull", Met: true, Message: "97 % of 10 Gbit/s", Candidates: candidates}}
}

// play steps each second for a while, with evicted pods leaving at once, and returns who was evicted, in order.
func play(t *testing.T, o *Observation, p *Params, m *State, during time.Duration) (gone []string) {
	t.Helper()
	for end := o.At + during; o.At < end; o.At += time.Second {
		d := Step(o, p, m)
		if d.Stop != nil || len(d.NoLending) > 0 || len(d.Reclaims) > 0 {
			t.Fatalf("at %v:\n%s", o.At, d.Explain())
		}
		for _, r := range d.Requests {
			if r.Urgent {
				t.Fatalf("%s is urgent", r.Name)
			}
			gone = append(gone, r.UID)
			o.Pods = slices.DeleteFunc(o.Pods, func(pod Pod) bool { return pod.UID == r.UID })
		}
	}
	return gone
}

// A plugin's finding has the pods go that it names, one at a time, with notice, in the agent's order; and no others.
func TestFindingsEvictWhomTheyName(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name     string
		findings []Finding
		change   func(*Params)
		want     []string
	}{
		{"the lower priority first", alarmed(Candidate{"a", 1}, Candidate{"b", 0.1}), nil, []string{"b", "a"}},
		{"an online pod", alarmed(Candidate{"online", 1}), nil, nil},
		{"nobody", alarmed(), nil, nil},
		{"a pod that would not help", alarmed(Candidate{"a", 0.001}), nil, nil},
		{"not met", []Finding{{Plugin: "nic", Condition: "UplinkFull", Candidates: []Candidate{{"a", 1}}}}, nil, nil},
		{"stale", []Finding{{Plugin: "nic", Condition: "UplinkFull", Met: true, Stale: true, Candidates: []Candidate{{"a", 1}}}}, nil, nil},
		{"at most one in an hour", alarmed(Candidate{"a", 1}, Candidate{"b", 1}), func(p *Params) { p.Plugins.PerHour = 1 }, []string{"b"}},
		{"never", alarmed(Candidate{"a", 1}), func(p *Params) { p.Plugins.PerHour = 0 }, nil},
	} {
		o, p, m := calm(), Defaults(), State{}
		if o.Findings = c.findings; c.change != nil {
			c.change(&p)
		}
		if gone := play(t, o, &p, &m, 30*time.Minute); !slices.Equal(gone, c.want) {
			t.Errorf("%s: %v go, not %v", c.name, gone, c.want)
		}
	}
}

// A pod that leaves and was not named is no help: the one that is named is asked to go nevertheless. One that was named is.
func TestLeavingPodsHelpIfTheyAreNamed(t *testing.T) {
	t.Parallel()
	for leaves, want := range map[string]bool{"b": true, "c": false} {
		o, p, m := calm(), Defaults(), State{}
		o.Findings = alarmed(Candidate{"a", 1}, Candidate{"c", 1})
		for i := range o.Pods {
			o.Pods[i].Terminating = o.Pods[i].UID == leaves
		}
		asked := false
		for ; o.At < 70*time.Second; o.At += time.Second { // from 30 s on it is waited for 45 s
			d := Step(o, &p, &m)
			asked = asked || len(d.Notices) > 0
		}
		if asked != want {
			t.Errorf("%s leaves; another that is named has notice: %v", leaves, asked)
		}
	}
}

// A finding that lasts no longer than half a minute has nobody told anything, and one that ends takes the notice back.
func TestFindingsThatPass(t *testing.T) {
	t.Parallel()
	o, p, m := calm(), Defaults(), State{}
	for range 10 {
		o.Findings = alarmed(Candidate{"a", 1})
		for range 29 {
			if d := Step(o, &p, &m); len(d.Notices)+len(d.Requests) > 0 {
				t.Fatal(d.Explain())
			}
			o.At += time.Second
		}
		o.Findings = nil
		Step(o, &p, &m)
		o.At += time.Second
	}
	o.Findings = alarmed(Candidate{"a", 1})
	for range 50 {
		Step(o, &p, &m)
		o.At += time.Second
	}
	if d := Step(o, &p, &m); len(d.Notices) != 1 {
		t.Fatalf("nobody has notice:\n%s", d.Explain())
	}
	o.Findings, o.At = nil, o.At+time.Second // the plugin has gone
	if d := Step(o, &p, &m); len(d.Notices)+len(d.Pressures) > 0 || len(m.Watches) > 0 {
		t.Fatalf("the plugin has gone:\n%s", d.Explain())
	}
}

// Plugins that say anything have no more pods go in any hour than they may, whatever else they say, and none that is not reclaimed.
func TestFindingsAreBounded(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		o, p, m := calm(), Defaults(), State{}
		p.Plugins.PerHour = rapid.IntRange(0, 5).Draw(t, "per hour")
		for i := range 30 {
			pod := hog(fmt.Sprint(i), spec.QoSReclaimed)
			pod.MemoryAmount = advise.Known(8 * gibibyte)
			o.Pods = append(o.Pods, pod)
		}
		var times []time.Duration
		for o.At < 3*time.Hour {
			if rapid.IntRange(0, 9).Draw(t, "changes") == 0 {
				o.Findings = nil
				for i := range rapid.IntRange(0, 4).Draw(t, "findings") {
					f := Finding{Plugin: fmt.Sprint("p", i%2), Condition: fmt.Sprint("C", i), Met: rapid.IntRange(0, 4).Draw(t, "met") > 0}
					for j := range o.Pods {
						f.Candidates = append(f.Candidates, Candidate{o.Pods[j].UID, rapid.Float64Range(0, 1).Draw(t, "gain")})
					}
					o.Findings = append(o.Findings, f)
				}
			}
			d := Step(o, &p, &m)
			for _, r := range d.Requests {
				if r.UID == "online" {
					t.Fatal("an online pod is to go")
				}
				times = append(times, o.At)
				o.Pods = slices.DeleteFunc(o.Pods, func(pod Pod) bool { return pod.UID == r.UID })
			}
			o.At += time.Duration(rapid.IntRange(1, 15).Draw(t, "s")) * time.Second
		}
		for i, at := range times {
			if last := i - p.Plugins.PerHour; last >= 0 && at-times[last] < time.Hour {
				t.Fatalf("%d pods from %v to %v, and %d are allowed", p.Plugins.PerHour+1, times[last], at, p.Plugins.PerHour)
			}
		}
	})
}
