package conflicts

import (
	"fmt"
	"slices"
	"time"

	"hilbert.dev/hilbert/cluster"
	"hilbert.dev/hilbert/cluster/changes"
	"hilbert.dev/hilbert/schedule/place/rules"
	"hilbert.dev/hilbert/topology"
)

// Outcome is one run.
type Outcome struct {
	Nodes      int           `json:"nodes"`
	Schedulers int           `json:"schedulers"`
	Lag        time.Duration `json:"lagNanoseconds"`
	Strategy   Strategy      `json:"strategy"`
	Score      Score         `json:"score"`
	Placed     int           `json:"placed"`
	Unplaced   int           `json:"unplaced"`
	Plans      int           `json:"plans"`
	// Rejected is the part of all Plans that the committer rejected.
	Rejected float64 `json:"rejected"`
	// RunnersUp is the part of placements on a node that was not the first of its Plan.
	RunnersUp float64 `json:"runnersUp"`
	// ScoreLost is how many points of its score a placement lost on average; Best the part of those that lost none.
	ScoreLost float64 `json:"scoreLost"`
	Best      float64 `json:"best"`
	// PerSecond are placements by the modelled time.
	PerSecond float64 `json:"placedPerSecond"`
}

// run plays one combination.
type run struct {
	o         *Options
	ledger    *ledger
	strategy  Strategy
	lag       time.Duration
	all       []*scheduler
	reference *scheduler // sees every commit at once, and judges what was lost
	sizes     []int      // of the pods that wait
	next      int        // the first of them that nobody has taken yet
	again     []retry    // pods whose Plans were rejected
	now       int64
	arriving  []*proposal
	committer int64 // when it is free
	last      int64 // the last commit

	out            Outcome
	rejected, best int
	runnersUp      int
	lost           int64
}

// retry is a pod whose Plan was rejected. Who decides on it must have seen the revision.
type retry struct {
	pod      int
	revision changes.Revision
}

// weights are the scores of a Score.
func (s Score) weights() map[string]int64 {
	if s == Pack {
		return map[string]int64{"LeastAllocated": 0, "MostAllocated": 1}
	}
	return nil
}

func (w *world) play(o *Options, out Outcome) (Outcome, error) {
	profile, err := rules.NewProfile(out.Score.weights())
	if err != nil {
		return out, fmt.Errorf("conflicts: score %s: %w", out.Score, err)
	}
	r := &run{o: o, ledger: w.newLedger(out.Schedulers, o.Alternatives), strategy: out.Strategy, lag: out.Lag, sizes: w.waiting, out: out}
	for i := range out.Schedulers {
		seed := o.Seed
		if out.Strategy != Plain {
			seed += uint64(i) * 0x9e3779b97f4a7c15
		}
		r.all = append(r.all, newScheduler(i, profile, seed))
	}
	r.reference = newScheduler(0, profile, o.Seed)
	r.play()
	return r.outcome(), nil
}

// play takes what comes first, a scheduler that is free or a Plan that arrives, until no pod waits and no Plan is on its way.
func (r *run) play() {
	for {
		s := r.firstFree()
		waits := r.next < len(r.sizes) || len(r.again) > 0
		switch {
		case len(r.arriving) > 0 && (!waits || r.arriving[0].arrives <= s.free):
			p := r.arriving[0]
			r.arriving = r.arriving[1:]
			r.now = p.arrives
			r.judge(p)
		case waits:
			r.decide(s)
		default:
			return
		}
	}
}

func (r *run) firstFree() *scheduler {
	first := r.all[0]
	for _, s := range r.all[1:] {
		if s.free < first.free {
			first = s
		}
	}
	return first
}

// syncsPerLag is how often in a lag a scheduler learns what was committed.
const syncsPerLag = 10

// decide has a scheduler take a pod. Its Plan leaves when the decision ends.
func (r *run) decide(s *scheduler) {
	r.now = max(r.now, s.free)
	pod, seen := r.next, changes.Revision(0)
	if len(r.again) > 0 {
		pod, seen, r.again = r.again[0].pod, r.again[0].revision, r.again[1:]
	} else {
		r.next++
	}
	s.sync(r.ledger, r.now, int64(r.lag)/syncsPerLag, seen)
	nodes := r.choose(s, r.sizes[pod], r.now)
	s.free = r.now + int64(r.o.Decision)
	if len(nodes) == 0 {
		r.out.Unplaced++
		return
	}
	p := &proposal{pod: pod, nodes: nodes, by: s, arrives: s.free + int64(r.lag)}
	s.snapshot.Assume(nodes[0], r.ledger.pods[pod], topology.Grant{})
	s.own = append(s.own, p)
	r.arriving = append(r.arriving, p)
}

// judge commits a Plan on the first of its nodes that still fits, or rejects it.
func (r *run) judge(p *proposal) {
	at := max(p.arrives, r.committer) + int64(r.o.Commit)
	r.committer = at
	r.out.Plans++
	p.by.forget(p)
	class, seen := r.ledger.all[r.sizes[p.pod]], changes.Revision(0)
	r.reference.snapshot.Advance(r.ledger.Store)
	_, most, _ := r.reference.best(class)
	for i, slot := range p.nodes {
		plan := &cluster.Plan{
			Placements: []cluster.Placement{{Pod: r.ledger.pods[p.pod].UID, Node: r.ledger.Node(slot).Name}},
			Revision:   p.by.snapshot.Revision(), Scheduler: p.by.number,
		}
		lost := most - r.reference.profile.LocalScore(&r.reference.snapshot.State, slot, class)
		verdict := r.ledger.Commit(plan, rules.Commits)
		if !verdict.Committed {
			seen = max(seen, verdict.Revision)
			continue
		}
		r.out.Placed++
		r.last = at
		r.lost += lost
		if lost <= 0 {
			r.best++
		}
		if i > 0 {
			r.runnersUp++
		}
		return
	}
	r.rejected++
	r.again = append(r.again, retry{p.pod, seen})
}

// forget takes a Plan off those on their way. The snapshot keeps it assumed until it is brought up to date.
func (s *scheduler) forget(p *proposal) {
	s.own = slices.DeleteFunc(s.own, func(own *proposal) bool { return own == p })
}

func (r *run) outcome() Outcome {
	out := r.out
	part := func(n, of int) float64 { return float64(n) / max(float64(of), 1) }
	out.Rejected, out.RunnersUp, out.Best = part(r.rejected, out.Plans), part(r.runnersUp, out.Placed), part(r.best, out.Placed)
	out.ScoreLost = float64(r.lost) / max(float64(out.Placed), 1)
	if r.last > 0 {
		out.PerSecond = float64(out.Placed) / time.Duration(r.last).Seconds()
	}
	return out
}
