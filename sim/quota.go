package sim

import (
	"maps"
	"math"
	"math/big"
	"slices"

	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/cluster/facts"
	"hilbert.dev/hilbert/resource"
)

// This file reads queues naively: from their facts, anew for every question, by name, with no tree and no code of cluster's.

// queueOf is the queue that a namespace feeds: the one its label names, else the first by name that selects it, else the default.
func (t *tenants) queueOf(namespace string) string {
	labels := t.namespaces[namespace]
	for _, l := range labels {
		if l.Key == spec.LabelQueue {
			return l.Value
		}
	}
	for _, q := range t.listQueues() {
		if q.Namespaces != nil && !q.Namespaces.Nothing && !slices.ContainsFunc(q.Namespaces.Expressions, func(e facts.Requirement) bool {
			at := slices.IndexFunc(labels, func(l facts.Label) bool { return l.Key == e.Key })
			value := ""
			if at >= 0 {
				value = labels[at].Value
			}
			return !expressionHolds(e, value, at >= 0)
		}) {
			return q.Name
		}
	}
	return facts.DefaultQueue
}

// above is a queue and those above it, from the bottom up. closed: its place in the tree is in doubt.
func (t *tenants) above(name string) (chain []string, closed bool) {
	for {
		chain = append(chain, name)
		f := t.queues[name]
		switch {
		case f == nil && name != facts.DefaultQueue:
			return chain, true
		case f == nil || f.Parent == facts.RootQueue:
			return chain, false
		case t.queues[f.Parent] == nil && f.Parent != facts.DefaultQueue || t.circular(name):
			return chain, true
		}
		name = f.Parent
	}
}

// circular says whether a queue is below itself.
func (t *tenants) circular(name string) bool {
	at := name
	for range t.queues {
		f := t.queues[at]
		if f == nil {
			return false
		}
		if at = f.Parent; at == name {
			return true
		}
	}
	return false
}

// parent is the queue above, empty for none.
func (t *tenants) parent(name string) string {
	if chain, _ := t.above(name); len(chain) > 1 {
		return chain[1]
	}
	return ""
}

func (t *tenants) children(name string) []string {
	var list []string
	for child := range t.queues {
		if t.parent(child) == name {
			list = append(list, child)
		}
	}
	return list
}

// named is what a list says of a resource.
func named(list []resource.Quantity, name string) (amount int64, ok bool) {
	for _, q := range list {
		if q.Name == name {
			amount, ok = q.Amount, true
		}
	}
	return amount, ok
}

// demanded is what a queue asks as its guarantee: what it names, else what its children ask; no more than its limit.
func (t *tenants) demanded(name, r string) int64 {
	f := t.queues[name]
	var sum int64
	for _, child := range t.children(name) {
		sum = resource.Add(sum, t.demanded(child, r))
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

// guaranteed is what a queue can count on: its demand or, where its siblings' are together more than their parent's guarantee, its
// proportion of that.
func (t *tenants) guaranteed(name, r string) int64 {
	own := t.demanded(name, r)
	up := t.parent(name)
	if up == "" {
		return own
	}
	has, all := t.guaranteed(up, r), big.NewInt(0)
	for _, sibling := range t.children(up) {
		all.Add(all, big.NewInt(t.demanded(sibling, r)))
	}
	if all.Cmp(big.NewInt(has)) <= 0 {
		return own
	}
	part := new(big.Int).Mul(big.NewInt(own), big.NewInt(has))
	return part.Div(part, all).Int64()
}

// limit is what a queue must not exceed.
func (t *tenants) limit(name, r string) int64 {
	f := t.queues[name]
	if f == nil {
		return math.MaxInt64
	}
	most, ok := named(f.Max, r)
	if !ok {
		most = math.MaxInt64
	}
	if _, ok := named(f.Guaranteed, r); ok && f.BorrowsNothing {
		most = min(most, t.guaranteed(name, r))
	}
	return most
}

// charge is what a pod costs its queues, by resource.
func charge(r *facts.Requirements) map[string]int64 {
	sum := map[string]int64{resource.NamePods: 1}
	for _, q := range r.Requests {
		sum[q.Name] += q.Amount
	}
	if milli := r.GPU.Total(); milli > 0 {
		sum[spec.ResourceGPUMilli] += milli
	}
	return sum
}

// bill adds up, by queue and resource, what pods cost.
type bill map[string]map[string]int64

func (b bill) add(t *tenants, namespace string, r *facts.Requirements) {
	chain, _ := t.above(t.queueOf(namespace))
	for _, name := range chain {
		if b[name] == nil {
			b[name] = make(map[string]int64)
		}
		for resource, amount := range charge(r) {
			b[name][resource] += amount
		}
	}
}

// forbids names a queue whose limit is exceeded by asks on top of what is used, or whose place is in doubt; empty when there is none.
func (t *tenants) forbids(used, asks bill) string {
	for _, name := range slices.Sorted(maps.Keys(asks)) {
		if _, closed := t.above(name); closed {
			return name + " has no place in the tree"
		}
		for _, r := range slices.Sorted(maps.Keys(asks[name])) {
			if asked := asks[name][r]; asked > 0 && used[name][r]+asked > t.limit(name, r) {
				return name + " has not enough " + r
			}
		}
	}
	return ""
}

// usage is the bill of what is on the nodes that are there.
func (a *model) usage() bill {
	b := make(bill)
	for i := range a.nodes {
		if n := &a.nodes[i]; n.present {
			for _, at := range n.pods {
				p := &a.pods[at]
				b.add(a.tenants, a.identity(p).Namespace, a.requirements(p))
			}
		}
	}
	return b
}
