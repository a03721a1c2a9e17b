package diff

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	schedutil "k8s.io/kubernetes/pkg/scheduler/util"
)

// apply takes a step in, as upstream's event handlers would. A judgement is not a change and not for apply.
func (u *upstream) apply(s *Step) error {
	log := klog.Logger{}
	switch {
	case s.Node != nil:
		u.upsertNode(s.Node)
	case s.RemoveNode != "":
		if node := u.nodes[s.RemoveNode]; node != nil {
			delete(u.nodes, s.RemoveNode)
			u.imagesMoved = u.imagesMoved || len(node.Status.Images) > 0
			return u.cache.RemoveNode(log, node)
		}
	case s.Pod != nil:
		return u.upsertPod(s.Pod)
	case s.RemovePod != "":
		return u.removePod(s.RemovePod)
	case s.Namespace != nil:
		return u.stores.namespaces.Add(s.Namespace)
	case s.RemoveNamespace != "":
		return u.stores.namespaces.Delete(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: s.RemoveNamespace}})
	case s.Service != nil:
		return u.stores.services.Add(s.Service)
	case s.Controller != nil:
		return u.stores.controllers.Add(s.Controller)
	case s.ReplicaSet != nil:
		return u.stores.replicaSets.Add(s.ReplicaSet)
	case s.StatefulSet != nil:
		return u.stores.statefulSets.Add(s.StatefulSet)
	case s.Budget != nil:
		return u.stores.budgets.Add(s.Budget)
	case s.RemoveBudget != "":
		namespace, name, _ := strings.Cut(s.RemoveBudget, "/")
		return u.stores.budgets.Delete(&metav1.ObjectMeta{Namespace: namespace, Name: name})
	case s.RemoveWorkload != nil:
		return u.removeWorkload(s.RemoveWorkload)
	case s.Release != "":
		return u.removePod(s.Release)
	}
	return nil
}

// commit puts a pod that waits on a node, as upstream's cache assumes it.
func (u *upstream) commit(pod *corev1.Pod, node string) error {
	bound := *pod
	bound.Spec.NodeName = node
	return u.upsertPod(&bound)
}

func (u *upstream) upsertNode(node *corev1.Node) {
	old := u.nodes[node.Name]
	u.nodes[node.Name] = node
	if old == nil {
		u.imagesMoved = u.imagesMoved || len(node.Status.Images) > 0
		u.cache.AddNode(klog.Logger{}, node)
		return
	}
	u.imagesMoved = u.imagesMoved || !slices.EqualFunc(old.Status.Images, node.Status.Images, func(a, b corev1.ContainerImage) bool {
		return a.SizeBytes == b.SizeBytes && slices.Equal(a.Names, b.Names)
	})
	u.cache.UpdateNode(klog.Logger{}, old, node)
}

// upsertPod takes in a bound pod. The informer of kube-scheduler leaves finished pods out, which looks like their removal.
func (u *upstream) upsertPod(pod *corev1.Pod) error {
	uid := string(pod.UID)
	if pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed {
		return u.removePod(uid)
	}
	old := u.pods[uid]
	switch {
	case pod.Spec.NodeName == "":
		return nil // it waits; the cache knows bound pods only
	case old == nil:
		u.pods[uid] = pod
		return u.cache.AddPod(klog.Logger{}, pod)
	case old.Spec.NodeName != pod.Spec.NodeName:
		return nil // a bound pod does not move
	}
	u.pods[uid] = pod
	if err := u.cache.UpdatePod(klog.Logger{}, old, pod); err != nil {
		return err
	}
	return u.retakePorts(old)
}

func (u *upstream) removePod(uid string) error {
	pod := u.pods[uid]
	if pod == nil {
		return nil
	}
	delete(u.pods, uid)
	if err := u.cache.RemovePod(klog.Logger{}, pod); err != nil {
		return err
	}
	return u.retakePorts(pod)
}

// retakePorts makes the pods on a node take their host ports again after one of them went. Upstream keeps a set of them, so that of two
// pods with one port, which only a foreign binder puts on one node, the first to go takes it along; a scheduler that has just started
// would see it taken.
func (u *upstream) retakePorts(gone *corev1.Pod) error {
	if len(schedutil.GetHostPorts(gone)) == 0 {
		return nil
	}
	for _, pod := range u.pods {
		if pod.Spec.NodeName != gone.Spec.NodeName || len(schedutil.GetHostPorts(pod)) == 0 {
			continue
		}
		if err := u.cache.UpdatePod(klog.Logger{}, pod, pod); err != nil {
			return err
		}
	}
	return nil
}

func (u *upstream) removeWorkload(w *Workload) error {
	indexer := map[string]cache.Indexer{
		kindService: u.stores.services, kindController: u.stores.controllers,
		kindReplicaSet: u.stores.replicaSets, kindStatefulSet: u.stores.statefulSets,
	}[w.Kind]
	if indexer == nil {
		return fmt.Errorf("remove a workload: no kind is called %q", w.Kind)
	}
	// The indexers key every object by its namespace and name, so any type of object will do.
	return indexer.Delete(&metav1.ObjectMeta{Namespace: w.Namespace, Name: w.Name})
}

// The kinds that a Workload may have.
const (
	kindService     = "Service"
	kindController  = "ReplicationController"
	kindReplicaSet  = "ReplicaSet"
	kindStatefulSet = "StatefulSet"
)
