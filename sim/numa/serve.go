package numa

import (
	"math"
	"math/rand/v2"

	"hilbert.dev/hilbert/internal/heap"
	"hilbert.dev/hilbert/topology"
)

// Streams of a seed: each is drawn from apart, so that placements differ in nothing else.
const (
	streamServers uint64 = iota + 1
	streamNUMA
	streamRequests // and the server's id times two, then plus one for services
)

// warm is the share of the time that is not counted.
const warm = 0.1

// event is a request that comes (run < 0), or a service that ends.
type event struct {
	at     float64
	server int32
	run    int32
}

// request waits, or is served.
type request struct{ came, work float64 }

// run is a service in progress, and what it draws from each NUMA node's memory.
type run struct {
	request

	numa int
	flow [topology.MaxNUMANodes]float64
}

// queue is one server at work.
type queue struct {
	seat

	workers, busy    int
	busyIn           [topology.MaxNUMANodes]int
	parts            [topology.MaxNUMANodes]float64 // of its memory
	arrivals, drawn  *rand.Rand
	rate, mean       float64 // requests a second, seconds of a service
	fast             bool
	turns            float64 // when the rate changes
	waiting          []request
	mu, sigma, until float64
}

// tally is what was measured on one machine.
type tally struct {
	latencies        []float64 // seconds
	local, near, far float64   // accesses, by where memory was
	link, busy       float64   // integrals over time: highest use of a link, busy workers
	workers          int
	span             float64
}

// engine plays one machine under one placement.
type engine struct {
	o         *Options
	m         *Machine
	by        Placement
	now       float64
	events    *heap.Heap[event]
	queues    []queue
	runs      []run
	idle      []int32 // slots of runs
	numaNodes *rand.Rand
	busyIn    [topology.MaxNUMANodes]int
	from      [topology.MaxNUMANodes]float64                        // GB/s of a NUMA node's channels
	links     [topology.MaxNUMANodes][topology.MaxNUMANodes]float64 // GB/s between sockets
	tally
}

// serve plays the requests of a seed on a machine, until all are served.
func serve(o *Options, n *node, seed uint64) *tally { return &play(o, n, seed).tally }

func newDraw(seed uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, streamServers)) }

func play(o *Options, n *node, seed uint64) *engine {
	e := &engine{
		o: o, m: &o.Machine, by: n.by, numaNodes: rand.New(rand.NewPCG(seed, streamNUMA)),
		events: heap.New(func(a, b event) bool {
			if a.at != b.at {
				return a.at < b.at
			}
			return a.server < b.server
		}, nil),
	}
	e.queues = make([]queue, len(n.seats))
	for i := range n.seats {
		e.queues[i] = newQueue(o, n.seats[i], seed)
		e.workers += e.queues[i].workers
		e.next(int32(i))
	}
	for e.events.Len() > 0 {
		ev := e.events.Pop()
		e.pass(ev.at)
		if ev.run < 0 {
			e.arrive(ev.server)
		} else {
			e.finish(ev.server, ev.run)
		}
	}
	return e
}

func newQueue(o *Options, s seat, seed uint64) queue {
	p := &o.Params
	stream := streamRequests + uint64(s.id)*2
	q := queue{
		seat: s, workers: s.cpus, until: o.Seconds, mean: p.Service / 1000,
		arrivals: rand.New(rand.NewPCG(seed, stream)), drawn: rand.New(rand.NewPCG(seed, stream+1)),
	}
	q.rate = p.Load * float64(q.workers) / q.mean
	q.sigma = math.Sqrt(math.Log1p(p.Variability))
	q.mu = math.Log(q.mean) - q.sigma*q.sigma/2
	total := 0.0
	for z := range o.Machine.numaNodes() {
		total += float64(s.grant.Memory[z])
	}
	for z := range o.Machine.numaNodes() {
		q.parts[z] = float64(s.grant.Memory[z]) / total
	}
	return q
}

// pass lets time go by.
func (e *engine) pass(until float64) {
	from, to := max(e.now, warm*e.o.Seconds), min(until, e.o.Seconds)
	e.now = until
	if to <= from {
		return
	}
	e.span += to - from
	highest, busy := 0.0, 0
	for a := range e.m.Sockets {
		for b := range e.m.Sockets {
			highest = max(highest, e.links[a][b])
		}
	}
	for z := range e.m.numaNodes() {
		busy += e.busyIn[z]
	}
	e.link += (to - from) * highest / e.m.Link
	e.busy += (to - from) * float64(busy)
}

// next draws when the next request comes to a server.
func (e *engine) next(server int32) {
	q, p := &e.queues[server], &e.o.Params
	at := e.now
	for {
		rate := q.rate
		if p.Burst > 0 {
			if at >= q.turns {
				q.fast = !q.fast
				q.turns = at + q.arrivals.ExpFloat64()*p.Phase
			}
			rate *= 1 - p.Burst
			if q.fast {
				rate = q.rate * (1 + p.Burst)
			}
		}
		wait := q.arrivals.ExpFloat64() / rate
		if p.Burst > 0 && at+wait > q.turns { // the process has no memory: draw again from the turn on
			at = q.turns
			if at < q.until {
				continue
			}
		}
		at += wait
		break
	}
	if at < q.until {
		e.events.Push(event{at: at, server: server, run: -1})
	}
}

func (e *engine) arrive(server int32) {
	q := &e.queues[server]
	r := request{came: e.now, work: math.Exp(q.mu + q.sigma*q.drawn.NormFloat64())}
	e.next(server)
	if q.busy < q.workers {
		e.begin(server, r)
		return
	}
	q.waiting = append(q.waiting, r)
}

func (e *engine) finish(server, slot int32) {
	q, r := &e.queues[server], &e.runs[slot]
	if r.came >= warm*e.o.Seconds {
		e.latencies = append(e.latencies, e.now-r.came+e.o.Params.Fixed/1000)
	}
	e.draw(r, -1)
	q.busy--
	q.busyIn[r.numa]--
	e.busyIn[r.numa]--
	e.idle = append(e.idle, slot)
	if len(q.waiting) > 0 {
		first := q.waiting[0]
		q.waiting = q.waiting[1:]
		e.begin(server, first)
	}
}

// begin gives a request to a worker.
func (e *engine) begin(server int32, r request) {
	q := &e.queues[server]
	z := e.numa(q)
	q.busy++
	q.busyIn[z]++
	e.busyIn[z]++
	slot := int32(len(e.runs))
	if last := len(e.idle) - 1; last >= 0 {
		slot, e.idle = e.idle[last], e.idle[:last]
	} else {
		e.runs = append(e.runs, run{})
	}
	e.runs[slot] = run{request: r, numa: z}
	slow := e.slowdown(q, &e.runs[slot])
	e.draw(&e.runs[slot], 1)
	e.events.Push(event{at: e.now + r.work*slow, server: server, run: slot})
}

// NUMA node is where a thread of the server runs next: idle CPUs of those that it may use are alike.
func (e *engine) numa(q *queue) int {
	var idle [topology.MaxNUMANodes]int
	sum := 0
	for z := range e.m.numaNodes() {
		idle[z] = int(q.grant.CPUs[z]) - q.busyIn[z]
		if e.by == Stock {
			idle[z] = e.m.CPUs - e.busyIn[z]
		}
		sum += max(idle[z], 0)
	}
	pick := e.numaNodes.IntN(max(sum, 1))
	for z := range e.m.numaNodes() {
		if pick -= max(idle[z], 0); pick < 0 {
			return z
		}
	}
	return 0
}

// slowdown is how many times longer a service takes that begins in the run's NUMA node. It sets what the run draws.
func (e *engine) slowdown(q *queue, r *run) float64 {
	p := &e.o.Params
	latency := 0.0
	home := e.m.socket(r.numa)
	for z := range e.m.numaNodes() {
		part := q.parts[z] * (1 - p.Balanced)
		if z == r.numa {
			part += p.Balanced
		}
		cost := e.m.distance(r.numa, z) * loaded(e.from[z]/e.m.Bandwidth, p.Congestion)
		if from := e.m.socket(z); from != home {
			cost *= loaded(e.links[from][home]/e.m.Link, p.Congestion)
		}
		latency += part * cost
		r.flow[z] = part
	}
	shared, pool := q.busyIn[r.numa], int(q.grant.CPUs[r.numa])
	if !e.by.exclusive() {
		shared, pool = e.busyIn[r.numa], e.m.CPUs
	}
	// Idle cores are filled first, so the second threads are those beyond one a core.
	both := max(shared-pool/max(e.m.Threads, 1), 0) * 2
	memory := 1 - p.MemoryBound + p.MemoryBound*latency
	slow := memory * (1 + p.Sibling*float64(both)/float64(shared))
	e.count(r)
	for z := range r.flow {
		r.flow[z] *= p.Flow / slow
	}
	return slow
}

// count adds up where memory was.
func (e *engine) count(r *run) {
	if r.came < warm*e.o.Seconds {
		return
	}
	for z := range e.m.numaNodes() {
		switch {
		case z == r.numa:
			e.local += r.flow[z]
		case e.m.socket(z) == e.m.socket(r.numa):
			e.near += r.flow[z]
		default:
			e.far += r.flow[z]
		}
	}
}

// draw adds a run's flows, or takes them away.
func (e *engine) draw(r *run, sign float64) {
	home := e.m.socket(r.numa)
	for z := range e.m.numaNodes() {
		flow := sign * r.flow[z]
		e.from[z] = max(e.from[z]+flow, 0)
		if from := e.m.socket(z); from != home {
			e.links[from][home] = max(e.links[from][home]+flow, 0)
		}
	}
}

// loaded is how much slower memory, or a link, is when this share of its bandwidth is wanted.
func loaded(use, slope float64) float64 {
	u := min(use, 0.95)
	slow := 1 + slope*u*u*u*u/(1-u)
	if use > 1 {
		slow *= use
	}
	return slow
}
