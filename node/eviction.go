package node

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strconv"
	"time"

	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/node/advise"
	"hilbert.dev/hilbert/node/allocate"
	"hilbert.dev/hilbert/node/evict"
	"hilbert.dev/hilbert/topology"
)

// eviction is the loop's part of eviction. Who has to go is asked for in the report; only past a hard mark, where nobody answers, is a pod stopped
// here.
type eviction struct {
	params   evict.Params
	state    evict.State
	decision evict.Decision
	told     map[string]bool      // pods that have had notice, by UID
	stopped  map[string]time.Time // pods that were stopped here, by UID: they are not started again before then
	stops    uint64
	answers  budgetAnswers
}

// answerWithin is how long an urgent request may go unanswered before a pod is stopped here. That a pod is leaving does not reach the agent, so it is as long
// as one that was evicted may take to end, and to free what it held. That a budget refuses does: see answers.
const answerWithin = 45 * time.Second

// disksEvery is how often the file systems are looked at.
const disksEvery = 10 * time.Second

// stepEviction runs the eviction manager on what was seen, and does what it says.
func (a *Agent) stepEviction(s *sensor, now time.Time) {
	r := &a.eviction
	a.pollStorage(now)
	o := s.evictionObservation(now)
	r.decision = evict.Step(&o, &r.params, &r.state)
	maps.DeleteFunc(r.stopped, func(_ string, until time.Time) bool { return now.After(until) })
	a.notifyPods(r.decision.Notices)
	do := r.effective()
	a.askBudgets(do.Requests, now)
	a.reclaim(do.Reclaims)
	if do.Stop != nil {
		a.stopPod(do.Stop, now)
	}
}

// effective is what is to be done of what was decided last: in a dry run nothing.
func (r *eviction) effective() *evict.Decision {
	if r.decision.DryRun {
		return &evict.Decision{}
	}
	return &r.decision
}

// notifyPods tells pods that they will have to go, once each.
func (a *Agent) notifyPods(notices []evict.Notice) {
	r := &a.eviction
	now := make(map[string]bool, len(notices))
	for i := range notices {
		n := &notices[i]
		if now[n.Pod.UID] = true; !r.told[n.Pod.UID] {
			a.note(PodName(n.Pod), allocate.Note{Reason: spec.ReasonEvictionNotice, Message: n.Message})
		}
	}
	r.told = now
}

// stopPod kills all that runs in a pod's cgroup, at one stroke. The kubelet would start it again; that is refused until the decision no longer
// stands.
func (a *Agent) stopPod(s *evict.Stop, now time.Time) {
	p := a.pods[s.Pod.UID]
	if p == nil || p.cgroup == "" {
		return
	}
	r := &a.eviction
	r.stopped[s.Pod.UID] = now.Add(r.params.Escalation.KeepStopped)
	r.stops++
	a.note(p.name, allocate.Note{Reason: spec.ReasonStopped, Message: s.Message})
	file := p.cgroup + "/cgroup.kill"
	a.work(func(context.Context) {
		if err := a.options.Kernel.Write(file, "1"); err != nil {
			a.post(func() { a.log.Error("a pod cannot be stopped", "pod", s.Pod.String(), "err", err) })
		}
	})
}

// startBarred says why a pod is not started: it was stopped here lately.
func (a *Agent) startBarred(uid string) error {
	if until, stopped := a.eviction.stopped[uid]; stopped {
		return errors.New("hilbert: " + spec.ReasonStopped + ": it was stopped for want of memory and is not started here before " + until.Format(time.RFC3339))
	}
	return nil
}

// stopsLending reports whether the eviction manager wants nothing more lent.
func (a *Agent) stopsLending() bool {
	return len(a.eviction.effective().NoLending) > 0
}

// closed says why the node takes no reclaimed pods; empty: it does.
func (a *Agent) closed() string {
	c := &a.eviction.effective().Closed
	if c.Reason == "" {
		return ""
	}
	return fmt.Sprintf("%s; until %s", c.Reason, a.started.Add(c.Until).UTC().Format(time.RFC3339))
}

// evictionObservation is what the eviction manager sees.
func (s *sensor) evictionObservation(now time.Time) evict.Observation {
	a, memory := s.agent, &s.seen.Node.Memory
	o := evict.Observation{
		At: s.out.At, Suppression: a.lending.advice.Suppression,
		Node: evict.Node{
			MemoryTotal: s.out.Node.MemoryTotal, MemoryAvailable: s.available(), MemorySome: s.out.Node.MemoryPressure,
			MemoryFull: s.memoryFull(), SwapTotal: bytesOf(memory.SwapTotal), SwapFree: bytesOf(memory.SwapFree),
			CPUPressure: a.lending.params.CPUPressure(&s.out),
		},
		API: a.apiState(),
	}
	for i := range s.out.Zones {
		z := &s.out.Zones[i]
		o.Zones = append(o.Zones, evict.Zone{Total: z.MemoryTotal, Free: z.MemoryFree, InactiveFile: z.InactiveFile})
	}
	o.Root, o.Images = a.disks.look(now)
	if images := a.storage.reading.Images(now); images != (evict.Disk{}) {
		o.Images = images
	}
	for _, uid := range sortedKeys(a.pods) {
		if pod, ok := s.evictionPod(uid); ok {
			pod.Root, pod.Images = a.storage.reading.Pod(uid, now)
			o.Pods = append(o.Pods, pod)
		}
	}
	return o
}

// available is what is left of the node's memory: the lesser of what the kernel says and what the kubelet reckons, for whom page cache in use is
// not to be had. So we see a shortage no later than it.
func (s *sensor) available() advise.Sample {
	out := s.out.Node.MemoryAvailable
	var sum float64
	for i := range s.out.Zones {
		z := &s.out.Zones[i]
		if !z.MemoryFree.Known || !z.InactiveFile.Known {
			return out
		}
		sum += z.MemoryFree.Value + z.InactiveFile.Value
	}
	if len(s.out.Zones) > 0 && sum < out.Value {
		out.Value = sum
	}
	return out
}

// apiState is whether what is requested can be heard.
func (a *Agent) apiState() evict.API {
	if a.ports.Report == nil {
		return evict.API{Unreachable: true}
	}
	if a.reporting.failing.IsZero() {
		return evict.API{Answers: a.eviction.answers.refusals()}
	}
	return evict.API{Unreachable: true, Since: a.reporting.failing.Sub(a.started)}
}

// memoryFull is the worst online pod's share of time in which all of its tasks waited for memory.
func (s *sensor) memoryFull() (out advise.Sample) {
	out = advise.Known(0)
	for uid, p := range s.agent.pods {
		if _, pool, ok := s.agent.manager.Pod(uid); ok && pool != spec.PoolReclaimed && pool != spec.PoolSystem {
			out = worst(out, rateOf(s.use(p.cgroup).MemoryPressure.Full.Avg10))
		}
	}
	return out
}

func (s *sensor) evictionPod(uid string) (out evict.Pod, ok bool) {
	p := s.agent.pods[uid]
	asked, pool, known := s.agent.manager.Pod(uid)
	if !known {
		return out, false
	}
	level := asked.QoS.Level
	if level == spec.QoSReclaimed && pool != spec.PoolReclaimed {
		level = spec.QoSShared // it was not treated as it asked, so it does not go as it asked either
	}
	use := s.use(p.cgroup)
	out = evict.Pod{
		Ref: evict.Ref(p.name), Level: level, Priority: p.priority, Started: p.since.Sub(s.agent.started),
		Memory: bytesOf(use.Memory.Current), RSS: plus(bytesOf(use.Memory.Anon), bytesOf(use.Memory.Shmem)),
		CPU: rateOf(use.CPU.Usage), RunDelay: s.runDelay(p),
	}
	if r := asked.Reclaimed; r != (spec.ReclaimedAmounts{}) {
		const milli = 1000
		out.MemoryAmount, out.CPUAmount = advise.Known(float64(r.MemoryMiB*topology.Mebibyte)), advise.Known(float64(r.MilliCPU)/milli)
	}
	for i := range s.out.Zones {
		out.Zones = append(out.Zones, s.heldIn(use, i))
	}
	return out, true
}

// priorityOf reads what the Binding says of a pod's priority; nothing is 0.
func priorityOf(annotations map[string]string) int32 {
	n, err := strconv.ParseInt(annotations[spec.AnnotationPriority], 10, 32)
	if err != nil {
		return 0
	}
	return int32(n)
}

// disks are the node's file systems, as they were looked at last.
type disks struct {
	read         func() (root, images evict.Disk)
	at           time.Time
	root, images evict.Disk
}

func (d *disks) look(now time.Time) (root, images evict.Disk) {
	if d.read != nil && now.Sub(d.at) >= disksEvery {
		d.at = now
		d.root, d.images = d.read()
	}
	return d.root, d.images
}
