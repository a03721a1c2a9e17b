package systemd

import (
	"context"
	"fmt"
	"os"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/lab/vm"
	"hilbert.dev/hilbert/lab/vm/join"
	"hilbert.dev/hilbert/lab/vm/vmtest"
)

const (
	// root is the project's, from here.
	root = "../../.."
	// agentName is the agent's service in the guest.
	agentName = "hilbert-agent"
	// tick is the agent's, slack what the emulated machine gets beyond it before something counts as late.
	tick, slack = 2 * time.Second, 4 * time.Second
	// start is what the agent gets to start in.
	start = 20 * time.Second
	// patience bounds what takes as long as it takes.
	patience = 5 * time.Minute
	// pause is how often the agent is asked: each answer costs the guest time.
	pause = 400 * time.Millisecond
	// container is the one container of the test bed's pods.
	container = "main"
)

const agentConfiguration = `apiVersion: config.hilbert.dev/v1alpha1
kind: HilbertConfiguration
roles: [agent]
clientConnection: {kubeconfig: /etc/hilbert/kubeconfig}
server: {bindAddress: "0.0.0.0:10462"}
logging: {level: debug}
node: {name: %s, tickInterval: %s, lending: {enabled: false}}
`

func TestMain(m *testing.M) {
	os.Exit(vmtest.Run(m, join.Options{Guest: vm.Options{
		Systemd: true, Forward: []int{join.AgentPort}, BootTimeout: 2 * time.Minute,
	}}))
}

// rig is the node and its agent.
type rig struct {
	*join.Node
	t *testing.T
}

// newRig returns a node whose agent is ready.
func newRig(t *testing.T) *rig {
	t.Helper()
	if testing.Short() {
		t.Skip("the second profile of the guest: not with -short")
	}
	r := &rig{vmtest.Node(t), t}
	t.Cleanup(func() {
		if t.Failed() {
			r.lastWords()
		}
	})
	if err := r.Plane.InstallDefinitions(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := r.startAgent(t.Context()); err != nil {
		t.Fatal(err)
	}
	r.awaitAgent()
	return r
}

// awaitAgent returns when the agent is ready.
func (r *rig) awaitAgent() {
	r.t.Helper()
	begin := time.Now()
	for {
		_, err := r.ask("/readyz")
		if err == nil {
			return
		}
		if time.Since(begin) > patience {
			r.t.Fatalf("the agent is not ready: %v", err)
		}
		time.Sleep(pause)
	}
}

// lastWords are for people who look for the cause of a failure.
func (r *rig) lastWords() {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	for _, name := range []string{agentName, join.Kubelet} {
		text, err := r.Guest.Service(name).Log(ctx)
		if err != nil {
			text = err.Error()
		}
		r.t.Logf("%s said last:\n%s", name, text[max(0, len(text)-5000):])
	}
}

// startAgent runs the agent in the guest.
func (r *rig) startAgent(ctx context.Context) error {
	kubeconfig, err := r.Plane.KubeconfigAt(vm.HostAddress, agentName, "system:masters")
	if err != nil {
		return err
	}
	return r.StartAgent(ctx, root, agentName, string(kubeconfig), fmt.Sprintf(agentConfiguration, r.Name, tick))
}

// ask is the agent's answer at a path.
func (r *rig) ask(path string) (string, error) { return r.AskAgent(r.t.Context(), path) }

// reverted is how many knobs the agent has found changed, and put back.
func (r *rig) reverted() (value float64) {
	r.t.Helper()
	text, err := r.ask("/metrics")
	if err != nil {
		r.t.Fatal(err)
	}
	value, err = join.AgentMetric(text, "hilbert_agent_knobs_reverted_total")
	if err != nil {
		r.t.Fatal(err)
	}
	return value
}

// pod is one of the test bed's that nothing has bound yet.
func (r *rig) pod(name string, level spec.QoSLevel, resources corev1.ResourceRequirements, annotations map[string]string) *corev1.Pod {
	p := r.BusyPod(name, resources, "sleep")
	p.Spec.NodeName, p.Spec.SchedulerName = "", "nobody"
	p.Labels, p.Annotations = map[string]string{spec.LabelQoS: string(level)}, annotations
	return p
}

// run creates a pod, binds it with a promise, and returns it when it runs.
func (r *rig) run(p *corev1.Pod, promise string) *corev1.Pod {
	r.t.Helper()
	ctx, pods := r.t.Context(), r.Client.CoreV1().Pods(p.Namespace)
	created, err := pods.Create(ctx, p, metav1.CreateOptions{})
	if err != nil {
		r.t.Fatal(err)
	}
	binding := &corev1.Binding{
		ObjectMeta: metav1.ObjectMeta{Namespace: p.Namespace, Name: p.Name, UID: created.UID},
		Target:     corev1.ObjectReference{Kind: "Node", Name: r.Name},
	}
	if promise != "" {
		binding.Annotations = map[string]string{spec.AnnotationNUMANodes: promise}
	}
	if err := pods.Bind(ctx, binding, metav1.CreateOptions{}); err != nil {
		r.t.Fatal(err)
	}
	running, err := r.AwaitPod(ctx, created, func(p *corev1.Pod) error {
		if len(p.Status.ContainerStatuses) == 1 && p.Status.ContainerStatuses[0].Ready {
			return nil
		}
		return fmt.Errorf("%s: %+v", p.Status.Phase, p.Status.ContainerStatuses)
	})
	if err != nil {
		r.t.Fatal(err)
	}
	return running
}

func amounts(cpu, memory string) corev1.ResourceList {
	return corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu), corev1.ResourceMemory: resource.MustParse(memory)}
}
