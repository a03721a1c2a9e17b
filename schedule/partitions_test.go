package schedule

import (
	"fmt"
	"testing"
	"time"

	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/cluster/facts"
	"hilbert.dev/hilbert/resource"
)

// divided is a cluster whose schedulers, in its process or in others, follow the rules by load.
type divided struct {
	t    *testing.T
	s    *Scheduler
	e    *elsewhere // nil: they are in its process
	now  time.Time
	next int // pod
}

const (
	dividedNodes      = 60
	dividedSchedulers = 3
)

func newDivided(t *testing.T, outside bool, p spec.Partitions) *divided {
	t.Helper()
	cfg := spec.Default().Scheduling
	cfg.Partitions = p
	if !outside {
		cfg.Schedulers = dividedSchedulers
	}
	s, err := New(Options{Config: cfg})
	if err != nil {
		t.Fatal(err)
	}
	d := &divided{t: t, s: s, now: time.Unix(0, 0)}
	for i := range dividedNodes {
		s.Apply(facts.NodeUpserted{Node: &facts.Node{
			Name: fmt.Sprintf("n%02d", i), Allocatable: []resource.Quantity{{Name: resource.NameCPU, Amount: 10_000}, {Name: resource.NamePods, Amount: 100}},
		}}, d.now)
	}
	if outside {
		s.Outside().Begin("a/1")
		d.e = newElsewhere(t, s)
		for range dividedSchedulers {
			d.e.join(d.now)
		}
	}
	d.pass(time.Second)
	return d
}

// come has pods come that want so many milliCPUs each.
func (d *divided) come(pods, milliCPU int) {
	for range pods {
		requests := []resource.Quantity{{Name: resource.NameCPU, Amount: int64(milliCPU)}}
		d.s.Apply(facts.PodUpserted{Pod: facts.Pod{
			UID: facts.UID(fmt.Sprint(d.next)), Name: fmt.Sprint(d.next), Namespace: "default", Ours: true, NeverPreempts: true, Created: int64(d.next),
			Requirements: &facts.Requirements{Requests: requests, ScoreCPU: int64(milliCPU)},
		}}, d.now)
		d.next++
	}
}

// leave has all pods leave.
func (d *divided) leave() {
	for i := range d.next {
		d.s.Apply(facts.PodRemoved{UID: facts.UID(fmt.Sprint(i))}, d.now)
	}
}

// pass lets time pass, a second at a time.
func (d *divided) pass(of time.Duration) {
	for range of / time.Second {
		for range 30 {
			turn(d.s, d.now)
			if d.e != nil {
				d.e.follow(d.now)
				d.e.deliver(d.now)
			}
		}
		d.now = d.now.Add(time.Second)
	}
}

// check wants so many partitions, which every scheduler knows of that has decided since.
func (d *divided) check(when string, want int) {
	d.t.Helper()
	c := d.s.Partitions()
	if c.Partitions != want {
		d.t.Fatalf("%s: %+v, want %d partitions", when, c, want)
	}
	own := make(map[uint8]bool)
	see := func(in *instance) {
		if in.divided != (want > 1) {
			d.t.Errorf("%s: scheduler %d has a partition of its own: %t, and there are %d", when, in.number, in.divided, want)
		}
		own[in.part] = true
	}
	if d.e == nil {
		for _, w := range d.s.sharing.workers.list {
			see(w.instance)
		}
	} else {
		for _, o := range d.s.sharing.outsiders.list {
			see(o.instance)
			if o.division == d.s.partitions.division { // it was told with what it decided on last
				see(d.e.streams[o.id].follower.worker.instance)
			}
		}
	}
	if want > 1 && len(own) != want {
		d.t.Errorf("%s: there are %d partitions, and schedulers decide in %v", when, want, own)
	}
}

// busy has pods come and go for a while of which a node takes one: schedulers that see all nodes want the same. It returns how many Plans were rejected.
func (d *divided) busy(of time.Duration) (rejected int) {
	before := d.s.Workers().Rejected
	for range of / time.Second {
		d.come(150, 6000)
		d.pass(time.Second)
		d.leave()
	}
	return d.s.Workers().Rejected - before
}

// TestPartitionsFollowTheLoad shows each rule by load, with schedulers in one process and in others: what divides the nodes, for how long that must be so, what unites them again, and what does
// neither. While the nodes are not divided, the schedulers decide all the same.
func TestPartitionsFollowTheLoad(t *testing.T) {
	rules := spec.Default().Scheduling.Partitions
	rules.When, rules.MergeAfter, rules.SplitPodsPerSecond, rules.MergePodsPerSecond = spec.PartitionsByLoad, spec.Duration(time.Minute), 50, 20
	full := 950 * dividedNodes / 100 // pods of a CPU that fill 95 %
	for _, outside := range []bool{false, true} {
		t.Run(map[bool]string{false: "in one process", true: "in processes of their own"}[outside], func(t *testing.T) {
			d := newDivided(t, outside, rules)
			d.check("an empty cluster", 1)
			d.come(full, 1000)
			d.pass(15 * time.Second)
			if c := d.s.Workers(); c.Committed < full/2 {
				t.Errorf("nobody but the leader decides while the nodes are not divided: %+v", c)
			}
			d.check("full, and not for long", 1)
			d.pass(40 * time.Second)
			d.check("full", dividedSchedulers)
			d.leave()
			d.come(full*90/100, 1000) // 86 %: between the limits
			d.pass(5 * time.Minute)
			d.check("less full, and not by enough", dividedSchedulers)
			d.leave()
			d.pass(30 * time.Second)
			d.check("empty, and not for long", dividedSchedulers)
			d.pass(2 * time.Minute)
			d.check("empty", 1)
			without := d.busy(20 * time.Second)
			d.check("many Plans are rejected, and not for long", 1)
			d.busy(40 * time.Second)
			d.check("many Plans are rejected", dividedSchedulers)
			with := d.busy(20 * time.Second)
			if t.Logf("%d Plans were rejected without partitions, %d with them", without, with); with > without*2/3 {
				t.Errorf("partitions do not help")
			}
			d.busy(2 * time.Minute)
			d.check("few are, for there are partitions", dividedSchedulers)
			d.leave()
			d.pass(2 * time.Minute)
			d.check("quiet", 1)
			if c := d.s.Partitions(); c.Splits != 2 || c.Merges != 2 {
				t.Errorf("it flaps: %+v", c)
			}
			if err := d.s.Verify(); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestPartitionsAlways: without these rules there are partitions from the beginning.
func TestPartitionsAlways(t *testing.T) {
	for _, outside := range []bool{false, true} {
		newDivided(t, outside, spec.Default().Scheduling.Partitions).check("at once", dividedSchedulers)
	}
}

// TestLastSchedulerSeesAllNodes: of two schedulers elsewhere the first leaves; the other one, whose partition was another, has all nodes then.
func TestLastSchedulerSeesAllNodes(t *testing.T) {
	d := newDivided(t, true, spec.Default().Scheduling.Partitions)
	for id, x := range d.e.streams {
		if x.follower.worker.part < dividedSchedulers-1 {
			d.s.Outside().Leave(id, d.now)
			delete(d.e.streams, id)
		}
	}
	d.come(100, 1000)
	d.pass(time.Second)
	d.check("one is left", 1)
	if c := d.s.Workers(); c.Elsewhere > 0 || c.Committed != 100 {
		t.Errorf("it finds no room where all nodes have some: %+v", c)
	}
}
