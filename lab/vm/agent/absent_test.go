package agent

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"hilbert.dev/hilbert/api/node/v1alpha1"
	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/lab/vm/join"
	"hilbert.dev/hilbert/topology"
)

// TestNoAgent: where no agent is, a pod that needs it does not start and says why; all others start, and are adopted when the agent comes.
func TestNoAgent(t *testing.T) {
	r := newRig(t)
	agent := r.Guest.Service(agentName)
	if err := agent.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	own, reclaimed := r.create(r.dedicated("own", "2", "64Mi", spec.NUMABound)), r.create(r.pod("reclaimed", level(spec.QoSReclaimed)))
	shared := r.run(r.pod("shared", requests("500m")))[0]
	if cpus, _ := r.places(shared); cpus.Len() != 8 {
		t.Errorf("without an agent the shared pod has %v, want all CPUs", cpus)
	}
	for _, p := range []*corev1.Pod{own, reclaimed} {
		_, err := r.AwaitPod(t.Context(), p, func(p *corev1.Pod) error {
			if why := waits(p); !strings.Contains(why, "hilbert") || !strings.Contains(why, "required") {
				return fmt.Errorf("%s waits: %q", p.Name, why)
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		if _, _, err := r.sees().where(p); err == nil {
			t.Errorf("%s runs without an agent", p.Name)
		}
	}
	if err := agent.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	r.ready()
	own, _ = r.awaitRunning(own), r.awaitRunning(reclaimed)
	k := r.sees()
	cpus := r.asPromised(k, own, 2)
	now, _, err := k.where(shared)
	if err != nil || !now.Intersection(cpus).IsEmpty() || now.Has(0) {
		t.Errorf("the adopted pod has %v, %v; want the pool, which has neither %v nor the reserved CPU 0", now, err, cpus)
	}
}

// TestForged: nobody but hilbertd's account writes a promise; an administrator does not either.
func TestForged(t *testing.T) {
	r := newRig(t)
	const key = spec.AnnotationNUMANodes
	pods := r.Client.CoreV1().Pods(metav1.NamespaceDefault)
	refused := func(what string, err error) {
		t.Helper()
		if err == nil || !strings.Contains(err.Error(), "hilbert-") {
			t.Errorf("%s: got %v, want a refusal by the policies", what, err)
		}
	}
	forged := r.dedicated("forged", "1", "64Mi", spec.NUMABound)
	forged.Annotations[key] = "1:1/64Mi"
	_, err := pods.Create(t.Context(), forged, metav1.CreateOptions{})
	refused("a pod that is born with a promise", err)

	plain := r.dedicated("plain", "1", "64Mi", spec.NUMABound)
	plain.Spec.SchedulerName = "by-hand"
	plain = r.create(plain)
	patch := []byte(fmt.Sprintf(`{"metadata":{"annotations":{%q:"1:1/64Mi"}}}`, key))
	_, err = pods.Patch(t.Context(), plain.Name, types.MergePatchType, patch, metav1.PatchOptions{})
	refused("a promise by an update", err)
	_, err = pods.Patch(t.Context(), plain.Name, types.MergePatchType, patch, metav1.PatchOptions{}, "status")
	refused("a promise by an update of the status", err)
	err = pods.Bind(t.Context(), &corev1.Binding{
		ObjectMeta: metav1.ObjectMeta{Name: plain.Name, Annotations: map[string]string{key: "1:1/64Mi"}},
		Target:     corev1.ObjectReference{Kind: "Node", Name: r.Name},
	}, metav1.CreateOptions{})
	refused("a promise in a Binding by an administrator", err)
	if err := r.bind(plain, "1:1/64Mi"); err != nil {
		t.Errorf("a promise in a Binding by hilbertd: %v", err)
	}
	plain = r.awaitRunning(plain)
	r.asPromised(r.sees(), plain, 1)
}

// static writes a pod's manifest for the kubelet, which runs it whatever the API server says, and returns the mirror once it runs.
func (r *rig) static(p *corev1.Pod) *corev1.Pod {
	r.t.Helper()
	p.APIVersion, p.Kind, p.Spec.SchedulerName = "v1", "Pod", ""
	text, err := json.Marshal(p)
	if err != nil {
		r.t.Fatal(err)
	}
	if err := r.Guest.WriteString(r.t.Context(), join.StaticPods+"/"+p.Name+".json", string(text)); err != nil {
		r.t.Fatal(err)
	}
	mirror := p.DeepCopy()
	mirror.Name += "-" + r.Name
	mirror = r.awaitRunning(mirror)
	// Its cgroups are named by what the kubelet calls it.
	mirror.UID = types.UID(mirror.Annotations["kubernetes.io/config.hash"])
	return mirror
}

// promisedByHand runs nothing: it makes a dedicated pod and binds it with a promise that the scheduler would not make.
func (r *rig) promisedByHand(name, cpu, promise string) *corev1.Pod {
	r.t.Helper()
	p := r.dedicated(name, cpu, "64Mi", spec.NUMABound)
	p.Spec.SchedulerName = "by-hand"
	p = r.create(p)
	if err := r.bind(p, promise); err != nil {
		r.t.Fatal(err)
	}
	return p
}

// TestBrokenPromise: a pod that nobody promised anything holds a NUMA node that another was promised. An equivalent NUMA node is taken; where there is
// none, the pod does not start, is evicted, and the NUMA node is closed.
func TestBrokenPromise(t *testing.T) {
	r := newRig(t)
	const moved, broken = `hilbert_agent_promises_total{outcome="moved"}`, `hilbert_agent_promises_total{outcome="broken"}`
	before := map[string]float64{moved: r.metric(moved), broken: r.metric(broken)}
	foreign := r.static(r.dedicated("foreign", "4", "64Mi", spec.NUMABound))
	has, _ := r.places(foreign)
	if has != r.numa(1) {
		t.Fatalf("the static pod has %v, want NUMA node 1, the only one with four free CPUs", has)
	}

	second := r.awaitRunning(r.promisedByHand("moved", "2", "1:2/64Mi"))
	k := r.sees()
	cpus, mems, err := k.where(second)
	if err != nil || cpus.Len() != 2 || !cpus.Minus(r.numa(0)).IsEmpty() || mems != topology.CPUs(0) {
		t.Errorf("the moved pod has %v, memory of %v, %v; want two CPUs and the memory of NUMA node 0", cpus, mems, err)
	}
	if err := errors.Join(k.alone(second, cpus), k.alone(foreign, has)); err != nil {
		t.Error(err)
	}
	r.told(second, spec.ReasonPromiseMoved)
	r.reported("what was moved", func(o *v1alpha1.CustomNodeResource) error {
		if got := allocated(o, second); len(got) != 1 || !got[0].Moved || got[0].CPUSet != cpus.String() {
			return fmt.Errorf("it has %+v, want %v, moved", got, cpus)
		}
		return nil
	})
	if got := r.metric(moved) - before[moved]; got != 1 {
		t.Errorf("%g promises were counted as moved, want 1", got)
	}

	third := r.promisedByHand("broken", "2", "1:2/64Mi") // NUMA node 0 has one left
	r.eventually(patience, "the pod is evicted", func() error {
		now, err := r.Client.CoreV1().Pods(third.Namespace).Get(t.Context(), third.Name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) || err == nil && now.DeletionTimestamp != nil {
			return nil
		}
		return errors.Join(err, errors.New("it is still there"))
	})
	r.told(third, spec.ReasonPromiseBroken)
	r.reported("the closed NUMA node", func(o *v1alpha1.CustomNodeResource) error {
		c := condition(o, spec.ConditionNUMANodesClosed)
		if !numa(o)[1].Closed || numa(o)[0].Closed || c.Status != metav1.ConditionTrue || !strings.Contains(c.Message, third.Name) {
			return fmt.Errorf("NUMA %+v, condition %+v", numa(o), c)
		}
		return nil
	})
	if got := r.metric(broken) - before[broken]; got < 1 {
		t.Error("no promise was counted as broken")
	}
	if now, _ := r.places(foreign); now != has {
		t.Errorf("the static pod has %v, had %v", now, has)
	}
}

// told waits for an event about a pod that has some words.
func (r *rig) told(p *corev1.Pod, reason string, words ...string) {
	r.t.Helper()
	r.eventually(reportSlack, "an event says "+reason+" of "+p.Name, func() error {
		events, err := r.Client.EventsV1().Events(p.Namespace).List(r.t.Context(), metav1.ListOptions{})
		if err != nil {
			return err
		}
		var others []string
		for i := range events.Items {
			e := &events.Items[i]
			switch {
			case e.Regarding.UID != p.UID:
			case e.Reason == reason && !slices.ContainsFunc(words, func(word string) bool { return !strings.Contains(e.Note, word) }):
				r.t.Logf("the event of %s: %s", p.Name, e.Note)
				return nil
			default:
				others = append(others, e.Reason+": "+e.Note)
			}
		}
		return fmt.Errorf("of %d events it has %q", len(events.Items), others)
	})
}
