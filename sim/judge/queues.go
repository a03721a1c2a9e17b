package judge

import (
	"maps"
	"math"
	"math/big"
	"slices"
	"strings"

	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/cluster/facts"
	"hilbert.dev/hilbert/resource"
)

// Tenants are queues, namespaces and PodGroups: those of the API server, or those that the scheduler has been told of.
type Tenants struct {
	Queues     map[string]*facts.Queue
	Namespaces map[string][]facts.Label
	Units      map[facts.UnitName]*facts.Unit
}

// NewTenants returns none yet.
func NewTenants() *Tenants {
	return &Tenants{
		Queues: make(map[string]*facts.Queue), Namespaces: make(map[string][]facts.Label),
		Units: make(map[facts.UnitName]*facts.Unit),
	}
}

// ListQueues lists the queues by name.
func (t *Tenants) ListQueues() []*facts.Queue {
	var list []*facts.Queue
	for _, name := range slices.Sorted(maps.Keys(t.Queues)) {
		list = append(list, t.Queues[name])
	}
	return list
}

// ListNamespaces lists the namespaces by name.
func (t *Tenants) ListNamespaces() []facts.Namespace {
	var list []facts.Namespace
	for _, name := range slices.Sorted(maps.Keys(t.Namespaces)) {
		list = append(list, facts.Namespace{Name: name, Labels: t.Namespaces[name]})
	}
	return list
}

// UnitNames lists the names of the PodGroups in order.
func (t *Tenants) UnitNames() []facts.UnitName {
	return slices.SortedFunc(maps.Keys(t.Units), CompareUnits)
}

// CompareUnits orders PodGroups by name.
func CompareUnits(a, b facts.UnitName) int { return strings.Compare(a.String(), b.String()) }

// ListUnits lists the PodGroups by name.
func (t *Tenants) ListUnits() []*facts.Unit {
	var list []*facts.Unit
	for _, name := range t.UnitNames() {
		list = append(list, t.Units[name])
	}
	return list
}

// QueueOf is the queue that a namespace feeds: the one its label names, else the first by name that selects it, else the default.
func (t *Tenants) QueueOf(namespace string) string {
	labels := t.Namespaces[namespace]
	for _, l := range labels {
		if l.Key == spec.LabelQueue {
			return l.Value
		}
	}
	for _, q := range t.ListQueues() {
		if q.Namespaces != nil && !q.Namespaces.Nothing && !slices.ContainsFunc(q.Namespaces.Expressions, func(e facts.Requirement) bool {
			return !labelsMatch(labels, e)
		}) {
			return q.Name
		}
	}
	return facts.DefaultQueue
}

// ancestors lists a queue and its ancestors, from the bottom up. closed: the chain does not end at the root, so nothing may be admitted.
func (t *Tenants) ancestors(name string) (chain []string, closed bool) {
	for {
		chain = append(chain, name)
		f := t.Queues[name]
		switch {
		case f == nil && name != facts.DefaultQueue:
			return chain, true
		case f == nil || f.Parent == facts.RootQueue:
			return chain, false
		case t.Queues[f.Parent] == nil && f.Parent != facts.DefaultQueue || t.circular(name):
			return chain, true
		}
		name = f.Parent
	}
}

// upTo lists a queue and its ancestors up to one of them, from the bottom up: the side of the tree that the queue is on. All, if that is none of them.
func (t *Tenants) upTo(name, side string) []string {
	chain, _ := t.ancestors(name)
	if at := slices.Index(chain, side); at >= 0 {
		return chain[:at+1]
	}
	return chain
}

// circular says whether a queue is its own ancestor.
func (t *Tenants) circular(name string) bool {
	at := name
	for range t.Queues {
		f := t.Queues[at]
		if f == nil {
			return false
		}
		if at = f.Parent; at == name {
			return true
		}
	}
	return false
}

// parent is the queue above; empty if there is none.
func (t *Tenants) parent(name string) string {
	if chain, _ := t.ancestors(name); len(chain) > 1 {
		return chain[1]
	}
	return ""
}

func (t *Tenants) children(name string) []string {
	var list []string
	for child := range t.Queues {
		if t.parent(child) == name {
			list = append(list, child)
		}
	}
	return list
}

// named finds the amount of a resource in a list.
func named(list []resource.Quantity, name string) (amount int64, ok bool) {
	for _, q := range list {
		if q.Name == name {
			amount, ok = q.Amount, true
		}
	}
	return amount, ok
}

// requested is the guarantee that a queue asks for: what it names, else the sum of its children's; at most its limit.
func (t *Tenants) requested(name, r string) int64 {
	f := t.Queues[name]
	var sum int64
	for _, child := range t.children(name) {
		sum = resource.Add(sum, t.requested(child, r))
	}
	if f == nil {
		return sum
	}
	if own, ok := named(f.Guaranteed, r); ok {
		sum = own
	}
	if most, ok := named(f.Max, r); ok {
		sum = min(sum, most)
	}
	return sum
}

// Guaranteed is what a queue can count on: the guarantee that it asks for or, where the siblings together ask for more than their parent has,
// its proportion of that.
func (t *Tenants) Guaranteed(name, r string) int64 {
	own := t.requested(name, r)
	up := t.parent(name)
	if up == "" {
		return own
	}
	has, all := t.Guaranteed(up, r), big.NewInt(0)
	for _, sibling := range t.children(up) {
		all.Add(all, big.NewInt(t.requested(sibling, r)))
	}
	if all.Cmp(big.NewInt(has)) <= 0 {
		return own
	}
	part := new(big.Int).Mul(big.NewInt(own), big.NewInt(has))
	return part.Div(part, all).Int64()
}

// Limit is what a queue must not exceed.
func (t *Tenants) Limit(name, r string) int64 {
	f := t.Queues[name]
	if f == nil {
		return math.MaxInt64
	}
	most, ok := named(f.Max, r)
	if !ok {
		most = math.MaxInt64
	}
	if _, ok := named(f.Guaranteed, r); ok && f.BorrowsNothing {
		most = min(most, t.Guaranteed(name, r))
	}
	return most
}

// Limited says whether a queue that a namespace feeds, or one above it, has any limit.
func (t *Tenants) Limited(namespace string) bool {
	chain, _ := t.ancestors(t.QueueOf(namespace))
	return slices.ContainsFunc(chain, func(name string) bool {
		f := t.Queues[name]
		return f != nil && (len(f.Max) > 0 || f.BorrowsNothing && len(f.Guaranteed) > 0)
	})
}

// Bill adds up what pods cost, by queue and resource.
type Bill map[string]map[string]int64

// Add charges a pod to its queue and all ancestors of that.
func (b Bill) Add(t *Tenants, namespace string, costs map[string]int64) {
	chain, _ := t.ancestors(t.QueueOf(namespace))
	for _, name := range chain {
		if b[name] == nil {
			b[name] = make(map[string]int64)
		}
		for resource, amount := range costs {
			b[name][resource] += amount
		}
	}
}

// Refusal names a queue that cannot take what is asked on top of what is used: its limit would be exceeded, or it is not in the tree. Empty if
// all can.
func (t *Tenants) Refusal(used, asks Bill) string {
	for _, name := range slices.Sorted(maps.Keys(asks)) {
		if _, closed := t.ancestors(name); closed {
			return name + " has no place in the tree"
		}
		for _, r := range slices.Sorted(maps.Keys(asks[name])) {
			if asked := asks[name][r]; asked > 0 && used[name][r]+asked > t.Limit(name, r) {
				return name + " has not enough " + r
			}
		}
	}
	return ""
}

// Borrows says whether a victim is borrowed from the namespace that takes its place: below the common ancestor, all queues that the victim is in hold
// more than their guarantee of some resource that it costs them. Pods that a parent queue holds itself count as borrowed: no child is guaranteed them.
func (t *Tenants) Borrows(used Bill, taker, namespace string, victim map[string]int64) bool {
	side := t.Side(namespace, taker)
	if side == "" {
		return t.QueueOf(namespace) != t.QueueOf(taker)
	}
	chain := t.upTo(t.QueueOf(namespace), side)
	for r, amount := range victim {
		within := func(name string) bool { return used[name][r] <= t.Guaranteed(name, r) }
		if r != resource.NamePods && amount > 0 && !slices.ContainsFunc(chain, within) {
			return true
		}
	}
	return false
}

// CutsGuarantee names a queue, of those from a victim's up to a branch, that has less than it is guaranteed of something which the victim holds and
// which is not claimed; left is what is used without all victims. Empty if there is none.
func (t *Tenants) CutsGuarantee(namespace, side string, left Bill, victim map[string]int64, claimed map[string]bool) string {
	for _, name := range t.upTo(t.QueueOf(namespace), side) {
		for r, amount := range victim {
			if r != resource.NamePods && amount > 0 && !claimed[r] && left[name][r] < t.Guaranteed(name, r) {
				return name
			}
		}
	}
	return ""
}

// GuaranteedUpTo says whether a queue, or one above it, is guaranteed some of a resource.
func (t *Tenants) GuaranteedUpTo(queue, r string) bool {
	return slices.ContainsFunc(t.upTo(queue, ""), func(name string) bool { return t.Guaranteed(name, r) > 0 })
}

// Spares says whether a namespace's queue and those above it, up to a branch, have borrowed so much of a resource.
func (t *Tenants) Spares(namespace, side string, used Bill, r string, amount int64) bool {
	return !slices.ContainsFunc(t.upTo(t.QueueOf(namespace), side), func(name string) bool { return used[name][r]-amount < t.Guaranteed(name, r) })
}

// Claims is what a queue may take back, of what it asks for: it and those above it, up to a branch, are guaranteed that, and stay within all their
// guarantees with it.
func (t *Tenants) Claims(queue, side string, used Bill, asked map[string]int64) map[string]bool {
	claims, chain := make(map[string]bool), t.upTo(queue, side)
	if !slices.Contains(chain, side) {
		return claims
	}
	for r, amount := range asked {
		if r == resource.NamePods || amount == 0 {
			continue
		}
		claims[r] = true
		for _, name := range chain {
			has := t.Guaranteed(name, r)
			if has > 0 && used[name][r]+amount > has {
				return nil
			}
			claims[r] = claims[r] && has > 0
		}
	}
	return claims
}

// MinRuntime is for how long a pod of a namespace has run before another queue may evict it: what the nearest queue says, of its own and those above it.
func (t *Tenants) MinRuntime(namespace string) int64 {
	chain, _ := t.ancestors(t.QueueOf(namespace))
	for _, name := range chain {
		if f := t.Queues[name]; f != nil && f.ReclaimMinRuntime != nil {
			return *f.ReclaimMinRuntime
		}
	}
	return 0
}

// Side is the branch of the tree that holds one namespace and not the other: the highest ancestor of the first that is no ancestor of the
// second. Empty if there is none.
func (t *Tenants) Side(of, apartFrom string) (side string) {
	mine, _ := t.ancestors(t.QueueOf(of))
	theirs, _ := t.ancestors(t.QueueOf(apartFrom))
	for _, name := range mine {
		if slices.Contains(theirs, name) {
			break
		}
		side = name
	}
	return side
}

// WithinGuarantee says whether a queue and its ancestors, up to a branch, stay within their guarantees when what is asked is added.
func (t *Tenants) WithinGuarantee(queue, side string, used, asks Bill) bool {
	for _, name := range t.upTo(queue, side) {
		for r, amount := range asks[name] {
			if r != resource.NamePods && used[name][r]+amount > t.Guaranteed(name, r) {
				return false
			}
		}
	}
	return true
}

// KeepsBorrowed says whether a queue from a namespace's up to a branch keeps what it has borrowed. Without a branch, only the namespace's queue
// is asked.
func (t *Tenants) KeepsBorrowed(namespace, side string) bool {
	queue := t.QueueOf(namespace)
	if side == "" {
		side = queue
	}
	return slices.ContainsFunc(t.upTo(queue, side), func(name string) bool { f := t.Queues[name]; return f != nil && f.KeepsBorrowed })
}
