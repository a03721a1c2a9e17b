package agent

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"hilbert.dev/hilbert/api/node/v1alpha1"
	"hilbert.dev/hilbert/api/spec"
)

// TestKubeletRules: a kubelet whose CPU manager is switched on. The agent sees it, says so, and takes what the kubelet gives for given: it
// fights nobody, and the scheduler promises nothing there. Switched off again, all is as before.
func TestKubeletRules(t *testing.T) {
	long(t)
	r := newRig(t)
	err := r.ReconfigureKubelet(t.Context(), map[string]any{"cpuManagerPolicy": "static", "reservedSystemCPUs": "0"})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		r.clear()
		if err := r.ReconfigureKubelet(t.Context(), nil); err != nil {
			t.Fatal(err)
		}
		r.awaitMode(spec.ModeAgent)
		again := r.run(r.dedicated("again", "1", "64Mi", spec.NUMABound))[0]
		r.asPromised(r.sees(), again, 1)
	}()
	r.awaitMode(spec.ModeKubelet)
	own := r.run(r.pod("own", asks("2", "64Mi"), onNode(r.Name)))[0]
	pods := append([]*corev1.Pod{own}, r.run(r.pod("shared", requests("500m")), r.pod("reclaimed", level(spec.QoSReclaimed)))...)
	cpus, _ := r.places(own)
	if cpus.Len() != 2 {
		t.Fatalf("the kubelet gave the Guaranteed pod %v, want two CPUs", cpus)
	}
	// The kubelet writes its own sets each ten seconds.
	before := r.settled(pods)
	r.always(25*time.Second, "nobody fights", func() error {
		k, err := r.look()
		if err != nil {
			return err
		}
		var errs []error
		for i, p := range pods {
			// The pods' sandboxes stay where they are: neither the kubelet nor, where that rules, the agent moves them.
			if has, _, err := k.where(p); err != nil || i > 0 && !has.Intersection(cpus).IsEmpty() {
				errs = append(errs, fmt.Errorf("pod %s has %v, of which the kubelet gave %v to another: %v", p.Name, has, cpus, err))
			}
			if now := k.lives(p); now != before[i] {
				errs = append(errs, fmt.Errorf("was %s, is %s", before[i], now))
			}
		}
		return errors.Join(errs...)
	})
	r.reported("what the kubelet gave", func(o *v1alpha1.CustomNodeResource) error {
		var got []string
		for _, a := range allocated(o, own) {
			got = append(got, a.CPUSet)
		}
		if len(got) != 1 || got[0] != cpus.String() {
			return fmt.Errorf("it has %v, want %v", got, cpus)
		}
		return nil
	})
	r.promisesNothing()
}

// awaitMode returns when the node says who rules it, and its agent is ready again.
func (r *rig) awaitMode(want string) {
	r.t.Helper()
	r.eventually(patience, "the mode is "+want, func() error {
		o, err := r.report()
		if err == nil && o.Status.Mode != want {
			err = fmt.Errorf("it is %s", o.Status.Mode)
		}
		return err
	})
	r.ready()
}

// promisesNothing fails the test unless the scheduler keeps a pod that is bound to NUMA nodes off the node, and says why.
func (r *rig) promisesNothing() {
	r.t.Helper()
	bound := r.create(r.dedicated("bound", "1", "64Mi", spec.NUMABound))
	_, err := r.AwaitPod(r.t.Context(), bound, func(p *corev1.Pod) error {
		for _, c := range p.Status.Conditions {
			if c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse && strings.Contains(c.Message, "kubelet") {
				return nil
			}
		}
		return fmt.Errorf("node %q, conditions %+v", p.Spec.NodeName, p.Status.Conditions)
	})
	if err != nil {
		r.t.Error(err)
	}
}
