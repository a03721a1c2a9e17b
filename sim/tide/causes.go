package tide

import (
	"math"
	"math/rand/v2"
	"time"
)

// Cause is why capacity was missing on nodes that change hands, at one time.
type Cause string

// The causes. The first two are an autoscaler's own: capacity would be missing as well if each slot were free for both sides. The others are the sides'.
const (
	CauseStart   Cause = "replicas start"     // they were asked for too late to serve by now
	CauseMetric  Cause = "metric is old"      // a metric of this moment would have asked for them in time
	CauseSize    Cause = "pool is too small"  // more than all slots, or than offline's reserve leaves, are needed
	CauseHour    Cause = "nodes of the hour"  // replicas waited for a node, and no more may change hands within the hour
	CauseChange  Cause = "node changes hands" // replicas waited for a node that was decided upon, or became free, later than they were asked for
	CauseMoves   Cause = "replicas move"      // they serve no more on a node that goes to offline, and not yet elsewhere
	CauseRemoved Cause = "other replicas end" // when fewer were asked for others ended than without sides
)

// Causes are all of them.
var Causes = []Cause{CauseStart, CauseMetric, CauseSize, CauseHour, CauseChange, CauseMoves, CauseRemoved}

// replica is one on a node.
type replica struct {
	ready time.Time
	moved bool  // it serves not yet, because it was moved
	late  Cause // why it waited for a slot; "": it did not
}

// beside is the same autoscaler on a cluster in which each slot is free for both sides, and another that sees each load at once. They say which share of what is missing is not the sides'.
type beside struct {
	same, fresh cluster
	freshHPA    hpa
	missed      map[Cause]time.Duration
}

func newBeside(g *game) *beside {
	b := &beside{same: g.cluster, fresh: g.cluster, freshHPA: g.hpa, missed: make(map[Cause]time.Duration)}
	for _, c := range []*cluster{&b.same, &b.fresh} {
		c.random = rand.New(rand.NewPCG(g.o.Seed, 1))
	}
	return b
}

// scale has both ask for replicas.
func (b *beside) scale(replicas, fresh int, now time.Time) {
	b.same.scale(replicas, now)
	b.fresh.scale(fresh, now)
	b.same.run(now, syncPeriod, b.same.slots)
	b.fresh.run(now, syncPeriod, b.fresh.slots)
}

// needed is how many replicas a load takes within the limit.
func (g *game) needed(load float64) int {
	return int(math.Ceil(load/(g.perPod*g.o.Limit) - 1e-9))
}

// cause is why a pool has fewer replicas that serve than are needed.
func (p *nodePool) cause(b *beside, needed int, now time.Time) Cause {
	switch {
	case needed > b.same.slots:
		return CauseSize
	case b.same.ready(now) < needed && b.fresh.ready(now) >= needed:
		return CauseMetric
	case b.same.ready(now) < needed:
		return CauseStart
	}
	lacking, moved, late := needed-p.ready(now), 0, map[Cause]int{}
	for i := range p.nodes {
		for _, r := range p.nodes[i].replicas {
			switch {
			case !r.ready.After(now):
			case r.moved:
				moved++
			case r.late != "":
				late[r.late]++
			}
		}
	}
	late[p.waitsFor] += p.waiting
	if moved >= lacking {
		return CauseMoves
	}
	lacking -= moved
	for _, c := range []Cause{CauseSize, CauseHour, CauseChange} {
		if lacking -= late[c]; lacking <= 0 {
			return c
		}
	}
	return CauseRemoved
}
