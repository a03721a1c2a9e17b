package watchdog

import "time"

// Silence is how long the agent's beat may not change before the watchdog takes the turn. With a look each second, and some seconds for the kernel, the
// pods have their CPUs back within half a minute.
const Silence = 20 * time.Second

// Owner is who has the turn.
type Owner string

// The owners.
const (
	Agent    Owner = "agent"
	Watchdog Owner = "watchdog"
)

// Turn says who owns the knobs, and for the how manieth time that has changed. The zero Turn is nobody's: no agent has run since the node started.
type Turn struct {
	Number uint64
	Owner  Owner
}

// View is what the watchdog sees at one moment.
type View struct {
	Turn Turn
	// Beat is the agent's number; 0: there is none.
	Beat uint64
	// Plan: there is one, and it can be read.
	Plan bool
}

// State is what Decide remembers from look to look. The zero State has seen nothing.
type State struct {
	Turn  Turn
	Beat  uint64
	Since time.Duration // when the turn or the beat last changed, or was first seen
	Seen  bool
}

// Action is what is to be done now.
type Action struct {
	Take  bool // take the turn
	Carry bool // carry out the plan, which also follows taking the turn
}

// Decide says what the watchdog does. now is monotonic.
func Decide(s *State, v *View, now time.Duration) Action {
	if !s.Seen || v.Beat != s.Beat || v.Turn != s.Turn {
		*s = State{Turn: v.Turn, Beat: v.Beat, Since: now, Seen: true}
	}
	switch {
	case !v.Plan:
		return Action{}
	case v.Turn.Owner == Watchdog:
		return Action{Carry: true}
	case v.Turn.Owner == Agent && now-s.Since >= Silence:
		return Action{Take: true, Carry: true}
	}
	return Action{}
}
