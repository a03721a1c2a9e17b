package colocation

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"hash"
	"math/rand/v2"
	"strconv"
	"time"

	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/cluster/facts"
	"hilbert.dev/hilbert/resource"
	"hilbert.dev/hilbert/schedule"
	"hilbert.dev/hilbert/schedule/bind"
	"hilbert.dev/hilbert/sim/corun"
	"hilbert.dev/hilbert/sim/trace"
)

// run is one variant of the day under way.
type run struct {
	o     *Options
	v     *Variant
	model *corun.Params
	now   int64 // seconds since midnight

	machines  []*machine
	byName    map[string]*machine
	scheduler *schedule.Scheduler
	inbox     []facts.Event
	results   []bind.Result
	agenda    map[int64][]event

	jobs, fleet  *rand.Rand
	weight       int
	jobID, podID int64
	byUID        map[facts.UID]*pod
	classes      map[shape]*facts.Requirements
	waiting      map[shape]int
	pending      int
	backlog      int
	runningJobs  int

	inputs    inputs
	midnight  time.Time
	requested []uint64
	ids       []int64 // scratch

	out    Outcome
	minute minute
	digest hash.Hash
	line   []byte
}

// event is something that happens later.
type event struct {
	kind    eventKind
	pod     *pod
	machine *machine
	report  *facts.NodeReport
}

type eventKind uint8

const (
	evStart eventKind = iota + 1
	evGone
	evReport
)

func nodeName(i int) string { return "node-" + strconv.Itoa(i) }

// Play plays one variant. A cancelled context ends it early with an error.
func Play(ctx context.Context, o *Options, v *Variant) (*Outcome, error) {
	if err := o.validate(); err != nil {
		return nil, err
	}
	r, err := newRun(o, v)
	if err != nil {
		return nil, fmt.Errorf("play %s: %w", v.Name, err)
	}
	length := int64(o.Length / time.Second)
	for r.now = 0; r.now < length; r.now++ {
		if r.now%60 == 0 {
			if err := ctx.Err(); err != nil {
				return nil, err
			}
			r.newMinute()
		}
		r.second()
	}
	r.closeMinute()
	return r.finish(), nil
}

func newRun(o *Options, v *Variant) (*run, error) {
	config := spec.Default().Scheduling
	config.Seed = o.Seed
	if v.NoBudget {
		config.Evictions = spec.Evictions{PercentPerMinute: 100, Burst: 1 << 20}
	}
	scheduler, err := schedule.New(schedule.Options{Config: config})
	if err != nil {
		return nil, err
	}
	r := &run{
		o: o, v: v, model: cmp.Or(v.Model, &o.Model), scheduler: scheduler, byName: make(map[string]*machine), agenda: make(map[int64][]event),
		jobs: rand.New(rand.NewPCG(o.Seed, streamJobs)), fleet: rand.New(rand.NewPCG(o.Seed, streamFleet)),
		byUID: make(map[facts.UID]*pod), classes: make(map[shape]*facts.Requirements), waiting: make(map[shape]int),
		backlog: o.backlog(), requested: make([]uint64, o.Nodes), digest: sha256.New(), midnight: midnight(),
	}
	for i := range o.Jobs {
		r.weight += o.Jobs[i].Weight
	}
	r.out = Outcome{Name: v.Name, Mode: v.Mode, Nodes: o.Nodes}
	for i, l := range drawLoads(o) {
		object := &facts.Node{Name: nodeName(i), Allocatable: []resource.Quantity{
			{Name: resource.NameCPU, Amount: int64(o.Machine.CPUs()) * 1000},
			{Name: resource.NameMemory, Amount: o.Machine.Memory * int64(o.Machine.NUMANodes)},
			{Name: resource.NamePods, Amount: trace.PodsPerNode},
		}}
		r.tell(facts.NodeUpserted{Node: object})
		m := r.newMachine(i, l)
		r.machines = append(r.machines, m)
		r.byName[m.name] = m
	}
	return r, nil
}

func (r *run) tell(e facts.Event) { r.inbox = append(r.inbox, e) }

func (r *run) later(seconds int64, e event) {
	at := r.now + max(seconds, 1)
	r.agenda[at] = append(r.agenda[at], e)
}

// second lets a second pass: what is due, what machines do, what agents do, what the scheduler does.
func (r *run) second() {
	for _, e := range r.agenda[r.now] {
		switch e.kind {
		case evStart:
			r.start(e.pod)
		case evGone:
			r.gone(e.pod)
		case evReport:
			r.tell(facts.NodeReported{Node: e.machine.name, Report: e.report})
		}
	}
	delete(r.agenda, r.now)
	factor := r.surge()
	tick := int64(r.o.Tick / time.Second)
	for i, m := range r.machines {
		online, offline := m.node.Step(m.load.next(factor))
		r.minute.online += online
		r.minute.offline += offline
		r.ended(m)
		if m.agent != nil && (r.now+int64(i))%tick == 0 {
			r.tick(m)
		}
	}
	r.refill()
	r.pump()
}

// ended takes note of jobs that are done, or that the kernel has killed.
func (r *run) ended(m *machine) {
	r.ids = m.node.Done(r.ids[:0])
	for _, id := range r.ids {
		if p := m.pod(id); p != nil {
			r.done(p)
		}
	}
	r.ids = m.node.Killed(r.ids[:0])
	for _, id := range r.ids {
		if p := m.pod(id); p != nil {
			r.out.OOMKills++
			r.gone(p)
		}
	}
}

// surge is what all services want now, as a factor.
func (r *run) surge() float64 {
	at := time.Duration(r.now) * time.Second
	for _, s := range r.o.Together {
		if at >= s.At && at < s.At+s.For {
			return s.Factor
		}
	}
	return 1
}

// pump lets the scheduler do all that it can now.
func (r *run) pump() {
	now := time.Unix(r.now, 0).UTC()
	for busy := true; busy; {
		for i := 0; i < len(r.inbox); i++ {
			r.scheduler.Apply(r.inbox[i], now)
			r.inbox[i] = nil
		}
		r.inbox = r.inbox[:0]
		for _, result := range r.results {
			r.scheduler.Finish(result, now)
		}
		r.results = r.results[:0]
		decisions := r.scheduler.Step(now, stepLimit)
		writes := r.scheduler.Ready(now)
		for i := range writes {
			r.write(&writes[i])
		}
		busy = decisions > 0 || len(writes) > 0 || len(r.inbox) > 0
	}
}

// stepLimit is how many decisions are asked for at a time.
const stepLimit = 128

// write does what the scheduler wants written; it takes no time and does not fail: package sim plays with that.
func (r *run) write(w *bind.Write) {
	p := r.byUID[w.Pod]
	outcome := bind.Written
	switch {
	case p == nil:
		outcome = bind.Gone
	case w.Kind == bind.WriteBinding:
		r.bind(p, r.byName[w.Node])
	case w.Kind == bind.EvictPod || w.Kind == bind.DeletePod:
		r.evict(p)
	}
	r.results = append(r.results, bind.Result{ID: w.ID, Outcome: outcome})
}

// newMinute draws what goes by minutes: loads, bursts, agents that cannot be heard.
func (r *run) newMinute() {
	if r.now > 0 {
		r.closeMinute()
	}
	for _, m := range r.machines {
		if r.now > 0 && r.now%86400 == 0 {
			m.load.newDay()
		}
		m.load.newMinute(r.now)
		if m.agent != nil {
			r.hear(m)
		}
	}
}

// Agents that cannot be heard.
const (
	silenceEvery = 24 * 60 // minutes, in the mean
	silenceFor   = 150     // seconds
)

// hear lets an agent fall silent now and then, and has the scheduler notice.
func (r *run) hear(m *machine) {
	if m.load.rng.IntN(silenceEvery) == 0 {
		m.silentUntil = r.now + silenceFor
	}
	if r.now-m.heard > staleAfter && !m.stale && r.now >= staleAfter && !r.v.NoStaleness {
		m.stale = true
		m.said = facts.Headroom{State: facts.HeadroomStale}
		r.tell(facts.NodeReported{Node: m.name, Report: &facts.NodeReport{Headroom: m.said}})
	}
}

func (r *run) digestLine(what string, p *pod, m *machine) {
	r.line = append(r.line[:0], what...)
	r.line = append(r.line, ' ')
	r.line = append(r.line, p.name...)
	r.line = append(r.line, ' ')
	r.line = append(r.line, m.name...)
	r.line = strconv.AppendInt(append(r.line, ' '), r.now, 10)
	r.digest.Write(append(r.line, '\n'))
}

// finish sums up.
func (r *run) finish() *Outcome {
	out := &r.out
	var sum corun.Measured
	for _, m := range r.machines {
		n := m.node.Measured()
		sum.Seconds, sum.Late = sum.Seconds+n.Seconds, sum.Late+n.Late
		sum.Windows, sum.Missed = sum.Windows+n.Windows, sum.Missed+n.Missed
		sum.Online, sum.Offline, sum.Work = sum.Online+n.Online, sum.Offline+n.Offline, sum.Work+n.Work
		sum.Shed, sum.Offered = sum.Shed+n.Shed, sum.Offered+n.Offered
		sum.Stalls += n.Stalls
	}
	counted := (r.o.Length - r.o.WarmUp).Seconds()
	all := counted * float64(r.o.Machine.CPUs()*r.o.Nodes)
	out.OnlinePercent, out.OfflinePercent = 100*sum.Online/all, 100*sum.Offline/all
	out.UtilisationPercent = out.OnlinePercent + out.OfflinePercent
	out.SLOMissPercent = percent(sum.Missed, sum.Windows)
	out.SecondMissPercent = percent(sum.Late, sum.Seconds)
	out.OfflineCPUHours = sum.Work / 3600
	if sum.Work > 0 {
		out.LostPercent = 100 * out.lost / sum.Work
	}
	if sum.Offered > 0 {
		out.ShedPercent = 100 * sum.Shed / sum.Offered
	}
	out.StallSeconds = sum.Stalls
	out.PoolChangesPerNodeHour = float64(out.poolChanges) / float64(r.o.Nodes) / (counted / 3600)
	out.LocalStops = out.localStops
	counts, _ := r.scheduler.Relief()
	out.UrgentEvictions = int(counts.Urgent)
	fmt.Fprintf(r.digest, "%.6f %.6f %.6f", out.OnlinePercent, out.OfflinePercent, out.SLOMissPercent)
	out.Digest = hex.EncodeToString(r.digest.Sum(nil))
	for _, s := range out.Series {
		out.LentPercent += s.Lent / float64(len(out.Series))
	}
	return out
}

func percent(part, whole int64) float64 {
	if whole == 0 {
		return 0
	}
	return 100 * float64(part) / float64(whole)
}
