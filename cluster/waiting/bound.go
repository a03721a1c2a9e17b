package waiting

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"hilbert.dev/hilbert/cluster/facts"
	"hilbert.dev/hilbert/internal/heap"
)

// Key stands for a class of pods. It is a digest, so that one that is held back costs no more; two classes with one Key count as one.
type Key [16]byte

// Pod is what is known here of a pod.
type Pod struct {
	UID       facts.UID
	Namespace string
	Gang      string // the name of its PodGroup; empty for none
	Created   int64
	Class     Key
	// Terms is how many terms between pods a place for the class depends on: its own, each of which counts as CountedTerm of them, and those of others about its pods. It
	// follows from the class.
	Terms int
}

// CountedTerm is as how many terms one counts that a waiting class has itself: as four classes, beside the one that each class counts as. All pods are counted for it that
// it is about, which may be every pod of the cluster: on each node, in each copy of the ledger. A term of others about the class is only read.
const CountedTerm = 4 * TermsPerClass

// TermsPerClass is how many terms count as one class more. A class that depends on few counts as one, whatever they are about; one that depends on thousands, each
// of which is to be listed again when another comes up, counts as hundreds.
const TermsPerClass = 16

// weight is as how many classes one with so many terms counts. None counts as more than may wait, so that each may be alone.
func (b *Bound) weight(terms int) int { return min(1+terms/TermsPerClass, b.most) }

// Bound is which classes of each namespace are taken in, and which pods are held back. The zero value bounds nothing.
type Bound struct {
	most       int
	namespaces map[string]*namespace
	held       map[facts.UID]*heldPod
	crowded    int          // namespaces of which pods are held back
	due        []*namespace // those that may have room for a batch
	open       *batch       // that Next has named last: it is being taken in
}

// namespace is never empty: it has pods that wait.
type namespace struct {
	name  string
	taken map[Key]takenClass
	sum   int // the weights of the classes that are taken in
	held  int // pods that are held back
	// alike and gangs are the batches that are held back. order has those that could be taken in, the oldest first.
	alike map[Key]*batch
	gangs map[string]*batch
	order *heap.Heap[*batch]
	// wanted has the gangs that are held back, by each class of theirs. whole are batches that may have no class which is not taken in.
	wanted map[Key]map[*batch]struct{}
	whole  []*batch
	due    bool
	text   string // what single pods that are held back are told
}

// takenClass is a class that is taken in: how many pods of it, and as how many classes it counts.
type takenClass struct{ pods, weight int }

// batch is held back together: single pods of one class, or the members of a gang.
type batch struct {
	space    *namespace
	gang     string
	class    Key  // without a gang
	listed   bool // among the whole ones
	alone    bool // when it was taken in, nothing else was
	pods     *heap.Heap[*heldPod]
	classes  []classCount // in order of their keys
	missing  int          // the weights of those of the classes that are not taken in
	position int          // in the order; -1: it could never be taken in
}

type classCount struct {
	class  Key
	pods   int
	weight int
}

type heldPod struct {
	Pod
	batch    *batch
	position int
}

// SetMost sets how many classes of a namespace may wait, each counted by its weight; 0: any number. It must be set before the first pod.
func (b *Bound) SetMost(most int) { b.most = most }

// Most is how many classes of a namespace may wait; 0: any number.
func (b *Bound) Most() int { return b.most }

// Held is how many pods are held back.
func (b *Bound) Held() int { return len(b.held) }

// Crowded is in how many namespaces pods are held back.
func (b *Bound) Crowded() int { return b.crowded }

// ClassOf is the class by which a pod is held back, and its terms; zero if it is not.
func (b *Bound) ClassOf(uid facts.UID) (class Key, terms int) {
	if h := b.held[uid]; h != nil {
		return h.Class, h.Terms
	}
	return Key{}, 0
}

// Admits reports whether a pod that waits, or wants to, may be taken in now. from is the class that it counts in so far, nil if none: a pod that changes
// keeps its room if no other is in it.
func (b *Bound) Admits(p *Pod, from *Key) bool {
	if b.most <= 0 {
		return true
	}
	n := b.namespaces[p.Namespace]
	switch o := b.open; {
	case n == nil:
		return true
	case o != nil && o.space.name == p.Namespace && o.gang == p.Gang && o.has(p.Class) && (o.alone || n.sum+b.weight(p.Terms) <= b.most):
		return true
	case p.Gang != "" && n.gangs[p.Gang] != nil:
		return false
	case n.taken[p.Class].pods > 0 || from != nil && n.leaves(*from, b.weight(p.Terms), b.most):
		return true
	}
	return n.order.Len() == 0 && n.has(b.weight(p.Terms), b.most)
}

// Hold holds a pod back, which Admits has refused, and returns what to tell its user. fresh says that it is the first of a gang: the other members that wait
// have to be judged again.
func (b *Bound) Hold(p *Pod) (message string, fresh bool) {
	old := b.held[p.UID]
	if old != nil && old.Pod == *p {
		return old.batch.message(b.most), false
	}
	b.Release(p.UID)
	n := b.space(p.Namespace)
	batch := n.batchOf(p)
	if batch == nil {
		fresh = p.Gang != ""
		batch = n.newBatch(p)
	}
	h := &heldPod{Pod: *p, batch: batch}
	b.held[p.UID] = h
	if n.held++; n.held == 1 {
		b.crowded++
	}
	batch.pods.Push(h)
	batch.count(p.Class, b.weight(p.Terms), 1)
	batch.rank(b.most)
	b.mark(n)
	return batch.message(b.most), fresh
}

// Release forgets that a pod is held back: it is taken in, does not wait any more, or is gone.
func (b *Bound) Release(uid facts.UID) {
	h := b.held[uid]
	if h == nil {
		return
	}
	batch := h.batch
	n := batch.space
	b.lose(h)
	batch.pods.Remove(h.position)
	batch.count(h.Class, b.weight(h.Terms), -1)
	if batch.pods.Len() > 0 {
		batch.rank(b.most)
	} else {
		n.drop(batch)
	}
	b.mark(n)
	b.forget(n)
}

// Count counts a pod of a class with so many terms that is taken in, or with -1 one that does not wait any more.
func (b *Bound) Count(name string, class Key, terms, sign int) {
	if b.most <= 0 {
		return
	}
	n := b.space(name)
	of, weight := n.taken[class], b.weight(terms)
	before := of.pods
	of.pods += sign
	of.weight = weight
	switch {
	case of.pods == 0:
		delete(n.taken, class)
		n.sum -= weight
		n.turn(class, weight)
		b.mark(n)
		b.forget(n)
	case before == 0:
		n.taken[class] = of
		n.sum += weight
		n.turn(class, -weight)
		b.mark(n)
	default:
		n.taken[class] = of
	}
}

// has reports whether there is room for more classes of so much weight. What is alone always has: it could never be looked at else.
func (n *namespace) has(weight, most int) bool { return n.sum == 0 || n.sum+weight <= most }

// leaves reports whether a pod which changes gives the room of the class that it was in so far to one of so much weight.
func (n *namespace) leaves(from Key, weight, most int) bool {
	old := n.taken[from]
	return old.pods == 1 && (weight <= old.weight || n.sum-old.weight+weight <= most || n.sum == old.weight)
}

// Next returns the pods of a batch that is to be taken in now, which are no longer held back; nil if there is none. Admits answers for them until the next
// call.
func (b *Bound) Next() []facts.UID {
	b.open = nil
	for len(b.due) > 0 {
		n := b.due[len(b.due)-1]
		if batch := n.next(b.most); batch != nil {
			return b.take(batch)
		}
		n.due = false
		b.due = b.due[:len(b.due)-1]
	}
	return nil
}

// lose counts that a pod is not held back any more.
func (b *Bound) lose(h *heldPod) {
	delete(b.held, h.UID)
	if h.batch.space.held--; h.batch.space.held == 0 {
		b.crowded--
	}
}

// take takes a batch out, the oldest pod first.
func (b *Bound) take(batch *batch) []facts.UID {
	n := batch.space
	list := make([]facts.UID, 0, batch.pods.Len())
	n.drop(batch)
	for batch.pods.Len() > 0 {
		h := batch.pods.Pop()
		list = append(list, h.UID)
		b.lose(h)
	}
	b.open, batch.alone = batch, n.sum == 0
	b.forget(n)
	return list
}

// next returns a batch that may be taken in: one that brings no class, or the oldest if there is room for it.
func (n *namespace) next(most int) *batch {
	if n.order.Len() == 0 {
		return nil
	}
	if first := n.order.First(); n.has(first.missing, most) {
		return first
	}
	for len(n.whole) > 0 {
		end := len(n.whole) - 1
		last := n.whole[end]
		n.whole, last.listed = slices.Delete(n.whole, end, end+1), false
		if last.position >= 0 && last.missing == 0 {
			return last
		}
	}
	return nil
}

// list lists a batch that brings no class. The oldest is the last of the list.
func (n *namespace) list(whole *batch) {
	if whole.missing > 0 || whole.listed || whole.position < 0 {
		return
	}
	whole.listed = true
	at, _ := slices.BinarySearchFunc(n.whole, whole, func(a, b *batch) int { return compare(b.pods.First(), a.pods.First()) })
	n.whole = slices.Insert(n.whole, at, whole)
}

func (b *Bound) space(name string) *namespace {
	n := b.namespaces[name]
	if n == nil {
		if b.namespaces == nil {
			b.namespaces, b.held = make(map[string]*namespace), make(map[facts.UID]*heldPod)
		}
		n = &namespace{
			name: name, taken: make(map[Key]takenClass), alike: make(map[Key]*batch), gangs: make(map[string]*batch), wanted: make(map[Key]map[*batch]struct{}),
		}
		n.order = heap.New(func(a, b *batch) bool { return compare(a.pods.First(), b.pods.First()) < 0 }, func(b *batch, i int) { b.position = i })
		b.namespaces[name] = n
	}
	return n
}

// forget drops a namespace of which no pod waits.
func (b *Bound) forget(n *namespace) {
	if n.held == 0 && len(n.taken) == 0 && b.namespaces[n.name] == n {
		delete(b.namespaces, n.name)
	}
}

// mark takes note that a namespace may have room for a batch.
func (b *Bound) mark(n *namespace) {
	if !n.due && n.order.Len() > 0 {
		n.due = true
		b.due = append(b.due, n)
	}
}

// Due reports whether Next has something to look at.
func (b *Bound) Due() bool { return len(b.due) > 0 }

func compare(a, b *heldPod) int {
	return cmp.Or(cmp.Compare(a.Created, b.Created), strings.Compare(string(a.UID), string(b.UID)))
}

func (n *namespace) batchOf(p *Pod) *batch {
	if p.Gang != "" {
		return n.gangs[p.Gang]
	}
	return n.alike[p.Class]
}

func (n *namespace) newBatch(p *Pod) *batch {
	batch := &batch{space: n, gang: p.Gang, class: p.Class, position: -1}
	batch.pods = heap.New(func(a, b *heldPod) bool { return compare(a, b) < 0 }, func(h *heldPod, i int) { h.position = i })
	if p.Gang != "" {
		n.gangs[p.Gang] = batch
	} else {
		n.alike[p.Class] = batch
	}
	return batch
}

// drop takes a batch out of the line.
func (n *namespace) drop(gone *batch) {
	if gone.position >= 0 {
		n.order.Remove(gone.position)
	}
	if gone.listed {
		gone.listed = false
		n.whole = slices.DeleteFunc(n.whole, func(other *batch) bool { return other == gone })
	}
	if gone.gang == "" {
		delete(n.alike, gone.class)
		return
	}
	delete(n.gangs, gone.gang)
	for _, c := range gone.classes {
		n.unwant(gone, c.class)
	}
}

// want takes note that a gang has a class; unwant, that it has it no more.
func (n *namespace) want(gang *batch, class Key) {
	if n.wanted[class] == nil {
		n.wanted[class] = make(map[*batch]struct{})
	}
	n.wanted[class][gang] = struct{}{}
}

func (n *namespace) unwant(gang *batch, class Key) {
	delete(n.wanted[class], gang)
	if len(n.wanted[class]) == 0 {
		delete(n.wanted, class)
	}
}

// turn takes note that a class begins to be taken in (less is missing by its weight) or ends, for the batches that have it.
func (n *namespace) turn(class Key, missing int) {
	if batch := n.alike[class]; batch != nil {
		batch.missing += missing
		n.list(batch)
	}
	for batch := range n.wanted[class] {
		batch.missing += missing
		n.list(batch)
	}
}

// has reports whether some pod of the batch is of the class.
func (b *batch) has(class Key) bool {
	_, found := b.find(class)
	return found
}

func (b *batch) find(class Key) (int, bool) {
	return slices.BinarySearchFunc(b.classes, class, func(c classCount, key Key) int { return slices.Compare(c.class[:], key[:]) })
}

// count counts a pod of a class of the batch, or with -1 one that has left it.
func (b *batch) count(class Key, weight, sign int) {
	at, found := b.find(class)
	if !found {
		b.classes = slices.Insert(b.classes, at, classCount{class: class, weight: weight})
		if b.space.taken[class].pods == 0 {
			b.missing += weight
		}
		if b.gang != "" {
			b.space.want(b, class)
		}
	}
	b.classes[at].pods += sign
	if b.classes[at].pods > 0 {
		return
	}
	b.classes = slices.Delete(b.classes, at, at+1)
	b.space.unwant(b, class)
	if b.space.taken[class].pods == 0 {
		b.missing -= weight
	}
}

// rank puts the batch where it belongs in the order. One with more classes than may wait is not in it.
func (b *batch) rank(most int) {
	order := b.space.order
	switch fits := len(b.classes) <= most; {
	case fits && b.position < 0:
		order.Push(b)
	case fits:
		order.Fix(b.position)
	case b.position >= 0:
		order.Remove(b.position)
	}
	b.space.list(b)
}

// message is what the user of a pod of the batch is told.
func (b *batch) message(most int) string {
	n := b.space
	switch {
	case b.gang != "" && len(b.classes) > most:
		return fmt.Sprintf("more than %d different pods of PodGroup %s/%s wait, and no namespace may have more at once (scheduling.maxWaitingClasses): the gang is not looked at. %s",
			most, n.name, b.gang, different("Make its members alike, or have the bound raised"))
	case b.gang != "":
		return fmt.Sprintf("%d different pods of namespace %s wait, as many as may at once (scheduling.maxWaitingClasses). PodGroup %s is looked at, oldest first, when there is room for all its members. %s",
			most, n.name, b.gang, different("Delete pods that cannot be placed, make pods alike, or have the bound raised"))
	case n.text == "":
		n.text = fmt.Sprintf("%d different pods of namespace %s wait, as many as may at once (scheduling.maxWaitingClasses). This one is looked at, oldest first, when one of them is placed or deleted. %s",
			most, n.name, different("Delete pods that cannot be placed, make pods alike, or have the bound raised"))
	}
	return n.text
}

func different(advice string) string {
	return advice + ". Pods differ by requests, node selectors, affinity, spread, tolerations, host ports, images, or by what terms of other pods say about their labels."
}
