package cluster

import (
	"fmt"
	"slices"

	"hilbert.dev/hilbert/cluster/facts"
	"hilbert.dev/hilbert/cluster/quota"
)

// podTable is the pods: all of them, those on each slot, and those that are bound to a node which is not known.
type podTable struct {
	byUID   map[facts.UID]*Pod
	onSlot  [][]*Pod
	orphans map[string][]*Pod // by node
	tree    *quota.Tree       // which says what tenant they are of
	// updates are what assumed pods say of themselves since their Plan was committed. It holds once a pod is released: until then the Plan was
	// judged by what the pod said before. It is bounded by the placements under way.
	updates map[facts.UID]*facts.Pod
}

func newPodTable() podTable {
	return podTable{byUID: make(map[facts.UID]*Pod), orphans: make(map[string][]*Pod), updates: make(map[facts.UID]*facts.Pod)}
}

// known lists the pods that have finished, or those that have not, sorted.
func (t *podTable) known(finished bool) (list []facts.UID) {
	for uid, pod := range t.byUID {
		if (pod.Phase == Finished) == finished && !pod.placeholder {
			list = append(list, uid)
		}
	}
	slices.Sort(list)
	return list
}

// file takes in the record of a pod that was not known.
func (t *podTable) file(pod *Pod) {
	t.byUID[pod.UID] = pod
	pod.tenant = t.tree.Join(pod.Namespace)
}

// drop forgets a pod.
func (t *podTable) drop(pod *Pod) {
	t.tree.Leave(pod.tenant)
	delete(t.byUID, pod.UID)
	delete(t.updates, pod.UID)
}

// enter adds a pod to those on a slot; leave takes it out.
func (t *podTable) enter(pod *Pod, slot Slot) {
	pod.slot, pod.position = slot, int32(len(t.onSlot[slot]))
	t.onSlot[slot] = append(t.onSlot[slot], pod)
}

func (t *podTable) leave(pod *Pod) {
	list := t.onSlot[pod.slot]
	last := list[len(list)-1]
	list[pod.position], last.position = last, pod.position
	list[len(list)-1] = nil
	t.onSlot[pod.slot] = list[:len(list)-1]
}

func (t *podTable) dropOrphan(node string, pod *Pod) {
	list := t.orphans[node]
	if i := slices.Index(list, pod); i >= 0 {
		list = slices.Delete(list, i, i+1)
	}
	if len(list) == 0 {
		delete(t.orphans, node)
		return
	}
	t.orphans[node] = list
}

// verify holds the pods on a slot against what they say themselves.
func (t *podTable) verify(slot Slot, node string) error {
	for at, pod := range t.onSlot[slot] {
		if pod.slot != slot || int(pod.position) != at || pod.node != node {
			return fmt.Errorf("pod %s stands at %d but says slot %d, position %d, node %s", pod.UID, at, pod.slot, pod.position, pod.node)
		}
	}
	return nil
}

// verifyUpdates reports an update that is kept for nothing.
func (t *podTable) verifyUpdates() error {
	for uid := range t.updates {
		if pod := t.byUID[uid]; pod == nil || pod.Phase != Assumed {
			return fmt.Errorf("an update of pod %s is kept, which is not assumed", uid)
		}
	}
	return nil
}

// upsertPod takes in what is known of a pod: what it says of itself, and where it is.
func (s *Store) upsertPod(seen *facts.Pod) {
	pod := s.pods.byUID[seen.UID]
	if pod == nil {
		if seen.Node == "" && !seen.Ours || seen.Finished && (!seen.Ours || seen.Unit == "") {
			return // another scheduler's, or finished; but a unit remembers its finished members
		}
		pod = &Pod{UID: seen.UID, Namespace: seen.Namespace, Name: seen.Name, Created: seen.Created, slot: NoSlot}
		s.pods.file(pod)
		s.claims.enter(pod, seen)
	}
	s.claims.use(pod, seen)
	if seen.Node == "" && !seen.Finished && (pod.Phase == Bound || pod.Phase == Assumed) {
		// Older than what we know: a bound pod never becomes unbound. While a Binding is under way only its deletion matters; the rest is kept in
		// case the Binding comes to nothing.
		pod.Nominated = seen.Nominated
		if pod.Phase == Assumed {
			kept := *seen
			s.pods.updates[pod.UID] = &kept
		}
		if seen.Deleting && !pod.Deleting {
			s.selection.retally(pod, func() { s.units.setDeleting(pod, true) })
			if pod.Obliged() {
				s.effects.emit(pod) // its victims need not leave any more
			}
		}
		return
	}
	delete(s.pods.updates, pod.UID)
	s.observe(pod, seen)
	if seen.Node != "" || seen.Finished {
		s.placeholders.consumeSeen(pod, seen)
	}
	class := s.classifier.classify(pod, seen.Node == "" && !seen.Finished)
	switch {
	case seen.Finished:
		s.unplace(pod)
		s.claims.forget(pod.UID)
		pod.usesClaims, pod.usesResourceClaims = false, false
		s.classifier.refer(pod, class)
		s.units.setPhase(pod, Finished)
	case seen.Node != "":
		s.observeBound(pod, class, seen)
		s.placeholders.giveBack(pod)
	default:
		s.classifier.refer(pod, class)
	}
	s.placeholders.follow(pod, seen)
	s.classifier.count(pod)
	if pod.Phase != Pending || !pod.Ours {
		s.classifier.waiting.Release(pod.UID)
	}
	s.effects.emit(pod)
}

// observe records what a pod says about itself, apart from where it is.
func (s *Store) observe(pod *Pod, seen *facts.Pod) {
	s.units.join(pod, seen.UnitName())
	priority := pod.Unit.priorityOf(seen.Priority)
	if pod.Priority != priority || pod.Started != seen.Started || seen.Scheduled != 0 && pod.Scheduled != seen.Scheduled {
		s.victims.note(pod.slot)
	}
	if seen.Scheduled != 0 {
		pod.Scheduled = seen.Scheduled
	}
	pod.own, pod.Subgroup, pod.Deadline, pod.Profile, pod.consent = seen.Priority, seen.Subgroup, seen.Deadline, seen.Profile, seen.Consent
	pod.Priority, pod.Gated, pod.Reported = priority, seen.Gated, seen.Reported
	pod.NeverPreempts, pod.Nominated = seen.NeverPreempts, seen.Nominated
	if pod.Started != seen.Started {
		pod.Started = seen.Started
		if pod.slot != NoSlot {
			s.usage.started(pod.slot)
		}
	}
	pod.requirements, pod.owner = seen.Requirements, seen.Owner
	if pod.mirror != seen.Mirror || pod.Ours != seen.Ours {
		pod.mirror, pod.Ours = seen.Mirror, seen.Ours
		if pod.slot != NoSlot {
			s.charges.recharge(pod.slot)
		}
	}
	id := s.selection.identify(seen.Namespace, seen.Labels)
	switch {
	case pod.identity == nil:
		s.selection.set(pod, id)
		s.units.setDeleting(pod, seen.Deleting)
	case pod.identity != id || pod.Deleting != seen.Deleting:
		s.selection.retally(pod, func() {
			s.selection.set(pod, id)
			s.units.setDeleting(pod, seen.Deleting)
		})
	}
}

// observeBound charges a pod where it was seen, moving it if the ledger had it elsewhere.
func (s *Store) observeBound(pod *Pod, class *Class, seen *facts.Pod) {
	promise := seen.Grant
	normalize(&promise)
	known := pod.Class != nil && pod.Class.request == class.request && pod.node == seen.Node
	if known {
		before, _ := pod.Promise()
		take(&promise, &before, class.lacking(&promise)) // an update that says nothing new
		known = promise == before
	}
	if !known {
		s.unplace(pod)
		s.classifier.refer(pod, class)
		s.place(pod, seen.Node, &promise)
	}
	pod.spare(&s.victims)
	s.units.setPhase(pod, Bound)
	s.claims.hold(pod)
	s.classifier.simplify(pod)
}

// AsIfWaiting returns the class that a pod with a place would have if it waited: with its rules about other pods, which the ledger counts for it from then on as for any idle class. It is for
// copies of a ledger, of which something is asked; the leader's has no use for it.
func (s *Store) AsIfWaiting(pod *Pod) *Class {
	return s.classifier.class(pod.Class.request, pod.identity, pod.Class.needs())
}

func (s *Store) removePod(uid facts.UID) {
	pod := s.pods.byUID[uid]
	if pod == nil {
		return
	}
	s.unplace(pod)
	s.placeholders.giveBack(pod)
	s.placeholders.forget(pod)
	s.classifier.waiting.Release(uid)
	s.classifier.refer(pod, nil)
	s.units.join(pod, facts.UnitName{})
	s.selection.set(pod, nil)
	s.claims.forget(uid)
	s.pods.drop(pod)
	s.effects.add(Effect{Kind: Settled, Pod: pod, Gone: true})
}

// PodCounts is how many pods of some kinds are on known nodes, or on their way there.
type PodCounts struct {
	Promises Promises
	// Reclaimed are pods of the reclaimed level.
	Reclaimed int
}

// count counts a pod that is charged to a slot, sign times.
func (c *PodCounts) count(pod *Pod, sign int) {
	c.Promises.count(pod, sign)
	if pod.Class.Reclaimed {
		c.Reclaimed += sign
	}
}

// Promises counts the pods on known nodes to which their Bindings promise what only an agent keeps, by what the node says of them. Whole GPUs count once
// the node has spoken of them.
type Promises struct {
	Waiting   int // the node has not said anything of the pod yet
	Confirmed int // it holds what was promised
	Moved     int // it holds something else
}

// count counts a pod that is charged to a slot, sign times.
func (c *Promises) count(pod *Pod, sign int) {
	if pod.placeholder || !pod.promised() { // no node will ever answer for a placeholder
		return
	}
	switch {
	case pod.Moved():
		c.Moved += sign
	case pod.Confirmed():
		c.Confirmed += sign
	default:
		c.Waiting += sign
	}
}

// promised reports whether the pod's Binding promised it anything that its node has to answer.
func (p *Pod) promised() bool {
	if p.said != 0 {
		return p.recorded != nil
	}
	if p.held == nil { // the usual case; GPUs may be counters
		return false
	}
	g, _ := p.Promise()
	g.GPUs, g.Milli = 0, 0
	return !g.IsZero() || g.Memory > 0
}
