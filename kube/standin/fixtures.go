package standin

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// The optional APIs' resources, for Offer, Set and Stored.
const (
	PodGroups     = "podgroups.scheduling.k8s.io"
	SigsPodGroups = "podgroups.scheduling.x-k8s.io"
	Queues        = "queues.scheduling.hilbert.dev"
	NodeReports   = "customnoderesources.node.hilbert.dev"
)

// One object of each that tests of several packages set, for FromYAML.
const (
	PodGroupText     = `{apiVersion: scheduling.k8s.io/v1beta1, kind: PodGroup, metadata: {namespace: ml, name: g, uid: u}, spec: {schedulingPolicy: {gang: {minCount: 3}}}}`
	SigsPodGroupText = `{apiVersion: scheduling.x-k8s.io/v1alpha1, kind: PodGroup, metadata: {namespace: ml, name: g, uid: s}, spec: {minMember: 3}}`
	QueueText        = `{apiVersion: scheduling.hilbert.dev/v1alpha1, kind: Queue, metadata: {name: q, uid: u}, spec: {weight: 2}}`
)

// Pod is a pod of Hilbert that asks for a CPU, on a node or, where that is empty, on none.
func Pod(name, node string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: types.UID("uid-" + name)},
		Spec: corev1.PodSpec{SchedulerName: "hilbert", NodeName: node, Containers: []corev1.Container{{
			Name: "c", Resources: corev1.ResourceRequirements{Requests: Resources("cpu", "1")},
		}}},
	}
}
