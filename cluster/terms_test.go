package cluster

import (
	"fmt"
	"testing"

	"pgregory.net/rapid"

	"hilbert.dev/hilbert/cluster/facts"
	"hilbert.dev/hilbert/topology"
)

// broad is a pod whose one term is about all pods of its namespace but one, and unlike the terms of all others.
func broad(i int) facts.Pod {
	p := of(facts.UID(fmt.Sprint("broad", i)), int64(i), 0)
	p.Labels = []facts.Label{{Key: "pod", Value: fmt.Sprint(i)}}
	p.Requirements.PreferredPods = []facts.WeightedAffinityTerm{{Weight: 1, AffinityTerm: facts.AffinityTerm{TopologyKey: facts.HostnameKey, Pods: facts.PodSelector{
		Namespaces: []string{"ns"}, Labels: facts.LabelSelector{Expressions: []facts.Requirement{{Key: "pod", Operator: facts.NotIn, Values: []string{fmt.Sprint(i)}}}},
	}}}}
	return p
}

// TestTermsActOncePlaced: the terms of pods that wait have nobody judged anew. Those of a pod that gets a place have each pod that they are about judged once.
func TestTermsActOncePlaced(t *testing.T) {
	const pods = 300
	c := newCrowd(t, 0)
	for i := range pods {
		made := c.classes.next
		if effects := c.Apply(facts.PodUpserted{Pod: broad(i)}); len(effects) != 1 || c.classes.next != made+1 {
			t.Fatalf("pod %d has %d pods judged, and %d classes made", i, len(effects), c.classes.next-made)
		}
	}
	made := c.classes.next
	fits := func(*State, Slot, *Class, *topology.Grant) string { return "" }
	if v := c.Commit(&Plan{Placements: []Placement{{Pod: "broad7", Node: "n"}}, Revision: c.Revision()}, fits); !v.Committed {
		t.Fatal(v)
	}
	if effects := c.Consequences(); len(effects) != pods-1 || int(c.classes.next-made) != pods-1 {
		t.Errorf("the first term that acts has %d pods judged, and %d classes made", len(effects), c.classes.next-made)
	}
	for _, pod := range c.pods.byUID {
		if want := min(len(pod.identity.AffectedBy), 1); pod.Class.affecting != want || (want == 0) != (pod.UID == "broad7") {
			t.Errorf("a place for pod %s depends on %d terms of others", pod.UID, pod.Class.affecting)
		}
	}
	if err := c.Verify(); err != nil {
		t.Error(err)
	}
}

// TestWaitingTermsAreBounded: the terms of waiting pods are counted for all pods that they are about, be these other tenants'. However many pods wait with terms that are each about
// all that run, a pod that runs is counted for no more terms of a namespace than a quarter of the classes that may wait, and those that come afterwards are too.
func TestWaitingTermsAreBounded(t *testing.T) {
	const most, terms, nodes = 80, 3, 20
	c := newCrowd(t, most)
	run := func(from int) {
		for i := range nodes {
			name := fmt.Sprint("n", from+i)
			c.Apply(facts.NodeUpserted{Node: &facts.Node{Name: name, Labels: map[string]string{facts.HostnameKey: name}}})
			p := of(facts.UID(fmt.Sprint("runs", from+i)), int64(i), 0)
			p.Namespace, p.Node = "other", name
			c.Apply(facts.PodUpserted{Pod: p})
		}
	}
	run(0)
	for i := range 200 {
		p := broad(i)
		for k := range terms {
			term := p.Requirements.PreferredPods[0]
			term.Pods = facts.PodSelector{Namespaces: []string{"other"}, Labels: facts.LabelSelector{
				Expressions: []facts.Requirement{{Key: "pod", Operator: facts.NotIn, Values: []string{fmt.Sprint(i, "/", k)}}},
			}}
			p.Requirements.PreferredPods = append(p.Requirements.PreferredPods, term)
		}
		p.Requirements.PreferredPods = p.Requirements.PreferredPods[1:]
		c.Apply(facts.PodUpserted{Pod: p})
	}
	run(nodes)
	for slot := range Slot(c.Slots()) {
		if n := len(c.counts.Tallies(slot)); n > most/4 || c.Node(slot) != nil && c.Node(slot).Name != "n" && n < terms {
			t.Errorf("the pod on node %d counts for %d terms of pods that wait", slot, n)
		}
	}
	if err := c.Verify(); err != nil {
		t.Error(err)
	}
}

// TestBoundPodsCountNobody: the class of a pod that is bound counts no other pods for it. What was counted for 3,000 pods that came and were bound, each with a
// term of its own about all of them, is bounded by what may be idle.
func TestBoundPodsCountNobody(t *testing.T) {
	c := newCrowd(t, 0)
	for i := range 400 {
		p := broad(i)
		c.Apply(facts.PodUpserted{Pod: p})
		p.Node = "n"
		c.Apply(facts.PodUpserted{Pod: p})
		if pod := c.Pod(p.UID); pod.Class.Constraints != nil {
			t.Fatalf("pod %s is bound, and its class has constraints", p.UID)
		}
	}
	c.classes.idle.terms = MaxIdleTerms + 1 // the next request sweeps
	c.come(of("last", 1000, 1))
	if n := c.counts.Registry().Size().Censuses; n > 400 {
		t.Errorf("for 400 pods that are bound there are %d censuses", n)
	}
}

// TestClassesFollow plays histories of pods with terms that come, are placed, bound and taken back, alone and in gangs. Each pod that wants a place then has the
// class that it would get if it came now.
func TestClassesFollow(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := newCrowd(t, rapid.SampledFrom([]int{0, 0, 3}).Draw(t, "most"))
		fits := func(*State, Slot, *Class, *topology.Grant) string { return "" }
		for range rapid.IntRange(1, 40).Draw(t, "steps") {
			uid := facts.UID(fmt.Sprint("p", rapid.IntRange(0, 9).Draw(t, "pod")))
			switch pod := c.Pod(uid); rapid.IntRange(0, 5).Draw(t, "step") {
			case 0:
				c.apply(facts.PodRemoved{UID: uid})
			case 1:
				c.Commit(&Plan{Placements: []Placement{{Pod: uid, Node: "n"}}, Revision: c.Revision()}, fits)
			case 2:
				c.release(uid)
			case 3:
				c.Confirm(uid)
			default:
				if pod == nil || pod.Phase == Pending {
					c.come(drawTerms(t, uid))
				}
			}
			for _, e := range c.Consequences() {
				c.told[e.Pod.UID] = e.Kind
			}
			c.checkClasses()
		}
	})
}

func drawTerms(t *rapid.T, uid facts.UID) facts.Pod {
	p := of(uid, int64(len(uid)), rapid.IntRange(0, 1).Draw(t, "size"))
	p.Labels = []facts.Label{{Key: "color", Value: rapid.SampledFrom([]string{"blue", "red"}).Draw(t, "color")}}
	term := facts.AffinityTerm{TopologyKey: facts.HostnameKey, Pods: facts.PodSelector{Namespaces: []string{"ns"}, Labels: facts.LabelSelector{
		Expressions: []facts.Requirement{{Key: "color", Operator: facts.In, Values: []string{rapid.SampledFrom([]string{"blue", "red"}).Draw(t, "about")}}},
	}}}
	switch rapid.IntRange(0, 3).Draw(t, "kind") {
	case 0:
		p.Requirements.AntiAffinity = []facts.AffinityTerm{term}
	case 1:
		p.Requirements.PreferredPods = []facts.WeightedAffinityTerm{{Weight: 3, AffinityTerm: term}}
	case 2:
		p.Unit = "gang"
		p.Requirements.AntiAffinity = []facts.AffinityTerm{term}
	}
	return p
}

// checkClasses holds the class of each pod that wants a place against the terms that pods carry which have one, or are in a gang.
func (c *crowd) checkClasses() {
	for _, pod := range c.pods.byUID {
		if pod.Phase != Pending && pod.Phase != Assumed || pod.Class.private || pod.outdated {
			continue
		}
		about := make(map[string]bool)
		for _, other := range c.pods.byUID {
			if other.Class.private || other.Phase == Pending && other.Unit == nil {
				continue
			}
			r := other.Class.request.Requirements
			for i, term := range r.AntiAffinity {
				if term.Pods.Selects(pod.Namespace, pod.identity.Labels, nil, true) {
					about[fmt.Sprint("anti", i, term.Pods.Labels.Expressions[0].Values)] = true
				}
			}
			for i, term := range r.PreferredPods {
				if term.Pods.Selects(pod.Namespace, pod.identity.Labels, nil, true) {
					about[fmt.Sprint("preferred", i, term.Pods.Labels.Expressions[0].Values)] = true
				}
			}
		}
		if pod.Class.affecting < len(about) {
			c.t.Fatalf("pod %s is judged by %d terms of others, and %v are about it", pod.UID, pod.Class.affecting, about)
		}
	}
	if err := c.Verify(); err != nil {
		c.t.Fatalf("%v", err)
	}
}
