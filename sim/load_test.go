package sim

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/cluster/facts"
	"hilbert.dev/hilbert/node/advise"
	"hilbert.dev/hilbert/resource"
	"hilbert.dev/hilbert/schedule"
	"hilbert.dev/hilbert/schedule/bind"
)

// A fleet whose pods use more or less than they request, for the score LoadAware. Its agents average what they see (advise.Usage), and report it when it
// has moved or each minute; some fall silent. The scheduler is the real one.
const (
	fleetNodes    = 20
	fleetCPUs     = 16
	fleetMemory   = 64 << 30
	fleetLife     = 600 // seconds, on average
	fleetEvery    = 4   // seconds between two pods
	fleetBurst    = 40  // pods at once, every burstEvery seconds
	burstEvery    = 300
	usageStale    = 180
	usageRefresh  = 60
	startDelay    = 5
	fleetDuration = 3000
	fleetPodBytes = 1 << 30
)

type fleetPod struct {
	uid          facts.UID
	use          float64 // CPUs
	node         int
	started, end int // seconds; 0: it has not started
	burst        int
}

type fleetAgent struct {
	state    advise.UsageState
	said     *spec.NodeUsage
	saidAt   int
	silent   bool
	reported bool // the scheduler has a use of this node
}

type fleet struct {
	s      *schedule.Scheduler
	draws  *rand.Rand
	second int
	pods   map[facts.UID]*fleetPod
	names  [fleetNodes]string
	agents [fleetNodes]fleetAgent
	// spread is the sum over time of the standard deviation of the nodes' use, burstMost the most pods of one burst on one node.
	spread    float64
	burstMost int
}

// now is the time of the scheduler and of all nodes.
func (f *fleet) now() time.Time { return time.Unix(1_000_000+int64(f.second), 0) }

func newFleet(t *testing.T, seed uint64, scores map[string]int64) *fleet {
	cfg := spec.Default().Scheduling
	cfg.Scores, cfg.Seed = scores, seed
	s, err := schedule.New(schedule.Options{Config: cfg})
	if err != nil {
		t.Fatal(err)
	}
	f := &fleet{s: s, draws: rand.New(rand.NewPCG(seed, 1)), pods: make(map[facts.UID]*fleetPod)}
	for i := range fleetNodes {
		f.names[i] = fmt.Sprint("n", i)
		s.Apply(facts.NodeUpserted{Node: &facts.Node{Name: f.names[i], Allocatable: []resource.Quantity{
			{Name: resource.NameCPU, Amount: fleetCPUs * 1000}, {Name: resource.NameMemory, Amount: fleetMemory}, {Name: resource.NamePods, Amount: 110},
		}}}, f.now())
		f.agents[i].silent = i%10 == 9
	}
	return f
}

func (f *fleet) arrive(burst int) {
	p := &fleetPod{uid: facts.UID(fmt.Sprint("p", len(f.pods), "-", f.second)), use: 0.1, burst: burst, node: -1}
	if f.draws.IntN(2) == 0 {
		p.use = 1.5
	}
	p.end = f.second + int(f.draws.ExpFloat64()*fleetLife) + 30
	f.pods[p.uid] = p
	f.tell(p, 0)
}

// tell tells the scheduler of a pod: where it is bound, and since when it runs.
func (f *fleet) tell(p *fleetPod, started int64) {
	pod := facts.Pod{
		UID: p.uid, Name: string(p.uid), Namespace: "x", Ours: true, Created: f.now().UnixNano(), Started: started,
		Requirements: &facts.Requirements{
			Requests: []resource.Quantity{{Name: resource.NameCPU, Amount: 500}, {Name: resource.NameMemory, Amount: fleetPodBytes}}, ScoreCPU: 500, ScoreMemory: fleetPodBytes,
		},
	}
	if p.node >= 0 {
		pod.Node = f.names[p.node]
	}
	f.s.Apply(facts.PodUpserted{Pod: pod}, f.now())
}

// decide lets the scheduler place what waits; its writes succeed at once.
func (f *fleet) decide() {
	f.s.Step(f.now(), 1000)
	for _, w := range append([]bind.Write(nil), f.s.Ready(f.now())...) {
		f.s.Finish(bind.Result{ID: w.ID, Outcome: bind.Written}, f.now())
		if p := f.pods[w.Pod]; p != nil && w.Kind == bind.WriteBinding && p.node < 0 {
			p.node = slices.IndexFunc(f.names[:], func(name string) bool { return name == w.Node })
			p.started = f.second + startDelay
			f.tell(p, 0)
		}
	}
}

// run lets the fleet live, and verifies the ledger now and then.
func (f *fleet) run(t *testing.T) *fleet {
	for ; f.second < fleetDuration; f.second++ {
		if f.second%fleetEvery == 0 {
			f.arrive(0)
		}
		if f.second%burstEvery == burstEvery-1 {
			for range fleetBurst {
				f.arrive(f.second)
			}
		}
		f.decide()
		var use [fleetNodes]float64
		var count [fleetNodes]int
		for uid, p := range f.pods {
			switch {
			case p.node < 0:
			case f.second >= p.end:
				delete(f.pods, uid)
				f.s.Apply(facts.PodRemoved{UID: uid}, f.now())
			case f.second == p.started:
				f.tell(p, f.now().UnixNano())
				fallthrough
			case f.second > p.started:
				use[p.node] += p.use
				fallthrough
			default:
				if p.burst == f.second {
					count[p.node]++
				}
			}
		}
		f.judge(&use, &count)
		for i := range f.agents {
			f.observe(i, use[i])
		}
		if f.second%100 == 0 {
			if err := f.s.Verify(); err != nil {
				t.Fatal(err)
			}
		}
	}
	return f
}

func (f *fleet) judge(use *[fleetNodes]float64, count *[fleetNodes]int) {
	var sum, squares float64
	for i, u := range use {
		sum, squares = sum+u, squares+u*u
		f.burstMost = max(f.burstMost, count[i])
	}
	mean := sum / fleetNodes
	f.spread += math.Sqrt(max(squares/fleetNodes-mean*mean, 0)) / fleetDuration
}

// observe lets an agent see what its node uses, and report that. Agents that have fallen silent stay so for ever; the door forgets what they said.
func (f *fleet) observe(node int, use float64) {
	a := &f.agents[node]
	r := &advise.UsageReading{
		At: time.Duration(f.second+1) * time.Second, CPU: advise.Known(min(use, fleetCPUs)), ReclaimedCPU: advise.Known(0), CPUs: fleetCPUs,
		Memory: advise.Known(8 << 30), Reclaimed: advise.Known(0), MemoryTotal: advise.Known(fleetMemory),
	}
	said := advise.Usage(r, &a.state)
	name := f.names[node]
	switch silent := a.silent && f.second > fleetDuration/4; {
	case silent && a.reported && f.second-a.saidAt >= usageStale:
		a.reported = false
		f.s.Apply(facts.NodeReported{Node: name, Report: &facts.NodeReport{}}, f.now())
	case !silent && said != nil && (said != a.said || f.second-a.saidAt >= usageRefresh):
		a.said, a.saidAt, a.reported = said, f.second, true
		f.s.Apply(facts.NodeReported{Node: name, Report: &facts.NodeReport{Usage: facts.Usage{
			MilliCPU: said.MilliCPU, Memory: said.MemoryMiB << 20, Since: f.now().Add(-time.Duration(said.WindowSeconds) * time.Second).UnixNano(),
		}}}, f.now())
	}
}

// TestLoadAwareEvensUse: with LoadAware, what nodes use differs less than with requests alone, and a burst of pods does not fall on the nodes that were idle.
func TestLoadAwareEvensUse(t *testing.T) {
	t.Parallel()
	var byRequestsAll, byLoadAll float64
	for seed := range uint64(5) {
		byRequests := newFleet(t, seed, nil).run(t)
		byLoad := newFleet(t, seed, map[string]int64{"LoadAware": 20}).run(t)
		t.Logf("seed %d: the use of nodes differs by %.2f CPUs by requests, %.2f by load; %d and %d pods of a burst on one node",
			seed, byRequests.spread, byLoad.spread, byRequests.burstMost, byLoad.burstMost)
		byRequestsAll, byLoadAll = byRequestsAll+byRequests.spread, byLoadAll+byLoad.spread
		if most := fleetBurst / 4; byLoad.burstMost > most {
			t.Errorf("seed %d: %d pods of a burst went to one node; at most %d should", seed, byLoad.burstMost, most)
		}
	}
	if byLoadAll > 0.85*byRequestsAll {
		t.Errorf("in all seeds the use of nodes differs by %.2f CPUs by load, by %.2f by requests", byLoadAll, byRequestsAll)
	}
}
