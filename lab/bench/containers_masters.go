package bench

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"hilbert.dev/hilbert/api/scheduling/v1alpha1"
	"hilbert.dev/hilbert/control/request"
	"hilbert.dev/hilbert/kube/apiserver"
	"hilbert.dev/hilbert/kube/requests/master"
)

// askName is the one ask of each master.
const askName = "work"

// relaxAfter is how long a container waits for the nodes that its master likes best, and then for their rack.
const relaxAfter = time.Second

// places are where a master would like its containers best.
type places struct {
	nodes []string
	rack  string
}

// asker is a master: it asks, and notes when it is told of each container.
type asker struct {
	client *master.Client
	spec   v1alpha1.ResourceRequestSpec
	count  int32

	began time.Time
	told  map[int32]time.Duration // from began, by index
}

func newAsker(c *apiserver.Connection, namespace string, containers int, how string, at places) (*asker, error) {
	client, err := master.New(c, namespace, "work")
	if err != nil {
		return nil, err
	}
	now := int64(0) // there is no kubelet that would end the pods
	ask := v1alpha1.ResourceAsk{Name: askName, Count: int32(containers)}
	if how == caseLocal {
		after := &metav1.Duration{Duration: relaxAfter}
		ask.Locality = &v1alpha1.ResourceLocality{
			Nodes: &v1alpha1.NodeLocality{Names: at.nodes, RelaxAfter: after}, Racks: &v1alpha1.RackLocality{Values: []string{at.rack}, RelaxAfter: after},
		}
	}
	return &asker{client: client, count: ask.Count, spec: v1alpha1.ResourceRequestSpec{
		Gang: how == caseGang, Asks: []v1alpha1.ResourceAsk{ask},
		Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{
			TerminationGracePeriodSeconds: &now,
			Containers: []corev1.Container{{Name: "main", Image: "bench", Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{
				corev1.ResourceCPU: *resource.NewMilliQuantity(uniform[0].milliCPU, resource.DecimalSI), corev1.ResourceMemory: *resource.NewQuantity(uniform[0].memory<<20, resource.BinarySI),
			}}}},
		}},
	}}, nil
}

// open asks for the containers.
func (a *asker) open(ctx context.Context) error {
	_, err := a.client.Open(ctx, &a.spec)
	return err
}

// exchange gives the first half of the containers back, and asks for as many.
func (a *asker) exchange(ctx context.Context) error {
	back := exchanged(int(a.count))
	indices := make([]int32, back)
	for i := range indices {
		indices[i] = int32(i)
	}
	if err := a.client.Release(ctx, askName, indices...); err != nil {
		return err
	}
	ask := a.spec.Asks[0]
	ask.Count = a.count + int32(back)
	return a.client.Ask(ctx, &ask)
}

// await watches the request until all that was asked for is allocated, and what was given back is gone.
func (a *asker) await(ctx context.Context, released int) error {
	return a.client.Watch(ctx, func(r *v1alpha1.ResourceRequest) (bool, error) {
		at := time.Since(a.began)
		for i := range r.Status.Allocations {
			s := &r.Status.Allocations[i]
			switch _, known := a.told[s.Index]; {
			case s.State == request.SlotFailed || s.State == request.SlotBackoff:
				return false, fmt.Errorf("container %d of %s/%s: %s: %s", s.Index, r.Namespace, r.Name, s.Reason, s.Message)
			case !known && (s.State == request.SlotAllocated || s.State == request.SlotRunning):
				a.told[s.Index] = at
			}
		}
		return int(r.Status.Allocated+r.Status.Running) == int(a.count) && int(r.Status.Released) == released, nil
	})
}

// containersProcesses are what is measured besides the harness.
type containersProcesses struct {
	controller, scheduler *process
	server                []*process
}

func (p *containersProcesses) all() []*process {
	return append([]*process{p.controller, p.scheduler}, p.server...)
}

// meter is what was used up to a time.
type meter struct {
	at        time.Time
	processes []time.Duration
	own       time.Duration
	asked     requests
}

func (h *harness) readMeter(ctx context.Context, p containersProcesses) (m meter, err error) {
	m.at = time.Now()
	if m.processes, err = cpuOf(p.all()...); err != nil {
		return m, err
	}
	if m.own, err = OwnCPU(); err != nil {
		return m, err
	}
	m.asked, err = h.asked(ctx)
	return m, err
}

// measureMasters lets all masters do something that gives each so many new containers, at once or by the rate, and waits until each was told of all.
func (h *harness) measureMasters(
	ctx context.Context, o *ContainersOptions, p containersProcesses, masters []*asker, fresh int, do func(*asker, context.Context) error,
) (c ContainersPhase, err error) {
	before, err := h.readMeter(ctx, p)
	if err != nil {
		return c, err
	}
	first := fresh == o.Containers
	ctx, stop := context.WithTimeoutCause(ctx, containersTimeout, fmt.Errorf("the containers are not allocated after %s", containersTimeout))
	defer stop()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	failed := make([]error, len(masters))
	var running sync.WaitGroup
	for i, m := range masters {
		running.Go(func() {
			if o.Rate > 0 && !apiserver.Pause(ctx, time.Duration(i*fresh)*time.Second/time.Duration(o.Rate)) {
				failed[i] = context.Cause(ctx)
				return
			}
			if failed[i] = m.play(ctx, do, first); failed[i] != nil {
				cancel(fmt.Errorf("master %d: %w", i, failed[i])) // the others fail by that, and say so
			}
		})
	}
	running.Wait()
	if at := slices.IndexFunc(failed, func(err error) bool { return err != nil }); at >= 0 {
		return c, cmp.Or(context.Cause(ctx), failed[at])
	}
	c.Seconds = time.Since(before.at).Seconds()
	select {
	case <-time.After(settle):
	case <-ctx.Done():
		return c, context.Cause(ctx)
	}
	after, err := h.readMeter(ctx, p)
	if err != nil {
		return c, err
	}
	c.fill(masters, before, after, len(masters)*fresh)
	return c, nil
}

// play does something and waits for what comes of it. At first nothing is given back.
func (a *asker) play(ctx context.Context, do func(*asker, context.Context) error, first bool) error {
	released := 0
	before := a.told
	a.began, a.told = time.Now(), make(map[int32]time.Duration)
	if !first {
		released = exchanged(int(a.count))
		for index := range before {
			a.told[index] = -1 // known already
		}
	}
	if err := do(a, ctx); err != nil {
		return err
	}
	return a.await(ctx, released)
}
