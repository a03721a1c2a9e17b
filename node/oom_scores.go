package node

import (
	"strconv"

	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/node/allocate"
	"hilbert.dev/hilbert/node/enforce"
	"hilbert.dev/hilbert/node/oom"
	"hilbert.dev/hilbert/topology"
)

// oomScore is the oom_score_adj of a container (package oom); nil: it keeps what the kubelet gave it. Online containers get it as they are created, and never later:
// the agent may not lower it, and what it raised it could not give back when it is removed.
func (n *nodeState) oomScore(c *container) *int {
	asked, pool, known := n.manager.Pod(c.pod.name.UID)
	total := n.memoryTotal()
	if !known || total == 0 {
		return nil
	}
	of := oom.Container{Level: levelOf(&asked, pool), Priority: c.pod.priority}
	switch {
	case of.Level == spec.QoSReclaimed:
		of.Requested = thousandths(asked.Reclaimed.MemoryMiB*topology.Mebibyte, total)
	case c.score == nil || n.options.Config.Memory.OOM.Order != spec.OOMLevels:
		return nil
	default:
		of.Kubelet, of.Requested = *c.score, requestedShare(c, total)
	}
	return new(oom.Score(&of))
}

// requestedShare is what a container requested of the node's memory, in thousandths.
func requestedShare(c *container, total int64) int {
	switch {
	case *c.score <= guaranteedScore:
		return thousandths(c.memoryLimit, total)
	case *c.score >= mostScore:
		return 0
	}
	return oom.Thousandths - *c.score
}

func thousandths(bytes, total int64) int {
	return int(float64(bytes) / float64(total) * oom.Thousandths)
}

// memoryTotal is the machine's memory in bytes; 0: not known.
func (n *nodeState) memoryTotal() (sum int64) {
	for i := range n.options.Machine.NUMA {
		sum += n.options.Machine.NUMA[i].Memory
	}
	return sum
}

// oomKnobs keep the scores of a reclaimed pod's containers from being lower: one that was created while the agent was away has what the kubelet gave it.
func (n *nodeState) oomKnobs(p *pod) (out []enforce.DesiredKnob) {
	for _, id := range sortedKeys(p.containers) {
		c := p.containers[id]
		if score := n.oomScore(c); score != nil && c.cgroup != "" {
			out = append(out, enforce.Desire(c.cgroup, enforce.OOMScoreAdj, strconv.Itoa(*score)))
		}
	}
	return out
}

// levelOf is the level that a pod is treated as: a reclaimed one that runs in no reclaimed pool was not treated as it asked, so it does not go as it asked either.
func levelOf(asked *allocate.Pod, pool string) spec.QoSLevel {
	if asked.QoS.Level == spec.QoSReclaimed && pool != spec.PoolReclaimed {
		return spec.QoSShared
	}
	return asked.QoS.Level
}

// priorityOf reads what the Binding says of a pod's priority; nil: nothing that can be read.
func priorityOf(annotations map[string]string) *int32 {
	n, err := strconv.ParseInt(annotations[spec.AnnotationPriority], 10, 32)
	if err != nil {
		return nil
	}
	return new(int32(n))
}

// priorityOrZero is the priority for orders in which a pod must have some place.
func (p *pod) priorityOrZero() int32 {
	if p.priority == nil {
		return 0
	}
	return *p.priority
}
