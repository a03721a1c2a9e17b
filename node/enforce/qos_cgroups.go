package enforce

import (
	"path"
	"strings"
)

// kubepods is the kubelet's cgroup of all pods, by either cgroup driver the end of its name.
const kubepods = "kubepods"

const sliceSuffix = ".slice"

// classNames are the kubelet's QoS classes that have a cgroup of their own. Guaranteed pods lie directly in the cgroup of all pods.
var classNames = []string{"burstable", "besteffort"}

// QoSCgroups lists the kubelet's cgroups of Burstable and of BestEffort pods on a node where a pod has the given cgroup; nil: the kubelet divides its pods in
// another way, or the cgroup is no pod's.
//
//	kubepods/pod1                                                           → kubepods/burstable, kubepods/besteffort
//	kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod1.slice   → kubepods.slice/kubepods-burstable.slice, kubepods.slice/kubepods-besteffort.slice
func QoSCgroups(pod string) []string {
	above := path.Dir(pod)
	for _, class := range append([]string{""}, classNames...) {
		top, ok := topOf(above, class)
		if !ok {
			continue
		}
		out := make([]string, 0, len(classNames))
		for _, name := range classNames {
			out = append(out, path.Join(top, classBase(top, name)))
		}
		return out
	}
	return nil
}

// topOf is the cgroup of all pods, if a cgroup is the one of a class; the class "" is that cgroup itself.
func topOf(cgroup, class string) (top string, ok bool) {
	if top = cgroup; class != "" {
		if top = path.Dir(cgroup); path.Base(cgroup) != classBase(top, class) {
			return "", false
		}
	}
	name, systemd := strings.CutSuffix(path.Base(top), sliceSuffix)
	return top, name == kubepods || systemd && strings.HasSuffix(name, "-"+kubepods)
}

// classBase is what the kubelet calls a class's cgroup in that of all pods: systemd wants a slice to have the name of the one above it too.
func classBase(top, class string) string {
	if name, systemd := strings.CutSuffix(path.Base(top), sliceSuffix); systemd {
		return name + "-" + class + sliceSuffix
	}
	return class
}
