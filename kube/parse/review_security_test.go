package parse

import (
	"fmt"
	"os"
	"runtime"
	"strconv"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"hilbert.dev/hilbert/cluster"
	"hilbert.dev/hilbert/cluster/facts"
)

func secPod(name, sched string, req corev1.ResourceList) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "evil", Name: name, UID: types.UID(name)},
		Spec: corev1.PodSpec{SchedulerName: sched, Containers: []corev1.Container{{Name: "c", Resources: corev1.ResourceRequirements{Requests: req}}}}}
}

func TestSecKinds(t *testing.T) {
	t.Skip("issue 15: A scheduler that no cluster can surprise")
	p := NewParser("hilbert", nil)
	s := cluster.NewStore()
	evil := corev1.ResourceList{}
	for i := range 600 {
		evil[corev1.ResourceName(fmt.Sprintf("evil.example/r%d", i))] = resource.MustParse("1")
	}
	e := s.Apply(facts.PodUpserted{Pod: p.Pod(secPod("evil", "hilbert", evil))})
	for _, x := range e {
		t.Logf("evil: %+v", x)
	}
	s.Apply(facts.PodRemoved{UID: "evil"})
	good := secPod("good", "hilbert", corev1.ResourceList{"hugepages-2Mi": resource.MustParse("4Mi")})
	f := p.Pod(good)
	for _, x := range s.Apply(facts.PodUpserted{Pod: f}) {
		t.Logf("good: kind=%v", x.Kind)
	}
	if pod := s.Pod("good"); pod != nil {
		t.Logf("good impossible=%q phase=%v", pod.Class.Impossible, pod.Phase)
	}
}

func TestSecCensus(t *testing.T) {
	t.Skip("issue 15: A scheduler that no cluster can surprise")
	nodes, _ := strconv.Atoi(os.Getenv("SEC_NODES"))
	pods, _ := strconv.Atoi(os.Getenv("SEC_PODS"))
	if nodes == 0 {
		nodes = 2000
	}
	if pods == 0 {
		pods = 1000
	}
	p := NewParser("hilbert", nil)
	s := cluster.NewStore()
	for i := range nodes {
		n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("n%d", i), Labels: map[string]string{"kubernetes.io/hostname": fmt.Sprintf("n%d", i), "zone": fmt.Sprint(i % 3)}},
			Status: corev1.NodeStatus{Allocatable: corev1.ResourceList{"cpu": resource.MustParse("64"), "memory": resource.MustParse("256Gi"), "pods": resource.MustParse("110")}}}
		s.Apply(facts.NodeUpserted{Node: p.Node(n)})
	}
	runtime.GC()
	var a, b runtime.MemStats
	runtime.ReadMemStats(&a)
	begin := time.Now()
	terms, _ := strconv.Atoi(os.Getenv("SEC_TERMS"))
	if terms == 0 {
		terms = 4
	}
	for i := range pods {
		pod := secPod(fmt.Sprintf("p%d", i), "hilbert", corev1.ResourceList{"cpu": resource.MustParse("1m")})
		var list []corev1.PodAffinityTerm
		for j := range terms {
			list = append(list, corev1.PodAffinityTerm{TopologyKey: "kubernetes.io/hostname", LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"x": fmt.Sprintf("%d-%d", i, j)}}})
		}
		pod.Spec.Affinity = &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: list}}
		f := p.Pod(pod)
		s.Apply(facts.PodUpserted{Pod: f})
	}
	took := time.Since(begin)
	runtime.GC()
	runtime.ReadMemStats(&b)
	t.Logf("nodes %d pods %d terms %d: %v, heap +%d MiB, %.1f KiB/pod, %v/pod", nodes, pods, terms, took, (b.HeapAlloc-a.HeapAlloc)>>20, float64(b.HeapAlloc-a.HeapAlloc)/float64(pods)/1024, took/time.Duration(pods))
	begin = time.Now()
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n0", Labels: map[string]string{"kubernetes.io/hostname": "n0", "zone": "9"}},
		Status: corev1.NodeStatus{Allocatable: corev1.ResourceList{"cpu": resource.MustParse("63"), "memory": resource.MustParse("256Gi"), "pods": resource.MustParse("110")}}}
	s.Apply(facts.NodeUpserted{Node: p.Node(n)})
	t.Logf("one node update: %v", time.Since(begin))
	runtime.KeepAlive(s)
}
