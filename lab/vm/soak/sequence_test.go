package soak

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"time"

	"hilbert.dev/hilbert/api/spec"
)

// Kind is what an Action does.
type Kind string

// The kinds of actions.
const (
	Create    Kind = "create"    // a pod
	Resize    Kind = "resize"    // a pod, in place
	Delete    Kind = "delete"    // a pod
	Kill      Kind = "kill -9"   // a service
	Stop      Kind = "SIGSTOP"   // the agent
	Continue  Kind = "SIGCONT"   // the agent
	Fill      Kind = "fill disk" // of the state directory
	Free      Kind = "free disk"
	Freeze    Kind = "freeze disk"
	Thaw      Kind = "thaw disk"
	MoveClock Kind = "move clock"
	Wait      Kind = "wait"
	Lend      Kind = "wait for a loan"
	Rise      Kind = "rise" // of what the online service uses
	Fall      Kind = "fall" // of it
)

// Level is what kind of pod an Action creates: a QoS level, or BestEffort.
type Level string

// The levels of pods.
const (
	Dedicated  = Level(spec.QoSDedicated)
	Shared     = Level(spec.QoSShared)
	Reclaimed  = Level(spec.QoSReclaimed)
	BestEffort = Level("BestEffort")
)

// The services that are killed.
const (
	Agent      = "agent"
	Watchdog   = "watchdog"
	Containerd = "containerd"
	Kubelet    = "kubelet"
	Plugin     = "plugin"
)

// Action is one step. What it does not need is zero.
type Action struct {
	Kind     Kind
	Pod      string
	Level    Level
	MilliCPU int64
	Service  string
	By       time.Duration // how far the clock moves, or how long is waited at the most
}

// String is the action for people.
func (a Action) String() string {
	switch a.Kind {
	case Create:
		return fmt.Sprintf("create %s (%s, %dm)", a.Pod, a.Level, a.MilliCPU)
	case Resize:
		return fmt.Sprintf("resize %s to %dm", a.Pod, a.MilliCPU)
	case Delete:
		return "delete " + a.Pod
	case Kill:
		return "kill -9 " + a.Service
	case MoveClock, Wait, Lend:
		return fmt.Sprintf("%s %v", a.Kind, a.By)
	}
	return string(a.Kind)
}

const (
	// namePrefix is before the number of each pod.
	namePrefix = "soak-"
	// maxPods bounds the pods of each level that there are at once.
	maxPods = 3
	// maxDedicated and maxShared bound what the pods of these levels request together, in millicores. Of twelve CPUs one is reserved, the online service requests
	// one, and reclaimed pods have two at the least. Three are left, so that there is something to lend wherever the dedicated pods are.
	maxDedicated, maxShared = 3000, 2000
	// The agent stays stopped, and a disk full or frozen, for at most maxHeld steps; the service busy for at most maxRisen, for that slows all else.
	maxHeld, maxRisen = 4, 2
	// longSilence is longer than what is lent may stay lent while the agent is away.
	longSilence = 35 * time.Second
	// lendWait is how long a loan is waited for: the agent lends after half a minute of calm, a step each ten seconds.
	lendWait = 75 * time.Second
	// clockStep is how far the clock moves at the most, maxClock how far it is off at the most: certificates must stay valid.
	clockStep, maxClock = 20 * time.Minute, 30 * time.Minute
)

type planned struct {
	name     string
	level    Level
	milliCPU int64
}

// held is a condition that a later step ends.
type held struct {
	end   Kind
	steps int
}

// Sequence decides what happens next. It remembers what it has done, and never looks at what came of it.
type Sequence struct {
	random *rand.Rand
	pods   []planned
	made   int
	held   []held
	clock  time.Duration
	queued []Action
}

// NewSequence returns the sequence of a seed. It begins with a pod of each level, and a loan that outlasts the agent.
func NewSequence(seed uint64) *Sequence {
	s := &Sequence{random: rand.New(rand.NewPCG(seed, 1))} //nolint:gosec // the same seed has to give the same sequence
	for _, level := range []Level{Shared, Reclaimed, Dedicated, BestEffort} {
		s.queued = append(s.queued, s.create(level))
	}
	s.held = append(s.held, held{end: Continue, steps: 1})
	s.queued = append(s.queued, Action{Kind: Lend, By: lendWait}, Action{Kind: Stop}, Action{Kind: Wait, By: longSilence})
	return s
}

// Next is the next action.
func (s *Sequence) Next() Action {
	if len(s.queued) > 0 {
		a := s.queued[0]
		s.queued = s.queued[1:]
		return a
	}
	for i := range s.held {
		if s.held[i].steps--; s.held[i].steps <= 0 {
			end := s.held[i].end
			s.held = slices.Delete(s.held, i, i+1)
			return Action{Kind: end}
		}
	}
	for {
		if a, ok := s.draw(); ok {
			return a
		}
	}
}

// End ends what is held, and moves the clock back to where it was. What was still to begin does not end.
func (s *Sequence) End() (out []Action) {
	for _, h := range s.held {
		begins := map[Kind]Kind{Continue: Stop, Fall: Rise}[h.end]
		if !slices.ContainsFunc(s.queued, func(a Action) bool { return a.Kind == begins }) {
			out = append(out, Action{Kind: h.end})
		}
	}
	if s.clock != 0 {
		out = append(out, Action{Kind: MoveClock, By: -s.clock})
	}
	s.held, s.clock, s.queued = nil, 0, nil
	return out
}

// draws are what Next draws from, and how often.
var draws = []struct { //nolint:gochecknoglobals // a constant
	weight int
	draw   func(*Sequence) (Action, bool)
}{
	{24, (*Sequence).drawCreate},
	{12, (*Sequence).drawDelete},
	{10, (*Sequence).drawResize},
	{18, (*Sequence).drawKill},
	{6, func(s *Sequence) (Action, bool) { return s.hold(Stop, Continue) }},
	{5, func(s *Sequence) (Action, bool) { return s.hold(Fill, Free) }},
	{5, func(s *Sequence) (Action, bool) { return s.hold(Freeze, Thaw) }},
	{6, (*Sequence).drawClock},
	{20, (*Sequence).drawLend},
	{5, func(s *Sequence) (Action, bool) { return s.hold(Rise, Fall) }},
	{6, func(s *Sequence) (Action, bool) { return Action{Kind: Wait, By: s.seconds(2, 12)}, true }},
}

func (s *Sequence) draw() (Action, bool) {
	sum := 0
	for _, d := range draws {
		sum += d.weight
	}
	n := s.random.IntN(sum)
	for _, d := range draws {
		if n -= d.weight; n < 0 {
			return d.draw(s)
		}
	}
	panic("unreachable: n is below the sum")
}

func (s *Sequence) seconds(from, to int) time.Duration {
	return time.Duration(from+s.random.IntN(to-from+1)) * time.Second
}

// sum is how many pods of a level there are, and what they request.
func (s *Sequence) sum(level Level) (pods int, milliCPU int64) {
	for _, p := range s.pods {
		if p.level == level {
			pods, milliCPU = pods+1, milliCPU+p.milliCPU
		}
	}
	return pods, milliCPU
}

// room is what a pod of a level may request beyond what there is.
func (s *Sequence) room(level Level) int64 {
	_, sum := s.sum(level)
	switch level {
	case Dedicated:
		return maxDedicated - sum
	case Shared:
		return maxShared - sum
	}
	return 0
}

func (s *Sequence) drawCreate() (Action, bool) {
	level := []Level{Dedicated, Dedicated, Shared, Shared, Reclaimed, BestEffort}[s.random.IntN(6)]
	pods, _ := s.sum(level)
	if pods >= maxPods || (level == Dedicated || level == Shared) && s.room(level) < s.least(level) {
		return Action{}, false
	}
	return s.create(level), true
}

func (s *Sequence) least(level Level) int64 {
	if level == Dedicated {
		return 1000
	}
	return 250
}

func (s *Sequence) create(level Level) Action {
	p := planned{name: fmt.Sprint(namePrefix, s.made), level: level}
	s.made++
	if level == Dedicated || level == Shared {
		p.milliCPU = s.amount(level, s.room(level))
	}
	s.pods = append(s.pods, p)
	return Action{Kind: Create, Pod: p.name, Level: level, MilliCPU: p.milliCPU}
}

// amount is what a pod requests, within some room: a dedicated one one or two CPUs, a shared one some quarters.
func (s *Sequence) amount(level Level, room int64) int64 {
	if level == Dedicated {
		return 1000 * (1 + s.random.Int64N(min(room/1000, 2)))
	}
	return 250 * (1 + s.random.Int64N(min(room/250, 4)))
}

func (s *Sequence) drawDelete() (Action, bool) {
	if len(s.pods) == 0 {
		return Action{}, false
	}
	i := s.random.IntN(len(s.pods))
	p := s.pods[i]
	s.pods = slices.Delete(s.pods, i, i+1)
	return Action{Kind: Delete, Pod: p.name}, true
}

func (s *Sequence) drawResize() (Action, bool) {
	if len(s.pods) == 0 {
		return Action{}, false
	}
	p := &s.pods[s.random.IntN(len(s.pods))]
	if p.milliCPU == 0 {
		return Action{}, false
	}
	to := s.amount(p.level, s.room(p.level)+p.milliCPU)
	if to == p.milliCPU {
		return Action{}, false
	}
	p.milliCPU = to
	return Action{Kind: Resize, Pod: p.name, MilliCPU: to}, true
}

func (s *Sequence) drawKill() (Action, bool) {
	return Action{Kind: Kill, Service: []string{Agent, Agent, Watchdog, Containerd, Kubelet, Plugin}[s.random.IntN(6)]}, true
}

// holds reports whether a condition lasts that ends so.
func (s *Sequence) holds(end Kind) bool {
	return slices.ContainsFunc(s.held, func(h held) bool { return h.end == end })
}

// drawLend waits for a loan, and then has the agent leave or the service want its CPUs. Nothing is lent while the agent is away, or the
// service busy.
func (s *Sequence) drawLend() (Action, bool) {
	if s.holds(Continue) || s.holds(Thaw) || s.holds(Fall) || !slices.ContainsFunc(s.pods, func(p planned) bool { return asksFor(p.level, p.name) }) {
		return Action{}, false
	}
	then := Action{Kind: Kill, Service: Agent}
	switch s.random.IntN(3) {
	case 0:
		then, _ = s.hold(Stop, Continue) // which it does not, see above
	case 1:
		then, _ = s.hold(Rise, Fall)
	}
	s.queued = slices.Insert(s.queued, 0, then)
	return Action{Kind: Lend, By: lendWait}, true
}

// asksFor reports whether a reclaimed pod asks for an amount: every other one does.
func asksFor(level Level, name string) bool {
	number, _ := strconv.Atoi(strings.TrimPrefix(name, namePrefix)) // the names are the sequence's
	return level == Reclaimed && number%2 == 1
}

// hold begins a condition that a later step ends. One that has begun is not begun again. Every other time the agent is stopped for long.
func (s *Sequence) hold(begin, end Kind) (Action, bool) {
	if s.holds(end) {
		return Action{}, false
	}
	most := maxHeld
	if begin == Rise {
		most = maxRisen
	}
	s.held = append(s.held, held{end: end, steps: 1 + s.random.IntN(most)})
	if begin == Stop && s.random.IntN(2) == 0 {
		s.queued = append(s.queued, Action{Kind: Wait, By: longSilence})
	}
	return Action{Kind: begin}, true
}

func (s *Sequence) drawClock() (Action, bool) {
	by := time.Duration(s.random.Int64N(int64(2*clockStep)) - int64(clockStep)).Round(time.Second)
	if by == 0 || (s.clock+by).Abs() > maxClock {
		return Action{}, false
	}
	s.clock += by
	return Action{Kind: MoveClock, By: by}, true
}
