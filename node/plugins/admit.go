package plugins

import (
	"context"
	"errors"
	"fmt"
	"math/bits"
	"sync"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/node/allocate"
	"hilbert.dev/hilbert/node/hint"
	"hilbert.dev/hilbert/node/loop"
	"hilbert.dev/hilbert/node/plugin"
	"hilbert.dev/hilbert/node/pods"
	"hilbert.dev/hilbert/node/runtime"
	"hilbert.dev/hilbert/topology"
)

// resourcePlan is the admission of one pod that asks for resources of plugins. Its asks are called beside the loop, all others in it.
type resourcePlan struct {
	pod  spec.PodRef
	asks []resourceAsk
	// own are the hints of what the agent gives itself.
	own []hint.Resource
	// promised is where the scheduler counts on it to come from.
	promised topology.ResourceGrant
	// most is how many NUMA nodes it may be on; 0: any number.
	most int
}

// resourceAsk is one of its resources.
type resourceAsk struct {
	request *plugin.Request
	state   *pluginState
	client  *plugin.Client
	hints   []hint.Hint
	set     uint8 // chosen; 0: any
	called  bool  // Allocate was
	held    *plugin.Holding
	err     error
}

// Prepare has plugins set up what a pod's Binding promised of their resources, before the pod is admitted. It takes no longer than the timeout. done must be called
// once the pod is admitted or refused. A pod that asks for nothing of that kind costs a look into its annotations.
func (c *Controller) Prepare(ctx context.Context, s *runtime.Sandbox) (done func(), err error) {
	text := s.Annotations[spec.AnnotationResources]
	if text == "" {
		return func() {}, nil
	}
	ctx, cancel := context.WithTimeout(ctx, c.node.Config.Plugins.Timeout.D())
	defer cancel()
	var begun bool // of the loop: begin may have run, or may yet run, when the call has failed
	plan, err := loop.Returned(ctx, c.node.Loop, func() (*resourcePlan, error) {
		plan, err := c.begin(s, text)
		begun = err == nil
		return plan, err
	})
	if err != nil {
		c.node.Loop.Post(func() {
			if begun {
				c.done(s.UID)
			}
		})
		return nil, fmt.Errorf("hilbert: %s: %w; the kubelet tries again", spec.ReasonPluginFailed, err)
	}
	finished := func() { c.node.Loop.Post(func() { c.done(s.UID) }) }
	if len(plan.asks) == 0 {
		return finished, nil
	}
	plan.each(func(a *resourceAsk) {
		if a.client.Info.GivesHints {
			a.hints, a.err = a.client.Hints(ctx, a.request)
		}
	})
	if err = plan.failed(); err == nil {
		s.Within, err = loop.Returned(ctx, c.node.Loop, func() (uint8, error) { return c.choose(plan) })
	}
	if err == nil {
		plan.each(func(a *resourceAsk) {
			a.called = true
			a.held, a.err = a.client.Allocate(ctx, a.request, a.set)
		})
		err = plan.failed()
	}
	if err == nil {
		_, err = loop.Returned(ctx, c.node.Loop, func() (struct{}, error) { return struct{}{}, c.take(plan) })
	}
	if err != nil {
		c.node.Loop.Post(func() { c.undo(plan, err) })
		return nil, fmt.Errorf("hilbert: %s: %w; the kubelet tries again", spec.ReasonPluginFailed, err)
	}
	return finished, nil
}

// each calls f for all asks at once, and returns when all have ended.
func (p *resourcePlan) each(f func(*resourceAsk)) {
	var group sync.WaitGroup
	for i := range p.asks {
		group.Go(func() { f(&p.asks[i]) })
	}
	group.Wait()
}

func (p *resourcePlan) failed() (err error) {
	for i := range p.asks {
		err = errors.Join(err, p.asks[i].err)
	}
	return err
}

// begin sees who serves what the pod asks for, and marks the pod as busy.
func (c *Controller) begin(s *runtime.Sandbox, text string) (*resourcePlan, error) {
	requests, err := spec.ParseResources(text)
	switch {
	case err != nil:
		return nil, err
	case c.directory == nil:
		return nil, errors.New("the node's configuration has no plugins (node.plugins.enabled)")
	case c.busy[s.UID] > 0:
		return nil, errors.New("what the pod had before is being released")
	}
	plan := &resourcePlan{pod: s.Ref()}
	if where := s.Annotations[spec.AnnotationResourceNUMANodes]; where != "" {
		if plan.promised, err = topology.ParseResourceGrant(where); err != nil {
			return nil, err
		}
	}
	for i := range requests {
		r := requestOfPlugin(plan.pod, &requests[i])
		if h := c.book.Holds(s.UID, r.Resource); h != nil && h.Containers != nil {
			continue
		}
		p := c.serving(r.Resource)
		switch {
		case p == nil:
			return nil, fmt.Errorf("no plugin serves %s", r.Resource)
		case !p.serves:
			return nil, fmt.Errorf("plugin %s does not serve: %s", p.name, p.why)
		}
		plan.asks = append(plan.asks, resourceAsk{request: r, state: p, client: p.client})
	}
	asked := pods.Asked(s)
	plan.own = c.node.Manager.Hints(&asked)
	plan.most = plan.bound(&asked.Near)
	c.busy[s.UID]++
	return plan, nil
}

// bound is how many NUMA nodes the pod may be on; 0: any number. One that may be on several only because no single one of the machine could hold it is on as many as the
// scheduler has promised, which has judged that.
func (p *resourcePlan) bound(near *topology.Near) int {
	if near.Level < topology.SameNUMA || !near.Required {
		return 0
	}
	promised := p.promised.NUMANodes()
	for i := range p.own {
		for _, h := range p.own[i].Hints {
			if h.Preferred && near.Relax {
				promised |= h.NUMANodes
			}
		}
	}
	if !near.Relax {
		return 1
	}
	return max(1, bits.OnesCount8(promised))
}

// choose merges the hints of all resources, and returns the NUMA nodes that the pod's CPUs are to come from.
func (c *Controller) choose(p *resourcePlan) (within uint8, err error) {
	resources := p.own
	for i := range p.asks {
		a := &p.asks[i]
		known := c.book.Holds(p.pod.UID, a.request.Resource) // taken over from the plugin: it stays where it is
		switch {
		case known != nil:
			a.hints = known.Where()
		case a.client.Info.GivesHints:
			if a.hints, err = c.book.Judge(a.request, a.hints); err != nil {
				return 0, err
			}
		default:
			var ok bool
			if a.hints, ok = c.book.Hints(a.request); !ok {
				return 0, fmt.Errorf("%s: %d asked for: %w", a.request.Resource, a.request.Amount, plugin.ErrNoRoom)
			}
		}
		if known == nil {
			promised := p.promised.Of(a.request.Resource)
			a.hints = hint.Prefer(a.hints, promised.NUMANodes())
		}
		resources = append(resources, hint.Resource{Name: a.request.Resource, Hints: a.hints})
	}
	chosen, ok := hint.Merge(resources, p.most)
	if !ok {
		return 0, errors.New("no NUMA node has room for all that the pod asks for, and it may be on one only (hilbert.dev/numa-policy)")
	}
	for i := range resources {
		if i >= len(p.own) {
			p.asks[i-len(p.own)].set = chosen.Hints[i].NUMANodes
		} else if resources[i].Name == "cpu" {
			within = chosen.Hints[i].NUMANodes
		}
	}
	return within, nil
}

// take records what the plugins have allocated: all of it or nothing.
func (c *Controller) take(p *resourcePlan) error {
	for i := range p.asks {
		a := &p.asks[i]
		if a.state.client != a.client {
			a.err = fmt.Errorf("plugin %s has gone meanwhile", a.state.name)
		}
		if a.err == nil {
			c.book.Drop(p.pod.UID, a.request.Resource) // taken over from the plugin, without what its containers get
			a.err = c.book.Take(a.request, a.set, a.held)
		}
		if a.err != nil {
			for j := range i {
				c.book.Drop(p.pod.UID, p.asks[j].request.Resource)
			}
			return fmt.Errorf("plugin %s: %w", a.state.name, a.err)
		}
	}
	c.counts.Allocated += uint64(len(p.asks))
	c.save()
	return nil
}

// undo ends an admission that failed: what was allocated is released, and plugins that did not answer, or said what cannot be, are asked for nothing until they have
// been compared again.
func (c *Controller) undo(p *resourcePlan, why error) {
	c.done(p.pod.UID)
	c.counts.Refused++
	c.node.Counts.Refused[spec.ReasonPluginFailed]++
	c.node.Events.Note(p.pod, allocate.Note{Reason: spec.ReasonPluginFailed, Message: why.Error()})
	for i := range p.asks {
		a := &p.asks[i]
		c.book.Drop(p.pod.UID, a.request.Resource)
		if a.state.client != a.client {
			continue
		}
		if code := status.Code(a.err); a.err != nil && (errors.Is(a.err, plugin.ErrLie) || code == codes.DeadlineExceeded || code == codes.Unavailable || code == codes.Unimplemented) {
			c.fail(a.state, a.err)
			continue // it is compared when it is connected again, and then what it holds too much is released
		}
		if a.called {
			c.release(a.client, p.pod)
		}
	}
}
