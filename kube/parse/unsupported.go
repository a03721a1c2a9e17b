package parse

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
)

// unsupported names, by their path in the pod, the constraints on placement that Hilbert cannot honour yet. nil for nearly every pod.
func unsupported(pod *corev1.Pod) []string {
	var out []string
	s := &pod.Spec
	for i := range s.TopologySpreadConstraints {
		if when := s.TopologySpreadConstraints[i].WhenUnsatisfiable; when != corev1.DoNotSchedule && when != corev1.ScheduleAnyway {
			out = appendNew(out, "spec.topologySpreadConstraints[].whenUnsatisfiable: "+string(when))
		}
	}
	if s.SchedulingGroup != nil && s.SchedulingGroup.PodGroupName == nil { // a way of naming it that we do not know
		out = append(out, "spec.schedulingGroup")
	}
	for i := range s.Tolerations {
		if !toleranceKnown(&s.Tolerations[i]) {
			out = appendNew(out, "spec.tolerations[].operator or effect: "+string(s.Tolerations[i].Operator)+string(s.Tolerations[i].Effect))
		}
	}
	return out
}

// appendNew appends unless it is there: a pod may have many volumes of a kind.
func appendNew(list []string, s string) []string {
	if slices.Contains(list, s) {
		return list
	}
	return append(list, s)
}
