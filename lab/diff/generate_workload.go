package diff

import (
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// upsertWorkload makes or changes something that selects pods.
func (g *generator) upsertWorkload() {
	if !g.chance(g.taste.defaults) {
		return
	}
	w := Workload{
		Kind:      pick(g, kindService, kindService, kindController, kindReplicaSet, kindReplicaSet, kindStatefulSet),
		Namespace: g.namespace(),
		Name:      g.name("w"),
	}
	if len(g.workloads) > 0 && g.chance(0.3) {
		w = pick(g, g.workloads...)
	} else {
		g.workloads = append(g.workloads, w)
	}
	meta := metav1.ObjectMeta{Namespace: w.Namespace, Name: w.Name}
	switch w.Kind {
	case kindService:
		g.do(Step{Service: &corev1.Service{ObjectMeta: meta, Spec: corev1.ServiceSpec{Selector: g.selecting()}}})
	case kindController:
		g.do(Step{Controller: &corev1.ReplicationController{ObjectMeta: meta, Spec: corev1.ReplicationControllerSpec{Selector: g.selecting()}}})
	case kindReplicaSet:
		g.do(Step{ReplicaSet: &appsv1.ReplicaSet{ObjectMeta: meta, Spec: appsv1.ReplicaSetSpec{Selector: g.labelSelector(podLabels)}}})
	case kindStatefulSet:
		g.do(Step{StatefulSet: &appsv1.StatefulSet{ObjectMeta: meta, Spec: appsv1.StatefulSetSpec{Selector: g.labelSelector(podLabels)}}})
	}
}

func (g *generator) removeWorkload() {
	if len(g.workloads) == 0 {
		return
	}
	i := g.IntN(len(g.workloads))
	w := g.workloads[i]
	g.do(Step{RemoveWorkload: &w})
	g.workloads = slices.Delete(g.workloads, i, i+1)
}
