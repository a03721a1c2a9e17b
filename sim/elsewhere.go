package sim

import (
	"fmt"
	"time"

	"hilbert.dev/hilbert/cluster/replica"
	"hilbert.dev/hilbert/schedule"
	"hilbert.dev/hilbert/schedule/outside"
)

// The network between a leader and schedulers elsewhere. It is worse than any that carries streams: messages of a stream overtake one another and come twice, and Answers to a former leader reach
// its successor.
const (
	// usualLatency is the longest that a message takes, longLatency what a late one may take on top: longer than a leader waits for an Answer.
	usualLatency, longLatency = 50 * time.Millisecond, 6 * time.Second
	// Of a thousand messages so many are lost, late or come twice.
	lostMessages, lateMessages, doubledMessages = 20, 30, 30
	// rejoinAfter is how long a scheduler waits before it looks for a leader again.
	rejoinAfter = 250 * time.Millisecond
	// longestFault bounds for how long a scheduler is frozen or unreachable, and for how long a deposed leader believes that it leads.
	longestFault = 8 * time.Second
	// mostSkew bounds how far a leader's clock is from the API server's.
	mostSkew = 3 * time.Second
)

// elsewhere is the network between the leader and schedulers in processes of their own. They know what messages tell them, and nothing else.
//
// A deposed leader may go on for a while, and decide and send; its writes have no effect, as the fence of the Lease ensures. Every leader has an epoch of its own.
type elsewhere struct {
	draws      *stream
	codec      *replica.Codec
	clock      *clock
	violations *violations
	meter      *meter
	process    *process
	faults     bool

	schedulers []remoteScheduler
	sessions   map[sessionID]*session // that a leader has opened, and not closed
	messages   []message
	deposed    *term
	terms      uint32
	skew       time.Duration // of the leader's clock
	counts     schedule.OutsideCounts
}

// term is one leader's time.
type term struct {
	number    uint32
	scheduler *schedule.Scheduler
	skew      time.Duration
}

// sessionID names the session of a scheduler with a leader.
type sessionID struct {
	term uint32
	id   schedule.OutsideID
}

// session has the number of the last Work that was sent, and of the last Answer that came in time.
type session struct{ sent, answered uint64 }

// remoteScheduler is a scheduler elsewhere.
type remoteScheduler struct {
	follower         *schedule.Follower // nil: it decides for nobody
	term             uint32
	id               schedule.OutsideID
	unreachableUntil int64
	lastAnswer       []byte
}

// message is a message on its way.
type message struct {
	term      uint32
	id        schedule.OutsideID
	scheduler int    // that it goes to, or comes from
	work      []byte // one of work and answer; with neither the message ends the stream
	answer    []byte
	toLeader  bool
}

func newElsewhere(o *Options, p *process) (*elsewhere, error) {
	codec, err := replica.NewCodec()
	if err != nil {
		return nil, fmt.Errorf("codec of messages to schedulers elsewhere: %w", err)
	}
	return &elsewhere{
		draws: newStream(o.Seed, streamElsewhere), codec: codec, clock: p.clock, violations: p.violations, meter: p.meter, process: p, faults: o.Faults != nil,
		schedulers: make([]remoteScheduler, o.Elsewhere), sessions: make(map[sessionID]*session),
	}, nil
}

// epoch names a term by which of two replicas leads, in turns, and by its number.
func (e *elsewhere) epoch(number uint32) string { return fmt.Sprintf("%c/%d", 'a'+number%2, number) }

// begin begins the term of a new leader.
func (e *elsewhere) begin(s *schedule.Scheduler) {
	e.terms++
	s.Outside().Begin(e.epoch(e.terms))
	if e.faults {
		e.skew = e.draws.within(Range{0, 2 * mostSkew}) - mostSkew
	}
	for i := range e.schedulers {
		e.joinLater(i)
	}
}

// end ends a term. The leader may not notice, for a while.
func (e *elsewhere) end(s *schedule.Scheduler) {
	e.add(s)
	e.retire()
	t := &term{e.terms, s, e.skew}
	e.resendLast(t)
	if e.draws.IntN(2) == 0 {
		e.meter.faults["leader that does not know it is deposed"]++
		e.deposed = t
		e.clock.add(event{at: e.clock.now + e.draws.Int64N(int64(longestFault)), kind: evRetire, arg: int32(t.number)})
		return
	}
	e.close(t)
}

// resendLast sends the last Answers of a term once more, so late that they reach the next leader.
func (e *elsewhere) resendLast(t *term) {
	for i := range e.schedulers {
		if r := &e.schedulers[i]; e.faults && r.term == t.number && r.lastAnswer != nil {
			e.deliverAfter(message{term: t.number, id: r.id, scheduler: i, answer: r.lastAnswer, toLeader: true}, int64(e.process.o.Config.Binding.WriteTimeout.D())+e.draws.Int64N(int64(longestFault)))
		}
	}
}

func (e *elsewhere) add(s *schedule.Scheduler) {
	c := s.Outside().Counts()
	e.counts.Joined, e.counts.Left, e.counts.Shed = e.counts.Joined+c.Joined, e.counts.Left+c.Left, e.counts.Shed+c.Shed
	e.counts.Works, e.counts.Rows = e.counts.Works+c.Works, e.counts.Rows+c.Rows
	e.counts.Copies, e.counts.Refused = e.counts.Copies+c.Copies, e.counts.Refused+c.Refused
}

// retire stops the deposed leader.
func (e *elsewhere) retire() {
	if e.deposed != nil {
		e.close(e.deposed)
		e.deposed = nil
	}
}

// close tells the schedulers of a term that their streams have ended.
func (e *elsewhere) close(t *term) {
	for i := range e.schedulers {
		if r := &e.schedulers[i]; r.follower != nil && r.term == t.number {
			e.transmit(message{term: t.number, id: r.id, scheduler: i})
		}
	}
}

// leader returns the leader of a term, or the one that still believes it is; nil if there is none.
func (e *elsewhere) leader(number uint32) *term {
	switch {
	case e.deposed != nil && e.deposed.number == number:
		return e.deposed
	case e.process.scheduler != nil && e.terms == number:
		return &term{number, e.process.scheduler, e.skew}
	}
	return nil
}

func (e *elsewhere) now(t *term) time.Time { return e.clock.time().Add(t.skew) }

// turn looks at what a step has left behind, and lets a leader that was deposed go on.
func (e *elsewhere) turn() {
	if t := e.leader(e.terms); t != nil {
		e.checkUnits(t)
	}
	if t := e.deposed; t != nil {
		now := e.now(t)
		t.scheduler.Step(now, StepLimit)
		t.scheduler.Ready(now) // the fence lets nothing pass
		e.send(t)
	}
}

// checkUnits checks that no unit that was handed out is lost.
func (e *elsewhere) checkUnits(t *term) {
	if c := t.scheduler.Workers(); c.Units != c.Committed+c.Elsewhere+c.Parked+c.Rejected+c.Gone+c.Pending {
		e.violations.add("units that schedulers elsewhere were given are lost: %+v", c)
	}
}

func (e *elsewhere) send(t *term) {
	x := t.scheduler.Outside()
	for _, send := range x.Works(e.now(t)) {
		if known := e.sessions[sessionID{t.number, send.To}]; known != nil {
			known.sent = send.Work.Number
		}
		text, err := e.codec.Encode(send.Work)
		if err != nil {
			e.violations.add("encode a Work: %v", err)
			return
		}
		if to := e.connected(t.number, send.To); to >= 0 {
			e.transmit(message{term: t.number, id: send.To, scheduler: to, work: text})
		}
	}
	for _, id := range x.Shed() {
		delete(e.sessions, sessionID{t.number, id})
		if to := e.connected(t.number, id); to >= 0 {
			e.transmit(message{term: t.number, id: id, scheduler: to})
		}
	}
}

// connected returns the scheduler that has a session, -1 if it has left.
func (e *elsewhere) connected(number uint32, id schedule.OutsideID) int {
	for i := range e.schedulers {
		if r := &e.schedulers[i]; r.follower != nil && r.term == number && r.id == id {
			return i
		}
	}
	return -1
}

// transmit sends a message over the network. The end of a stream is never lost: keep-alive detects it.
func (e *elsewhere) transmit(m message) {
	delay := e.draws.Int64N(int64(usualLatency)) + 1
	ends := m.work == nil && m.answer == nil
	if e.faults {
		switch kind := e.draws.IntN(permille); {
		case kind < lostMessages && !ends:
			e.meter.faults["message lost"]++
			return
		case kind < lostMessages+lateMessages:
			e.meter.faults["message late"]++
			delay += e.draws.Int64N(int64(longLatency))
		case kind < lostMessages+lateMessages+doubledMessages:
			e.meter.faults["message twice"]++
			e.deliverAfter(m, delay+e.draws.Int64N(int64(longLatency)))
		}
	}
	e.deliverAfter(m, delay)
}

func (e *elsewhere) deliverAfter(m message, delay int64) {
	e.messages = append(e.messages, m)
	e.clock.add(event{at: e.clock.now + delay, kind: evMessage, arg: int32(len(e.messages) - 1)})
}

// arrive delivers a message. If its scheduler is unreachable, the message waits until it can be reached again.
func (e *elsewhere) arrive(number int32) {
	m := e.messages[number]
	r := &e.schedulers[m.scheduler]
	if r.unreachableUntil > e.clock.now {
		e.clock.add(event{at: r.unreachableUntil, kind: evMessage, arg: number})
		return
	}
	switch {
	case m.toLeader:
		e.receive(&m)
	case r.follower == nil || r.term != m.term || r.id != m.id: // of a stream that it has left
	case m.work == nil:
		e.disconnect(m.scheduler)
	default:
		e.decide(&m)
	}
}

// decide has a scheduler decide. It leaves if the message is out of order.
func (e *elsewhere) decide(m *message) {
	r := &e.schedulers[m.scheduler]
	work := &outside.Work{}
	if err := e.codec.Decode(m.work, work); err != nil {
		e.violations.add("decode a Work: %v", err)
		return
	}
	answer, err := r.follower.Do(work)
	if err != nil {
		e.meter.faults["scheduler elsewhere found messages out of order"]++
		e.transmit(message{term: r.term, id: r.id, scheduler: m.scheduler, toLeader: true})
		e.disconnect(m.scheduler)
		return
	}
	text, err := e.codec.Encode(answer)
	if err != nil {
		e.violations.add("encode an Answer: %v", err)
		return
	}
	r.lastAnswer = text
	e.transmit(message{term: r.term, id: r.id, scheduler: m.scheduler, answer: text, toLeader: true})
}

// disconnect ends a scheduler's stream on its side. It looks for a leader again.
func (e *elsewhere) disconnect(i int) {
	e.schedulers[i] = remoteScheduler{unreachableUntil: e.schedulers[i].unreachableUntil}
	e.joinLater(i)
}

func (e *elsewhere) joinLater(i int) {
	e.clock.add(event{at: e.clock.now + int64(rejoinAfter), kind: evJoin, arg: int32(i)})
}

// join has a scheduler join the leader, or one that believes it leads.
func (e *elsewhere) join(i int) {
	r := &e.schedulers[i]
	if r.follower != nil {
		return
	}
	if r.unreachableUntil > e.clock.now {
		e.clock.add(event{at: r.unreachableUntil, kind: evJoin, arg: int32(i)})
		return
	}
	t := e.leader(e.terms)
	if e.deposed != nil && (t == nil || e.draws.IntN(2) == 0) {
		t = e.deposed
	}
	if t == nil {
		return // the next leader has it join
	}
	id, welcome, err := t.scheduler.Outside().Join(&outside.Hello{Protocol: outside.Protocol, Schema: outside.Schema()}, e.now(t))
	if err == nil {
		r.follower, err = schedule.NewFollower(welcome)
	}
	if err != nil {
		e.violations.add("a scheduler cannot join: %v", err)
		return
	}
	r.term, r.id = t.number, id
	e.sessions[sessionID{t.number, id}] = &session{}
}

// receive delivers a message to the leader of its term. An Answer to a former leader reaches the present one, which has to refuse it.
func (e *elsewhere) receive(m *message) {
	t := e.leader(m.term)
	if m.answer == nil {
		if t != nil {
			t.scheduler.Outside().Leave(m.id, e.now(t))
			delete(e.sessions, sessionID{t.number, m.id})
		}
		return
	}
	if t == nil {
		if t = e.leader(e.terms); t == nil {
			return
		}
		e.meter.faults["answer of another epoch"]++
	}
	answer := &outside.Answer{}
	if err := e.codec.Decode(m.answer, answer); err != nil {
		e.violations.add("decode an Answer: %v", err)
		return
	}
	x, of := t.scheduler.Outside(), sessionID{t.number, m.id}
	known, before := e.sessions[of], x.Counts()
	err := x.Answer(m.id, answer, e.now(t))
	after := x.Counts()
	dropped, left := after.Refused > before.Refused, err != nil && after.Schedulers < before.Schedulers
	switch {
	case known == nil: // the session has ended
	case answer.Epoch != e.epoch(t.number):
		if !dropped || !left {
			e.violations.add("an Answer of epoch %s came to %s, and was not refused", answer.Epoch, e.epoch(t.number))
		}
	case answer.Number < known.sent || answer.Number == known.answered:
		if !dropped || left {
			e.violations.add("an Answer %d came late, or twice, after %+v, and was not dropped", answer.Number, *known)
		}
	default:
		if known.answered = answer.Number; dropped || left {
			e.violations.add("the Answer %d was not taken in: %v", answer.Number, err)
		}
	}
	if left {
		delete(e.sessions, of)
		if to := e.connected(t.number, m.id); to >= 0 {
			e.transmit(message{term: t.number, id: m.id, scheduler: to})
		}
	}
}

// fail has a scheduler freeze or become unreachable for a while, or die and start again.
func (e *elsewhere) fail() {
	i := e.draws.IntN(len(e.schedulers))
	r := &e.schedulers[i]
	if e.draws.IntN(3) > 0 {
		r.unreachableUntil = e.clock.now + e.draws.Int64N(int64(longestFault))
		return
	}
	if r.follower != nil {
		e.transmit(message{term: r.term, id: r.id, scheduler: i, toLeader: true})
	}
	e.disconnect(i)
}
