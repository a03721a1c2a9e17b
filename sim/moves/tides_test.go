package moves

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/cluster/facts"
	"hilbert.dev/hilbert/control/reschedule"
	"hilbert.dev/hilbert/control/tide"
	"hilbert.dev/hilbert/schedule/inspect"
	"hilbert.dev/hilbert/sim/whatif"
)

const (
	reserve  = 2 // nodes of either side
	services = 6 // of one GPU
	jobs     = 6
)

// pool is a TidePool of all nodes, as the API server has it, and the controller's part of it.
type pool struct {
	r        *run
	belongs  map[string]whatif.Belongs
	settings tide.Pool
	memory   tide.Memory
	handed   int
	// mostOfGang is of how many members gangs are moved whole at the most; 0: none is.
	mostOfGang int
	up, down   int // nodes that went to online and to offline
}

// once is a schedule that begins once.
type once int64

func (o once) Next(after time.Time) time.Time {
	if at := time.Unix(0, int64(o)).UTC(); at.After(after) {
		return at
	}
	return time.Time{}
}

func newPool(r *run) *pool {
	at := func(d time.Duration) once { return once(r.now + int64(d)) }
	return &pool{r: r, belongs: make(map[string]whatif.Belongs), settings: tide.Pool{
		ReserveOnline: reserve, ReserveOffline: reserve, Lead: 30 * time.Second, Stay: 20 * time.Second, Hold: time.Minute, PerHour: 1000,
		Windows: []tide.Window{{Name: "first", Begins: at(3 * time.Minute), Duration: 2 * time.Minute, Online: 7}, {Name: "second", Begins: at(8 * time.Minute), Duration: time.Hour, Online: 8}},
	}}
}

// tidal has services and jobs, which fit together whatever side the nodes have.
func (r *run) tidal() {
	r.scatter(services)
	for i := range jobs {
		r.create(fmt.Sprintf("%s%02d", offlineWork, i), 1, 0)
	}
}

// mark is a node of the API server with the marks of a side.
func (p *pool) mark(name string, side tide.Side) {
	n := *p.r.nodes[name]
	n.Labels = maps.Clone(n.Labels)
	n.Labels[spec.LabelTide], n.Taints = spec.TideOnline, nil
	if side == tide.Offline {
		n.Labels[spec.LabelTide] = spec.TideOffline
		n.Taints = []facts.Taint{{Key: spec.LabelTide, Value: spec.TideOffline, Effect: facts.NoSchedule}}
	}
	p.r.nodes[name] = &n
	p.r.tell(facts.NodeUpserted{Node: &n})
}

func (p *pool) count(side tide.Side) (n int) {
	for _, b := range p.belongs {
		if (b.Side == tide.Offline) == (side == tide.Offline) {
			n++
		}
	}
	return n
}

// round is what cmd/hilbertd does in each of its rounds: look, decide, rehearse, hand over, and move who is to leave.
func (p *pool) round(ctx context.Context) error {
	r := p.r
	for name := range p.belongs {
		if r.nodes[name] == nil {
			delete(p.belongs, name)
		}
	}
	for name := range r.nodes {
		if _, ok := p.belongs[name]; !ok {
			p.belongs[name] = whatif.Belongs{}
		}
	}
	sides := make(map[string]tide.Side)
	for name, b := range p.belongs {
		sides[name] = b.Side
	}
	dump := whatif.HandOver(inspect.Take(r.scheduler, spec.DefaultSchedulerName, r.time()), sides)
	v := tide.View{Pool: p.settings, Memory: p.memory, Budget: 50}
	v.Nodes, v.Need, v.Waits = whatif.TideView(dump, p.belongs, 0)
	params := reschedule.Defaults()
	params.MinAge, params.WorkloadCooldown, params.WorkloadTimeLossPermille, params.Most = 0, 0, reschedule.WholeWorkload, 50
	rehearsal := whatif.HandOvers{Dump: dump, Belongs: p.belongs, Params: params}
	d, err := rehearsal.Decide(ctx, &v, r.time())
	if err != nil {
		return err
	}
	p.hand(d.Hands)
	if !r.strikes(10) { // else the status was not written
		p.memory = d.Memory
	}
	for i := range v.Nodes {
		b := p.belongs[v.Nodes[i].Name]
		v.Nodes[i].Side, v.Nodes[i].Since = b.Side, b.Since
	}
	return p.leave(ctx, dump, &v, params)
}

// hand gives nodes to sides, and judges that.
func (p *pool) hand(hands []tide.Hand) {
	r := p.r
	on, off := p.count(tide.Online), p.count(tide.Offline)
	for _, h := range hands {
		if r.nodes[h.Node] == nil || r.strikes(8) { // it is gone, or the write was lost
			continue
		}
		b := whatif.Belongs{Side: h.To}
		if !h.First {
			b.Since = r.time()
			p.handed++
			if h.To == tide.Online {
				p.up++
			} else {
				p.down++
			}
		}
		p.belongs[h.Node] = b
		p.mark(h.Node, h.To)
	}
	if isOn, isOff := p.count(tide.Online), p.count(tide.Offline); isOn < min(on, reserve) || isOff < min(off, reserve) {
		r.broken("%d online and %d offline became %d and %d", on, off, isOn, isOff)
	}
}

// leave begins to move pods that are to leave.
func (p *pool) leave(ctx context.Context, dump *inspect.Dump, v *tide.View, params reschedule.Params) error {
	r := p.r
	sides := make(map[string]tide.Side)
	for name, b := range p.belongs {
		sides[name] = b.Side
	}
	leaving := whatif.LeavingPods(dump, p.belongs, tide.Leaving(v, r.time()))
	for _, m := range r.carrier.Moves() {
		for _, uid := range m.Pods() {
			delete(leaving, facts.UID(uid))
		}
	}
	if len(leaving) == 0 || len(r.memory.ending) > 0 {
		return nil
	}
	params.Only = []string{reschedule.ReasonHands}
	found, err := whatif.NewMoves(ctx, whatif.HandOver(dump, sides), &whatif.MoveOptions{Params: params, Leaving: leaving, History: r.carrier.History(), WorkloadsMoving: r.carrier.WorkloadsMoving(), MostOfGang: p.mostOfGang})
	if err != nil {
		return err
	}
	var batch []reschedule.Wanted
	for i := range found.Gangs {
		batch = append(batch, found.Gangs[i].Wanted())
	}
	for _, s := range slices.Concat(found.Batches[:min(1, len(found.Batches))]...) {
		batch = append(batch, reschedule.Wanted{Pod: string(s.UID), Namespace: s.Namespace, Name: s.Name, Workload: s.Workload, From: s.From, To: s.To, Reason: s.Reason, Why: s.Why})
	}
	r.carrier.Begin(batch, r.time())
	return nil
}

// misplaced counts pods on nodes of the other side.
func (p *pool) misplaced() (n int) {
	for _, uid := range slices.Sorted(maps.Keys(p.r.pods)) {
		pod := p.r.pods[uid]
		if node := p.r.nodes[pod.Node]; node != nil && pod.Ours && (!pod.Requirements.Selects(node) || facts.Untolerated(node, pod.Requirements.Tolerations) != nil) {
			n++
		}
	}
	return n
}

// TestTidesUnderFaults: nodes change hands by need and by two windows, while writes are lost, leaders of both change, foreign binders come and nodes die. No side goes below its reserve, nobody is
// evicted without a reserved target, and each eviction ends.
func TestTidesUnderFaults(t *testing.T) {
	var sum Report
	up, down := 0, 0
	for seed := range uint64(max(*seeds/6, 10)) {
		r := newRun(seed, true)
		r.pool = newPool(r)
		got, err := r.play(t.Context(), (*run).tidal)
		if err != nil {
			t.Fatal(err)
		}
		sum.Evicted, sum.Done, sum.Lost, sum.GivenBack, sum.Adopted = sum.Evicted+got.Evicted, sum.Done+got.Done, sum.Lost+got.Lost, sum.GivenBack+got.GivenBack, sum.Adopted+got.Adopted
		sum.Leaders, up, down = sum.Leaders+got.Leaders, up+r.pool.up, down+r.pool.down
	}
	t.Logf("%+v, %d nodes to online, %d to offline", sum, up, down)
	if sum.Evicted == 0 || sum.Done == 0 || sum.GivenBack == 0 || sum.Adopted == 0 || up == 0 || down == 0 {
		t.Errorf("something has never happened: %+v", sum)
	}
}

// TestTidesWithoutFaults: the windows have their nodes, and nobody is left on a node of the other side; every eviction ends in its target.
func TestTidesWithoutFaults(t *testing.T) {
	for seed := range uint64(5) {
		r := newRun(seed, false)
		r.pool = newPool(r)
		got, err := r.play(t.Context(), (*run).tidal)
		if err != nil {
			t.Fatal(err)
		}
		if got.Evicted == 0 || got.Done != got.Evicted || got.Lost+got.Stayed+got.GivenBack > 0 || r.pool.count(tide.Online) != 8 || r.pool.misplaced() > 0 || r.pool.down == 0 {
			t.Errorf("seed %d: %+v, %d online, %d misplaced, %d to offline", seed, got, r.pool.count(tide.Online), r.pool.misplaced(), r.pool.down)
		}
	}
}
