package cluster

import (
	"maps"
	"slices"

	"hilbert.dev/hilbert/cluster/facts"
)

// identity is what selectors see of a pod, its namespace and labels, interned. It knows the tallies whose selectors select it, so that
// charging a pod evaluates no selector.
type identity struct {
	namespace string
	labels    []facts.Label
	key       string
	pods      []*Pod
	// counts are the tallies that its pods count in; live those that a pod being deleted does not count in. Sorted.
	counts, live []TallyID
	// feels are the carried tallies whose terms are about its pods. Sorted.
	feels []TallyID
}

// selection is the book of who selects whom: the namespaces and their labels, the workloads whose selectors give default spreading, and the
// identities that selectors look at. Pods with the same namespace and labels share an identity, so that a selector is asked once for ten
// thousand pods of a Deployment.
type selection struct {
	registry    *registry // of tallies, shared with the states
	identities  map[string]*identity
	inNamespace map[string][]*identity
	namespaces  map[string][]facts.Label
	workloads   map[workloadKey]*facts.Workload
	services    map[string][]*facts.Workload // by namespace
	defaults    []facts.SpreadDefault
	scratch     []byte
}

func newSelection(defaults []facts.SpreadDefault) selection {
	return selection{
		identities:  make(map[string]*identity),
		inNamespace: make(map[string][]*identity),
		namespaces:  make(map[string][]facts.Label),
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
	id := &identity{namespace: namespace, labels: labels, key: string(w)}
	b.identities[id.key] = id
	b.inNamespace[namespace] = append(b.inNamespace[namespace], id)
	for t, def := range b.registry.tallies {
		if def != nil && def.matches(id, b.namespaces) {
			id.include(TallyID(t), def)
		}
	}
	return id
}

// include files a tally under what it means to the identity.
func (id *identity) include(t TallyID, def *tally) {
	list := &id.counts
	switch {
	case def.carried:
		list = &id.feels
	case def.liveOnly:
		list = &id.live
	}
	if at, found := slices.BinarySearch(*list, t); !found {
		*list = slices.Insert(*list, at, t)
	}
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
	delete(b.identities, id.key)
	peers := b.inNamespace[id.namespace]
	if at := slices.Index(peers, id); at >= 0 {
		peers[at] = peers[len(peers)-1]
		peers[len(peers)-1] = nil
		peers = peers[:len(peers)-1]
	}
	if len(peers) == 0 {
		delete(b.inNamespace, id.namespace)
		return
	}
	b.inNamespace[id.namespace] = peers
}

// eachTally visits the tallies that the pod counts in while it is charged to a node.
func (p *Pod) eachTally(visit func(TallyID)) {
	for _, t := range p.identity.counts {
		visit(t)
	}
	if !p.Deleting {
		for _, t := range p.identity.live {
			visit(t)
		}
	}
	for _, t := range p.Class.base.carries {
		visit(t)
	}
}

// tally adds the pod, sign times, to the tallies of the node that it is charged to.
func (s *Store) tally(pod *Pod, sign int32) {
	pod.eachTally(func(t TallyID) { s.bump(pod.slot, t, sign) })
}

// retally changes something about a pod that decides what it counts in.
func (s *Store) retally(pod *Pod, change func()) {
	if pod.slot == NoSlot {
		change()
		return
	}
	s.tally(pod, -1)
	change()
	s.tally(pod, 1)
	s.note(pod.slot, Recounted)
}

// introduce makes every identity that a new tally is about know it, and counts the pods that are there already.
func (s *Store) introduce(t TallyID) {
	def := s.registry.tallies[t]
	candidates := s.selection.inNamespace
	if !def.wide() {
		candidates = make(map[string][]*identity)
		for _, namespace := range def.selectors[0].Namespaces {
			candidates[namespace] = s.selection.inNamespace[namespace]
		}
	}
	for _, namespace := range slices.Sorted(maps.Keys(candidates)) { // in order, for the log, and for the classes that the pods to recheck get
		for _, id := range candidates[namespace] {
			if def.matches(id, s.selection.namespaces) {
				id.include(t, def)
				s.introduceTo(id, t, def)
			}
		}
	}
}

func (s *Store) introduceTo(id *identity, t TallyID, def *tally) {
	for _, pod := range id.pods {
		switch {
		case def.carried:
			s.recheck = append(s.recheck, pod)
		case pod.slot != NoSlot && (!def.liveOnly || !pod.Deleting):
			s.bump(pod.slot, t, 1)
			s.note(pod.slot, Recounted)
		}
	}
}

// rematch works out anew what an identity counts in, after its namespace's labels changed.
func (s *Store) rematch(id *identity) {
	counts, live, feels := id.counts, id.live, id.feels
	fresh := identity{namespace: id.namespace, labels: id.labels}
	for t, def := range s.registry.tallies {
		if def != nil && def.matches(id, s.selection.namespaces) {
			fresh.include(TallyID(t), def)
		}
	}
	if slices.Equal(counts, fresh.counts) && slices.Equal(live, fresh.live) && slices.Equal(feels, fresh.feels) {
		return
	}
	for _, pod := range id.pods {
		if pod.slot != NoSlot {
			s.tally(pod, -1)
		}
	}
	id.counts, id.live, id.feels = fresh.counts, fresh.live, fresh.feels
	for _, pod := range id.pods {
		if pod.slot != NoSlot {
			s.tally(pod, 1)
			s.note(pod.slot, Recounted)
		}
		s.recheck = append(s.recheck, pod)
	}
}
