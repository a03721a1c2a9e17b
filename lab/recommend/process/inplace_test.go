package process

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	vpav1 "k8s.io/autoscaler/vertical-pod-autoscaler/pkg/apis/autoscaling.k8s.io/v1"

	"hilbert.dev/hilbert/api/scheduling/v1alpha1"
	"hilbert.dev/hilbert/api/spec"
)

// inPlace is what of a VerticalPodAutoscaler has its pods resized.
func inPlace(v *vpav1.VerticalPodAutoscaler) {
	v.Annotations = map[string]string{spec.AnnotationRecommendationMode: "InPlace"}
}

// changing starts a cluster in which pods may be changed, with a node and a scheduler.
func changing(t *testing.T) *cluster {
	c := newCluster(t)
	c.must(c.plane.InstallAccess(t.Context(), controllerManifests+"recommendation-changes.yaml"))
	c.installAutoscalers()
	c.installMetrics()
	c.must(c.plane.InstallPolicies(t.Context()))
	c.node("n1", 4000, 8192)
	c.scheduler()
	return c
}

// TestGrowthWaitsForRoom: on a node that others fill a pod that needs more is not resized, and nobody is evicted; it is as soon as there is room. Nothing of it is left.
func TestGrowthWaitsForRoom(t *testing.T) {
	c := changing(t)
	c.deployment("web", 1, "", spec.DefaultSchedulerName, 500, 1024)
	c.deployment("other", 3, "", spec.DefaultSchedulerName, 1000, 1024)
	c.wait("all pods run", func() bool {
		c.tick()
		for _, name := range []string{"web-0", "other-0", "other-1", "other-2"} {
			if c.pod(name).Status.Phase != corev1.PodRunning {
				return false
			}
		}
		return true
	})
	c.cpu, c.memory = 1200, 700 // half a core is left; some 0.8 are needed
	c.autoscaler("web", inPlace)
	c.controller(true)
	v := c.until("it waits for room", "web", func(v *vpav1.VerticalPodAutoscaler) bool {
		reason, message, _ := says(v, "Applied")
		return reason == "Waiting" && strings.Contains(message, "node n1 has no room") && strings.Contains(message, "cpu")
	})
	_, message, _ := says(v, "Applied")
	t.Log(message)
	for end := time.Now().Add(3 * time.Second); time.Now().Before(end); time.Sleep(200 * time.Millisecond) {
		c.tick()
	}
	if cpu := c.pod("web-0").Spec.Containers[0].Resources.Requests.Cpu().MilliValue(); cpu != 500 {
		t.Fatalf("the pod asks for %d millicores, want 500: there is no room", cpu)
	}
	c.must(c.client.CoreV1().Pods(namespace).Delete(t.Context(), "other-2", metav1.DeleteOptions{}))
	c.deaf = true // the kubelet takes its time: the room stays reserved
	c.wait("the pod is resized", func() bool {
		c.tick()
		return c.pod("web-0").Spec.Containers[0].Resources.Requests.Cpu().MilliValue() > 900
	})
	if n := len(c.places()); n != 1 {
		t.Errorf("%d Reservations while the kubelet has not resized the pod yet, want 1", n)
	}
	c.deaf = false
	c.until("it has what is recommended", "web", func(v *vpav1.VerticalPodAutoscaler) bool {
		reason, _, is := says(v, "Applied")
		return is && reason == "UpToDate" && len(c.places()) == 0
	})
	if p := c.pod("web-0"); p.Status.ContainerStatuses[0].RestartCount != 0 {
		t.Error("the container was restarted")
	}
}

// places are the Reservations that there are.
func (c *cluster) places() []v1alpha1.Reservation {
	c.t.Helper()
	var list v1alpha1.ReservationList
	c.must(c.send("GET", placePath+"/reservations", nil, &list))
	return list.Items
}

// TestShrinkIsTakenBack: one of three pods is shrunk first; it runs out of memory, gets back what it had, and the others keep theirs.
func TestShrinkIsTakenBack(t *testing.T) {
	c := changing(t)
	c.deployment("web", 3, "", spec.DefaultSchedulerName, 1000, 2048)
	c.cpu, c.memory = 300, 600
	c.autoscaler("web", inPlace)
	c.controller(true)
	shrunk := ""
	c.wait("a pod is shrunk", func() bool {
		c.tick()
		for _, name := range []string{"web-0", "web-1", "web-2"} {
			if c.pod(name).Spec.Containers[0].Resources.Requests.Memory().Value()>>20 < 2048 {
				shrunk = name
				return true
			}
		}
		return false
	})
	p := c.pod(shrunk)
	if memory := p.Spec.Containers[0].Resources.Requests.Memory().Value() >> 20; memory < 600 {
		t.Errorf("pod %s was shrunk to %d MiB, below its peak of 600", shrunk, memory)
	}
	c.tick()
	c.wait("the kubelet tells of the killing", func() bool {
		p = c.pod(shrunk)
		p.Status.ContainerStatuses[0].LastTerminationState = corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{Reason: "OOMKilled", ExitCode: 137, FinishedAt: metav1.Now()}}
		_, err := c.client.CoreV1().Pods(namespace).UpdateStatus(t.Context(), p, metav1.UpdateOptions{})
		return err == nil
	})
	c.wait("the pod has back what it had", func() bool {
		c.tick()
		requests := c.pod(shrunk).Spec.Containers[0].Resources.Requests
		return requests.Memory().Value()>>20 >= 2048 && requests.Cpu().MilliValue() >= 1000
	})
	v := c.until("the rollout waits", "web", func(v *vpav1.VerticalPodAutoscaler) bool {
		_, message, _ := says(v, "Applied")
		return strings.Contains(message, "the last change was taken back")
	})
	_, message, _ := says(v, "Applied")
	t.Log(message)
	for _, name := range []string{"web-0", "web-1", "web-2"} {
		if requests := c.pod(name).Spec.Containers[0].Resources.Requests; requests.Memory().Value()>>20 < 2048 {
			t.Errorf("pod %s has %v, want what it had", name, requests)
		}
	}
}
