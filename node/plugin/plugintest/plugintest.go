// Package plugintest is a resource plugin for tests, which works well, fails, hangs or lies as it is told.
//
// How it works: Serve listens on a socket in a directory, as a plugin's process would, and answers from memory: it has so much of a resource in each NUMA node, and
// gives the lowest that it was told to take from. Each answer can be changed by a function of the test, and every call is counted.
//
// Invariants: it keeps to the protocol unless a test says otherwise. It is for tests of the agent; nothing of the product imports it.
package plugintest

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	api "hilbert.dev/hilbert/api/nodeplugin/v1alpha1"
)

// Plugin is a plugin. Its fields may be changed between Lock and Unlock.
type Plugin struct {
	api.UnimplementedNodePluginServer
	sync.Mutex

	Said api.RegisterResponse
	// Capacity is what each NUMA node has, by number.
	Capacity map[int32]int64
	Held     map[string]*api.Allocation // by UID
	// Before is called with the method's name before each call, without the lock; an error is the answer.
	Before func(ctx context.Context, method string) error
	// These change answers; nil: they stay.
	Hint    func(*api.HintsResponse)
	Give    func(*api.AllocateRequest, *api.AllocateResponse)
	Compare func(*api.ReconcileResponse)
	// Find is what it finds; nil: nothing.
	Find  func(*api.DetectRequest) *api.DetectResponse
	Calls map[string]int

	path   string
	server *grpc.Server
	ended  chan struct{}
}

// New returns a plugin that has one of a resource in each of two NUMA nodes.
func New(name, resource string) *Plugin {
	return &Plugin{
		Said: api.RegisterResponse{Protocol: api.Protocol, Name: name, Resource: resource, Version: "1"}, Capacity: map[int32]int64{0: 1, 1: 1},
		Held: make(map[string]*api.Allocation), Calls: make(map[string]int),
	}
}

// Directory makes a directory for plugins, with the mode that the agent wants.
func Directory(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "plugins") //nolint:usetesting // that of a test may be too long for a socket's path
	if err == nil {
		t.Cleanup(func() { _ = os.RemoveAll(dir) })
		err = os.Chmod(dir, 0o700)
	}
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

// Serve serves until Stop or the test's end.
func (p *Plugin) Serve(t *testing.T, directory string) {
	t.Helper()
	p.path = filepath.Join(directory, p.Said.GetName()+".sock")
	listener, err := new(net.ListenConfig).Listen(t.Context(), "unix", p.path)
	if err != nil {
		t.Fatal(err)
	}
	p.server, p.ended = grpc.NewServer(), make(chan struct{})
	api.RegisterNodePluginServer(p.server, p)
	server, ended := p.server, p.ended
	go func() {
		defer close(ended)
		_ = server.Serve(listener)
	}()
	t.Cleanup(p.Stop)
}

// Stop ends it as a crash does: what it holds is forgotten unless the test keeps it.
func (p *Plugin) Stop() {
	p.server.Stop()
	<-p.ended
	_ = os.Remove(p.path)
}

func (p *Plugin) begin(ctx context.Context, method string) error {
	p.Lock()
	p.Calls[method]++
	before := p.Before
	p.Unlock()
	if before != nil {
		return before(ctx, method)
	}
	return nil
}

// Count is how often a method was called.
func (p *Plugin) Count(method string) int {
	p.Lock()
	defer p.Unlock()
	return p.Calls[method]
}

// Register implements the protocol.
func (p *Plugin) Register(ctx context.Context, _ *api.RegisterRequest) (*api.RegisterResponse, error) {
	if err := p.begin(ctx, "Register"); err != nil {
		return nil, err
	}
	r := &p.Said
	return &api.RegisterResponse{Protocol: r.GetProtocol(), Name: r.GetName(), Resource: r.GetResource(), Version: r.GetVersion(), GivesHints: r.GetGivesHints(), Detects: r.GetDetects()}, nil
}

// Detect implements the protocol.
func (p *Plugin) Detect(ctx context.Context, r *api.DetectRequest) (*api.DetectResponse, error) {
	if err := p.begin(ctx, "Detect"); err != nil {
		return nil, err
	}
	p.Lock()
	defer p.Unlock()
	if p.Find == nil {
		return &api.DetectResponse{}, nil
	}
	return p.Find(r), nil
}

// Reconcile implements the protocol.
func (p *Plugin) Reconcile(ctx context.Context, r *api.ReconcileRequest) (*api.ReconcileResponse, error) {
	if err := p.begin(ctx, "Reconcile"); err != nil {
		return nil, err
	}
	p.Lock()
	defer p.Unlock()
	for _, h := range r.GetHeld() {
		p.Held[h.GetPod().GetUid()] = h
	}
	out := &api.ReconcileResponse{}
	for numa, amount := range p.Capacity {
		out.Capacity = append(out.Capacity, &api.Amount{NumaNode: numa, Amount: amount})
	}
	for _, h := range p.Held {
		out.Held = append(out.Held, h)
	}
	if p.Compare != nil {
		p.Compare(out)
	}
	return out, nil
}

func (p *Plugin) free(numa int32) int64 {
	left := p.Capacity[numa]
	for _, h := range p.Held {
		for _, a := range h.GetAmounts() {
			if a.GetNumaNode() == numa {
				left -= a.GetAmount()
			}
		}
	}
	return left
}

// Hints implements the protocol: each NUMA node that has enough.
func (p *Plugin) Hints(ctx context.Context, r *api.HintsRequest) (*api.HintsResponse, error) {
	if err := p.begin(ctx, "Hints"); err != nil {
		return nil, err
	}
	p.Lock()
	defer p.Unlock()
	out := &api.HintsResponse{}
	for numa := range p.Capacity {
		if p.free(numa) >= r.GetRequest().GetAmount() {
			out.Hints = append(out.Hints, &api.Hint{NumaNodes: []int32{numa}, Preferred: true})
		}
	}
	if p.Hint != nil {
		p.Hint(out)
	}
	return out, nil
}

// Allocate implements the protocol.
func (p *Plugin) Allocate(ctx context.Context, r *api.AllocateRequest) (*api.AllocateResponse, error) {
	if err := p.begin(ctx, "Allocate"); err != nil {
		return nil, err
	}
	p.Lock()
	defer p.Unlock()
	uid := r.GetRequest().GetPod().GetUid()
	h := p.Held[uid]
	if h == nil {
		h = &api.Allocation{Pod: r.GetRequest().GetPod()}
		left := r.GetRequest().GetAmount()
		numaNodes := slices.Clone(r.GetNumaNodes())
		slices.Sort(numaNodes)
		for _, numa := range numaNodes {
			for left > 0 && p.free(numa) > taken(h, numa) {
				h.Ids = append(h.Ids, fmt.Sprintf("%s-%d-%d", p.Said.GetName(), numa, p.Capacity[numa]-p.free(numa)+taken(h, numa)))
				add(h, numa)
				left--
			}
		}
		if left > 0 {
			return nil, status.Errorf(codes.ResourceExhausted, "%d too few", left)
		}
		p.Held[uid] = h
	}
	out := &api.AllocateResponse{Amounts: h.GetAmounts(), Ids: h.GetIds(), Containers: make(map[string]*api.Contribution)}
	for _, c := range r.GetRequest().GetContainers() {
		out.Containers[c.GetContainer()] = &api.Contribution{
			Env:     map[string]string{"TEST_DEVICE": h.GetIds()[0]},
			Devices: []*api.Device{{Path: "/dev/test0", Type: "c", Major: 240, Minor: 0}},
		}
	}
	if p.Give != nil {
		p.Give(r, out)
	}
	return out, nil
}

func taken(h *api.Allocation, numa int32) int64 {
	for _, a := range h.GetAmounts() {
		if a.GetNumaNode() == numa {
			return a.GetAmount()
		}
	}
	return 0
}

func add(h *api.Allocation, numa int32) {
	for _, a := range h.GetAmounts() {
		if a.GetNumaNode() == numa {
			a.Amount++
			return
		}
	}
	h.Amounts = append(h.Amounts, &api.Amount{NumaNode: numa, Amount: 1})
}

// Release implements the protocol.
func (p *Plugin) Release(ctx context.Context, r *api.ReleaseRequest) (*api.ReleaseResponse, error) {
	if err := p.begin(ctx, "Release"); err != nil {
		return nil, err
	}
	p.Lock()
	defer p.Unlock()
	delete(p.Held, r.GetPod().GetUid())
	return &api.ReleaseResponse{}, nil
}

// Holders are the UIDs of the pods that it has something set up for.
func (p *Plugin) Holders() (out []string) {
	p.Lock()
	defer p.Unlock()
	for uid := range p.Held {
		out = append(out, uid)
	}
	slices.Sort(out)
	return out
}
