package cluster

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"hilbert.dev/hilbert/cluster/census"
	"hilbert.dev/hilbert/cluster/changes"
	"hilbert.dev/hilbert/cluster/facts"
)

// identity is what selectors see of a pod, its namespace and labels, interned. It knows the tallies whose selectors select it, so that
// charging a pod evaluates no selector.
type identity struct {
	census.Subject
	census.Matches
	key  string // empty: it belongs to a pod that is held back, and is not interned
	pods []*Pod

	budgets      []*facts.Budget // that are about its pods, if known
	budgetsKnown bool
}

// selection says which selector selects which pods: the namespaces and their labels, the workloads whose selectors give default spreading, and the
// identities that selectors look at. Pods with the same namespace and labels share an identity, so that a selector is asked once for ten
// thousand pods of a Deployment.
type selection struct {
	state       *State           // whose counts follow
	registry    *census.Registry // of tallies, shared with the states
	identities  map[string]*identity
	inNamespace map[string][]*identity
	namespaces  census.Namespaces
	workloads   map[workloadKey]*facts.Workload
	services    map[string][]*facts.Workload // by namespace
	defaults    []facts.SpreadDefault
	recheck     []*Pod // their class may have changed
	scratch     []byte
}

func newSelection(state *State, registry *census.Registry, defaults []facts.SpreadDefault) selection {
	return selection{
		state:       state,
		registry:    registry,
		identities:  make(map[string]*identity),
		inNamespace: make(map[string][]*identity),
		namespaces:  make(census.Namespaces),
		workloads:   make(map[workloadKey]*facts.Workload),
		services:    make(map[string][]*facts.Workload),
		defaults:    defaults,
	}
}

// identify returns the interned identity of a pod with these labels.
func (b *selection) identify(namespace string, labels []facts.Label) *identity {
	w := facts.Key(b.scratch[:0])
	w.Text(namespace)
	for _, l := range labels {
		w.Text(l.Key)
		w.Text(l.Value)
	}
	b.scratch = w
	if id, ok := b.identities[string(w)]; ok {
		return id
	}
	id := &identity{Subject: census.Subject{Namespace: namespace, Labels: labels}, key: string(w)}
	b.identities[id.key] = id
	b.inNamespace[namespace] = append(b.inNamespace[namespace], id)
	id.Matches = b.registry.Match(&id.Subject, b.namespaces)
	return id
}

// set makes a pod belong to another identity (nil: none).
func (b *selection) set(pod *Pod, id *identity) {
	if old := pod.identity; old != nil {
		last := len(old.pods) - 1
		old.pods[pod.rank], old.pods[last].rank = old.pods[last], pod.rank
		old.pods[last] = nil
		old.pods = old.pods[:last]
		if last == 0 && id != old {
			b.forget(old)
		}
	}
	pod.identity = id
	if id != nil {
		pod.rank = int32(len(id.pods))
		id.pods = append(id.pods, pod)
	}
}

func (b *selection) forget(id *identity) {
	if id.key == "" {
		return // of a pod that is held back
	}
	delete(b.identities, id.key)
	peers := b.inNamespace[id.Namespace]
	if at := slices.Index(peers, id); at >= 0 {
		peers[at] = peers[len(peers)-1]
		peers[len(peers)-1] = nil
		peers = peers[:len(peers)-1]
	}
	if len(peers) == 0 {
		delete(b.inNamespace, id.Namespace)
		return
	}
	b.inNamespace[id.Namespace] = peers
}

// tally adds the pod, sign times, to the tallies of a slot.
func (p *Pod) tally(counts *census.Counts, slot Slot, sign int32) {
	for _, t := range p.identity.Counted {
		counts.Bump(slot, t, sign)
	}
	if !p.Deleting {
		for _, t := range p.identity.CountedLive {
			counts.Bump(slot, t, sign)
		}
	}
	for _, t := range p.Class.request.carries {
		counts.Bump(slot, t, sign)
	}
}

// retally changes something about a pod that decides what it counts in.
func (b *selection) retally(pod *Pod, change func()) {
	if pod.slot == NoSlot {
		change()
		return
	}
	pod.tally(&b.state.counts, pod.slot, -1)
	change()
	pod.tally(&b.state.counts, pod.slot, 1)
	b.state.note(pod.slot, changes.Recounted)
}

// act makes terms known to the pods that they are about: a pod that carries them has a place, or is a member of a gang, and may be placed together with some of
// those. The rows have their counts already.
func (b *selection) act(carried []census.TallyID) {
	var fresh []census.TallyID
	for _, t := range carried {
		if b.registry.Act(t) {
			fresh = append(fresh, t)
		}
	}
	if len(fresh) > 0 {
		b.introduce(fresh)
	}
}

// introduce makes every identity that new tallies are about know them, and counts the pods that are there already. It goes in order of
// namespaces, for the log, and for the classes that the pods to recheck get. However many terms are about a pod, it is rechecked once.
func (b *selection) introduce(tallies []census.TallyID) {
	var affected []*identity // by terms that pods carry
	seen := make(map[*identity]bool)
	for _, t := range tallies {
		namespaces, all := b.registry.Namespaces(t)
		if all {
			namespaces = slices.Collect(maps.Keys(b.inNamespace))
		}
		namespaces = slices.Clone(namespaces)
		slices.Sort(namespaces)
		for _, namespace := range slices.Compact(namespaces) {
			for _, id := range b.inNamespace[namespace] {
				if !b.registry.Selects(t, &id.Subject, b.namespaces) {
					continue
				}
				if carried := b.introduceTo(id, t); carried && !seen[id] {
					seen[id] = true
					affected = append(affected, id)
				}
			}
		}
	}
	for _, id := range affected {
		b.outdate(id.pods)
	}
}

// outdate says that something is about pods now that was not when their classes were made. They are judged again when the event, or the commit, is over.
func (b *selection) outdate(pods []*Pod) {
	for _, pod := range pods {
		if pod.Phase == Pending || pod.Phase == Assumed {
			pod.outdated = pod.Phase == Assumed
			b.recheck = append(b.recheck, pod)
		}
	}
}

// introduceTo makes an identity know a tally, and counts its pods. carried says that the tally is of a term about them.
func (b *selection) introduceTo(id *identity, t census.TallyID) (carried bool) {
	kind := b.registry.Include(&id.Matches, t)
	if kind == census.Carried {
		return true
	}
	for _, pod := range id.pods {
		if pod.slot != NoSlot && (kind != census.LiveOnly || !pod.Deleting) {
			b.state.counts.Bump(pod.slot, t, 1)
			b.state.note(pod.slot, changes.Recounted)
		}
	}
	return false
}

// rematch works out anew what an identity counts in, after its namespace's labels changed.
func (b *selection) rematch(id *identity) {
	fresh := b.registry.Match(&id.Subject, b.namespaces)
	if id.Equal(&fresh) {
		return
	}
	for _, pod := range id.pods {
		if pod.slot != NoSlot {
			pod.tally(&b.state.counts, pod.slot, -1)
		}
	}
	id.Matches = fresh
	for _, pod := range id.pods {
		if pod.slot != NoSlot {
			pod.tally(&b.state.counts, pod.slot, 1)
			b.state.note(pod.slot, changes.Recounted)
		}
		b.recheck = append(b.recheck, pod)
	}
}

// purge takes the tallies that nothing uses any more out of identities and rows, so that their IDs can be given out again.
func (b *selection) purge() {
	b.registry.Purge(func(unused func(census.TallyID) bool) {
		for _, id := range b.identities {
			id.Remove(unused)
		}
		for slot := range b.state.nodes {
			if b.state.counts.Purge(Slot(slot), unused) {
				b.state.note(Slot(slot), changes.Recounted)
			}
		}
	})
}

// eachIn visits the pods of a namespace, in no particular order.
func (b *selection) eachIn(namespace string, visit func(*Pod)) {
	for _, id := range b.inNamespace[namespace] {
		for _, pod := range id.pods {
			visit(pod)
		}
	}
}

// verify asks every selector about every pod on a slot.
func (b *selection) verify(slot Slot, pods []*Pod) error {
	return b.state.counts.VerifyRow(slot, b.namespaces, func(visit func(*census.Subject, bool, []census.TallyID)) {
		for _, pod := range pods {
			visit(&pod.identity.Subject, pod.Deleting, pod.Class.request.carries)
		}
	})
}

type workloadKey struct {
	kind            facts.WorkloadKind
	namespace, name string
}

func keyOfWorkload(w *facts.Workload) workloadKey { return workloadKey{w.Kind, w.Namespace, w.Name} }

// effective returns the requirements of a pod with the cluster's defaults filled in.
func (b *selection) effective(pod *Pod) *facts.Requirements {
	r := pod.requirements
	if !pod.Ours || len(r.Spread) > 0 || len(b.defaults) == 0 {
		return r
	}
	selector := b.defaultSelector(pod)
	if selector.MatchesAll() {
		return r
	}
	copied := *r
	for _, d := range b.defaults {
		copied.Spread = append(copied.Spread, facts.SpreadConstraint{
			TopologyKey: d.TopologyKey, MaxSkew: d.MaxSkew, MinDomains: 1, HonorAffinity: true, Default: true,
			Pods: facts.PodSelector{Namespaces: []string{pod.Namespace}, Labels: selector},
		})
	}
	return &copied
}

// defaultSelector is what the pod's services and its controller select, all at once.
func (b *selection) defaultSelector(pod *Pod) facts.LabelSelector {
	var selector facts.LabelSelector
	for _, service := range b.services[pod.Namespace] {
		if service.Pods.Matches(pod.identity.Labels) {
			selector.Expressions = append(selector.Expressions, service.Pods.Expressions...)
		}
	}
	if owner := b.workloads[workloadKey{pod.owner.Kind, pod.Namespace, pod.owner.Name}]; owner != nil && owner.Kind != facts.Service && !owner.Pods.Nothing {
		if owner.Kind == facts.ReplicationController { // its labels take the place of the services', a ReplicaSet's expressions join them
			selector.Expressions = slices.DeleteFunc(selector.Expressions, func(r facts.Requirement) bool {
				return slices.ContainsFunc(owner.Pods.Expressions, func(x facts.Requirement) bool { return x.Key == r.Key })
			})
		}
		selector.Expressions = append(selector.Expressions, owner.Pods.Expressions...)
	}
	selector.Expressions = facts.Canonical(selector.Expressions)
	return selector
}

// setWorkload replaces what is known of a workload (nil: nothing), and marks the pods whose default spreading may follow from it.
func (b *selection) setWorkload(key workloadKey, w *facts.Workload) {
	old := b.workloads[key]
	if old == nil && w == nil || old != nil && w != nil && old.Pods.Equal(&w.Pods) {
		return
	}
	if w == nil {
		delete(b.workloads, key)
	} else {
		b.workloads[key] = w
	}
	if key.kind == facts.Service {
		services := slices.DeleteFunc(b.services[key.namespace], func(x *facts.Workload) bool { return x == old })
		if w != nil {
			services = append(services, w)
		}
		b.services[key.namespace] = services
	}
	for _, id := range b.inNamespace[key.namespace] {
		for _, pod := range id.pods {
			if key.kind == facts.Service || pod.owner == (facts.Owner{Kind: key.kind, Name: key.name}) {
				b.recheck = append(b.recheck, pod)
			}
		}
	}
}

// ofKind lists the workloads of a kind, by namespace and name.
func (b *selection) ofKind(kind facts.WorkloadKind) (list []workloadKey) {
	for key := range b.workloads {
		if key.kind == kind {
			list = append(list, key)
		}
	}
	slices.SortFunc(list, func(a, b workloadKey) int {
		return cmp.Or(strings.Compare(a.namespace, b.namespace), strings.Compare(a.name, b.name))
	})
	return list
}

// setNamespace takes in the labels of a namespace, or that it is not there, and reports whether that is new.
func (b *selection) setNamespace(name string, labels []facts.Label, known bool) bool {
	old, was := b.namespaces[name]
	if was == known && slices.Equal(old, labels) {
		return false
	}
	if known {
		b.namespaces[name] = labels
	} else {
		delete(b.namespaces, name)
	}
	for _, id := range b.inNamespace[name] {
		b.rematch(id)
	}
	return true
}
