package diff

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"hilbert.dev/hilbert/cluster"
	"hilbert.dev/hilbert/cluster/facts"
	"hilbert.dev/hilbert/kube/parse"
	"hilbert.dev/hilbert/schedule/place"
	"hilbert.dev/hilbert/schedule/place/rules"
	"hilbert.dev/hilbert/schedule/place/victims"
	"hilbert.dev/hilbert/topology"
)

// ours is Hilbert without its loop: the real door's parser, the real ledger, a snapshot and a placer. All live as long as the case, so that
// what they do to follow a change is compared too.
type ours struct {
	parser *parse.Parser
	store  *cluster.Store
	instance
	lagging bool // the snapshot knows all that happened, by assumption

	preempts *victims.Preemptor // nil: preemption is not compared

	lazy   instance // has more to follow at once
	every  int      // lazy is asked at every so many judgements
	judged int
}

// instance is one scheduler's view.
type instance struct {
	snapshot *cluster.Snapshot
	placer   *place.Placer
}

func newInstance(c *Case, profile *rules.Profile) instance {
	in := instance{snapshot: cluster.NewSnapshot()}
	in.placer = place.NewPlacer(in.snapshot, profile, c.Seed, c.Indexes)
	in.placer.SetMaxCoarseDomains(c.Coarse)
	in.placer.SetMaxHolders(c.Coarse) // with few, the indexes of softly spread classes are tried too
	return in
}

// choose returns the node that the index chooses, empty for none.
func (in *instance) choose(c *cluster.Class) string {
	choice, ok := in.placer.Place(c)
	if !ok {
		return ""
	}
	return in.snapshot.Node(choice.Slot).Name
}

// verdict is what the tables say, and what the index chooses.
type verdict struct {
	Verdict
	Refused string // why the pod must not be placed anywhere, empty when it may be
	Chosen  string // by the index; empty for none
	Lazy    string // by the index that has followed later
	Best    string // by the tables, ties included
}

// newOurs makes Hilbert for a case. The default weights are upstream's, for the one score whose default is not in our table.
func newOurs(c *Case, p *Profile, weights *[len(scoreNames)]int64) (*ours, error) {
	profile, defaults, err := p.ours(weights)
	if err != nil {
		return nil, err
	}
	o := &ours{
		parser: parse.NewParser(schedulerName, nil), store: cluster.NewStore(defaults...),
		instance: newInstance(c, profile), lazy: newInstance(c, profile), every: c.Lazy,
	}
	if c.Preempts > 0 {
		o.preempts = place.NewPreemptor(o.placer, o.store, c.Preempts)
	}
	return o, nil
}

// apply takes a step in, as the door would. A judgement is not a change and not for apply.
func (o *ours) apply(s *Step) {
	o.lagging = false
	if s.Release != "" {
		o.store.Release(facts.UID(s.Release))
		return
	}
	if event := o.event(s); event != nil {
		o.store.Apply(event)
	}
}

func (o *ours) event(s *Step) facts.Event {
	switch {
	case s.Node != nil:
		return facts.NodeUpserted{Node: o.parser.Node(s.Node)}
	case s.RemoveNode != "":
		return facts.NodeRemoved{Name: s.RemoveNode}
	case s.Pod != nil:
		return o.seen(s.Pod)
	case s.RemovePod != "":
		return facts.PodRemoved{UID: facts.UID(s.RemovePod)}
	case s.Namespace != nil:
		return facts.NamespaceUpserted{Namespace: o.parser.Namespace(s.Namespace)}
	case s.RemoveNamespace != "":
		return facts.NamespaceRemoved{Name: s.RemoveNamespace}
	case s.Service != nil:
		return upserted(o.parser.Service(s.Service), kindService, s.Service.Namespace, s.Service.Name)
	case s.Controller != nil:
		return upserted(o.parser.ReplicationController(s.Controller), kindController, s.Controller.Namespace, s.Controller.Name)
	case s.ReplicaSet != nil:
		return upserted(o.parser.ReplicaSet(s.ReplicaSet), kindReplicaSet, s.ReplicaSet.Namespace, s.ReplicaSet.Name)
	case s.StatefulSet != nil:
		return upserted(o.parser.StatefulSet(s.StatefulSet), kindStatefulSet, s.StatefulSet.Namespace, s.StatefulSet.Name)
	case s.Budget != nil:
		if b := o.parser.Budget(s.Budget); b != nil {
			return facts.BudgetUpserted{Budget: b}
		}
		return facts.BudgetRemoved{Namespace: s.Budget.Namespace, Name: s.Budget.Name}
	case s.RemoveBudget != "":
		namespace, name, _ := strings.Cut(s.RemoveBudget, "/")
		return facts.BudgetRemoved{Namespace: namespace, Name: name}
	case s.RemoveWorkload != nil:
		return upserted(nil, s.RemoveWorkload.Kind, s.RemoveWorkload.Namespace, s.RemoveWorkload.Name)
	}
	return nil
}

// seen is what the door tells of a pod: of one that has finished only that it is gone, or, if a unit counts it, that it has finished.
func (o *ours) seen(pod *corev1.Pod) facts.Event {
	if phase := pod.Status.Phase; phase != corev1.PodSucceeded && phase != corev1.PodFailed {
		return facts.PodUpserted{Pod: o.parser.Pod(pod)}
	}
	if member, ok := o.parser.FinishedMember(pod); ok {
		return facts.PodUpserted{Pod: member}
	}
	return facts.PodRemoved{UID: facts.UID(pod.UID)}
}

// upserted is the event of a workload. One that selects nothing is as good as gone.
func upserted(w *facts.Workload, kind, namespace, name string) facts.Event {
	if w != nil {
		return facts.WorkloadUpserted{Workload: w}
	}
	kinds := map[string]facts.WorkloadKind{
		kindService: facts.Service, kindController: facts.ReplicationController,
		kindReplicaSet: facts.ReplicaSet, kindStatefulSet: facts.StatefulSet,
	}
	return facts.WorkloadRemoved{Kind: kinds[kind], Namespace: namespace, Name: name}
}

// commit puts a pod that was judged on a node.
func (o *ours) commit(p *Placement) {
	o.lagging = false
	if p.Lag {
		o.snapshot.Advance(o.store) // it lags behind this commitment only
	}
	plan := cluster.Plan{Placements: []cluster.Placement{{Pod: facts.UID(p.Pod), Node: p.Node}}}
	anything := func(*cluster.State, cluster.Slot, *cluster.Class, *topology.Grant) string { return "" }
	committed := (!p.Reject || p.Lag) && o.store.Commit(&plan, anything).Committed
	if p.Reject && committed {
		o.store.Release(facts.UID(p.Pod)) // what it carries acts all the same, for the snapshot is to believe that it is there
	}
	o.store.Consequences() // before the next decision, as the scheduler does
	if !committed || !p.Lag {
		return
	}
	if p.Reject {
		o.snapshot.Advance(o.store)
	}
	o.snapshot.Assume(o.store.Slot(p.Node), o.store.Pod(facts.UID(p.Pod)), topology.Grant{})
	o.lagging = true
}

// tell adds a pending pod to the ledger.
func (o *ours) tell(pod *corev1.Pod) {
	o.lagging = false
	o.store.Apply(facts.PodUpserted{Pod: o.parser.Pod(pod)})
}

// judge asks the tables and the index about a pod that tell has added; its class must have followed what happened since.
func (o *ours) judge(pod *corev1.Pod, v *verdict) error {
	record := o.store.Pod(facts.UID(pod.UID))
	if record == nil {
		return fmt.Errorf("the ledger does not know pod %s, though it was added", pod.UID)
	}
	if !o.lagging || !o.snapshot.Counts().Knows(record.Class.Constraints) {
		o.snapshot.Advance(o.store)
	}
	*v = verdict{Verdict: Verdict{Opinions: v.Opinions[:0]}, Refused: record.Refusal()}
	for _, j := range o.placer.Judge(record.Class) {
		opinion := Opinion{Node: o.snapshot.Node(j.Slot).Name, Refusal: j.Refusal, Total: j.Total}
		for _, s := range j.Scores {
			k := scoreIndex(s.Plugin)
			if k < 0 {
				return fmt.Errorf("score %s stands for plugin %q, which the table does not know", s.Name, s.Plugin)
			}
			opinion.Scores[k], opinion.Scored[k] = s.Score, true
		}
		v.Opinions = append(v.Opinions, opinion)
	}
	slices.SortFunc(v.Opinions, func(a, b Opinion) int { return cmp.Compare(a.Node, b.Node) })
	v.Chosen = o.choose(record.Class)
	v.Lazy = v.Chosen
	if best := o.placer.Best(record.Class); best != cluster.NoSlot {
		v.Best = o.snapshot.Node(best).Name
	}
	if o.judged++; o.every > 0 && o.judged%o.every == 0 && !o.lagging {
		o.lazy.snapshot.Advance(o.store)
		v.Lazy = o.lazy.choose(record.Class)
	}
	return nil
}

// verify recounts what the ledger and the snapshot keep counts of.
func (o *ours) verify() error {
	if err := o.store.Verify(); err != nil {
		return fmt.Errorf("the ledger: %w", err)
	}
	o.snapshot.Advance(o.store)
	if err := o.snapshot.Verify(); err != nil {
		return fmt.Errorf("the snapshot: %w", err)
	}
	return nil
}
