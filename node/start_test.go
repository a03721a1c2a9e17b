package node

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/node/runtime"
	"hilbert.dev/hilbert/topology"
)

// A container starts when it has what it was given, and not else.
var errKernel = errors.New("the kernel does not take it")

func TestStartIsVerified(t *testing.T) {
	w := newWorld(t)
	w.start()
	s := sandbox("own", 2, "qos=dedicated_cores")
	a := w.mustRun(s)
	c := w.running["own"].containers[0]
	if err := w.agent.StartContainer(t.Context(), s, c); err != nil {
		t.Errorf("a container that has all: %v", err)
	}
	for _, wrong := range []struct {
		what string
		c    func(runtime.Container) runtime.Container
		cpus string
	}{
		{"made without Hilbert", func(c runtime.Container) runtime.Container { c.Mark = ""; return c }, a.CPUs.String()},
		{"made without Hilbert", func(c runtime.Container) runtime.Container {
			c.Mark = runtime.Mark{Container: "other"}.String()
			return c
		}, a.CPUs.String()},
		{"NVIDIA_VISIBLE_DEVICES", func(c runtime.Container) runtime.Container {
			c.Mark = runtime.Mark{Container: c.ID, Env: []string{"NVIDIA_VISIBLE_DEVICES=void"}}.String()
			c.Env = []string{"NVIDIA_VISIBLE_DEVICES=all"}
			return c
		}, a.CPUs.String()},
	} {
		if err := w.agent.StartContainer(t.Context(), s, wrong.c(c)); err == nil || !strings.Contains(err.Error(), wrong.what) {
			t.Errorf("want %q: %v", wrong.what, err)
		}
	}
	// The kernel has other CPUs, and does not take the right ones.
	file := s.Cgroup + "/" + c.ID + "/cpuset.cpus"
	w.kernel.mu.Lock()
	w.kernel.files[file], w.kernel.fail[file] = "0-7", errKernel
	w.kernel.mu.Unlock()
	if err := w.agent.StartContainer(t.Context(), s, c); err == nil || !strings.Contains(err.Error(), "cpuset.cpus") {
		t.Errorf("a container with all CPUs: %v", err)
	}
	w.kernel.mu.Lock()
	delete(w.kernel.fail, file)
	w.kernel.mu.Unlock()
	if err := w.agent.StartContainer(t.Context(), s, c); err != nil {
		t.Errorf("as soon as the kernel takes them: %v", err)
	}
	shared := sandbox("shared", 1)
	w.mustRun(shared)
	plain := w.running["shared"].containers[0]
	plain.Mark = ""
	if err := w.agent.StartContainer(t.Context(), shared, plain); err != nil {
		t.Errorf("a container that needs nobody: %v", err)
	}
	if got := w.state().NotStarted; got != 4 {
		t.Errorf("%d starts were counted as refused, want 4", got)
	}
}

// A reclaimed pod's container does not start before its pod has a limit of memory.
func TestStartWaitsForTheLimit(t *testing.T) {
	w := newWorld(t)
	w.start()
	s := sandbox("batch", 0, "qos=reclaimed_cores", "besteffort")
	s.Annotations[spec.AnnotationReclaimed] = "1000m/512Mi"
	w.kernel.set(s.Cgroup+"/memory.max", "max")
	w.kernel.fail[s.Cgroup+"/memory.max"] = errKernel
	w.mustRun(s)
	c := w.running["batch"].containers[0]
	if err := w.agent.StartContainer(t.Context(), s, c); err == nil || !strings.Contains(err.Error(), "limit of memory") {
		t.Errorf("without a limit: %v", err)
	}
	w.kernel.mu.Lock()
	delete(w.kernel.fail, s.Cgroup+"/memory.max")
	w.kernel.mu.Unlock()
	w.eventually("it starts", func() bool { return w.agent.StartContainer(t.Context(), s, c) == nil })
	if got := w.kernel.get(s.Cgroup + "/memory.max"); got == "max" {
		t.Error("it started without a limit")
	}
}

// Of the containers that started while no agent was there, CPUs are put right, and those whose devices are not their pod's are ended, if their pods are ours.
func TestMissedContainers(t *testing.T) {
	w, e := withDevices(t)
	w.owner = spec.OwnerHilbert
	e.do(twoGPUs)
	w.late = true
	own, sees, foreign, plain := sandbox("own", 2, "qos=dedicated_cores"), sandbox("sees", 1, "qos=shared_cores"), sandbox("foreign", 1), sandbox("plain", 1, "qos=shared_cores")
	watcher := sandbox("watcher", 1, "qos=shared_cores")
	watcher.Namespace = runtime.Observers
	adjusted := sandbox("adjusted", 1, "qos=shared_cores")
	for _, s := range []runtime.Sandbox{own, sees, foreign, plain, watcher, adjusted} {
		w.unadjusted(s, topology.CPUSet{})
		w.kernel.set(s.Cgroup+"/"+containerID(&s)+"/cgroup.kill", "0")
		if s.UID != "own" && s.UID != "plain" {
			w.running[s.UID].containers[0].Env = []string{"NVIDIA_VISIBLE_DEVICES=all"}
		}
	}
	w.running["adjusted"].containers[0].Mark = runtime.Mark{Container: containerID(&adjusted)}.String()
	w.start()
	w.connect()
	killed := func(s runtime.Sandbox) bool { return w.kernel.get(s.Cgroup+"/"+containerID(&s)+"/cgroup.kill") == "1" }
	w.eventually("the container that sees GPUs is ended", func() bool { return killed(sees) })
	w.eventually("the dedicated pod has its CPUs", func() bool {
		set, _ := topology.ParseCPUSet(w.kernel.get(own.Cgroup + "/" + containerID(&own) + "/cpuset.cpus"))
		return set.Len() == 2
	})
	w.eventually("the other is told of", func() bool {
		return slices.ContainsFunc(w.events(), func(e string) bool {
			return strings.HasPrefix(e, "pod-foreign: "+spec.ReasonStartedWithoutAgent)
		})
	})
	w.ticks(3)
	for _, s := range []runtime.Sandbox{own, foreign, plain, watcher, adjusted} {
		if killed(s) {
			t.Errorf("%s was ended", s.Name)
		}
	}
	if s := w.state(); s.MissedEnded != 1 || s.MissedLeft != 1 || s.MissedAdjusted != 1 {
		t.Errorf("%d were ended, %d left, %d adjusted; want one of each", s.MissedEnded, s.MissedLeft, s.MissedAdjusted)
	}
}
