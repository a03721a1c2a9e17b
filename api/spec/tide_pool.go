package spec

import (
	"errors"
	"fmt"
	"slices"
	"time"
)

// Names of TidePools.
const (
	TidePoolKind   = "TidePool"
	TidePoolPlural = "tidepools"
)

// LabelTide stands on a node of a TidePool and says which side has it: TideOnline or TideOffline. A node of offline has a taint of the same name and value, effect NoSchedule,
// too. So services need nothing, and pods of offline select the label and tolerate the taint. The role controller writes both.
const LabelTide = "hilbert.dev/tide"

// The sides of a TidePool.
const (
	TideOnline  = "online"
	TideOffline = "offline"
)

const (
	// LabelTidePool stands beside LabelTide and names the TidePool.
	LabelTidePool = "hilbert.dev/tide-pool"
	// AnnotationTideSince stands beside LabelTide: when the node changed hands last. A node that never did has none.
	AnnotationTideSince = "hilbert.dev/tide-since"
)

// Conditions of a TidePool.
const (
	// ConditionTideValid: nothing is wrong with the spec.
	ConditionTideValid = "Valid"
	// ConditionTideSatisfied: online has the nodes that it should have, and nobody of the other side is on them.
	ConditionTideSatisfied = "Satisfied"
)

// Reasons of the conditions of a TidePool.
const (
	// ReasonTideValid: nothing is wrong with the spec.
	ReasonTideValid = "Valid"
	// ReasonTideInvalid: the message names each field. The nodes stay as they are.
	ReasonTideInvalid = "Invalid"
	// ReasonTideOverlaps: an older TidePool has some of its nodes; they are left to it.
	ReasonTideOverlaps = "Overlaps"
	// ReasonTideSatisfied: online has the nodes that it should have.
	ReasonTideSatisfied = "Satisfied"
	// ReasonTideChanging: nodes are to change hands, or pods of the other side are still there.
	ReasonTideChanging = "Changing"
	// ReasonTideBounded: more nodes should change hands than the bound of an hour allows.
	ReasonTideBounded = "Bounded"
	// ReasonTideShort: online should have more nodes than the pool has beside the reserve of offline.
	ReasonTideShort = "Short"
	// ReasonTidePaused: the TidePool is paused.
	ReasonTidePaused = "Paused"
	// ReasonTideUnknown: what pods are there is not known; no node changes hands.
	ReasonTideUnknown = "Unknown"
)

// +kubebuilder:object:generate=true

// TidePool is nodes that change hands between online services and offline work. Online has as many as its pods ask for, as a window or a planned peak says, or as a forecast
// that is trusted expects, whichever is most. Offline has the others. For example
//
//	nodeSelector: {matchLabels: {pool: tide}}
//	reserve: {online: 4, offline: 2}
//	schedule: [{name: day, cron: "0 8 * * 1-5", timeZone: Europe/Berlin, duration: 12h, online: 20}]
//
// gives the services 20 nodes by eight in the morning, and at night what they use, but four.
type TidePool struct {
	// NodeSelector says which nodes belong to the pool.
	NodeSelector *PodSelector `json:"nodeSelector"`
	// Reserve is how many nodes each side keeps at all times.
	Reserve TideReserve `json:"reserve,omitzero"`
	// Schedule is when online needs more: windows that come again, and peaks of single dates.
	Schedule []TideWindow `json:"schedule,omitempty"`
	// Forecast has nodes change hands before online needs them, by what was in the days and weeks before, while that is better than "the same as now".
	Forecast bool `json:"forecast,omitempty"`
	// Lead is how long before a window begins its nodes are with online.
	Lead *Duration `json:"lead,omitempty"`
	// Stay is how long pods may stay on a node that has changed hands before they are moved, so that they can end by themselves. Services that wait for a node end it.
	Stay *Duration `json:"stay,omitempty"`
	// Hold is for how long online must have needed fewer nodes before some go to offline.
	Hold *Duration `json:"hold,omitempty"`
	// Slack is how many nodes online may have too many, so that nodes do not go to and fro.
	Slack *int `json:"slack,omitempty"`
	// HeadroomPercent is what online is given beyond what its pods ask for, since pods never fill nodes exactly.
	HeadroomPercent *int `json:"headroomPercent,omitempty"`
	// NodesPerHour bounds how many nodes change hands in an hour. Nodes for a window change hands early enough for it.
	NodesPerHour *int `json:"nodesPerHour,omitempty"`
	// Paused leaves all nodes as they are, and moves no pod for the pool.
	Paused bool `json:"paused,omitempty"`
}

// +kubebuilder:object:generate=true

// TideReserve is how many nodes each side keeps at all times.
type TideReserve struct {
	Online  int `json:"online,omitempty"`
	Offline int `json:"offline,omitempty"`
}

// +kubebuilder:object:generate=true

// TideWindow is a time in which online needs so many nodes at the least.
type TideWindow struct {
	// Name is told in the status and in events.
	Name string `json:"name"`
	// Cron is when it begins, as a CronJob has it: five fields, or @daily and the like. Either it or Begins.
	Cron string `json:"cron,omitempty"`
	// Begins is the one time at which it begins, such as 2026-11-27T08:00:00, by the clock of the time zone. It may be days ahead.
	Begins string `json:"begins,omitempty"`
	// TimeZone is that of Cron and Begins, such as Europe/Berlin. Empty: UTC.
	TimeZone string `json:"timeZone,omitempty"`
	// Duration is how long it lasts.
	Duration Duration `json:"duration"`
	// Online is how many nodes online has in it, at the least.
	Online int `json:"online"`
}

// CompleteTidePool fills in what is not written. It is the only place where these defaults are defined.
func CompleteTidePool(p *TidePool) TidePool {
	out := *p
	for _, x := range []struct {
		field **Duration
		value time.Duration
	}{{&out.Lead, 15 * time.Minute}, {&out.Stay, 5 * time.Minute}, {&out.Hold, 15 * time.Minute}} {
		if *x.field == nil {
			*x.field = new(Duration(x.value))
		}
	}
	for _, x := range []struct {
		field **int
		value int
	}{{&out.Slack, 1}, {&out.HeadroomPercent, 10}, {&out.NodesPerHour, 20}} {
		if *x.field == nil {
			*x.field = new(x.value)
		}
	}
	return out
}

// The bounds of a TidePool.
const (
	MaxTideWindows  = 64
	MaxTideNodes    = 100_000
	MaxTideDuration = Duration(31 * 24 * time.Hour)
	maxTideWait     = 24 * time.Hour
)

// ValidateTidePool returns every mistake, joined; each names its field. Schedules and time zones are left to who reads them (internal/calendar).
func ValidateTidePool(p *TidePool) error {
	var errs []error
	bad := collector(&errs)
	if p.NodeSelector == nil {
		bad("nodeSelector", "it is empty; write labels that the nodes of the pool have, and no others")
	} else {
		validateSelector(p.NodeSelector, func(field, format string, args ...any) { bad("nodeS"+field[1:], format, args...) })
	}
	full := CompleteTidePool(p)
	for _, x := range []struct {
		field             string
		value, from, most int
	}{
		{"reserve.online", full.Reserve.Online, 0, MaxTideNodes},
		{"reserve.offline", full.Reserve.Offline, 0, MaxTideNodes},
		{"slack", *full.Slack, 0, MaxTideNodes},
		{"headroomPercent", *full.HeadroomPercent, 0, 200},
		{"nodesPerHour", *full.NodesPerHour, 1, MaxTideNodes},
	} {
		if x.value < x.from || x.value > x.most {
			bad(x.field, "%d is not between %d and %d", x.value, x.from, x.most)
		}
	}
	for _, x := range []struct {
		field string
		value Duration
	}{{"lead", *full.Lead}, {"stay", *full.Stay}, {"hold", *full.Hold}} {
		if x.value < 0 || x.value.D() > maxTideWait {
			bad(x.field, "%v is not between 0s and %v", x.value.D(), maxTideWait)
		}
	}
	if len(p.Schedule) > MaxTideWindows {
		bad("schedule", "%d windows; write at most %d", len(p.Schedule), MaxTideWindows)
	}
	names := make(map[string]bool)
	for i := range p.Schedule {
		w := &p.Schedule[i]
		at := fmt.Sprintf("schedule[%d].", i)
		switch {
		case w.Name == "":
			bad(at+"name", "it is empty")
		case names[w.Name]:
			bad(at+"name", "%q is there twice", w.Name)
		}
		names[w.Name] = true
		if (w.Cron == "") == (w.Begins == "") {
			bad(at+"cron", "write one of cron, for a window that comes again, and begins, for one date")
		}
		if w.Duration <= 0 || w.Duration > MaxTideDuration {
			bad(at+"duration", "%v is not above 0 and at most 31 days", w.Duration.D())
		}
		if w.Online < 1 || w.Online > MaxTideNodes {
			bad(at+"online", "%d is not between 1 and %d", w.Online, MaxTideNodes)
		}
	}
	return errors.Join(errs...)
}

// TidePoolStatus is what the role controller says of a TidePool, and what it remembers of it.
type TidePoolStatus struct {
	// ObservedGeneration is the generation of the spec that it is about.
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// Nodes are those that are counted: they take pods. Online and Offline are how many each side has of them.
	Nodes   int `json:"nodes"`
	Online  int `json:"online"`
	Offline int `json:"offline"`
	// Wanted is how many online should have, and Why says by what.
	Wanted int    `json:"wanted"`
	Why    string `json:"why,omitempty"`
	// Changing are nodes with pods of the other side, the first 32 by name.
	Changing []TideChanging `json:"changing,omitempty"`
	// Next is the window that begins next.
	Next *TideNext `json:"next,omitempty"`
	// Forecast says what is expected, and whether it is used.
	Forecast string `json:"forecast,omitempty"`
	// ForecastHistory is what online asked for in the last weeks, and how good forecasts of it were, for the next leader: packed, in base64.
	ForecastHistory string `json:"forecastHistory,omitempty"`
	// LowSince is since when online has had more nodes than it should, and LowMost how many it should have had at the most since.
	LowSince *time.Time `json:"lowSince,omitempty"`
	LowMost  int        `json:"lowMost,omitempty"`
	// HandOvers are those of the last hour, by minute.
	HandOvers []TideHandOvers `json:"handOvers,omitempty"`
}

// +kubebuilder:object:generate=true

// TideChanging is a node with pods of the other side.
type TideChanging struct {
	Node string `json:"node"`
	// To is the side that has the node, Pods how many of the other side are there.
	To   string `json:"to"`
	Pods int    `json:"pods"`
	// Why says what they wait for.
	Why string `json:"why,omitempty"`
}

// TideNext is a window that is to begin.
type TideNext struct {
	Name   string    `json:"name"`
	Begins time.Time `json:"begins"`
	Online int       `json:"online"`
}

// TideHandOvers is how many nodes changed hands at a time.
type TideHandOvers struct {
	At    time.Time `json:"at"`
	Nodes int       `json:"nodes"`
}

// DeepCopyInto copies a status: controller-gen cannot copy a time.Time.
func (s *TidePoolStatus) DeepCopyInto(out *TidePoolStatus) {
	*out = *s
	out.Changing, out.HandOvers = slices.Clone(s.Changing), slices.Clone(s.HandOvers)
	if s.Next != nil {
		out.Next = new(*s.Next)
	}
	if s.LowSince != nil {
		out.LowSince = new(*s.LowSince)
	}
}
