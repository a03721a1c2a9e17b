package dra

import (
	"slices"

	"hilbert.dev/hilbert/cluster/facts"
)

// Allocator chooses devices. Its answers depend on nothing but the Query.
type Allocator interface {
	// Allocate chooses devices for all claims of the Query, in their order, or says why it cannot.
	Allocate(q *Query) (allocations []*facts.ClaimAllocation, refusal string)
	// Explain says for people what a Query that was refused lacks.
	Explain(q *Query) string
	// Exactly is what a claim asks for that is made of requests.
	Exactly(requests []facts.DeviceRequest) facts.ClaimRequests
	// Taint returns the slice with the taints that rules give to its devices; the slice itself if they give none.
	Taint(slice *facts.ResourceSlice, rules []*facts.DeviceTaintRule) *facts.ResourceSlice
}

// Query is what an Allocator is asked.
type Query struct {
	Node *facts.Node
	// Slices are those of the pools that have devices for the node, whole pools each.
	Slices  []*facts.ResourceSlice
	Classes map[string]*facts.DeviceClass
	// Taken are the devices of these pools that claims have.
	Taken  []facts.AllocatedDevice
	Claims []facts.ClaimRequests
}

// View is what there is of devices for one node. A nil View has none.
type View struct {
	allocator     Allocator
	node          *facts.Node
	classes       map[string]*facts.DeviceClass
	local, shared part
	answers       []answer
}

// part is the pools of one node, or those that several nodes share.
type part struct {
	slices []*facts.ResourceSlice
	taken  []facts.AllocatedDevice
}

// maxAnswers bounds the answers that a View keeps. Pods that ask for more kinds of claims than that take turns.
const maxAnswers = 16

// answer is what the Allocator said about claims, and what is left once they are allocated.
type answer struct {
	key         string
	allocations []*facts.ClaimAllocation
	refusal     string
	worth       int64
	after       *View
}

// Fits reports whether the node can give a pod what its claims ask for.
func (v *View) Fits(node *facts.Node, needs *facts.ClaimNeeds) bool {
	if needs == nil || !needs.Suits(node) {
		return false
	}
	if len(needs.Unallocated) == 0 {
		return true
	}
	if v == nil {
		return asksNothing(needs)
	}
	return v.answer(needs).refusal == ""
}

// asksNothing reports whether all claims are without requests, so that any node will do.
func asksNothing(needs *facts.ClaimNeeds) bool {
	return !slices.ContainsFunc(needs.Unallocated, func(r facts.ClaimRequests) bool { return len(r.Classes) > 0 })
}

// Worth is what the node gives a pod that Fits, by the places in prioritized lists. (Upstream's score.)
func (v *View) Worth(needs *facts.ClaimNeeds) int64 {
	if needs == nil {
		return 0
	}
	if v == nil || len(needs.Unallocated) == 0 {
		return needs.Worth
	}
	return needs.Worth + v.answer(needs).worth
}

// Explain says for people what the node lacks.
func (v *View) Explain(node *facts.Node, needs *facts.ClaimNeeds) string {
	switch {
	case needs == nil || !needs.Suits(node):
		return "cannot use the devices that a claim of the pod has been given"
	case v == nil || v.allocator == nil:
		return "has no devices that a driver publishes"
	}
	return v.allocator.Explain(v.query(needs))
}

// After returns the View that is left when a pod with the needs was given what its claims ask for; the View itself if that cannot be.
func (v *View) After(needs *facts.ClaimNeeds) *View {
	if v == nil || len(needs.Unallocated) == 0 {
		return v
	}
	a := v.answer(needs)
	if a.refusal != "" {
		return v
	}
	if a.after == nil {
		a.after = v.with(a.allocations)
	}
	return a.after
}

// with is the View with more devices taken.
func (v *View) with(allocations []*facts.ClaimAllocation) *View {
	next := *v
	next.answers, next.local.taken = nil, slices.Clone(v.local.taken)
	for _, allocation := range allocations {
		next.local.taken = append(next.local.taken, allocation.Devices...)
	}
	return &next
}

// Room is how many pods with the needs the node can take one after the other, up to a maximum.
func (v *View) Room(needs *facts.ClaimNeeds, most int) (n int) {
	if needs == nil {
		return 0
	}
	if len(needs.Unallocated) == 0 || v == nil {
		return most
	}
	for n < most && v.answer(needs).refusal == "" {
		next := v.After(needs)
		if len(next.local.taken) == len(v.local.taken) {
			return most // it takes nothing
		}
		v, n = next, n+1
	}
	return n
}

// Allocate chooses devices for claims, or says why it cannot.
func (v *View) Allocate(needs *facts.ClaimNeeds) (allocations []*facts.ClaimAllocation, refusal string) {
	a := v.answer(needs)
	return a.allocations, a.refusal
}

func (v *View) answer(needs *facts.ClaimNeeds) *answer {
	for i := range v.answers {
		if v.answers[i].key == needs.Key {
			return &v.answers[i]
		}
	}
	if len(v.answers) >= maxAnswers {
		v.answers = v.answers[:0]
	}
	a := answer{key: needs.Key, refusal: "there is no allocator of devices"}
	if v.allocator != nil {
		a.allocations, a.refusal = v.allocator.Allocate(v.query(needs))
		for i := range a.allocations {
			a.worth += needs.Unallocated[i].Worth(a.allocations[i].Devices)
		}
	}
	v.answers = append(v.answers, a)
	return &v.answers[len(v.answers)-1]
}

func (v *View) query(needs *facts.ClaimNeeds) *Query {
	q := &Query{Node: v.node, Classes: v.classes, Claims: needs.Unallocated, Slices: v.local.slices, Taken: v.local.taken}
	if len(v.shared.slices) > 0 {
		q.Slices = slices.Concat(q.Slices, v.shared.slices)
		q.Taken = slices.Concat(q.Taken, v.shared.taken)
	}
	return q
}
