package whatif

import (
	"context"
	"slices"

	"hilbert.dev/hilbert/cluster"
	"hilbert.dev/hilbert/cluster/facts"
	"hilbert.dev/hilbert/control/reschedule"
	"hilbert.dev/hilbert/resource"
	"hilbert.dev/hilbert/schedule/fragment"
	"hilbert.dev/hilbert/schedule/inspect"
	"hilbert.dev/hilbert/topology"
)

// leastWorth is what a move must win, in thousandths of a GPU.
const leastWorth = 60

// judge answers with the market's prices and the fragment package's searches, over a copy of what is free that its own answers change. What they do not look at, such
// as constraints between pods, the rehearsal finds.
type judge struct {
	view    reschedule.View
	store   *cluster.Store
	facts   map[facts.UID]*facts.Pod
	waiting map[string]*facts.Pod // by reschedule.Waiting's name
	nodes   []*facts.Node         // as view.Nodes
	before  []fragment.Node       // as the dump has them
	now     []fragment.Node
	at      []int // where the pods are by now, as view.Pods
	grants  []topology.Grant
	kinds   []fragment.Request
	kindOf  map[fragment.Request]int32
	kind    []int32 // of view.Pods
	kindsOf map[*facts.Requirements]int32
	market  fragment.Market
	mover   fragment.Mover
	drained map[facts.UID]string
	units   map[string]*waitingUnit
	most    int // of a gang that can be evicted together
}

func newJudge(d *inspect.Dump, store *cluster.Store, empty []string) *judge {
	units := waitingUnits(d.Ledger)
	j := &judge{
		view: viewOf(d, store, empty, units), store: store, units: units, facts: make(map[facts.UID]*facts.Pod), waiting: make(map[string]*facts.Pod), kindOf: make(map[fragment.Request]int32), kindsOf: make(map[*facts.Requirements]int32),
		market: fragment.Market{Params: fragment.Defaults()}, drained: make(map[facts.UID]string),
	}
	named := make(map[string]*facts.Node)
	for _, n := range d.Ledger.Nodes {
		named[n.Name] = n
	}
	for i := range j.view.Nodes {
		n := &j.view.Nodes[i]
		j.nodes = append(j.nodes, named[n.Name])
		j.before = append(j.before, fragment.Node{CPU: n.Room.Amounts[0], Memory: n.Room.Amounts[1], Shape: n.Room.Shape, Free: n.Room.Free})
	}
	for i := range d.Ledger.Pods {
		f := &d.Ledger.Pods[i].Facts
		if j.facts[f.UID] = f; f.Node == "" {
			j.waiting[f.Namespace+"/"+f.Name] = f
		}
	}
	var mix fragment.Mix
	var demand fragment.Demand
	for i := range j.view.Pods {
		kind := j.kindFor(j.facts[facts.UID(j.view.Pods[i].UID)])
		j.kind = append(j.kind, kind)
		if request := j.kinds[kind]; !request.GPU.IsZero() {
			mix.Add(&request)
			demand.Add(&request, 1)
		}
	}
	for _, w := range j.view.Waiting {
		for _, f := range j.unit(w.Name).members {
			kind := j.kindFor(f)
			mix.Add(&j.kinds[kind])
			demand.Add(&j.kinds[kind], 1)
		}
	}
	j.market.Learn(&mix, &demand, j.before)
	j.reset()
	return j
}

// reset goes back to what the dump has.
func (j *judge) reset() {
	j.now = slices.Clone(j.before)
	j.at, j.grants = nil, nil
	for i := range j.view.Pods {
		j.at = append(j.at, j.view.Pods[i].Node)
		j.grants = append(j.grants, j.view.Pods[i].Grant)
	}
}

// request is what a pod asks for; its models are those of the nodes that it selects.
func (j *judge) request(f *facts.Pod) fragment.Request {
	r := fragment.Request{
		CPU: amountOf(f.Requirements, resource.NameCPU), Memory: amountOf(f.Requirements, resource.NameMemory),
		GPU: topology.Request{Milli: f.Requirements.GPU.Milli, Whole: f.Requirements.GPU.Whole},
	}
	if r.GPU.IsZero() {
		return r
	}
	var models []string
	all := true
	for i, n := range j.nodes {
		switch model := j.before[i].Shape.Model; {
		case j.before[i].Shape.GPUs == 0:
		case f.Requirements.Selects(n):
			models = append(models, model)
		default:
			all = false
		}
	}
	if !all {
		r.Models = fragment.NewModels(models...)
	}
	return r
}

// kindFor is the kind of what a pod asks for.
func (j *judge) kindFor(f *facts.Pod) int32 {
	k, ok := j.kindsOf[f.Requirements]
	if !ok {
		request := j.request(f)
		k = j.numbered(&request)
		j.kindsOf[f.Requirements] = k
	}
	return k
}

func (j *judge) numbered(r *fragment.Request) int32 {
	k, ok := j.kindOf[*r]
	if !ok {
		k = int32(len(j.kinds))
		j.kindOf[*r] = k
		j.kinds = append(j.kinds, *r)
	}
	return k
}

// drain asks the scheduler where it would place the pods of nodes that are to be emptied.
func (j *judge) drain(ctx context.Context, d *inspect.Dump, empty []string) error {
	if len(empty) == 0 {
		return nil
	}
	forecast, err := NewForecast(ctx, d, Change{Drain: empty})
	if err != nil {
		return err
	}
	to := make(map[PodName]string)
	for i := range forecast.Placed {
		to[forecast.Placed[i].PodName] = forecast.Placed[i].Node
	}
	for uid, f := range j.facts {
		if node, ok := to[PodName{f.Namespace, f.Name, f.Node}]; ok && f.Node != "" {
			j.drained[uid] = node
		}
	}
	return nil
}

// assignment is the pods that may be moved.
func (j *judge) assignment(may func(int) bool) *fragment.Assignment {
	t := &fragment.Assignment{Kinds: j.kinds, Nodes: j.now, Pods: make([][]fragment.Occupant, len(j.now))}
	for i := range j.view.Pods {
		if !j.moved(i) && may(i) {
			t.Pods[j.at[i]] = append(t.Pods[j.at[i]], fragment.Occupant{Kind: j.kind[i], Grant: j.grants[i]})
		}
	}
	return t
}

func (j *judge) moved(pod int) bool { return j.at[pod] != j.view.Pods[pod].Node }

// loss is what a pod destroys on a node that may take it.
func (j *judge) loss(node int, kind int32) (float64, int, bool) {
	if n := &j.view.Nodes[node]; n.Closed || n.Leaving != "" {
		return 0, 0, false
	}
	prices := j.market.At(j.now[node].Shape.Model)
	state := prices.State(&j.now[node])
	return prices.Score(&j.now[node], &state, &j.kinds[kind])
}

func (j *judge) best(kind int32) (node, gpu int, loss float64, ok bool) {
	return j.bestOf(kind, func(int) bool { return true })
}

func (j *judge) bestOf(kind int32, may func(node int) bool) (node, gpu int, loss float64, ok bool) {
	for i := range j.now {
		if !may(i) {
			continue
		}
		if x, g, fits := j.loss(i, kind); fits && (!ok || x < loss) {
			node, gpu, loss, ok = i, g, x, true
		}
	}
	return node, gpu, loss, ok
}

func (j *judge) gain(node int, after *fragment.Node) float64 {
	prices := j.market.At(after.Shape.Model)
	was, is := prices.State(&j.now[node]), prices.State(after)
	return fragment.ScoreUnit * (is.Worth() - was.Worth())
}

// apply moves a pod in the copy.
func (j *judge) apply(pod, to, gpu int) {
	request := &j.kinds[j.kind[pod]]
	j.now[j.at[pod]].Give(request, j.grants[pod])
	j.grants[pod] = j.now[to].Take(request, gpu)
	j.at[pod] = to
}

// find is the first pod that a step of a plan may mean.
func (j *judge) find(s *fragment.Step, may func(int) bool) int {
	for i := range j.view.Pods {
		if j.at[i] == s.From && j.kind[i] == s.Pod.Kind && j.grants[i] == s.Pod.Grant && !j.moved(i) && may(i) {
			return i
		}
	}
	return -1
}

// Better is reschedule.Judge's.
func (j *judge) Better(most int, may func(int) bool) (steps []reschedule.Step, gains []float64) {
	for len(steps) < most {
		step, won, ok := fragment.BestMove(j.assignment(may), leastWorth*fragment.ScoreUnit, j.best, j.gain)
		if !ok {
			break
		}
		pod := j.find(&step, may)
		if pod < 0 {
			break
		}
		j.apply(pod, step.To, step.GPU)
		steps, gains = append(steps, reschedule.Step{Pod: pod, To: step.To, GPU: step.GPU}), append(gains, won/fragment.ScoreUnit)
	}
	return steps, gains
}

// Target is reschedule.Judge's: where the scheduler would place a pod of a node that is emptied; else the node on which it destroys the least, and of
// those the fullest.
func (j *judge) Target(pod int, may func(int) bool) (to, gpu int, ok bool) {
	f := j.facts[facts.UID(j.view.Pods[pod].UID)]
	if name, known := j.drained[f.UID]; known {
		i := slices.IndexFunc(j.view.Nodes, func(n reschedule.Node) bool { return n.Name == name })
		return i, 0, i >= 0 && may(i)
	}
	lowest, left := 0.0, int64(0)
	is := j.store.Pod(f.UID)
	constrained := f.Requirements.PodTerms() > 0 // else the rehearsal finds who does not want it beside themselves
	for i := range j.now {
		if !may(i) || !f.Requirements.Selects(j.nodes[i]) || facts.Untolerated(j.nodes[i], f.Requirements.Tolerations) != nil {
			continue
		}
		loss, g, fits := j.loss(i, j.kind[pod])
		if fits && constrained {
			fits = welcome(j.store, is, j.store.Slot(j.view.Nodes[i].Name))
		}
		if fits && (!ok || loss < lowest || loss == lowest && j.now[i].CPU < left) {
			to, gpu, lowest, left, ok = i, g, loss, j.now[i].CPU, true
		}
	}
	if ok {
		j.apply(pod, to, gpu) // the next one finds that room taken
	}
	return to, gpu, ok
}

// fragments says how the free GPUs of the copy stand.
func (j *judge) fragments() (f Fragments) {
	for i := range j.now {
		n := &j.now[i]
		f.Free += n.Free.Total(n.Shape)
		for g := range n.Shape.GPUs {
			if n.Free[g] < topology.FullGPU {
				f.Broken += int64(n.Free[g])
			}
		}
		state := j.market.At(n.Shape.Model).State(n)
		f.Worth += state.Worth()
	}
	return f
}
