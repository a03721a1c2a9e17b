package nri

import (
	"context"
	"errors"
	"time"

	"github.com/containerd/nri/pkg/api"

	"hilbert.dev/hilbert/node/runtime"
)

// Agent answers the runtime. Each call may wait as long as its context; an error fails what the runtime was asked to do.
type Agent interface {
	Connected(ctx context.Context, runtime string, u runtime.Updater)
	Disconnected(why error)
	Synchronize(ctx context.Context, sandboxes []runtime.Sandbox, containers []runtime.Container) error
	RunSandbox(ctx context.Context, s runtime.Sandbox) error
	ResizeSandbox(ctx context.Context, s runtime.Sandbox, to runtime.Amounts) error
	StopSandbox(ctx context.Context, id string) error
	CreateContainer(ctx context.Context, s runtime.Sandbox, c runtime.Container) (runtime.Adjustment, error)
	ContainerCreated(ctx context.Context, id string) error
	StartContainer(ctx context.Context, s runtime.Sandbox, c runtime.Container) error
	UpdateContainer(ctx context.Context, id string) (runtime.Update, error)
	Updated(ctx context.Context, sandbox string) error
	StopContainer(ctx context.Context, id string) error
}

// plugin is one connection's side of the NRI protocol.
type plugin struct {
	agent  Agent
	update runtime.Updater
	over   <-chan struct{} // closed when the session has ended
	// timeout is how long the runtime waits for an answer.
	timeout func() time.Duration
}

// answerWithin is the part of the runtime's timeout after which an answer must be there. A runtime that gets none goes on without us, and a container starts
// without what its pod was promised; an error it heeds.
const answerWithin = 0.8

// bounded ends in time for an answer.
func (p *plugin) bounded(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(ctx, time.Duration(answerWithin*float64(p.timeout())), errBusy)
}

var (
	errOver = errors.New("the session is over")
	errBusy = errors.New("hilbert's agent has no answer in time; the container runtime will try again")
)

// Configure is the runtime's answer to our registration.
func (p *plugin) Configure(ctx context.Context, _, runtime, version string) (api.EventMask, error) {
	select {
	case <-p.over:
		return 0, errOver
	default:
	}
	p.agent.Connected(ctx, runtime+" "+version, p.update)
	return 0, nil // everything that plugin has a method for
}

// Synchronize tells what runs already.
func (p *plugin) Synchronize(ctx context.Context, pods []*api.PodSandbox, containers []*api.Container) ([]*api.ContainerUpdate, error) {
	ctx, cancel := p.bounded(ctx)
	defer cancel()
	sandboxes := make([]runtime.Sandbox, len(pods))
	for i, pod := range pods {
		sandboxes[i] = sandboxOf(pod)
	}
	running := make([]runtime.Container, len(containers))
	for i, c := range containers {
		running[i] = containerOf(c)
	}
	return nil, p.agent.Synchronize(ctx, sandboxes, running)
}

// RunPodSandbox comes before the sandbox runs.
func (p *plugin) RunPodSandbox(ctx context.Context, pod *api.PodSandbox) error {
	ctx, cancel := p.bounded(ctx)
	defer cancel()
	return p.agent.RunSandbox(ctx, sandboxOf(pod))
}

// UpdatePodSandbox is an in-place resize, before the containers are updated.
func (p *plugin) UpdatePodSandbox(ctx context.Context, pod *api.PodSandbox, overhead, resources *api.LinuxResources) error {
	ctx, cancel := p.bounded(ctx)
	defer cancel()
	return p.agent.ResizeSandbox(ctx, sandboxOf(pod), amountsOf(overhead, resources))
}

// PostUpdatePodSandbox comes after it.
func (p *plugin) PostUpdatePodSandbox(ctx context.Context, pod *api.PodSandbox) error {
	ctx, cancel := p.bounded(ctx)
	defer cancel()
	return p.agent.Updated(ctx, pod.GetId())
}

// StopPodSandbox comes when nothing of the pod runs any more.
func (p *plugin) StopPodSandbox(ctx context.Context, pod *api.PodSandbox) error {
	ctx, cancel := p.bounded(ctx)
	defer cancel()
	return p.agent.StopSandbox(ctx, pod.GetId())
}

// RemovePodSandbox comes also where a sandbox could not be made.
func (p *plugin) RemovePodSandbox(ctx context.Context, pod *api.PodSandbox) error {
	ctx, cancel := p.bounded(ctx)
	defer cancel()
	return p.agent.StopSandbox(ctx, pod.GetId())
}

// CreateContainer adjusts a container before its first instruction.
func (p *plugin) CreateContainer(ctx context.Context, pod *api.PodSandbox, c *api.Container) (*api.ContainerAdjustment, []*api.ContainerUpdate, error) {
	ctx, cancel := p.bounded(ctx)
	defer cancel()
	a, err := p.agent.CreateContainer(ctx, sandboxOf(pod), containerOf(c))
	if err != nil {
		return nil, nil, err
	}
	return adjustmentOf(a), nil, nil
}

// PostCreateContainer comes when the container's cgroup is there.
func (p *plugin) PostCreateContainer(ctx context.Context, _ *api.PodSandbox, c *api.Container) error {
	ctx, cancel := p.bounded(ctx)
	defer cancel()
	return p.agent.ContainerCreated(ctx, c.GetId())
}

// StartContainer comes before a container's first instruction. Its error fails the start, unlike that of PostCreateContainer.
func (p *plugin) StartContainer(ctx context.Context, pod *api.PodSandbox, c *api.Container) error {
	ctx, cancel := p.bounded(ctx)
	defer cancel()
	return p.agent.StartContainer(ctx, sandboxOf(pod), containerOf(c))
}

// UpdateContainer lets the kubelet's update through, with our CPUs and memory nodes in place of its own.
func (p *plugin) UpdateContainer(ctx context.Context, _ *api.PodSandbox, c *api.Container, _ *api.LinuxResources) ([]*api.ContainerUpdate, error) {
	ctx, cancel := p.bounded(ctx)
	defer cancel()
	u, err := p.agent.UpdateContainer(ctx, c.GetId())
	if err != nil || (u.CPUs.IsEmpty() && u.Mems.IsEmpty()) {
		return nil, err
	}
	return updatesOf([]runtime.Update{u}), nil
}

// PostUpdateContainer comes after the runtime wrote to the container's cgroup.
func (p *plugin) PostUpdateContainer(ctx context.Context, pod *api.PodSandbox, _ *api.Container) error {
	ctx, cancel := p.bounded(ctx)
	defer cancel()
	return p.agent.Updated(ctx, pod.GetId())
}

// StopContainer comes when a container has ended.
func (p *plugin) StopContainer(ctx context.Context, _ *api.PodSandbox, c *api.Container) ([]*api.ContainerUpdate, error) {
	ctx, cancel := p.bounded(ctx)
	defer cancel()
	return nil, p.agent.StopContainer(ctx, c.GetId())
}

// RemoveContainer comes also where a container could not be made.
func (p *plugin) RemoveContainer(ctx context.Context, _ *api.PodSandbox, c *api.Container) error {
	ctx, cancel := p.bounded(ctx)
	defer cancel()
	return p.agent.StopContainer(ctx, c.GetId())
}
