package schedule_test

import (
	"fmt"
	"runtime"
	"testing"
	"time"

	"hilbert.dev/hilbert/cluster"
	"hilbert.dev/hilbert/cluster/facts"
)

func manyNodes(n int) (list []*facts.Node) {
	for i := range n {
		x := revNode(fmt.Sprintf("node-%d", i), 64000, 256<<30)
		x.Labels["topology.kubernetes.io/zone"] = fmt.Sprint("z", i%3)
		list = append(list, x)
	}
	return list
}

// each Deployment: 3 replicas, required anti-affinity over hosts by its own label, as charts of stateful or HA services have it.
func TestRevAntiAffinityMemory(t *testing.T) {
	t.Skip("issue 15: A scheduler that no cluster can surprise")
	runtime.LockOSThread()
	for _, c := range []struct{ nodes, deployments int }{{5000, 500}, {5000, 1500}} {
		s := newSched(t)
		now := time.Unix(1000, 0)
		s.Apply(facts.NodesListed{Nodes: manyNodes(c.nodes)}, now)
		pump(s, now)
		before := heap()
		began := cpuTime()
		var last time.Duration
		for d := range c.deployments {
			app := fmt.Sprint("app-", d)
			r := &facts.Requirements{Requests: rq("cpu", 100), AntiAffinity: []facts.AffinityTerm{{
				TopologyKey: "kubernetes.io/hostname",
				Pods:        facts.PodSelector{Namespaces: []string{"ns"}, Labels: facts.LabelSelector{Expressions: []facts.Requirement{{Key: "app", Operator: facts.In, Values: []string{app}}}}},
			}}}
			one := cpuTime()
			for i := range 3 {
				s.Apply(facts.PodUpserted{Pod: facts.Pod{UID: facts.UID(fmt.Sprintf("%s-%d", app, i)), Namespace: "ns", Name: app, Ours: true, Created: 1, Labels: []facts.Label{{Key: "app", Value: app}}, Requirements: r}}, now)
			}
			pump(s, now)
			last = cpuTime() - one
		}
		spent := cpuTime() - began
		st := s.Store()
		bound := 0
		st.EachPod(func(p *cluster.Pod) {
			if p.Phase == cluster.Bound {
				bound++
			}
		})
		grown := heap() - before
		changed := revNode("node-7", 64000, 256<<30)
		changed.Labels["x"] = "y"
		began = cpuTime()
		s.Apply(facts.NodeUpserted{Node: changed}, now)
		update := cpuTime() - began
		t.Logf("%d nodes, %d Deployments x 3 with required hostname anti-affinity: %d bound, heap +%d MiB (%d KiB a Deployment), CPU %v, last Deployment %v; one node's label change %v",
			c.nodes, c.deployments, bound, grown>>20, grown>>10/uint64(c.deployments), spent, last, update)
		runtime.KeepAlive(s)
	}
}
