package process

import (
	"encoding/json"
	"flag"
	"fmt"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	vpav1 "k8s.io/autoscaler/vertical-pod-autoscaler/pkg/apis/autoscaling.k8s.io/v1"
	"k8s.io/client-go/informers"
	listersv1 "k8s.io/client-go/listers/core/v1"

	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/lab/controlplane"
	"hilbert.dev/hilbert/lab/hollow"
)

var (
	scaleNodes       = flag.Int("nodes", 30, "nodes of TestScale")
	scaleDeployments = flag.Int("deployments", 30, "Deployments of TestScale, of four pods each")
	scaleInterval    = flag.Duration("interval", time.Second, "how often TestScale's controller decides")
	scalePatience    = flag.Duration("patience", 2*time.Minute, "how long each part of TestScale may take: that all pods run, have what is recommended, and stay as they are")
)

const (
	scaleReplicas   = 4
	scaleNamespaces = 20
	// scaleBurst is how many pods TestScale's budget lets be disturbed; within its time nothing comes back.
	scaleBurst = 5
	// watchRounds is for how many rounds a stage of a rollout is watched: one that did not watch would take some two rounds a stage, and be seen.
	watchRounds = 4
	// quietRounds is in how many rounds in a row nothing changes in the end: more than a stage of a rollout is watched for.
	quietRounds = 5
)

// The Deployments of TestScale are of three kinds.
const (
	needsMore = iota // they are short of CPU
	hasTooMuch
	restarts // they have too much, and a change of memory restarts them
	kinds
)

// fleet is a cluster of many Deployments.
type fleet struct {
	*cluster

	pods  listersv1.PodLister
	audit string
}

// TestScale: many Deployments on many nodes are all recommended for, and it is carried out one pod, two, then all of a Deployment, within the budget. What the API server gets of it and
// what the controller costs is counted, and in the end the ledger has what the API server has.
func TestScale(t *testing.T) {
	if testing.Short() {
		t.Skip("many Deployments take half a minute: run without -short")
	}
	f := &fleet{audit: filepath.Join(t.TempDir(), "audit")}
	f.cluster = startCluster(t, controlplane.Options{Dir: t.TempDir(), AuditLog: f.audit, Benchmark: true})
	f.must(f.plane.InstallAccess(t.Context(), controllerManifests+"recommendation-changes.yaml"))
	f.installAutoscalers()
	f.must(f.plane.InstallPolicies(t.Context()))
	f.watch()
	asked := f.serveMetrics(f.running, func(p *corev1.Pod) (int64, int64) {
		if kindOf(p.Labels["app"]) == needsMore {
			return 800, 700
		}
		return 200, 700
	})
	f.startNodes()
	f.answeringScheduler()
	filling := time.Now()
	f.fill()
	began := time.Now()
	t.Logf("%d pods run after %s", *scaleDeployments*scaleReplicas, began.Sub(filling).Round(100*time.Millisecond))
	controller := f.controllerElsewhere()
	f.carriedOut(began)
	done := time.Now()
	f.costs(controller, "to carry it out")
	f.recommended()
	quiet := f.untilQuiet(asked)
	f.costs(controller, "until no pod changed")
	f.tell("to carry it out", began, done)
	f.tell(fmt.Sprintf("in %d rounds in which no pod changes", quietRounds), quiet, time.Now())
	f.stagesHold(began)
	f.ledgerAgrees()
	if again := f.given(); again[restarts] > scaleBurst {
		t.Errorf("%d pods were restarted in the end, and the budget had %d", again[restarts], scaleBurst)
	}
}

func scaleWatch() time.Duration { return watchRounds * *scaleInterval }

// carriedOut returns when all pods that the budget lets be changed have what is recommended.
func (f *fleet) carriedOut(began time.Time) {
	t := f.t
	t.Helper()
	total := *scaleDeployments * scaleReplicas
	var given [kinds]int
	last := 0
	for end := began.Add(*scalePatience); ; time.Sleep(500 * time.Millisecond) {
		given = f.given()
		if given[restarts] > scaleBurst {
			t.Fatalf("%d pods were restarted by a resize, and the budget has %d", given[restarts], scaleBurst)
		}
		if given[needsMore] == f.count(needsMore) && given[hasTooMuch] == f.count(hasTooMuch) && given[restarts] == min(scaleBurst, f.count(restarts)) {
			break
		}
		if got := given[needsMore] + given[hasTooMuch] + given[restarts]; got*10/total > last {
			last = got * 10 / total
			t.Logf("after %s %d of %d pods have what is recommended", time.Since(began).Round(time.Second), got, total)
		}
		if time.Now().After(end) {
			t.Fatalf("pods that have what is recommended, after %s: %v (short of CPU, too much, restarted), of %d, %d and %d", *scalePatience, given, f.count(needsMore), f.count(hasTooMuch), f.count(restarts))
		}
	}
	t.Logf("%d pods of %d Deployments on %d nodes: all that may be changed have what is recommended after %s; %d restarted, of %d that the budget allows",
		total, *scaleDeployments, *scaleNodes, time.Since(began).Round(100*time.Millisecond), given[restarts], scaleBurst)
}

// untilQuiet returns when the controller has left all pods as they are for some rounds, and says since when.
func (f *fleet) untilQuiet(asked *atomic.Int64) (quiet time.Time) {
	f.t.Helper()
	before, rounds := int64(0), int64(0)
	f.waitFor("rounds in which no pod changes, and no room is kept for growth", *scalePatience, func() bool {
		if now := f.asks(); now != before || len(f.places()) > 0 {
			before, rounds, quiet = now, asked.Load(), time.Now()
		}
		return asked.Load() > rounds+quietRounds*scaleNamespaces
	})
	return quiet
}

func kindOf(deployment string) int {
	var i int
	if _, err := fmt.Sscanf(deployment, "app-%d", &i); err != nil {
		return -1
	}
	return i % kinds
}

// count is how many pods of a kind there are.
func (f *fleet) count(kind int) (n int) {
	for i := range *scaleDeployments {
		if i%kinds == kind {
			n += scaleReplicas
		}
	}
	return n
}

// given counts the pods that have what is recommended, by kind.
func (f *fleet) given() (n [kinds]int) {
	f.t.Helper()
	list, err := f.pods.List(labels.Everything())
	f.must(err)
	for _, p := range list {
		asks := p.Spec.Containers[0].Resources.Requests
		switch kind := kindOf(p.Labels["app"]); {
		case kind == needsMore && asks.Cpu().MilliValue() >= 800, kind == hasTooMuch && asks.Memory().Value()>>20 < 2048, kind == restarts && asks.Memory().Value()>>20 < 2048:
			n[kind]++
		}
	}
	return n
}

// asks is a number that changes when a pod is resized.
func (f *fleet) asks() (sum int64) {
	f.t.Helper()
	list, err := f.pods.List(labels.Everything())
	f.must(err)
	for _, p := range list {
		asks := p.Spec.Containers[0].Resources.Requests
		sum += asks.Cpu().MilliValue() + asks.Memory().Value()>>10
	}
	return sum
}

// watch follows the pods.
func (f *fleet) watch() {
	factory := informers.NewSharedInformerFactory(f.client, 0)
	f.pods = factory.Core().V1().Pods().Lister()
	factory.Start(f.t.Context().Done())
	factory.WaitForCacheSync(f.t.Context().Done())
	f.t.Cleanup(factory.Shutdown)
}

func (f *fleet) running(namespace string) []*corev1.Pod {
	list, err := f.pods.Pods(namespace).List(labels.Everything())
	if err != nil {
		return nil
	}
	var out []*corev1.Pod
	for _, p := range list {
		if p.Status.Phase == corev1.PodRunning {
			out = append(out, p)
		}
	}
	return out
}

// startNodes starts nodes whose pods run as soon as they are bound.
func (f *fleet) startNodes() {
	f.t.Helper()
	shapes := make([]hollow.Shape, *scaleNodes)
	for i := range shapes {
		name := fmt.Sprintf("node-%05d", i)
		shapes[i] = hollow.Shape{Name: name, Labels: map[string]string{corev1.LabelHostname: name}, Allocatable: corev1.ResourceList{
			corev1.ResourceCPU: resource.MustParse("16"), corev1.ResourceMemory: resource.MustParse("64Gi"), corev1.ResourcePods: resource.MustParse("110"),
		}}
	}
	nodes, err := hollow.Run(f.t.Context(), f.plane.AdminConfig(), shapes, hollow.Options{Resizes: true})
	f.must(err)
	f.t.Cleanup(nodes.Stop)
}

// fill makes Deployments, their pods and their VerticalPodAutoscalers, and returns when all pods run. Nobody makes pods of Deployments here.
func (f *fleet) fill() {
	f.t.Helper()
	for i := range scaleNamespaces {
		_, err := f.client.CoreV1().Namespaces().Create(f.t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespaceOf(i)}}, metav1.CreateOptions{})
		f.must(err)
	}
	const workers = 16
	var busy sync.WaitGroup
	next := make(chan int)
	errs := make(chan error, *scaleDeployments)
	for range workers {
		busy.Go(func() {
			for i := range next {
				errs <- f.add(i)
			}
		})
	}
	for i := range *scaleDeployments {
		next <- i
	}
	close(next)
	busy.Wait()
	close(errs)
	for err := range errs {
		f.must(err)
	}
	f.waitFor("all pods run", *scalePatience, func() bool {
		n := 0
		for i := range scaleNamespaces {
			n += len(f.running(namespaceOf(i)))
		}
		return n == *scaleDeployments*scaleReplicas
	})
}

func nameOf(i int) string { return fmt.Sprintf("app-%04d", i) }

func namespaceOf(i int) string { return fmt.Sprintf("team-%02d", i%scaleNamespaces) }

// add adds one Deployment with its pods and its VerticalPodAutoscaler.
func (f *fleet) add(i int) error {
	name, in, ctx := nameOf(i), namespaceOf(i), f.t.Context()
	has := corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("500m"), corev1.ResourceMemory: resource.MustParse("2Gi")}
	c := corev1.Container{Name: "app", Image: "none", Resources: corev1.ResourceRequirements{Requests: has}}
	if i%kinds == restarts {
		c.ResizePolicy = []corev1.ContainerResizePolicy{{ResourceName: corev1.ResourceMemory, RestartPolicy: corev1.RestartContainer}}
	}
	selected := map[string]string{"app": name}
	template := corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: selected}, Spec: corev1.PodSpec{SchedulerName: spec.DefaultSchedulerName, Containers: []corev1.Container{c}}}
	d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: appsv1.DeploymentSpec{Replicas: new(int32(scaleReplicas)), Selector: &metav1.LabelSelector{MatchLabels: selected}, Template: template}}
	if _, err := f.client.AppsV1().Deployments(in).Create(ctx, d, metav1.CreateOptions{}); err != nil {
		return err
	}
	for k := range scaleReplicas {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("%s-%d", name, k), Labels: selected}, Spec: template.Spec}
		if _, err := f.client.CoreV1().Pods(in).Create(ctx, pod, metav1.CreateOptions{}); err != nil {
			return err
		}
	}
	v := &vpav1.VerticalPodAutoscaler{}
	text := `{"apiVersion":"autoscaling.k8s.io/v1","kind":"VerticalPodAutoscaler","metadata":{"name":"` + name + `","annotations":{"` + spec.AnnotationRecommendationMode + `":"InPlace"}},
		"spec":{"targetRef":{"apiVersion":"apps/v1","kind":"Deployment","name":"` + name + `"},"updatePolicy":{"updateMode":"Off"},"recommenders":[{"name":"hilbert"}]}}`
	if err := json.Unmarshal([]byte(text), v); err != nil {
		return err
	}
	return f.send("POST", vpaPath+"/namespaces/"+in+"/verticalpodautoscalers", v, nil)
}
