package elastic

import (
	"time"

	"hilbert.dev/hilbert/api/spec"
)

// Options say what is played.
type Options struct {
	// Nodes is how many there are. On the first Tide of them the load rises; the next Blind see no counters, and it rises there too; on the last Kill
	// agents are killed as it does.
	Nodes, Tide, Blind, Kill int
	// Low and High are the shares of their requests that online pods want.
	Low, High float64
	// Queue is how many reclaimed pods there are for each node, of Cores CPUs each.
	Queue, Cores int
	// Learned: the agents know at the start what they would learn in four minutes.
	Learned bool
	// Lend is for how long lending goes on before the load rises. Rise is how long it is high at least, and until no pod was evicted for Quiet, but no
	// longer than Most. Ebb is how long it is low again; 0: it stays high.
	Lend, Rise, Quiet, Most, Ebb time.Duration
	// StaleAfter, Write and Refresh are the configuration's; Percent is of the reclaimed pods that may be evicted in a minute.
	StaleAfter, Write, Refresh time.Duration
	Percent                    float64
	// Dir gets what hilbertd and the agents log.
	Dir string
}

// Short is what the lab's ordinary tests play: under a minute.
func Short() Options {
	return Options{
		Nodes: 6, Tide: 2, Blind: 1, Kill: 1, Low: 0.25, High: 0.75, Queue: 13, Cores: 2, Learned: true, Lend: 25 * time.Second,
		Rise: 15 * time.Second, StaleAfter: 6 * time.Second, Write: time.Second, Refresh: 2 * time.Second, Percent: 1,
	}
}

// Long is with the times of the default configuration. High is so much that the laws lend no more than the floor, which is less than a fifth of what the
// queue wants: only then is anybody evicted. Calm nodes have room for who is.
func Long() Options {
	c := spec.Default()
	return Options{
		Nodes: 20, Tide: 6, Blind: 1, Kill: 2, Low: 0.25, High: 0.875, Queue: 15, Cores: 2, Learned: true,
		Lend: 50 * time.Second,
		Rise: 4*time.Minute + 30*time.Second, Quiet: time.Minute, Most: 11 * time.Minute, Ebb: 210 * time.Second,
		StaleAfter: c.Scheduling.Reclaimed.StaleAfter.D(), Write: c.Node.WriteInterval.D(), Refresh: c.Node.Lending.RefreshInterval.D(), Percent: c.Scheduling.Evictions.PercentPerMinute,
	}
}

// knownStale is how many seconds after it a report is stale for hilbertd at the latest: it looks at all of them eight times in that time.
func (o *Options) knownStale() float64 { return o.StaleAfter.Seconds() * 9 / 8 }

// The roles of nodes.
const (
	roleTide  = "tide"
	roleBlind = "blind"
	roleKill  = "killed"
	roleCalm  = "calm"
)

func (o *Options) role(i int) string {
	switch {
	case i < o.Tide:
		return roleTide
	case i < o.Tide+o.Blind:
		return roleBlind
	case i >= o.Nodes-o.Kill:
		return roleKill
	}
	return roleCalm
}
