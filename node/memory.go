package node

import (
	"cmp"
	"path"
	"slices"
	"strconv"
	"time"

	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/node/advise"
	"hilbert.dev/hilbert/node/enforce"
	"hilbert.dev/hilbert/node/evict"
	"hilbert.dev/hilbert/node/observe"
	"hilbert.dev/hilbert/node/shrink"
	"hilbert.dev/hilbert/topology"
)

// memory is the loop's part of memory control.
type memory struct {
	params   advise.MemoryParams
	state    advise.MemoryState
	advice   advise.MemoryAdvice
	shrinker *shrink.Shrinker
	gauge    *shrink.Gauge
	// shrunk is what came of the last request, by the cgroup's directory.
	shrunk map[string]advise.ReclaimResult
	// groups are what the kernel says of the cgroups that protect online pods, as read at grouped.
	groups  []advise.MemoryGroup
	grouped time.Time
	limits  map[string]advise.MemoryLimit // of reclaimed pods, by directory
}

// groupsEvery is how often the files of memory protection are read: they change when pods come and go.
const groupsEvery = 10 * time.Second

func newMemory(kernel enforce.Kernel, told func(shrink.Result)) memory {
	m := memory{params: advise.DefaultMemoryParams(), shrunk: make(map[string]advise.ReclaimResult), limits: make(map[string]advise.MemoryLimit)}
	m.gauge = shrink.NewGauge(kernel, m.params.Pressure)
	m.shrinker = shrink.New(kernel, shrink.Defaults(), m.gauge.High, told)
	return m
}

// shrank takes what came of a request.
func (a *Agent) shrank(r shrink.Result) {
	a.memory.shrunk[r.Cgroup] = advise.ReclaimResult{
		Asked: r.Bytes, Got: r.Got, Ended: time.Since(a.started), Cut: r.Outcome == shrink.Pressed || r.Outcome == shrink.Stopped,
	}
	if r.Err != nil {
		a.log.Warn("memory cannot be reclaimed", "cgroup", r.Cgroup, "outcome", r.Outcome, "err", r.Err)
	}
}

// steerMemory runs the memory laws on what was seen, and asks for what they want reclaimed. Limits and protection become knobs; it reports
// whether those have changed.
func (a *Agent) steerMemory(s *sensor, now time.Time) (changed bool) {
	m := &a.memory
	before := m.advice
	o := s.memory(now)
	var online []string
	for i := range o.Pods {
		if !o.Pods[i].Reclaimed {
			online = append(online, o.Pods[i].Dir)
		}
	}
	m.gauge.Watch(online)
	m.advice = advise.StepMemory(&o, &m.params, &m.state)
	clear(m.limits)
	for _, l := range m.advice.Limits {
		m.limits[l.Dir] = l
	}
	for _, ask := range m.advice.Reclaims {
		a.shrink(shrink.Request{ID: string(ask.Why), Cgroup: ask.Dir, Bytes: ask.Bytes, FileOnly: ask.FileOnly})
	}
	for dir := range m.shrunk { // only of pods that are here
		if !slices.ContainsFunc(o.Pods, func(p advise.MemoryPod) bool { return p.Dir == dir }) {
			delete(m.shrunk, dir)
		}
	}
	moves := before.Move != m.advice.Move && (before.Move == nil || m.advice.Move == nil || *before.Move != *m.advice.Move)
	return moves || !slices.Equal(before.Limits, m.advice.Limits) || !slices.Equal(before.Lows, m.advice.Lows)
}

// shrink has memory reclaimed. What is not taken now is asked for again by whoever still wants it.
func (a *Agent) shrink(r shrink.Request) {
	if err := a.memory.shrinker.Ask(r); err != nil {
		a.log.Debug("not reclaimed", "err", err)
	}
}

// memory is what the memory laws see.
func (s *sensor) memory(now time.Time) advise.MemoryObservation {
	node := &s.seen.Node.Memory
	o := advise.MemoryObservation{
		At: s.out.At, Total: bytesOf(node.Total), Free: bytesOf(node.Free), SwapTotal: bytesOf(node.SwapTotal), SwapFree: bytesOf(node.SwapFree),
		OnlinePressure: s.out.Node.MemoryPressure, Recursive: s.agent.options.Recursive,
	}
	o.Headroom.Known = len(s.agent.lending.advice.Zones) == len(s.out.Zones)
	for z, advice := range s.agent.lending.advice.Zones {
		if z < len(s.out.Zones) {
			zone, headroom := &s.out.Zones[z], runningHeadroom(&advice.Memory)
			o.Headroom.Value += headroom.Value
			o.Headroom.Known = o.Headroom.Known && headroom.Known
			o.Zones = append(o.Zones, advise.MemoryZone{Total: zone.MemoryTotal, Free: zone.MemoryFree, Headroom: headroom})
		}
	}
	for _, uid := range sortedKeys(s.agent.pods) {
		if pod, ok := s.memoryPod(uid); ok {
			o.Pods = append(o.Pods, pod)
		}
	}
	slices.SortFunc(o.Pods, func(x, y advise.MemoryPod) int { return cmp.Compare(x.ID, y.ID) })
	o.Groups = s.agent.memoryGroups(o.Pods, now)
	return o
}

// runningHeadroom is what those who run may hold: what the law finds now. What is published rises late, and is nothing for minutes after a start; that keeps
// newcomers away, and must take nothing from who is here.
func runningHeadroom(h *advise.Headroom) advise.Sample {
	return advise.Sample{Value: float64(h.Now), Known: h.Reason != advise.BoundByMissing}
}

func (s *sensor) memoryPod(uid string) (out advise.MemoryPod, ok bool) {
	p := s.agent.pods[uid]
	asked, pool, known := s.agent.manager.Pod(uid)
	if !known || pool == spec.PoolSystem || p.cgroup == "" {
		return out, false
	}
	use := s.use(p.cgroup)
	const pageSize = 4096
	refaults := plus(rateOf(use.Memory.RefaultAnon), rateOf(use.Memory.RefaultFile))
	out = advise.MemoryPod{
		ID: p.name.Namespace + "/" + p.name.Name, Dir: p.cgroup, Reclaimed: pool == spec.PoolReclaimed, Zone: advise.AnyZone,
		Current: bytesOf(use.Memory.Current), Anon: bytesOf(use.Memory.Anon),
		InactiveFile: bytesOf(use.Memory.InactiveFile), ActiveFile: bytesOf(use.Memory.ActiveFile),
		Pressure:   rateOf(use.MemoryPressure.Some.Avg10),
		Refaults:   advise.Sample{Value: refaults.Value * pageSize, Known: refaults.Known},
		Reclaiming: s.agent.memory.shrinker.Busy(p.cgroup), Last: s.agent.memory.shrunk[p.cgroup],
	}
	if out.Reclaimed {
		out.Amount = asked.Reclaimed.MemoryMiB * topology.Mebibyte
	}
	for i := range s.out.Zones {
		zone := s.zoneOf(use, i)
		out.Zones = append(out.Zones, advise.MemoryShare{Anon: bytesOf(zone.Anon), File: bytesOf(zone.File)})
	}
	if out.Reclaimed {
		out.SwapRoom = s.swapRoom(p)
		return out, true
	}
	if asked.MemoryLimit > 0 {
		out.Limit = advise.Known(float64(asked.MemoryLimit))
	}
	for _, id := range sortedKeys(p.containers) {
		c := p.containers[id]
		if c.cgroup == "" || !c.exists {
			continue
		}
		use := s.use(c.cgroup)
		out.Containers = append(out.Containers, advise.MemoryContainer{
			Dir: c.cgroup, Request: s.memoryRequest(c), Current: bytesOf(use.Memory.Current), InactiveFile: bytesOf(use.Memory.InactiveFile),
		})
	}
	return out, true
}

// swapRoom is what a pod may yet swap, read as rarely as the groups.
func (s *sensor) swapRoom(p *pod) advise.Sample {
	m := &s.agent.memory
	if p.swapLooked != m.grouped {
		p.swapLooked, p.swapRoom = m.grouped, shrink.SwapRoom(s.agent.options.Kernel, p.cgroup, p.cgroups())
	}
	return p.swapRoom
}

// The kubelet's scores: what a Guaranteed container has at most, and the least and the most of a Burstable one.
const guaranteedScore, leastScore, mostScore = 2, 3, 999

// memoryRequest is what a container asked for, in bytes. The runtime is told limits alone; but the kubelet makes a Burstable container's
// oom_score_adj of its part of the node's memory, in thousandths, and a Guaranteed one's request is its limit.
func (s *sensor) memoryRequest(c *container) int64 {
	total := bytesOf(s.seen.Node.Memory.Total)
	switch {
	case c.score == nil:
		return 0
	case *c.score <= guaranteedScore:
		return c.memoryLimit
	case *c.score >= mostScore || *c.score == leastScore || !total.Known:
		return 0
	}
	const thousandths = 1000
	return int64(total.Value) / thousandths * int64(thousandths-*c.score)
}

// memoryGroups are what the kernel says of the cgroups of online pods, and of those above them.
func (a *Agent) memoryGroups(pods []advise.MemoryPod, now time.Time) []advise.MemoryGroup {
	m := &a.memory
	if now.Sub(m.grouped) < groupsEvery {
		return m.groups
	}
	m.grouped, m.groups = now, nil
	seen := make(map[string]bool)
	add := func(dir string) {
		for ; dir != "" && dir != "." && !seen[dir]; dir = path.Dir(dir) {
			seen[dir] = true
		}
	}
	for i := range pods {
		if pods[i].Reclaimed {
			continue
		}
		add(pods[i].Dir)
		for _, c := range pods[i].Containers {
			add(c.Dir)
		}
	}
	m.groups = shrink.Groups(a.options.Kernel, sortedKeys(seen))
	return m.groups
}

// memoryKnobs are the knobs of memory control: limits, which may wait for the kernel to reclaim, and protection.
func (a *Agent) memoryKnobs() (fast, slow []desiredKnob) {
	for _, uid := range sortedKeys(a.pods) {
		pod := a.pods[uid]
		p, ok := a.placement(pod)
		if !ok || !pod.bestEffort || pod.cgroup == "" || p.MemoryMax == 0 && p.Pool != spec.PoolReclaimed {
			continue
		}
		limit := a.memory.limits[pod.cgroup]
		if most := cmp.Or(limit.Max, p.MemoryMax); most > 0 {
			slow = append(slow, desiredKnob{enforce.Knob{Cgroup: pod.cgroup, File: enforce.MemoryMax}, bytesValue(most)})
		}
		if limit.High > 0 {
			slow = append(slow, desiredKnob{enforce.Knob{Cgroup: pod.cgroup, File: enforce.MemoryHigh}, bytesValue(limit.High)})
		}
	}
	for _, low := range a.memory.advice.Lows {
		fast = append(fast, desiredKnob{enforce.Knob{Cgroup: low.Dir, File: enforce.MemoryLow}, bytesValue(low.Bytes)})
	}
	return fast, slow
}

func bytesValue(bytes int64) string {
	if bytes == advise.Unlimited {
		return "max"
	}
	return strconv.FormatInt(bytes, 10)
}

// moved is the NUMA node that a pod's memory is being moved to; it says so only while that is advised.
func (a *Agent) moved(cgroup string) (mems string, ok bool) {
	move := a.memory.advice.Move
	if move == nil || move.Dir != cgroup {
		return "", false
	}
	return strconv.Itoa(a.options.Machine.NUMA[move.To].ID), true
}

// reclaim does what the eviction manager wants taken from pods before it wants them gone.
func (a *Agent) reclaim(orders []evict.Reclaim) {
	for i := range orders {
		if p := a.pods[orders[i].Pod.UID]; p != nil && p.cgroup != "" {
			a.shrink(shrink.Request{ID: orders[i].Reason.String(), Cgroup: p.cgroup, Bytes: orders[i].Bytes})
		}
	}
}

// use is what was seen of a cgroup; nothing is known of one that was not.
func (s *sensor) use(dir string) *observe.CgroupUse {
	if use := s.cgroups[dir]; use != nil {
		return use
	}
	return &observe.CgroupUse{}
}

// heldIn is what a cgroup holds in the zone of an index, page cache included, in bytes.
func (s *sensor) heldIn(use *observe.CgroupUse, zone int) advise.Sample {
	has := s.zoneOf(use, zone)
	return plus(bytesOf(has.Anon), bytesOf(has.File))
}

// zoneOf is what a cgroup has in the zone of an index.
func (s *sensor) zoneOf(use *observe.CgroupUse, zone int) observe.CgroupZone {
	if id := s.machine.NUMA[zone].ID; id < len(use.Memory.Zones) {
		return use.Memory.Zones[id]
	}
	return observe.CgroupZone{}
}
