package node

import (
	"context"
	"time"

	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/node/cdi"
)

// Connected says that the runtime knows us; it will tell next what runs.
func (a *Agent) Connected(_ context.Context, runtime string, u Updater) {
	a.node.loop.post(func() {
		a.node.runtime = runtimeState{updater: u, name: runtime, connected: true, lost: a.node.runtime.lost, synced: a.node.runtime.synced, why: "it has not told yet what runs"}
		a.node.counts.Connections++
		a.node.log.Info("connected to the container runtime", "runtime", runtime)
	})
}

// Disconnected says that the runtime cannot be reached. What runs goes on; the kernel is still held to what is wanted.
func (a *Agent) Disconnected(why error) {
	a.node.loop.post(func() {
		if a.node.runtime.connected || a.node.runtime.lost.IsZero() {
			a.node.runtime.lost = time.Now()
			a.node.log.Warn("not connected to the container runtime", "err", why)
		}
		a.node.runtime.updater, a.node.runtime.connected, a.node.runtime.why = nil, false, why.Error()
		a.node.events.problems.set(spec.ReasonRuntimeLost, why.Error())
	})
}

// Synchronize takes over what runs: pods that are known keep what they have, those that are not are adopted as they run, and what is
// gone is released.
func (a *Agent) Synchronize(ctx context.Context, sandboxes []Sandbox, containers []Container) error {
	fixed, err := a.admission.exclusive(ctx)
	if err != nil {
		return err
	}
	return a.node.loop.call(ctx, func() {
		a.admission.synchronize(sandboxes, containers, fixed)
		a.node.log.Info("the container runtime told what runs", "pods", len(a.node.pods.byUID), "containers", len(a.node.pods.containers))
		a.node.events.problems.resolve(spec.ReasonRuntimeLost)
		a.node.runtime.synced, a.node.runtime.lost = true, time.Time{}
		a.devices.inspectNow(time.Now()) // only now it can be told who computes on a GPU that it was not given
	})
}

// RunSandbox admits a pod. The error is why it cannot run here.
func (a *Agent) RunSandbox(ctx context.Context, s Sandbox) error {
	fixed, err := a.admission.exclusive(ctx)
	if err != nil {
		a.admission.unadjusted(s, err)
		return nil
	}
	_, err = returned(ctx, a.node.loop, func() (struct{}, error) { return struct{}{}, a.admission.admit(&s, fixed[PodKey{s.Namespace, s.Name}]) })
	return err
}

// ResizeSandbox takes an in-place resize. It never fails: a pod that cannot grow where it is keeps what it has, and is told so.
func (a *Agent) ResizeSandbox(ctx context.Context, s Sandbox, to Amounts) error {
	return a.node.loop.call(ctx, func() {
		if p := a.node.pods.byUID[s.UID]; p != nil {
			a.node.events.notes(p.name, a.node.manager.Resize(s.UID, to.MilliCPU).Notes)
			a.node.apply()
		}
	})
}

// StopSandbox forgets a sandbox, and with a pod's last one all that the pod had.
func (a *Agent) StopSandbox(ctx context.Context, id string) error {
	return a.node.loop.call(ctx, func() {
		p := a.node.pods.sandboxes[id]
		delete(a.node.pods.sandboxes, id)
		if p != nil && p.sandbox == id {
			a.admission.forget(p)
			a.node.apply()
		}
	})
}

// CreateContainer says where a new container runs, once nobody else runs there.
func (a *Agent) CreateContainer(ctx context.Context, s Sandbox, c Container) (Adjustment, error) {
	fixed, err := a.admission.exclusive(ctx)
	if err != nil {
		a.admission.unadjusted(s, err)
		devices, err := returned(ctx, a.node.loop, func() (cdi.Edits, error) { return a.injector.inject(&s, &c) })
		return Adjustment{Devices: devices}, err
	}
	made, err := returned(ctx, a.node.loop, func() (created, error) { return a.admission.create(&s, &c, fixed[PodKey{s.Namespace, s.Name}]) })
	if err != nil || made.settled == nil {
		return made.Adjustment, err
	}
	timer := time.NewTimer(applyTimeout)
	defer timer.Stop()
	select {
	case <-made.settled:
	case <-timer.C:
		a.node.loop.post(func() { a.node.counts.Unapplied++ })
	case <-ctx.Done():
	}
	return made.Adjustment, nil
}

// ContainerCreated says that the container's cgroup is there.
func (a *Agent) ContainerCreated(ctx context.Context, id string) error {
	return a.node.loop.call(ctx, func() {
		if c := a.node.pods.containers[id]; c != nil {
			c.exists = true
			a.knobs.recheck(c.cgroup)
			a.updates.send()
		}
	})
}

// UpdateContainer puts our CPUs in place of those of somebody else's update.
func (a *Agent) UpdateContainer(ctx context.Context, id string) (Update, error) {
	return returned(ctx, a.node.loop, func() (Update, error) {
		out := Update{Container: id}
		c := a.node.pods.containers[id]
		if c == nil {
			return out, nil
		}
		if p, ok := a.node.placement(c.pod); ok {
			out.CPUs, out.Mems = p.CPUs, p.Mems
			c.cpus, c.mems = p.CPUs, p.Mems
		}
		return out, nil
	})
}

// Updated says that the runtime or the kubelet has written to the cgroups of a pod.
func (a *Agent) Updated(ctx context.Context, sandbox string) error {
	return a.node.loop.call(ctx, func() {
		if p := a.node.pods.sandboxes[sandbox]; p != nil && p.cgroup != "" {
			a.knobs.recheck(p.cgroup)
		}
	})
}

// StopContainer forgets a container.
func (a *Agent) StopContainer(ctx context.Context, id string) error {
	return a.node.loop.call(ctx, func() {
		if a.node.pods.removeContainer(id) {
			a.node.apply()
		}
	})
}
