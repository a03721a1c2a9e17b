package cluster

import (
	"fmt"
	"runtime"
	"strings"
	"testing"

	"hilbert.dev/hilbert/cluster/census"
	"hilbert.dev/hilbert/cluster/facts"
	"hilbert.dev/hilbert/resource"
)

// demanding is what a pod asks that names as much as it can: resources that no node has, and terms about other pods on topology keys of its own.
func demanding(who string, resources, terms int) *facts.Requirements {
	r := &facts.Requirements{}
	for i := range resources {
		r.Requests = append(r.Requests, resource.Quantity{Name: fmt.Sprintf("%s.example/r%d", who, i), Amount: 1})
	}
	for i := range terms {
		term := facts.AffinityTerm{TopologyKey: fmt.Sprintf("%s.example/k%d", who, i), Pods: facts.PodSelector{Namespaces: []string{"ns"}}}
		switch i % 3 {
		case 0:
			r.AntiAffinity = append(r.AntiAffinity, term)
		case 1:
			r.PreferredPods = append(r.PreferredPods, facts.WeightedAffinityTerm{AffinityTerm: term, Weight: 1})
		default:
			r.Spread = append(r.Spread, facts.SpreadConstraint{TopologyKey: term.TopologyKey, MaxSkew: 1, MinDomains: 1, Hard: true, Pods: term.Pods})
		}
	}
	return r
}

// known is how much the ledger has registered for the pods that it knows.
func (s *Store) known() string {
	return fmt.Sprintf("%+v %d requests %d kinds", s.Counts().Registry().Size(), len(s.classes.requests), s.kinds.Len())
}

// TestHeldPodsCostTheirFacts lets pods come that must not be placed, each of which names 500 resources, selectors and topology keys of its own. The ledger
// registers none of it until a pod may be placed, and forgets it when the pod is gone.
func TestHeldPodsCostTheirFacts(t *testing.T) {
	s := NewStore()
	s.Apply(facts.NodeUpserted{Node: &facts.Node{Name: "n", Labels: map[string]string{facts.HostnameKey: "n"}}})
	before := s.known()
	for name, pod := range map[string]facts.Pod{
		"gated":       {Gated: true, Requirements: demanding("gated", 500, 30)},
		"impossible":  {Requirements: demanding("impossible", 0, 30)},
		"unsupported": {Requirements: demanding("unsupported", 0, 30)},
		"many":        {Requirements: demanding("many", 0, 1000)},
	} {
		pod.UID, pod.Namespace, pod.Name, pod.Ours = facts.UID(name), "ns", name, true
		switch name {
		case "impossible":
			pod.Requirements.Impossible = "no"
		case "unsupported":
			pod.Requirements.Unsupported = []string{"volumes"}
		}
		s.Apply(facts.PodUpserted{Pod: pod})
		if s.Pod(pod.UID).Schedulable() {
			t.Errorf("pod %s may be placed", name)
		}
		pod.Labels = []facts.Label{{Key: "app", Value: name}} // an update
		s.Apply(facts.PodUpserted{Pod: pod})
	}
	if got := s.known(); got != before {
		t.Errorf("registered are %s, without the pods %s", got, before)
	}
	if refusal := s.Pod("many").Refusal(); !strings.Contains(refusal, "1000 terms") || !strings.Contains(refusal, "at most 32") {
		t.Errorf("the pod with 1,000 terms is refused with %q", refusal)
	}

	free := facts.Pod{UID: "gated", Namespace: "ns", Name: "gated", Ours: true, Requirements: demanding("gated", 0, 30)}
	s.Apply(facts.PodUpserted{Pod: free})
	if !s.Pod("gated").Schedulable() || s.Counts().Registry().Size().TopologyKeys != 30 {
		t.Errorf("without its gates the pod waits with %+v", s.Counts().Registry().Size())
	}
	if err := s.Verify(); err != nil {
		t.Fatal(err)
	}
}

// TestForeignTermsAreBounded: nobody can refuse a pod that is bound already, but no more of its terms count than of ours.
func TestForeignTermsAreBounded(t *testing.T) {
	s := NewStore()
	s.Apply(facts.NodeUpserted{Node: &facts.Node{Name: "n"}})
	s.Apply(facts.PodUpserted{Pod: facts.Pod{UID: "f", Namespace: "ns", Name: "f", Node: "n", Requirements: demanding("f", 0, 1000)}})
	if got := s.Counts().Registry().Size().Tallies; got != facts.MaxPodTerms {
		t.Errorf("%d terms of the pod count, want %d", got, facts.MaxPodTerms)
	}
	if err := s.Verify(); err != nil {
		t.Fatal(err)
	}
}

// TestDefinitionsComeBack lets many pods come and go, each with terms on topology keys of its own, some of which nodes have, while a snapshot follows. What
// stays registered is bounded by what may be idle.
func TestDefinitionsComeBack(t *testing.T) {
	s, snapshot := NewStore(), NewSnapshot()
	for i := range 5 {
		s.Apply(facts.NodeUpserted{Node: &facts.Node{Name: fmt.Sprint("n", i), Labels: map[string]string{"p3.example/k0": "x", "p9.example/k2": fmt.Sprint(i)}}})
	}
	for i := range 200 {
		uid := facts.UID(fmt.Sprint("p", i))
		pod := facts.Pod{UID: uid, Namespace: "ns", Name: string(uid), Ours: true, Requirements: demanding(string(uid), 0, 30)}
		s.Apply(facts.PodUpserted{Pod: pod})
		snapshot.Advance(s)
		for _, state := range []*State{&s.State, &snapshot.State} {
			s.Pod(uid).Class.Constraints.Each(func(id census.ID) { state.Counts().Census(id) })
		}
		pod.Node = fmt.Sprint("n", i%5)
		s.Apply(facts.PodUpserted{Pod: pod})
		s.Apply(facts.PodRemoved{UID: uid})
		if size := s.Counts().Registry().Size(); size.TopologyKeys > MaxIdleTerms+100 || size.Tallies > 2*(MaxIdleTerms+100) {
			t.Fatalf("after %d pods: %+v", i+1, size)
		}
		snapshot.Advance(s)
		if i%20 != 0 {
			continue
		}
		if err := s.Verify(); err != nil {
			t.Fatal(err)
		}
		if err := snapshot.Verify(); err != nil {
			t.Fatal(err)
		}
	}
}

// TestAntiAffinityMemory holds the memory of required anti-affinity over hosts against the hosts that hold pods: with 5,000 nodes, a Deployment of three
// takes no more than some kilobytes in the ledger and a snapshot together.
func TestAntiAffinityMemory(t *testing.T) {
	const nodes, deployments, most = 5000, 300, 8 << 10
	s, snapshot := NewStore(), NewSnapshot()
	for i := range nodes {
		name := fmt.Sprint("n", i)
		s.Apply(facts.NodeUpserted{Node: &facts.Node{Name: name, Labels: map[string]string{facts.HostnameKey: name}}})
	}
	deploy := func(d int) {
		app := []facts.Label{{Key: "app", Value: fmt.Sprint(d)}}
		r := &facts.Requirements{AntiAffinity: []facts.AffinityTerm{{TopologyKey: facts.HostnameKey, Pods: facts.PodSelector{
			Namespaces: []string{"ns"}, Labels: facts.LabelSelector{Expressions: []facts.Requirement{{Key: "app", Operator: facts.In, Values: []string{app[0].Value}}}},
		}}}}
		for i := range 3 {
			uid := facts.UID(fmt.Sprint(d, "-", i))
			pod := facts.Pod{UID: uid, Namespace: "ns", Name: string(uid), Ours: true, Labels: app, Requirements: r}
			s.Apply(facts.PodUpserted{Pod: pod})
			snapshot.Advance(s)
			s.Pod(uid).Class.Constraints.Each(func(id census.ID) {
				s.Counts().Census(id)
				snapshot.Counts().Census(id)
			})
			pod.Node = fmt.Sprint("n", (7*d+i)%nodes)
			s.Apply(facts.PodUpserted{Pod: pod})
		}
		snapshot.Advance(s)
	}
	deploy(0) // the topology key itself
	before := heapInUse()
	for d := range deployments {
		deploy(d + 1)
	}
	if each := (heapInUse() - before) / deployments; each > most {
		t.Errorf("a Deployment takes %d bytes, at most %d are expected", each, most)
	} else {
		t.Logf("a Deployment takes %d bytes", each)
	}
	runtime.KeepAlive(s)
	runtime.KeepAlive(snapshot)
}

func heapInUse() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}
