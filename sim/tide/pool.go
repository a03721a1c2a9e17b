package tide

import (
	"math"
	"time"

	"hilbert.dev/hilbert/control/forecast"
	"hilbert.dev/hilbert/control/tide"
)

// pool is a TidePool with its nodes, as the controller drives it.
type pool struct {
	g        *game
	nodes    *nodePool
	settings tide.Pool
	history  *tide.History // nil: nodes follow what is asked for
	said     forecast.Prediction
	seen     time.Time // when the history saw what is asked for
	decided  time.Time
	trusted  int
	rounds   int
}

const (
	// poolInterval is that of decisions, historyStep that of what a forecast of nodes sees, as in production.
	poolInterval = 30 * time.Second
	historyStep  = 5 * time.Minute
	// The defaults of a TidePool, and reserves of a node for each side.
	headroomShare = 0.1
	perHour       = 20
	poolSlack     = 1
	poolLead      = 15 * time.Minute
	poolStay      = 5 * time.Minute
	poolHold      = 15 * time.Minute
)

// newPool is the pool at the beginning of what is judged: online has what it asks for, and a forecast has learnt what it asked for before.
func newPool(g *game, begin time.Time) *pool {
	p := &pool{g: g, nodes: newNodePool(g.o, g.cluster.slots, 0), settings: tide.Pool{
		ReserveOnline: 1, ReserveOffline: 1, Lead: poolLead, Stay: poolStay, Hold: poolHold, Slack: poolSlack, PerHour: perHour,
	}}
	p.nodes = newNodePool(g.o, g.cluster.slots, p.need(g.hpa.replicas))
	p.nodes.scale(g.hpa.replicas, begin.Add(-g.o.Start))
	if g.way == NodesByNeed {
		return p
	}
	for i := range g.peaks {
		peak := &g.peaks[i]
		p.settings.Windows = append(p.settings.Windows, tide.Window{Name: peak.Name, Begins: peak.Begins, Duration: peak.Duration, Online: p.need(g.replicas(peak.Load))})
	}
	if g.way == Oracle {
		return p
	}
	p.history = tide.NewHistory(poolLead)
	for at := g.s.Start; at.Before(begin); at = at.Add(historyStep) {
		i := int(at.Sub(g.s.Start) / g.s.Step)
		if !math.IsNaN(g.s.Loads[i]) {
			p.history.Learn(p.need(g.replicas(g.recorded(i, at.Sub(g.s.Start)%g.s.Step))), at)
		}
	}
	return p
}

// need is how many nodes hold so many replicas, headroom included.
func (p *pool) need(replicas int) int {
	return int(math.Ceil(float64(replicas)/float64(p.g.o.PodsPerNode)*(1+headroomShare) - 1e-9))
}

// tick lets a sync period pass: replicas are scaled, and now and then nodes change hands.
func (p *pool) tick(replicas int, now time.Time) {
	p.nodes.scale(replicas, now)
	if now.Sub(p.decided) >= poolInterval {
		p.decided = now
		p.decide(replicas, now)
	}
	p.nodes.run(now, syncPeriod)
}

func (p *pool) decide(replicas int, now time.Time) {
	need := p.need(replicas)
	v := p.nodes.view(&p.settings, need, now)
	if p.history != nil {
		if now.Sub(p.seen) >= historyStep {
			p.seen = now
			p.history.Learn(need, now)
			p.said = p.history.Predict()
		}
		v.Forecast = p.said
		p.rounds++
		if p.said.Trusted {
			p.trusted++
		}
	}
	if p.g.way == Oracle {
		v.Forecast = p.perfect(now)
	}
	p.nodes.decide(v, now)
}

// outcome adds what happened on the nodes.
func (p *pool) outcome(o *Outcome) {
	n := p.nodes
	o.Evictions, o.LostHours, o.WorkHours, o.ReplicaHours = n.evictions, n.lost.Hours(), n.done.Hours(), n.podTime.Hours()
	o.NodesHanded, o.ReplicasMoved, o.OnlineNodeHours = n.handed, n.moved, n.nodeTime.Hours()
	o.NodesTrusted, o.NodesWhy = float64(p.trusted)/float64(max(p.rounds, 1)), p.said.Reason
}
