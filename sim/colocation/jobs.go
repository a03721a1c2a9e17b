package colocation

import (
	"math"
	"slices"
	"strconv"

	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/cluster/facts"
	"hilbert.dev/hilbert/resource"
	"hilbert.dev/hilbert/sim/corun"
)

const namespace = "batch"

// job is a piece of offline work. It is a pod at a time; evicted, it starts over as another.
type job struct {
	id          int64
	kind        *JobKind
	demand      float64
	bandwidth   float64
	cache       float64
	memory      float64
	attempts    int
	lastEvicted int64
}

// pod is one attempt.
type pod struct {
	id       int64
	name     string
	uid      facts.UID
	job      *job
	node     *machine // nil while it waits
	started  int64
	running  bool
	deleting bool
}

// Chances and bounds of jobs.
const (
	jobLeast, jobSpread      = 0.75, 0.25 // of what it asks for it keeps busy 75 to 100 %
	bandwidthMid, bandwidthS = 1.2, 0.7   // GB/s by busy CPU: lognormal
	never                    = -1 << 40
)

// newJob draws a job of the trace.
func (r *run) newJob() *job {
	at := r.jobs.IntN(r.weight)
	k := 0
	for at >= r.o.Jobs[k].Weight {
		at -= r.o.Jobs[k].Weight
		k++
	}
	kind := &r.o.Jobs[k]
	r.jobID++
	return &job{
		id: r.jobID, kind: kind, lastEvicted: never,
		demand:    float64(kind.MilliCPU) / 1000 * (jobLeast + jobSpread*r.jobs.Float64()),
		bandwidth: min(max(bandwidthMid*math.Exp(bandwidthS*r.jobs.NormFloat64()), 0.3), 5),
		cache:     0.3 + 2.7*r.jobs.Float64(),
		memory:    float64(kind.MemoryBytes) * (0.5 + 0.45*r.jobs.Float64()),
	}
}

// submit makes a pod of a job.
func (r *run) submit(j *job) {
	r.podID++
	j.attempts++
	name := "job-" + strconv.FormatInt(j.id, 10) + "-" + strconv.Itoa(j.attempts)
	p := &pod{id: r.podID, name: name, uid: facts.UID(name), job: j}
	r.byUID[p.uid] = p
	r.pending++
	r.waiting[j.kind.shape()]++
	r.tellPod(p)
}

// shape is what the scheduler tells jobs apart by.
type shape struct{ cpu, memory int64 }

func (k *JobKind) shape() shape { return shape{k.MilliCPU, k.MemoryBytes} }

// refill keeps the backlog endless: so many pods wait, and of each shape no more than a part of them, lest one that fits nowhere is all that waits.
func (r *run) refill() {
	for tries := 0; r.pending < r.backlog && tries < 4*r.backlog; tries++ {
		j := r.newJob()
		if r.waiting[j.kind.shape()] < max(r.backlog/6, 4) {
			r.submit(j)
		}
	}
}

func (r *run) requirements(k *JobKind) *facts.Requirements {
	known := r.classes[k.shape()]
	if known == nil {
		known = &facts.Requirements{
			Requests: []resource.Quantity{
				{Name: spec.ResourceReclaimedCPU, Amount: k.MilliCPU}, {Name: spec.ResourceReclaimedMemory, Amount: k.MemoryBytes},
			},
			ScoreCPU: 100, ScoreMemory: 200 << 20, Reclaimed: true,
		}
		r.classes[k.shape()] = known
	}
	return known
}

// tellPod tells the scheduler how a pod is now.
func (r *run) tellPod(p *pod) {
	seen := facts.Pod{
		UID: p.uid, Namespace: namespace, Name: p.name, Created: p.id, Ours: true, Deleting: p.deleting, Requirements: r.requirements(p.job.kind),
	}
	if p.node != nil {
		seen.Node = p.node.name
	}
	r.tell(facts.PodUpserted{Pod: seen})
}

// Delays of pods, in seconds.
const (
	startLeast, startSpread = 2, 4
	graceLeast, graceSpread = 1, 10
)

// bind is a Binding that was written.
func (r *run) bind(p *pod, m *machine) {
	p.node = m
	r.pending--
	r.waiting[p.job.kind.shape()]--
	r.out.Placements++
	r.digestLine("bind", p, m)
	r.tellPod(p)
	r.later(startLeast+r.fleet.Int64N(startSpread), event{kind: evStart, pod: p})
}

func (r *run) start(p *pod) {
	if p.deleting || p.node == nil {
		return
	}
	j := p.job
	p.running, p.started = true, r.now
	p.node.known = append(p.node.known, p)
	p.node.node.Start(corun.Job{
		ID: p.id, MilliCPU: j.kind.MilliCPU, MemoryBytes: j.kind.MemoryBytes, Demand: j.demand, Work: j.kind.Seconds,
		Bandwidth: j.bandwidth, Cache: j.cache, Memory: j.memory,
	})
	r.runningJobs++
}

// done ends a pod whose work is done.
func (r *run) done(p *pod) {
	r.out.JobsDone++
	r.leave(p)
}

// leave forgets a pod.
func (r *run) leave(p *pod) {
	if p.running {
		p.node.known = slices.DeleteFunc(p.node.known, func(other *pod) bool { return other == p })
		r.runningJobs--
	}
	delete(r.byUID, p.uid)
	p.node = nil
	r.tell(facts.PodRemoved{UID: p.uid})
}

// evict asks a pod to go; it is given some time.
func (r *run) evict(p *pod) {
	if p.deleting || p.node == nil {
		return
	}
	p.deleting = true
	r.evicted(p)
	r.tellPod(p)
	r.later(graceLeast+r.fleet.Int64N(graceSpread), event{kind: evGone, pod: p})
}

// evicted counts an eviction.
func (r *run) evicted(p *pod) {
	r.out.Evictions++
	r.minute.evictions++
	if r.now-p.job.lastEvicted < repeatWithin {
		r.out.RepeatEvictions++
	}
	p.job.lastEvicted = r.now
	r.digestLine("evict", p, p.node)
}

// repeatWithin: a job that is evicted twice within these seconds has gained nothing by the first.
const repeatWithin = 600

// gone ends a pod that was evicted or killed; its job starts over.
func (r *run) gone(p *pod) {
	if p.node == nil {
		return
	}
	if had, ok := p.node.node.End(p.id); ok {
		r.out.lost += had * p.job.demand
	}
	j := p.job
	r.leave(p)
	r.submit(j)
}
