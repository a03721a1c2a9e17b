package tide

import (
	"math"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"hilbert.dev/hilbert/control/reschedule"
	"hilbert.dev/hilbert/control/tide"
)

var monday = time.Date(2026, time.March, 2, 0, 0, 0, 0, time.UTC)

// TestNodesByHand: replicas wait for slots of online, preempt jobs on its nodes alone, and a node takes pods of its new side when it has changed hands.
func TestNodesByHand(t *testing.T) {
	t.Parallel()
	o := DefaultOptions()
	o.PodsPerNode = 2
	p := newNodePool(&o, 4, 1)
	now := monday
	p.run(now, 0)
	if len(p.nodes[0].jobs) != 0 || len(p.nodes[1].jobs) != 2 {
		t.Fatalf("jobs: %+v", p.nodes)
	}
	p.scale(3, now)
	if p.replicas() != 2 || p.waiting != 1 || p.evictions != 0 {
		t.Fatalf("a replica is on a node of offline, or none waits: %+v", p)
	}
	settings := tide.Pool{ReserveOnline: 1, PerHour: 20, Hold: time.Minute, Stay: 5 * time.Minute, Lead: time.Minute}
	p.decide(p.view(&settings, 2, now), now)
	if p.handed != 1 || p.nodes[1].side != tide.Online || p.evictions != 0 {
		t.Fatalf("the second node: %+v", p)
	}
	if p.scale(3, now); p.waiting != 1 {
		t.Fatal("a node takes replicas before it has changed hands")
	}
	now = now.Add(o.Change)
	p.scale(3, now)
	if p.waiting != 0 || p.evictions != 1 || p.lost != o.Change || p.ready(now.Add(o.Start)) != 2 || p.ready(now.Add(o.Start+o.Grace)) != 3 {
		t.Fatalf("the job is not preempted: %+v, lost %s", p, p.lost)
	}
	// With less to do the second node goes back, and its replica moves first.
	now = now.Add(time.Hour)
	p.run(now, 0)
	p.scale(1, now)
	for range 3 {
		p.decide(p.view(&settings, 1, now), now)
		now = now.Add(time.Minute)
	}
	on := 0
	for i := range p.nodes {
		if p.nodes[i].side == tide.Online {
			on++
		}
	}
	if on != 1 || p.replicas() != 1 || p.handed != 2 {
		t.Errorf("%d nodes of online, %d replicas, %d hand-overs", on, p.replicas(), p.handed)
	}
}

// TestReplicasFillNodes: replicas take the fullest node that has room, so that others become empty.
func TestReplicasFillNodes(t *testing.T) {
	t.Parallel()
	o := DefaultOptions()
	o.PodsPerNode = 4
	p := newNodePool(&o, 12, 3)
	p.nodes[1].replicas = append(p.nodes[1].replicas, replica{}, replica{})
	p.scale(5, monday)
	if got := []int{len(p.nodes[0].replicas), len(p.nodes[1].replicas), len(p.nodes[2].replicas)}; !slices.Equal(got, []int{1, 4, 0}) {
		t.Errorf("the nodes have %v replicas", got)
	}
}

// TestNodesStayWithinTheirRoom: whatever is asked for, no node holds more than it has room for, no pod begins on a node of the other side, and a node is not emptied of services that have no other place.
func TestNodesStayWithinTheirRoom(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		o := DefaultOptions()
		o.PodsPerNode, o.Seed = rapid.IntRange(1, 5).Draw(t, "slots"), rapid.Uint64().Draw(t, "seed")
		p := newNodePool(&o, rapid.IntRange(1, 30).Draw(t, "room"), rapid.IntRange(0, 6).Draw(t, "online"))
		settings := tide.Pool{ReserveOnline: 1, ReserveOffline: 1, PerHour: 5, Hold: 2 * time.Minute, Stay: time.Minute, Slack: 1}
		now := monday
		for range 100 {
			now = now.Add(30 * time.Second)
			before := make([]int, len(p.nodes))
			for i := range p.nodes {
				before[i] = len(p.nodes[i].replicas)
			}
			asked := rapid.IntRange(1, 40).Draw(t, "replicas")
			p.scale(asked, now)
			for i := range p.nodes {
				if n := &p.nodes[i]; n.side == tide.Offline && len(n.replicas) > before[i] {
					t.Fatalf("a replica begins on node %d, which is offline's", i)
				}
			}
			kept := p.replicas()
			p.decide(p.view(&settings, (asked+o.PodsPerNode-1)/o.PodsPerNode, now), now)
			if len(p.flying) > movesInFlight {
				t.Fatalf("%d moves are on their way", len(p.flying))
			}
			if p.replicas() != kept || kept+p.waiting != asked {
				t.Fatalf("%d replicas were asked for, %d run, after hand-overs %d, and %d wait", asked, kept, p.replicas(), p.waiting)
			}
			p.run(now, 30*time.Second)
			for i := range p.nodes {
				if p.nodes[i].free(o.PodsPerNode) < 0 {
					t.Fatalf("node %d holds %+v", i, p.nodes[i])
				}
			}
		}
	})
}

// TestNodesFollowTheTide: nodes that are there before the morning miss at most half of what those miss that follow HPA alone; a load without a tide is not forecast.
func TestNodesFollowTheTide(t *testing.T) {
	t.Parallel()
	o := DefaultOptions()
	o.Peak = ""
	chance := daily(12)
	chance.Name = "chance"
	level := 50.0
	for i := range chance.Loads {
		if i%97 == 0 {
			level = 20 + math.Mod(level*7.31, 80)
		}
		chance.Loads[i] = level
	}
	need, ours := play(&o, daily(12), NodesByNeed, nil), play(&o, daily(12), Nodes, nil)
	if need.NodesHanded == 0 || need.Rises == 0 || ours.Missed > need.Missed/2 || ours.NodesTrusted == 0 || ours.WorkHours == 0 || need.WorkHours == 0 {
		t.Errorf("by need %+v\nwith forecasts %+v", need, ours)
	}
	if always := ours.Days * 24 * float64(len(newNodePool(&o, 125, 0).nodes)); ours.OnlineNodeHours >= always {
		t.Errorf("online has all nodes at all times: %g h of %g", ours.OnlineNodeHours, always)
	}
	if c := play(&o, chance, Nodes, nil); c.NodesTrusted != 0 || c.Trusted != 0 || c.NodesWhy == "" {
		t.Errorf("chance: %+v", c)
	}
}

// TestNodesAreThereBefore: with what it has learnt, online has the nodes of the morning before anybody asks for them.
func TestNodesAreThereBefore(t *testing.T) {
	t.Parallel()
	o := DefaultOptions()
	s := daily(12)
	g := newGame(&o, s, Nodes, nil)
	begin := s.Start.Add(9 * 24 * time.Hour)
	g.hpa.replicas = 20
	p := newPool(g, begin)
	online := func() (n int) {
		for i := range p.nodes.nodes {
			if p.nodes.nodes[i].side == tide.Online {
				n++
			}
		}
		return n
	}
	for at := time.Duration(0); at < 7*time.Hour+55*time.Minute; at += syncPeriod {
		if at == 4*time.Hour && online() > p.need(20)+poolSlack {
			t.Errorf("at night online has %d nodes", online())
		}
		p.tick(20, begin.Add(at))
	}
	if got := online(); got < p.need(95) {
		t.Errorf("before the rise online has %d nodes: %s", got, p.said.Reason)
	}
}

// TestServicesKeepTheirNodes: a node does not go to offline while its replicas have no other place.
func TestServicesKeepTheirNodes(t *testing.T) {
	t.Parallel()
	o := DefaultOptions()
	o.PodsPerNode = 2
	p := newNodePool(&o, 6, 2)
	p.scale(4, monday)
	settings := tide.Pool{ReserveOnline: 1, PerHour: 20}
	for i := range 5 {
		now := monday.Add(time.Duration(i) * time.Minute)
		p.decide(p.view(&settings, 1, now), now)
	}
	if p.handed != 0 || p.moved != 0 {
		t.Errorf("%d nodes go, and %d replicas move", p.handed, p.moved)
	}
	p.scale(2, monday)
	for i := range 5 {
		now := monday.Add(time.Hour + time.Duration(i)*time.Minute)
		p.decide(p.view(&settings, 1, now), now)
	}
	if p.handed != 1 || p.moved != 1 || p.replicas() != 2 {
		t.Errorf("with room elsewhere %d nodes go, %d replicas move, and %d are left", p.handed, p.moved, p.replicas())
	}
}

// TestMovesFromNodesAreBounded: pods leave a node as many at once as hilbertd moves by default, and in an hour no more than it disturbs.
func TestMovesFromNodesAreBounded(t *testing.T) {
	t.Parallel()
	o := DefaultOptions()
	o.PodsPerNode, o.WorkloadTimeLossPermille = 400, reschedule.WholeWorkload
	p := newNodePool(&o, 800, 1)
	p.scale(400, monday)
	p.nodes[0].side, p.nodes[1].side = tide.Offline, tide.Online
	now := monday.Add(time.Hour)
	if p.leave(&p.nodes[0], now); p.moved != movesInFlight {
		t.Errorf("%d replicas are moved at once", p.moved)
	}
	for range 30 {
		now = now.Add(2 * time.Minute)
		p.flying = nil
		p.leave(&p.nodes[0], now)
	}
	if most := movesBurst + movesPerHour; p.moved > most || p.moved < most-1 {
		t.Errorf("%d replicas are moved in an hour, want %d", p.moved, most)
	}
	p = newNodePool(&o, 800, 1)
	p.scale(30, monday)
	p.nodes[0].side, p.nodes[1].side = tide.Offline, tide.Online
	if p.leave(&p.nodes[0], monday.Add(time.Hour)); p.moved != 3 {
		t.Errorf("%d of 30 replicas are moved at once, want a tenth", p.moved)
	}
	// By the bound of a thousandth one of 30 in 166 minutes and 40 seconds, after the last one serves again.
	o.WorkloadTimeLossPermille = 1
	p = newNodePool(&o, 800, 1)
	p.scale(30, monday)
	p.nodes[0].side, p.nodes[1].side = tide.Offline, tide.Online
	now = monday.Add(time.Hour)
	p.leave(&p.nodes[0], now)
	for range 4 * 60 * 14 { // 14 hours
		now = now.Add(15 * time.Second)
		p.leave(&p.nodes[0], now)
	}
	if p.moved != 5 {
		t.Errorf("%d of 30 replicas are moved in 14 hours, want 5", p.moved)
	}
}
