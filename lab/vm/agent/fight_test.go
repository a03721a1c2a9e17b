package agent

import (
	"errors"
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"hilbert.dev/hilbert/api/node/v1alpha1"
	"hilbert.dev/hilbert/api/spec"
)

// TestWrittenByHand: what somebody writes into a cgroup by hand is put back.
func TestWrittenByHand(t *testing.T) {
	r := newRig(t)
	pods, unchanged := r.residents()
	own, err := r.ContainerCgroup(t.Context(), pods[0], container)
	if err != nil {
		t.Fatal(err)
	}
	shared, err := r.PodCgroup(t.Context(), pods[1])
	if err != nil {
		t.Fatal(err)
	}
	idle, err := r.PodCgroup(t.Context(), pods[2])
	if err != nil {
		t.Fatal(err)
	}
	for _, row := range []struct{ knob, value string }{
		{own + "/cpuset.cpus", "0-7"},
		{own + "/cpuset.mems", "0-1"},
		{shared + "/cpuset.cpus", "0-7"},
		{idle + "/cpu.idle", "0"},
	} {
		before, err := r.Guest.Field(t.Context(), row.knob)
		if err != nil {
			t.Fatal(err)
		}
		if err := r.Guest.WriteString(t.Context(), row.knob, row.value); err != nil {
			t.Fatal(err)
		}
		took := r.eventually(tick+slack, row.knob+" is put back", func() error {
			now, err := r.Guest.Field(t.Context(), row.knob)
			if err == nil && now != before {
				err = fmt.Errorf("it is %s, was %s", now, before)
			}
			return err
		})
		t.Logf("%s: %s written over %s, put back after %s", row.knob, row.value, before, took.Round(time.Millisecond))
	}
	if err := unchanged(); err != nil {
		t.Error(err)
	}
	if r.metric("hilbert_agent_knobs_reverted_total") < 4 {
		t.Error("fewer than 4 values are counted as put back")
	}
}

// TestResize: a pod that is resized in place has the CPUs for its new size, in its pod's cgroup and its container's; the kubelet's own
// writes of weight and quota stay.
func TestResize(t *testing.T) {
	long(t)
	r := newRig(t)
	pods := r.run(
		r.pod("ads", asks("1", "64Mi"), annotated(spec.AnnotationPool, "ads")),
		r.dedicated("own", "1", "64Mi", spec.NUMABound),
		r.pod("shared", requests("500m")),
	)
	r.settled(pods)
	for i, row := range []struct{ from, to int }{{1, 2}, {1, 2}} {
		p := pods[i]
		if cpus, _ := r.places(p); cpus.Len() != row.from {
			t.Fatalf("pod %s has %v, want %d CPUs", p.Name, cpus, row.from)
		}
		r.resize(p, fmt.Sprint(row.to))
		r.eventually(patience, "pod "+p.Name+" has what it was resized to", func() error {
			k := r.sees()
			cpus, _, err := k.where(p)
			if err != nil {
				return err
			}
			pod := k.pods[string(p.UID)]
			quota, err := r.Guest.Field(t.Context(), pod.groups[containerID(p)].dir+"/cpu.max")
			if want := fmt.Sprintf("%d00000 100000", row.to); err == nil && quota != want {
				err = fmt.Errorf("its quota is %s, want %s", quota, want)
			}
			if cpus.Len() != row.to || pod.set != cpus || pod.groups[containerID(p)].set != cpus {
				err = errors.Join(err, fmt.Errorf("its tasks may run on %v, pod %v, container %v", cpus, pod.set, pod.groups[containerID(p)].set))
			}
			return errors.Join(err, k.alone(p, cpus))
		})
	}
	lives := r.settled(pods)
	r.always(3*tick, "nobody fights", func() error {
		k, err := r.look()
		if err == nil && k.lives(pods[1]) != lives[1] {
			err = fmt.Errorf("%s; was %s", k.lives(pods[1]), lives[1])
		}
		return err
	})
	now, err := r.Client.CoreV1().Pods(pods[1].Namespace).Get(t.Context(), pods[1].Name, metav1.GetOptions{})
	if err != nil || now.Status.ContainerStatuses[0].RestartCount != 0 {
		t.Errorf("the resized pod: %+v, %v; want no restart", now.Status.ContainerStatuses, err)
	}
	cpus, _ := r.places(pods[1])
	r.reported("the resized pod", func(o *v1alpha1.CustomNodeResource) error {
		if got := allocated(o, pods[1]); len(got) != 1 || got[0].CPUSet != cpus.String() {
			return fmt.Errorf("it has %+v, want %v", got, cpus)
		}
		return nil
	})
}

// resize asks for another number of CPUs in place.
func (r *rig) resize(p *corev1.Pod, cpu string) {
	r.t.Helper()
	patch := fmt.Sprintf(`{"spec":{"containers":[{"name":%q,"resources":{"requests":{"cpu":%q},"limits":{"cpu":%q}}}]}}`, container, cpu, cpu)
	_, err := r.Client.CoreV1().Pods(p.Namespace).Patch(r.t.Context(), p.Name, types.StrategicMergePatchType, []byte(patch), metav1.PatchOptions{}, "resize")
	if err != nil {
		r.t.Fatal(err)
	}
}
