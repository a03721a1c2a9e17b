package agent

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"hilbert.dev/hilbert/api/node/v1alpha1"
	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/control/config"
	"hilbert.dev/hilbert/lab/vm/deploytest"
)

const (
	configurationsPath = "/apis/node.hilbert.dev/v1alpha1/nodeconfigurations"
	// The weight of a shared pod on disks: by the agent's file, and as the node is told.
	fileWeight, toldWeight = 400, 321
	// longTick is a tick that no answer of the guest takes as long as: what is seen is of the tick that it is counted in.
	longTick = "20s"
)

// TestConfiguration: what a NodeConfiguration says moves a knob in the kernel within one tick of the agent, and neither the agent nor a pod starts again for it. What the agent
// cannot work with it refuses, says why, and runs on with the last good one, over a start of its own too.
func TestConfiguration(t *testing.T) {
	long(t)
	r := newRig(t)
	if err := shared.cluster.InstallController(t.Context()); err != nil {
		t.Fatal(err)
	}
	stop := r.startController()
	r.reconfigure(fmt.Sprintf("tickInterval: %s, lending: {enabled: false}", tick), "tickInterval: "+longTick+", writeInterval: 1s, kubeletThresholds: File, lending: {refreshInterval: 10s}")
	pod := r.run(r.pod("web", requests("500m")))[0]
	r.hasWeight(pod, fileWeight)
	before := r.lifetimes(pod)

	good := written(t, map[string]any{"io": map[string]any{"weights": map[string]any{"shared": toldWeight}}})
	r.writeConfiguration(good)
	r.eventually(reportSlack, "the node is told", func() error {
		o, err := r.report()
		if err == nil && (o.Spec.Configuration == nil || o.Spec.Configuration.Hash != good.Hash()) {
			err = fmt.Errorf("it is told %+v", o.Spec.Configuration)
		}
		return err
	})
	ticks := r.metric("hilbert_agent_ticks_total")
	took := r.hasWeight(pod, toldWeight)
	if more := r.metric("hilbert_agent_ticks_total") - ticks; more > 1 {
		t.Errorf("the knob moved %g ticks after the node was told, want 1 at most", more)
	}
	t.Logf("the knob moved %.1f s after the node was seen to be told; a tick is %s", took.Seconds(), longTick)
	r.reported("it is in force", applied(good, good, ""))
	r.configurationSays("it has reached the node", func(o *v1alpha1.NodeConfiguration) error {
		if o.Status.Rollout != nil || o.Status.Nodes.Applied != 1 {
			return errors.New("not yet")
		}
		return nil
	})

	// The controller tells nobody what no agent can work with.
	r.writeConfiguration(written(t, map[string]any{"step": 99}))
	r.configurationSays("it is not valid", func(o *v1alpha1.NodeConfiguration) error {
		for _, c := range o.Status.Conditions {
			if c.Type == config.ConditionValid && c.Status == metav1.ConditionFalse && strings.Contains(c.Message, "lending.step") {
				return nil
			}
		}
		return errors.New("no condition says so")
	})
	r.reported("nothing has changed", applied(good, good, ""))

	// A controller of another version might.
	stop()
	poison := written(t, map[string]any{"step": 99, "io": map[string]any{"weights": map[string]any{"shared": 999}}})
	r.tell(poison)
	r.reported("it is refused", applied(poison, good, "node.lending.step"))
	if after := r.lifetimes(pod); after != before {
		t.Errorf("was\n%s\nand is\n%s", before, after)
	}
	if err := r.Guest.Service(agentName).Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	r.ready()
	r.reported("it is refused by the agent that was started", applied(poison, good, "node.lending.step"))
	cgroup := r.cgroup(pod)
	if err := r.Guest.WriteString(t.Context(), cgroup+"/io.weight", "77"); err != nil { // so that the agent has something to do
		t.Fatal(err)
	}
	r.hasWeight(pod, toldWeight)

	// Without a NodeConfiguration the file counts.
	r.startController()
	if err := r.configurations("DELETE", nil); err != nil {
		t.Fatal(err)
	}
	r.hasWeight(pod, fileWeight)
	r.reported("nothing is told", func(o *v1alpha1.CustomNodeResource) error {
		if o.Status.Configuration != nil {
			return fmt.Errorf("it says %+v", o.Status.Configuration)
		}
		return nil
	})
	r.remove(pod)
}

// written are parameters of lending as somebody writes them.
func written(t *testing.T, lending map[string]any) spec.WrittenParameters {
	t.Helper()
	text, err := json.Marshal(map[string]any{"lending": lending})
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// applied holds a report to what the agent was told last, what is in force, and why that is another.
func applied(told, inForce spec.WrittenParameters, fault string) func(*v1alpha1.CustomNodeResource) error {
	return func(o *v1alpha1.CustomNodeResource) error {
		a := o.Status.Configuration
		if a == nil || a.Hash != told.Hash() || a.InForce != inForce.Hash() || (fault == "") != (a.Error == "") || !strings.Contains(a.Error, fault) {
			return fmt.Errorf("it says %+v", a)
		}
		return nil
	}
}

// startController runs the controller until stop, or until the test ends.
func (r *rig) startController(changes ...func(*spec.Configuration)) (stop func()) {
	r.t.Helper()
	end, err := shared.cluster.StartController(r.t.Context(), changes...)
	if err != nil {
		r.t.Fatal(err)
	}
	ended := false
	stop = func() {
		if ended {
			return
		}
		ended = true
		if err := end(); err != nil {
			r.t.Error(err)
		}
	}
	r.t.Cleanup(stop)
	return stop
}

// configurations asks for the one NodeConfiguration of this test.
func (r *rig) configurations(verb string, answer any) error {
	body, err := r.Client.Discovery().RESTClient().Verb(verb).AbsPath(configurationsPath, "weights").SetHeader("Accept", "application/json").DoRaw(r.t.Context())
	if err != nil || answer == nil {
		return err
	}
	return json.Unmarshal(body, answer)
}

// writeConfiguration has the NodeConfiguration say parameters, for the only node at once.
func (r *rig) writeConfiguration(p spec.WrittenParameters) {
	r.t.Helper()
	o := &v1alpha1.NodeConfiguration{
		TypeMeta: metav1.TypeMeta{APIVersion: "node.hilbert.dev/v1alpha1", Kind: spec.NodeConfigurationKind}, ObjectMeta: metav1.ObjectMeta{Name: "weights"},
		Spec: spec.NodeConfiguration{NodeNames: []string{r.Name}, Parameters: p, Rollout: &spec.ConfigurationRollout{
			Steps: []int{100}, Pause: new(spec.Duration), Gate: &spec.ConfigurationGate{Disabled: true},
		}},
	}
	body, err := json.Marshal(o)
	if err != nil {
		r.t.Fatal(err)
	}
	_, err = r.Client.Discovery().RESTClient().Patch(types.ApplyPatchType).AbsPath(configurationsPath, "weights").Param("fieldManager", "test").Param("force", "true").
		Body(body).DoRaw(r.t.Context())
	if err != nil {
		r.t.Fatal(err)
	}
}

// configurationSays returns when the NodeConfiguration says something.
func (r *rig) configurationSays(what string, check func(*v1alpha1.NodeConfiguration) error) {
	r.t.Helper()
	r.eventually(reportSlack, "the NodeConfiguration says: "+what, func() error {
		var o v1alpha1.NodeConfiguration
		err := r.configurations("GET", &o)
		if err == nil {
			if err = check(&o); err != nil {
				err = fmt.Errorf("%w: %+v", err, o.Status)
			}
		}
		return err
	})
}

// tell tells the node parameters as the controller's account.
func (r *rig) tell(p spec.WrittenParameters) {
	r.t.Helper()
	client, err := r.as(deploytest.Controller, "system:serviceaccounts")
	if err != nil {
		r.t.Fatal(err)
	}
	patch, err := json.Marshal([]map[string]any{{"op": "add", "path": "/spec/configuration", "value": spec.WantedConfiguration{Name: "weights", Revision: "poison", Hash: p.Hash(), Parameters: p}}})
	if err != nil {
		r.t.Fatal(err)
	}
	var api rest.Interface = client.Discovery().RESTClient()
	if _, err := api.Patch(types.JSONPatchType).AbsPath(reportsPath, r.Name).Body(patch).DoRaw(r.t.Context()); err != nil {
		r.t.Fatal(err)
	}
}

func (r *rig) cgroup(p *corev1.Pod) string {
	r.t.Helper()
	cgroup, err := r.PodCgroup(r.t.Context(), p)
	if err != nil {
		r.t.Fatal(err)
	}
	return cgroup
}

// hasWeight returns when the kernel weighs what a pod does to disks so.
func (r *rig) hasWeight(p *corev1.Pod, want int) (took time.Duration) {
	r.t.Helper()
	cgroup := r.cgroup(p)
	return r.eventually(patience, fmt.Sprintf("the pod weighs %d on disks", want), func() error {
		text, err := r.Guest.ReadFile(r.t.Context(), cgroup+"/io.weight")
		if first, _, _ := strings.Cut(text, "\n"); err == nil && first != fmt.Sprintf("default %d", want) {
			err = fmt.Errorf("io.weight is %q", text)
		}
		return err
	})
}

// lifetimes are of the agent and of a pod: which processes they are.
func (r *rig) lifetimes(p *corev1.Pod) string {
	r.t.Helper()
	agent, err := r.Guest.Service(agentName).State(r.t.Context())
	if err != nil {
		r.t.Fatal(err)
	}
	now, err := r.Client.CoreV1().Pods(p.Namespace).Get(r.t.Context(), p.Name, metav1.GetOptions{})
	if err != nil {
		r.t.Fatal(err)
	}
	pids, err := r.PIDs(r.t.Context(), p, container)
	if err != nil {
		r.t.Fatal(err)
	}
	return fmt.Sprintf("agent %d, started %d times; pod %v, %d restarts", agent.PID, agent.Starts, pids, now.Status.ContainerStatuses[0].RestartCount)
}
