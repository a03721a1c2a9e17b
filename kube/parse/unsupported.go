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
	if len(s.ResourceClaims) > 0 {
		out = append(out, "spec.resourceClaims")
	}
	if s.SchedulingGroup != nil && s.SchedulingGroup.PodGroupName == nil { // a way of naming it that we do not know
		out = append(out, "spec.schedulingGroup")
	}
	for i := range s.Tolerations {
		if !toleranceKnown(&s.Tolerations[i]) {
			out = appendNew(out, "spec.tolerations[].operator or effect: "+string(s.Tolerations[i].Operator)+string(s.Tolerations[i].Effect))
		}
	}
	for i := range s.Volumes {
		if kind := constrainingVolume(&s.Volumes[i].VolumeSource); kind != "" {
			out = appendNew(out, "spec.volumes[]."+kind)
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

// constrainingVolume names the kind of a volume inside the pod's spec that binds the pod to some nodes (a zone, attach limits, exclusive use). It is empty for
// the kinds that every node can mount, and for claims: what these ask is found by what they are bound to.
func constrainingVolume(v *corev1.VolumeSource) string {
	switch {
	case v.GCEPersistentDisk != nil:
		return "gcePersistentDisk"
	case v.AWSElasticBlockStore != nil:
		return "awsElasticBlockStore"
	case v.AzureDisk != nil:
		return "azureDisk"
	case v.AzureFile != nil:
		return "azureFile"
	case v.Cinder != nil:
		return "cinder"
	case v.VsphereVolume != nil:
		return "vsphereVolume"
	case v.PortworxVolume != nil:
		return "portworxVolume"
	case v.ISCSI != nil:
		return "iscsi"
	case v.RBD != nil:
		return "rbd"
	}
	return ""
}
