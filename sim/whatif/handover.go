package whatif

import (
	"context"
	"fmt"
	"maps"
	"math"
	"slices"
	"time"

	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/cluster"
	"hilbert.dev/hilbert/cluster/facts"
	"hilbert.dev/hilbert/control/reschedule"
	"hilbert.dev/hilbert/control/tide"
	"hilbert.dev/hilbert/resource"
	"hilbert.dev/hilbert/schedule/inspect"
)

// Belongs is who has a node of a pool, and since when.
type Belongs struct {
	Side  tide.Side
	Since time.Time // when it changed hands last; zero: never
}

// HandOver is a dump as it would be if nodes belonged to sides: with the label and the taint of them.
func HandOver(d *inspect.Dump, sides map[string]tide.Side) *inspect.Dump {
	ledger := *d.Ledger
	ledger.Nodes = slices.Clone(ledger.Nodes)
	for i, n := range ledger.Nodes {
		if side, ok := sides[n.Name]; ok {
			ledger.Nodes[i] = belonging(n, side)
		}
	}
	out := *d
	out.Ledger = &ledger
	return &out
}

// belonging is a node as it is when it belongs to a side.
func belonging(n *facts.Node, side tide.Side) *facts.Node {
	out := *n
	out.Labels = maps.Clone(n.Labels)
	if out.Labels == nil {
		out.Labels = make(map[string]string)
	}
	delete(out.Labels, spec.LabelTide)
	out.Taints = slices.DeleteFunc(slices.Clone(n.Taints), func(t facts.Taint) bool { return t.Key == spec.LabelTide })
	switch side {
	case tide.Online:
		out.Labels[spec.LabelTide] = spec.TideOnline
	case tide.Offline:
		out.Labels[spec.LabelTide] = spec.TideOffline
		out.Taints = append(out.Taints, facts.Taint{Key: spec.LabelTide, Value: spec.TideOffline, Effect: facts.NoSchedule})
	case tide.Unassigned:
	}
	return &out
}

// pair is a node as either side's.
type pair struct{ online, offline *facts.Node }

// side is whose pod it is, on a node: of the side for which alone the node would take it.
func (p *pair) side(r *facts.Requirements) tide.Side {
	admits := func(n *facts.Node) bool { return r.Selects(n) && facts.Untolerated(n, r.Tolerations) == nil }
	switch on, off := admits(p.online), admits(p.offline); {
	case on && !off:
		return tide.Online
	case off && !on:
		return tide.Offline
	}
	return tide.Unassigned
}

// pool is nodes of a dump that belong to a TidePool, while a view of them is made.
type pool struct {
	nodes   []tide.Node
	at      map[string]int
	pairs   []pair
	left    []amounts // what there is but for pods that are made for the node
	asked   amounts   // by pods of online
	waits   bool
	members map[facts.UID]tide.Side
}

// amounts are what is asked of a node: millicores, bytes, thousandths of GPUs, pods.
type amounts [4]float64

func asks(r *facts.Requirements) amounts {
	return amounts{float64(amountOf(r, resource.NameCPU)), float64(amountOf(r, resource.NameMemory)), float64(r.GPU.Total()), 1}
}

func (a *amounts) add(b amounts, factor float64) {
	for i := range a {
		a[i] += factor * b[i]
	}
}

// TideView makes the nodes of a pool's view from a dump, and says how many of them the pods of online ask for, headroom included, and whether some wait. Pods that are made for their
// node, such as those of a DaemonSet, are of no side, and neither are pods that either side's nodes take.
func TideView(d *inspect.Dump, belongs map[string]Belongs, headroom float64) (nodes []tide.Node, need int, waits bool) {
	d.Sort()
	p := poolOf(d, belongs)
	p.fill(d)
	p.wait(d)
	return p.nodes, p.need(headroom), p.waits
}

func poolOf(d *inspect.Dump, belongs map[string]Belongs) *pool {
	p := &pool{at: make(map[string]int), members: make(map[facts.UID]tide.Side)}
	for _, n := range d.Ledger.Nodes {
		b, ok := belongs[n.Name]
		if !ok {
			continue
		}
		p.at[n.Name] = len(p.nodes)
		p.nodes = append(p.nodes, tide.Node{Name: n.Name, Side: b.Side, Since: b.Since, Open: isOpen(n)})
		p.pairs = append(p.pairs, pair{belonging(n, tide.Online), belonging(n, tide.Offline)})
		there := amounts{0, 0, float64(n.GPU.GPUs) * 1000, math.Inf(1)}
		for _, q := range n.Allocatable {
			switch q.Name {
			case resource.NameCPU:
				there[0] = float64(q.Amount)
			case resource.NameMemory:
				there[1] = float64(q.Amount)
			case resource.NamePods:
				there[3] = float64(q.Amount)
			}
		}
		p.left = append(p.left, there)
	}
	return p
}

// isOpen: the node takes pods. Its controller taints one that is not ready.
func isOpen(n *facts.Node) bool {
	return !n.Unschedulable && !slices.ContainsFunc(n.Taints, func(t facts.Taint) bool {
		return t.Effect != facts.PreferNoSchedule && (t.Key == "node.kubernetes.io/not-ready" || t.Key == "node.kubernetes.io/unreachable" || t.Key == "node.kubernetes.io/unschedulable" ||
			t.Key == "node.cloudprovider.kubernetes.io/uninitialized" || t.Key == "node.cloudprovider.kubernetes.io/shutdown")
	})
}

// fill notes what pods are on the nodes.
func (p *pool) fill(d *inspect.Dump) {
	protected := protections(d.Ledger.Budgets)
	for i := range d.Ledger.Pods {
		r := &d.Ledger.Pods[i]
		f := &r.Facts
		at, ok := p.at[f.Node]
		if !ok || f.Finished || f.Deleting || r.Phase == cluster.Finished {
			continue
		}
		if boundByName(f.Requirements, f.Node) && !r.Placeholder || f.Mirror {
			p.left[at].add(asks(f.Requirements), -1)
			continue
		}
		side := p.pairs[at].side(f.Requirements)
		if side == tide.Online {
			p.asked.add(asks(f.Requirements), 1)
		}
		if side == tide.Unassigned || r.Placeholder {
			continue
		}
		p.members[f.UID] = side
		n := &p.nodes[at]
		held := &n.Online
		if side == tide.Offline {
			held = &n.Offline
		}
		held.Pods++
		if stuck(f, protected(f)) {
			held.Stuck++
		}
		if f.Unit != "" {
			if gang := f.Namespace + "/" + f.Unit; !slices.Contains(held.Gangs, gang) {
				held.Gangs = append(held.Gangs, gang)
			}
		}
		if began := podOf(f, at, "").Began; !serves(f) && d.Taken.After(began) {
			held.Lost += (float64(amountOf(f.Requirements, resource.NameCPU)) + float64(f.Requirements.GPU.Total())) * d.Taken.Sub(began).Seconds()
		}
	}
}

// stuck: nobody may move the pod, or no place can be kept for its replacement.
func stuck(f *facts.Pod, protected string) bool {
	return !f.Ours || f.Unit != "" || protected != "" || len(f.ResourceClaims) > 0 || len(f.Claims) > 0 || f.Consent == spec.ConsentRefused || f.Consent == spec.ConsentUnreplaced
}

// triedOf are the pods that wait and fit nowhere: the scheduler tried them. Those that wait for the limit of a queue, or for their gang, are not among them.
func triedOf(d *inspect.Dump) map[facts.UID]bool {
	tried := make(map[facts.UID]bool)
	for i := range d.Queue {
		w := &d.Queue[i]
		tried[w.UID] = !w.Placeholder && w.Attempts > 0 && (w.State == inspect.WaitingUnschedulable || w.State == inspect.WaitingBackoff || w.State == inspect.WaitingActive)
	}
	return tried
}

// wait notes which pods of online wait that a node of the pool would take, were it theirs. Those that were not tried yet may have a place elsewhere.
func (p *pool) wait(d *inspect.Dump) {
	tried := triedOf(d)
	for i := range d.Ledger.Pods {
		f := &d.Ledger.Pods[i].Facts
		if f.Node != "" || !tried[f.UID] {
			continue
		}
		if slices.ContainsFunc(p.pairs, func(pair pair) bool { return pair.side(f.Requirements) == tide.Online }) {
			p.asked.add(asks(f.Requirements), 1)
			p.waits = true
		}
	}
}

// need is how many nodes hold what is asked for, by the resource of which most are needed.
func (p *pool) need(headroom float64) int {
	var whole amounts
	open := 0.0
	for i := range p.nodes {
		if p.nodes[i].Open {
			whole.add(p.left[i], 1)
			open++
		}
	}
	most := 0.0
	for i := range whole {
		if p.asked[i] > 0 && whole[i] > 0 {
			most = max(most, p.asked[i]/(whole[i]/open))
		}
	}
	return int(math.Ceil(most*(1+headroom) - 1e-9))
}

// Leave is why a pod is to leave its node, which has changed hands. Online: it is of online, and its node of offline.
type Leave struct {
	Why    string
	Online bool
}

// LeavingPods are the pods on nodes of the other side that are to leave them, by UID, and why. nodes has the reasons.
func LeavingPods(d *inspect.Dump, belongs map[string]Belongs, nodes map[string]string) map[facts.UID]Leave {
	p := poolOf(d, belongs)
	p.fill(d)
	out := make(map[facts.UID]Leave)
	for i := range d.Ledger.Pods {
		f := &d.Ledger.Pods[i].Facts
		at, ok := p.at[f.Node]
		if !ok || p.members[f.UID] == tide.Unassigned {
			continue
		}
		if n := &p.nodes[at]; n.Side != tide.Unassigned && p.members[f.UID] != n.Side && nodes[n.Name] != "" {
			out[f.UID] = Leave{nodes[n.Name], n.Side == tide.Offline}
		}
	}
	return out
}

// maxHandOverRehearsals bounds how often hand-overs are rehearsed without the nodes that turned out to be impossible.
const maxHandOverRehearsals = 4

// HandOvers are what hand-overs of a pool's nodes are rehearsed on.
type HandOvers struct {
	Dump    *inspect.Dump
	Belongs map[string]Belongs
	Params  reschedule.Params
}

// Decide decides about a pool and rehearses what goes to offline: the pods of online there must have another place, or the node is barred and it is decided anew. Where that
// finds no end, only nodes without pods of online go. v's nodes say in the end what bars them.
func (h *HandOvers) Decide(ctx context.Context, v *tide.View, now time.Time) (tide.Decision, error) {
	for range maxHandOverRehearsals {
		decision := tide.Decide(v, now)
		barred, err := h.barred(ctx, decision.Hands)
		if err != nil || len(barred) == 0 {
			return decision, err
		}
		for i := range v.Nodes {
			if n := &v.Nodes[i]; barred[n.Name] != "" {
				n.Barred = barred[n.Name]
			}
		}
	}
	last := *v
	last.Budget = 0
	return tide.Decide(&last, now), nil
}

// barred rehearses hand-overs: it says which nodes must not go to offline, since pods of online there have no other place once the nodes are handed over, and why.
func (h *HandOvers) barred(ctx context.Context, hands []tide.Hand) (map[string]string, error) {
	sides, leaving, then := make(map[string]tide.Side), make(map[string]string), maps.Clone(h.Belongs)
	for i := range hands {
		hand := &hands[i]
		sides[hand.Node] = hand.To
		then[hand.Node] = Belongs{Side: hand.To}
		if hand.To == tide.Offline {
			leaving[hand.Node] = hand.Why
		}
	}
	if len(leaving) == 0 {
		return nil, nil
	}
	after := HandOver(h.Dump, sides)
	pods := LeavingPods(after, then, leaving)
	if len(pods) == 0 {
		return nil, nil
	}
	params := h.Params
	params.WorkloadTimeLossPermille = reschedule.WholeWorkload // what has a place may leave later
	params.Most, params.Only = len(pods), []string{reschedule.ReasonHands}
	found, err := NewMoves(ctx, after, &MoveOptions{Params: params, Leaving: pods})
	if err != nil {
		return nil, err
	}
	has := make(map[facts.UID]bool)
	for _, b := range found.Batches {
		for i := range b {
			has[b[i].UID] = true
		}
	}
	out := make(map[string]string)
	for i := range after.Ledger.Pods {
		f := &after.Ledger.Pods[i].Facts
		if pods[f.UID].Why != "" && !has[f.UID] && out[f.Node] == "" {
			out[f.Node] = fmt.Sprintf("%s/%s: %s", f.Namespace, f.Name, found.whyStays(f))
		}
	}
	return out, nil
}

// whyStays says why a pod is not among the moves.
func (m *Moves) whyStays(f *facts.Pod) string {
	for i := range m.Stay {
		if s := &m.Stay[i]; s.Namespace == f.Namespace && s.Name == f.Name {
			return s.Why
		}
	}
	return "it cannot be moved"
}
