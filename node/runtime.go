package node

import (
	"context"
	"time"

	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/node/controller"
	"hilbert.dev/hilbert/node/loop"
	"hilbert.dev/hilbert/node/runtime"
	"hilbert.dev/hilbert/topology"
)

// Connected says that the runtime knows us; it will tell next what runs.
func (a *Agent) Connected(_ context.Context, runtime string, u runtime.Updater) {
	a.node.Loop.Post(func() {
		a.node.Runtime = controller.Runtime{Updater: u, Name: runtime, Connected: true, Lost: a.node.Runtime.Lost, Synced: a.node.Runtime.Synced, Why: "it has not told yet what runs"}
		a.node.Counts.Connections++
		a.node.Log.Info("connected to the container runtime", "runtime", runtime)
	})
}

// Disconnected says that the runtime cannot be reached. What runs goes on; the kernel is still held to what is wanted.
func (a *Agent) Disconnected(why error) {
	a.node.Loop.Post(func() {
		if a.node.Runtime.Connected || a.node.Runtime.Lost.IsZero() {
			a.node.Runtime.Lost = a.node.Now()
			a.node.Log.Warn("not connected to the container runtime", "err", why)
		}
		a.node.Runtime.Updater, a.node.Runtime.Connected, a.node.Runtime.Why = nil, false, why.Error()
		a.node.Events.Problems.Set(spec.ReasonRuntimeLost, why.Error())
	})
}

// Synchronize takes over what runs: pods that are known keep what they have, those that are not are adopted as they run, and what is
// gone is released.
func (a *Agent) Synchronize(ctx context.Context, sandboxes []runtime.Sandbox, containers []runtime.Container) error {
	fixed, err := a.admission.exclusive(ctx)
	if err != nil {
		return err
	}
	return a.node.Loop.Call(ctx, func() {
		a.node.Runtime.Synced = true
		a.absence.hold()
		a.admission.synchronize(sandboxes, containers, fixed)
		a.node.Log.Info("the container runtime told what runs", "pods", a.node.Pods.Len(), "containers", a.node.Pods.ContainerCount())
		a.node.Events.Problems.Resolve(spec.ReasonRuntimeLost)
		a.node.Runtime.Synced, a.node.Runtime.Lost = true, time.Time{}
		a.devices.InspectNow(a.node.Now()) // only now can processes be found that compute on a GPU that was not given to them
	})
}

// RunSandbox admits a pod. The error is why it cannot run here.
func (a *Agent) RunSandbox(ctx context.Context, s runtime.Sandbox) error {
	fixed, err := a.admission.exclusive(ctx)
	if err != nil {
		a.admission.unadjusted(s, err)
		return nil
	}
	admitted, err := a.plugins.Prepare(ctx, &s)
	if err != nil {
		return err
	}
	defer admitted()
	_, err = loop.Returned(ctx, a.node.Loop, func() (struct{}, error) { return struct{}{}, a.admission.admit(&s, fixed[PodKey{s.Namespace, s.Name}]) })
	return err
}

// ResizeSandbox takes an in-place resize. It never fails: a pod that cannot grow where it is keeps what it has, and is told so.
func (a *Agent) ResizeSandbox(ctx context.Context, s runtime.Sandbox, to runtime.Amounts) error {
	return a.node.Loop.Call(ctx, func() {
		if p := a.node.Pods.Of(s.UID); p != nil {
			a.node.Events.Notes(p.Ref, a.node.Manager.Resize(s.UID, to.MilliCPU).Notes)
			a.node.Apply()
		}
	})
}

// StopSandbox forgets a sandbox, and with a pod's last one all that the pod had.
func (a *Agent) StopSandbox(ctx context.Context, id string) error {
	return a.node.Loop.Call(ctx, func() {
		p := a.node.Pods.OfSandbox(id)
		a.node.Pods.DropSandbox(id)
		if p != nil && p.Sandbox == id {
			a.admission.forget(p)
			a.node.Apply()
		}
	})
}

// CreateContainer says where a new container runs. It answers when no other pod runs there any more.
func (a *Agent) CreateContainer(ctx context.Context, s runtime.Sandbox, c runtime.Container) (runtime.Adjustment, error) {
	fixed, err := a.admission.exclusive(ctx)
	if err != nil {
		a.admission.unadjusted(s, err)
		return loop.Returned(ctx, a.node.Loop, func() (runtime.Adjustment, error) {
			devices, err := a.injector.Inject(&s, &c)
			if err != nil {
				return runtime.Adjustment{}, err
			}
			resources, err := a.plugins.Contribution(&s, &c)
			return runtime.Adjustment{Devices: devices, Resources: resources, Mark: runtime.MarkOf(c.ID, &topology.Grant{}, &devices)}, err
		})
	}
	admitted, err := a.plugins.Prepare(ctx, &s)
	if err != nil {
		return runtime.Adjustment{}, err
	}
	defer admitted()
	made, err := loop.Returned(ctx, a.node.Loop, func() (created, error) { return a.admission.create(&s, &c, fixed[PodKey{s.Namespace, s.Name}]) })
	if err != nil || made.settled == nil {
		return made.Adjustment, err
	}
	timer := time.NewTimer(applyTimeout)
	defer timer.Stop()
	select {
	case <-made.settled:
	case <-timer.C:
		a.node.Loop.Post(func() { a.node.Counts.Unapplied++ })
	case <-ctx.Done():
	}
	return made.Adjustment, nil
}

// ContainerCreated says that the container's cgroup is there.
func (a *Agent) ContainerCreated(ctx context.Context, id string) error {
	return a.node.Loop.Call(ctx, func() {
		if c := a.node.Pods.Container(id); c != nil {
			c.Exists = true
			a.knobs.recheck(c.Cgroup)
			a.updates.send()
		}
	})
}

// UpdateContainer replaces the CPUs in another party's update by ours, and takes away the pod's bursts, which the kernel would refuse a lower limit for, and its limit
// for interference.
func (a *Agent) UpdateContainer(ctx context.Context, id string) (runtime.Update, error) {
	var yielded <-chan struct{}
	out, err := loop.Returned(ctx, a.node.Loop, func() (runtime.Update, error) {
		out := runtime.Update{Container: id}
		c := a.node.Pods.Container(id)
		if c == nil {
			return out, nil
		}
		if bursts, limit := a.bursts.yield(c.Pod), a.interference.yield(c.Pod); bursts || limit {
			a.apply()
			yielded = a.knobs.applied
		}
		if p, ok := a.node.Placement(c.Pod); ok {
			out.CPUs, out.Mems = p.CPUs, p.Mems
			c.CPUs, c.Mems = p.CPUs, p.Mems
		}
		return out, nil
	})
	if err == nil && yielded != nil {
		select {
		case <-yielded:
		case <-time.After(applyTimeout): // the update may fail then, and the kubelet tries again
		case <-ctx.Done():
		}
	}
	return out, err
}

// Updated says that the runtime or the kubelet has written to the cgroups of a pod.
func (a *Agent) Updated(ctx context.Context, sandbox string) error {
	return a.node.Loop.Call(ctx, func() {
		if p := a.node.Pods.OfSandbox(sandbox); p != nil && p.Cgroup != "" {
			a.knobs.recheck(p.Cgroup)
		}
	})
}

// StopContainer forgets a container.
func (a *Agent) StopContainer(ctx context.Context, id string) error {
	return a.node.Loop.Call(ctx, func() {
		if a.node.Pods.RemoveContainer(id) {
			a.node.Apply()
		}
	})
}

const (
	// maxUpdates bounds the containers that one request to the runtime changes: it creates none meanwhile.
	maxUpdates = 16
	// maxUpdateFailures is how often a container's update is tried, at a tick each. The kernel has the value by then; only a later update of
	// the runtime's own would undo it until the next tick.
	maxUpdateFailures = 5
)

// runtimeUpdates tells the container runtime the CPUs and memory nodes of running containers, so that what the runtime writes later keeps them. One request
// is under way at a time. The runtime may hold its answer back while it waits for the agent, so the loop never calls it.
type runtimeUpdates struct {
	node     *nodeState
	knobs    *knobController
	requests chan updateRequest
	busy     bool
}

// updateRequest is a request to the runtime.
type updateRequest struct {
	updater runtime.Updater
	updates []runtime.Update
}

func newRuntimeUpdates(n *nodeState, knobs *knobController) *runtimeUpdates {
	return &runtimeUpdates{node: n, knobs: knobs, requests: make(chan updateRequest, 1)}
}

// run calls the runtime until ctx ends, beside the loop.
func (u *runtimeUpdates) run(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case r := <-u.requests:
			failed, err := r.updater.Update(r.updates)
			u.node.Loop.Post(func() { u.updated(r, failed, err) })
		}
	}
}

// Tick implements ticker: what failed is tried again.
func (u *runtimeUpdates) Tick(time.Time) (changed bool) {
	u.send()
	return false
}

// placementsChanged gives containers whose update failed another chance if they have a new placement, and sends what is new.
func (u *runtimeUpdates) placementsChanged() {
	for _, c := range u.node.Pods.AllContainers() {
		if p, ok := u.node.Placement(c.Pod); ok && (p.CPUs != c.Asked.CPUs || p.Mems != c.Asked.Mems) {
			c.Failures = 0
		}
	}
	u.send()
}

// send tells the runtime what it does not know yet of the running containers.
func (u *runtimeUpdates) send() {
	updater := u.node.Runtime.Updater
	if u.busy || updater == nil {
		return
	}
	var updates []runtime.Update
	for _, id := range u.node.Pods.ContainerIDs() {
		c := u.node.Pods.Container(id)
		p, ok := u.node.Placement(c.Pod)
		if !ok || !c.Exists || c.Failures >= maxUpdateFailures || (p.CPUs == c.CPUs && (p.Mems.IsEmpty() || p.Mems == c.Mems)) {
			continue
		}
		c.Asked = p
		updates = append(updates, runtime.Update{Container: id, CPUs: p.CPUs, Mems: p.Mems})
		if len(updates) == maxUpdates {
			break
		}
	}
	if len(updates) > 0 {
		u.busy = true
		u.requests <- updateRequest{updater, updates} // there is room: nothing is under way
	}
}

// updated takes the runtime's answer. It has written to the containers' cgroups, maybe older values than are desired by now.
func (u *runtimeUpdates) updated(r updateRequest, failed []string, err error) {
	u.busy = false
	bad := make(map[string]bool, len(failed))
	for _, id := range failed {
		bad[id] = true
	}
	var recheck []string
	for i := range r.updates {
		c := u.node.Pods.Container(r.updates[i].Container)
		switch {
		case c == nil: // it has ended
		case err != nil || bad[c.ID]:
			c.Failures++
			u.node.Counts.UpdatesFailed++
		default:
			c.CPUs, c.Mems, c.Failures = c.Asked.CPUs, c.Asked.Mems, 0
			u.node.Counts.Updates++
			recheck = append(recheck, c.Cgroup)
		}
	}
	if err != nil {
		u.node.Log.Warn("the runtime refuses an update", "err", err)
	}
	u.knobs.recheck(recheck...)
	if err == nil && len(failed) == 0 {
		u.send()
	}
}
