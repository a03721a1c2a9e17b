package reclaimed

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/lab/vm/join"
	"hilbert.dev/hilbert/lab/vm/vmtest"
)

const (
	reportsPath = "/apis/node.hilbert.dev/v1alpha1/customnoderesources"
	// patience bounds what takes as long as it takes: the guest is emulated.
	patience = 5 * time.Minute
	// pause is how often it is asked.
	pause = 300 * time.Millisecond
)

func TestMain(m *testing.M) { os.Exit(vmtest.Run(m, join.Options{})) }

// installed is what the tests share beside the node.
var installed struct {
	once sync.Once
	err  error
}

// long leaves a test out of the short form.
func long(t *testing.T) {
	t.Helper()
	if testing.Short() {
		t.Skip("not with -short")
	}
}

// rig is the node, for one test.
type rig struct {
	*join.Node
	t *testing.T
}

// newRig returns a node in a cluster with the definitions and the policies.
func newRig(t *testing.T) *rig {
	t.Helper()
	r := &rig{vmtest.Node(t), t}
	installed.once.Do(func() {
		installed.err = errors.Join(r.Plane.InstallDefinitions(t.Context()), r.Plane.InstallPolicies(t.Context()))
	})
	if installed.err != nil {
		t.Fatal(installed.err)
	}
	r.eventually("the policies are in force", func() error {
		p, err := r.Client.CoreV1().Pods("default").Create(t.Context(), r.pod("probe", "1", "1Mi"), metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		if err == nil && p.Status.QOSClass != corev1.PodQOSBestEffort {
			err = fmt.Errorf("the pod is %s", p.Status.QOSClass)
		}
		return err
	})
	return r
}

// pod is a reclaimed pod as people write it, which nothing has bound.
func (r *rig) pod(name, cpu, memory string) *corev1.Pod {
	amounts := corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu), corev1.ResourceMemory: resource.MustParse(memory)}
	p := r.BusyPod(name, corev1.ResourceRequirements{Requests: amounts, Limits: amounts}, "sleep")
	p.Spec.NodeName, p.Spec.SchedulerName = "", "nobody"
	p.Labels = map[string]string{spec.LabelQoS: string(spec.QoSReclaimed)}
	return p
}

// bind creates a pod and binds it to the node.
func (r *rig) bind(p *corev1.Pod) *corev1.Pod {
	r.t.Helper()
	pods := r.Client.CoreV1().Pods(p.Namespace)
	created, err := pods.Create(r.t.Context(), p, metav1.CreateOptions{})
	if err != nil {
		r.t.Fatal(err)
	}
	binding := &corev1.Binding{
		ObjectMeta: metav1.ObjectMeta{Namespace: p.Namespace, Name: p.Name, UID: created.UID},
		Target:     corev1.ObjectReference{Kind: "Node", Name: r.Name},
	}
	if err := pods.Bind(r.t.Context(), binding, metav1.CreateOptions{}); err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		if err := r.DeletePod(ctx, created); err != nil {
			r.t.Error(err)
		}
	})
	return created
}

// run creates a pod, binds it, and returns it when it is ready.
func (r *rig) run(p *corev1.Pod) *corev1.Pod {
	r.t.Helper()
	running, err := r.AwaitPod(r.t.Context(), r.bind(p), func(p *corev1.Pod) error {
		if p.Status.Phase == corev1.PodFailed || len(p.Status.ContainerStatuses) == 1 && p.Status.ContainerStatuses[0].Ready {
			return nil
		}
		return errors.New(string(p.Status.Phase))
	})
	if err != nil {
		r.t.Fatal(err)
	}
	return running
}

// ended returns what the kubelet says of a pod that it does not take, or takes no longer.
func (r *rig) ended(p *corev1.Pod) (last corev1.PodStatus) {
	r.t.Helper()
	r.eventually("pod "+p.Name+" has ended", func() error {
		got, err := r.Client.CoreV1().Pods(p.Namespace).Get(r.t.Context(), p.Name, metav1.GetOptions{})
		if err == nil && got.Status.Phase != corev1.PodFailed && got.Status.Phase != corev1.PodSucceeded {
			err = fmt.Errorf("it is %s", got.Status.Phase)
		}
		if err == nil {
			last = got.Status
		}
		return err
	})
	return last
}

// life tells one process of a pod from another that was started in its place.
func (r *rig) life(p *corev1.Pod) string {
	r.t.Helper()
	got, err := r.Client.CoreV1().Pods(p.Namespace).Get(r.t.Context(), p.Name, metav1.GetOptions{})
	if err != nil {
		r.t.Fatal(err)
	}
	pids, err := r.PIDs(r.t.Context(), got, "main")
	if err != nil {
		r.t.Fatal(err)
	}
	return fmt.Sprintf("%s, process %v, %d restarts", got.Status.Phase, pids, got.Status.ContainerStatuses[0].RestartCount)
}

// restartKubelet ends the kubelet, starts it again, and returns when a new pod shows that it is at work.
func (r *rig) restartKubelet(next *corev1.Pod) {
	r.t.Helper()
	kubelet := r.Guest.Service(join.Kubelet)
	if err := errors.Join(kubelet.Stop(r.t.Context()), kubelet.Start(r.t.Context())); err != nil {
		r.t.Fatal(err)
	}
	r.run(next)
}

func (r *rig) eventually(what string, check func() error) {
	r.t.Helper()
	begin := time.Now()
	for {
		err := check()
		if err == nil {
			return
		}
		if time.Since(begin) > patience {
			r.t.Fatalf("%s: not after %s: %v", what, patience, err)
		}
		time.Sleep(pause)
	}
}

// TestUnlisted: the kubelet takes a pod that asks for what its node does not list, as BestEffort, and keeps it: over a restart of its own, and
// when the node's headroom, which is in the CustomNodeResource alone, falls to nothing.
func TestUnlisted(t *testing.T) {
	long(t)
	r := newRig(t)
	r.headroom(4000, 2048)
	p := r.run(r.pod("unlisted", "2", "512Mi"))
	asks := p.Spec.Containers[0].Resources.Requests
	if millis, bytes := asks[spec.ResourceReclaimedCPU], asks[spec.ResourceReclaimedMemory]; millis.Value() != 2000 || bytes.Value() != 512<<20 {
		t.Errorf("it asks for %v, want 2000 thousandths and 512 MiB", asks)
	}
	node, err := r.Client.CoreV1().Nodes().Get(t.Context(), r.Name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if _, ok := node.Status.Allocatable[spec.ResourceReclaimedMemory]; ok {
		t.Errorf("the node lists %v", node.Status.Allocatable)
	}
	if p.Status.QOSClass != corev1.PodQOSBestEffort {
		t.Errorf("class: got %s, want BestEffort", p.Status.QOSClass)
	}
	cgroup, err := r.PodCgroup(t.Context(), p)
	if err != nil {
		t.Fatal(err)
	}
	if want := "/sys/fs/cgroup/kubepods/besteffort/pod" + string(p.UID); cgroup != want {
		t.Errorf("cgroup: got %s, want %s", cgroup, want)
	}
	// Amounts of "0" set no bound: who has a say of that is the agent.
	for knob, want := range map[string]string{"memory.max": "max", "cpu.weight": "1", "cpu.max": "max 100000"} {
		if got, err := r.Guest.Field(t.Context(), cgroup+"/"+knob); err != nil || got != want {
			t.Errorf("%s: got %q, %v, want %q", knob, got, err, want)
		}
	}
	before := r.life(p)
	r.headroom(0, 0)
	r.restartKubelet(r.pod("unlisted-next", "2", "512Mi"))
	if after := r.life(p); after != before {
		t.Errorf("after a restart of the kubelet without headroom: got %s, want %s", after, before)
	}
}

// TestListed shows why headroom is not in the Node's status: there the kubelet counts it when it admits a pod, so one that the scheduler bound
// when there was enough is refused when there is not, and what runs is ended by a restart of the kubelet.
func TestListed(t *testing.T) {
	long(t)
	r := newRig(t)
	r.publish("1Gi")
	t.Cleanup(func() { r.publish("") })
	p := r.run(r.pod("listed", "100m", "512Mi"))
	before := r.life(p)
	r.publish("256Mi")
	want := "OutOf" + spec.ResourceReclaimedMemory
	late := r.bind(r.pod("listed-late", "100m", "128Mi"))
	if last := r.ended(late); last.Reason != want {
		t.Errorf("a pod that is bound when headroom has fallen: got %+v, want reason %s", last, want)
	}
	if after := r.life(p); after != before {
		t.Errorf("when headroom falls: got %s, want %s", after, before)
	}
	ordinary := r.BusyPod("ordinary", corev1.ResourceRequirements{}, "sleep")
	ordinary.Spec.NodeName, ordinary.Spec.SchedulerName = "", "nobody"
	r.restartKubelet(ordinary)
	// It ends as Failed, or as Succeeded where its process ends well when it is told to.
	last := r.ended(p)
	t.Logf("what ran, after a restart of the kubelet: %s %s: %s, %+v", last.Phase, last.Reason, last.Message, last.ContainerStatuses)
	events, err := r.Client.CoreV1().Events(p.Namespace).List(t.Context(), metav1.ListOptions{FieldSelector: "involvedObject.name=" + p.Name + ",reason=" + want})
	if err != nil || len(events.Items) == 0 {
		t.Errorf("events of what ran: got %+v, %v, want one of reason %s", events, err, want)
	}
}

// headroom writes the node's CustomNodeResource as an agent would.
func (r *rig) headroom(milliCPU, memoryMiB int64) {
	r.t.Helper()
	ctx, api := r.t.Context(), r.Client.Discovery().RESTClient()
	body := fmt.Sprintf(`{"apiVersion":"node.hilbert.dev/v1alpha1","kind":"CustomNodeResource","metadata":{"name":%q}}`, r.Name)
	err := api.Patch(types.ApplyYAMLPatchType).AbsPath(reportsPath, r.Name).Param("fieldManager", "test").Body([]byte(body)).Do(ctx).Error()
	if err != nil {
		r.t.Fatal(err)
	}
	amounts := spec.ReclaimedAmounts{MilliCPU: milliCPU, MemoryMiB: memoryMiB}
	status, err := json.Marshal(map[string]any{"status": map[string]any{
		"mode": spec.ModeAgent, "threadsPerCore": 1, "observedAt": time.Now().UTC().Format(time.RFC3339),
		"summary":    spec.NodeSummary{FreeMemory: "0Mi"},
		"colocation": spec.Colocation{Headroom: amounts, Suppression: spec.SuppressionNone},
	}})
	if err != nil {
		r.t.Fatal(err)
	}
	if err := api.Patch(types.MergePatchType).AbsPath(reportsPath, r.Name, "status").Body(status).Do(ctx).Error(); err != nil {
		r.t.Fatal(err)
	}
}

// publish has the Node's status list an amount of memory for reclaimed pods, or "" not list it, and waits until the kubelet can have seen it. It
// speaks for the kubelet: a policy refuses it from anybody else.
func (r *rig) publish(memory string) {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	value := "null"
	if memory != "" {
		value = fmt.Sprintf("%q", memory)
	}
	patch := fmt.Sprintf(`{"status":{"capacity":{%q:%s},"allocatable":{%q:%s}}}`, spec.ResourceReclaimedMemory, value, spec.ResourceReclaimedMemory, value)
	send := func(client kubernetes.Interface) error {
		_, err := client.CoreV1().Nodes().Patch(ctx, r.Name, types.StrategicMergePatchType, []byte(patch), metav1.PatchOptions{}, "status")
		return err
	}
	if err := send(r.Client); memory != "" && (err == nil || !strings.Contains(err.Error(), "hilbert-reclaimed-node")) {
		r.t.Errorf("an administrator lists it: got %v, want it refused by hilbert-reclaimed-node", err)
	}
	config := r.Plane.AdminConfig()
	config.Impersonate = rest.ImpersonationConfig{UserName: "system:node:" + r.Name, Groups: []string{"system:nodes", "system:authenticated"}}
	kubelet, err := kubernetes.NewForConfig(config)
	if err == nil {
		err = send(kubelet)
	}
	if err != nil {
		r.t.Fatal(err)
	}
	time.Sleep(2 * time.Second) // the kubelet watches its node
}
