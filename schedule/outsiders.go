package schedule

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"hilbert.dev/hilbert/cluster"
	"hilbert.dev/hilbert/cluster/changes"
	"hilbert.dev/hilbert/internal/deadline"
	"hilbert.dev/hilbert/schedule/dispatch"
	"hilbert.dev/hilbert/schedule/fragment"
	"hilbert.dev/hilbert/schedule/outside"
	"hilbert.dev/hilbert/schedule/place/index"
	"hilbert.dev/hilbert/schedule/place/rules"
	"hilbert.dev/hilbert/schedule/queue"
)

const (
	// outsideBatch is how many units a scheduler elsewhere gets at once: more than one in this process, for a message costs more than a function call.
	outsideBatch = 64
	// outsidePatience is how long it may take to answer. Then it is shed.
	outsidePatience = 2 * time.Second
	// outsideBehind is how far its copy may lie behind before it is brought up to date though there is nothing to decide.
	outsideBehind = 2048
	// maxOutsiders bounds the schedulers elsewhere.
	maxOutsiders = dispatch.MaxParts
)

// OutsideID names a scheduler elsewhere. It is given out once.
type OutsideID uint64

// Send is a Work for a scheduler elsewhere.
type Send struct {
	To   OutsideID
	Work *outside.Work
}

// Outsiders are schedulers in other processes, as data: who is there, what each was sent last, and what has come back. The shell carries messages; nothing here waits.
//
// While there are some, single pods on their first try are theirs, as they are of several schedulers in one process (workers). What they decide is committed in the order in which it came back.
type Outsiders struct {
	sharing  *sharing
	epoch    string
	config   []byte
	list     []*outsider
	answered []answered
	shed     []OutsideID
	lastID   OutsideID
	counts   OutsideCounts
}

// OutsideCounts are what has come of schedulers elsewhere.
type OutsideCounts struct {
	// Schedulers there are now. Joined, Left and Shed so many did; those that were shed did not answer in time.
	Schedulers, Joined, Left, Shed int
	// Works were sent, with Rows of nodes; Copies of the whole ledger were begun. Refused are Answers of another epoch, or to what was not asked.
	Works, Rows, Copies, Refused int
}

// outsider is one of them.
type outsider struct {
	*instance // how it counts in the partitions; it decides nothing here
	id        OutsideID
	feed      cluster.Feed
	batch     []task
	pods      int  // of the batch, in the Work that is under way; the batch is sent whole, or waits for the copy
	waits     bool // for an Answer
	until     time.Time
	sent      uint64
	complete  bool // its copy was, with the latest Work
	division  int  // that it was told
	prices    uint64
}

// answered is a batch that has come back.
type answered struct {
	number int
	tasks  []task
}

// Begin begins an epoch: Answers of another are refused.
func (x *Outsiders) Begin(epoch string) { x.epoch = epoch }

// Join takes a scheduler in, and says what to welcome it with.
func (x *Outsiders) Join(h *outside.Hello, now time.Time) (OutsideID, *outside.Welcome, error) {
	switch {
	case h.Protocol != outside.Protocol || h.Schema != outside.Schema():
		return 0, nil, fmt.Errorf("version %s speaks protocol %d with schema %s; want protocol %d with schema %s: run the leader's version", h.Version, h.Protocol, h.Schema, outside.Protocol, outside.Schema())
	case len(x.sharing.workers.list) > 0 || len(x.sharing.d.instances) > 1:
		return 0, nil, errors.New("the leader has several schedulers of its own; set scheduling.schedulers to 1")
	case len(x.list) >= maxOutsiders:
		return 0, nil, fmt.Errorf("there are %d schedulers, which is the most", len(x.list))
	}
	if x.config == nil {
		text, err := json.Marshal(x.sharing.cfg)
		if err != nil {
			return 0, nil, fmt.Errorf("write the scheduling configuration: %w", err)
		}
		x.config = text
	}
	x.lastID++
	x.counts.Joined++
	x.list = append(x.list, &outsider{instance: &instance{number: x.number()}, id: x.lastID})
	x.divide(now)
	return x.lastID, &outside.Welcome{Epoch: x.epoch, Number: x.list[len(x.list)-1].number, Config: x.config}, nil
}

// number is the least that no scheduler has; 0 is the leader's own.
func (x *Outsiders) number() int {
	for n := 1; ; n++ {
		if !slices.ContainsFunc(x.list, func(o *outsider) bool { return o.number == n }) {
			return n
		}
	}
}

// Leave gives the units of a scheduler back. One that has left already may leave again.
func (x *Outsiders) Leave(id OutsideID, now time.Time) {
	if at := x.find(id); at >= 0 {
		x.counts.Left++
		x.drop(at, now)
	}
}

func (x *Outsiders) find(id OutsideID) int {
	return slices.IndexFunc(x.list, func(o *outsider) bool { return o.id == id })
}

func (x *Outsiders) drop(at int, now time.Time) {
	for i := range x.list[at].batch {
		u := x.list[at].batch[i].unit
		if !x.sharing.d.queue.Decides(u) {
			x.sharing.counts.Gone++
			continue
		}
		x.sharing.d.queue.Return(u)
		x.sharing.counts.Units--
	}
	x.list = slices.Delete(x.list, at, at+1)
	x.divide(now)
}

// divide gives each the nodes that are its own.
func (x *Outsiders) divide(now time.Time) {
	p := x.sharing.d.partitions
	if p.partitioner == nil || !p.confined {
		*p = partitions{partitioner: dispatch.NewPartitioner(partitionRules(&x.sharing.cfg.Partitions)), store: x.sharing.d.store, confined: true}
	}
	p.instances = p.instances[:0]
	for _, o := range x.list {
		p.instances = append(p.instances, o.instance)
	}
	p.instancesChanged(now)
}

// Answer takes in what a scheduler has decided. After an error its stream is to be closed; it has left.
func (x *Outsiders) Answer(id OutsideID, a *outside.Answer, now time.Time) error {
	at := x.find(id)
	if at < 0 {
		return nil // it was shed
	}
	o := x.list[at]
	switch {
	case a.Epoch != x.epoch:
		x.counts.Refused++
		x.Leave(id, now)
		return fmt.Errorf("the answer is of epoch %q; this is %q", a.Epoch, x.epoch)
	case a.Number < o.sent || a.Number == o.sent && !o.waits:
		x.counts.Refused++
		return nil // it came twice, or is late
	case a.Number > o.sent || len(a.Decisions) != o.pods:
		x.counts.Refused++
		x.Leave(id, now)
		return fmt.Errorf("the answer %d has %d decisions; asked was %d, about %d pods", a.Number, len(a.Decisions), o.sent, o.pods)
	}
	o.waits = false
	if o.pods == 0 {
		return nil
	}
	for i := range o.batch {
		t, d := &o.batch[i], &a.Decisions[i]
		t.found, t.node, t.choice = d.Node != "", d.Node, index.Choice{Slot: cluster.NoSlot}
		if d.Grant != nil {
			t.choice.Grant = *d.Grant
		}
	}
	x.answered = append(x.answered, answered{o.number, o.batch})
	o.batch, o.pods = nil, 0
	return nil
}

// Works are the messages to send now. Each is the only one that its scheduler has to answer.
func (x *Outsiders) Works(now time.Time) (list []Send) {
	for _, o := range x.list {
		if o.waits || o.complete && len(o.batch) == 0 && o.feed.Behind(x.sharing.d.store) < outsideBehind {
			continue
		}
		list = append(list, Send{o.id, x.work(o, now)})
	}
	return list
}

func (x *Outsiders) work(o *outsider, now time.Time) *outside.Work {
	o.sent++
	w := &outside.Work{Number: o.sent, Delta: o.feed.Next(x.sharing.d.store)}
	o.waits, o.until, o.complete = true, now.Add(outsidePatience), !w.Delta.More
	if w.Delta.Start {
		x.counts.Copies++
	}
	x.counts.Works, x.counts.Rows = x.counts.Works+1, x.counts.Rows+len(w.Delta.Rows)
	if m := x.sharing.d.market; o.prices != m.Revision() {
		o.prices = m.Revision()
		w.Prices = pricesOf(m)
	}
	if p := x.sharing.d.partitions; o.division != p.division && o.complete {
		o.division, w.Division = p.division, &outside.Division{Part: o.part}
		if o.divided {
			w.Division.Parts = p.of
		}
	}
	if !o.complete {
		return w // pods wait for the rest of the rows
	}
	for i := range o.batch {
		t := &o.batch[i]
		t.revision = changes.Revision(w.Delta.Revision)
		w.Pods = append(w.Pods, outside.Pod{Pod: o.feed.Pod(w.Delta, &t.pod), Profile: t.profile})
	}
	o.pods = len(o.batch)
	return w
}

func pricesOf(m *rules.Market) *outside.Prices {
	p := &outside.Prices{Revision: m.Revision(), Hosts: m.Hosts().Clone()}
	m.Each(func(model string, prices *fragment.Prices) {
		p.Models = append(p.Models, outside.Model{Name: model, Prices: prices})
	})
	return p
}

// Shed returns the schedulers that were shed since it was last asked: their streams are to be closed.
func (x *Outsiders) Shed() []OutsideID {
	list := x.shed
	x.shed = nil
	return list
}

// expire sheds the schedulers that have not answered in time.
func (x *Outsiders) expire(now time.Time) {
	for _, o := range slices.Clone(x.list) {
		if o.waits && !now.Before(o.until) {
			x.shed = append(x.shed, o.id)
			x.counts.Shed++
			x.drop(x.find(o.id), now)
		}
	}
}

// nextWake is when the next scheduler is shed unless it answers.
func (x *Outsiders) nextWake() (time.Time, bool) {
	var next deadline.Earliest
	for _, o := range x.list {
		next.Add(o.until, o.waits)
	}
	return next.Time()
}

// Counts returns what has come of them.
func (x *Outsiders) Counts() OutsideCounts {
	c := x.counts
	c.Schedulers = len(x.list)
	return c
}

// pending is how many units they have, or have decided on.
func (x *Outsiders) pending() (units int) {
	for _, o := range x.list {
		units += len(o.batch)
	}
	for i := range x.answered {
		units += len(x.answered[i].tasks)
	}
	return units
}

// outranks reports whether one of them has a unit of higher priority.
func (x *Outsiders) outranks(u *queue.Unit) bool {
	higher := func(t task) bool { return t.pod.Priority > u.Priority }
	return slices.ContainsFunc(x.list, func(o *outsider) bool { return slices.ContainsFunc(o.batch, higher) })
}

// free is one that may be given units, nil for none. able reports whether there is one that will be.
func (x *Outsiders) free() (free *outsider, able bool) {
	for _, o := range x.list {
		if o.complete {
			able = true
			if !o.waits && len(o.batch) == 0 {
				return o, true
			}
		}
	}
	return nil, able
}
