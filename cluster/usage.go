package cluster

import (
	"hilbert.dev/hilbert/cluster/changes"
	"hilbert.dev/hilbert/cluster/facts"
	"hilbert.dev/hilbert/resource"
)

// What a node uses is measured by its agent, on average and a while ago. Pods that have come since are not in the measure, and would all be sent to the
// node that was idle then. So they count with what they request until a report covers them:
//
//	load = measured use + requests of the pods that it does not cover
//
// Without a measure that is what all pods request. When a pod leaves that the measure covers, the load stays until the next report.

// amounts is CPU in millicores and memory in bytes, as scores count them.
type amounts struct{ cpu, memory int64 }

// Load returns what the node's pods will use, as far as that is known: CPU in millicores and memory in bytes. It is what LoadAware scores.
func (s *State) Load(slot Slot) (cpu, memory int64) {
	cpu, memory = s.ScoreRequested(slot)
	if row := s.rows[slot]; row != nil && row.report != nil && row.report.Usage.Known() {
		u := &row.report.Usage
		cpu = resource.Add(bounded(u.MilliCPU), max(cpu-row.covered.cpu, 0))
		memory = resource.Add(bounded(u.Memory), max(memory-row.covered.memory, 0))
	}
	return cpu, memory
}

// covers reports whether what the slot's node uses includes what a pod uses that is on it.
func (s *Store) covers(slot Slot, pod *Pod) bool {
	r := s.Report(slot)
	return r != nil && r.Usage.Covers(pod.Started)
}

// recountCovered counts anew what the pods request that the slot's measured use covers.
func (s *Store) recountCovered(slot Slot) {
	if row := s.rows[slot]; row != nil {
		row.covered = s.coveredOn(slot)
	}
}

func (s *Store) coveredOn(slot Slot) (sum amounts) {
	r := s.Report(slot)
	if r == nil || !r.Usage.Known() {
		return sum
	}
	for _, pod := range s.pods.onSlot[slot] {
		if r.Usage.Covers(pod.Started) {
			sum.cpu, sum.memory = resource.Add(sum.cpu, max(pod.Class.ScoreCPU, 0)), resource.Add(sum.memory, max(pod.Class.ScoreMemory, 0))
		}
	}
	return sum
}

// measureAgain takes note that a pod of the slot has started, or started at another time than was known.
func (s *Store) measureAgain(slot Slot) {
	row := s.rows[slot]
	if row == nil {
		return
	}
	before := row.covered
	if s.recountCovered(slot); row.covered != before {
		s.note(slot, changes.Measured)
	}
}

// measured takes note of what a report says that the node uses.
func (s *Store) measured(slot Slot, said *facts.NodeReport, before amounts) (changed changes.Kind) {
	var was, is facts.Usage
	if said != nil {
		was = said.Usage
	}
	if r := s.Report(slot); r != nil {
		is = r.Usage
	}
	s.recountCovered(slot)
	if was.Known() != is.Known() || was.MilliCPU != is.MilliCPU || was.Memory != is.Memory || before != s.rows[slot].covered {
		return changes.Measured
	}
	return 0
}
