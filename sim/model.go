package sim

import (
	"fmt"
	"math"
	"strconv"

	"hilbert.dev/hilbert/cluster/facts"
	"hilbert.dev/hilbert/resource"
	"hilbert.dev/hilbert/schedule/bind"
	"hilbert.dev/hilbert/sim/judge"
	"hilbert.dev/hilbert/sim/trace"
	"hilbert.dev/hilbert/topology"
)

// nowhere is the node of a pod that is not bound.
const nowhere = -1

// namespace of pods whose group names none.
const namespace = "default"

// pod is an object of the API server.
type pod struct {
	uid         facts.UID
	name        string
	task        int32
	age         int32 // how many of its name existed before
	node        int32
	position    int32 // among the node's pods
	grant       topology.Grant
	created     int64
	bound       uint64 // the history's revision of its binding,
	left        uint64 // and of its removal
	seenPods    uint64 // the revision of pods that the scheduler had seen when it committed the Plan,
	reported    facts.Condition
	seenNodes   uint64 // of nodes,
	seenReports uint64 // of the agents' reports,
	seenClaims  uint64 // and of claims
	started     int64  // when it was bound
	nominated   string // status.nominatedNodeName

	exists, ours, gated, deleting, finished bool
	evicted                                 bool // deleted, and to be created anew by its controller
	removed                                 bool // deleted for good
	foreign                                 bool // bound by another scheduler

	placeholder facts.UID // whose room it has
}

// waits says whether a pod waits for a place by our scheduler. It may be gated still.
func (p *pod) waits() bool { return p.exists && p.ours && p.node == nowhere && !p.deleting }

// node is an object of the API server, with the model's own books of what is on it.
type node struct {
	object  *facts.Node
	present bool
	free    []int64 // by the model's numbering of resources
	gpus    [topology.MaxGPUs]int32
	ports   []facts.HostPort
	pods    []int32 // bound and not finished
	// raced: the node is over-committed by another scheduler's Binding that ours could not know of.
	raced bool
	agent *agent // nil: the node has none
	// lost is until when the node is unreachable, 0: it is not.
	lost int64
	// recounted is the history's revision at which node.status counted another number of GPUs.
	recounted uint64
}

// model is the API server: its objects, one history, and the rules of its writes. A pod is bound once; a pod that is deleted or gated cannot be bound;
// the node is not asked. It also keeps its own books of what is left on each node, to notice over-commitment.
type model struct {
	w        *trace.Workload
	nodes    []node
	byName   map[string]int32
	pods     []pod
	byUID    map[facts.UID]int32
	kinds    map[string]int
	amounts  map[*facts.Requirements][]kindAmount
	revision uint64
	meter    *meter
	preempt  bool
	tenants  *judge.Tenants
	units    []unit // by the workload's numbering
	numbers  map[facts.UnitName]int
	joined   map[facts.UnitName][]int32 // every pod that ever named a PodGroup
	storage  *storage
	kept     *judge.Reservations
}

type kindAmount struct {
	kind   int
	amount int64
}

func newModel(w *trace.Workload, m *meter) *model {
	a := &model{
		w: w, meter: m, byName: make(map[string]int32, len(w.Nodes)), byUID: make(map[facts.UID]int32, len(w.Tasks)),
		kinds: make(map[string]int), amounts: make(map[*facts.Requirements][]kindAmount),
		pods: make([]pod, 0, len(w.Tasks)), units: make([]unit, len(w.Units)), tenants: judge.NewTenants(), joined: make(map[facts.UnitName][]int32),
		storage: newStorage(w), kept: judge.NewReservations(),
	}
	for _, object := range w.Nodes {
		a.addNode(object)
	}
	for _, q := range w.Queues {
		a.tenants.Queues[q.Name] = q
	}
	for _, n := range w.Namespaces {
		a.tenants.Namespaces[n.Name] = n.Labels
	}
	return a
}

// addNode makes a node, with nothing on it.
func (a *model) addNode(object *facts.Node) {
	a.byName[object.Name] = int32(len(a.nodes))
	n := node{object: object, present: true}
	for _, q := range object.Allocatable {
		a.kind(q.Name)
	}
	for g := range min(object.GPU.GPUs, topology.MaxGPUs) {
		n.gpus[g] = topology.FullGPU
	}
	n.free = make([]int64, len(a.kinds))
	for _, q := range object.Allocatable {
		n.free[a.kinds[q.Name]] = q.Amount
	}
	a.nodes = append(a.nodes, n)
	for i := 0; i < len(a.nodes) && len(a.nodes[i].free) < len(a.kinds); i++ { // earlier nodes have nothing of a new kind
		a.nodes[i].free = append(a.nodes[i].free, make([]int64, len(a.kinds)-len(a.nodes[i].free))...)
	}
}

func (a *model) kind(name string) int {
	k, ok := a.kinds[name]
	if !ok {
		k = len(a.kinds)
		a.kinds[name] = k
	}
	return k
}

// noKind is a resource that no node has.
const noKind = -1

func (a *model) amountsOf(r *facts.Requirements) []kindAmount {
	list, ok := a.amounts[r]
	if ok {
		return list
	}
	for _, q := range append([]resource.Quantity{{Name: resource.NamePods, Amount: 1}}, r.Requests...) {
		if judge.HeadroomOnly(q.Name) {
			continue // node.status does not count it
		}
		k, known := a.kinds[q.Name]
		if !known {
			k = noKind
		}
		list = append(list, kindAmount{k, q.Amount})
	}
	a.amounts[r] = list
	return list
}

// create adds a pod for a task; age is how many pods had its name before.
func (a *model) create(task, age int32, ours bool, now int64) int32 {
	t := &a.w.Tasks[task]
	p := pod{uid: facts.UID(t.Name), name: t.Name, task: task, age: age, node: nowhere, created: now, exists: true, ours: ours}
	if age > 0 {
		p.uid = facts.UID(t.Name + "#" + strconv.Itoa(int(age)))
	}
	i := int32(len(a.pods))
	a.pods = append(a.pods, p)
	if name := a.unitOf(&p); !name.IsZero() {
		a.joined[name] = append(a.joined[name], i)
	}
	a.byUID[p.uid] = i
	a.revision++
	return i
}

func (a *model) requirements(p *pod) *facts.Requirements { return a.w.Tasks[p.task].Requirements }

func (a *model) identity(p *pod) trace.Identity {
	id := a.w.Identities[a.w.Tasks[p.task].Group]
	if id.Namespace == "" {
		id.Namespace = namespace
	}
	return id
}

// facts is the pod as a watch delivers it.
func (a *model) facts(i int32) facts.Pod {
	p := &a.pods[i]
	id := a.identity(p)
	f := facts.Pod{
		UID: p.uid, Namespace: id.Namespace, Labels: id.Labels, Owner: id.Owner, Name: p.name, Created: p.created, Priority: a.w.Tasks[p.task].Priority, Ours: p.ours,
		Finished: p.finished, Deleting: p.deleting, Gated: p.gated, Requirements: a.requirements(p), Grant: p.grant, Reported: p.reported,
		NeverPreempts: !a.preempt, Unit: a.w.Tasks[p.task].Unit, Subgroup: a.w.Tasks[p.task].Subgroup, Deadline: a.w.Tasks[p.task].Deadline,
		Claims: a.storage.uses(p.task), Placeholder: p.placeholder,
	}
	if p.node != nowhere {
		f.Node, f.Started, f.Scheduled = a.nodes[p.node].object.Name, p.started, p.started-1
	} else {
		f.Nominated = p.nominated
	}
	return f
}

// bind puts a pod on a node. Like the API server it asks nothing about the node. It returns what is over-committed now, if anything.
func (a *model) bind(i, n int32, grant topology.Grant, now int64) (over string) {
	a.revision++
	p := &a.pods[i]
	p.node, p.grant, p.bound, p.started = n, grant, a.revision, now+1
	over = a.charge(&a.nodes[n], p, i)
	if name := a.unitOf(p); !name.IsZero() {
		if at := a.numberOf(name); at != nowhere {
			a.units[at].bound++ // its PodGroup may come later
		}
		a.sawUnit(name, now)
	}
	a.meter.move(now, a.requirements(p), 1)
	return over
}

// charge enters a pod in its node's books.
func (a *model) charge(n *node, p *pod, i int32) (over string) {
	r := a.requirements(p)
	p.position = int32(len(n.pods))
	n.pods = append(n.pods, i)
	for _, q := range a.amountsOf(r) {
		if q.kind == noKind {
			over = "a resource that it does not have"
			continue
		}
		if n.free[q.kind] -= q.amount; n.free[q.kind] < 0 {
			over = fmt.Sprintf("resource %s by %d", a.kindName(q.kind), -n.free[q.kind])
		}
	}
	for g := range topology.MaxGPUs {
		if p.grant.GPUs>>g&1 == 0 || n.givesDevices() {
			continue
		}
		if n.gpus[g] -= int32(p.grant.Milli); n.gpus[g] < 0 {
			over = fmt.Sprintf("GPU %d by %d milli", g, -n.gpus[g])
		}
	}
	for _, port := range r.Ports {
		for _, taken := range n.ports {
			if judge.PortsClash(port, taken) {
				over = fmt.Sprintf("host port %s/%d", port.Protocol, port.Port)
			}
		}
		n.ports = append(n.ports, port)
	}
	return over
}

func (a *model) kindName(kind int) string {
	for name, k := range a.kinds {
		if k == kind {
			return name
		}
	}
	return "?"
}

// unbind takes a pod out of its node's books; the object keeps its node.
func (a *model) unbind(p *pod, now int64) {
	if p.node == nowhere || p.finished {
		return
	}
	n := &a.nodes[p.node]
	last := n.pods[len(n.pods)-1]
	n.pods[p.position] = last
	a.pods[last].position = p.position
	n.pods = n.pods[:len(n.pods)-1]
	r := a.requirements(p)
	for _, q := range a.amountsOf(r) {
		if q.kind != noKind {
			n.free[q.kind] += q.amount
		}
	}
	for g := range topology.MaxGPUs {
		if p.grant.GPUs>>g&1 == 1 && !n.givesDevices() {
			n.gpus[g] += int32(p.grant.Milli)
		}
	}
	for _, port := range r.Ports {
		for j := range n.ports {
			if n.ports[j] == port {
				n.ports = append(n.ports[:j], n.ports[j+1:]...)
				break
			}
		}
	}
	if n.raced && judge.Overcommitted(n.object, a.occupants(n)) == "" {
		n.raced = false
	}
	a.meter.move(now, r, -1)
}

// remove deletes a pod for good.
func (a *model) remove(i int32, now int64) {
	p := &a.pods[i]
	a.unbind(p, now)
	p.exists = false
	a.kept.Leave(p.uid)
	delete(a.byUID, p.uid)
	a.revision++
	p.left = a.revision
}

// finish lets a pod run to its end: it stays, and holds nothing.
func (a *model) finish(i int32, now int64) {
	p := &a.pods[i]
	a.unbind(p, now)
	p.finished = true
	a.kept.Leave(p.uid)
	a.revision++
}

// occupants lists what is on a node, for the naive judge.
func (a *model) occupants(n *node) []judge.Occupant {
	list := make([]judge.Occupant, len(n.pods))
	for i, p := range n.pods {
		list[i] = judge.Occupant{Requirements: a.requirements(&a.pods[p]), Grant: a.pods[p].grant}
		if n.givesDevices() { // its agent's books have them
			list[i].Grant.GPUs = 0
		}
	}
	return list
}

// execute does a write and returns the API server's answer. bound is the pod that a Binding bound.
func (a *model) execute(w *bind.Write, now int64) (result bind.Result, bound int32, over string) {
	result, bound = bind.Result{ID: w.ID, Outcome: bind.Written}, nowhere
	if w.Kind == bind.WriteUnitCondition {
		if !a.reportUnit(w.Unit, w.UnitCondition) {
			result.Outcome = bind.Gone
		}
		return result, bound, ""
	}
	if w.Kind == bind.WriteReservation {
		found, wrong := a.reportReservation(w.Reservation)
		if !found {
			result.Outcome = bind.Gone
		}
		return result, bound, wrong
	}
	if w.Kind == bind.WriteRefusals {
		if i, ok := a.byName[w.Node]; !ok || a.nodes[i].agent == nil || a.nodes[i].agent.said == nil {
			result.Outcome = bind.Gone
		}
		return result, bound, ""
	}
	i, ok := a.byUID[w.Pod]
	if !ok {
		result.Outcome = bind.Gone
		return result, bound, ""
	}
	p := &a.pods[i]
	switch w.Kind {
	case bind.ReadPod:
		if p.node != nowhere {
			result.Node = a.nodes[p.node].object.Name
		}
	case bind.WriteCondition:
		if w.Condition.Reason != "" {
			p.reported = w.Condition
		}
		if w.Withdraw {
			p.nominated = ""
		}
		a.revision++
	case bind.WriteNomination:
		p.reported, p.nominated = w.Condition, w.Node
		a.revision++
	case bind.WriteDisruption:
		a.revision++
	case bind.EvictPod, bind.WriteEvent, bind.WriteNodeEvent: // the executor evicts; an Event changes nothing
	case bind.WriteUnitCondition, bind.WriteReservation, bind.WriteRefusals, bind.DeletePod, // done above; done by the executor, because it takes time
		bind.WriteClaim, bind.GiveBackClaim: // no simulated pod has claims of devices
	case bind.WriteVolume:
		result.Outcome = a.storage.write(w)
	case bind.WriteBinding:
		if p.node != nowhere || p.deleting || p.gated {
			result.Outcome = bind.Conflict
			return result, bound, ""
		}
		p.placeholder = w.Placeholder
		over = a.bind(i, a.byName[w.Node], w.Grant, now)
		bound = i
	}
	return result, bound, over
}

// priority is that of a pod: its unit's, if that has one.
func (a *model) priority(uid facts.UID) int32 {
	if i, ok := a.byUID[uid]; ok {
		if f := a.tenants.Units[a.unitOf(&a.pods[i])]; f != nil && f.Prioritized {
			return f.Priority
		}
		return a.w.Tasks[a.pods[i].task].Priority
	}
	return math.MaxInt32 // gone, but the scheduler cannot know that yet
}

func (a *model) resident(p *pod) *judge.Resident {
	id := a.identity(p)
	r := &judge.Resident{Namespace: id.Namespace, Labels: id.Labels, Requirements: a.requirements(p), Deleting: p.deleting, Node: nil}
	if p.node != nowhere {
		r.Node = a.nodes[p.node].object
	}
	return r
}
