package process

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	vpav1 "k8s.io/autoscaler/vertical-pod-autoscaler/pkg/apis/autoscaling.k8s.io/v1"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
)

// TestStatus: a VerticalPodAutoscaler that names our recommender gets a status as VPA's recommender would write it, another one is left alone, and a new leader knows what
// the one before it knew.
func TestStatus(t *testing.T) {
	c := newCluster(t)
	stop := c.controller(false) // before there is a definition
	c.installAutoscalers()
	c.deployment("web", 2, "n1", "other", 1000, 1024)
	c.autoscaler("web", nil)
	c.autoscaler("bounded", func(v *vpav1.VerticalPodAutoscaler) {
		v.Spec.TargetRef.Name = "web"
		only := []corev1.ResourceName{corev1.ResourceMemory}
		v.Spec.ResourcePolicy = &vpav1.PodResourcePolicy{ContainerPolicies: []vpav1.ContainerResourcePolicy{{
			ContainerName: "*", ControlledResources: &only, MaxAllowed: corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("300Mi")},
		}}}
	})
	c.autoscaler("updated", func(v *vpav1.VerticalPodAutoscaler) { v.Spec.TargetRef.Name, v.Spec.UpdatePolicy = "web", nil })
	c.autoscaler("theirs", func(v *vpav1.VerticalPodAutoscaler) { v.Spec.TargetRef.Name, v.Spec.Recommenders = "web", nil })
	c.autoscaler("odd", func(v *vpav1.VerticalPodAutoscaler) { v.Spec.TargetRef.Kind = "Widget" })
	c.autoscaler("gone", nil)

	c.until("without metrics nothing is recommended", "web", func(v *vpav1.VerticalPodAutoscaler) bool {
		_, message, is := says(v, "RecommendationProvided")
		return !is && strings.Contains(message, "no use") && v.Status.Recommendation == nil
	})
	c.installMetrics()
	c.cpu, c.memory = 2000, 700 // more than pods have, of CPU
	v := c.until("use is known", "web", func(v *vpav1.VerticalPodAutoscaler) bool { return v.Status.Recommendation != nil })
	r := v.Status.Recommendation.ContainerRecommendations[0]
	if cpu := r.Target.Cpu().MilliValue(); r.ContainerName != "app" || cpu < 2000 || cpu > 2600 {
		t.Errorf("container %s is to have %s CPU, want 2 to 2.6 of app", r.ContainerName, r.Target.Cpu())
	}
	if memory := r.Target.Memory().Value() >> 20; memory < 700 || memory > 900 {
		t.Errorf("memory of %s is recommended, want 700 to 900 MiB", r.Target.Memory())
	}
	for name, list := range map[string][2]corev1.ResourceList{"lower": {r.LowerBound, r.Target}, "upper": {r.Target, r.UpperBound}, "uncapped": {r.Target, r.UncappedTarget}} {
		if list[0].Cpu().Cmp(*list[1].Cpu()) > 0 || list[0].Memory().Cmp(*list[1].Memory()) > 0 || list[0].Cpu().IsZero() || list[0].Memory().IsZero() {
			t.Errorf("%s: %v is more than %v, or nothing", name, list[0], list[1])
		}
	}
	if reason, _, is := says(v, "Applied"); is || reason != "ModeOff" {
		t.Errorf("Applied is %t for %s, want ModeOff", is, reason)
	}
	v = c.until("a policy bounds", "bounded", func(v *vpav1.VerticalPodAutoscaler) bool { return v.Status.Recommendation != nil })
	r = v.Status.Recommendation.ContainerRecommendations[0]
	if _, there := r.Target[corev1.ResourceCPU]; there || r.Target.Memory().Value()>>20 != 300 || r.UncappedTarget.Memory().Value()>>20 < 700 {
		t.Errorf("target %v, uncapped %v: want 300 MiB, uncapped above 700, and no CPU", r.Target, r.UncappedTarget)
	}
	v = c.until("VPA's updater acts", "updated", func(v *vpav1.VerticalPodAutoscaler) bool { return v.Status.Recommendation != nil })
	r = v.Status.Recommendation.ContainerRecommendations[0]
	if reason, _, _ := says(v, "Applied"); reason != "ModeRefused" || r.Target.Cpu().MilliValue() != 1000 || r.UncappedTarget.Cpu().MilliValue() < 2000 {
		t.Errorf("Applied %s, target %s of uncapped %s: want ModeRefused, and no more than pods have", reason, r.Target.Cpu(), r.UncappedTarget.Cpu())
	}
	c.until("a target of an unknown kind", "odd", func(v *vpav1.VerticalPodAutoscaler) bool {
		_, message, is := says(v, "ConfigUnsupported")
		return is && strings.Contains(message, "Widget")
	})
	c.until("a target that is not there", "gone", func(v *vpav1.VerticalPodAutoscaler) bool {
		_, message, is := says(v, "ConfigUnsupported")
		return is && strings.Contains(message, "gone")
	})
	if theirs := c.read("theirs"); theirs.Status.Recommendation != nil || len(theirs.Status.Conditions) > 0 {
		t.Errorf("the status of one without a recommender is written: %+v", theirs.Status)
	}
	if p := c.pod("web-0"); p.Spec.Containers[0].Resources.Requests.Cpu().MilliValue() != 1000 {
		t.Error("a pod was resized, and changePods is off")
	}

	c.refusesOthers()

	// Another leader goes on from what was saved: nothing is measured any more. The checkpoint that is there may be from before any use was known: the next one has what was recommended from.
	checkpoint := func() (version string) {
		c.tick()
		list, err := c.client.CoreV1().ConfigMaps("hilbert-system").List(t.Context(), metav1.ListOptions{LabelSelector: "autoscaling.hilbert.dev/checkpoint"})
		c.must(err)
		for i := range list.Items {
			if list.Items[i].Annotations["autoscaling.hilbert.dev/of"] == "default/web" {
				if version != "" {
					t.Fatal("there are two checkpoints of web")
				}
				version = list.Items[i].ResourceVersion
			}
		}
		return version
	}
	before := checkpoint()
	c.wait("the next checkpoint is there", func() bool { now := checkpoint(); return now != "" && now != before })
	stop()
	c.cpu = 0
	c.must(c.send("DELETE", usePath+"/namespaces/"+namespace+"/pods", nil, nil))
	c.must(c.send("PATCH", vpaPath+"/namespaces/"+namespace+"/verticalpodautoscalers/web/status", map[string]any{"status": map[string]any{"recommendation": nil, "conditions": nil}}, nil))
	c.controller(false)
	c.until("the checkpoint is read", "web", func(v *vpav1.VerticalPodAutoscaler) bool { return v.Status.Recommendation != nil })

	// What was saved of an object that is gone goes.
	c.must(c.send("DELETE", vpaPath+"/namespaces/"+namespace+"/verticalpodautoscalers/web", nil, nil))
	c.wait("its checkpoint goes", func() bool {
		list, err := c.client.CoreV1().ConfigMaps("hilbert-system").List(t.Context(), metav1.ListOptions{LabelSelector: "autoscaling.hilbert.dev/checkpoint"})
		c.must(err)
		for i := range list.Items {
			if list.Items[i].Annotations["autoscaling.hilbert.dev/of"] == "default/web" {
				return false
			}
		}
		return true
	})
}

// refusesOthers holds that the controller's account writes no ConfigMaps but checkpoints.
func (c *cluster) refusesOthers() {
	c.t.Helper()
	config, err := clientcmd.BuildConfigFromFlags("", c.kubeconfig)
	c.must(err)
	client, err := kubernetes.NewForConfig(config)
	c.must(err)
	maps := client.CoreV1().ConfigMaps("hilbert-system")
	c.wait("another ConfigMap is refused", func() bool {
		_, err := maps.Create(c.t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "hilbertd"}}, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		return err != nil && strings.Contains(err.Error(), "checkpoints alone")
	})
	_, err = c.client.CoreV1().ConfigMaps("hilbert-system").Create(c.t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "hilbertd"}}, metav1.CreateOptions{})
	c.must(err)
	if err := maps.Delete(c.t.Context(), "hilbertd", metav1.DeleteOptions{}); err == nil || !strings.Contains(err.Error(), "checkpoints alone") {
		c.t.Errorf("the controller deletes another ConfigMap: %v", err)
	}
}
