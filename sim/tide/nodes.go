package tide

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"hilbert.dev/hilbert/control/budget"
	"hilbert.dev/hilbert/control/reschedule"
	"hilbert.dev/hilbert/control/tide"
)

// nodePool is nodes that change hands as those of a TidePool do: control/tide decides, and what it decides takes time. A replica runs on nodes of online alone, a job on nodes of offline
// alone, except that who is there when a node changes hands stays until it is moved, preempted or done.
type nodePool struct {
	slots  int // of a node
	nodes  []poolNode
	random *rand.Rand
	mean   time.Duration // of a job
	grace  time.Duration // of one that is evicted
	start  time.Duration // of a replica
	change time.Duration // of a node, until it takes pods of its new side
	loss   int           // how much of their time replicas may lose to moves, in thousandths
	memory tide.Memory
	budget *budget.Budget
	flying []time.Time // until when moves are on their way
	served time.Time   // when the last replica that was moved serves again; zero: none was moved

	waiting   int   // replicas without a slot
	waitsFor  Cause // why
	evictions int
	moved     int // replicas
	handed    int // nodes
	lost      time.Duration
	done      time.Duration
	podTime   time.Duration
	nodeTime  time.Duration // of online
}

// poolNode is one node of it.
type poolNode struct {
	side     tide.Side
	since    time.Time // when it changed hands; zero: never
	opens    time.Time // when it takes pods of its side
	replicas []replica
	jobs     []job // the oldest first
}

func (n *poolNode) free(slots int) int { return slots - len(n.replicas) - len(n.jobs) }

func (n *poolNode) takes(side tide.Side, now time.Time) bool {
	return n.side == side && !n.opens.After(now)
}

// newNodePool has so many nodes, the first of them online's.
func newNodePool(o *Options, slots, online int) *nodePool {
	p := &nodePool{slots: o.PodsPerNode, random: rand.New(rand.NewPCG(o.Seed, 1)), mean: o.Job, grace: o.Grace, start: o.Start, change: o.Change, loss: o.WorkloadTimeLossPermille}
	p.budget = budget.New(budget.Limits{PerHour: movesPerHour, Burst: movesBurst}, time.Time{})
	p.nodes = make([]poolNode, max((slots+p.slots-1)/p.slots, 2))
	for i := range p.nodes {
		p.nodes[i].side = tide.Offline
		if i < max(online, 1) {
			p.nodes[i].side = tide.Online
		}
	}
	return p
}

func (p *nodePool) replicas() (n int) {
	for i := range p.nodes {
		n += len(p.nodes[i].replicas)
	}
	return n
}

// scale makes the replicas this many. New ones take free slots of online's fullest nodes, then those of the youngest jobs there, which have the lower priority; the rest waits.
func (p *nodePool) scale(replicas int, now time.Time) {
	have := p.replicas()
	for ; have > replicas; have-- {
		p.remove()
	}
	waited := p.waiting
	p.waiting = 0
	for ; have < replicas; have++ {
		r := replica{ready: now.Add(p.start)}
		if waited > 0 {
			r.late = p.waitsFor
			waited--
		}
		n := p.target(tide.Online, nil, now)
		if n == nil {
			if n = p.victim(now); n == nil {
				p.waiting = replicas - have
				return
			}
			p.evict(n, now)
			r.ready = r.ready.Add(p.grace)
		}
		n.replicas = append(n.replicas, r)
	}
}

// remove ends the newest replica of the node that has the most, which is what a ReplicaSet does.
func (p *nodePool) remove() {
	most := &p.nodes[0]
	for i := range p.nodes {
		if n := &p.nodes[i]; len(n.replicas) > len(most.replicas) {
			most = n
		}
	}
	most.replicas = most.replicas[:len(most.replicas)-1]
}

// target is the fullest other node of a side with a free slot; nil: there is none.
func (p *nodePool) target(side tide.Side, but *poolNode, now time.Time) (best *poolNode) {
	for i := range p.nodes {
		if n := &p.nodes[i]; n != but && n.takes(side, now) && n.free(p.slots) > 0 && (best == nil || n.free(p.slots) < best.free(p.slots)) {
			best = n
		}
	}
	return best
}

// victim is the node of online with the youngest job; nil: none has any.
func (p *nodePool) victim(now time.Time) (best *poolNode) {
	youngest := func(n *poolNode) time.Time { return n.jobs[len(n.jobs)-1].began }
	for i := range p.nodes {
		if n := &p.nodes[i]; n.takes(tide.Online, now) && len(n.jobs) > 0 && (best == nil || youngest(n).After(youngest(best))) {
			best = n
		}
	}
	return best
}

// evict ends the youngest job of a node, which loses what it has done.
func (p *nodePool) evict(n *poolNode, now time.Time) {
	last := len(n.jobs) - 1
	p.lost += now.Sub(n.jobs[last].began)
	n.jobs = n.jobs[:last]
	p.evictions++
}

// run lets time pass up to now: jobs end, and others take free slots of offline's nodes.
func (p *nodePool) run(now time.Time, step time.Duration) {
	for i := range p.nodes {
		n := &p.nodes[i]
		kept := n.jobs[:0]
		for _, j := range n.jobs {
			if j.ends.After(now) {
				kept = append(kept, j)
			} else {
				p.done += j.ends.Sub(j.began)
			}
		}
		n.jobs = kept
		for n.takes(tide.Offline, now) && n.free(p.slots) > 0 {
			n.jobs = append(n.jobs, p.job(now))
		}
		if n.side == tide.Online {
			p.nodeTime += step
		}
		p.podTime += step * time.Duration(len(n.replicas))
	}
}

func (p *nodePool) job(now time.Time) job {
	length := time.Duration(p.random.ExpFloat64() * float64(p.mean)).Round(time.Second)
	return job{now, now.Add(length + time.Second)}
}

// ready is how many replicas serve.
func (p *nodePool) ready(now time.Time) (n int) {
	for i := range p.nodes {
		for _, r := range p.nodes[i].replicas {
			if !r.ready.After(now) {
				n++
			}
		}
	}
	return n
}

// view is the pool as control/tide sees it.
func (p *nodePool) view(settings *tide.Pool, need int, now time.Time) *tide.View {
	v := &tide.View{Pool: *settings, Memory: p.memory, Need: need, Waits: p.waiting > 0, Budget: p.budget.Left(now)}
	for i := range p.nodes {
		n := &p.nodes[i]
		node := tide.Node{Name: fmt.Sprintf("%04d", i), Side: n.side, Since: n.since, Open: !n.opens.After(now)}
		node.Online.Pods, node.Offline.Pods = len(n.replicas), len(n.jobs)
		for _, j := range n.jobs {
			node.Offline.Lost += now.Sub(j.began).Seconds()
		}
		v.Nodes = append(v.Nodes, node)
	}
	return v
}

const (
	// The defaults of hilbertd: moves that are on their way at once (rescheduling.maxInFlight), and how many pods are disturbed (controller.disturbances).
	movesInFlight = 10
	movesPerHour  = 60
	movesBurst    = 20
	// workloadPercent is how many of the replicas start or move at once (rescheduling.maxWorkloadPercent).
	workloadPercent = 10
	// rehearsals are how often it is decided anew because services on a node have no other place, as in production.
	rehearsals = 4
)

// decide has nodes change hands, and pods leave nodes of the other side.
func (p *nodePool) decide(v *tide.View, now time.Time) {
	var d tide.Decision
	for range rehearsals {
		d = tide.Decide(v, now)
		if !p.bar(v, d.Hands, now) {
			break
		}
	}
	if p.bar(v, d.Hands, now) { // no end was found: only nodes without services
		v.Budget = 0
		d = tide.Decide(v, now)
	}
	p.memory = d.Memory
	switch d.Outcome {
	case tide.Short:
		p.waitsFor = CauseSize
	case tide.Bounded:
		p.waitsFor = CauseHour
	default:
		p.waitsFor = CauseChange
	}
	for _, h := range d.Hands {
		i := slices.IndexFunc(v.Nodes, func(n tide.Node) bool { return n.Name == h.Node })
		n := &p.nodes[i]
		n.side, n.since, n.opens = h.To, now, now.Add(p.change)
		v.Nodes[i].Side, v.Nodes[i].Since = h.To, now
		p.handed++
	}
	leaving := tide.Leaving(v, now)
	p.flying = slices.DeleteFunc(p.flying, func(until time.Time) bool { return !until.After(now) })
	for i := range p.nodes {
		if leaving[v.Nodes[i].Name] != "" {
			p.leave(&p.nodes[i], now)
		}
	}
}

// bar says whether services on nodes that are to go to offline have no other place, and bars the fullest of these nodes.
func (p *nodePool) bar(v *tide.View, hands []tide.Hand, now time.Time) bool {
	var going []int
	pods, room := 0, 0
	for i := range p.nodes {
		n := &p.nodes[i]
		if slices.ContainsFunc(hands, func(h tide.Hand) bool { return h.To == tide.Offline && h.Node == v.Nodes[i].Name }) {
			going = append(going, i)
			pods += len(n.replicas)
		} else if n.takes(tide.Online, now) {
			room += n.free(p.slots)
		}
	}
	if pods <= room {
		return false
	}
	fullest := slices.MaxFunc(going, func(a, b int) int { return cmp.Compare(len(p.nodes[a].replicas), len(p.nodes[b].replicas)) })
	v.Nodes[fullest].Barred = "its replicas have no other place"
	return true
}

// leave moves pods of the other side off a node, each to a free slot of its side, as many as the budget and the bound on moves allow. What finds no slot stays. Whoever is moved begins anew.
func (p *nodePool) leave(n *poolNode, now time.Time) {
	for n.side == tide.Offline && len(n.replicas) > 0 {
		to := p.target(tide.Online, n, now)
		if to == nil || !p.spares(n.replicas[len(n.replicas)-1].ready, now) || !p.mayMove(p.grace+p.start, now) {
			return
		}
		n.replicas = n.replicas[:len(n.replicas)-1]
		to.replicas = append(to.replicas, replica{ready: now.Add(p.grace + p.start), moved: true})
		p.moved++
		p.served = now.Add(p.grace + p.start)
	}
	for n.side == tide.Online && len(n.jobs) > 0 {
		to := p.target(tide.Offline, n, now)
		if to == nil || !p.mayMove(p.grace, now) {
			return
		}
		p.evict(n, now)
		to.jobs = append(to.jobs, p.job(now))
	}
}

// spares reports whether the service can do without one more of its replicas, which serves from a time on, by the rules of package reschedule.
func (p *nodePool) spares(from, now time.Time) bool {
	all := p.replicas()
	return from.After(now) || all-p.ready(now) < max(all*workloadPercent/100, 1) && p.moving(now) < p.saved(all, now)
}

// saved is how many replicas may be moved since the last one was: 1 if none was.
func (p *nodePool) saved(all int, now time.Time) int {
	switch {
	case p.loss >= reschedule.WholeWorkload:
		return all
	case p.served.IsZero():
		return 1
	}
	return int(now.Sub(p.served) / max(reschedule.StartTime*reschedule.WholeWorkload/time.Duration(max(p.loss, 1)*all), 1))
}

// moving is how many replicas are on their way to other nodes.
func (p *nodePool) moving(now time.Time) (n int) {
	for i := range p.nodes {
		for _, r := range p.nodes[i].replicas {
			if r.moved && r.ready.After(now) {
				n++
			}
		}
	}
	return n
}

// mayMove takes a move that takes so long.
func (p *nodePool) mayMove(length time.Duration, now time.Time) bool {
	if len(p.flying) >= movesInFlight || p.budget.Take(1, now) == 0 {
		return false
	}
	p.flying = append(p.flying, now.Add(length))
	return true
}
