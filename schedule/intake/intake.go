package intake

import (
	"slices"

	"hilbert.dev/hilbert/cluster/facts"
)

// MaxWaiting is how many events may wait to be applied.
const MaxWaiting = 16384

// orderedInTurn is how many events that are no waiting pods are taken before one that is.
const orderedInTurn = 3

// Events are events that wait. The zero value has none.
type Events struct {
	ordered line                // all but pods that wait for a place
	settled map[facts.UID]int   // how many events of a pod are among the ordered ones
	spaces  map[string]*line    // waiting pods by namespace; none is empty
	turns   []string            // namespaces with waiting pods, the next one first
	waiting map[facts.UID]*item // waiting pods by UID
	list    facts.Event         // what must be taken after all that is here, and before all else
	inTurn  int                 // ordered events that were taken since the last waiting pod
	fair    shares
	left    int // events that are to be taken
	most    int // that have waited at once
}

// item is an event that waits; one without an event was left out.
type item struct{ event facts.Event }

// line is taken from its head.
type line struct{ items []*item }

// Len is how many events wait.
func (e *Events) Len() int { return e.left }

// Longest is the largest number of events that have waited at once.
func (e *Events) Longest() int { return e.most }

// Full reports whether nothing may be added before something is taken.
func (e *Events) Full() bool { return e.list != nil || e.left >= MaxWaiting }

// Add takes an event in. It must not be called while Full.
func (e *Events) Add(event facts.Event) {
	e.left++
	e.most = max(e.most, e.left)
	uid, namespace, waits := subject(event)
	switch {
	case isList(event):
		e.list = event
	case uid == "":
		e.ordered.push(&item{event})
	case waits && e.settled[uid] == 0:
		e.addWaiting(uid, namespace, event)
	default:
		e.leaveOut(uid)
		if e.settled == nil {
			e.settled = make(map[facts.UID]int)
		}
		e.settled[uid]++
		e.ordered.push(&item{event})
	}
}

func (e *Events) addWaiting(uid facts.UID, namespace string, event facts.Event) {
	if old := e.waiting[uid]; old != nil {
		old.event = event
		e.left--
		return
	}
	if e.waiting == nil {
		e.waiting, e.spaces = make(map[facts.UID]*item), make(map[string]*line)
	}
	if len(e.turns) == 0 { // nobody waits, so nobody is to be passed over
		e.fair = shares{}
	}
	space := e.spaces[namespace]
	if space == nil {
		space = &line{}
		e.spaces[namespace] = space
		e.turns = append(e.turns, namespace)
	}
	i := &item{event}
	e.waiting[uid] = i
	space.push(i)
}

// leaveOut leaves out what was said of a pod while it waited.
func (e *Events) leaveOut(uid facts.UID) {
	if old := e.waiting[uid]; old != nil {
		old.event = nil
		delete(e.waiting, uid)
		e.left--
	}
}

// Take returns the event that is to be applied next; nil: none waits.
func (e *Events) Take() facts.Event {
	e.fair.last = ""
	event := e.next()
	if event != nil {
		e.left--
	}
	return event
}

func (e *Events) next() facts.Event {
	if e.inTurn >= orderedInTurn {
		if event := e.nextWaiting(); event != nil {
			return event
		}
	}
	if i := e.ordered.pop(); i != nil {
		e.inTurn++
		if uid, _, _ := subject(i.event); e.settled[uid] > 1 {
			e.settled[uid]--
		} else {
			delete(e.settled, uid)
		}
		return i.event
	}
	if event := e.nextWaiting(); event != nil {
		return event
	}
	event := e.list
	e.list = nil
	return event
}

// nextWaiting is the oldest waiting pod of the namespace whose turn it is.
func (e *Events) nextWaiting() facts.Event {
	e.inTurn = 0
	for len(e.turns) > 0 {
		name := e.turn()
		space := e.spaces[name]
		i := space.pop()
		for i != nil && i.event == nil {
			i = space.pop()
		}
		if len(space.items) > 0 {
			e.turns = append(e.turns, name)
		} else {
			delete(e.spaces, name)
		}
		if i != nil {
			uid, _, _ := subject(i.event)
			delete(e.waiting, uid)
			e.fair.take(name)
			return i.event
		}
	}
	return nil
}

// turn takes out the namespace whose turn it is: the next one that has not cost more than its share.
func (e *Events) turn() (name string) {
	at := slices.IndexFunc(e.turns, e.fair.due)
	if at < 0 {
		e.fair.advance(e.turns)
		at = slices.IndexFunc(e.turns, e.fair.due)
	}
	name = e.turns[at]
	if at > 0 { // those before it come after those behind it: each is asked once in a round
		e.turns = append(e.turns, e.turns[:at]...)
	}
	e.turns = e.turns[at+1:]
	return name
}

func (l *line) push(i *item) { l.items = append(l.items, i) }

func (l *line) pop() *item {
	if len(l.items) == 0 {
		return nil
	}
	first := l.items[0]
	l.items[0] = nil
	if l.items = l.items[1:]; len(l.items) == 0 {
		l.items = nil // what was taken is not kept
	}
	return first
}

// subject is the pod that an event is about, and whether that waits for a place; empty if it is about something else.
func subject(event facts.Event) (uid facts.UID, namespace string, waits bool) {
	switch e := event.(type) {
	case facts.PodUpserted:
		return e.Pod.UID, e.Pod.Namespace, e.Pod.Ours && e.Pod.Node == "" && !e.Pod.Finished
	case facts.PodRemoved:
		return e.UID, "", false
	default:
		return "", "", false
	}
}

// isList reports whether an event replaces what was said of many objects, or says that all was said.
func isList(event facts.Event) bool {
	switch event.(type) {
	case facts.CaughtUp, facts.NodesListed, facts.PodsListed, facts.FinishedListed, facts.ReportsListed, facts.NamespacesListed, facts.WorkloadsListed, facts.BudgetsListed,
		facts.UnitsListed, facts.QueuesListed, facts.StorageListed, facts.DRAListed:
		return true
	default:
		return false
	}
}
