package moves

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/cluster/facts"
	"hilbert.dev/hilbert/control/reschedule"
	"hilbert.dev/hilbert/resource"
	"hilbert.dev/hilbert/schedule/bind"
	"hilbert.dev/hilbert/sim/judge"
	"hilbert.dev/hilbert/topology"
)

const (
	tick        = time.Second
	gpusPerNode = 4
	moveLabel   = "hilbert-move-"
	// offlineWork begins the names of workloads that nodes of offline alone take.
	offlineWork = "job"
	// gangWork begins the names of what makes the members of the gang, of which there are gangSize.
	gangWork = "gang"
	gangSize = 2
)

// object is a pod of the API server.
type object struct {
	facts.Pod
	foreign bool
	leaves  int64 // when it is gone; 0: it is not being deleted
}

// target is what the controller knows of a Reservation that it has made.
type target struct {
	*facts.Reservation
	wanted  reschedule.Wanted
	created time.Time
}

// told is an event on its way to the scheduler.
type told struct {
	at    int64
	event facts.Event
}

// world is the API server, the controllers of workloads, and the kubelets.
type world struct {
	random  *rand.Rand
	faults  bool
	now     int64
	nodes   map[string]*facts.Node
	pods    map[facts.UID]*object
	targets map[facts.UID]*target
	kept    *judge.Reservations
	raced   map[string]bool // nodes on which somebody else has made too little room
	next    int
	wants   map[string]int64 // when a workload that has no pod gets another
	queue   []told
	wrong   []string
	evicted map[facts.UID]bool // pods that were evicted for moves
	gangs   gangs
	// requests are EvictionRequests by the UID of the pod; nil: none are served.
	requests map[facts.UID]*request
	late     int // see Report
	memory   remembered
}

func newWorld(seed uint64, faults bool) *world {
	return &world{
		random: rand.New(rand.NewPCG(seed, 1)), faults: faults, now: int64(time.Hour), nodes: make(map[string]*facts.Node), pods: make(map[facts.UID]*object),
		memory: newRemembered(), targets: make(map[facts.UID]*target), kept: judge.NewReservations(), raced: make(map[string]bool), wants: make(map[string]int64), evicted: make(map[facts.UID]bool),
		gangs: gangs{of: make(map[string]string), moved: make(map[facts.UID]*movedGang), hurt: make(map[string]bool)},
	}
}

func (w *world) time() time.Time { return time.Unix(0, w.now).UTC() }

// strikes draws a fault that happens once in n times.
func (w *world) strikes(n int) bool { return w.faults && w.random.IntN(n) == 0 }

func (w *world) broken(format string, args ...any) {
	w.wrong = append(w.wrong, fmt.Sprintf("%v: ", time.Duration(w.now))+fmt.Sprintf(format, args...))
}

// tell lets the watch say something, some time later where there are faults; the order is kept.
func (w *world) tell(e facts.Event) {
	at := w.now
	if w.faults {
		at += w.random.Int64N(int64(3 * tick))
	}
	if n := len(w.queue); n > 0 {
		at = max(at, w.queue[n-1].at)
	}
	w.queue = append(w.queue, told{at, e})
}

// due takes what has arrived.
func (w *world) due() (events []facts.Event) {
	for len(w.queue) > 0 && w.queue[0].at <= w.now {
		events = append(events, w.queue[0].event)
		w.queue = w.queue[1:]
	}
	return events
}

// lists are what a scheduler begins with.
func (w *world) lists() []facts.Event {
	w.queue = nil
	nodes, pods, kept, units := facts.NodesListed{}, facts.PodsListed{}, facts.ReservationsListed{}, facts.UnitsListed{Units: w.gangs.units}
	for _, name := range slices.Sorted(maps.Keys(w.nodes)) {
		nodes.Nodes = append(nodes.Nodes, w.nodes[name])
	}
	for _, uid := range slices.Sorted(maps.Keys(w.pods)) {
		pods.Pods = append(pods.Pods, w.pods[uid].Pod)
	}
	kept.Reservations = w.kept.List()
	units.Units = append(slices.Clone(units.Units), &facts.Unit{UnitName: facts.UnitName{Namespace: "ns", Name: gangWork}, UID: gangWork, MinMember: gangSize})
	return []facts.Event{units, kept, nodes, pods}
}

func (w *world) addNode(name string) {
	n := &facts.Node{Name: name, Labels: map[string]string{"kubernetes.io/hostname": name, rack: string(name[len(name)-1]%racks + 'a')}, Allocatable: []resource.Quantity{
		{Name: resource.NameCPU, Amount: 64_000}, {Name: resource.NameMemory, Amount: 1 << 40}, {Name: resource.NamePods, Amount: 110},
	}, GPU: topology.Shape{GPUs: gpusPerNode, Model: "A", Shareable: true}}
	w.nodes[name] = n
	w.tell(facts.NodeUpserted{Node: n})
}

// create makes a pod of a workload; empty: of none.
func (w *world) create(workload string, gpus int, priority int32) {
	w.next++
	uid := facts.UID(fmt.Sprintf("u%04d", w.next))
	p := &object{Pod: facts.Pod{
		UID: uid, Namespace: "ns", Name: "pod-" + string(uid), Created: w.now, Priority: priority, Ours: true,
		Requirements: &facts.Requirements{Requests: []resource.Quantity{{Name: resource.NameCPU, Amount: 1000}}, GPU: topology.Request{Whole: int8(gpus)}},
	}}
	if workload == "" {
		p.Consent = spec.ConsentUnreplaced
	} else {
		p.Owner, p.Controller = facts.Owner{Kind: facts.ReplicaSet, Name: workload}, facts.Controller{Kind: "ReplicaSet", Name: workload}
	}
	if strings.HasPrefix(workload, gangWork) {
		p.Unit = gangWork
	}
	if strings.HasPrefix(workload, offlineWork) {
		p.Requirements.NodeSelector = []facts.Label{{Key: spec.LabelTide, Value: spec.TideOffline}}
		p.Requirements.Tolerations = []facts.Toleration{{Key: spec.LabelTide, Value: spec.TideOffline, Effect: facts.NoSchedule}}
	}
	p.Unit = w.gangs.of[workload]
	w.pods[uid] = p
	w.tell(facts.PodUpserted{Pod: p.Pod})
}

// end begins a pod's deletion.
func (w *world) end(p *object) {
	if p.leaves != 0 {
		return
	}
	p.Deleting, p.leaves = true, w.now+1+w.random.Int64N(int64(5*tick))
	w.tell(facts.PodUpserted{Pod: p.Pod})
}

// live lets pods leave and controllers make others.
func (w *world) live() {
	for _, uid := range slices.Sorted(maps.Keys(w.pods)) {
		p := w.pods[uid]
		if p.leaves == 0 || p.leaves > w.now {
			continue
		}
		delete(w.pods, uid)
		w.kept.Leave(uid)
		w.tell(facts.PodRemoved{UID: uid})
		if p.Controller.Name != "" {
			w.wants[p.Controller.Name] = w.now + w.random.Int64N(int64(3*tick))
		}
	}
	for _, uid := range slices.Sorted(maps.Keys(w.pods)) { // the garbage collector of pods: their Bindings came after their node was gone
		if p := w.pods[uid]; p.Node != "" && w.nodes[p.Node] == nil && p.leaves == 0 {
			w.gangs.hurt[p.Unit] = true
			w.end(p)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(w.wants)) {
		if w.wants[name] <= w.now {
			delete(w.wants, name)
			w.create(name, 1, 0)
			w.replaces(name, facts.UID(fmt.Sprintf("u%04d", w.next)))
		}
	}
}

// free is how many GPUs of a node the pods there leave. kept also takes what statuses say is kept, for pods of at least that priority, but for one Reservation.
func (w *world) free(node string, kept bool, priority int32, but facts.UID) int {
	free := gpusPerNode
	for _, p := range w.pods {
		if p.Node == node {
			free -= int(p.Requirements.GPU.Whole)
		}
	}
	for _, k := range w.kept.Kept() {
		if kept && k.Reservation.UID != but && k.Reservation.Template.Priority >= priority && k.Place.Node == node {
			free -= int(k.Reservation.Template.Requirements.GPU.Whole)
		}
	}
	return free
}

// execute does a write of the scheduler's.
func (w *world) execute(write *bind.Write) bind.Result {
	result := bind.Result{ID: write.ID, Outcome: bind.Written}
	switch write.Kind {
	case bind.WriteReservation:
		w.status(write, &result)
		return result
	case bind.WriteEvent, bind.WriteNodeEvent, bind.WriteUnitCondition, bind.WriteRefusals:
		return result
	default:
	}
	p := w.pods[write.Pod]
	if p == nil {
		result.Outcome = bind.Gone
		return result
	}
	switch write.Kind {
	case bind.ReadPod:
		result.Node = p.Node
	case bind.WriteBinding:
		if p.Node != "" || p.Deleting {
			result.Outcome = bind.Conflict
			return result
		}
		w.bind(p, write)
	case bind.DeletePod:
		w.end(p)
	default:
	}
	return result
}

// bind binds a pod, and judges that.
func (w *world) bind(p *object, write *bind.Write) {
	own := facts.UID("")
	if write.Placeholder != "" {
		var wrong string
		if own, wrong = w.kept.Take(write.Placeholder, &p.Pod); wrong != "" {
			w.broken("%s", wrong)
		}
	}
	asks := int(p.Requirements.GPU.Whole)
	if w.nodes[write.Node] != nil && !w.raced[write.Node] {
		if w.free(write.Node, false, 0, "") < asks {
			w.broken("%s is bound to %s, which has %d GPUs free", p.UID, write.Node, w.free(write.Node, false, 0, ""))
		} else if w.free(write.Node, true, p.Priority, own) < asks {
			w.broken("%s is bound to %s, where the room is kept for others", p.UID, write.Node)
		}
	}
	p.Node, p.Grant, p.Placeholder, p.Started, p.Scheduled = write.Node, write.Grant, write.Placeholder, w.now, w.now
	w.tell(facts.PodUpserted{Pod: p.Pod})
}

// status takes a Reservation's status.
func (w *world) status(write *bind.Write, result *bind.Result) {
	v := write.Reservation
	places := make([]facts.Place, len(v.Places))
	for i := range v.Places {
		places[i] = v.Places[i].Place
	}
	found, wrong := w.kept.Status(v.UID, places, v.Report())
	if wrong != "" {
		w.broken("%s", wrong)
	}
	if !found {
		result.Outcome = bind.Gone
		return
	}
	w.tell(facts.ReservationUpserted{Reservation: w.kept.Copy(v.UID)})
}

// strike lets something go wrong.
func (w *world) strike() {
	names := slices.Sorted(maps.Keys(w.nodes))
	if w.strikes(15) { // a foreign binder, who knows no Reservations
		node := names[w.random.IntN(len(names))]
		for _, uid := range slices.Sorted(maps.Keys(w.targets)) {
			if places := w.targets[uid].Places; len(places) > 0 && w.nodes[places[0].Node] != nil && w.random.IntN(2) == 0 {
				node = places[0].Node
			}
		}
		if w.free(node, false, 0, "") > 0 {
			w.next++
			uid := facts.UID(fmt.Sprintf("f%04d", w.next))
			p := &object{foreign: true, Pod: facts.Pod{
				UID: uid, Namespace: "other", Name: string(uid), Created: w.now, Node: node, Requirements: &facts.Requirements{GPU: topology.Request{Whole: 1}},
			}}
			w.pods[uid], w.raced[node] = p, true
			w.tell(facts.PodUpserted{Pod: p.Pod})
			p.leaves = w.now + int64(5*time.Minute)
		}
	}
	if len(names) > 6 && w.strikes(400) {
		node := names[w.random.IntN(len(names))]
		delete(w.nodes, node)
		w.tell(facts.NodeRemoved{Name: node})
		for _, uid := range slices.Sorted(maps.Keys(w.pods)) {
			if p := w.pods[uid]; p.Node == node {
				w.gangs.hurt[p.Unit] = true
				w.end(p)
			}
		}
	}
	if w.strikes(120) {
		w.create("", 1+w.random.IntN(2), int32(w.random.IntN(2))*10)
	}
}
