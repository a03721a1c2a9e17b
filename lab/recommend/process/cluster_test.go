package process

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	yamlutil "k8s.io/apimachinery/pkg/util/yaml"
	vpav1 "k8s.io/autoscaler/vertical-pod-autoscaler/pkg/apis/autoscaling.k8s.io/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/cmd/hilbertd/daemon"
	"hilbert.dev/hilbert/lab/controlplane"
)

const (
	// patience bounds a wait: what is waited for comes within seconds.
	patience  = 2 * time.Minute
	account   = "system:serviceaccount:hilbert-system:hilbert-controller"
	namespace = "default"
	// controllerManifests is the folder of what the controller may do.
	controllerManifests = "../../../deploy/controller/"
	vpaPath             = "/apis/autoscaling.k8s.io/v1"
	usePath             = "/apis/metrics.k8s.io/v1beta1"
	placePath           = "/apis/scheduling.hilbert.dev/v1alpha1"
)

// definitions is for machines without Go's tools.
var definitions = flag.String("vpa-definitions", "", "VPA's vpa-v1-crd-gen.yaml; empty: that of its module")

// cluster is a control plane with stand-ins for kubelets and metrics-server.
type cluster struct {
	t          *testing.T
	plane      *controlplane.ControlPlane
	client     kubernetes.Interface
	api        rest.Interface
	kubeconfig string // of the controller's account
	// cpu and memory are what every pod uses, in millicores and MiB; 0: nothing is known.
	cpu, memory int64
	// deaf: the kubelet does not look at resizes.
	deaf bool
	// class is the priority class of pods that are created; empty: none.
	class string
}

func newCluster(t *testing.T) *cluster {
	return startCluster(t, controlplane.Options{Dir: t.TempDir()})
}

func startCluster(t *testing.T, o controlplane.Options) *cluster {
	c := &cluster{t: t}
	plane, err := controlplane.Start(t.Context(), o)
	c.must(err)
	t.Cleanup(func() {
		if err := plane.Stop(context.Background()); err != nil {
			t.Error(err)
		}
	})
	c.plane = plane
	config := plane.AdminConfig()
	config.QPS = -1
	c.client, err = kubernetes.NewForConfig(config)
	c.must(err)
	c.api = c.client.Discovery().RESTClient()
	c.must(plane.InstallDefinitions(t.Context()))
	c.must(plane.InstallAccess(t.Context(), "../../../deploy/00-namespace.yaml", controllerManifests+"controller.yaml", controllerManifests+"recommendation.yaml"))
	c.kubeconfig = filepath.Join(t.TempDir(), "kubeconfig")
	c.must(plane.UserKubeconfig(c.kubeconfig, account))
	return c
}

func (c *cluster) must(err error) {
	c.t.Helper()
	if err != nil {
		c.t.Fatal(err)
	}
}

// send makes a request of JSON.
func (c *cluster) send(verb, path string, object, answer any) error {
	r := c.api.Verb(verb).AbsPath(path).SetHeader("Accept", "application/json")
	if object != nil {
		body, err := json.Marshal(object)
		if err != nil {
			return err
		}
		kind := "application/json"
		if verb == "PATCH" {
			kind = "application/merge-patch+json"
		}
		r = r.SetHeader("Content-Type", kind).Body(body)
	}
	body, err := r.Do(c.t.Context()).Raw()
	if err != nil || answer == nil {
		return err
	}
	return json.Unmarshal(body, answer)
}

// installAutoscalers installs the definitions of VPA's module, and returns when they are served.
func (c *cluster) installAutoscalers() {
	c.t.Helper()
	file := *definitions
	if file == "" {
		dir, err := exec.CommandContext(c.t.Context(), "go", "list", "-m", "-f", "{{.Dir}}", "k8s.io/autoscaler/vertical-pod-autoscaler").Output()
		c.must(err)
		file = filepath.Join(strings.TrimSpace(string(dir)), "deploy", "vpa-v1-crd-gen.yaml")
	}
	text, err := os.ReadFile(file)
	c.must(err)
	for document := range strings.SplitSeq(string(text), "\n---\n") {
		c.define(document)
	}
	c.wait("VerticalPodAutoscalers are served", func() bool { return c.send("GET", vpaPath+"/verticalpodautoscalers", nil, nil) == nil })
}

func (c *cluster) define(text string) {
	c.t.Helper()
	body, err := yamlutil.ToJSON([]byte(text))
	c.must(err)
	c.must(c.send("POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", json.RawMessage(body), nil))
}

// installMetrics stands in for metrics-server: what it would measure is stored.
func (c *cluster) installMetrics() {
	c.t.Helper()
	c.define(`
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata:
  name: pods.metrics.k8s.io
  annotations: {api-approved.kubernetes.io: "unapproved, a stand-in in tests"}
spec:
  group: metrics.k8s.io
  scope: Namespaced
  names: {plural: pods, singular: pod, kind: PodMetrics, listKind: PodMetricsList}
  versions:
    - name: v1beta1
      served: true
      storage: true
      schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}
`)
	c.wait("PodMetrics are served", func() bool { return c.send("GET", usePath+"/pods", nil, nil) == nil })
}

// run runs a hilbertd of one role until the test ends, or stop is called.
func (c *cluster) run(change func(*spec.Configuration)) (stop func()) { return c.runWith(change, nil) }

// runWith also tells where the hilbertd listens.
func (c *cluster) runWith(change func(*spec.Configuration), listens func(address string)) (stop func()) {
	c.t.Helper()
	config := spec.Default()
	config.Server.BindAddress = "127.0.0.1:0"
	change(config)
	c.must(spec.Validate(config))
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() {
		ended <- daemon.Run(ctx, config, daemon.Options{OnListen: listens, Log: slog.New(slog.NewTextHandler(c.t.Output(), &slog.HandlerOptions{Level: slog.LevelInfo}))})
	}()
	stopped := false
	stop = func() {
		if stopped {
			return
		}
		stopped = true
		cancel()
		if err := <-ended; err != nil {
			c.t.Error(err)
		}
	}
	c.t.Cleanup(stop)
	return stop
}

// controller runs the controller, quickly.
func (c *cluster) controller(changePods bool) (stop func()) {
	return c.controllerWith(changePods, func(*spec.Configuration) {})
}

// controllerWith runs it with some more changes of its configuration.
func (c *cluster) controllerWith(changePods bool, change func(*spec.Configuration)) (stop func()) {
	return c.run(func(config *spec.Configuration) {
		quickly(config, c.kubeconfig, changePods)
		change(config)
	})
}

// quickly makes it the configuration of a controller that decides each second.
func quickly(config *spec.Configuration, kubeconfig string, changePods bool) {
	config.Roles = []spec.Role{spec.RoleController}
	config.ClientConnection.Kubeconfig = kubeconfig
	config.LeaderElection.Namespace, config.LeaderElection.Name = "hilbert-system", "hilbert-controller"
	config.Controller.Disturbances.PodsPerHour = 100_000 // a leader begins with none saved up
	r := &config.Controller.Recommendation
	r.Enabled, r.ChangePods = true, changePods
	r.Interval, r.CheckpointInterval = spec.Duration(time.Second), spec.Duration(2*time.Second)
	r.ControlGroupPercent = 0
	r.Rollout = spec.RecommendationRollout{CanaryPercent: 10, Watch: spec.Duration(3 * time.Second), ConfidencePercent: 0, ThrottledPercent: 5, Pause: spec.Duration(time.Hour)}
}

// scheduler runs a scheduler, as the administrator.
func (c *cluster) scheduler() {
	path := filepath.Join(c.t.TempDir(), "admin")
	c.must(c.plane.WriteKubeconfig(path))
	c.run(func(config *spec.Configuration) {
		config.ClientConnection.Kubeconfig = path
		config.LeaderElection.Namespace = "hilbert-system"
	})
}

// node adds a Node.
func (c *cluster) node(name string, cpu, memory int64) {
	c.t.Helper()
	has := corev1.ResourceList{
		corev1.ResourceCPU: *resource.NewMilliQuantity(cpu, resource.DecimalSI), corev1.ResourceMemory: *resource.NewQuantity(memory<<20, resource.BinarySI),
		corev1.ResourcePods: *resource.NewQuantity(110, resource.DecimalSI),
	}
	n, err := c.client.CoreV1().Nodes().Create(c.t.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
	c.must(err)
	n.Status.Capacity, n.Status.Allocatable = has, has
	n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
	_, err = c.client.CoreV1().Nodes().UpdateStatus(c.t.Context(), n, metav1.UpdateOptions{})
	c.must(err)
	n, err = c.client.CoreV1().Nodes().Get(c.t.Context(), name, metav1.GetOptions{})
	c.must(err)
	n.Spec.Taints = nil // of a node that is not ready yet
	_, err = c.client.CoreV1().Nodes().Update(c.t.Context(), n, metav1.UpdateOptions{})
	c.must(err)
}

// deployment adds a Deployment, which nobody scales here, and pods that it selects.
func (c *cluster) deployment(name string, pods int, node, scheduler string, cpu, memory int64) {
	c.t.Helper()
	labels := map[string]string{"app": name}
	template := corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: corev1.PodSpec{
		SchedulerName: scheduler, NodeName: node, PriorityClassName: c.class, TerminationGracePeriodSeconds: new(int64),
		Containers: []corev1.Container{{Name: "app", Image: "none", Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{
			corev1.ResourceCPU: *resource.NewMilliQuantity(cpu, resource.DecimalSI), corev1.ResourceMemory: *resource.NewQuantity(memory<<20, resource.BinarySI),
		}}}},
	}}
	_, err := c.client.AppsV1().Deployments(namespace).Create(c.t.Context(), &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       appsv1.DeploymentSpec{Replicas: new(int32), Selector: &metav1.LabelSelector{MatchLabels: labels}, Template: template},
	}, metav1.CreateOptions{})
	c.must(err)
	for i := range pods {
		c.wait("the pod is taken", func() bool { // the service account comes a moment later
			_, err := c.client.CoreV1().Pods(namespace).Create(c.t.Context(), &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("%s-%d", name, i), Labels: labels}, Spec: template.Spec}, metav1.CreateOptions{})
			return err == nil
		})
	}
}

// autoscaler adds a VerticalPodAutoscaler of a Deployment.
func (c *cluster) autoscaler(name string, change func(*vpav1.VerticalPodAutoscaler)) {
	c.t.Helper()
	v := &vpav1.VerticalPodAutoscaler{}
	text := `{"apiVersion":"autoscaling.k8s.io/v1","kind":"VerticalPodAutoscaler","metadata":{"name":"` + name + `"},"spec":{"targetRef":{"apiVersion":"apps/v1","kind":"Deployment","name":"` + name + `"},
		"updatePolicy":{"updateMode":"Off"},"recommenders":[{"name":"hilbert"}]}}`
	c.must(json.Unmarshal([]byte(text), v))
	if change != nil {
		change(v)
	}
	c.must(c.send("POST", vpaPath+"/namespaces/"+namespace+"/verticalpodautoscalers", v, nil))
}

// read reads a VerticalPodAutoscaler with VPA's own types.
func (c *cluster) read(name string) *vpav1.VerticalPodAutoscaler {
	c.t.Helper()
	var v vpav1.VerticalPodAutoscaler
	c.must(c.send("GET", vpaPath+"/namespaces/"+namespace+"/verticalpodautoscalers/"+name, nil, &v))
	return &v
}

// pod reads a pod.
func (c *cluster) pod(name string) *corev1.Pod {
	c.t.Helper()
	p, err := c.client.CoreV1().Pods(namespace).Get(c.t.Context(), name, metav1.GetOptions{})
	c.must(err)
	return p
}

// tick is what kubelets and metrics-server do: pods that are bound run with what their specs say, and their use is known.
func (c *cluster) tick() {
	c.t.Helper()
	list, err := c.client.CoreV1().Pods(namespace).List(c.t.Context(), metav1.ListOptions{})
	c.must(err)
	for i := range list.Items {
		p := &list.Items[i]
		if p.Spec.NodeName == "" {
			continue
		}
		c.settle(p)
		if c.cpu > 0 {
			c.measure(p.Name)
		}
	}
}

// settle has a kubelet do what a pod's spec says.
func (c *cluster) settle(p *corev1.Pod) {
	c.t.Helper()
	asks := p.Spec.Containers[0].Resources
	if s := p.Status.ContainerStatuses; len(s) > 0 && (c.deaf || s[0].AllocatedResources.Cpu().Equal(*asks.Requests.Cpu()) && s[0].AllocatedResources.Memory().Equal(*asks.Requests.Memory())) {
		return
	}
	p.Status.Phase = corev1.PodRunning
	last := corev1.ContainerState{}
	if s := p.Status.ContainerStatuses; len(s) > 0 {
		last = s[0].LastTerminationState
	}
	p.Status.ContainerStatuses = []corev1.ContainerStatus{{
		Name: "app", Image: "none", Ready: true, State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}, LastTerminationState: last, AllocatedResources: asks.Requests, Resources: &asks,
	}}
	if _, err := c.client.CoreV1().Pods(namespace).UpdateStatus(c.t.Context(), p, metav1.UpdateOptions{}); err != nil && !apierrors.IsConflict(err) {
		c.t.Fatal(err)
	}
}

// measure stores what a pod uses.
func (c *cluster) measure(pod string) {
	c.t.Helper()
	said := metricsOf(pod, c.cpu, c.memory)
	path := usePath + "/namespaces/" + namespace + "/pods"
	if err := c.send("PATCH", path+"/"+pod, said, nil); apierrors.IsNotFound(err) {
		err = c.send("POST", path, said, nil)
		c.must(err)
	}
}

// wait returns when something is so.
func (c *cluster) wait(what string, done func() bool) {
	c.t.Helper()
	c.waitFor(what, patience, done)
}

// waitFor waits no longer than that.
func (c *cluster) waitFor(what string, most time.Duration, done func() bool) {
	c.t.Helper()
	for end := time.Now().Add(most); time.Now().Before(end); time.Sleep(200 * time.Millisecond) {
		if done() {
			return
		}
	}
	c.t.Fatalf("%s: not within %s", what, most)
}

// until ticks until a VerticalPodAutoscaler is as wanted.
func (c *cluster) until(what, name string, done func(*vpav1.VerticalPodAutoscaler) bool) *vpav1.VerticalPodAutoscaler {
	c.t.Helper()
	var last *vpav1.VerticalPodAutoscaler
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(200 * time.Millisecond) {
		c.tick()
		if last = c.read(name); done(last) {
			return last
		}
	}
	said, _ := json.MarshalIndent(last.Status, "", "  ")
	c.t.Fatalf("%s: not within %s; the status is %s", what, patience, said)
	return nil
}

// says is the message of a condition, and whether it is true; empty: there is none.
func says(v *vpav1.VerticalPodAutoscaler, kind string) (reason, message string, is bool) {
	for _, c := range v.Status.Conditions {
		if string(c.Type) == kind {
			return c.Reason, c.Message, c.Status == corev1.ConditionTrue
		}
	}
	return "", "", false
}
