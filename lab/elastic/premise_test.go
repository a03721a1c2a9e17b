package elastic

import (
	"testing"
	"time"

	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/node/advise"
)

// premise is a node of the bed, with its two NUMA nodes, as the laws alone see it.
type premise struct {
	o      advise.Observation
	laws   advise.Params
	memory advise.State
	last   advise.Advice
}

func newPremise(o *Options) *premise {
	const percent, milli, threads = 100, 1000, 2
	config := spec.Default().Node
	p := &premise{laws: advise.Defaults()}
	p.laws.TargetUse, p.laws.ReclaimedFloor = float64(config.Lending.TargetUtilization)/percent, config.ReclaimedCores
	for _, reserved := range []int{*config.ReservedCores, 0} {
		p.o.NUMANodes = append(p.o.NUMANodes, advise.NUMANode{Divisible: (coresInNUMANode - reserved) * threads, Threads: threads, SharedRequests: advise.Known(onlinePods * onlineCPUs / 2)})
	}
	for range o.Queue {
		p.o.Reclaimed = append(p.o.Reclaimed, advise.Reclaimed{MilliCPU: int64(o.Cores) * milli})
	}
	return p
}

// pass lets the laws look once a second while online pods want so many CPUs. Pods have what is there, as in the model of package hollow.
func (p *premise) pass(wants, queueWants float64, during time.Duration) {
	for end := p.o.At + during; p.o.At < end; p.o.At += time.Second {
		p.o.Wall = time.Unix(0, 0).Add(p.o.At)
		shared, lent := 0, 0
		for i := range p.o.NUMANodes {
			z := &p.o.NUMANodes[i]
			shared, lent = shared+z.Divisible-z.Lent, lent+z.Lent
		}
		gets := min(wants, float64(shared))
		for i := range p.o.NUMANodes {
			z := &p.o.NUMANodes[i]
			part := float64(z.Divisible-z.Lent) / float64(shared)
			z.SharedUse, z.SharedDelay = advise.Known(gets*part), advise.Known((wants-gets)*part)
		}
		runs, pods := min(queueWants, float64(lent)), float64(len(p.o.Reclaimed))
		for i := range p.o.Reclaimed {
			p.o.Reclaimed[i].CPUUse, p.o.Reclaimed[i].RunDelay = advise.Known(runs/pods), advise.Known((queueWants-runs)/pods)
		}
		p.last = advise.Step(&p.o, &p.laws, &p.memory)
		for i, z := range p.last.NUMANodes {
			p.o.NUMANodes[i].Lent = z.Lend * p.o.NUMANodes[i].Threads
		}
	}
}

// The long form asks the laws for what they do with the settings that it has: the queue fits at the low load, and at the high one its pods starve
// until they are evicted. Other defaults may need another load.
func TestLongStarves(t *testing.T) {
	const milli = 1000
	o := Long()
	queue := float64(o.Queue * o.Cores)
	p := newPremise(&o)
	p.pass(o.Low*onlinePods*onlineCPUs, queue, learnedFor+o.Lend)
	offered := int64(0)
	for _, z := range p.last.NUMANodes {
		offered += z.CPU.Published
	}
	if offered < int64(queue)*milli {
		t.Errorf("at the low load %d millicores are offered, the queue wants %.0f CPUs", offered, queue)
	}
	p.pass(o.High*onlinePods*onlineCPUs, queue, o.Rise)
	if p.last.Suppression != advise.SuppressEvict {
		t.Errorf("at the high load nobody is evicted, but %v; lent are %d and %d CPUs", p.last.Suppression, p.o.NUMANodes[0].Lent, p.o.NUMANodes[1].Lent)
	}
}
