package node

import (
	"fmt"
	"log/slog"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"hilbert.dev/hilbert/api/node/v1alpha1"
	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/cluster"
	"hilbert.dev/hilbert/cluster/facts"
	"hilbert.dev/hilbert/kube/parse"
	"hilbert.dev/hilbert/node/runtime"
	"hilbert.dev/hilbert/resource"
	"hilbert.dev/hilbert/topology"
)

// ledgerBeside is a ledger that hears what an agent reports, as hilbertd does.
type ledgerBeside struct {
	*world
	store  *cluster.Store
	parser *parse.Parser
}

func (l *ledgerBeside) hear() {
	l.Helper()
	var n v1alpha1.CustomNodeResource
	n.Name = "n1"
	l.agent.Ask(time.Minute, func(a *Agent) { n.Status.NodeStatus = a.Status().Status })
	n.Status.ObservedAt = metav1.Now()
	r := l.parser.NodeReport(&n)
	l.store.Apply(facts.NodeReported{Node: "n1", Report: r})
	if err := l.store.Verify(); err != nil {
		l.Fatal(err)
	}
}

// ask is one pod: what it asks for, as the scheduler and as the agent read it.
func (l *ledgerBeside) ask(uid string, random *rand.Rand) (facts.Pod, runtime.Sandbox) {
	cpus, cards := int64(1+random.IntN(2)), int64(1+random.IntN(2))
	single, bound := random.IntN(3) > 0, random.IntN(3) > 0
	r := &facts.Requirements{Requests: []resource.Quantity{{Name: resource.NameCPU, Amount: 1000 * cpus}, {Name: fpga, Amount: cards}}}
	r.GPU.Resources = topology.ResourceRequest(fmt.Sprintf("%s=%d", fpga, cards))
	s := sandbox(uid, float64(cpus))
	s.Annotations[spec.AnnotationResources] = fmt.Sprintf("main/%s=%d", fpga, cards)
	if single {
		r.GPU.Near = topology.Near{Level: topology.SameNUMA, Required: true}
		s.Annotations[spec.AnnotationNUMAPolicy] = spec.NUMAPolicySingle
	}
	if bound {
		r.NUMANodes = topology.NUMARequest{CPUs: uint16(cpus), Binding: topology.Bound, Memory: 64}
		s.Labels[spec.LabelQoS], s.Annotations[spec.AnnotationNUMA] = string(spec.QoSDedicated), spec.NUMABound
	}
	return facts.Pod{UID: facts.UID(uid), Namespace: s.Namespace, Name: s.Name, Ours: true, Requirements: r}, s
}

// The ledger, which knows of the node what its agent reports, says for each pod whether its NUMA nodes hold it; the agent takes who fits exactly where the ledger
// promised, and refuses who does not.
func TestLedgerForeseesWhatTheAgentGives(t *testing.T) {
	taken, refused := 0, 0
	for seed := range uint64(16) {
		random := rand.New(rand.NewPCG(seed, 53))
		w, p := pluginWorld(t)
		p.Lock()
		p.Capacity = map[int32]int64{0: int64(1 + random.IntN(4)), 1: int64(1 + random.IntN(3))}
		sum := p.Capacity[0] + p.Capacity[1]
		p.Said.GivesHints = random.IntN(2) == 0
		p.Unlock()
		w.start()
		w.serves(sum)
		l := &ledgerBeside{world: w, store: cluster.NewStore(), parser: parse.NewParser("hilbert", slog.New(slog.DiscardHandler))}
		l.store.Apply(facts.NodeUpserted{Node: &facts.Node{Name: "n1", Allocatable: []resource.Quantity{
			{Name: resource.NameCPU, Amount: 100_000}, {Name: resource.NameMemory, Amount: 1 << 40}, {Name: resource.NamePods, Amount: 110},
		}}})
		l.hear()
		for i := range 6 {
			pod, s := l.ask(fmt.Sprintf("s%d-%d", seed, i), random)
			l.store.Apply(facts.PodUpserted{Pod: pod})
			slot, class := l.store.Slot("n1"), l.store.Pod(pod.UID).Class
			grant, ok := l.store.Offer(slot, class)
			ok = ok && class.Amounts.Get(kindOf(l.store, fpga)) <= l.store.Free(slot, kindOf(l.store, fpga))
			if !ok {
				refused++
				if _, err := w.run(s); err == nil || !strings.Contains(err.Error(), "has room") && !strings.Contains(err.Error(), "is left") && !strings.Contains(err.Error(), spec.ReasonInsufficientCores) {
					t.Fatalf("seed %d: the ledger has no room for %+v, and the agent says %v", seed, pod.Requirements, err)
				}
				l.store.Apply(facts.PodRemoved{UID: pod.UID})
				continue
			}
			taken++
			if s.Annotations[spec.AnnotationResourceNUMANodes] = string(grant.Resources); !grant.NUMANodes.IsZero() {
				s.Annotations[spec.AnnotationNUMANodes] = grant.NUMANodes.String()
			}
			pod.Node, pod.Grant = "n1", grant
			l.store.Apply(facts.PodUpserted{Pod: pod})
			w.mustRun(s)
			l.hear()
			if has := l.store.Pod(pod.UID); has.Grant() != grant || !has.Confirmed() || has.Moved() {
				t.Fatalf("seed %d: %+v was promised %q and %q, the agent gives %q and %q", seed, pod.Requirements, grant.NUMANodes, grant.Resources, has.Grant().NUMANodes, has.Grant().Resources)
			}
		}
		w.stop()
	}
	if min(taken, refused) < 5 {
		t.Errorf("%d pods were taken and %d refused; want 5 of each, or this shows little", taken, refused)
	}
}

func kindOf(s *cluster.Store, name string) resource.Kind {
	for k := range s.Kinds() {
		if s.KindName(resource.Kind(k)) == name {
			return resource.Kind(k)
		}
	}
	return -1
}
