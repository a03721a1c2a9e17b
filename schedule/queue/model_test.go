package queue

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"hilbert.dev/hilbert/cluster"
	"hilbert.dev/hilbert/cluster/facts"
	"hilbert.dev/hilbert/cluster/quota"
	"hilbert.dev/hilbert/resource"
)

// model is the queue as one would write it without caring for speed: a list of units, which sorts everything by definition each time.
type model struct {
	store  *cluster.Store
	q      *Queue // only asked for what its histories count
	now    time.Time
	units  []*modelUnit
	early  map[facts.UID]bool // of pods that are no members of gangs
	parked map[shapeQueueKey]bool
	blocks map[shapeQueueKey]*modelBlock
	order  int
}

// shapeQueueKey names the units that are parked together.
type shapeQueueKey struct {
	queue     *quota.Queue
	namespace string // where namespaces share the queue
	shape     string
}

type modelUnit struct {
	gang  *cluster.Unit
	pods  map[facts.UID]*cluster.Pod
	known map[facts.UID]member // the pods as they were when they were added
	order int
	at    location
	until time.Time
	probe *modelBlock
	// refused: it is a gang that was tried in vain since room came last.
	refused bool

	// As it was when it was filed.
	key      shapeQueueKey
	need     int
	anchored bool
	facts    *facts.Unit
	priority int32
	created  int64
	size     float64
	ask      resource.List
}

type modelBlock struct {
	at     *quota.Queue
	eased  uint64
	lapsed bool
	probes int
}

func (m *model) unitOf(uid facts.UID) *modelUnit {
	for _, u := range m.units {
		if u.pods[uid] != nil {
			return u
		}
	}
	return nil
}

func (u *modelUnit) any() *cluster.Pod {
	return u.pods[slices.Min(slices.Collect(maps.Keys(u.pods)))]
}

func (u *modelUnit) queue() *quota.Queue { return u.any().Queue() }

// sorts is the policy in which a queue serves its own units.
func sorts(q *quota.Queue) facts.SortPolicy {
	if q.Facts == nil || q.Facts.Sort == facts.SortDefault {
		return facts.PriorityFIFO
	}
	return q.Facts.Sort
}

func fair(s facts.SortPolicy) bool { return s == facts.Fair || s == facts.FairHistory }

// describe works out what depends on the members.
func (m *model) describe(u *modelUnit) {
	u.need, u.anchored, u.priority, u.created = 1, false, u.any().Priority, u.any().Created
	for _, pod := range u.pods {
		u.priority, u.created = min(u.priority, pod.Priority), min(u.created, pod.Created)
	}
	if u.gang != nil {
		u.need = u.gang.Need()
		f := u.gang.Facts
		u.facts = f
		u.anchored = u.gang.Placed() > 0 && f != nil && (f.Topology != facts.Packing{} || f.SubgroupTopology != facts.Packing{})
	}
	u.key = shapeQueueKey{queue: u.queue(), shape: u.shape()}
	if fair(sorts(u.queue())) {
		u.key.namespace = u.any().Namespace
	}
	u.ask, u.size = nil, 0
	for kind := range resource.Kind(m.store.Kinds()) {
		var all []int64
		for _, pod := range u.pods {
			all = append(all, pod.Class.Charge.Get(kind))
		}
		slices.Sort(all)
		var sum int64
		for _, a := range all[:min(u.need, len(all))] {
			sum += a
		}
		if sum > 0 {
			u.ask = append(u.ask, resource.Amount{Kind: kind, Value: sum})
		}
	}
}

// sizeOf is what part of the cluster a unit asks for.
func (m *model) sizeOf(u *modelUnit) (size float64) {
	for _, a := range u.ask {
		if c := m.store.Quota().Capacity(a.Kind); c > 0 {
			size = max(size, float64(a.Value)/float64(c))
		}
	}
	return size
}

func (u *modelUnit) shape() string {
	if u.gang == nil {
		return fmt.Sprint("class ", u.any().Class.ID)
	}
	names := make(map[string]bool)
	count := make(map[string]int)
	for _, pod := range u.pods {
		names[pod.Subgroup] = true
	}
	sorted := slices.Sorted(maps.Keys(names))
	for _, pod := range u.pods {
		count[fmt.Sprint(slices.Index(sorted, pod.Subgroup), "/", pod.Class.ID)]++
	}
	text := fmt.Sprint("gang needs ", u.need, " of ", count)
	if f := u.gang.Facts; f != nil {
		text += fmt.Sprint(f.Topology, f.SubgroupTopology)
	}
	if u.anchored {
		text += u.gang.String()
	}
	return text
}

// members in the order in which they are placed.
func (u *modelUnit) members() []*cluster.Pod {
	return slices.SortedFunc(maps.Values(u.pods), func(a, b *cluster.Pod) int {
		return cmp.Or(cmp.Compare(a.Subgroup, b.Subgroup), cmp.Compare(a.Class.ID, b.Class.ID), cmp.Compare(b.Priority, a.Priority),
			cmp.Compare(a.Created, b.Created), cmp.Compare(a.UID, b.UID))
	})
}

func (m *model) add(pod *cluster.Pod) {
	u := m.unitOf(pod.UID)
	if u != nil && u.gang == nil && pod.Unit == nil && u.key.shape == u.shape() && u.priority == pod.Priority {
		return
	}
	if u != nil && u.gang != nil && u.gang == pod.Unit {
		if u.known[pod.UID] == memberOf(pod) {
			return
		}
		u.known[pod.UID] = memberOf(pod)
		m.withdraw(u)
		m.file(u)
		return
	}
	if u != nil {
		m.remove(pod.UID)
		u = nil
	}
	if pod.Unit != nil {
		for _, other := range m.units {
			if other.gang == pod.Unit {
				u = other
			}
		}
	}
	if u == nil {
		m.order++
		u = &modelUnit{gang: pod.Unit, pods: make(map[facts.UID]*cluster.Pod), known: make(map[facts.UID]member), order: m.order, at: inGathering}
		m.units = append(m.units, u)
	}
	m.withdraw(u)
	u.pods[pod.UID], u.known[pod.UID] = pod, memberOf(pod)
	m.file(u)
}

func (m *model) remove(uid facts.UID) {
	u := m.unitOf(uid)
	if u == nil {
		return
	}
	m.withdraw(u)
	m.drop(u, uid)
	if len(u.pods) > 0 {
		m.file(u)
	}
}

func (m *model) drop(u *modelUnit, uid facts.UID) {
	delete(u.pods, uid)
	if len(u.pods) == 0 {
		m.units = slices.DeleteFunc(m.units, func(other *modelUnit) bool { return other == u })
		m.answer(u, true)
	}
}

func (m *model) withdraw(u *modelUnit) {
	u.at = popped
	m.tidy()
}

// tidy forgets what is known of shape queues and quota blocks without units.
func (m *model) tidy() {
	inLines, inBlocks := make(map[shapeQueueKey]bool), make(map[shapeQueueKey]bool)
	for _, u := range m.units {
		switch u.at {
		case inShapeQueue:
			inLines[u.key] = true
		case inQuotaBlock:
			inBlocks[u.key] = true
		default:
		}
	}
	maps.DeleteFunc(m.parked, func(k shapeQueueKey, _ bool) bool { return !inLines[k] })
	maps.DeleteFunc(m.blocks, func(k shapeQueueKey, _ *modelBlock) bool { return !inBlocks[k] })
}

func (m *model) file(u *modelUnit) {
	m.describe(u)
	if !u.until.After(m.now) {
		u.until = time.Time{}
	}
	switch {
	case len(u.pods) < u.need:
		m.answer(u, true)
		u.at = inGathering
	case !u.until.IsZero():
		m.answer(u, true)
		u.at = inBackoff
	default:
		u.at = inShapeQueue
	}
}

func (m *model) answer(u *modelUnit, lapsed bool) {
	if u.probe != nil {
		u.probe.probes--
		u.probe.lapsed = u.probe.lapsed || lapsed
		u.probe = nil
	}
}

func (m *model) parkQuota(u *modelUnit, at *quota.Queue) {
	m.describe(u)
	if len(u.pods) < u.need {
		m.file(u)
		return
	}
	m.answer(u, u.gang != nil)
	block := m.blocks[u.key]
	if block == nil {
		block = &modelBlock{}
		m.blocks[u.key] = block
	}
	block.at, block.eased, u.at, u.refused = at, at.Eased(), inQuotaBlock, u.gang != nil
}

// sync wakes those for which limits leave room now.
func (m *model) sync(changed []*quota.Queue) {
	for key, block := range m.blocks {
		if !block.lapsed && !slices.Contains(changed, block.at) || block.eased == block.at.Eased() && !block.lapsed {
			continue
		}
		var waits []*modelUnit
		for _, u := range m.units {
			if u.at == inQuotaBlock && u.key == key {
				if u.refused = u.refused && block.eased == block.at.Eased(); !u.refused {
					waits = append(waits, u)
				}
			}
		}
		block.eased, block.lapsed = block.at.Eased(), false
		if len(waits) == 0 {
			continue
		}
		slices.SortFunc(waits, func(a, b *modelUnit) int { return m.compare(sorts(key.queue), a, b) })
		room := int64(1 << 30)
		for _, a := range waits[0].ask {
			if limit := block.at.Limit(a.Kind); limit != quota.Unlimited {
				room = min(room, max(limit-block.at.Used(a.Kind), 0)/a.Value)
			}
		}
		for _, u := range waits[:max(min(room-int64(block.probes), int64(len(waits))), 0)] {
			u.at, u.probe = inShapeQueue, block
			block.probes++
		}
	}
	m.tidy()
}

// rebuild puts the units into a new tree.
func (m *model) rebuild() {
	slept, woke := make(map[shapeQueueKey]bool), make(map[shapeQueueKey]bool)
	for _, u := range m.units {
		u.probe = nil
		was, same := m.parked[u.key], u.key.queue == u.queue()
		u.key.queue, u.key.namespace = u.queue(), ""
		if fair(sorts(u.queue())) {
			u.key.namespace = u.any().Namespace
		}
		switch {
		case u.at == inQuotaBlock:
			u.at = inShapeQueue
		case u.at == inShapeQueue && same && was:
			slept[u.key] = true
		case u.at == inShapeQueue && same:
			woke[u.key] = true
		}
	}
	maps.DeleteFunc(slept, func(k shapeQueueKey, _ bool) bool { return woke[k] })
	m.parked = slept
	clear(m.blocks)
}

func (m *model) expire(now time.Time) {
	m.now = now
	for _, u := range m.units {
		if u.at == inBackoff && !u.until.After(now) {
			u.until = time.Time{}
			m.file(u)
		}
	}
}

// compare orders units under a policy.
func (m *model) compare(s facts.SortPolicy, a, b *modelUnit) int {
	level := func(u *modelUnit) int {
		for _, pod := range u.pods {
			if !pod.Class.Reclaimed {
				return 0
			}
		}
		return 1
	}
	early := 0
	if x, y := a.gang == nil && m.early[a.any().UID], b.gang == nil && m.early[b.any().UID]; x && !y {
		early = -1
	} else if y && !x {
		early = 1
	}
	priority := cmp.Or(cmp.Compare(b.priority, a.priority), early, cmp.Compare(level(a), level(b)))
	age := cmp.Or(cmp.Compare(a.created, b.created), cmp.Compare(a.order, b.order))
	switch s {
	case facts.FIFO:
		return cmp.Or(early, age)
	case facts.SmallestFirst:
		return cmp.Or(early, cmp.Compare(m.sizeOf(a), m.sizeOf(b)), priority, age)
	default:
		return cmp.Or(priority, age)
	}
}

// sharer is one of those that a queue chooses between.
type sharer struct {
	name  string
	first *modelUnit
	below bool
	value float64
}

// next is the unit that a queue gives out; awake says whether those that are parked do not count.
func (m *model) next(q *quota.Queue, awake bool) *modelUnit {
	policy := q.Sort()
	if len(q.Children()) == 0 && q.Parent() != nil {
		return m.nextOwn(q, awake)
	}
	var list []sharer
	for _, child := range q.Children() {
		if u := m.next(child, awake); u != nil {
			s := m.share(child.Used, child.Guaranteed, child.Weight(), m.counted(q, m.q.tree.nodes[child]))
			s.name, s.first = child.Name, u
			list = append(list, s)
		}
	}
	if q.Parent() != nil {
		if u := m.nextOwn(q, awake); u != nil {
			s := m.share(func(k resource.Kind) (sum int64) {
				for _, t := range q.Tenants() {
					sum += t.Used(k)
				}
				return sum
			}, nothing, 1, m.counted(q, m.q.tree.leaves[q]))
			s.first = u
			list = append(list, s)
		}
	}
	return m.choose(policy, list)
}

func nothing(resource.Kind) int64 { return 0 }

func (m *model) counted(q *quota.Queue, n *node) float64 {
	if sorts(q) != facts.FairHistory || n == nil {
		return 0
	}
	return n.history.counted
}

func (m *model) share(used, guaranteed func(resource.Kind) int64, weight int64, history float64) sharer {
	most, dominant, any := -1.0, 0.0, false
	for k := range resource.Kind(m.store.Kinds()) {
		if guaranteed(k) > 0 {
			most = max(most, float64(used(k))/float64(guaranteed(k)))
		}
		if c := m.store.Quota().Capacity(k); c > 0 && (used(k) != 0 || guaranteed(k) != 0) {
			over := float64(used(k)-guaranteed(k)) / float64(c)
			if !any || over > dominant {
				dominant, any = over, true
			}
		}
	}
	if most >= 0 && most < 1 {
		return sharer{below: true, value: most}
	}
	return sharer{value: dominant/float64(weight) + history}
}

func (m *model) choose(policy facts.SortPolicy, list []sharer) *modelUnit {
	if len(list) == 0 {
		return nil
	}
	slices.SortFunc(list, func(a, b sharer) int {
		if !fair(policy) {
			return m.compare(policy, a.first, b.first)
		}
		if a.below != b.below {
			if a.below {
				return -1
			}
			return 1
		}
		return cmp.Or(cmp.Compare(a.value, b.value), strings.Compare(a.name, b.name))
	})
	return list[0].first
}

// nextOwn is the next of the units that are a queue's own.
func (m *model) nextOwn(q *quota.Queue, awake bool) *modelUnit {
	best := make(map[string]*modelUnit)
	for _, u := range m.units {
		if u.key.queue != q || u.at != inShapeQueue && (awake || u.at != inQuotaBlock) || awake && m.parked[u.key] {
			continue
		}
		if b := best[u.key.namespace]; b == nil || m.compare(sorts(q), u, b) < 0 {
			best[u.key.namespace] = u
		}
	}
	if !fair(sorts(q)) {
		return best[""]
	}
	var list []sharer
	for namespace, u := range best {
		s := m.share(u.any().Tenant().Used, nothing, 1, m.counted(q, m.q.tree.leaves[q].tenants[namespace]))
		s.name, s.first = namespace, u
		list = append(list, s)
	}
	return m.choose(facts.Fair, list)
}

// pop takes out the next unit.
func (m *model) pop() *modelUnit {
	for {
		u := m.next(m.store.Quota().Root(), true)
		if u == nil {
			return nil
		}
		m.withdraw(u)
		if !m.outdated(u) {
			return u
		}
		m.file(u)
	}
}

// outdated describes a unit anew and reports whether what it was filed by has changed.
func (m *model) outdated(u *modelUnit) bool {
	if u.gang == nil {
		return false
	}
	need, anchored, seen := u.need, u.anchored, u.facts
	m.describe(u)
	return need != u.need || anchored != u.anchored || seen != u.facts
}

func (m *model) refresh(gang *cluster.Unit) {
	for _, u := range m.units {
		if u.gang == gang && u.at != popped {
			if was := *u; m.outdated(u) {
				u.key = was.key
				m.withdraw(u)
				m.file(u)
			}
			return
		}
	}
}
