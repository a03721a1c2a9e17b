package cluster

import (
	"fmt"

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

// usageBook keeps, in the rows of the columns, what those pods request that their node's measured use covers. Of a slot with a row, covered is always the sum over the pods
// there that had started when the report was made.
type usageBook struct {
	state *State
	pods  *podTable
}

// covers reports whether what the slot's node uses includes what a pod uses that is on it.
func (u *usageBook) covers(slot Slot, pod *Pod) bool {
	r := u.state.Report(slot)
	return r != nil && r.Usage.Covers(pod.Started)
}

// recount counts anew what the pods request that the slot's measured use covers.
func (u *usageBook) recount(slot Slot) {
	if row := u.state.rows[slot]; row != nil {
		row.covered = u.coveredOn(slot)
	}
}

// coveredOn is what they request.
func (u *usageBook) coveredOn(slot Slot) (sum amounts) {
	r := u.state.Report(slot)
	if r == nil || !r.Usage.Known() {
		return sum
	}
	for _, pod := range u.pods.onSlot[slot] {
		if r.Usage.Covers(pod.Started) {
			sum.cpu, sum.memory = resource.Add(sum.cpu, max(pod.Class.ScoreCPU, 0)), resource.Add(sum.memory, max(pod.Class.ScoreMemory, 0))
		}
	}
	return sum
}

// started takes note that a pod of the slot has started, or started at another time than was known.
func (u *usageBook) started(slot Slot) {
	row := u.state.rows[slot]
	if row == nil {
		return
	}
	before := row.covered
	if u.recount(slot); row.covered != before {
		u.state.note(slot, changes.Measured)
	}
}

// reported takes note of what a report says that the node uses.
func (u *usageBook) reported(slot Slot, said *facts.NodeReport, before amounts) (changed changes.Kind) {
	var was, is facts.Usage
	if said != nil {
		was = said.Usage
	}
	if r := u.state.Report(slot); r != nil {
		is = r.Usage
	}
	u.recount(slot)
	if was.Known() != is.Known() || was.MilliCPU != is.MilliCPU || was.Memory != is.Memory || before != u.state.rows[slot].covered {
		return changes.Measured
	}
	return 0
}

// verify counts anew what the measured use of a slot covers.
func (u *usageBook) verify(slot Slot) error {
	if row := u.state.rows[slot]; row != nil && row.covered != u.coveredOn(slot) {
		return fmt.Errorf("the measured use covers requests of %+v; of the pods there it covers %+v", row.covered, u.coveredOn(slot))
	}
	return nil
}
