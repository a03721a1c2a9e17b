package request

import (
	"cmp"
	"maps"
	"slices"
	"strconv"
	"time"
)

// Params bound what is done.
type Params struct {
	// MaxWaiting bounds the pods of a namespace that have no node, for all its requests.
	MaxWaiting int
	// Retry is the pause after the first failure of a slot; it doubles with each, up to RetryMost. It is the same for pods that the API server refuses.
	Retry, RetryMost time.Duration
	// StatusEvery is how often the status of one request is written.
	StatusEvery time.Duration
	// Unseen is how long a pod that was made, or deleted, may be on its way to our eyes before it is tried again.
	Unseen time.Duration
}

// Defaults are what the controller goes by.
func Defaults() Params {
	return Params{MaxWaiting: 5000, Retry: time.Second, RetryMost: 5 * time.Minute, StatusEvery: time.Second, Unseen: 15 * time.Second}
}

func (p *Params) retry(failures int) time.Duration {
	const most = 20
	return min(p.RetryMost, p.Retry<<min(max(failures-1, 0), most))
}

// Action is one thing that is to be done for a request.
type Action struct {
	Request Key
	UID     string
	// One of these is set.
	Gather *Gather
	Create *Create
	Delete *Delete
	Status *Status
}

// Gather makes the PodGroup of a gang.
type Gather struct{ Members int }

// Create makes the pod of a slot.
type Create struct {
	Name  string
	Ask   string
	Index int
	Level Level
}

// Delete deletes a pod.
type Delete struct {
	Name, UID string
	// Version, if it is set, is what the pod must still be: it had no node then.
	Version string
	Why     string
}

// Result is what came of an action.
type Result int8

// The results of actions.
const (
	// Done: it was done.
	Done Result = iota
	// Exists: there is a pod of that name. If it is ours we shall see it.
	Exists
	// Refused: the API server will not have it, for a reason that it said.
	Refused
	// Unknown: nobody knows whether it was done.
	Unknown
)

// State is what is remembered between decisions. All of it can be lost: what must not be is in statuses.
type State struct {
	params Params
	known  map[string]*known // by UID
	turn   string            // the namespace that was served last
}

// NewState remembers nothing.
func NewState(p Params) *State { return &State{params: p, known: make(map[string]*known)} }

// known is what is remembered of a request.
type known struct {
	namespace string
	slots     map[slotID]*Slot
	gathered  bool
	// making and removing are what is on its way, by name and by UID, and until when it is waited for.
	making, removing map[string]time.Time
	// taken counts how often there was a pod of a name that we do not see.
	taken map[string]int
	// refusals count in a row what the API server would not have; until refused nothing is made.
	refusals int
	refused  time.Time
	refusal  string
	// written is the status that was written last, and when.
	written   *Status
	writtenAt time.Time
	writing   bool
}

// Forget forgets a request that is gone.
func (s *State) Forget(uid string) { delete(s.known, uid) }

// Known is how many requests are remembered.
func (s *State) Known() int { return len(s.known) }

// look is what one request asks for in a decision.
type look struct {
	r       *Request
	k       *known
	creates []Create
	have    int // pods there are or are on their way
	total   int // slots that have not ended
	wake    time.Time
}

func (l *look) soon(at time.Time) {
	if l.wake.IsZero() || at.Before(l.wake) {
		l.wake = at
	}
}

// Decide says what is to be done now, and when to look again at which request though nothing changes.
func (s *State) Decide(v *View, now time.Time) (actions []Action, wake map[Key]time.Time) {
	wake = make(map[Key]time.Time)
	looks := make([]look, 0, len(v.Requests))
	for i := range v.Requests {
		l, removals := s.see(&v.Requests[i], now)
		actions = append(actions, removals...)
		looks = append(looks, l)
	}
	actions = append(actions, s.share(v, looks, now)...)
	for i := range looks {
		l := &looks[i]
		if a, due := s.status(l, now); due {
			actions = append(actions, a)
		}
		if !l.wake.IsZero() {
			wake[l.r.Key] = l.wake
		}
	}
	return actions, wake
}

// remember is what is known of a request. At first that is what its status says.
func (s *State) remember(r *Request) *known {
	k := s.known[r.UID]
	if k == nil {
		k = &known{namespace: r.Namespace, slots: make(map[slotID]*Slot), making: make(map[string]time.Time), removing: make(map[string]time.Time), taken: make(map[string]int)}
		k.written = &Status{Slots: slices.SortedFunc(slices.Values(r.Status), inOrder)}
		for _, slot := range r.Status {
			k.slots[slotID{slot.Ask, slot.Index}] = &slot
		}
		s.known[r.UID] = k
	}
	return k
}

// see brings what is known of a request up to date, and says what must go and what is to be made.
func (s *State) see(r *Request, now time.Time) (l look, actions []Action) {
	l = look{r: r, k: s.remember(r)}
	k := l.k
	if r.Deleting {
		return l, nil // the garbage collector deletes its pods
	}
	if r.Problem != "" {
		return l, nil
	}
	asked, matched := 0, 0
	for i := range r.Asks {
		a := &r.Asks[i]
		released := make(map[int]bool, len(a.Release))
		for _, index := range a.Release {
			released[index] = true
		}
		prefix := prefixOf(r, a.Name)
		for index := range a.Count {
			slot := k.slot(a, index, prefix, now)
			if asked++; r.Pods[slot.name] != nil {
				matched++
			}
			actions = append(actions, s.slot(&l, a, slot, released[index], now)...)
		}
	}
	if len(k.slots) > asked || len(r.Pods) > matched {
		actions = append(actions, s.surplus(&l, now)...)
	}
	maps.DeleteFunc(k.making, func(_ string, until time.Time) bool { return !now.Before(until) })
	maps.DeleteFunc(k.removing, func(_ string, until time.Time) bool { return !now.Before(until) })
	return l, actions
}

// slot is what is known of a slot.
func (k *known) slot(a *Ask, index int, prefix string, now time.Time) *Slot {
	id := slotID{a.Name, index}
	slot := k.slots[id]
	if slot == nil {
		slot = &Slot{Ask: a.Name, Index: index, State: SlotWaiting, Level: a.first(), Since: now}
		k.slots[id] = slot
	}
	if slot.name == "" {
		slot.name = prefix + strconv.Itoa(index)
	}
	return slot
}

// surplus forgets slots that are not asked for any more, and says which pods must go.
func (s *State) surplus(l *look, now time.Time) (actions []Action) {
	r, k := l.r, l.k
	names := make(map[string]bool)
	for i := range r.Asks {
		for index := range r.Asks[i].Count {
			names[k.slots[slotID{r.Asks[i].Name, index}].name] = true
		}
	}
	maps.DeleteFunc(k.slots, func(_ slotID, slot *Slot) bool { return !names[slot.name] })
	maps.DeleteFunc(k.taken, func(name string, _ int) bool { return !names[name] })
	for _, name := range slices.Sorted(maps.Keys(r.Pods)) {
		delete(k.making, name)
		if p := r.Pods[name]; !names[name] && !p.Deleting && !p.Gone {
			actions = append(actions, k.remove(r, &Delete{Name: p.Name, UID: p.UID, Why: "it is not asked for any more"}, l, s.params.Unseen, now)...)
		}
	}
	return actions
}

// slot looks at one slot, and says what must go; what is to be made is noted.
func (s *State) slot(l *look, a *Ask, slot *Slot, released bool, now time.Time) []Action {
	k, name, p := l.k, slot.name, l.r.Pods[slot.name]
	if p != nil {
		delete(k.making, name)
		delete(k.taken, name)
	}
	do := slot.look(a, released, p, s.params.retry, now)
	if !slot.Ended() {
		l.total++
	}
	if p != nil && !p.Gone || now.Before(k.making[name]) {
		l.have++
	}
	if !do.wake.IsZero() {
		l.soon(do.wake)
	}
	switch {
	case do.saved && !k.saved(slot):
		l.soon(now.Add(s.params.StatusEvery))
	case do.remove != nil:
		d := &Delete{Name: do.remove.Name, UID: do.remove.UID, Why: do.why}
		if do.bound {
			d.Version = do.remove.Version
		}
		return k.remove(l.r, d, l, s.params.Unseen, now)
	case do.create && now.Before(k.making[name]):
		l.soon(k.making[name])
	case do.create:
		l.creates = append(l.creates, Create{Name: name, Ask: a.Name, Index: slot.Index, Level: slot.Level})
	}
	return nil
}

// remove asks for a deletion, unless one is on its way.
func (k *known) remove(r *Request, d *Delete, l *look, unseen time.Duration, now time.Time) []Action {
	if until := k.removing[d.UID]; now.Before(until) {
		l.soon(until)
		return nil
	}
	k.removing[d.UID] = now.Add(unseen)
	l.soon(now.Add(unseen))
	return []Action{{Request: r.Key, UID: r.UID, Delete: d}}
}

// queues are the requests that want pods now, by namespace, the oldest first. Gangs that have no PodGroup yet get one before.
func (s *State) queues(looks []look, now time.Time) (queues map[string][]*look, gathers []Action) {
	queues = make(map[string][]*look)
	for i := range looks {
		l := &looks[i]
		switch {
		case len(l.creates) == 0:
		case now.Before(l.k.refused):
			l.soon(l.k.refused)
		case l.r.Gang && !l.k.gathered:
			if until := l.k.making[""]; now.Before(until) {
				l.soon(until)
				continue
			}
			l.k.making[""] = now.Add(s.params.Unseen)
			l.soon(now.Add(s.params.Unseen))
			members := 0
			for k := range l.r.Asks {
				members += l.r.Asks[k].Count
			}
			gathers = append(gathers, Action{Request: l.r.Key, UID: l.r.UID, Gather: &Gather{Members: members}})
		default:
			queues[l.r.Namespace] = append(queues[l.r.Namespace], l)
		}
	}
	for _, queue := range queues {
		slices.SortFunc(queue, func(a, b *look) int { return cmp.Or(a.r.Created.Compare(b.r.Created), cmp.Compare(a.r.Name, b.r.Name)) })
	}
	return queues, gathers
}

// share says which of the pods that are wanted are made now: one of each namespace after the other, and in it one of each request after the other.
func (s *State) share(v *View, looks []look, now time.Time) []Action {
	queues, actions := s.queues(looks, now)
	namespaces := slices.Sorted(maps.Keys(queues))
	room := make(map[string]int)
	for _, namespace := range namespaces {
		room[namespace] = s.params.MaxWaiting - v.Waiting[namespace]
	}
	for _, k := range s.known {
		if _, asks := room[k.namespace]; asks {
			room[k.namespace] -= len(k.making)
		}
	}
	// Whose turn it is goes on behind the namespace that was served last.
	at, _ := slices.BinarySearch(namespaces, s.turn+"\x00")
	namespaces = slices.Concat(namespaces[at:], namespaces[:at])
	left := v.Room
	for served := true; served && left > 0; {
		served = false
		for _, namespace := range namespaces {
			l := next(queues, namespace, room)
			if l == nil || left == 0 {
				continue
			}
			l.k.making[l.creates[0].Name] = now.Add(s.params.Unseen)
			l.soon(now.Add(s.params.Unseen))
			actions = append(actions, Action{Request: l.r.Key, UID: l.r.UID, Create: &l.creates[0]})
			l.creates = l.creates[1:]
			l.have++
			room[namespace]--
			left--
			s.turn, served = namespace, true
		}
	}
	for i := range looks {
		switch l := &looks[i]; {
		case len(l.creates) == 0:
		case left == 0:
			l.soon(now)
		default:
			l.soon(now.Add(s.params.StatusEvery)) // its namespace has no room
		}
	}
	return actions
}

// next is the request of a namespace whose turn it is: after one of its pods the others have their turns. nil: there is none, or no room.
func next(queues map[string][]*look, namespace string, room map[string]int) *look {
	for range len(queues[namespace]) {
		l := queues[namespace][0]
		queues[namespace] = queues[namespace][1:]
		if len(l.creates) == 0 {
			continue
		}
		queues[namespace] = append(queues[namespace], l)
		need := 1
		if l.r.Gang && l.have == 0 {
			need = l.total // a part of a gang would wait for the rest of it for ever, in the room of others
		}
		if room[namespace] >= need || l.r.Gang && l.have > 0 {
			return l
		}
	}
	return nil
}

// Done says what came of an action.
func (s *State) Done(a *Action, result Result, message string, now time.Time) {
	k := s.known[a.UID]
	if k == nil {
		return
	}
	switch {
	case a.Create != nil:
		k.made(a.Create.Name, result, message, &s.params, now)
	case a.Gather != nil:
		k.made("", result, message, &s.params, now)
		k.gathered = result == Done || result == Exists
		if k.gathered {
			delete(k.making, "")
		}
	case a.Delete != nil && result != Done:
		k.removing[a.Delete.UID] = now.Add(s.params.Retry)
	case a.Status != nil:
		k.writing = false
		if k.writtenAt = now; result == Done {
			k.written = a.Status
		}
	}
}

func (k *known) made(name string, result Result, message string, p *Params, now time.Time) {
	switch result {
	case Done:
		k.refusals, k.refusal = 0, ""
	case Exists:
		k.taken[name]++
		k.making[name] = now.Add(p.retry(k.taken[name]))
	case Refused:
		delete(k.making, name)
		if now.Before(k.refused) && k.refusals > 0 {
			return // of the same decision
		}
		k.refusals++
		k.refusal, k.refused = clip(message), now.Add(p.retry(k.refusals))
	case Unknown:
		k.making[name] = now.Add(p.Retry)
	}
}
