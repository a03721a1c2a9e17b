package chart

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/lab/bench"
	"hilbert.dev/hilbert/lab/vm/join"
	"hilbert.dev/hilbert/lab/vm/vmtest"
	"hilbert.dev/hilbert/topology"
)

const (
	namespace = "hilbert-system"
	// patience bounds what takes as long as it takes: the guest is emulated.
	patience = 8 * time.Minute
	pause    = 500 * time.Millisecond
	// schedulerDir has this program run kube-scheduler with the files of a directory: upstream allows one component a process.
	schedulerDir = "HILBERT_CHART_SCHEDULER"
)

// values are the chart's defaults, but for agents and lending; reports and loans as soon as a test wants them; and thresholds of waiting that are never reached: the guest's
// processors wait for the host's, by what else runs there.
const values = `scheduler:
  podLabels: {hilbert.dev/qos-level: system_cores}
agent:
  enabled: true
  lending: {enabled: true}
  config:
    node:
      writeInterval: 1s
      lending: {refreshInterval: 10s}
      cpu: {margin: 0.5, riseAfter: 5s, shrinkAfter: 5s, calmAfter: 5s, delayQuiet: 50, delayLow: 50, delayHigh: 60, delayCritical: 70,
        pressureLow: 2, pressureHigh: 2, pressureCritical: 2}
`

func TestMain(m *testing.M) {
	if dir := os.Getenv(schedulerDir); dir != "" {
		ctx, cancel := bench.EndWithParent(context.Background(), os.Stdin)
		err := bench.RunKubeScheduler(ctx, filepath.Join(dir, "kubeconfig"), dir, "", io.Discard)
		cancel()
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(vmtest.Run(m, join.Options{Pods: true}))
}

// rig is the node, for the test.
type rig struct {
	*join.Node
	t                       *testing.T
	kubeconfig, helmProgram string
}

func newRig(t *testing.T) *rig {
	t.Helper()
	r := &rig{Node: vmtest.Node(t), t: t, kubeconfig: filepath.Join(t.TempDir(), "kubeconfig")}
	r.must(r.Plane.WriteKubeconfig(r.kubeconfig))
	lines := strings.Fields(run(t, "go", "-C", filepath.Join(root, "tools", "release"), "tool", "-n", "helm"))
	r.helmProgram = lines[len(lines)-1]
	r.startScheduler()
	t.Cleanup(func() {
		if t.Failed() {
			r.lastWords()
		}
	})
	return r
}

// startScheduler runs kube-scheduler, for the pods of Hilbert itself.
func (r *rig) startScheduler() {
	r.t.Helper()
	dir := r.t.TempDir()
	r.must(r.Plane.WriteKubeconfig(filepath.Join(dir, "kubeconfig")))
	self, err := os.Executable()
	r.must(err)
	command := exec.Command(self)
	command.Env = append(os.Environ(), schedulerDir+"="+dir)
	log, err := os.Create(filepath.Join(dir, "log"))
	r.must(err)
	defer log.Close()
	command.Stderr, command.SysProcAttr = log, &syscall.SysProcAttr{Setpgid: true}
	stdin, err := command.StdinPipe()
	r.must(err)
	r.must(command.Start())
	r.t.Cleanup(func() {
		_ = stdin.Close() // which ends it
		_ = command.Wait()
		if text, _ := os.ReadFile(log.Name()); r.t.Failed() {
			r.t.Logf("kube-scheduler said last:\n%s", text[max(0, len(text)-2000):])
		}
	})
}

func (r *rig) must(err error) {
	r.t.Helper()
	if err != nil {
		r.t.Fatal(err)
	}
}

func (r *rig) eventually(what string, check func() error) {
	r.t.Helper()
	begin := time.Now()
	for {
		err := check()
		if err == nil {
			r.t.Logf("%s after %.0f s", what, time.Since(begin).Seconds())
			return
		}
		if time.Since(begin) > patience {
			r.t.Fatalf("%s: not after %s: %v", what, patience, err)
		}
		time.Sleep(pause)
	}
}

// lastWords are for people who look for the cause of a failure.
func (r *rig) lastWords() {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(r.t.Context()), time.Minute)
	defer cancel()
	pods, err := r.Client.CoreV1().Pods("").List(ctx, metav1.ListOptions{})
	if err != nil {
		r.t.Log(err)
		return
	}
	for i := range pods.Items {
		p := &pods.Items[i]
		status, _ := json.Marshal(p.Status)
		r.t.Logf("pod %s: %s", p.Name, status)
		for _, c := range append(p.Spec.InitContainers, p.Spec.Containers...) {
			if text, err := r.Logs(ctx, p, c.Name); err == nil && p.Namespace == namespace {
				r.t.Logf("%s/%s said last:\n%s", p.Name, c.Name, text[max(0, len(text)-4000):])
			}
		}
	}
	events, err := r.Client.CoreV1().Events("").List(ctx, metav1.ListOptions{})
	if err == nil {
		for i := range events.Items {
			if e := &events.Items[i]; e.Type != corev1.EventTypeNormal {
				r.t.Logf("event: %s %s: %s: %s (%d)", e.InvolvedObject.Kind, e.InvolvedObject.Name, e.Reason, e.Message, e.Count)
			}
		}
	}
	text, _ := r.Guest.Service(join.Kubelet).Log(ctx)
	r.t.Logf("the kubelet said last:\n%s", text[max(0, len(text)-3000):])
}

// pod is one that Hilbert places.
func (r *rig) pod(name string, level spec.QoSLevel, amounts corev1.ResourceList) *corev1.Pod {
	p := r.BusyPod(name, corev1.ResourceRequirements{Requests: amounts, Limits: amounts}, "sleep")
	p.Spec.NodeName, p.Spec.SchedulerName = "", "hilbert"
	p.Labels = map[string]string{spec.LabelQoS: string(level)}
	return p
}

// start creates a pod and returns it when it runs.
func (r *rig) start(p *corev1.Pod) *corev1.Pod {
	r.t.Helper()
	begin := time.Now()
	pods := r.Client.CoreV1().Pods(p.Namespace)
	_, err := pods.Create(r.t.Context(), p, metav1.CreateOptions{})
	r.must(err)
	r.eventually("pod "+p.Name+" is ready", func() error {
		if p, err = pods.Get(r.t.Context(), p.Name, metav1.GetOptions{}); err != nil {
			return err
		}
		if s := p.Status.ContainerStatuses; len(s) == 1 && s[0].Ready {
			return nil
		}
		said, _ := json.Marshal(p.Status.Conditions)
		return fmt.Errorf("it is %s, %.0f s after its creation: %s", p.Status.Phase, time.Since(begin).Seconds(), said)
	})
	return p
}

// runs waits until a release is what runs: its scheduler answers through the aggregated API, and its agents have the node.
func (r *rig) runs(hilbert string, want release) {
	r.t.Helper()
	r.eventually(want.version+" answers through the API server", func() error {
		out, err := try(r.t.Context(), hilbert, "version", "-o", "json", "--kubeconfig", r.kubeconfig)
		if err == nil && strings.Count(out, `"`+want.version+`"`) == 0 {
			err = errors.New(out)
		}
		return err
	})
	pods, err := r.Client.CoreV1().Pods(namespace).List(r.t.Context(), metav1.ListOptions{})
	r.must(err)
	images := map[string]int{}
	for i := range pods.Items {
		p := &pods.Items[i]
		if p.DeletionTimestamp == nil {
			images[p.Labels["app.kubernetes.io/name"]+" "+p.Spec.Containers[0].Image[strings.LastIndexByte(p.Spec.Containers[0].Image, ':')+1:]]++
		}
	}
	events, err := r.Client.CoreV1().Events("").List(r.t.Context(), metav1.ListOptions{})
	r.must(err)
	for i := range events.Items {
		if e := &events.Items[i]; e.Reason == spec.ReasonKnobRefused {
			r.t.Errorf("%s %s: %s: %s", e.InvolvedObject.Kind, e.InvolvedObject.Name, e.Reason, e.Message)
		}
	}
	// An upgrade leaves the watchdog alone.
	if images["hilbertd "+want.version] != 2 || images["hilbert-agent "+want.version] != 1 || images["hilbert-watchdog v0.1.0"] != 1 || len(images) != 3 {
		r.t.Errorf("of %s there run %v", want.version, images)
	}
}

// kept are objects that stay: the definitions, with what the API server makes of them, and the namespace, with what every namespace has.
var kept = []string{
	"CustomResourceDefinition /", "APIService /v1alpha1.node.hilbert.dev", "APIService /v1alpha1.scheduling.hilbert.dev",
	"Namespace /" + namespace, "ConfigMap " + namespace + "/kube-root-ca.crt", "ServiceAccount " + namespace + "/default",
}

// TestChart is the life of a release on a node.
func TestChart(t *testing.T) {
	if testing.Short() {
		t.Skip("not with -short")
	}
	first, second := makeRelease(t, "v0.1.0"), makeRelease(t, "v0.2.0")
	hilbert := second.command(t)
	r := newRig(t)
	r.load(first)
	r.load(second)
	valuesFile := filepath.Join(t.TempDir(), "values.yaml")
	r.must(os.WriteFile(valuesFile, []byte(values), 0o600))
	_, err := r.Client.CoreV1().Nodes().Patch(t.Context(), r.Name, types.MergePatchType, []byte(`{"metadata":{"labels":{"hilbert.dev/agent":"true"}}}`), metav1.PatchOptions{})
	r.must(err)
	dedicatedAllowed := []byte(`{"metadata":{"labels":{"hilbert.dev/allow-dedicated-cores":"true"}}}`)
	_, err = r.Client.CoreV1().Namespaces().Patch(t.Context(), metav1.NamespaceDefault, types.MergePatchType, dedicatedAllowed, metav1.PatchOptions{})
	r.must(err)

	old := r.BusyPod("old", corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1")}}, "sleep")
	old.Spec.NodeName = "" // the standard scheduler's
	old = r.start(old)
	traceBefore, objectsBefore, oldLife := r.trace(), r.objects(), r.life(old)

	r.helm("install", "hilbert-crds", first.chart("hilbert-crds"), "--create-namespace")
	r.helm("install", "hilbert", first.chart("hilbert"), "--values", valuesFile, "--wait")
	r.runs(hilbert, first)

	dedicated := r.start(r.pod("dedicated", spec.QoSDedicated, corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1"), corev1.ResourceMemory: resource.MustParse("64Mi")}))
	reclaimed := r.start(r.pod("reclaimed", spec.QoSReclaimed, corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("500m"), corev1.ResourceMemory: resource.MustParse("64Mi")}))
	lent := func() error {
		values, err := r.values(t.Context(), reclaimed)
		if err != nil {
			return err
		}
		cpus, err := topology.ParseCPUSet(values["cpuset.cpus.effective"])
		if err == nil && cpus.Len() <= 2 {
			err = fmt.Errorf("it has the CPUs %v", cpus)
		}
		return err
	}
	r.eventually("the reclaimed pod is lent cores beyond the floor", lent)
	values, err := r.values(t.Context(), dedicated)
	r.must(err)
	if cpus, err := topology.ParseCPUSet(values["cpuset.cpus.effective"]); err != nil || cpus.Len() != 1 {
		t.Errorf("the dedicated pod has the CPUs %v, %v, want one", cpus, err)
	}
	said := run(t, hilbert, "explain", "pod", "reclaimed", "--kubeconfig", r.kubeconfig)
	t.Logf("hilbert explain pod reclaimed:\n%s", said)

	lives := func() string { return strings.Join([]string{r.life(old), r.life(dedicated), r.life(reclaimed)}, "\n") }
	before := lives()
	undisturbed := func(during string, change func()) {
		t.Helper()
		// How many CPUs the reclaimed pod has may change at any time, and so whether it is idle.
		w := r.watch(map[*corev1.Pod][]string{dedicated: steady, reclaimed: {"memory.max"}})
		change()
		w.end(t, during)
		if after := lives(); after != before {
			t.Errorf("%s: pods were\n%s\nand are\n%s", during, before, after)
		}
		r.eventually("cores are lent", lent)
	}
	undisturbed("upgrade", func() {
		r.helm("upgrade", "hilbert-crds", second.chart("hilbert-crds"), "--reset-then-reuse-values")
		r.helm("upgrade", "hilbert", second.chart("hilbert"), "--reset-then-reuse-values", "--wait")
		r.runs(hilbert, second)
	})
	undisturbed("rollback", func() {
		r.helm("rollback", "hilbert", "--wait")
		r.runs(hilbert, first)
	})

	agentsGone := func(by string) {
		t.Helper()
		if after := lives(); after != before {
			t.Errorf("%s: pods were\n%s\nand are\n%s", by, before, after)
		}
		for _, p := range []*corev1.Pod{dedicated, reclaimed} {
			values, err := r.values(t.Context(), p)
			r.must(err)
			if values["cpuset.cpus.effective"] != "0-7" || values["cpuset.mems.effective"] != "0-1" || values["cpu.idle"] != "0" {
				t.Errorf("%s: pod %s has %v", by, p.Name, values)
			}
		}
		if err := r.left(traceBefore, false); err != nil {
			t.Errorf("%s: %v", by, err)
		}
		for object := range r.objects() {
			if kind, _, _ := strings.Cut(object, " "); kind == "CustomNodeResource" || kind == "DaemonSet" || kind == "Job" {
				t.Errorf("%s: there is %s", by, object)
			}
		}
	}
	r.helm("upgrade", "hilbert", first.chart("hilbert"), "--reset-then-reuse-values", "--set", "agent.enabled=false", "--wait")
	agentsGone("agents are switched off")
	r.helm("upgrade", "hilbert", first.chart("hilbert"), "--reset-then-reuse-values", "--set", "agent.enabled=true", "--wait")
	r.runs(hilbert, first)
	r.eventually("cores are lent", lent)
	r.helm("uninstall", "hilbert", "--wait")
	r.helm("uninstall", "hilbert-crds")
	agentsGone("uninstall")
	for _, p := range []*corev1.Pod{dedicated, reclaimed} {
		r.must(r.DeletePod(t.Context(), p))
	}
	r.eventually("the node is as it was", func() error { return r.left(traceBefore, true) })
	r.eventually("the API server has what it had, the definitions, and the namespace", func() error {
		var left []string
		for _, line := range vmtest.Changed(objectsBefore, r.objects()) {
			if !slices.ContainsFunc(kept, func(prefix string) bool { return strings.HasPrefix(line, "+ "+prefix) }) {
				left = append(left, line)
			}
		}
		if len(left) > 0 {
			return fmt.Errorf("there differ:\n%s", strings.Join(left, "\n"))
		}
		return nil
	})
	if now := r.life(old); now != oldLife {
		t.Errorf("the pod that was there first was %s and is %s", oldLife, now)
	}
}
