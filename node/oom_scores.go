package node

import (
	"strconv"

	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/node/enforce"
	"hilbert.dev/hilbert/node/oom"
	"hilbert.dev/hilbert/node/pods"
	"hilbert.dev/hilbert/topology"
)

// oomScore is the oom_score_adj of a container (package oom); nil: it keeps what the kubelet gave it. Online containers get it as they are created, and never later:
// the agent may not lower it, and what it raised it could not give back when it is removed.
func (n *nodeState) oomScore(c *pods.Container) *int {
	asked, pool, known := n.Manager.Pod(c.Pod.Ref.UID)
	total := n.memoryTotal()
	if !known || total == 0 {
		return nil
	}
	of := oom.Container{Level: pods.LevelOf(&asked, pool), Priority: c.Pod.Priority}
	switch {
	case of.Level == spec.QoSReclaimed:
		of.Requested = thousandths(asked.Reclaimed.MemoryMiB*topology.Mebibyte, total)
	case c.Score == nil || n.options.Config.Memory.OOM.Order != spec.OOMLevels:
		return nil
	default:
		of.Kubelet, of.Requested = *c.Score, requestedShare(c, total)
	}
	return new(oom.Score(&of))
}

// requestedShare is what a container requested of the node's memory, in thousandths.
func requestedShare(c *pods.Container, total int64) int {
	switch {
	case *c.Score <= guaranteedScore:
		return thousandths(c.MemoryLimit, total)
	case *c.Score >= mostScore:
		return 0
	}
	return oom.Thousandths - *c.Score
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
func (n *nodeState) oomKnobs(p *pods.Pod) (out []enforce.DesiredKnob) {
	for _, id := range sortedKeys(p.Containers) {
		c := p.Containers[id]
		if score := n.oomScore(c); score != nil && c.Cgroup != "" {
			out = append(out, enforce.Desire(c.Cgroup, enforce.OOMScoreAdj, strconv.Itoa(*score)))
		}
	}
	return out
}
