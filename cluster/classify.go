package cluster

import (
	"cmp"
	"fmt"
	"slices"

	"hilbert.dev/hilbert/cluster/changes"
	"hilbert.dev/hilbert/cluster/facts"
	"hilbert.dev/hilbert/cluster/waiting"
)

// classifier gives every pod its class. It asks nothing of nodes: what a pod's class is follows from the pod's requirements and its phase, from the selectors that are about it
// (selection), from what it claims (claimBook), and from how many others wait that are unlike it (waiting).
//
// A pod refers to the class that classify gave it last, or, once it is bound, to the one without what others say of it (simplify). Whoever changes what that follows from puts the pod on selection.recheck; recheck, when the event or the commit is over,
// classifies those pods again.
type classifier struct {
	state     *State
	pods      *podTable
	book      *classBook
	selection *selection
	claims    *claimBook
	charges   *chargeBook
	effects   *effects
	waiting   waiting.Bound
	takesIn   bool // pods that were held back are being taken in
	restores  bool // pods of a file are entered that its ledger had taken in
}

// A pod that waits is taken in, or held back by package waiting because too many others of its namespace wait that are unlike it. A pod that is held back
// has a class of its own, which is no more than its facts, as that of a pod with a gate (held), and an identity of its own, which no selector is asked about.
//
// The ledger tells the Bound which classes count: those of the pods that are pending or assumed and have no private class. What is remembered of a pod that
// is held back is the class that it would have had when it was judged last, by its own doing. What has come up since, such as terms of other
// pods about it, is looked at when its turn comes; then it may turn out to be of another class, and goes back in line with that.

// refer makes the pod refer to another class (nil: none), and counts that. The terms of a gang's members act while they wait, for members are placed together.
func (c *classifier) refer(pod *Pod, class *Class) {
	if pod.counted && (class == nil || class.private || class.key != pod.Class.key) {
		c.waiting.Count(pod.Namespace, pod.Class.key, pod.Class.weighed(), -1)
		pod.counted = false
	}
	c.book.refer(pod, class)
	if class == nil {
		return
	}
	c.count(pod)
	if pod.Unit != nil {
		c.selection.act(class.request.carries)
	}
}

// count counts the class of a pod that waits, or has a place for which it may have to wait again.
func (c *classifier) count(pod *Pod) {
	waits := pod.Ours && (pod.Phase == Pending || pod.Phase == Assumed) && !pod.Class.private
	switch {
	case waits == pod.counted || c.waiting.Most() == 0:
		return
	case waits:
		c.waiting.Count(pod.Namespace, pod.Class.key, pod.Class.weighed(), 1)
	default:
		c.waiting.Count(pod.Namespace, pod.Class.key, pod.Class.weighed(), -1)
	}
	pod.counted = waits
}

// admit returns the class of a pod that wants a place, if there is one already or the pod is held back.
func (c *classifier) admit(pod *Pod, r *facts.Requirements, asks needs) (class *Class, known bool) {
	c.sweep()
	if pod.identity.key == "" {
		c.selection.set(pod, c.selection.identify(pod.Namespace, pod.identity.Labels))
	}
	class, key := c.book.find(r, pod.identity, c.selection.namespaces, asks)
	p := inLine(pod, key, weighed(r.PodTerms(), len(pod.identity.AffectedBy)))
	var from *waiting.Key
	if pod.counted {
		from = &pod.Class.key
	}
	if c.restores || c.waiting.Admits(&p, from) {
		c.waiting.Release(pod.UID)
		return class, class != nil
	}
	message, fresh := c.waiting.Hold(&p)
	c.selection.set(pod, &identity{Subject: pod.identity.Subject})
	if fresh {
		for _, member := range pod.Unit.pods {
			if member.counted {
				c.selection.recheck = append(c.selection.recheck, member)
			}
		}
	}
	old := pod.Class
	if old != nil && old.HeldBack == message && old.request.Requirements == pod.requirements {
		return old, true
	}
	r = pod.requirements
	return &Class{Requirements: r, request: &request{Requirements: r}, private: true, HeldBack: message}, true
}

// inLine is what package waiting knows of a pod.
func inLine(pod *Pod, key waiting.Key, terms int) waiting.Pod {
	p := waiting.Pod{UID: pod.UID, Namespace: pod.Namespace, Created: pod.Created, Class: key, Terms: terms}
	if pod.Unit != nil {
		p.Gang = pod.Unit.Name
	}
	return p
}

// takeIn takes in the pods for which there is room. What one brings may be about others, which are then judged again: terms are forgotten only
// afterwards, so that this ends.
func (c *classifier) takeIn() {
	if !c.waiting.Due() {
		return
	}
	c.sweep()
	c.takesIn = true
	for list := c.waiting.Next(); list != nil; list = c.waiting.Next() {
		for _, uid := range list {
			c.selection.recheck = append(c.selection.recheck, c.pods.byUID[uid])
		}
		c.recheck()
	}
	c.takesIn = false
}

// recheck gives the pods that wait, and about which something changed, their new class, and says so.
func (c *classifier) recheck() {
	for len(c.selection.recheck) > 0 {
		pods := c.selection.recheck
		c.selection.recheck = nil
		for _, pod := range pods {
			if c.pods.byUID[pod.UID] != pod {
				continue
			}
			c.recheckPod(pod)
		}
	}
}

// recheckPod gives a pod its new class. One that is on its way to a node takes it in should it wait again, if it is charged anything else by it, or too many classes
// of its namespace wait.
func (c *classifier) recheckPod(pod *Pod) {
	old := pod.Class
	switch pod.Phase {
	case Pending:
		c.refer(pod, c.classify(pod, true))
		if pod.Class != old {
			c.effects.emit(pod)
		}
	case Assumed:
		class := c.classify(pod, true)
		p := inLine(pod, class.key, class.weighed())
		if pod.outdated = class.request != old.request || !sameNeeds(class, old) || !c.waiting.Admits(&p, &old.key); !pod.outdated {
			c.refer(pod, class)
		}
	default:
	}
}

// sameNeeds reports whether the volumes and ResourceClaims of the pods of two classes ask for the same.
func sameNeeds(a, b *Class) bool {
	return a.VolumesWait == b.VolumesWait && a.ClaimsWait == b.ClaimsWait && string(a.needs().append(nil)) == string(b.needs().append(nil))
}

// classify returns the class that a pod should have; seeks says whether it is looking for a place.
func (c *classifier) classify(pod *Pod, seeks bool) *Class {
	if seeks && pod.mustWait() {
		c.waiting.Release(pod.UID)
		return held(pod)
	}
	var asks needs
	if seeks && pod.Ours && pod.usesClaims {
		needs, waits := c.state.volumes.Needs(pod.UID)
		if waits != "" && pod.Phase == Pending {
			c.waiting.Release(pod.UID)
			return waitingForVolumes(pod, waits)
		}
		asks.volumes = needs
	}
	if seeks && pod.Ours && pod.usesResourceClaims {
		needs, waits := c.claims.dra.Needs(pod.UID)
		if waits != "" && pod.Phase == Pending {
			c.waiting.Release(pod.UID)
			return waitingForClaims(pod, waits)
		}
		asks.claims = needs
	}
	r := c.selection.effective(pod)
	if seeks && pod.Ours && pod.Phase == Pending && c.waiting.Most() > 0 {
		if class, known := c.admit(pod, r, asks); known {
			return class
		}
	}
	q := c.request(r)
	switch {
	case pod.Ours && seeks:
		return c.class(q, pod.identity, asks)
	case pod.Class != nil && pod.Class.request == q:
		return pod.Class
	}
	return c.class(q, nil, needs{})
}

// simplify gives a pod that is bound the class of its request, volumes and claims alone. Its place depends on nothing any more: what its class counts of other pods is counted on
// for those that still wait, and forgotten with the idle classes.
func (c *classifier) simplify(pod *Pod) {
	if pod.Class.Constraints != nil {
		c.refer(pod, c.class(pod.Class.request, nil, pod.Class.needs()))
	}
}

// request returns the request with these requirements. It forgets idle classes first, so that a class which comes up now is not tied to terms
// that no pod carries any more.
func (c *classifier) request(r *facts.Requirements) *request {
	c.sweep()
	q, known := c.book.request(r)
	if !known {
		c.state.fitKinds()
	}
	return q
}

// sweep forgets idle classes if there are many. While pods are being taken in it does not: what they have brought is not to come up again.
func (c *classifier) sweep() {
	if !c.takesIn && c.book.sweep() {
		c.selection.purge()
	}
}

// class returns the class of a request for a pod with an identity; nil for a pod that needs no place.
func (c *classifier) class(q *request, id *identity, asks needs) *Class {
	class, known, fresh := c.book.class(q, id, c.selection.namespaces, asks)
	if known {
		return class
	}
	if class.Constraints != nil {
		c.selection.introduce(fresh)
		c.state.counts.Learn()
	}
	return class
}

// recount replaces the classes that ask for any of the resources, whose kinds have come or gone. Pods on nodes are charged anew.
func (c *classifier) recount(names []string) {
	replaced := c.book.recount(names)
	if len(replaced) == 0 {
		return
	}
	c.state.addKinds(len(c.state.nodes), cap(c.state.nodes)) // those that are vacant now are still charged
	var pods []*Pod
	for _, pod := range c.pods.byUID {
		if replaced[pod.Class] != nil {
			pods = append(pods, pod)
		}
	}
	slices.SortFunc(pods, func(a, b *Pod) int { return cmp.Compare(a.UID, b.UID) })
	for _, pod := range pods {
		old, slot := pod.Class, pod.slot
		if slot != NoSlot {
			c.state.move(slot, old, -1)
			c.charges.spend(pod, -1)
		}
		c.refer(pod, replaced[old])
		if slot != NoSlot {
			c.state.move(slot, pod.Class, 1)
			c.charges.spend(pod, 1)
			c.state.note(slot, changes.Freed|changes.Charged)
		}
		if pod.wants() {
			c.effects.emit(pod)
		}
	}
	for old := range replaced {
		c.book.idle.leave(old)
	}
}

// verify counts anew which classes wait, and which pods are held back.
func (c *classifier) verify() error {
	var taken, back []waiting.Pod
	for _, pod := range c.pods.byUID {
		waits := pod.Ours && (pod.Phase == Pending || pod.Phase == Assumed)
		switch {
		case pod.counted != (waits && !pod.Class.private && c.waiting.Most() > 0):
			return fmt.Errorf("pod %s waits: %v, has a class that counts: %v, and counts: %v", pod.UID, waits, !pod.Class.private, pod.counted)
		case pod.counted:
			taken = append(taken, inLine(pod, pod.Class.key, pod.Class.weighed()))
		case pod.Class.HeldBack != "":
			class, terms := c.waiting.ClassOf(pod.UID)
			back = append(back, inLine(pod, class, terms))
			if pod.identity.key != "" || !waits || pod.mustWait() || pod.Schedulable() {
				return fmt.Errorf("pod %s is held back, and waits: %v, must wait: %v, may be placed: %v", pod.UID, waits, pod.mustWait(), pod.Schedulable())
			}
		}
	}
	return c.waiting.Verify(taken, back)
}
