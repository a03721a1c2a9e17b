package request

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"time"
)

const tick = time.Second

// stored is a pod of the API server.
type stored struct {
	Pod
	request string
	slot    slotID
	purpose bool // it goes because the controller wants it to
}

// told is a change of a pod on its way to the controller.
type told struct {
	at   int
	name string
	pod  Pod // as it is then, or was when it went
	gone bool
}

// asked is a request of the API server, with what is true of it.
type asked struct {
	Request
	failures map[slotID]int       // pods that failed or went, of each slot
	first    map[slotID]time.Time // when the first pod of a slot was made since it last failed
	done     map[slotID]int       // in which term a slot's pod succeeded
	ever     map[slotID]bool      // whether one did
	final    map[slotID]bool      // whether the status has said that it has ended
	failedIn map[slotID]int       // in which term a slot's pod failed last
}

// world is an API server, a scheduler, kubelets and masters, with a controller that sees late, loses writes and is replaced.
type world struct {
	random   *rand.Rand
	faults   bool
	answers  bool // every write is answered, and there are no gangs: the bound of what waits is exact then
	now      time.Time
	round    int
	term     int
	uids     int
	versions int
	requests []*asked
	pods     map[string]*stored
	queue    []told
	cache    map[string]map[string]*Pod // by request
	state    *State
	params   Params
	full     map[Level]bool // levels at which no pod gets a node
	wrong    []string
	made     int
}

func newWorld(seed uint64, p Params) *world {
	w := &world{
		random: rand.New(rand.NewPCG(seed, 1)), faults: true, now: time.Date(2026, 11, 26, 0, 0, 0, 0, time.UTC), pods: make(map[string]*stored), params: p, full: make(map[Level]bool),
	}
	w.elect()
	return w
}

func (w *world) bad(format string, args ...any) {
	if len(w.wrong) < 5 {
		w.wrong = append(w.wrong, fmt.Sprintf("round %d: ", w.round)+fmt.Sprintf(format, args...))
	}
}

// elect makes another leader, which lists what there is and knows statuses alone.
func (w *world) elect() {
	w.term++
	w.state, w.queue = NewState(w.params), nil
	w.cache = make(map[string]map[string]*Pod)
	for _, p := range w.pods {
		w.see(&told{name: p.Name, pod: p.Pod}, p.request)
	}
}

func (w *world) see(t *told, request string) {
	if w.cache[request] == nil {
		w.cache[request] = make(map[string]*Pod)
	}
	pod := t.pod
	if t.gone {
		if pod.Gone = true; pod.Node == "" {
			delete(w.cache[request], t.name)
			return
		}
	}
	w.cache[request][t.name] = &pod
}

func (w *world) ask(r Request) *asked {
	w.uids++
	r.UID, r.Created, r.Generation = fmt.Sprintf("r%d", w.uids), w.now, 1
	a := &asked{Request: r, failures: make(map[slotID]int), first: make(map[slotID]time.Time), done: make(map[slotID]int), failedIn: make(map[slotID]int), ever: make(map[slotID]bool), final: make(map[slotID]bool)}
	w.requests = append(w.requests, a)
	return a
}

func (w *world) of(uid string) *asked {
	for _, a := range w.requests {
		if a.UID == uid {
			return a
		}
	}
	return nil
}

// tell has the controller see a pod as it is now, after a while.
func (w *world) tell(p *stored, gone bool) {
	w.versions++
	p.Version = fmt.Sprint(w.versions)
	delay := 0
	if w.faults {
		delay = w.random.IntN(4)
	}
	at := w.round + delay
	if n := len(w.queue); n > 0 {
		at = max(at, w.queue[n-1].at) // a watch keeps the order
	}
	w.queue = append(w.queue, told{at, p.request + "/" + p.Name, p.Pod, gone})
}

func (w *world) deliver() {
	for len(w.queue) > 0 && w.queue[0].at <= w.round {
		t := w.queue[0]
		w.queue = w.queue[1:]
		var uid string
		for i := range t.name {
			if t.name[i] == '/' {
				uid, t.name = t.name[:i], t.name[i+1:]
				break
			}
		}
		w.see(&t, uid)
	}
}

func (w *world) names() []string { return slices.Sorted(maps.Keys(w.pods)) }

// remove ends a pod. Unless it had failed before, or had no node and was replaced on purpose, that may count as a failure: a leader may not know that it succeeded, or was given back.
func (w *world) remove(p *stored, purpose bool) {
	delete(w.pods, p.Name)
	w.tell(p, true)
	if a := w.of(p.request); a != nil && (!purpose || p.Node != "") && p.Phase != Failed {
		a.failures[p.slot]++
		if !p.purpose {
			w.anew(a, p.slot)
		}
	}
}

// anew has a slot's pods wait for all over again, because its pod has failed.
func (w *world) anew(a *asked, id slotID) {
	delete(a.first, id)
	a.failedIn[id] = w.term
}

// live lets the scheduler, the kubelets and chance act on the pods.
func (w *world) live() {
	for _, name := range w.names() {
		p := w.pods[name]
		a := w.of(p.request)
		switch {
		case a == nil:
			w.remove(p, true) // the garbage collector
		case p.Deleting:
			if !w.faults || w.random.IntN(2) == 0 {
				w.remove(p, false)
			}
		case p.Node == "":
			if !w.full[p.Level] && (!w.faults || w.random.IntN(2) == 0) {
				p.Node = "n1"
				w.tell(p, false)
			}
		case p.Phase == Pending:
			p.Phase = Running
			w.tell(p, false)
		case p.Phase == Running && w.faults && w.random.IntN(8) == 0:
			switch w.random.IntN(5) {
			case 0:
				p.Phase = Succeeded
				a.done[p.slot], a.ever[p.slot] = w.term, true
			case 1, 2:
				p.Phase, p.Reason = Failed, "Error"
				a.failures[p.slot]++
				w.anew(a, p.slot)
			case 3:
				p.Phase, p.Disrupted = Failed, true
				w.anew(a, p.slot)
			case 4:
				p.Deleting = true
			}
			w.tell(p, false)
		case p.Phase == Succeeded && w.faults && w.random.IntN(8) == 0:
			w.remove(p, false) // somebody tidies up
		}
	}
}

// control lets the controller decide once, and carries out what it decides.
func (w *world) control() {
	v := View{Waiting: make(map[string]int), Room: 7}
	for _, a := range w.requests {
		r := a.Request
		r.Asks = slices.Clone(r.Asks)
		r.Pods = w.cache[r.UID]
		for _, p := range r.Pods {
			if p.Node == "" && p.Phase == Pending && !p.Gone {
				v.Waiting[r.Namespace]++
			}
		}
		v.Requests = append(v.Requests, r)
	}
	actions, _ := w.state.Decide(&v, w.now)
	for _, pods := range w.cache {
		maps.DeleteFunc(pods, func(_ string, p *Pod) bool { return p.Gone })
	}
	term := w.term
	for i := 0; i < len(actions) && w.term == term; i++ {
		w.carry(&actions[i])
	}
}

func (w *world) carry(act *Action) {
	chance := 100
	if w.faults && !w.answers {
		chance = w.random.IntN(100)
	}
	const lost, unanswered, died = 10, 20, 21
	if chance == died {
		w.elect() // the rest of its writes is never sent
		return
	}
	result := Unknown
	if chance >= lost {
		result = w.apply(act)
	}
	if chance < unanswered {
		result = Unknown
	}
	w.state.Done(act, result, "", w.now)
}

func (w *world) apply(act *Action) Result {
	a := w.of(act.UID)
	switch {
	case act.Create != nil:
		if w.pods[act.Create.Name] != nil {
			return Exists
		}
		w.create(a, act.Create)
	case act.Delete != nil:
		p := w.pods[act.Delete.Name]
		if p == nil || p.UID != act.Delete.UID {
			return Done
		}
		if act.Delete.Version != "" && act.Delete.Version != p.Version {
			return Refused
		}
		if act.Delete.Version != "" && p.Node != "" {
			w.bad("pod %s has a node, and is made anew", p.Name)
		}
		if a != nil && p.Phase == Running {
			if ask := find(a, p.slot.ask); ask != nil && p.slot.index < ask.Count && !slices.Contains(ask.Release, p.slot.index) {
				w.bad("pod %s runs, is asked for, and is deleted: %s", p.Name, act.Delete.Why)
			}
		}
		if p.Node == "" || p.Phase >= Succeeded {
			w.remove(p, true)
		} else {
			p.Deleting, p.purpose = true, true
			w.tell(p, false)
		}
	case act.Status != nil && a != nil:
		a.Status = slices.Clone(act.Status.Slots)
		for i := range a.Status {
			s := &a.Status[i]
			a.final[slotID{s.Ask, s.Index}] = s.Ended()
			if most := a.failures[slotID{s.Ask, s.Index}]; s.Failures > most {
				w.bad("%s %d: %d failures are counted, there were %d", s.Ask, s.Index, s.Failures, most)
			}
		}
	}
	return Done
}

func find(a *asked, name string) *Ask {
	for i := range a.Asks {
		if a.Asks[i].Name == name {
			return &a.Asks[i]
		}
	}
	return nil
}

func (w *world) create(a *asked, c *Create) {
	if a == nil {
		w.bad("a pod is made for a request that is gone")
		return
	}
	id := slotID{c.Ask, c.Index}
	ask := find(a, c.Ask)
	switch {
	case ask == nil || c.Index >= ask.Count:
		w.bad("a pod is made that nobody asks for: %+v", *c)
		return
	case slices.Contains(ask.Release, c.Index):
		w.bad("a pod is made of a number that was released: %+v", *c)
	case a.final[id]:
		w.bad("a pod is made of a number that has ended, as the status says: %+v", *c)
	case a.done[id] == w.term:
		w.bad("a pod is made of a number that has succeeded: %+v", *c)
	}
	if a.first[id].IsZero() {
		a.first[id] = w.now
	}
	var wait time.Duration
	for l := Nodes; l < c.Level; l++ {
		if ask.Relax[l].Named {
			if wait += ask.Relax[l].After; !ask.Relax[l].Relaxes {
				w.bad("what must not be relaxed was: %+v", *c)
			}
		}
	}
	if age := w.now.Sub(a.first[id]); age < wait && (a.failedIn[id] == 0 || a.failedIn[id] == w.term) { // a leader after may not know that it failed
		w.bad("%+v is relaxed after %v, want %v", *c, age, wait)
	}
	w.uids++
	w.made++
	p := &stored{Pod: Pod{Name: c.Name, UID: fmt.Sprintf("p%d", w.uids), Created: w.now, Level: c.Level}, request: a.UID, slot: id}
	w.pods[c.Name] = p
	w.tell(p, false)
	waiting := 0
	for _, p := range w.pods {
		if of := w.of(p.request); of != nil && of.Namespace == a.Namespace && p.Node == "" && p.Phase == Pending {
			waiting++
		}
	}
	if w.answers && waiting > w.params.MaxWaiting {
		w.bad("%d pods wait in %s, %d may", waiting, a.Namespace, w.params.MaxWaiting)
	}
}

// step is one round of the world.
func (w *world) step() {
	w.round++
	w.now = w.now.Add(tick)
	w.live()
	w.deliver()
	w.control()
}
