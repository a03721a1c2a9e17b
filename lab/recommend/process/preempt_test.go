package process

import (
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	vpav1 "k8s.io/autoscaler/vertical-pod-autoscaler/pkg/apis/autoscaling.k8s.io/v1"

	"hilbert.dev/hilbert/api/spec"
	manifest "hilbert.dev/hilbert/deploy/visibility"
	"hilbert.dev/hilbert/kube/visibility"
)

// TestGrowthPreempts: a pod grows on a full node at the expense of a pod of lower priority, which the controller names and the scheduler evicts. Nobody else is evicted, the pod is resized
// where it runs, and without the switch it waits.
func TestGrowthPreempts(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes a minute")
	}
	c := newCluster(t)
	c.must(c.plane.InstallAccess(t.Context(), controllerManifests+"recommendation-changes.yaml", controllerManifests+"advise.yaml", controllerManifests+"moves.yaml"))
	c.installAutoscalers()
	c.installMetrics()
	c.must(c.plane.InstallPolicies(t.Context()))
	_, err := c.client.SchedulingV1().PriorityClasses().Create(t.Context(), &schedulingv1.PriorityClass{ObjectMeta: metav1.ObjectMeta{Name: "low"}, Value: -10}, metav1.CreateOptions{})
	c.must(err)
	c.node("n1", 4000, 8192)
	c.answeringScheduler()
	c.deployment("web", 1, "", spec.DefaultSchedulerName, 500, 1024)
	c.deployment("other", 1, "", spec.DefaultSchedulerName, 1000, 1024)
	c.class = "low"
	c.deployment("batch", 2, "", spec.DefaultSchedulerName, 1000, 1024)
	c.wait("all pods run", func() bool {
		c.tick()
		return !slices.ContainsFunc(c.pods(), func(p corev1.Pod) bool { return p.Status.Phase != corev1.PodRunning })
	})
	before := c.pods()
	web := c.pod("web-0").UID
	c.cpu, c.memory = 1200, 700 // half a core is left; some 0.8 are needed
	c.deaf = true               // the kubelet takes its time: the Reservation stays, and says who was named
	c.autoscaler("web", inPlace)
	stop := c.controllerWith(true, preempts(false))
	c.until("it waits for room", "web", func(v *vpav1.VerticalPodAutoscaler) bool {
		reason, message, _ := says(v, "Applied")
		return reason == "Waiting" && strings.Contains(message, "node n1 has no room")
	})
	for end := time.Now().Add(5 * time.Second); time.Now().Before(end); time.Sleep(200 * time.Millisecond) {
		c.tick()
	}
	if got := c.named(); len(got) > 0 || len(c.pods()) != len(before) {
		t.Fatalf("without the switch %v are named, and %d of %d pods are left", got, len(c.pods()), len(before))
	}
	stop()
	c.controllerWith(true, preempts(true))
	c.wait("the pod is resized", func() bool {
		c.tick()
		return c.pod("web-0").Spec.Containers[0].Resources.Requests.Cpu().MilliValue() > 900
	})
	named := c.named()
	if len(named) != 1 {
		t.Errorf("%v are named, want one", named)
	}
	after := c.pods()
	for i := range before {
		p := &before[i]
		left := !slices.ContainsFunc(after, func(q corev1.Pod) bool { return p.UID == q.UID && q.DeletionTimestamp == nil })
		if is := slices.Contains(named, string(p.UID)); left != is || is && p.Labels["app"] != "batch" {
			t.Errorf("pod %s: evicted %t, named %t", p.Name, left, is)
		}
	}
	c.deaf = false
	c.until("it has what is recommended", "web", func(v *vpav1.VerticalPodAutoscaler) bool {
		reason, _, is := says(v, "Applied")
		return is && reason == "UpToDate" && len(c.places()) == 0
	})
	if p := c.pod("web-0"); p.UID != web || p.Status.ContainerStatuses[0].RestartCount != 0 {
		t.Error("the pod was made anew, or its container restarted")
	}
	if got := len(c.pods()); got != len(after) {
		t.Errorf("%d pods are left at the end, %d when the pod was resized", got, len(after))
	}
}

// preempts has the controller move pods, and lets growth preempt or not.
func preempts(is bool) func(*spec.Configuration) {
	return func(config *spec.Configuration) {
		r := &config.Rescheduling
		r.Mode, r.Interval, r.PreemptForGrowth = spec.ReschedulingAuto, spec.Duration(time.Second), is
	}
}

// named are the UIDs of the pods that may be evicted for growth.
func (c *cluster) named() (list []string) {
	c.t.Helper()
	for _, r := range c.places() {
		if text := r.Annotations[spec.AnnotationMayEvict]; text != "" {
			list = append(list, strings.Split(text, ",")...)
		}
	}
	return list
}

func (c *cluster) pods() []corev1.Pod {
	c.t.Helper()
	list, err := c.client.CoreV1().Pods(namespace).List(c.t.Context(), metav1.ListOptions{})
	c.must(err)
	return list.Items
}

// answeringScheduler runs a scheduler that also answers through the API server: the controller reads its snapshots.
func (c *cluster) answeringScheduler() {
	c.t.Helper()
	dir := c.t.TempDir()
	certificate, key, err := visibility.MakeCertificate("hilbertd.hilbert-system.svc", time.Now(), time.Hour)
	c.must(err)
	c.must(os.WriteFile(filepath.Join(dir, "tls.crt"), certificate, 0o600))
	c.must(os.WriteFile(filepath.Join(dir, "tls.key"), key, 0o600))
	c.must(c.plane.WriteKubeconfig(filepath.Join(dir, "admin")))
	c.must(c.plane.RouteToLocalhost(c.t.Context(), "hilbert-system", "hilbertd"))
	listening := make(chan string, 1)
	c.runWith(func(config *spec.Configuration) {
		config.ClientConnection.Kubeconfig = filepath.Join(dir, "admin")
		config.LeaderElection.Namespace = "hilbert-system"
		config.Server.TLSCertFile, config.Server.TLSPrivateKeyFile = filepath.Join(dir, "tls.crt"), filepath.Join(dir, "tls.key")
	}, func(address string) { listening <- address })
	_, text, err := net.SplitHostPort(<-listening)
	c.must(err)
	port, err := strconv.Atoi(text)
	c.must(err)
	c.must(c.plane.InstallAPIServices(c.t.Context(), manifest.APIService, port, certificate))
	c.wait("the APIService answers", func() bool { return c.send("GET", "/apis/visibility.hilbert.dev/v1alpha1", nil, nil) == nil })
}
