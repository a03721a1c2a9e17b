package schedule

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/cluster"
	"hilbert.dev/hilbert/cluster/facts"
	"hilbert.dev/hilbert/cluster/replica"
	"hilbert.dev/hilbert/schedule/outside"
)

// elsewhere is schedulers in other processes, on a network that a test plays.
type elsewhere struct {
	t       *testing.T
	s       *Scheduler
	codec   *replica.Codec
	streams map[OutsideID]*stream
	way     []message // to the leader
	decided int
}

// stream is a scheduler with what it would decide in the leader's process, on the same revisions.
type stream struct {
	follower *Follower
	shadow   *worker
	division int
	hangs    bool
}

type message struct {
	from   OutsideID
	answer *outside.Answer
	at     time.Time
}

func newElsewhere(t *testing.T, s *Scheduler) *elsewhere {
	t.Helper()
	codec, err := replica.NewCodec()
	if err != nil {
		t.Fatal(err)
	}
	return &elsewhere{t: t, s: s, codec: codec, streams: make(map[OutsideID]*stream)}
}

// carry writes a message and reads it.
func carry[T any](e *elsewhere, m *T) *T {
	e.t.Helper()
	text, err := e.codec.Encode(m)
	read := new(T)
	if err = errors.Join(err, e.codec.Decode(text, read)); err != nil {
		e.t.Fatal(err)
	}
	return read
}

func hello() *outside.Hello {
	return &outside.Hello{Protocol: outside.Protocol, Schema: outside.Schema(), Version: "test", Name: "test"}
}

func (e *elsewhere) join(now time.Time) OutsideID {
	e.t.Helper()
	id, welcome, err := e.s.Outside().Join(carry(e, hello()), now)
	if err != nil {
		e.t.Fatal(err)
	}
	f, err := NewFollower(carry(e, welcome))
	if err != nil {
		e.t.Fatal(err)
	}
	e.streams[id] = &stream{follower: f}
	return id
}

// follow sends what is to be sent, and has it decided on.
func (e *elsewhere) follow(now time.Time) {
	e.t.Helper()
	for _, send := range e.s.Outside().Works(now) {
		x := e.streams[send.To]
		answer, err := x.follower.Do(carry(e, send.Work))
		if err != nil {
			e.t.Fatal(err)
		}
		if len(send.Work.Pods) > 0 {
			e.compare(x, send, answer)
		}
		if !x.hangs {
			e.way = append(e.way, message{send.To, carry(e, answer), now})
		}
	}
	for _, id := range e.s.Outside().Shed() {
		delete(e.streams, id)
	}
}

// compare lets a scheduler in the leader's process decide on the same, whose snapshot was advanced as often.
func (e *elsewhere) compare(x *stream, send Send, answer *outside.Answer) {
	e.t.Helper()
	o := e.s.sharing.outsiders.list[e.s.sharing.outsiders.find(send.To)]
	if x.shadow == nil {
		x.shadow = &worker{instance: newInstance(o.number, e.s.store, cluster.NewOptimisticSnapshot(), e.s.decisions.instances[0].placers.Set(), &e.s.cfg)}
		x.division = -1
	}
	if p := &e.s.partitions; x.division != p.division {
		x.division, x.shadow.divided, x.shadow.part = p.division, o.divided, o.part
		if o.divided {
			x.shadow.placers.Confine(p.of, o.part)
		} else {
			x.shadow.placers.Divide(nil)
		}
	}
	x.shadow.snapshot.Advance(e.s.store)
	x.shadow.batch = x.shadow.batch[:0]
	for i := range o.batch {
		x.shadow.batch = append(x.shadow.batch, task{pod: o.batch[i].pod, profile: o.batch[i].profile})
	}
	x.shadow.run()
	for i := range x.shadow.batch {
		e.decided++
		if want, got := x.shadow.batch[i].decision(), answer.Decisions[i]; want.Node != got.Node || (want.Grant == nil) != (got.Grant == nil) || want.Grant != nil && *want.Grant != *got.Grant {
			e.t.Fatalf("scheduler %d: pod %s goes to %+v, in one process to %+v", o.number, o.batch[i].pod.UID, got, want)
		}
	}
}

// deliver brings the answers that are under way.
func (e *elsewhere) deliver(now time.Time) {
	e.t.Helper()
	for _, m := range e.way {
		if err := e.s.Outside().Answer(m.from, m.answer, now); err != nil {
			e.t.Fatal(err)
		}
	}
	e.way = nil
}

// disturb does to the network and the processes what happens to them.
func (e *elsewhere) disturb(rng *rand.Rand, now time.Time) {
	e.t.Helper()
	kept := e.way[:0]
	for _, m := range e.way {
		switch rng.IntN(20) {
		case 0: // lost: the stream is silent, until it is shed
			if x := e.streams[m.from]; x != nil {
				x.hangs = true
			}
		case 1: // twice
			kept = append(kept, m, m)
		case 2, 3, 4: // late
			if err := e.s.Outside().Answer(m.from, &outside.Answer{Epoch: m.answer.Epoch, Number: m.answer.Number - 1}, now); err != nil {
				e.t.Fatal(err)
			}
			kept = append(kept, m)
		default:
			kept = append(kept, m)
		}
	}
	e.way = kept
	rng.Shuffle(len(e.way), func(i, j int) { e.way[i], e.way[j] = e.way[j], e.way[i] })
	for id := range e.streams {
		if rng.IntN(40) == 0 {
			e.s.Outside().Leave(id, now) // it died; what it has sent may still come
			delete(e.streams, id)
		}
	}
	for len(e.streams) < 3 && rng.IntN(4) == 0 {
		e.join(now)
	}
}

// playOutside plays a random day with up to three schedulers elsewhere. It returns the pods that have a place in the end.
func playOutside(t *testing.T, seed uint64, faults bool) (placed int, e *elsewhere, counts WorkerCounts) {
	t.Helper()
	rng := rand.New(rand.NewPCG(seed, 1))
	net := rand.New(rand.NewPCG(seed, 2))
	plans := &planLog{}
	config := spec.Default().Scheduling
	if seed%2 == 1 { // with prices of room, which the others are told
		config.Scores = map[string]int64{"CPUWorth": 1}
	}
	s, err := New(Options{Config: config, Observer: plans})
	if err != nil {
		t.Fatal(err)
	}
	s.Outside().Begin("a/1")
	e = newElsewhere(t, s)
	now := time.Unix(0, 0)
	for i := range 40 {
		s.Apply(facts.NodeUpserted{Node: benchNode(i)}, now)
	}
	for range 1 + seed%3 {
		e.join(now)
	}
	next := 0
	round := func() {
		turn(s, now)
		e.follow(now)
		if faults {
			e.disturb(net, now)
		}
		if !faults || net.IntN(3) > 0 {
			e.deliver(now)
		}
	}
	for step := range 200 {
		next = happen(s, rng, next, now)
		round()
		round()
		if now = now.Add(time.Duration(rng.IntN(2000)) * time.Millisecond); step%40 == 0 {
			s.Flush()
			if err := s.Verify(); err != nil {
				t.Fatalf("seed %d, step %d: %v", seed, step, err)
			}
		}
	}
	for range 60 {
		for range 20 {
			turn(s, now)
			e.follow(now)
			e.deliver(now)
		}
		now = now.Add(time.Second)
	}
	if err := s.Verify(); err != nil {
		t.Fatalf("seed %d: %v", seed, err)
	}
	if s.Pending().Active > 0 || plans.missed > 0 {
		t.Errorf("seed %d: %d units wait for nothing, %d had been forgotten", seed, s.Pending().Active, plans.missed)
	}
	c := s.Workers()
	if c.Pending > 0 || c.Units != c.Committed+c.Elsewhere+c.Parked+c.Rejected+c.Gone {
		t.Errorf("seed %d: units are lost: %+v", seed, c)
	}
	s.Store().EachPod(func(p *cluster.Pod) {
		if p.Node() != "" {
			placed++
		}
	})
	return placed, e, c
}

// TestOutsiders: schedulers in other processes decide what they would in one, pod for pod; whatever the network and the processes do, no unit is lost, and as many pods are placed as by one scheduler.
func TestOutsiders(t *testing.T) {
	for seed := range seeds(t, 6) {
		_, alone, _ := playBeside(t, seed, 1, nil)
		for _, faults := range []bool{false, true} {
			placed, e, counts := playOutside(t, seed, faults)
			least := alone * 99 / 100
			if faults {
				least = alone * 9 / 10 // what is placed late may be edited and deleted before
			}
			if placed < least {
				t.Errorf("seed %d, faults %v: one scheduler places %d pods, several %d", seed, faults, alone, placed)
			}
			if e.decided < 500 || counts.Committed < 300 {
				t.Errorf("seed %d, faults %v: too little was decided: %d, %+v", seed, faults, e.decided, counts)
			}
			if text, _ := e.s.market.Hosts().MarshalBinary(); (len(text) > 0) != (seed%2 == 1) {
				t.Errorf("seed %d: the prices of room have %d bytes", seed, len(text))
			}
			if c := e.s.Outside().Counts(); faults && (c.Shed == 0 || c.Left == 0 || c.Refused == 0) {
				t.Errorf("seed %d: something never happened: %+v", seed, c)
			}
		}
	}
}

// seeds is how many seeds to play: so many, or what make chaos asks for.
func seeds(t *testing.T, usual uint64) uint64 {
	t.Helper()
	text := os.Getenv("HILBERT_SIM_SEEDS")
	if text == "" {
		return usual
	}
	n, err := strconv.ParseUint(text, 10, 32)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// outsideWorld has ten nodes, a scheduler elsewhere that knows them, and some pods that wait.
func outsideWorld(t *testing.T, pods int) (e *elsewhere, id OutsideID, now time.Time) {
	t.Helper()
	s, err := New(Options{Config: spec.Default().Scheduling})
	if err != nil {
		t.Fatal(err)
	}
	now = time.Unix(0, 0)
	s.Outside().Begin("a/1")
	e = newElsewhere(t, s)
	for i := range 10 {
		s.Apply(facts.NodeUpserted{Node: benchNode(i)}, now)
	}
	id = e.join(now)
	e.follow(now)
	e.deliver(now)
	for i := range pods {
		s.Apply(facts.PodUpserted{Pod: facts.Pod{UID: facts.UID(fmt.Sprint(i)), Name: fmt.Sprint(i), Namespace: "default", Ours: true, Requirements: benchRequirements(0)}}, now)
	}
	return e, id, now
}

// A scheduler that does not answer gives its units back after two seconds, no sooner, and they are placed.
func TestSilentSchedulerIsShed(t *testing.T) {
	e, id, now := outsideWorld(t, 3)
	e.streams[id].hangs = true
	turn(e.s, now)
	e.follow(now)
	if at, ok := e.s.NextWake(now); !ok || at.Sub(now) != outsidePatience {
		t.Errorf("woken at %v (%v)", at, ok)
	}
	turn(e.s, now.Add(outsidePatience-1))
	if w := e.s.Workers(); w.Pending != 3 {
		t.Fatalf("before its time was over: %+v", w)
	}
	turn(e.s, now.Add(outsidePatience))
	if shed := e.s.Outside().Shed(); len(shed) != 1 || shed[0] != id {
		t.Errorf("shed: %v", shed)
	}
	for i := range 3 {
		if e.s.Store().Pod(facts.UID(fmt.Sprint(i))).Node() == "" {
			t.Errorf("pod %d has no place", i)
		}
	}
	if err := e.s.Outside().Answer(id, &outside.Answer{Epoch: "a/1", Number: 2}, now); err != nil {
		t.Errorf("what comes from one that was shed is dropped; got %v", err)
	}
}

// An Answer of another epoch, or with another number of decisions, changes nothing but that the scheduler leaves.
func TestForeignAnswersAreRefused(t *testing.T) {
	for name, change := range map[string]func(*outside.Answer){
		"epoch":     func(a *outside.Answer) { a.Epoch = "b/2" },
		"decisions": func(a *outside.Answer) { a.Decisions = a.Decisions[1:] },
		"number":    func(a *outside.Answer) { a.Number++ },
	} {
		e, id, now := outsideWorld(t, 3)
		turn(e.s, now)
		e.follow(now)
		change(e.way[0].answer)
		if err := e.s.Outside().Answer(id, e.way[0].answer, now); err == nil || !strings.HasPrefix(err.Error(), "the answer") {
			t.Errorf("%s: %v", name, err)
		}
		if c := e.s.Outside().Counts(); c.Schedulers != 0 || c.Refused != 1 {
			t.Errorf("%s: %+v", name, c)
		}
		turn(e.s, now)
		if e.s.Store().Pod("0").Node() == "" {
			t.Errorf("%s: the pod has no place", name)
		}
	}
}

// Who speaks otherwise is told so.
func TestOtherVersionsAreRefused(t *testing.T) {
	e, _, now := outsideWorld(t, 0)
	for _, h := range []*outside.Hello{{Protocol: outside.Protocol + 1, Schema: outside.Schema()}, {Protocol: outside.Protocol, Schema: "other"}} {
		if _, _, err := e.s.Outside().Join(h, now); err == nil || !strings.Contains(err.Error(), "run the leader's version") {
			t.Error(err)
		}
	}
}
