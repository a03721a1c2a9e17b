package process

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	vpav1 "k8s.io/autoscaler/vertical-pod-autoscaler/pkg/apis/autoscaling.k8s.io/v1"

	"hilbert.dev/hilbert/api/spec"
)

// TestNewPods: the API server itself gives new pods what the status of their VerticalPodAutoscaler says, without VPA's admission controller, and leaves all others as they were written.
func TestNewPods(t *testing.T) {
	c := newCluster(t)
	c.installAutoscalers()
	for name, mode := range map[string]string{"web": "Initial", "shown": "Off"} {
		c.autoscaler(name, func(v *vpav1.VerticalPodAutoscaler) {
			v.Annotations = map[string]string{spec.AnnotationRecommendationMode: mode}
		})
		status := map[string]any{"status": map[string]any{"recommendation": map[string]any{"containerRecommendations": []any{
			map[string]any{"containerName": "app", "target": map[string]any{"cpu": "563m", "memory": "750Mi"}},
		}}}}
		c.must(c.send("PATCH", vpaPath+"/namespaces/"+namespace+"/verticalpodautoscalers/"+name+"/status", status, nil))
	}
	c.must(c.plane.InstallAccess(t.Context(), controllerManifests+"recommendation-new-pods.yaml"))
	list := func(cpu, memory string) corev1.ResourceList {
		l := corev1.ResourceList{}
		if cpu != "" {
			l[corev1.ResourceCPU] = resource.MustParse(cpu)
		}
		if memory != "" {
			l[corev1.ResourceMemory] = resource.MustParse(memory)
		}
		return l
	}
	n := 0
	created := func(deployment, level string, requests, limits corev1.ResourceList) (cpu, memory string) {
		t.Helper()
		n++
		p := &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{
				Name: fmt.Sprintf("p%d", n), Labels: map[string]string{"pod-template-hash": "5d9c"},
				OwnerReferences: []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: deployment + "-5d9c", UID: "1", Controller: new(true)}},
			},
			Spec: corev1.PodSpec{Containers: []corev1.Container{
				{Name: "sidecar", Image: "none", Resources: corev1.ResourceRequirements{Requests: list("10m", "10Mi")}},
				{Name: "app", Image: "none", Resources: corev1.ResourceRequirements{Requests: requests, Limits: limits}},
			}},
		}
		if level != "" {
			p.Labels[spec.LabelQoS] = level
		}
		got, err := c.client.CoreV1().Pods(namespace).Create(t.Context(), p, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		if err != nil {
			t.Logf("pod of %s: %v", deployment, err) // the service account comes a moment later
			return "", ""
		}
		if side := got.Spec.Containers[0].Resources.Requests; side.Cpu().String() != "10m" {
			t.Errorf("pod of %s: the sidecar asks for %v, want what it was written with", deployment, side)
		}
		asks := got.Spec.Containers[1].Resources.Requests
		return asks.Cpu().String(), asks.Memory().String()
	}
	c.wait("the policy is in force", func() bool {
		cpu, memory := created("web", "", list("1", "2Gi"), nil)
		return cpu == "563m" && memory == "750Mi"
	})
	for _, x := range []struct {
		why, deployment, level string
		requests, limits       corev1.ResourceList
		cpu, memory            string
	}{
		{"not beyond its limit", "web", "", list("100m", "100Mi"), list("400m", "4Gi"), "400m", "750Mi"},
		{"a request that is the limit stays", "web", "", list("2", "2Gi"), list("2", "4Gi"), "2", "750Mi"},
		{"what it does not ask for stays so", "web", "", list("", "2Gi"), nil, "0", "750Mi"},
		{"the mode is Off", "shown", "", list("1", "2Gi"), nil, "1", "2Gi"},
		{"another Deployment", "other", "", list("1", "2Gi"), nil, "1", "2Gi"},
		{"a Deployment whose name begins so", "web-api", "", list("1", "2Gi"), nil, "1", "2Gi"},
		{"exclusive cores", "web", string(spec.QoSDedicated), list("2", "2Gi"), nil, "2", "2Gi"},
	} {
		if cpu, memory := created(x.deployment, x.level, x.requests, x.limits); cpu != x.cpu || memory != x.memory {
			t.Errorf("%s: the pod asks for %s and %s, want %s and %s", x.why, cpu, memory, x.cpu, x.memory)
		}
	}
}
