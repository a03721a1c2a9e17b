package agent

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	yamlutil "k8s.io/apimachinery/pkg/util/yaml"

	"hilbert.dev/hilbert/api/spec"
)

const (
	useDefinition = `{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{"name":"pods.metrics.k8s.io","annotations":{"api-approved.kubernetes.io":"unapproved, a stand-in in tests"}},
		"spec":{"group":"metrics.k8s.io","scope":"Namespaced","names":{"plural":"pods","singular":"pod","kind":"PodMetrics","listKind":"PodMetricsList"},"versions":[{"name":"v1beta1","served":true,"storage":true,
		"schema":{"openAPIV3Schema":{"type":"object","x-kubernetes-preserve-unknown-fields":true}}}]}}`
	usePath        = "/apis/metrics.k8s.io/v1beta1/namespaces/default/pods"
	autoscalerPath = "/apis/autoscaling.k8s.io/v1/namespaces/default/verticalpodautoscalers"
)

// TestRecommendedResize: a kubelet that nobody changed resizes pods in place to what is recommended: one that is short grows, and one that has too much shrinks. The kernel has the new
// limits, no pod is made anew, and no container is restarted.
func TestRecommendedResize(t *testing.T) {
	long(t)
	r := newRig(t)
	r.recommends()
	small, wide := "small", "wide"
	pods := r.run(r.pod(small, asks("200m", "96Mi"), app(small)), r.pod(wide, asks("1", "600Mi"), app(wide)))
	use := map[string][2]int64{small: {400, 80}, wide: {50, 100}} // millicores and MiB
	for name := range use {
		r.autoscaler(name)
	}
	before := make(map[string]string)
	for _, p := range pods {
		before[p.Name] = r.lifetimes(p)
	}
	r.startController(func(c *spec.Configuration) {
		c.Controller.Disturbances.PodsPerHour = 100_000 // a leader begins with none saved up
		n := &c.Controller.Recommendation
		n.Enabled, n.ChangePods, n.ControlGroupPercent = true, true, 0
		n.Interval = spec.Duration(time.Second)
		n.Rollout = spec.RecommendationRollout{CanaryPercent: 10, Watch: spec.Duration(2 * time.Second), ThrottledPercent: 100, Pause: spec.Duration(time.Hour)}
	})
	for _, p := range pods {
		var now *corev1.Pod
		took := r.eventually(patience, "pod "+p.Name+" has what is recommended", func() (err error) {
			for name, used := range use {
				r.used(name, used[0], used[1])
			}
			if now, err = r.Client.CoreV1().Pods(p.Namespace).Get(t.Context(), p.Name, metav1.GetOptions{}); err != nil {
				return err
			}
			if now.UID != p.UID {
				t.Fatalf("pod %s was made anew", p.Name)
			}
			return r.resized(now, p)
		})
		t.Logf("%s: %v to %v in %s", p.Name, p.Spec.Containers[0].Resources.Requests, now.Spec.Containers[0].Resources.Requests, took.Round(time.Second))
	}
	for _, p := range pods {
		if lives := r.lifetimes(p); lives != before[p.Name] {
			t.Errorf("the processes of pod %s are %s, were %s", p.Name, lives, before[p.Name])
		}
	}
}

// TestGrowthAfterOutOfMemory: a container that the kernel kills for want of memory is given more in place. What its pod is seen to use would not do for that: it is the
// killing that raises the recommendation. The kubelet starts the container again, and it runs; the pod is the same one.
func TestGrowthAfterOutOfMemory(t *testing.T) {
	long(t)
	r := newRig(t)
	r.recommends()
	const hungry = "hungry"
	const uses, holds = 270, 400 // MiB; by use alone no more than 270 + 25 % are recommended
	pod := r.create(r.pod(hungry, asks("200m", "300Mi"), app(hungry), does("hold", fmt.Sprint(holds))))
	defer r.remove(pod)
	r.autoscaler(hungry)
	var killed *corev1.ContainerStateTerminated
	now := func() *corev1.Pod {
		p, err := r.Client.CoreV1().Pods(pod.Namespace).Get(t.Context(), pod.Name, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if p.UID != pod.UID {
			t.Fatal("the pod was made anew")
		}
		for _, s := range p.Status.ContainerStatuses {
			for _, state := range []*corev1.ContainerStateTerminated{s.LastTerminationState.Terminated, s.State.Terminated} {
				if state != nil && state.Reason == "OOMKilled" && killed == nil {
					killed = state
				}
			}
		}
		return p
	}
	r.eventually(patience, "the kernel kills the container", func() error {
		if p := now(); killed == nil {
			return fmt.Errorf("it is %v", p.Status.ContainerStatuses)
		}
		return nil
	})
	r.startController(func(c *spec.Configuration) {
		c.Controller.Disturbances.PodsPerHour = 100_000 // a leader begins with none saved up
		n := &c.Controller.Recommendation
		n.Enabled, n.ChangePods, n.ControlGroupPercent, n.Interval = true, true, 0, spec.Duration(time.Second)
	})
	took := r.eventually(2*patience, "the container has enough and runs", func() error {
		r.used(hungry, 100, uses)
		p := now()
		has := p.Spec.Containers[0].Resources
		if has.Requests.Memory().Value() <= holds<<20 || len(p.Status.ContainerStatuses) != 1 {
			return fmt.Errorf("it asks for %v", has.Requests)
		}
		s := &p.Status.ContainerStatuses[0]
		if s.State.Running == nil || s.RestartCount == 0 || s.Resources == nil || !s.Resources.Limits.Memory().Equal(*has.Limits.Memory()) {
			return fmt.Errorf("the kubelet says %v of limits %v, running %v, after %d restarts", s.Resources, has.Limits, s.State.Running, s.RestartCount)
		}
		cgroup, err := r.ContainerCgroup(t.Context(), p, container)
		if err != nil {
			return err
		}
		for file, enough := range map[string]func(n int64) bool{
			"memory.max":     func(n int64) bool { return n == has.Limits.Memory().Value()&^4095 },
			"memory.current": func(n int64) bool { return n > holds<<20 },
		} {
			text, err := r.Guest.Field(t.Context(), cgroup+"/"+file)
			if n, bad := strconv.ParseInt(text, 10, 64); err != nil || bad != nil || !enough(n) {
				return fmt.Errorf("the kernel has %s %q, limits are %v; %w", file, text, has.Limits, err)
			}
		}
		return nil
	})
	t.Logf("killed at %s (exit %d); %v to %v in %s", killed.FinishedAt.Format(time.TimeOnly), killed.ExitCode, pod.Spec.Containers[0].Resources.Requests, now().Spec.Containers[0].Resources.Requests, took.Round(time.Second))
}

// resized holds a pod to what it was to become, in its spec, by the kubelet's word and in the kernel.
func (r *rig) resized(now, was *corev1.Pod) error {
	has, had := now.Spec.Containers[0].Resources, was.Spec.Containers[0].Resources
	grows := now.Name != "wide"
	if has.Requests.Cpu().Cmp(*had.Requests.Cpu()) > 0 != grows || has.Requests.Memory().Cmp(*had.Requests.Memory()) > 0 != grows {
		return fmt.Errorf("it asks for %v, and asked for %v", has.Requests, had.Requests)
	}
	if len(now.Status.ContainerStatuses) != 1 {
		return fmt.Errorf("the kubelet says nothing of it")
	}
	s := &now.Status.ContainerStatuses[0]
	if !s.AllocatedResources.Memory().Equal(*has.Requests.Memory()) || s.Resources == nil || !s.Resources.Limits.Memory().Equal(*has.Limits.Memory()) || s.State.Running == nil {
		return fmt.Errorf("the kubelet says %v of %v, running %v", s.AllocatedResources, has.Requests, s.State.Running)
	}
	if s.RestartCount > 0 {
		return fmt.Errorf("it was restarted %d times", s.RestartCount)
	}
	cgroup, err := r.ContainerCgroup(r.t.Context(), now, container)
	if err != nil {
		return err
	}
	for file, want := range map[string]string{"memory.max": fmt.Sprint(has.Limits.Memory().Value() &^ 4095), "cpu.max": fmt.Sprintf("%d 100000", has.Limits.Cpu().MilliValue()*100)} {
		if got, err := r.Guest.Field(r.t.Context(), cgroup+"/"+file); err != nil || got != want {
			return fmt.Errorf("the kernel has %s %s, want %s; %w", file, got, want, err)
		}
	}
	return nil
}

func app(name string) trait { return func(p *corev1.Pod) { p.Labels["app"] = name } }

// recommends installs what recommendations need beside the agent: VPA's definition, a stand-in for metrics-server, and the controller's rights.
func (r *rig) recommends() {
	r.t.Helper()
	must := func(err error) {
		r.t.Helper()
		if err != nil && !apierrors.IsAlreadyExists(err) {
			r.t.Fatal(err)
		}
	}
	must(shared.cluster.InstallController(r.t.Context()))
	must(r.Plane.InstallAccess(r.t.Context(), root+"/deploy/controller/recommendation.yaml", root+"/deploy/controller/recommendation-changes.yaml"))
	dir, err := exec.CommandContext(r.t.Context(), "go", "list", "-m", "-f", "{{.Dir}}", "k8s.io/autoscaler/vertical-pod-autoscaler").Output()
	must(err)
	text, err := os.ReadFile(filepath.Join(strings.TrimSpace(string(dir)), "deploy", "vpa-v1-crd-gen.yaml"))
	must(err)
	for document := range strings.SplitSeq(string(text), "\n---\n") {
		body, err := yamlutil.ToJSON([]byte(document))
		must(err)
		must(r.send("POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", body))
	}
	must(r.send("POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", []byte(useDefinition)))
	for _, path := range []string{usePath, autoscalerPath} {
		r.eventually(patience, path+" is served", func() error { return r.send("GET", path, nil) })
	}
}

func (r *rig) send(verb, path string, body []byte) error {
	q := r.Client.Discovery().RESTClient().Verb(verb).AbsPath(path).SetHeader("Accept", "application/json")
	if body != nil {
		q = q.SetHeader("Content-Type", "application/json").Body(body)
	}
	return q.Do(r.t.Context()).Error()
}

// autoscaler adds a Deployment, whose pod is there already, and its VerticalPodAutoscaler.
func (r *rig) autoscaler(name string) {
	r.t.Helper()
	labels := map[string]string{"app": name}
	d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: appsv1.DeploymentSpec{Replicas: new(int32), Selector: &metav1.LabelSelector{MatchLabels: labels}, Template: corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: container, Image: "none"}}},
	}}}
	if _, err := r.Client.AppsV1().Deployments(metav1.NamespaceDefault).Create(r.t.Context(), d, metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
		r.t.Fatal(err)
	}
	text := `{"apiVersion":"autoscaling.k8s.io/v1","kind":"VerticalPodAutoscaler","metadata":{"name":"` + name + `","annotations":{"` + spec.AnnotationRecommendationMode + `":"InPlace"}},"spec":{"targetRef":
		{"apiVersion":"apps/v1","kind":"Deployment","name":"` + name + `"},"updatePolicy":{"updateMode":"Off"},"recommenders":[{"name":"hilbert"}]}}`
	if err := r.send("POST", autoscalerPath, []byte(text)); err != nil && !apierrors.IsAlreadyExists(err) {
		r.t.Fatal(err)
	}
}

// used has a pod's use measured, in millicores and MiB.
func (r *rig) used(pod string, cpu, memory int64) {
	r.t.Helper()
	body, err := json.Marshal(map[string]any{
		"apiVersion": "metrics.k8s.io/v1beta1", "kind": "PodMetrics", "metadata": map[string]any{"name": pod}, "timestamp": time.Now().UTC().Format(time.RFC3339), "window": "10s",
		"containers": []any{map[string]any{"name": container, "usage": map[string]any{"cpu": fmt.Sprintf("%dm", cpu), "memory": fmt.Sprintf("%dMi", memory)}}},
	})
	if err == nil {
		err = r.Client.Discovery().RESTClient().Patch("application/apply-patch+yaml").AbsPath(usePath, pod).Param("fieldManager", "test").Param("force", "true").Body(body).Do(r.t.Context()).Error()
	}
	if err != nil {
		r.t.Fatal(err)
	}
}
