// Command node-plugin is an example of a plugin for Hilbert's node agent: it brings FPGAs that are not there. docs/how-to/write-a-node-plugin.md walks through it.
//
//	node-plugin -directory /run/hilbert/plugins -resource example.com/fpga -cards 0,0,1
//
// It has a card near NUMA node 0, another near 0 and one near 1. A container that asks for one gets the device file /dev/fpga0 (the kernel's null device, under
// another name) and the names of its cards in the variable FPGA_CARDS.
//
// With -hot FILE it also detects: while the file is there its first card runs hot, and the pod that holds it would help by going.
//
// It keeps nothing on disk. After a crash the agent tells it, in Reconcile, which pod holds which card.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	api "hilbert.dev/hilbert/api/nodeplugin/v1alpha1"
)

func main() {
	directory := flag.String("directory", "/run/hilbert/plugins", "the agent's plugin directory")
	resource := flag.String("resource", "example.com/fpga", "what pods request")
	cards := flag.String("cards", "0,1", "the NUMA node of each card")
	hot := flag.String("hot", "", "a file that is there while the first card runs hot; empty: nothing is detected")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT) //nolint:forbidigo // this is main
	defer stop()
	if err := run(ctx, *directory, *resource, *cards, *hot); err != nil {
		slog.Error("the plugin ends", "err", err)
		os.Exit(1)
	}
}

// run serves until ctx ends.
func run(ctx context.Context, directory, resource, cards, hot string) error {
	p := &fpgas{name: "fpga", resource: resource, hot: hot, holder: make(map[string]*api.Pod)}
	for i, number := range strings.Split(cards, ",") {
		numa, err := strconv.ParseInt(number, 10, 32)
		if err != nil {
			return fmt.Errorf("-cards %q: write the number of a NUMA node for each card: %w", cards, err)
		}
		p.cards = append(p.cards, card{"card-" + strconv.Itoa(i), int32(numa)})
	}
	const onlyOwner = 0o700
	if err := os.MkdirAll(directory, onlyOwner); err != nil {
		return err
	}
	socket := filepath.Join(directory, p.name+".sock")
	if err := os.Remove(socket); err != nil && !errors.Is(err, fs.ErrNotExist) { // of a process that crashed
		return err
	}
	listener, err := new(net.ListenConfig).Listen(ctx, "unix", socket)
	if err != nil {
		return err
	}
	server := grpc.NewServer()
	api.RegisterNodePluginServer(server, p)
	context.AfterFunc(ctx, server.Stop)
	return server.Serve(listener)
}

// card is one FPGA.
type card struct {
	id   string
	numa int32
}

// fpgas implements the protocol.
type fpgas struct {
	api.UnimplementedNodePluginServer

	name, resource string
	hot            string
	cards          []card

	mu     sync.Mutex
	holder map[string]*api.Pod // by the card's ID
}

// Register says who is there.
func (p *fpgas) Register(_ context.Context, r *api.RegisterRequest) (*api.RegisterResponse, error) {
	if r.GetProtocol() != api.Protocol {
		return nil, status.Errorf(codes.FailedPrecondition, "protocol %d: this plugin speaks %d", r.GetProtocol(), api.Protocol)
	}
	return &api.RegisterResponse{Protocol: api.Protocol, Name: p.name, Resource: p.resource, Version: "example", GivesHints: true, Detects: p.hot != ""}, nil
}

// Detect says whether the first card runs hot, and who holds it. The agent decides whether the pod goes: it must be a reclaimed one.
func (p *fpgas) Detect(_ context.Context, r *api.DetectRequest) (*api.DetectResponse, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	_, err := os.Stat(p.hot)
	out := &api.Finding{Condition: "CardHot", Met: err == nil, Message: p.cards[0].id + " runs hot"}
	for _, pod := range r.GetPods() {
		if holder := p.holder[p.cards[0].id]; holder.GetUid() == pod.GetPod().GetUid() {
			out.Candidates = append(out.Candidates, &api.Candidate{Uid: holder.GetUid(), Gain: 1})
		}
	}
	return &api.DetectResponse{Findings: []*api.Finding{out}}, nil
}

// Reconcile takes over what the agent has recorded: it knows better than a plugin that has crashed.
func (p *fpgas) Reconcile(_ context.Context, r *api.ReconcileRequest) (*api.ReconcileResponse, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, h := range r.GetHeld() {
		for _, id := range h.GetIds() {
			if slices.ContainsFunc(p.cards, func(c card) bool { return c.id == id }) {
				p.holder[id] = h.GetPod()
			}
		}
	}
	out := &api.ReconcileResponse{Capacity: amounts(p.cards)}
	pods := make(map[string]*api.Pod)
	for _, pod := range p.holder {
		pods[pod.GetUid()] = pod
	}
	for uid, pod := range pods {
		held := p.heldBy(uid)
		out.Held = append(out.Held, &api.Allocation{Pod: pod, Amounts: amounts(held), Ids: ids(held)})
	}
	return out, nil
}

// Hints says which NUMA nodes have enough: one alone is preferred to several.
func (p *fpgas) Hints(_ context.Context, r *api.HintsRequest) (*api.HintsResponse, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	out, all := &api.HintsResponse{}, &api.Hint{}
	free := amounts(p.free())
	total := int64(0)
	for _, a := range free {
		if total += a.GetAmount(); a.GetAmount() >= r.GetRequest().GetAmount() {
			out.Hints = append(out.Hints, &api.Hint{NumaNodes: []int32{a.GetNumaNode()}, Preferred: true})
		}
		all.NumaNodes = append(all.NumaNodes, a.GetNumaNode())
	}
	if total >= r.GetRequest().GetAmount() {
		all.Preferred = len(out.Hints) == 0
		out.Hints = append(out.Hints, all)
	}
	return out, nil
}

// Allocate gives a pod cards from the NUMA nodes that the agent chose. The same pod again gets the same.
func (p *fpgas) Allocate(_ context.Context, r *api.AllocateRequest) (*api.AllocateResponse, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	request := r.GetRequest()
	held := p.heldBy(request.GetPod().GetUid())
	if len(held) == 0 {
		for _, c := range p.free() {
			if int64(len(held)) < request.GetAmount() && slices.Contains(r.GetNumaNodes(), c.numa) {
				held = append(held, c)
			}
		}
		if int64(len(held)) < request.GetAmount() {
			return nil, status.Errorf(codes.ResourceExhausted, "%d cards asked for, %d are free there", request.GetAmount(), len(held))
		}
		for _, c := range held {
			p.holder[c.id] = request.GetPod()
		}
	}
	out := &api.AllocateResponse{Amounts: amounts(held), Ids: ids(held), Containers: make(map[string]*api.Contribution)}
	for _, c := range request.GetContainers() {
		out.Containers[c.GetContainer()] = &api.Contribution{
			Env:     map[string]string{"FPGA_CARDS": strings.Join(ids(held), ",")},
			Devices: []*api.Device{{Path: "/dev/fpga0", Type: "c", Major: 1, Minor: 3}},
		}
	}
	return out, nil
}

// Release takes a pod's cards back.
func (p *fpgas) Release(_ context.Context, r *api.ReleaseRequest) (*api.ReleaseResponse, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range p.heldBy(r.GetPod().GetUid()) {
		delete(p.holder, c.id)
	}
	return &api.ReleaseResponse{}, nil
}

func (p *fpgas) heldBy(uid string) (out []card) {
	for _, c := range p.cards {
		if p.holder[c.id] != nil && p.holder[c.id].GetUid() == uid {
			out = append(out, c)
		}
	}
	return out
}

func (p *fpgas) free() (out []card) {
	for _, c := range p.cards {
		if p.holder[c.id] == nil {
			out = append(out, c)
		}
	}
	return out
}

// amounts counts cards by NUMA node.
func amounts(cards []card) (out []*api.Amount) {
	for _, c := range cards {
		if at := slices.IndexFunc(out, func(a *api.Amount) bool { return a.GetNumaNode() == c.numa }); at >= 0 {
			out[at].Amount++
			continue
		}
		out = append(out, &api.Amount{NumaNode: c.numa, Amount: 1})
	}
	return out
}

func ids(cards []card) (out []string) {
	for _, c := range cards {
		out = append(out, c.id)
	}
	return out
}
