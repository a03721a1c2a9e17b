package doctest_test

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apiresource "k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/cmd/hilbertd/daemon/daemontest"
	. "hilbert.dev/hilbert/internal/doctest"
	"hilbert.dev/hilbert/kube/standin"
)

// leader is a hilbertd that leads a stand-in cluster, and how people reach it.
type leader struct {
	api      *standin.Server
	hilbertd *daemontest.Process
}

// startCluster starts a cluster that has all pods, gangs, queues and nodes that the commands of the pages name.
func startCluster(t *testing.T, pages []*Page) *leader {
	t.Helper()
	l := &leader{api: standin.New(t)}
	for resource, version := range map[string]string{
		"podgroups.scheduling.k8s.io": "v1beta1", "queues.scheduling.hilbert.dev": "v1alpha1",
		"reservations.scheduling.hilbert.dev": "v1alpha1", "priorityclasses.scheduling.k8s.io": "v1", "customnoderesources.node.hilbert.dev": "v1alpha1",
	} {
		l.api.Offer(resource, version)
	}
	l.set("scheduling.hilbert.dev/v1alpha1", "Queue", "", "research", map[string]any{"guaranteed": map[string]any{"cpu": "6"}})
	l.node("n1")
	for _, page := range pages {
		for _, block := range page.Blocks {
			commands, _ := block.Commands()
			for _, c := range commands {
				if c.Program() == "hilbert" {
					l.populate(c.Args())
				}
			}
		}
	}
	l.hilbertd = daemontest.Start(t, l.api)
	return l
}

// populate adds what one command names.
func (l *leader) populate(args []string) {
	for i, arg := range args[:max(0, len(args)-1)] {
		namespace, name, _ := strings.Cut(args[i+1], "/")
		switch {
		case arg == "--drain", arg == "node" && args[0] == "explain":
			l.node(args[i+1])
		case arg == "pod" && args[0] == "explain":
			l.pod(namespace, name, "")
		case arg == "unit" && args[0] == "explain":
			l.set("scheduling.k8s.io/v1beta1", "PodGroup", namespace, name,
				map[string]any{"schedulingPolicy": map[string]any{"gang": map[string]any{"minCount": int64(2)}}})
			for member := range 2 {
				l.pod(namespace, fmt.Sprintf("%s-%d", name, member), name)
			}
		case arg == "reservation" && args[0] == "explain":
			l.set("scheduling.hilbert.dev/v1alpha1", "Reservation", namespace, name, map[string]any{
				"count": int64(1), "template": map[string]any{"spec": map[string]any{"schedulerName": spec.DefaultSchedulerName, "containers": []any{map[string]any{"name": "main"}}}},
			})
		case arg == "queue" && !strings.HasPrefix(args[i+1], "-"):
			l.set("scheduling.hilbert.dev/v1alpha1", "Queue", "", args[i+1], map[string]any{})
		}
	}
}

func (l *leader) set(version, kind, namespace, name string, spec map[string]any) {
	u := &unstructured.Unstructured{Object: map[string]any{"apiVersion": version, "kind": kind, "spec": spec}}
	u.SetNamespace(namespace)
	u.SetName(name)
	u.SetUID(types.UID(kind + namespace + name))
	l.api.Set(u)
}

func (l *leader) node(name string) {
	l.api.SetNode(&corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"kubernetes.io/hostname": name}},
		Status: corev1.NodeStatus{Allocatable: corev1.ResourceList{
			"cpu": apiresource.MustParse("16"), "memory": apiresource.MustParse("64Gi"), "pods": apiresource.MustParse("110"),
		}},
	})
}

// pod adds a pod; one that is called huge fits nowhere.
func (l *leader) pod(namespace, name, gang string) {
	cpu := "100m"
	if name == "huge" {
		cpu = "500"
	}
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, UID: types.UID(namespace + name), CreationTimestamp: metav1.Unix(1_700_000_000, 0)},
		Spec: corev1.PodSpec{SchedulerName: spec.DefaultSchedulerName, Containers: []corev1.Container{{
			Name: "main", Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{"cpu": apiresource.MustParse(cpu)}},
		}}},
	}
	if gang != "" {
		p.Spec.SchedulingGroup = &corev1.PodSchedulingGroup{PodGroupName: &gang}
	}
	l.api.SetPod(p)
}
