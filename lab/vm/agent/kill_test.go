package agent

import (
	"errors"
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"hilbert.dev/hilbert/api/node/v1alpha1"
	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/lab/vm/join"
)

// residents are a pod of each kind that matters, running, and a check that nothing about them has changed.
func (r *rig) residents() (pods []*corev1.Pod, unchanged func() error) {
	r.t.Helper()
	pods = r.run(
		r.dedicated("own", "1", "64Mi", spec.NUMABound, "sleep"),
		r.pod("shared", requests("500m")),
		r.pod("reclaimed", level(spec.QoSReclaimed)),
	)
	return pods, r.stay(pods)
}

// stay is a check that nothing about pods has changed since they were where they stay.
func (r *rig) stay(pods []*corev1.Pod) (unchanged func() error) {
	r.t.Helper()
	before := r.settled(pods)
	return func() error {
		k, err := r.look()
		if err != nil {
			return err
		}
		var errs []error
		for i, p := range pods {
			if now := k.lives(p); now != before[i] {
				errs = append(errs, fmt.Errorf("was %s, is %s", before[i], now))
			}
		}
		return errors.Join(errs...)
	}
}

// settled is how pods live once that has not changed for more than a tick.
func (r *rig) settled(pods []*corev1.Pod) (lives []string) {
	r.t.Helper()
	since := time.Now()
	r.eventually(patience, "the pods are where they stay", func() error {
		k, now := r.sees(), []string(nil)
		for _, p := range pods {
			if _, _, err := k.where(p); err != nil {
				return err
			}
			now = append(now, k.lives(p))
		}
		if strings.Join(now, ";") != strings.Join(lives, ";") {
			lives, since = now, time.Now()
		}
		if time.Since(since) < 2*tick {
			return errors.New("they have just been moved")
		}
		return nil
	})
	return lives
}

// TestKill: kill -9 of the agent, of containerd and of the kubelet changes nothing that runs, and afterwards all goes on.
func TestKill(t *testing.T) {
	r := newRig(t)
	_, unchanged := r.residents()
	for _, name := range []string{agentName, join.Containerd, join.Kubelet} {
		began, err := r.Guest.Service(name).State(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if _, err := r.Guest.Signal(t.Context(), name, syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		r.eventually(patience, name+" runs again", func() error {
			if err := unchanged(); err != nil {
				t.Fatalf("while %s is away: %v", name, err)
			}
			now, err := r.Guest.Service(name).State(t.Context())
			if err == nil && (now.Starts == began.Starts || now.PID == 0) {
				err = fmt.Errorf("it is %+v", now)
			}
			return err
		})
		if err := r.AwaitContainerd(t.Context()); err != nil {
			t.Fatal(err)
		}
		r.ready()
		r.always(2*tick, "nothing changes after "+name+" has come back", unchanged)
	}
	pod := r.run(r.dedicated("after", "1", "64Mi", spec.NUMABound))[0]
	r.asPromised(r.sees(), pod, 1)
	r.remove(pod)
	r.eventually(tick+slack, "all is as it was", unchanged)
}

// TestKillWhileCreating: an agent that is killed at any moment of a pod's creation; the pod runs in the end, as promised.
func TestKillWhileCreating(t *testing.T) {
	long(t)
	r := newRig(t)
	pods, unchanged := r.residents()
	moments := []time.Duration{0, 500 * time.Millisecond, 1500 * time.Millisecond, 3 * time.Second}
	for i, moment := range moments {
		pod := r.create(r.dedicated(fmt.Sprintf("born-%d", i), "1", "64Mi", spec.NUMABound))
		_, err := r.AwaitPod(t.Context(), pod, func(p *corev1.Pod) error {
			if p.Spec.NodeName == "" {
				return errors.New("it is not bound yet")
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(moment)
		if _, err := r.Guest.Signal(t.Context(), agentName, syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		pod = r.awaitRunning(pod)
		r.ready()
		r.asPromised(r.sees(), pod, 1)
		r.remove(pod)
		r.eventually(tick+slack, "all is as it was", unchanged)
	}
	k := r.sees()
	cpus, _, err := k.where(pods[0])
	if err != nil {
		t.Fatal(err)
	}
	if err := k.alone(pods[0], cpus); err != nil {
		t.Error(err)
	}
}

func (r *rig) awaitRunning(p *corev1.Pod) *corev1.Pod {
	r.t.Helper()
	var last *corev1.Pod
	r.eventually(patience, "pod "+p.Name+" runs", func() (err error) {
		if last, err = r.Client.CoreV1().Pods(p.Namespace).Get(r.t.Context(), p.Name, metav1.GetOptions{}); err != nil {
			return err
		}
		for _, c := range last.Status.Conditions {
			if c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue {
				return nil
			}
		}
		return errors.New(waits(last))
	})
	return last
}

// TestCheckpointLost: without its checkpoint the agent adopts what runs, where it runs.
func TestCheckpointLost(t *testing.T) {
	long(t)
	r := newRig(t)
	pods, unchanged := r.residents()
	agent := r.Guest.Service(agentName)
	if err := agent.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := r.Guest.Remove(t.Context(), agentCheckpoint); err != nil {
		t.Fatal(err)
	}
	if err := agent.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	r.ready()
	r.always(2*tick, "nothing changes", unchanged)
	cpus, _ := r.places(pods[0])
	r.reported("the adopted pod", func(o *v1alpha1.CustomNodeResource) error {
		if got := allocated(o, pods[0]); len(got) != 1 || got[0].CPUSet != cpus.String() {
			return fmt.Errorf("it has %+v, want %v", got, cpus)
		}
		return nil
	})
	if _, err := r.Guest.ReadFile(t.Context(), agentCheckpoint); err != nil {
		t.Errorf("the checkpoint is not there again: %v", err)
	}
	other := r.run(r.dedicated("other", "1", "64Mi", spec.NUMABound))[0]
	k := r.sees()
	r.asPromised(k, other, 1)
	if err := k.alone(pods[0], cpus); err != nil {
		t.Error(err)
	}
}

// TestNRIDisabled: a runtime that comes back without NRI; what runs stays as it is and the node says what is wrong, until it is put right.
func TestNRIDisabled(t *testing.T) {
	long(t)
	r := newRig(t)
	_, unchanged := r.residents()
	const file = "/etc/containerd/conf.d/no-nri.toml"
	restart := func() {
		t.Helper()
		if err := errors.Join(r.Guest.Service(join.Containerd).Restart(t.Context()), r.AwaitContainerd(t.Context())); err != nil {
			t.Fatal(err)
		}
	}
	if err := r.Guest.WriteString(t.Context(), file, "version = 3\n[plugins.'io.containerd.nri.v1.nri']\n  disable = true\n"); err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := r.Guest.Remove(t.Context(), file); err != nil {
			t.Error(err)
		}
		restart()
		r.ready()
		r.always(tick, "nothing changes when NRI is back", unchanged)
	}()
	restart()
	r.reported("the lost runtime", func(o *v1alpha1.CustomNodeResource) error {
		if c := condition(o, spec.ConditionAgentReady); c.Status != metav1.ConditionFalse || c.Reason != spec.ReasonRuntimeLost {
			return fmt.Errorf("condition %+v", c)
		}
		return unchanged()
	})
	if _, err := r.ask("/readyz"); err == nil {
		t.Error("the agent says that it is ready")
	}
}
