package sim

import (
	"fmt"
	"time"

	"hilbert.dev/hilbert/cluster/replica"
	"hilbert.dev/hilbert/schedule"
	"hilbert.dev/hilbert/schedule/outside"
)

// The network between a leader and schedulers elsewhere. It is worse than any that carries streams: messages of a stream overtake one another and come twice, and Answers for a leader that is no
// more come to its successor.
const (
	// usualWay is how long a message travels, longWay one that is late: longer than a leader waits for an Answer.
	usualWay, longWay = 50 * time.Millisecond, 6 * time.Second
	// Of a thousand messages so many are lost, late or come twice.
	lostMessages, lateMessages, doubledMessages = 20, 30, 30
	// rejoin is how long a scheduler waits before it looks for a leader again.
	rejoin = 250 * time.Millisecond
	// longestTrouble bounds for how long a scheduler is frozen or out of reach, and one that was deposed believes that it leads.
	longestTrouble = 8 * time.Second
	// mostSkew bounds how far a leader's clock is from the API server's.
	mostSkew = 3 * time.Second
)

// elsewhere is a network with schedulers in processes of their own. Nobody there knows more than what messages say.
//
// A leader that was deposed may go on for a while, and decide and send; what it writes reaches nobody, as the fence of the Lease ensures. Its epoch and its successors' are all unlike.
type elsewhere struct {
	draws      *stream
	codec      *replica.Codec
	clock      *clock
	violations *violations
	meter      *meter
	process    *process
	faults     bool

	schedulers []remote
	seats      map[seat]*asked // that leaders have given, and not taken back
	letters    []letter
	deposed    *term
	terms      uint32
	skew       time.Duration // of the clock of who leads
	counts     schedule.OutsideCounts
}

// term is one leader's time.
type term struct {
	number    uint32
	scheduler *schedule.Scheduler
	skew      time.Duration
}

// seat is a scheduler's with a leader.
type seat struct {
	term uint32
	id   schedule.OutsideID
}

// asked is the number of the last Work for a seat, and of the last Answer that came back in time.
type asked struct{ sent, answered uint64 }

// remote is a scheduler elsewhere.
type remote struct {
	follower *schedule.Follower // nil: it decides for nobody
	term     uint32
	id       schedule.OutsideID
	away     int64  // until when nothing reaches it, nor comes from it
	said     []byte // its last Answer
}

// letter is a message on its way.
type letter struct {
	term   uint32
	id     schedule.OutsideID
	to     int    // the scheduler, or that it comes from
	work   []byte // one of these, or the end of the stream
	answer []byte
	back   bool // to the leader
}

func newElsewhere(o *Options, p *process) (*elsewhere, error) {
	codec, err := replica.NewCodec()
	if err != nil {
		return nil, fmt.Errorf("codec of messages to schedulers elsewhere: %w", err)
	}
	return &elsewhere{
		draws: newStream(o.Seed, streamElsewhere), codec: codec, clock: p.clock, violations: p.violations, meter: p.meter, process: p, faults: o.Faults != nil,
		schedulers: make([]remote, o.Elsewhere), seats: make(map[seat]*asked),
	}, nil
}

// epoch names a term: by who leads, of two that take turns, and how many did before.
func (e *elsewhere) epoch(number uint32) string { return fmt.Sprintf("%c/%d", 'a'+number%2, number) }

// begin begins the term of a new leader.
func (e *elsewhere) begin(s *schedule.Scheduler) {
	e.terms++
	s.Outside().Begin(e.epoch(e.terms))
	if e.faults {
		e.skew = e.draws.within(Range{0, 2 * mostSkew}) - mostSkew
	}
	for i := range e.schedulers {
		e.seek(i)
	}
}

// end ends a term. The leader may not notice, for a while.
func (e *elsewhere) end(s *schedule.Scheduler) {
	e.add(s)
	e.dethrone()
	t := &term{e.terms, s, e.skew}
	e.repeat(t)
	if e.draws.IntN(2) == 0 {
		e.meter.faults["leader that does not know it is deposed"]++
		e.deposed = t
		e.clock.add(event{at: e.clock.now + e.draws.Int64N(int64(longestTrouble)), kind: evDethrone, arg: int32(t.number)})
		return
	}
	e.close(t)
}

// repeat sends what was said last in a term once more, so late that it comes to the next leader.
func (e *elsewhere) repeat(t *term) {
	for i := range e.schedulers {
		if r := &e.schedulers[i]; e.faults && r.term == t.number && r.said != nil {
			e.put(letter{term: t.number, id: r.id, to: i, answer: r.said, back: true}, int64(e.process.o.Config.Binding.WriteTimeout.D())+e.draws.Int64N(int64(longestTrouble)))
		}
	}
}

func (e *elsewhere) add(s *schedule.Scheduler) {
	c := s.Outside().Counts()
	e.counts.Joined, e.counts.Left, e.counts.Shed = e.counts.Joined+c.Joined, e.counts.Left+c.Left, e.counts.Shed+c.Shed
	e.counts.Works, e.counts.Rows = e.counts.Works+c.Works, e.counts.Rows+c.Rows
	e.counts.Copies, e.counts.Refused = e.counts.Copies+c.Copies, e.counts.Refused+c.Refused
}

// dethrone ends a leader that was deposed.
func (e *elsewhere) dethrone() {
	if e.deposed != nil {
		e.close(e.deposed)
		e.deposed = nil
	}
}

// close tells the schedulers of a term that their streams have ended.
func (e *elsewhere) close(t *term) {
	for i := range e.schedulers {
		if r := &e.schedulers[i]; r.follower != nil && r.term == t.number {
			e.post(letter{term: t.number, id: r.id, to: i})
		}
	}
}

// leads returns who leads in a term, or believes so.
func (e *elsewhere) leads(number uint32) *term {
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
	if t := e.leads(e.terms); t != nil {
		e.conserved(t)
	}
	if t := e.deposed; t != nil {
		now := e.now(t)
		t.scheduler.Step(now, StepLimit)
		t.scheduler.Ready(now) // the fence lets nothing pass
		e.send(t)
	}
}

// conserved: no unit that was handed out is lost.
func (e *elsewhere) conserved(t *term) {
	if c := t.scheduler.Workers(); c.Units != c.Committed+c.Elsewhere+c.Parked+c.Rejected+c.Gone+c.Pending {
		e.violations.add("units that schedulers elsewhere were given are lost: %+v", c)
	}
}

func (e *elsewhere) send(t *term) {
	x := t.scheduler.Outside()
	for _, send := range x.Works(e.now(t)) {
		if known := e.seats[seat{t.number, send.To}]; known != nil {
			known.sent = send.Work.Number
		}
		text, err := e.codec.Encode(send.Work)
		if err != nil {
			e.violations.add("encode a Work: %v", err)
			return
		}
		if to := e.member(t.number, send.To); to >= 0 {
			e.post(letter{term: t.number, id: send.To, to: to, work: text})
		}
	}
	for _, id := range x.Shed() {
		delete(e.seats, seat{t.number, id})
		if to := e.member(t.number, id); to >= 0 {
			e.post(letter{term: t.number, id: id, to: to})
		}
	}
}

// member is the scheduler that has a stream, -1 if it has gone.
func (e *elsewhere) member(number uint32, id schedule.OutsideID) int {
	for i := range e.schedulers {
		if r := &e.schedulers[i]; r.follower != nil && r.term == number && r.id == id {
			return i
		}
	}
	return -1
}

// post puts a letter on its way. The end of a stream is never lost: keep-alive finds it.
func (e *elsewhere) post(l letter) {
	way := e.draws.Int64N(int64(usualWay)) + 1
	ends := l.work == nil && l.answer == nil
	if e.faults {
		switch kind := e.draws.IntN(permille); {
		case kind < lostMessages && !ends:
			e.meter.faults["message lost"]++
			return
		case kind < lostMessages+lateMessages:
			e.meter.faults["message late"]++
			way += e.draws.Int64N(int64(longWay))
		case kind < lostMessages+lateMessages+doubledMessages:
			e.meter.faults["message twice"]++
			e.put(l, way+e.draws.Int64N(int64(longWay)))
		}
	}
	e.put(l, way)
}

func (e *elsewhere) put(l letter, way int64) {
	e.letters = append(e.letters, l)
	e.clock.add(event{at: e.clock.now + way, kind: evLetter, arg: int32(len(e.letters) - 1)})
}

// arrive brings a letter, unless its scheduler is out of reach: then it comes when that is over.
func (e *elsewhere) arrive(number int32) {
	l := e.letters[number]
	r := &e.schedulers[l.to]
	if r.away > e.clock.now {
		e.clock.add(event{at: r.away, kind: evLetter, arg: number})
		return
	}
	switch {
	case l.back:
		e.receive(&l)
	case r.follower == nil || r.term != l.term || r.id != l.id: // of a stream that it has left
	case l.work == nil:
		e.abandon(l.to)
	default:
		e.decide(&l)
	}
}

// decide has a scheduler decide, which leaves when it finds that something is wrong.
func (e *elsewhere) decide(l *letter) {
	r := &e.schedulers[l.to]
	work := &outside.Work{}
	if err := e.codec.Decode(l.work, work); err != nil {
		e.violations.add("decode a Work: %v", err)
		return
	}
	answer, err := r.follower.Do(work)
	if err != nil {
		e.meter.faults["scheduler elsewhere found messages out of order"]++
		e.post(letter{term: r.term, id: r.id, to: l.to, back: true})
		e.abandon(l.to)
		return
	}
	text, err := e.codec.Encode(answer)
	if err != nil {
		e.violations.add("encode an Answer: %v", err)
		return
	}
	r.said = text
	e.post(letter{term: r.term, id: r.id, to: l.to, answer: text, back: true})
}

// abandon ends a scheduler's stream on its side. It looks for a leader again.
func (e *elsewhere) abandon(i int) {
	e.schedulers[i] = remote{away: e.schedulers[i].away}
	e.seek(i)
}

func (e *elsewhere) seek(i int) {
	e.clock.add(event{at: e.clock.now + int64(rejoin), kind: evSeek, arg: int32(i)})
}

// join has a scheduler join who leads, or who believes so.
func (e *elsewhere) join(i int) {
	r := &e.schedulers[i]
	if r.follower != nil {
		return
	}
	if r.away > e.clock.now {
		e.clock.add(event{at: r.away, kind: evSeek, arg: int32(i)})
		return
	}
	t := e.leads(e.terms)
	if e.deposed != nil && (t == nil || e.draws.IntN(2) == 0) {
		t = e.deposed
	}
	if t == nil {
		return // who leads next is looked for then
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
	e.seats[seat{t.number, id}] = &asked{}
}

// receive brings a letter to the leader of its term. An Answer for one that is no more comes to who leads now, and has to be refused.
func (e *elsewhere) receive(l *letter) {
	t := e.leads(l.term)
	if l.answer == nil {
		if t != nil {
			t.scheduler.Outside().Leave(l.id, e.now(t))
			delete(e.seats, seat{t.number, l.id})
		}
		return
	}
	if t == nil {
		if t = e.leads(e.terms); t == nil {
			return
		}
		e.meter.faults["answer of another epoch"]++
	}
	answer := &outside.Answer{}
	if err := e.codec.Decode(l.answer, answer); err != nil {
		e.violations.add("decode an Answer: %v", err)
		return
	}
	x, of := t.scheduler.Outside(), seat{t.number, l.id}
	known, before := e.seats[of], x.Counts()
	err := x.Answer(l.id, answer, e.now(t))
	after := x.Counts()
	dropped, left := after.Refused > before.Refused, err != nil && after.Schedulers < before.Schedulers
	switch {
	case known == nil: // nobody has that seat any more
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
		delete(e.seats, of)
		if to := e.member(t.number, l.id); to >= 0 {
			e.post(letter{term: t.number, id: l.id, to: to})
		}
	}
}

// trouble strikes a scheduler: it freezes or is out of reach, or it dies and is started again.
func (e *elsewhere) trouble() {
	i := e.draws.IntN(len(e.schedulers))
	r := &e.schedulers[i]
	if e.draws.IntN(3) > 0 {
		r.away = e.clock.now + e.draws.Int64N(int64(longestTrouble))
		return
	}
	if r.follower != nil {
		e.post(letter{term: r.term, id: r.id, to: i, back: true})
	}
	e.abandon(i)
}
