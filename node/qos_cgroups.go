package node

import (
	"path"

	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/node/enforce"
)

// qosKnobs are the CPUs of the kubelet's cgroups of Burstable and of BestEffort pods: all but those that pods outside of such a cgroup have for themselves.
// The pods in them have cpusets of their own, which lie within. The cgroups' hold a pod that starts while neither the agent nor its watchdog is there: with no
// cpuset it would run on all CPUs.
//
// For example, a Guaranteed pod holds CPUs 4-5 of eight. Both classes have 0-3,6-7. If a Burstable pod holds 4-5 instead, the class of Burstable pods has all,
// and its other pods are held by their own cpusets alone.
func (n *nodeState) qosKnobs() (out []enforce.DesiredKnob) {
	if n.options.Mode != spec.ModeAgent {
		return nil
	}
	shareable := n.Manager.Shareable()
	for _, class := range n.Pods.QoSClasses() {
		cpus := shareable
		for _, p := range n.Pods.All() {
			if place, ok := n.Placement(p); ok && path.Dir(p.Cgroup) == class {
				cpus = cpus.Union(place.CPUs)
			}
		}
		if cpus.IsEmpty() { // all are held, and a process has to run somewhere
			cpus = n.options.Machine.AllCPUs()
		}
		out = append(out, enforce.Desire(class, enforce.CPUSet, cpus.String()))
	}
	return out
}
