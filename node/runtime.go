package node

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"time"

	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/node/allocate"
	"hilbert.dev/hilbert/node/cdi"
	"hilbert.dev/hilbert/node/enforce"
	"hilbert.dev/hilbert/topology"
)

// runtimeState is what is known of the container runtime.
type runtimeState struct {
	updater   Updater // nil: not connected
	name      string
	why       string    // it is not connected
	lost      time.Time // since when; zero: since the start
	synced    bool      // it has told what runs, at least once
	connected bool
}

// Connected says that the runtime knows us; it will tell next what runs.
func (a *Agent) Connected(_ context.Context, runtime string, u Updater) {
	a.post(func() {
		a.runtime = runtimeState{updater: u, name: runtime, connected: true, lost: a.runtime.lost, synced: a.runtime.synced, why: "it has not told yet what runs"}
		a.counts.Connections++
		a.log.Info("connected to the container runtime", "runtime", runtime)
	})
}

// Disconnected says that the runtime cannot be reached. What runs goes on; the kernel is still held to what is wanted.
func (a *Agent) Disconnected(why error) {
	a.post(func() {
		if a.runtime.connected || a.runtime.lost.IsZero() {
			a.runtime.lost = time.Now()
			a.log.Warn("not connected to the container runtime", "err", why)
		}
		a.runtime.updater, a.runtime.connected, a.runtime.why = nil, false, why.Error()
		a.problems.set(spec.ReasonRuntimeLost, why.Error())
	})
}

// Synchronize takes over what runs: pods that are known keep what they have, those that are not are adopted as they run, and what is
// gone is released.
func (a *Agent) Synchronize(ctx context.Context, sandboxes []Sandbox, containers []Container) error {
	fixed, err := a.exclusive(ctx)
	if err != nil {
		return err
	}
	return a.call(ctx, func() {
		a.synchronize(sandboxes, containers, fixed)
		a.log.Info("the container runtime told what runs", "pods", len(a.pods), "containers", len(a.containers))
		a.problems.resolve(spec.ReasonRuntimeLost)
		a.runtime.synced, a.runtime.lost = true, time.Time{}
		a.inspectDevicesNow(time.Now()) // only now it can be told who computes on a GPU that it was not given
	})
}

func (a *Agent) synchronize(sandboxes []Sandbox, containers []Container, fixed map[PodKey]topology.CPUSet) {
	running := make(map[string]topology.CPUSet) // what each sandbox's containers were told
	for i := range containers {
		if c := &containers[i]; !c.Stopped {
			running[c.Sandbox] = running[c.Sandbox].Union(c.CPUs)
		}
	}
	// A sandbox that has neither a process nor containers is of a pod that has ended.
	order := slices.DeleteFunc(slices.Clone(sandboxes), func(s Sandbox) bool {
		_, runs := running[s.ID]
		return s.Processless && !runs
	})
	here := make(map[string]bool)
	for i := range order {
		here[order[i].UID] = true
	}
	for _, uid := range a.manager.Pods() {
		if !here[uid] {
			a.manager.Release(uid)
		}
	}
	clear(a.pods)
	clear(a.sandboxes)
	clear(a.containers)
	// Who has cores of his own comes first, so that those who share are moved once.
	slices.SortStableFunc(order, func(x, y Sandbox) int { return adoptionRank(&x, running) - adoptionRank(&y, running) })
	for i := range order {
		s := &order[i]
		a.adopt(s, fixed[PodKey{s.Namespace, s.Name}], running[s.ID])
	}
	for i := range containers {
		if c := &containers[i]; !c.Stopped {
			a.attach(c)
		}
	}
	a.apply()
}

// adoptionRank orders the pods that are adopted.
func adoptionRank(s *Sandbox, running map[string]topology.CPUSet) int {
	qos, _ := spec.QoSOf(s.Labels, s.Annotations)
	switch {
	case qos.Level == spec.QoSDedicated && !running[s.ID].IsEmpty():
		return 0
	case qos.Level == spec.QoSDedicated:
		return 1
	}
	return 2
}

// adopt takes over a pod that runs already. One that cannot have what it asks for runs on as it is, unmanaged.
func (a *Agent) adopt(s *Sandbox, fixed, running topology.CPUSet) {
	kubelet := a.options.Mode == spec.ModeKubelet
	if _, known := a.manager.Placement(s.UID); !known || kubelet { // the kubelet may have decided anew
		p := podOf(s)
		p.Running = true
		switch {
		case kubelet:
			p.Fixed = fixed
		case p.QoS.Level == spec.QoSDedicated:
			p.Fixed = running
		}
		v := a.manager.Admit(p)
		a.notes(nameOf(s), v.Notes)
		if v.Refused != nil {
			a.note(nameOf(s), allocate.Note(*v.Refused))
			a.counts.Refused[v.Refused.Reason]++
			return
		}
	}
	a.remember(s)
}

// exclusive asks the kubelet, where it rules, what it gave to whom.
func (a *Agent) exclusive(ctx context.Context) (map[PodKey]topology.CPUSet, error) {
	if a.options.Mode != spec.ModeKubelet || a.ports.Exclusive == nil {
		return nil, nil
	}
	ctx, cancel := context.WithTimeout(ctx, exclusiveTimeout)
	defer cancel()
	fixed, err := a.ports.Exclusive(ctx)
	if err != nil {
		return nil, fmt.Errorf("ask the kubelet for its exclusive CPUs: %w", err)
	}
	return fixed, nil
}

// RunSandbox admits a pod. The error is why it cannot run here.
func (a *Agent) RunSandbox(ctx context.Context, s Sandbox) error {
	fixed, err := a.exclusive(ctx)
	if err != nil {
		a.unadjusted(s, err)
		return nil
	}
	_, err = returned(ctx, a, func() (struct{}, error) { return struct{}{}, a.admit(&s, fixed[PodKey{s.Namespace, s.Name}]) })
	return err
}

// unadjusted leaves a pod as it is: while the kubelet does not say what it gave to whom, any narrowing could be of CPUs that it gave.
func (a *Agent) unadjusted(s Sandbox, why error) {
	a.post(func() {
		a.note(nameOf(&s), allocate.Note{Reason: spec.ReasonKubeletRules, Message: "not adjusted: " + why.Error()})
	})
}

func (a *Agent) admit(s *Sandbox, fixed topology.CPUSet) error {
	if err := a.startBarred(s.UID); err != nil {
		return err
	}
	p := podOf(s)
	p.Fixed = fixed
	_, known := a.manager.Placement(s.UID)
	if !known && p.Devices != (topology.Grant{}) && a.options.Devices != nil && !a.devices.judged {
		return errNotLooked
	}
	if !known && p.Devices.GPUs != 0 && !a.devices.whose && a.manager.Devices() != nil { // the promise may be the kubelet's to keep, or ours
		return errors.New("hilbert: " + a.devices.own.Message + "; the kubelet tries again")
	}
	v := a.manager.Admit(p)
	a.notes(nameOf(s), v.Notes)
	if v.Refused != nil {
		a.refuse(nameOf(s), *v.Refused, &p)
		a.save()
		return errors.New("hilbert: " + v.Refused.Reason + ": " + v.Refused.Message)
	}
	a.remember(s)
	a.apply()
	return nil
}

// remember notes a pod's sandbox; an older one of the same pod no longer counts.
func (a *Agent) remember(s *Sandbox) {
	p := a.pods[s.UID]
	if p == nil {
		p = &pod{containers: make(map[string]*container), since: time.Now()}
		a.pods[s.UID] = p
		a.devices.kubelet.changes++
	}
	p.name, p.sandbox, p.cgroup, p.bestEffort = nameOf(s), s.ID, s.Cgroup, s.BestEffort
	p.priority = priorityOf(s.Annotations)
	p.labels, p.address = s.Labels, s.Address
	a.profile(p)
	a.sandboxes[s.ID] = p
	if s.Trouble != "" {
		a.note(p.name, allocate.Note{Reason: spec.ReasonKnobRefused, Message: s.Trouble})
	}
}

// attach notes a container of a pod that is known.
func (a *Agent) attach(c *Container) *container {
	p := a.sandboxes[c.Sandbox]
	if p == nil {
		return nil
	}
	out := &container{
		id: c.ID, cgroup: c.Cgroup, pod: p, exists: c.Exists, cpus: c.CPUs, mems: c.Mems, score: c.OOMScoreAdj, memoryLimit: c.MemoryLimit,
		user: c.User,
	}
	a.containers[c.ID], p.containers[c.ID] = out, out
	a.recallFunctions(p.name.UID, c.CDI)
	if c.Trouble != "" {
		a.note(p.name, allocate.Note{Reason: spec.ReasonKnobRefused, Message: c.Trouble})
	}
	return out
}

// ResizeSandbox takes an in-place resize. It never fails: a pod that cannot grow where it is keeps what it has, and is told so.
func (a *Agent) ResizeSandbox(ctx context.Context, s Sandbox, to Amounts) error {
	return a.call(ctx, func() {
		if p := a.pods[s.UID]; p != nil {
			a.notes(p.name, a.manager.Resize(s.UID, to.MilliCPU).Notes)
			a.apply()
		}
	})
}

// StopSandbox forgets a sandbox, and with a pod's last one all that the pod had.
func (a *Agent) StopSandbox(ctx context.Context, id string) error {
	return a.call(ctx, func() {
		p := a.sandboxes[id]
		delete(a.sandboxes, id)
		if p != nil && p.sandbox == id {
			a.forget(p)
			a.apply()
		}
	})
}

// forget releases all that a pod had.
func (a *Agent) forget(p *pod) {
	for id := range p.containers {
		delete(a.containers, id)
	}
	delete(a.sandboxes, p.sandbox)
	delete(a.pods, p.name.UID)
	a.devices.kubelet.changes++
	a.manager.Release(p.name.UID)
}

// missingTicks is for how many ticks a pod's cgroup must be gone before the pod is taken for gone.
const missingTicks = 2

// removeVanished forgets pods whose cgroup the kubelet has removed, which it does last. The runtime should have told, but containerd (2.4.2) never tells of
// the end of a sandbox that it took over from before its own restart.
func (a *Agent) removeVanished() {
	for _, uid := range sortedKeys(a.pods) {
		p := a.pods[uid]
		if p.cgroup == "" {
			continue
		}
		switch _, err := a.options.Kernel.Read(p.cgroup + "/" + enforce.CPUSet); {
		case err == nil:
			p.seen, p.missing = true, 0
		case p.seen && errors.Is(err, fs.ErrNotExist):
			p.missing++
		}
		if p.missing >= missingTicks {
			a.counts.Vanished++
			a.log.Warn("a pod is gone, and the runtime did not say so", "pod", p.name.Namespace+"/"+p.name.Name)
			a.forget(p)
			a.apply()
		}
	}
}

// CreateContainer says where a new container runs, once nobody else runs there.
func (a *Agent) CreateContainer(ctx context.Context, s Sandbox, c Container) (Adjustment, error) {
	fixed, err := a.exclusive(ctx)
	if err != nil {
		a.unadjusted(s, err)
		devices, err := returned(ctx, a, func() (cdi.Edits, error) { return a.inject(&s, &c) })
		return Adjustment{Devices: devices}, err
	}
	made, err := returned(ctx, a, func() (created, error) { return a.create(&s, &c, fixed[PodKey{s.Namespace, s.Name}]) })
	if err != nil || made.settled == nil {
		return made.Adjustment, err
	}
	timer := time.NewTimer(applyTimeout)
	defer timer.Stop()
	select {
	case <-made.settled:
	case <-timer.C:
		a.post(func() { a.counts.Unapplied++ })
	case <-ctx.Done():
	}
	return made.Adjustment, nil
}

// created is what a new container gets, and what is closed once nobody else runs on its CPUs; nil: that is so already.
type created struct {
	Adjustment
	settled <-chan struct{}
}

func (a *Agent) create(s *Sandbox, c *Container, fixed topology.CPUSet) (out created, err error) {
	if a.pods[s.UID] == nil || a.sandboxes[s.ID] == nil { // we were not there when its sandbox was made
		if err := a.admit(s, fixed); err != nil {
			return created{}, err
		}
	}
	if err := a.startBarred(s.UID); err != nil {
		return created{}, err
	}
	v := a.manager.Confirm(s.UID)
	a.notes(nameOf(s), v.Notes)
	if v.Refused != nil {
		p := podOf(s)
		a.refuse(nameOf(s), *v.Refused, &p)
		a.save()
		return created{}, errors.New("hilbert: " + v.Refused.Reason + ": " + v.Refused.Message)
	}
	if out.Devices, err = a.inject(s, c); err != nil {
		return created{}, err
	}
	noted := a.attach(c)
	if p, ok := a.placement(noted.pod); ok {
		out.CPUs, out.Mems, out.OOMScoreAdj = p.CPUs, p.Mems, p.OOMScoreAdj
		noted.cpus, noted.mems = p.CPUs, p.Mems
	}
	noted.exists = false // until the runtime says so: before, it cannot be updated
	a.apply()
	out.settled = a.applied
	return out, nil
}

// ContainerCreated says that the container's cgroup is there.
func (a *Agent) ContainerCreated(ctx context.Context, id string) error {
	return a.call(ctx, func() {
		if c := a.containers[id]; c != nil {
			c.exists = true
			a.recheck(c.cgroup)
			a.updateRuntime()
		}
	})
}

// UpdateContainer puts our CPUs in place of those of somebody else's update.
func (a *Agent) UpdateContainer(ctx context.Context, id string) (Update, error) {
	return returned(ctx, a, func() (Update, error) {
		out := Update{Container: id}
		c := a.containers[id]
		if c == nil {
			return out, nil
		}
		if p, ok := a.placement(c.pod); ok {
			out.CPUs, out.Mems = p.CPUs, p.Mems
			c.cpus, c.mems = p.CPUs, p.Mems
		}
		return out, nil
	})
}

// Updated says that the runtime or the kubelet has written to the cgroups of a pod.
func (a *Agent) Updated(ctx context.Context, sandbox string) error {
	return a.call(ctx, func() {
		if p := a.sandboxes[sandbox]; p != nil && p.cgroup != "" {
			a.recheck(p.cgroup)
		}
	})
}

// StopContainer forgets a container.
func (a *Agent) StopContainer(ctx context.Context, id string) error {
	return a.call(ctx, func() {
		if c := a.containers[id]; c != nil {
			delete(a.containers, id)
			delete(c.pod.containers, id)
			a.apply()
		}
	})
}

func nameOf(s *Sandbox) PodName { return PodName{s.Namespace, s.Name, s.UID} }
