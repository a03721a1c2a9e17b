package agent

import (
	"context"
	"fmt"
	"os"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/lab/vm"
	"hilbert.dev/hilbert/lab/vm/deploytest"
	"hilbert.dev/hilbert/lab/vm/join"
	"hilbert.dev/hilbert/lab/vm/vmtest"
)

const (
	// root is the project's, from here.
	root = "../../.."
	// agentName is the agent's service in the guest.
	agentName       = "hilbertd"
	agentCheckpoint = "/var/lib/hilbert/checkpoint.json"
	agentLawState   = "/var/lib/hilbert/law-state.json"
	// tick is the agent's, slack what the emulated machine gets beyond it before something counts as late.
	tick, slack = 2 * time.Second, 8 * time.Second
	// patience bounds what takes as long as it takes.
	patience = 5 * time.Minute
	// pause is how often the guest is asked: each answer costs it time.
	pause = 400 * time.Millisecond
)

// agentConfiguration is what deploy/agent.yaml has, but for a shorter tick, and without lending: what moves by itself is for TestLending.
const agentConfiguration = `apiVersion: config.hilbert.dev/v1alpha1
kind: HilbertConfiguration
roles: [agent]
clientConnection: {kubeconfig: /etc/hilbert/kubeconfig}
server: {bindAddress: "0.0.0.0:10462"}
node: {name: %s, tickInterval: %s, lending: {enabled: false}}
`

// shared is what the tests share beside the node.
var shared struct {
	once    sync.Once
	err     error
	cluster *deploytest.Cluster
}

func TestMain(m *testing.M) {
	os.Exit(vmtest.Run(deploytest.Ending{Tests: m, Cluster: &shared.cluster}, join.Options{Guest: vm.Options{Forward: []int{join.AgentPort}}}))
}

// rig is the node, its agent and the scheduler, for one test.
type rig struct {
	*join.Node
	t *testing.T
}

// long leaves a test out of the short form, which is to take a few minutes.
func long(t *testing.T) {
	t.Helper()
	if testing.Short() {
		t.Skip("not with -short")
	}
}

// newRig returns a node without pods whose agent is ready.
func newRig(t *testing.T) *rig {
	r := &rig{vmtest.Node(t), t}
	shared.once.Do(func() { shared.err = r.install() })
	if shared.err != nil {
		t.Fatal(shared.err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			r.lastWords()
		}
	})
	r.recover()
	return r
}

// recover undoes what a test before this one has left.
func (r *rig) recover() {
	r.t.Helper()
	for _, name := range []string{join.Containerd, join.Kubelet, agentName} {
		if err := r.Guest.Service(name).Start(r.t.Context()); err != nil {
			r.t.Fatal(err)
		}
	}
	if err := r.AwaitContainerd(r.t.Context()); err != nil {
		r.t.Fatal(err)
	}
	r.clear()
	r.ready()
	r.eventually(reportSlack, "the agent has reported", func() error {
		o, err := r.report()
		if err == nil && o.Status.Mode != spec.ModeAgent {
			err = fmt.Errorf("mode %q", o.Status.Mode)
		}
		return err
	})
	r.eventually(4*tick+slack, "the agent has forgotten the pods", func() error {
		if n := r.metric("hilbert_agent_pods"); n > 0 {
			return fmt.Errorf("it has %g", n)
		}
		return nil
	})
}

// lastWords are for people who look for the cause of a failure.
func (r *rig) lastWords() {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	for _, name := range []string{agentName, join.Containerd, join.Kubelet} {
		text, err := r.Guest.Service(name).Log(ctx)
		if err != nil {
			text = err.Error()
		}
		r.t.Logf("%s said last:\n%s", name, text[max(0, len(text)-8000):])
	}
	if o, err := r.reportOf(ctx); err == nil {
		r.t.Logf("reported: NUMA %+v, pools %+v, conditions %+v, colocation %+v, devices %+v", numa(o), o.Status.Pools, o.Status.Conditions,
			o.Status.Colocation, o.Status.Devices)
	}
	sets, err := r.Guest.Shell(ctx, "cd "+kubepods+" && grep -H . $(find . -name cpuset.cpus -o -name cpuset.cpus.effective) | sort")
	r.t.Logf("cpusets:\n%s%v", sets, err)
}

// install makes the cluster and the node what deploy/ makes them.
func (r *rig) install() error {
	ctx := r.t.Context()
	shared.cluster = &deploytest.Cluster{Node: r.Node, Root: root}
	if err := shared.cluster.Install(ctx); err != nil {
		return err
	}
	return shared.cluster.StartAgent(ctx, agentName, fmt.Sprintf(agentConfiguration, r.Name, tick))
}

// ready returns when the agent says that the runtime has told it what runs.
func (r *rig) ready() {
	r.t.Helper()
	r.eventually(patience, "the agent is ready", func() error {
		_, err := r.ask("/readyz")
		return err
	})
}

// ask is the agent's answer at a path.
func (r *rig) ask(path string) (string, error) { return r.AskAgent(r.t.Context(), path) }

// metric is a number of the agent's; 0 where there is none of that name yet.
func (r *rig) metric(name string) (value float64) {
	r.t.Helper()
	var text string
	r.eventually(patience, "the agent tells its metrics", func() (err error) {
		text, err = r.ask("/metrics")
		return err
	})
	value, err := join.AgentMetric(text, name)
	if err != nil {
		r.t.Fatal(err)
	}
	return value
}

// eventually returns when check has no error, and says how long that took. It fails the test after a time.
func (r *rig) eventually(within time.Duration, what string, check func() error) time.Duration {
	r.t.Helper()
	begin := time.Now()
	for {
		err := check()
		took := time.Since(begin)
		if err == nil {
			return took
		}
		if took > within {
			r.t.Fatalf("%s: not within %s: %v", what, within, err)
		}
		time.Sleep(pause)
	}
}

// always fails the test if check has an error at any time of a while.
func (r *rig) always(during time.Duration, what string, check func() error) {
	r.t.Helper()
	for begin := time.Now(); time.Since(begin) < during; time.Sleep(pause) {
		if err := check(); err != nil {
			r.t.Fatalf("%s: no longer after %s: %v", what, time.Since(begin).Round(time.Millisecond), err)
		}
	}
}

// clear deletes all pods, and what static pods there are.
func (r *rig) clear() {
	r.t.Helper()
	ctx := r.t.Context()
	if err := r.removeStatic(ctx); err != nil {
		r.t.Fatal(err)
	}
	pods, err := r.Client.CoreV1().Pods(metav1.NamespaceAll).List(ctx, metav1.ListOptions{})
	if err != nil {
		r.t.Fatal(err)
	}
	r.remove(pointers(pods.Items)...)
	r.eventually(patience, "no pod is left in the kernel", func() error {
		k, err := r.look()
		if err == nil && len(k.pods) > 0 {
			err = fmt.Errorf("%d pods are left", len(k.pods))
		}
		return err
	})
}

func pointers(pods []corev1.Pod) (out []*corev1.Pod) {
	for i := range pods {
		out = append(out, &pods[i])
	}
	return out
}
