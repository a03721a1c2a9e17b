package standin

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apiresource "k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/uuid"
	"sigs.k8s.io/yaml"
)

// TypicalPod is a Deployment's pod as the API server sends it: decoded, so that no two share memory.
func TypicalPod(tb testing.TB, i int) *corev1.Pod {
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
				Name: "c", Image: "registry.example.com/team/web:v1", Resources: corev1.ResourceRequirements{Requests: Resources("cpu", "250m", "memory", "512Mi")},
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

// TypicalNode is a node of a cloud, with as many images as a kubelet reports.
func TypicalNode(i int) *corev1.Node {
	node := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("node-", i), Labels: map[string]string{
			"kubernetes.io/hostname": fmt.Sprint("node-", i), "topology.kubernetes.io/zone": fmt.Sprint("zone-", i%3), "topology.kubernetes.io/region": "r",
			"kubernetes.io/arch": "amd64", "kubernetes.io/os": "linux", "node.kubernetes.io/instance-type": "m5.4xlarge", "rack": fmt.Sprint("rack-", i/20),
			"beta.kubernetes.io/arch": "amd64", "beta.kubernetes.io/os": "linux", "pool": "general",
		}},
		Status: corev1.NodeStatus{Allocatable: Resources("cpu", "16", "memory", "64Gi", "pods", "110", "ephemeral-storage", "100Gi", "hugepages-1Gi", "0", "hugepages-2Mi", "0")},
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

// Resources makes a ResourceList of names and amounts.
func Resources(pairs ...string) corev1.ResourceList {
	list := corev1.ResourceList{}
	for i := 0; i < len(pairs); i += 2 {
		list[corev1.ResourceName(pairs[i])] = apiresource.MustParse(pairs[i+1])
	}
	return list
}

// FromYAML reads an object.
func FromYAML(t testing.TB, text string) *unstructured.Unstructured {
	t.Helper()
	u := &unstructured.Unstructured{}
	if err := yaml.Unmarshal([]byte(text), &u.Object); err != nil {
		t.Fatal(err)
	}
	return u
}

// With returns a copy of an object with a field set.
func With(object *unstructured.Unstructured, value any, fields ...string) *unstructured.Unstructured {
	object = object.DeepCopy()
	if err := unstructured.SetNestedField(object.Object, value, fields...); err != nil {
		panic(err)
	}
	return object
}
