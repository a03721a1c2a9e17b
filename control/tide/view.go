package tide

import (
	"time"

	"hilbert.dev/hilbert/control/forecast"
)

// Side is who has a node.
type Side uint8

// The sides. A node that nobody was given is as one of online: services may be there.
const (
	Unassigned Side = iota
	Online
	Offline
)

func (s Side) String() string { return [...]string{"unassigned", "online", "offline"}[s] }

// Other is the other side.
func (s Side) Other() Side {
	if s == Offline {
		return Online
	}
	return Offline
}

// Held is what pods of one side are on a node.
type Held struct {
	Pods int
	// Stuck are those of them that nobody may move: by their annotations, a disruption budget, or as members of a gang, which is moved whole or not at all.
	Stuck int
	// Lost is the work that is lost if they begin anew, in core-seconds or whatever the caller counts in.
	Lost float64
	// Gangs are those of which members are there.
	Gangs []string
}

// Node is a node of a pool.
type Node struct {
	Name string
	Side Side
	// Since is when it changed hands last; zero: never.
	Since time.Time
	// Open nodes take pods. Others are not counted, and do not change hands.
	Open bool
	// Online and Offline are the pods of the sides. Pods that may be on either are of none.
	Online, Offline Held
	// Barred says why the node must not change hands now, as a rehearsal found; empty: it may.
	Barred string
}

// held is what a side has there.
func (n *Node) held(s Side) *Held {
	if s == Offline {
		return &n.Offline
	}
	return &n.Online
}

// of is the side that a node counts for.
func (n *Node) of() Side {
	if n.Side == Offline {
		return Offline
	}
	return Online
}

// Window is a time in which online has so many nodes at the least.
type Window struct {
	Name     string
	Begins   forecast.Schedule
	Duration time.Duration
	Online   int
}

// Pool is what people say of a pool.
type Pool struct {
	ReserveOnline, ReserveOffline int
	Windows                       []Window
	// Lead is how long before a window its nodes are there, Stay how long pods of the other side may stay, Hold how long online must have had too many nodes.
	Lead, Stay, Hold time.Duration
	// Slack is how many nodes online may have too many, PerHour how many change hands in an hour.
	Slack, PerHour int
	Paused         bool
}

// HandOvers is how many nodes changed hands at a time.
type HandOvers struct {
	At    time.Time
	Nodes int
}

// Memory is what a pool has to remember between decisions. It is kept in the pool's status, so that the next leader has it.
type Memory struct {
	// Low is since when online has had too many nodes, and Most how many it should have had at the most since. Zero: it has not.
	Low  time.Time
	Most int
	// HandOvers are those of the last hour, the oldest first.
	HandOvers []HandOvers
}

// View is a pool at one time.
type View struct {
	Pool
	Memory

	Nodes []Node
	// Need is how many nodes the pods of online ask for, with those that wait.
	Need int
	// Waits: pods of online wait, and would have a place if the pool had more nodes of theirs.
	Waits bool
	// Forecast is of Need; the zero one is not trusted.
	Forecast forecast.Prediction
	// Budget is how many pods may be disturbed now, for all reasons together.
	Budget int
}
