package kube

import (
	"fmt"
	"runtime"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/uuid"

	"hilbert.dev/hilbert/cluster"
	"hilbert.dev/hilbert/cluster/facts"
)

// typicalPod is a Deployment's pod as the API server sends it: decoded, so that no two share memory.
func typicalPod(tb testing.TB, i int) *corev1.Pod {
	tb.Helper()
	controls := true
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: fmt.Sprint("team-", i%50), Name: fmt.Sprintf("web-%d-6d4cf56db6-%05d", i%500, i), UID: uuid.NewUUID(),
			Labels:            map[string]string{"app": fmt.Sprint("web-", i%500), "pod-template-hash": "6d4cf56db6"},
			CreationTimestamp: metav1.Unix(int64(1_700_000_000+i), 0),
			OwnerReferences: []metav1.OwnerReference{{
				APIVersion: "apps/v1", Kind: "ReplicaSet", Name: fmt.Sprintf("web-%d-6d4cf56db6", i%500), UID: "x", Controller: &controls,
			}},
		},
		Spec: corev1.PodSpec{
			SchedulerName: "hilbert", NodeName: fmt.Sprint("node-", i%1000), ServiceAccountName: "default",
			Containers: []corev1.Container{{
				Name: "c", Image: "registry.example.com/team/web:v1", Resources: corev1.ResourceRequirements{Requests: list("cpu", "250m", "memory", "512Mi")},
			}},
			Tolerations: []corev1.Toleration{
				{Key: "node.kubernetes.io/not-ready", Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute},
				{Key: "node.kubernetes.io/unreachable", Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute},
			},
		},
		Status: corev1.PodStatus{Phase: corev1.PodRunning},
	}
	data, err := pod.Marshal()
	if err != nil {
		tb.Fatal(err)
	}
	decoded := &corev1.Pod{}
	if err := decoded.Unmarshal(data); err != nil {
		tb.Fatal(err)
	}
	return decoded
}

func typicalNode(i int) *corev1.Node {
	node := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("node-", i), Labels: map[string]string{
			"kubernetes.io/hostname": fmt.Sprint("node-", i), "topology.kubernetes.io/zone": fmt.Sprint("zone-", i%3), "topology.kubernetes.io/region": "r",
			"kubernetes.io/arch": "amd64", "kubernetes.io/os": "linux", "node.kubernetes.io/instance-type": "m5.4xlarge", "rack": fmt.Sprint("rack-", i/20),
			"beta.kubernetes.io/arch": "amd64", "beta.kubernetes.io/os": "linux", "pool": "general",
		}},
		Status: corev1.NodeStatus{Allocatable: list("cpu", "16", "memory", "64Gi", "pods", "110", "ephemeral-storage", "100Gi", "hugepages-1Gi", "0", "hugepages-2Mi", "0")},
	}
	for image := range 50 { // as many as a kubelet reports
		name := fmt.Sprintf("registry.example.com/team-%d/image-%d", image%7, image)
		node.Status.Images = append(node.Status.Images, corev1.ContainerImage{
			Names:     []string{fmt.Sprintf("%s@sha256:%064d", name, image), name + ":v1"},
			SizeBytes: int64(image) << 20,
		})
	}
	return node
}

// heap is the live heap, in bytes.
func heap() float64 {
	for range 3 {
		runtime.GC()
	}
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return float64(m.HeapAlloc)
}

// drain applies what waits in the channel to the ledger.
func drain(store *cluster.Store, events chan facts.Event) {
	for {
		select {
		case event := <-events:
			store.Apply(event)
		default:
			return
		}
	}
}

// BenchmarkMemory measures what a known node and a known pod cost, door and ledger together:
//
//	go test ./kube -run '^$' -bench Memory -benchtime 1x
func BenchmarkMemory(b *testing.B) {
	const nodes, pods = 10_000, 200_000
	for b.Loop() {
		events := make(chan facts.Event, 1)
		out := outlet{b.Context(), events}
		store := cluster.NewStore()
		nodeSink := mirrorNodes(out, NewParser("hilbert", nil))
		podSink := &podSink{out: out, parser: NewParser("hilbert", nil), seen: newFingerprints()}
		before := heap()
		for i := range nodes {
			if err := nodeSink.Add(typicalNode(i)); err != nil {
				b.Fatal(err)
			}
			drain(store, events)
		}
		withNodes := heap()
		for i := range pods {
			if err := podSink.Add(typicalPod(b, i)); err != nil {
				b.Fatal(err)
			}
			drain(store, events)
		}
		withPods := heap()
		b.ReportMetric((withNodes-before)/nodes, "bytes/node")
		b.ReportMetric((withPods-withNodes)/pods, "bytes/pod")
		runtime.KeepAlive(nodeSink)
		runtime.KeepAlive(podSink)
		runtime.KeepAlive(store)
	}
}

// A known pod costs the door no pointer and little memory, whatever its object looks like.
func TestDoorForgetsThePod(t *testing.T) {
	events := make(chan facts.Event, 1)
	sink := &podSink{out: outlet{t.Context(), events}, parser: NewParser("hilbert", nil), seen: newFingerprints()}
	const pods = 2000
	for i := range pods {
		if err := sink.Add(typicalPod(t, i)); err != nil {
			t.Fatal(err)
		}
		<-events
	}
	if len(sink.seen.known) != pods || len(sink.parser.memo.known) != 1 {
		t.Errorf("%d fingerprints, %d Requirements", len(sink.seen.known), len(sink.parser.memo.known))
	}
	if n := len(sink.parser.strings.seen); n > 2200 {
		t.Errorf("%d strings are remembered, of 50 namespaces, 1000 nodes, and 500 Deployments with a label and a ReplicaSet each", n)
	}
	if n := len(sink.parser.labelSets.known); n != 500 {
		t.Errorf("%d sets of labels are remembered, of 500 Deployments", n)
	}
	for i := range 2 {
		pod := typicalPod(t, i)
		pod.UID = types.UID(fmt.Sprint("known-", i))
		_ = sink.Add(pod)
		<-events
		_ = sink.Delete(pod)
		<-events
	}
	if len(sink.seen.known) != pods {
		t.Errorf("%d fingerprints after two came and went", len(sink.seen.known))
	}
}

func BenchmarkParse(b *testing.B) {
	b.Run("pod", func(b *testing.B) {
		p, pod := NewParser("hilbert", nil), typicalPod(b, 1)
		b.ReportAllocs()
		for b.Loop() {
			p.Pod(pod)
		}
	})
	b.Run("pod of a new class", func(b *testing.B) {
		p, pod := NewParser("hilbert", nil), typicalPod(b, 1)
		b.ReportAllocs()
		for b.Loop() {
			p.memo.known = nil
			p.Pod(pod)
		}
	})
	b.Run("update that changes nothing", func(b *testing.B) {
		events := make(chan facts.Event, 1)
		sink := &podSink{out: outlet{b.Context(), events}, parser: NewParser("hilbert", nil), seen: newFingerprints()}
		pod := typicalPod(b, 1)
		_ = sink.Add(pod)
		b.ReportAllocs()
		for b.Loop() {
			_ = sink.Update(pod)
		}
	})
	b.Run("node", func(b *testing.B) {
		p, node := NewParser("hilbert", nil), typicalNode(1)
		b.ReportAllocs()
		for b.Loop() {
			p.Node(node)
		}
	})
}
