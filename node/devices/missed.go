package devices

import (
	"context"
	"fmt"
	"slices"
	"time"

	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/node/allocate"
	"hilbert.dev/hilbert/node/cdi"
	"hilbert.dev/hilbert/node/controller"
	"hilbert.dev/hilbert/node/runtime"
	"hilbert.dev/hilbert/topology"
)

const (
	// maxMissedEnds bounds the containers that are ended at one tick. All that the runtime tells of are looked at: one that is left out could keep what is another pod's.
	maxMissedEnds = 8
	// nvidiaFiles is how the device files of NVIDIA's GPUs begin, but for those that belong to no GPU.
	nvidiaFiles = "/dev/nvidia"
)

// Missed handles containers that started while no agent was there, as the runtime tells of them. Their CPUs and limits are put right by the knobs
// and by updates through the runtime, like those of all others. What devices a container has cannot be changed once it runs: one that lacks its pod's, or
// that sees GPUs which are not its pod's, is ended by cgroup.kill, and the kubelet makes it anew. Only containers of pods that Hilbert placed, or that name
// a level, are ended; of others it is told.
type Missed struct {
	node     *controller.Node
	devices  *Controller
	injector *Injector
	waiting  []missedContainer // until it is known whose the GPUs are
}

// missedContainer is a container without a mark.
type missedContainer struct {
	sandbox   runtime.Sandbox
	container runtime.Container
}

// NewMissed returns one that waits for nothing.
func NewMissed(d *Controller, j *Injector) *Missed {
	return &Missed{node: d.node, devices: d, injector: j}
}

// Note takes over what the runtime told of what runs.
func (m *Missed) Note(sandboxes []runtime.Sandbox, containers []runtime.Container) {
	m.waiting = nil
	if !m.node.Runtime.TellsMarks() {
		return
	}
	byID := make(map[string]*runtime.Sandbox, len(sandboxes))
	for i := range sandboxes {
		byID[sandboxes[i].ID] = &sandboxes[i]
	}
	for i := range containers {
		c := &containers[i]
		s := byID[c.Sandbox]
		if _, marked := runtime.ParseMark(c.Mark, c.ID); marked || c.Stopped || s == nil {
			continue
		}
		m.waiting = append(m.waiting, missedContainer{*s, *c})
	}
}

// Tick implements controller.Ticker: it judges each of them once, as soon as that can be done.
func (m *Missed) Tick(time.Time) (changed bool) {
	if len(m.waiting) == 0 || !m.node.Loop.Running() || m.devices.ports.Inspector != nil && !m.devices.judged {
		return false
	}
	ended := 0
	m.waiting = slices.DeleteFunc(m.waiting, func(c missedContainer) bool {
		if ended == maxMissedEnds {
			return false
		}
		if m.judge(&c) {
			ended++
		}
		return true
	})
	return false
}

// judge looks at one container, and returns whether it is ended.
func (m *Missed) judge(c *missedContainer) (ended bool) {
	known := m.node.Pods.Container(c.container.ID)
	if known == nil { // it has ended, or its pod cannot be here
		return false
	}
	why := m.wrong(c)
	name := c.sandbox.Ref()
	switch {
	case why == "":
		if runtime.NeedsAgent(&c.sandbox, &c.container, false) {
			m.node.Counts.MissedAdjusted++
		}
		return false
	case !runtime.PlacedHere(&c.sandbox) && !said(&c.sandbox) || known.Cgroup == "":
		m.node.Counts.MissedLeft++
		m.node.Events.Note(name, allocate.Note{Reason: spec.ReasonStartedWithoutAgent, Message: "container " + c.container.Name + " " + why + "; it is left alone, for the pod is not Hilbert's"})
		return false
	}
	m.node.Counts.MissedEnded++
	m.node.Events.Note(name, allocate.Note{Reason: spec.ReasonStartedWithoutAgent, Message: "container " + c.container.Name + " " + why + "; it is ended, and made anew"})
	file := known.Cgroup + "/cgroup.kill"
	m.node.Loop.Work(func(context.Context) {
		if err := m.node.Kernel.Write(file, "1"); err != nil {
			m.node.Loop.Post(func() { m.node.Log.Error("a container cannot be ended", "pod", name.String(), "err", err) })
		}
	})
	return true
}

// said reports whether the pod names a level.
func said(s *runtime.Sandbox) bool {
	qos, _ := spec.QoSOf(s.Labels, s.Annotations)
	return qos.Said
}

// wrong says what a container has of devices that it must not have, or lacks; empty: nothing.
func (m *Missed) wrong(c *missedContainer) string {
	if m.devices.ports.Inspector == nil || c.sandbox.Namespace == runtime.Observers {
		return ""
	}
	held, _ := m.node.Manager.Placement(c.sandbox.UID)
	box := cdi.Container{Env: c.container.Env, Mounts: c.container.Mounts}
	switch g := &held.Devices; {
	case held.Unsettled: // it may be a device plugin's
	case g.GPUs|g.NICs != 0:
		return m.lacks(c, g, &box)
	case !m.injector.Ours() || m.kubeletGave(c.sandbox.UID):
	case box.Asks():
		return "sees the node's GPUs and holds none: it started while Hilbert's agent was away"
	case slices.ContainsFunc(c.container.Devices, isGPU):
		return fmt.Sprintf("has device files of GPUs and holds none: %q", c.container.Devices)
	}
	return ""
}

// lacks says what a container of a pod with devices has wrong.
func (m *Missed) lacks(c *missedContainer, g *topology.Grant, box *cdi.Container) string {
	given, _, err := m.injector.resolve(c.sandbox.UID, &c.container, g)
	if err != nil { // it is not known what it should have
		return ""
	}
	mark := runtime.Mark{CDI: slices.Concat(given.GPUs, given.Cards)}
	if err := mark.Check(&c.container, m.injector.Files); err != nil {
		return "started while Hilbert's agent was away: " + err.Error()
	}
	if box.Asks() && m.injector.Ours() {
		return "sees GPUs beyond those that its pod holds: it started while Hilbert's agent was away"
	}
	return ""
}

// kubeletGave reports whether the kubelet gave the pod devices of a device plugin.
func (m *Missed) kubeletGave(uid string) bool {
	by, _ := m.devices.kubelet.assignments.Pod(uid)
	return by.Any
}

// isGPU reports whether a device file is one of NVIDIA's GPUs: /dev/nvidia0, and not /dev/nvidiactl.
func isGPU(file string) bool {
	return len(file) > len(nvidiaFiles) && file[:len(nvidiaFiles)] == nvidiaFiles && file[len(nvidiaFiles)] >= '0' && file[len(nvidiaFiles)] <= '9'
}
