package node

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"

	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/node/allocate"
	"hilbert.dev/hilbert/node/devices"
	"hilbert.dev/hilbert/node/enforce"
	"hilbert.dev/hilbert/node/plugins"
	"hilbert.dev/hilbert/node/pods"
	"hilbert.dev/hilbert/node/runtime"
	"hilbert.dev/hilbert/topology"
)

// admission takes pods and containers in as the container runtime tells of them: it reads what a pod asks for and was promised, has the allocator decide,
// and says what a new container gets. A pod that cannot run here is refused before its first container.
//
// For example, a Binding promised a dedicated pod two CPUs of NUMA node 1. admit turns the promise into CPUs 4 and 5; the pods that share them are moved
// off; create then answers the runtime that the container runs on 4 and 5.
type admission struct {
	node       *nodeState
	plugins    *plugins.Controller
	profiles   *profileController
	eviction   *evictionController
	devices    *devices.Controller
	injector   *devices.Injector
	promises   *brokenPromises
	checkpoint *checkpoint
	knobs      *knobController
	missed     *devices.Missed
}

// synchronize takes over what runs. The checkpoint may be older than what was answered, because no answer waits for the disk; then what the runtime tells
// counts: the CPUs of its containers, what they request, and their marks.
func (d *admission) synchronize(sandboxes []runtime.Sandbox, containers []runtime.Container, fixed map[PodKey]topology.CPUSet) {
	running := make(map[string]topology.CPUSet) // what each sandbox's containers were told
	sandboxes = slices.Clone(sandboxes)
	for i := range containers {
		if c := &containers[i]; !c.Stopped {
			running[c.Sandbox] = running[c.Sandbox].Union(c.CPUs)
		}
	}
	requests := recall(sandboxes, containers)
	order := d.alive(sandboxes, running)
	here := make(map[string]bool)
	for i := range order {
		here[order[i].UID] = true
	}
	for _, uid := range d.node.Manager.UIDs() {
		if !here[uid] {
			d.node.Manager.Release(uid)
		}
	}
	d.releaseStale(order, running)
	d.node.Pods.Clear()
	d.plugins.Recall(order, containers)
	// Pods with cores of their own come first, so that pods that share are moved only once.
	slices.SortStableFunc(order, func(x, y runtime.Sandbox) int { return d.adoptionRank(&x, running) - d.adoptionRank(&y, running) })
	for i := range order {
		s := &order[i]
		// One that has fewer CPUs than its sandbox says has been resized since. None grows before all have what they run on.
		if had := d.had(s, running); had > 0 && had < s.Amounts.MilliCPU {
			requests[s.ID] = cmp.Or(requests[s.ID], s.Amounts.MilliCPU)
			s.Amounts.MilliCPU = had
		}
		d.adopt(s, fixed[PodKey{s.Namespace, s.Name}], running[s.ID])
	}
	for i := range order {
		s := &order[i]
		if asked, _, known := d.node.Manager.Pod(s.UID); known && requests[s.ID] > asked.MilliCPU { // it has grown since the checkpoint
			d.node.Events.Notes(s.Ref(), d.node.Manager.Resize(s.UID, requests[s.ID]).Notes)
		}
	}
	for i := range containers {
		if c := &containers[i]; !c.Stopped {
			d.attach(c)
		}
	}
	d.missed.Note(sandboxes, containers)
	d.node.Apply()
}

// recall puts into sandboxes what their containers say that is newer: what they hold of devices, and what they request since a resize. It returns what the
// containers of each sandbox request together. One that does not run now is not in the sum, so it says when a pod has grown, and never that it has shrunk.
func recall(sandboxes []runtime.Sandbox, containers []runtime.Container) (milli map[string]int64) {
	milli = make(map[string]int64)
	marks := make(map[string]runtime.Mark)
	for i := range containers {
		c := &containers[i]
		if c.Stopped {
			continue
		}
		milli[c.Sandbox] += c.MilliCPU
		if m, ok := runtime.ParseMark(c.Mark, c.ID); ok {
			marks[c.Sandbox] = m
		}
	}
	for i := range sandboxes {
		s := &sandboxes[i]
		if m, ok := marks[s.ID]; ok {
			s.Annotations = m.Promise(s.Annotations)
		}
		s.Amounts.MilliCPU = max(s.Amounts.MilliCPU, milli[s.ID]) // a sandbox says what it was made with
	}
	return milli
}

// releaseStale gives up what the checkpoint says of dedicated pods whose CPUs another dedicated pod runs on by now: it was answered later, and they are
// adopted with what they run on.
func (d *admission) releaseStale(order []runtime.Sandbox, running map[string]topology.CPUSet) {
	if d.node.options.Mode != spec.ModeAgent {
		return
	}
	var newer topology.CPUSet // of dedicated pods that the checkpoint does not know
	var known []*runtime.Sandbox
	for i := range order {
		s := &order[i]
		qos, _ := spec.QoSOf(s.Labels, s.Annotations)
		if _, ok := d.node.Manager.Placement(s.UID); ok {
			known = append(known, s)
		} else if qos.Level == spec.QoSDedicated {
			newer = newer.Union(running[s.ID])
		}
	}
	for _, s := range known {
		held, _ := d.node.Manager.Placement(s.UID)
		if held.Pool == "" && !held.CPUs.Intersection(newer).IsEmpty() {
			d.node.Manager.Release(s.UID)
			running[s.ID] = running[s.ID].Minus(newer)
		}
	}
}

// milliOf is what CPUs are in thousandths.
func milliOf(cpus topology.CPUSet) int64 { return 1000 * int64(cpus.Len()) }

// had is what a pod that holds something of the NUMA nodes had when it was last placed: the CPUs that a dedicated pod runs on, and what was promised to a shared one that is
// bound, in millicores. 0: it is not known.
func (d *admission) had(s *runtime.Sandbox, running map[string]topology.CPUSet) (milli int64) {
	switch {
	case d.node.options.Mode != spec.ModeAgent:
		return 0
	case d.adoptionRank(s, running) == 0:
		return milliOf(running[s.ID])
	}
	if p := pods.Asked(s); p.Request.Binding == topology.BoundShared {
		for _, cpus := range p.Promise.CPUs {
			milli += 1000 * int64(cpus)
		}
	}
	return milli
}

// alive leaves out the sandboxes of pods that have ended: those without a process and containers, if the pod has another sandbox that has one, or no cgroup any more.
// CRI-O makes sandboxes without a process, and a pod has no containers while they all wait to be started again.
func (d *admission) alive(sandboxes []runtime.Sandbox, running map[string]topology.CPUSet) []runtime.Sandbox {
	dead := func(s *runtime.Sandbox) bool {
		_, runs := running[s.ID]
		return s.Processless && !runs
	}
	lives := make(map[string]bool) // pods, by UID
	for i := range sandboxes {
		if s := &sandboxes[i]; !dead(s) {
			lives[s.UID] = true
		}
	}
	return slices.DeleteFunc(slices.Clone(sandboxes), func(s runtime.Sandbox) bool {
		if !dead(&s) {
			return false
		}
		if lives[s.UID] || s.Cgroup == "" {
			return true
		}
		_, err := d.node.options.Kernel.Read(s.Cgroup + "/" + enforce.CPUSet)
		return errors.Is(err, fs.ErrNotExist)
	})
}

// adoptionRank orders the pods that are adopted: those that run on CPUs which the machine still has keep them before others choose.
func (d *admission) adoptionRank(s *runtime.Sandbox, running map[string]topology.CPUSet) int {
	qos, _ := spec.QoSOf(s.Labels, s.Annotations)
	cpus := running[s.ID]
	switch {
	case qos.Level != spec.QoSDedicated:
		return 3
	case cpus.IsEmpty():
		return 2
	case !cpus.Minus(d.node.options.Machine.AllCPUs()).IsEmpty():
		return 1
	}
	return 0
}

// adopt takes over a pod that runs already. One that cannot have what it asks for runs on as it is, unmanaged.
func (d *admission) adopt(s *runtime.Sandbox, fixed, running topology.CPUSet) {
	kubelet := d.node.options.Mode == spec.ModeKubelet
	if _, known := d.node.Manager.Placement(s.UID); !known || kubelet { // the kubelet may have decided anew
		p := pods.Asked(s)
		p.Running = true
		switch {
		case kubelet:
			p.Fixed = fixed
		case p.QoS.Level == spec.QoSDedicated:
			p.Fixed = running
		}
		v := d.node.Manager.Admit(p)
		d.node.Events.Notes(s.Ref(), v.Notes)
		if v.Refused != nil {
			d.node.Events.Note(s.Ref(), allocate.Note(*v.Refused))
			d.node.Counts.Refused[v.Refused.Reason]++
			d.plugins.RunsUnmanaged(s.UID)
			return
		}
		if v.Lost != nil { // it loses what it was promised, and hears of it; its NUMA nodes are closed until the report says what is held there
			d.promises.refuse(s.Ref(), *v.Lost, &p)
		}
	}
	d.remember(s)
}

// exclusive asks the kubelet, in mode kubelet, which pods have exclusive CPUs.
func (d *admission) exclusive(ctx context.Context) (map[PodKey]topology.CPUSet, error) {
	if d.node.options.Mode != spec.ModeKubelet || d.node.ports.Exclusive == nil {
		return nil, nil
	}
	ctx, cancel := context.WithTimeout(ctx, exclusiveTimeout)
	defer cancel()
	fixed, err := d.node.ports.Exclusive(ctx)
	if err != nil {
		return nil, fmt.Errorf("ask the kubelet for its exclusive CPUs: %w", err)
	}
	return fixed, nil
}

// unadjusted leaves a pod as it is: while the kubelet does not say which pods have which CPUs, any narrowing could take CPUs that it gave.
func (d *admission) unadjusted(s runtime.Sandbox, why error) {
	d.node.Loop.Post(func() {
		d.node.Events.Note(s.Ref(), allocate.Note{Reason: spec.ReasonKubeletRules, Message: "not adjusted: " + why.Error()})
	})
}

func (d *admission) admit(s *runtime.Sandbox, fixed topology.CPUSet) error {
	if err := d.eviction.startBarred(s.UID); err != nil {
		return err
	}
	p := pods.Asked(s)
	p.Fixed = fixed
	_, known := d.node.Manager.Placement(s.UID)
	if !known {
		if err := d.devices.Undecided(&p); err != nil {
			return err
		}
	}
	v := d.node.Manager.Admit(p)
	d.node.Events.Notes(s.Ref(), v.Notes)
	if v.Refused != nil {
		d.promises.refuse(s.Ref(), *v.Refused, &p)
		d.checkpoint.save()
		return errors.New("hilbert: " + v.Refused.Reason + ": " + v.Refused.Message)
	}
	d.promises.kept(s.UID)
	d.remember(s)
	d.node.Apply()
	return nil
}

// remember files a pod's sandbox, and finds the pod's profile.
func (d *admission) remember(s *runtime.Sandbox) {
	p := d.node.Pods.Remember(s)
	if p.Cgroup != "" && !p.Seen { // it may be gone before the first tick, which then would take it for one that has yet to come
		_, err := d.node.options.Kernel.Read(p.Cgroup + "/" + enforce.CPUSet)
		p.Seen = err == nil
	}
	d.profiles.match(p)
	if s.Trouble != "" {
		d.node.Events.Note(p.Ref, allocate.Note{Reason: spec.ReasonKnobRefused, Message: s.Trouble})
	}
}

// attach files a container of a pod that is known.
func (d *admission) attach(c *runtime.Container) *pods.Container {
	out := d.node.Pods.Attach(c)
	if out == nil {
		return nil
	}
	d.devices.RecallFunctions(out.Pod.Ref.UID, c.CDI)
	if c.Trouble != "" {
		d.node.Events.Note(out.Pod.Ref, allocate.Note{Reason: spec.ReasonKnobRefused, Message: c.Trouble})
	}
	return out
}

// forget releases all that a pod had.
func (d *admission) forget(p *pods.Pod) {
	d.node.Pods.Forget(p)
	d.node.Manager.Release(p.Ref.UID)
}

// created is what a new container gets, and a channel that is closed once no other pod runs on its CPUs; nil: that is so already.
type created struct {
	runtime.Adjustment
	settled <-chan struct{}
}

func (d *admission) create(s *runtime.Sandbox, c *runtime.Container, fixed topology.CPUSet) (out created, err error) {
	if d.node.Pods.Of(s.UID) == nil || d.node.Pods.OfSandbox(s.ID) == nil { // we were not there when its sandbox was made
		if err := d.admit(s, fixed); err != nil {
			return created{}, err
		}
	}
	if err := d.eviction.startBarred(s.UID); err != nil {
		return created{}, err
	}
	v := d.node.Manager.Confirm(s.UID)
	d.node.Events.Notes(s.Ref(), v.Notes)
	if v.Refused != nil {
		p := pods.Asked(s)
		d.promises.refuse(s.Ref(), *v.Refused, &p)
		d.checkpoint.save()
		return created{}, errors.New("hilbert: " + v.Refused.Reason + ": " + v.Refused.Message)
	}
	if out.Devices, err = d.injector.Inject(s, c); err != nil {
		return created{}, err
	}
	if out.Resources, err = d.plugins.Contribution(s, c); err != nil {
		return created{}, err
	}
	noted := d.attach(c)
	held, _ := d.node.Manager.Placement(s.UID)
	out.Mark = runtime.MarkOf(c.ID, &held.Devices, &out.Devices)
	out.Mark.Env = append(slices.Clip(out.Mark.Env), out.Resources.Env...)
	out.Mark.Resources = d.plugins.Marks(s.UID)
	if p, ok := d.node.Placement(noted.Pod); ok {
		out.CPUs, out.Mems = p.CPUs, p.Mems
		noted.CPUs, noted.Mems = p.CPUs, p.Mems
	}
	if score := d.node.oomScore(noted); score != nil {
		out.OOMScoreAdj, out.Mark.Score = score, noted.Score
	}
	noted.Exists = false // until the runtime says so: before, it cannot be updated
	d.node.Apply()
	out.settled = d.knobs.applied
	return out, nil
}
