package relief

import (
	"testing"
	"time"

	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/cluster"
	"hilbert.dev/hilbert/cluster/facts"
	"hilbert.dev/hilbert/schedule/bind"
	"hilbert.dev/hilbert/topology"
)

// TestWishedAwayByACapturedNode: the report of n1 wishes pods away that are none of its business. None goes, however urgent it says that it is and whatever promise it
// says is broken. One that it may have evicted goes, so that the others are refused for what they are.
func TestWishedAwayByACapturedNode(t *testing.T) { //nolint:gocognit // a table and what it fills in
	dedicated := topology.Grant{}
	dedicated.NUMANodes.CPUs[0] = 4
	lent, own := &facts.Requirements{Reclaimed: true}, &facts.Requirements{}
	for _, c := range []struct {
		what  string
		pod   facts.Pod
		wish  facts.EvictionRequest
		goes  bool
		mends bool // that a promise is broken is a reason
	}{
		{"a reclaimed pod of its own", facts.Pod{Namespace: "a", Node: "n1", Requirements: lent}, facts.EvictionRequest{}, true, false},
		{"a reclaimed pod of n2", facts.Pod{Namespace: "a", Node: "n2", Requirements: lent}, facts.EvictionRequest{}, false, false},
		{"a pod of n2 that was promised CPUs", facts.Pod{Namespace: "a", Node: "n2", Requirements: own, Grant: dedicated}, facts.EvictionRequest{}, false, false},
		{"a pod of its own that was promised CPUs", facts.Pod{Namespace: "a", Node: "n1", Requirements: own, Grant: dedicated}, facts.EvictionRequest{}, false, true},
		{"an ordinary pod of its own", facts.Pod{Namespace: "a", Node: "n1", Requirements: own}, facts.EvictionRequest{}, false, false},
		{"a pod of kube-system", facts.Pod{Namespace: "kube-system", Node: "n1", Requirements: own}, facts.EvictionRequest{}, false, false},
		{"a pod without a node", facts.Pod{Namespace: "a", Ours: true, Requirements: lent}, facts.EvictionRequest{}, false, false},
		{"another pod of that name", facts.Pod{Namespace: "a", Node: "n1", Requirements: lent}, facts.EvictionRequest{UID: "other"}, false, false},
		{"another name of that pod", facts.Pod{Namespace: "a", Node: "n1", Requirements: lent}, facts.EvictionRequest{Name: "other"}, false, false},
		{"another namespace's", facts.Pod{Namespace: "a", Node: "n1", Requirements: lent}, facts.EvictionRequest{Namespace: "b"}, false, false},
	} {
		for _, urgent := range []bool{false, true} {
			for _, broken := range []bool{false, true} {
				store := cluster.NewStore()
				for _, name := range []string{"n1", "n2"} {
					store.Apply(facts.NodeUpserted{Node: &facts.Node{Name: name}})
				}
				p, wish := c.pod, c.wish
				p.UID, p.Name = "u", "p"
				store.Apply(facts.PodUpserted{Pod: p})
				wish.Urgent, wish.Broken = urgent, broken
				if wish.UID == "" {
					wish.UID = "u"
				}
				if wish.Name == "" {
					wish.Name = "p"
				}
				if wish.Namespace == "" {
					wish.Namespace = p.Namespace
				}
				store.Apply(facts.NodeReported{Node: "n1", Report: &facts.NodeReport{Evictions: []facts.EvictionRequest{wish}}})
				r := New(store, spec.Evictions{PercentPerMinute: 100, Burst: 10})
				gone := false
				for now := began; now.Before(began.Add(5 * time.Minute)); now = now.Add(time.Second) {
					for _, w := range r.Ready(now) {
						gone = gone || w.Kind == bind.EvictPod
					}
				}
				if want := c.goes && !broken || c.mends && broken; gone != want {
					t.Errorf("%s, urgent %t, its promise broken %t: evicted %t", c.what, urgent, broken, gone)
				}
			}
		}
	}
}
