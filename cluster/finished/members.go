// Package finished keeps what two watches of pods say in one order.
//
// The pods that have not finished are one watch, and those that have are another: a field selector tells them apart. A pod that finishes leaves the first,
// which calls it deleted, and enters the second. The two come in any order. That a pod has finished is final, so whatever the first watch says of it later
// is older, and a door drops it:
//
//	first: b runs    second: b finished    first: b gone        told: b runs, b has finished
//	first: b runs    first: b gone         second: b finished   told: b runs, b is gone, b has finished
//
// Both doors, that to the API server and that to the simulator, ask Members. It is not safe for concurrent use, and it keeps UIDs only.
package finished

import "hilbert.dev/hilbert/cluster/facts"

// Members are the finished members of units.
type Members struct {
	known map[facts.UID]bool // false: it is deleted, and the first watch still has to see that it is gone
	runs  func(facts.UID) bool
}

// New returns none. runs reports whether the watch of the pods that have not finished knows a pod.
func New(runs func(facts.UID) bool) *Members {
	return &Members{known: make(map[facts.UID]bool), runs: runs}
}

// Overtaken reports whether what the first watch says of a pod is older than what the second has said.
func (m *Members) Overtaken(uid facts.UID) bool {
	_, known := m.known[uid]
	return known
}

// Len is how many are remembered.
func (m *Members) Len() int { return len(m.known) }

// Add takes in a member that has finished, and reports whether that is news.
func (m *Members) Add(uid facts.UID) bool {
	if m.Overtaken(uid) {
		return false
	}
	m.known[uid] = true
	return true
}

// Remove takes in that a finished pod is deleted, and reports whether it was a member.
func (m *Members) Remove(uid facts.UID) bool {
	if !m.known[uid] {
		return false
	}
	m.known[uid] = false
	m.Gone(uid)
	return true
}

// Gone takes in that the first watch has nothing more to say of a pod, and reports whether that was overtaken.
func (m *Members) Gone(uid facts.UID) bool {
	there, known := m.known[uid]
	if known && !there && !m.runs(uid) {
		delete(m.known, uid)
	}
	return known
}

// Listed takes in the whole list of the first watch.
func (m *Members) Listed() {
	for uid := range m.known {
		m.Gone(uid)
	}
}

// Replace takes in the whole list of the second watch.
func (m *Members) Replace(list []facts.Pod) {
	before := m.known
	m.known = make(map[facts.UID]bool, len(list))
	for i := range list {
		m.known[list[i].UID] = true
	}
	for uid := range before {
		if !m.known[uid] && m.runs(uid) {
			m.known[uid] = false
		}
	}
}
