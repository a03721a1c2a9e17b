package report

import (
	"fmt"
	"strings"
)

// Colocation is the record of a morning's rise on nodes that lend what their services do not use. Seconds are those of its clock, from the beginning of
// what counts. Percentages are of all CPUs, unless said otherwise.
type Colocation struct {
	// Tide says where the load of the services comes from; Recorded: it was measured, and not made up.
	Tide     string   `json:"tide"`
	Recorded bool     `json:"recorded"`
	Notes    []string `json:"notes,omitempty"`
	Partial  string   `json:"partial,omitempty"` // why it ended early

	Nodes   int `json:"nodes"`
	CPUs    int `json:"cpus"`    // of all nodes
	Seconds int `json:"seconds"` // played
	// Speed is how many seconds were played in one of ours; SlowestStep is the longest that one of them took, in milliseconds.
	Speed       float64 `json:"speed"`
	SlowestStep float64 `json:"slowestStepMillis"`
	// Lending is off in a control run.
	Lending bool `json:"lending"`

	Hilbert  Side `json:"hilbert"`
	Requests Side `json:"requests"` // the control: jobs get what services do not ask for

	LentPercent      float64     `json:"lentPercent"`      // mean
	AllocatedPercent float64     `json:"allocatedPercent"` // mean of what services ask for
	Evictions        int         `json:"evictions"`
	Refusals         int         `json:"refusals"` // pods that an agent would not have at first
	Agents           Agents      `json:"agents"`
	Rush             Rush        `json:"rush"`
	Queues           []QueueDone `json:"queues"`
	Gang             *Gang       `json:"gang,omitempty"`
	Slice            *Slice      `json:"gpuSlice,omitempty"`

	Samples []CoSample `json:"samples,omitempty"`
	Map     []CoNode   `json:"map,omitempty"`
	// Day is the simulator\'s; nil: it was not played.
	Day *Day `json:"-"`
}

// Day is a whole day in the simulator, with the same laws: percent of all CPUs used, in each quarter of an hour.
type Day struct {
	Nodes             int
	Hilbert, Requests []float64
}

// Agents is what the agents of all nodes did while it was played.
type Agents struct {
	Rounds  uint64 `json:"rounds"`  // of the control laws
	Knobs   uint64 `json:"knobs"`   // written to the kernel
	Updates uint64 `json:"updates"` // of containers, through the runtime
	Reports uint64 `json:"reports"` // written to the API server
}

// Side is the same morning with or without lending.
type Side struct {
	UsedPercent    float64 `json:"usedPercent"`    // mean of what services and jobs keep busy
	OnlinePercent  float64 `json:"onlinePercent"`  // of it, by services
	OfflinePercent float64 `json:"offlinePercent"` // and by jobs
	// MissedPercent is of minutes times services on NUMA nodes: those in which more than 1 % of the requests were late.
	MissedPercent float64 `json:"missedPercent"`
	JobsDone      int     `json:"jobsDone"`
	OfflineHours  float64 `json:"offlineCpuHours"` // of work, as an idle machine would need for it
}

// Rush is the moment when all services want more at once.
type Rush struct {
	At      int     `json:"at"`
	Seconds int     `json:"seconds"`
	Factor  float64 `json:"factor"`
	// Nodes are those that gave CPUs back. Half, Median and Longest are the time until half of it, and nine tenths of it, were back: of the median node, and of
	// the last one. nil: none gave any.
	Nodes   int      `json:"nodes"`
	CPUs    int      `json:"cpusBack"`
	Half    *float64 `json:"halfSeconds,omitempty"`
	Median  *float64 `json:"medianSeconds,omitempty"`
	Longest *float64 `json:"longestSeconds,omitempty"`
	// Waited is for how many seconds of the rush services lacked CPUs, on the node where they did for longest.
	Waited   int `json:"waitedSeconds"`
	Evicted  int `json:"evicted"` // from then until five minutes after its end
	LentAt   int `json:"lentBefore"`
	LentLess int `json:"lentLeast"`
}

// QueueDone is what a queue's jobs came to.
type QueueDone struct {
	Name    string `json:"name"`
	Created int    `json:"created"`
	Started int    `json:"started"`
	Done    int    `json:"done"`
	Evicted int    `json:"evicted"`
}

// Gang is the pods that run together or not at all.
type Gang struct {
	Members int      `json:"members"`
	Bound   int      `json:"bound"`
	Racks   []string `json:"racks"` // in which they run
	Waited  int      `json:"waitedSeconds"`
}

// Slice is a service on a part of a GPU.
type Slice struct {
	Milli int    `json:"milli"`
	Node  string `json:"node"`
	GPU   string `json:"gpu"`
}

// CoSample is a moment: percentages of all CPUs.
type CoSample struct {
	At        int     `json:"at"`
	Online    float64 `json:"online"`
	Offline   float64 `json:"offline"`
	Lent      float64 `json:"lent"`
	Control   float64 `json:"control"` // used in the control
	Missed    float64 `json:"missed"`  // of the services in the last full minute, percent
	ControlMs float64 `json:"controlMissed"`
	Evicted   int     `json:"evicted"` // so far
	Waiting   int     `json:"waiting"` // jobs without a node
}

// CoNode is a node at some moments, in CPUs.
type CoNode struct {
	Name string      `json:"name"`
	Rack string      `json:"rack"`
	CPUs int         `json:"cpus"`
	At   []CoNodeUse `json:"at"` // before the rush, in it, and at the end
}

// CoNodeUse is what a node's CPUs do at a moment.
type CoNodeUse struct {
	Second  int     `json:"second"`
	Online  float64 `json:"online"`
	Offline float64 `json:"offline"`
	Lent    int     `json:"lent"`
	Jobs    int     `json:"jobs"`
}

// text writes the key figures for a terminal.
func (c *Colocation) text(b *strings.Builder) {
	fmt.Fprintf(b, "A morning's rise: %s with production agents on modelled machines, %s of it\n", plural(c.Nodes, "node"), formatSeconds(float64(c.Seconds)))
	if c.Partial != "" {
		fmt.Fprintf(b, "PARTIAL: %s\n", c.Partial)
	}
	b.WriteByte('\n')
	line := func(name, format string, args ...any) {
		fmt.Fprintf(b, "  %-20s %s\n", name, fmt.Sprintf(format, args...))
	}
	side := func(s *Side) string {
		return fmt.Sprintf("%.1f %% of all CPUs (services %.1f, jobs %.1f) · targets missed %.1f %% · %.1f CPU hours of jobs' work", s.UsedPercent, s.OnlinePercent, s.OfflinePercent,
			s.MissedPercent, s.OfflineHours)
	}
	line("used with Hilbert", "%s", side(&c.Hilbert))
	line("used without", "%s", side(&c.Requests))
	line("allocated", "%.1f %% by services' requests", c.AllocatedPercent)
	line("lent", "%.1f %% in the mean · %s", c.LentPercent, plural(c.Evictions, "eviction"))
	line("time to give back", "%s", c.Rush.words())
	if g := c.Gang; g != nil {
		line("gang", "%d of %d pods in %s", g.Bound, g.Members, strings.Join(g.Racks, ", "))
	}
	if s := c.Slice; s != nil {
		line("GPU slice", "%d thousandths of a GPU on %s", s.Milli, s.Node)
	}
	for _, q := range c.Queues {
		line("queue "+q.Name, "%d jobs started · %d done · %d evicted", q.Started, q.Done, q.Evicted)
	}
	line("clock", "%.1f times as fast as real time; the slowest second took %s", c.Speed, formatMillis(c.SlowestStep))
	for _, note := range c.Notes {
		fmt.Fprintf(b, "\nnote: %s", note)
	}
	b.WriteString("\n\n")
}

// words say how soon what services wanted back was back.
func (r *Rush) words() string {
	if r.Half == nil || r.Median == nil {
		return "nothing was given back"
	}
	return fmt.Sprintf("half of %d CPUs after %.0f s, nine tenths after %.0f s (median node); services lacked CPUs for %s",
		r.CPUs, *r.Half, *r.Median, plural(r.Waited, "second"))
}
