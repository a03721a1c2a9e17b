package plugins

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/node/allocate"
	"hilbert.dev/hilbert/node/controller"
	"hilbert.dev/hilbert/node/evict"
	"hilbert.dev/hilbert/node/plugin"
	"hilbert.dev/hilbert/node/runtime"
	"hilbert.dev/hilbert/node/store"
)

// Controller brings resources of plugins to pods: it finds the plugins, keeps the book of who holds what, and compares the book with what plugins say.
//
// A plugin that fails is not asked for anything until it has answered Reconcile again, at the next interval. So pods that ask for its resource are refused at once,
// and a plugin that hangs delays the start of one pod per interval, by the timeout. Other pods never wait for a plugin.
//
// Where a plugin and the book differ, the book is right: what the plugin says that a pod holds, and no pod here does, is released; what a pod holds and the plugin
// has forgotten was in the request, so the plugin has it again or the pod is told.
type Controller struct {
	node      *controller.Node
	directory *plugin.Directory // nil: no plugin is asked
	kept      store.Store       // nil: what pods hold is not kept
	book      *plugin.Book
	saver     *store.Saver
	plugins   map[string]*pluginState // by name
	// busy counts what is under way for a pod, by UID: an admission, or releases. Nothing else begins for it meanwhile.
	busy map[string]int
	// unmanaged are pods that run and could not be adopted. What they hold stays theirs until the runtime tells anew what runs.
	unmanaged map[string]bool
	looked    time.Time
	looking   bool
	counts    Counts
}

// Counts are what plugins have done since the agent was started.
type Counts struct {
	Allocated, Released, Refused uint64
	// Failures are calls that ended with an error, or with what cannot be.
	Failures uint64
	// Lost are holdings that a plugin had forgotten, Unknown those that it had and no pod has.
	Lost, Unknown uint64
}

// pluginState is one plugin.
type pluginState struct {
	name string
	// client is nil while there is no connection.
	client *plugin.Client
	// serves: it may be asked. Otherwise why says why not.
	serves bool
	why    string
	busy   bool // it is being connected, or compared
	// found is what it said at detected that it has found out.
	found    []evict.Finding
	detected time.Time
	told     map[string]bool
}

// NewController returns one that asks the plugins of a directory, and keeps what pods hold; nil for either: it does not.
func NewController(n *controller.Node, directory *plugin.Directory, kept store.Store) *Controller {
	c := &Controller{node: n, directory: directory, kept: kept, book: plugin.NewBook(), plugins: make(map[string]*pluginState), busy: make(map[string]int), unmanaged: make(map[string]bool)}
	c.saver = store.NewSaver(n.Loop, n.Now, kept, func(err error) {
		if err != nil {
			n.Events.Problems.Set(spec.ReasonCheckpointLost, err.Error())
			return
		}
		n.Events.Problems.Resolve(spec.ReasonCheckpointLost)
	})
	return c
}

// resourcesVersion is that of the file with what pods hold.
const resourcesVersion = 1

type resourcesState struct {
	Version int               `json:"version"`
	Held    []*plugin.Holding `json:"held"`
}

// Restore takes over what was on disk.
func (c *Controller) Restore() {
	if c.kept == nil {
		return
	}
	data, err := c.kept.Load()
	if err == nil && data == nil {
		return
	}
	var state resourcesState
	if err == nil {
		err = json.Unmarshal(data, &state)
	}
	if err == nil && state.Version != resourcesVersion {
		err = fmt.Errorf("version %d: want %d", state.Version, resourcesVersion)
	}
	if err != nil {
		c.node.Counts.CheckpointErrors++
		c.node.Log.Warn("what pods hold of plugins' resources cannot be read; what the plugins say is taken over", "err", err)
		return
	}
	c.book.Restore(state.Held)
}

func (c *Controller) save() {
	if c.directory == nil {
		return
	}
	data, err := json.Marshal(resourcesState{resourcesVersion, c.book.All()})
	if err != nil {
		c.node.Events.Problems.Set(spec.ReasonCheckpointLost, err.Error())
		return
	}
	c.saver.Save(data, c.node.Now())
}

// Tick implements controller.Ticker: it releases what pods held that are gone, and looks for plugins when it is time.
func (c *Controller) Tick(now time.Time) (changed bool) {
	directory := c.directory
	if directory == nil || !c.node.Loop.Running() {
		return false
	}
	if c.node.Runtime.Synced {
		c.releaseGone()
	}
	c.save()
	if c.looking || !c.looked.IsZero() && now.Sub(c.looked) < c.node.Config.Plugins.Interval.D() {
		return false
	}
	c.looking, c.looked = true, now
	c.node.Loop.Work(func(context.Context) {
		sockets, notes, err := directory.List()
		c.node.Loop.Post(func() { c.found(sockets, notes, err) })
	})
	return false
}

// found takes in which sockets there are.
func (c *Controller) found(sockets []plugin.Socket, notes []string, err error) {
	c.looking = false
	if err != nil {
		notes, sockets = []string{err.Error()}, nil
	}
	if len(notes) > 0 {
		c.node.Events.Problems.Set(spec.ReasonPluginFailed, strings.Join(notes, "; "))
	} else {
		c.node.Events.Problems.Resolve(spec.ReasonPluginFailed)
	}
	for _, name := range slices.Sorted(maps.Keys(c.plugins)) {
		if p := c.plugins[name]; !p.busy && !slices.ContainsFunc(sockets, func(s plugin.Socket) bool { return s.Name == name }) {
			c.stop(p, "its socket is gone")
		}
	}
	for _, s := range sockets {
		p := c.plugins[s.Name]
		if p == nil {
			p = &pluginState{name: s.Name, why: "it is not connected yet", told: make(map[string]bool)}
			c.plugins[s.Name] = p
		}
		if p.busy {
			continue
		}
		if p.client != nil && p.client.Socket != s {
			c.stop(p, "it was started anew")
		}
		p.busy = true
		if p.client != nil {
			c.ask(p)
			continue
		}
		c.connect(p, s)
	}
}

// call runs something that asks a plugin, beside the loop, within the timeout.
func (c *Controller) call(ask func(ctx context.Context) (then func())) {
	timeout := c.node.Config.Plugins.Timeout.D()
	c.node.Loop.Work(func(ctx context.Context) {
		ctx, cancel := context.WithTimeout(ctx, timeout)
		defer cancel()
		c.node.Loop.Post(ask(ctx))
	})
}

func (c *Controller) connect(p *pluginState, s plugin.Socket) {
	directory := c.directory
	c.call(func(ctx context.Context) func() {
		client, err := directory.Connect(ctx, s)
		return func() {
			p.busy = false
			if err != nil {
				c.fail(p, err)
				return
			}
			if other := c.serving(client.Info.Resource); other != nil && client.Info.Resource != "" {
				client.Close()
				c.fail(p, fmt.Errorf("plugin %s: resource %s is plugin %s's already", p.name, client.Info.Resource, other.name))
				return
			}
			p.client, p.busy = client, true
			c.node.Log.Info("a plugin has registered", "plugin", p.name, "resource", client.Info.Resource, "version", client.Info.Version)
			c.ask(p)
		}
	})
}

// serving is the plugin that has registered a resource; nil: none has.
func (c *Controller) serving(resource string) *pluginState {
	for _, name := range slices.Sorted(maps.Keys(c.plugins)) {
		if p := c.plugins[name]; p.client != nil && p.client.Info.Resource == resource {
			return p
		}
	}
	return nil
}

// compare compares what the plugin says with the book.
func (c *Controller) compare(p *pluginState) {
	client := p.client
	held := c.book.Of(client.Info.Resource)
	c.call(func(ctx context.Context) func() {
		capacity, has, err := client.Reconcile(ctx, held)
		return func() {
			if !c.answered(p, client, err) {
				return
			}
			c.book.Offer(client.Info.Resource, capacity)
			c.compared(p, held, has)
			if client.Info.Detects {
				p.busy = true
				c.detect(p)
			}
		}
	})
}

// answered takes note that the call of a plugin has ended, and reports whether its answer counts: it is no error, and client is the plugin's still.
func (c *Controller) answered(p *pluginState, client *plugin.Client, err error) bool {
	p.busy = false
	switch {
	case p.client != client: // it failed meanwhile
		return false
	case err != nil:
		c.fail(p, err)
		return false
	}
	p.serves, p.why = true, ""
	return true
}

// compared takes in what a plugin, which was told what pods hold, says that they do.
func (c *Controller) compared(p *pluginState, told, has []*plugin.Holding) {
	client, resource := p.client, p.client.Info.Resource
	knows := make(map[string]bool, len(has))
	for _, h := range has {
		knows[h.Pod.UID] = true
		if c.book.Holds(h.Pod.UID, resource) == nil && c.busy[h.Pod.UID] == 0 {
			c.unknown(client, h)
		}
	}
	for _, h := range told {
		uid := h.Pod.UID
		if lost := !knows[uid] && c.book.Holds(uid, resource) == h; lost && !p.told[uid] {
			c.counts.Lost++
			c.node.Events.Note(h.Pod, allocate.Note{Reason: spec.ReasonPluginLost, Message: fmt.Sprintf("plugin %s does not know that it holds %d of %s", p.name, h.Amounts.Sum(), resource)})
		} else if !lost {
			delete(p.told, uid)
			continue
		}
		p.told[uid] = true
	}
}

// unknown takes in that a plugin has something set up for a pod that holds nothing by the book. If the pod runs here and was promised it, the book was lost; else it
// is released.
func (c *Controller) unknown(client *plugin.Client, h *plugin.Holding) {
	if !c.node.Runtime.Synced { // it is not known yet what runs
		return
	}
	if p := c.node.Pods.Of(h.Pod.UID); p != nil {
		requests, _ := spec.ParseResources(p.Resources) // what cannot be read was never given
		for i := range requests {
			if r := requestOfPlugin(p.Ref, &requests[i]); r.Resource == h.Resource && c.book.Take(r, 0, h) == nil {
				c.node.Log.Info("took over what a plugin says that a pod holds", "pod", p.Ref, "resource", h.Resource)
				return
			}
		}
	}
	c.counts.Unknown++
	c.release(client, h.Pod)
}

func requestOfPlugin(pod spec.PodRef, r *spec.ResourceRequest) *plugin.Request {
	return &plugin.Request{Pod: pod, Resource: r.Resource, Amount: r.Amount(), Containers: r.Containers}
}

// fail has a plugin asked for nothing until it has been connected and compared again.
func (c *Controller) fail(p *pluginState, err error) {
	c.counts.Failures++
	if p.serves || p.why != err.Error() {
		c.node.Events.Note(spec.PodRef{}, allocate.Note{Reason: spec.ReasonPluginFailed, Message: err.Error()})
	}
	why := err.Error()
	p.serves, p.why = false, why
	if p.client != nil {
		p.client.Close()
		p.client = nil
	}
}

// stop is the end of a plugin that has ended itself.
func (c *Controller) stop(p *pluginState, why string) {
	if p.client != nil {
		c.node.Log.Info("a plugin has gone", "plugin", p.name, "why", why)
		p.client.Close()
	}
	p.client, p.serves, p.why, p.found = nil, false, why, nil
}

// releaseGone releases what pods held that are gone.
func (c *Controller) releaseGone() {
	for _, h := range c.book.All() {
		uid := h.Pod.UID
		if c.node.Pods.Of(uid) != nil || c.unmanaged[uid] || c.busy[uid] > 0 {
			continue
		}
		c.book.Drop(uid, h.Resource)
		c.counts.Released++
		if p := c.serving(h.Resource); p != nil { // else it is released when the plugin is compared
			c.release(p.client, h.Pod)
		}
	}
}

// release has a plugin take back what a pod had. If that fails, the next comparison finds it.
func (c *Controller) release(client *plugin.Client, pod spec.PodRef) {
	c.busy[pod.UID]++
	c.call(func(ctx context.Context) func() {
		err := client.Release(ctx, pod)
		return func() {
			c.done(pod.UID)
			if err != nil {
				c.counts.Failures++
				c.node.Log.Warn("a plugin has not released what a pod had; it is asked again", "pod", pod, "err", err)
			}
		}
	})
}

func (c *Controller) done(uid string) {
	if c.busy[uid]--; c.busy[uid] <= 0 {
		delete(c.busy, uid)
	}
}

// Marks is what a pod holds, for the marks of its containers: they outlast the loss of the agent's state and of the plugin's.
func (c *Controller) Marks(uid string) (out []*plugin.Holding) {
	for _, h := range c.book.All() {
		if h.Pod.UID == uid {
			out = append(out, &plugin.Holding{Pod: h.Pod, Resource: h.Resource, Amounts: h.Amounts, IDs: h.IDs})
		}
	}
	return out
}

// RunsUnmanaged says that a pod runs and could not be adopted.
func (c *Controller) RunsUnmanaged(uid string) { c.unmanaged[uid] = true }

// Saver keeps what pods hold on disk.
func (c *Controller) Saver() *store.Saver { return c.saver }

// Counts are what plugins have done since the agent was started.
func (c *Controller) Counts() Counts { return c.counts }

// Recall begins anew with the pods that could not be adopted, and takes over from the marks of containers what their pods hold and the book does not know.
func (c *Controller) Recall(sandboxes []runtime.Sandbox, containers []runtime.Container) {
	clear(c.unmanaged)
	pods := make(map[string]*runtime.Sandbox, len(sandboxes))
	for i := range sandboxes {
		pods[sandboxes[i].ID] = &sandboxes[i]
	}
	for i := range containers {
		box := &containers[i]
		s := pods[box.Sandbox]
		m, ok := runtime.ParseMark(box.Mark, box.ID)
		if !ok || box.Stopped || s == nil || s.Annotations[spec.AnnotationResources] == "" {
			continue
		}
		for _, h := range m.Resources {
			if h != nil && h.Pod.UID == s.UID && c.book.Holds(s.UID, h.Resource) == nil {
				c.book.Restore([]*plugin.Holding{h})
			}
		}
	}
}

// Contribution is what a container gets of what its pod holds.
func (c *Controller) Contribution(s *runtime.Sandbox, box *runtime.Container) (out plugin.Contribution, err error) {
	text := s.Annotations[spec.AnnotationResources]
	if text == "" {
		return out, nil
	}
	requests, err := spec.ParseResources(text)
	if err != nil {
		return out, fmt.Errorf("hilbert: %w", err)
	}
	seen := make(map[string]string) // variables, devices and mounts: which resource brings each
	for i := range requests {
		r := &requests[i]
		if !slices.ContainsFunc(r.Containers, func(a spec.ContainerAmount) bool { return a.Container == box.Name }) {
			continue
		}
		h := c.book.Holds(s.UID, r.Resource)
		if h == nil || h.Containers == nil {
			return out, fmt.Errorf("hilbert: %s: container %s asks for %s, and its pod holds none yet; the kubelet tries again", spec.ReasonPluginFailed, box.Name, r.Resource)
		}
		if err := join(&out, h.Containers[box.Name], r.Resource, seen); err != nil {
			return out, fmt.Errorf("hilbert: %s: container %s: %w", spec.ReasonPluginFailed, box.Name, err)
		}
	}
	return out, nil
}

// join adds what one plugin contributes to what others do. Two that want the same place would undo each other.
func join(out *plugin.Contribution, more plugin.Contribution, resource string, seen map[string]string) error {
	claim := func(what string) error {
		if other, taken := seen[what]; taken {
			return fmt.Errorf("%s and %s both bring the %s", other, resource, what)
		}
		seen[what] = resource
		return nil
	}
	var err error
	for _, v := range more.Env {
		name, _, _ := strings.Cut(v, "=")
		err = errors.Join(err, claim("variable "+name))
	}
	for _, d := range more.Devices {
		err = errors.Join(err, claim("file "+d.Path))
	}
	for _, m := range more.Mounts {
		err = errors.Join(err, claim("file "+m.Place))
	}
	out.Env, out.Devices, out.Mounts = append(out.Env, more.Env...), append(out.Devices, more.Devices...), append(out.Mounts, more.Mounts...)
	for key, value := range more.Annotations {
		if out.Annotations == nil {
			out.Annotations = make(map[string]string)
		}
		err = errors.Join(err, claim("annotation "+key))
		out.Annotations[key] = value
	}
	return err
}

// Close closes all connections when the agent ends. What pods hold stays set up.
func (c *Controller) Close() {
	for _, p := range c.plugins {
		if p.client != nil {
			p.client.Close()
		}
	}
}
