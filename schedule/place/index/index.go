package index

import (
	"maps"

	"hilbert.dev/hilbert/cluster"
	"hilbert.dev/hilbert/cluster/changes"
	"hilbert.dev/hilbert/schedule/place/rules"
	"hilbert.dev/hilbert/topology"
)

// Index keeps all nodes of one snapshot in order, for each class of pods that was asked about lately. It protects the rest of place from
// two things: from asking every node on each decision, and from knowing how that is avoided. Asked for a class, it answers with the best node
// of the whole cluster (Place), with how many pods of it fit on each node and in each domain (Capacity), or with a scorer of some nodes only
// (DomainScorer).
//
// It keeps a forest that serves pods of all sizes. What is asked about again and again has an order of its own: a ranking for a size of pod, a
// classIndex for a class that a ranking cannot serve, and a Capacity for each size and selection that units ask about; at most maxIndexes of each, and the
// least recently used one makes room. Each follows the snapshot's log of
// changes from a cursor of its own, so that no other code has to inform it.
//
// Example: 20,000 nodes, and a pod that asks for 2 CPUs. The forest looks at some pages of six nodes. The pod is assumed on n7, which is one
// entry of the log; the next decision moves n7 alone to another page. When pods of 2 CPUs keep coming they get a ranking, and each takes the top of a heap.
type Index struct {
	snapshot   *cluster.Snapshot
	profile    *rules.Profile
	ties       ties
	maxIndexes int

	indexes        map[cluster.ClassID]*classIndex
	rankings       map[string]*ranking
	rankingByClass map[cluster.ClassID]*ranking // of classes seen lately
	nodeClasses    *nodeClasses
	uses           uint64 // counts uses, for the least recently used one
	looked         int    // see Looked
	scratch        []byte

	maxCoarse  int
	maxHolders int
	// Scratch of a decision.
	stats       rules.FeasibleStats
	exceptions  []exception
	exceptionIn []uint32 // by slot: the decision in which it was an exception
	decision    uint32
	positions   []int

	excepted   []cluster.Slot
	holding    []cluster.Slot // nodes with images of the class
	imageIn    []uint32       // by slot: the decision in which it was one of these
	imageSum   []int64
	images     map[string]*imageHolders
	own        map[string]*ownSelection
	dense      denseColumn
	scan       scan
	search     search
	pins       []cluster.Slot
	few        DomainScorer
	sizeUsage  usage[string]
	classUsage usage[cluster.ClassID]

	givenUses *int

	epoch uint32
	seen  []uint32 // by slot: the epoch in which it was last stamped

	partitions      map[string]*Partition
	capacities      map[string]*Capacity
	capacityByClass map[cluster.ClassID]*Capacity // of classes seen lately
}

// New returns an Index of the snapshot's nodes. The seed orders nodes of equal score; maxIndexes bounds the memory (16 bytes a slot, 4 a
// feasible node, each).
func New(snapshot *cluster.Snapshot, profile *rules.Profile, seed uint64, maxIndexes int) *Index {
	return &Index{
		snapshot: snapshot, profile: profile, ties: ties{seed: seed}, maxIndexes: max(maxIndexes, 1),
		indexes: make(map[cluster.ClassID]*classIndex), rankings: make(map[string]*ranking),
		rankingByClass: make(map[cluster.ClassID]*ranking), nodeClasses: newNodeClasses(), maxCoarse: maxCoarseDomains, maxHolders: maxHolders,
		images: make(map[string]*imageHolders), dense: denseColumn{states: rules.NewGPUStates(profile)}, own: make(map[string]*ownSelection),
		sizeUsage: make(usage[string]), classUsage: make(usage[cluster.ClassID]),
	}
}

// SetMaxCoarseDomains sets how many domains a topology key may have before an index follows it count by count instead of domain by domain. Either
// way is exact; tests choose it, to have both ways tried on small clusters. It must be called before the first decision.
func (ix *Index) SetMaxCoarseDomains(domains int) { ix.maxCoarse = domains }

// SetMaxHolders sets how many nodes may have pods of a softly spread class while that class still shares a ranking. Either way is exact; tests
// choose it. It must be called before the first decision.
func (ix *Index) SetMaxHolders(nodes int) { ix.maxHolders = nodes }

// SetMaxNodeClasses sets how many node classes are shared. Either way is exact; tests choose it. It must be called before the first decision.
func (ix *Index) SetMaxNodeClasses(classes int) { ix.nodeClasses.most = classes }

// SetUsesBeforeIndex sets how often in a row a size or a class is asked about before it gets an index of its own. Either way is exact; tests choose it. It
// must be called before the first decision.
func (ix *Index) SetUsesBeforeIndex(uses int) { ix.givenUses = &uses }

// SetMaxGPUStates sets how many states of GPUs are told apart. Any number is exact; tests choose it. It must be called before the first decision.
func (ix *Index) SetMaxGPUStates(states int) { ix.dense.states.SetMost(states) }

// GPUStates returns what the bounds of GPU states have done.
func (ix *Index) GPUStates() rules.GPUStateCounts { return ix.dense.states.Counts() }

// Snapshot is what the Index is of.
func (ix *Index) Snapshot() *cluster.Snapshot { return ix.snapshot }

// MaxIndexes is how many classes it can keep each of its orders for.
func (ix *Index) MaxIndexes() int { return ix.maxIndexes }

// Profile is what the Index orders nodes by.
func (ix *Index) Profile() *rules.Profile { return ix.profile }

// Tie is a node's place among nodes of equal score; the greater is preferred.
func (ix *Index) Tie(slot cluster.Slot) uint32 { return ix.ties.of(ix.snapshot, slot) }

// Choice is where a pod should go.
type Choice struct {
	Slot  cluster.Slot
	Grant topology.Grant
}

// Place returns the best node for a pod of the class, of all nodes. ok is false when none fits.
func (ix *Index) Place(c *cluster.Class) (Choice, bool) {
	slot, ok := ix.best(c)
	if !ok {
		return Choice{Slot: cluster.NoSlot}, false
	}
	return ix.Choose(slot, c), true
}

// Divide divides the nodes into partitions, by slot, for PlaceIn; nil: not. Where that would make too many node classes the nodes are not divided.
func (ix *Index) Divide(parts []uint8) { ix.nodeClasses.divide(parts) }

// Confine divides the nodes as Divide does, and has the Index know those of one partition alone: it costs a part of the memory, and of the time to follow changes. Then
// only PlaceIn of that partition may be asked.
func (ix *Index) Confine(parts []uint8, part uint8) { ix.nodeClasses.confine(parts, part) }

// PlaceIn returns the best node of a partition for a pod of the class, as if there were no others. ok is false when none fits, or when the class's place is
// not decided by node classes: where it names its nodes, depends on other pods, or tells nodes apart too finely.
func (ix *Index) PlaceIn(part uint8, c *cluster.Class) (Choice, bool) {
	slot, ok := ix.bestIn(part, c)
	if !ok {
		return Choice{Slot: cluster.NoSlot}, false
	}
	return ix.Choose(slot, c), true
}

// Choose is the choice of a node where a pod of the class fits.
func (ix *Index) Choose(slot cluster.Slot, c *cluster.Class) Choice {
	choice := Choice{Slot: slot}
	if c.AsksGrant() {
		choice.Grant, _ = ix.snapshot.Offer(slot, c)
	}
	return choice
}

// Looked is how many nodes were looked at since it was last asked, by passes over all of them: to build an order, or for one decision. What an order
// follows of changes is not among them.
func (ix *Index) Looked() int {
	looked := ix.looked
	ix.looked = 0
	return looked
}

// usesBetweenDrops is how often the Index is used between two times that it drops orders.
const usesBetweenDrops = 64

// dropOutdated drops the orders that would have to be built again if they were asked for, because more has changed than there are nodes. So the memory
// of classes that are gone comes back.
func (ix *Index) dropOutdated() {
	now, most := ix.snapshot.Log().Len(), changes.Revision(ix.snapshot.Slots())
	maps.DeleteFunc(ix.indexes, func(_ cluster.ClassID, x *classIndex) bool { return now-x.cursor > most })
	kept := len(ix.rankings)
	maps.DeleteFunc(ix.rankings, func(_ string, r *ranking) bool { return now-r.cursor > most })
	if len(ix.rankings) < kept {
		clear(ix.rankingByClass)
	}
}

// best returns the best node: of those that the class names, by its own index, by the ranking of its size, or by a scan.
func (ix *Index) best(c *cluster.Class) (cluster.Slot, bool) {
	ix.beginDecision()
	if slots, ok := ix.pinned(c); ok {
		return ix.bestOf(slots, c)
	}
	if c.Claims.HasAlternatives() {
		return ix.bestOf(ix.allSlots(), c)
	}
	s := &ix.snapshot.State
	chosen := rules.DependsOnChosen(s, c) // then no order has seen what is feasible
	if chosen && readsCounts(c.Constraints) {
		return ix.bestOf(ix.allSlots(), c)
	}
	scorer := ix.profile.DenseScorer(c, ix.dense.states)
	simple := !chosen && ix.onlySoftSpread(c.Constraints)
	if !simple && !chosen && ix.earnsClassIndex(c, &scorer, s.Log().Len()) {
		return ix.classIndex(c).best(ix)
	}
	if !ix.nodeClassesServe(c) {
		v := ix.ownSelection(c)
		if ix.searchesOwn(v, c, &scorer) {
			ix.search.startOwn(ix, c, &scorer, v)
			return ix.choose(&ix.search, c, &v.selection)
		}
		ix.scan.run(ix, c, &scorer, &v.selection, v.of)
		return ix.choose(&ix.scan, c, &v.selection)
	}
	return ix.bestByNodeClass(c, &scorer, simple, ix.nodeClasses.selection(ix, c))
}

// bestIn returns the best node of a partition, for classes whose place is decided by node classes.
func (ix *Index) bestIn(part uint8, c *cluster.Class) (cluster.Slot, bool) {
	ix.beginDecision()
	if _, names := ix.pinned(c); names || c.Claims.HasAlternatives() || rules.DependsOnChosen(&ix.snapshot.State, c) || !ix.onlySoftSpread(c.Constraints) || !ix.nodeClassesServe(c) {
		return cluster.NoSlot, false
	}
	v, ok := ix.nodeClasses.selectionIn(ix.nodeClasses.selection(ix, c), c, part)
	if !ok {
		return cluster.NoSlot, false
	}
	scorer := ix.profile.DenseScorer(c, ix.dense.states)
	return ix.bestByNodeClass(c, &scorer, true, v)
}

func (ix *Index) beginDecision() {
	if ix.uses++; ix.uses%usesBetweenDrops == 0 {
		ix.dropOutdated()
	}
	ix.decision++
}

// nodeClassesServe brings the node classes up to date, marks the nodes that are special for the class, and reports whether node classes tell apart what the class does.
func (ix *Index) nodeClassesServe(c *cluster.Class) bool {
	ix.markExceptions(c)
	ix.sumImages(c)
	ix.nodeClasses.follow(&ix.snapshot.State)
	return ix.nodeClasses.distinguish(&ix.snapshot.State, c)
}

// bestByNodeClass returns the best node of those that a selection allows: by the ranking of the class's size if it is simple and has earned one, else by a search,
// or a scan where nothing bounds scores.
func (ix *Index) bestByNodeClass(c *cluster.Class, scorer *rules.DenseScorer, simple bool, v *selection) (cluster.Slot, bool) {
	s := &ix.snapshot.State
	if simple && !asksAllocator(c) && !ix.searchesPriced(scorer) {
		if r := ix.ranking(c, scorer, s.Log().Len()); r != nil {
			r.lastUsed = ix.uses
			r.follow(ix)
			return ix.choose(r, c, v)
		}
	}
	if scorer.Bounded {
		ix.search.start(ix, c, scorer, v)
		slot, ok := ix.choose(&ix.search, c, v)
		ix.classUsage.searched(c.ID, ix.search.looked, s.Slots())
		return slot, ok
	}
	ix.scan.run(ix, c, scorer, v, ix.nodeClasses.of)
	return ix.choose(&ix.scan, c, v)
}

// asksAllocator reports whether an allocator judges nodes for the class. A ranking would have it judge all of them; a search asks about those that would win.
func asksAllocator(c *cluster.Class) bool { return c.Claims.Asks() }

// searchesPriced reports whether a search serves a size that the price list matters to. A ranking would score all nodes with GPUs again for each new list. A
// search scores their states, as long as these are few.
func (ix *Index) searchesPriced(scorer *rules.DenseScorer) bool {
	if !scorer.KnowsPrices() {
		return false
	}
	ix.dense.follow(ix)
	return changes.Revision(ix.dense.states.Len()+ix.dense.unknown) <= changesPerScan(ix.snapshot.Slots())
}

// searchesOwn reports whether a search serves a class with a selection of its own: a scan has no bound for nodes with GPUs. A search opens the pages of all
// trees for each group, and is worth that where the groups are few and the nodes many. It counts the nodes of a tree, not of a group in it, so that classes with
// soft spread constraints are left to the scan.
func (ix *Index) searchesOwn(v *ownSelection, c *cluster.Class, scorer *rules.DenseScorer) bool {
	return !c.Constraints.SpreadsSoftly() && len(v.allowed) <= maxSearchedGroups && v.nodes >= len(v.of)/fewestSearched && ix.searchesPriced(scorer)
}

// The bounds of searches for selections of one class.
const (
	maxSearchedGroups = 8
	fewestSearched    = 16 // a part of the nodes
)

// earnsClassIndex notes that a class with constraints is asked about, and reports whether its own index should answer.
func (ix *Index) earnsClassIndex(c *cluster.Class, scorer *rules.DenseScorer, now changes.Revision) bool {
	if readsCounts(c.Constraints) {
		return true
	}
	few := ix.fewChanges(scorer.Bounded, ix.classUsage[c.ID].costly)
	return (ix.classUsage.earnsIndex(c.ID, now, few, ix.usesBeforeIndex()) || scansSlowly(c, scorer)) && ix.mayIndex(c)
}

// mayIndex reports whether the class has an index, or there is room for one, or one that was not used lately.
func (ix *Index) mayIndex(c *cluster.Class) bool {
	if ix.indexes[c.ID] != nil || len(ix.indexes) < ix.maxIndexes {
		return true
	}
	oldest := leastRecent(ix.indexes, func(x *classIndex) uint64 { return x.lastUsed })
	return ix.snapshot.Log().Len()-oldest.cursor > changesPerScan(ix.snapshot.Slots())
}

// classIndex returns the class's own index, up to date with the snapshot.
func (ix *Index) classIndex(c *cluster.Class) *classIndex {
	x, ok := ix.indexes[c.ID]
	if !ok {
		x = &classIndex{byCoords: make(map[string]int32)}
		if len(ix.indexes) >= ix.maxIndexes {
			x = leastRecent(ix.indexes, func(x *classIndex) uint64 { return x.lastUsed })
			delete(ix.indexes, x.class.ID)
		}
		x.class = c
		ix.indexes[c.ID] = x
		x.build(ix)
	}
	x.lastUsed = ix.uses
	x.follow(ix)
	return x
}

// ranking returns the ranking of the class's size, which may be behind the snapshot; nil if the size is not worth one.
func (ix *Index) ranking(c *cluster.Class, scorer *rules.DenseScorer, now changes.Revision) *ranking {
	r := ix.rankingByClass[c.ID]
	slots := ix.snapshot.Slots()
	few := ix.fewChanges(scorer.Bounded, false)
	if r != nil {
		if ix.sizeUsage.earnsIndex(r.key, now, few, ix.usesBeforeIndex()) || now-r.cursor <= changesPerScan(slots) || scansSlowly(c, scorer) {
			return r
		}
		return nil
	}
	ix.scratch = c.AppendSize(ix.scratch[:0])
	key := string(ix.scratch)
	if !ix.sizeUsage.earnsIndex(key, now, few, ix.usesBeforeIndex()) && !scansSlowly(c, scorer) {
		return nil
	}
	if r = ix.rankings[key]; r == nil {
		r = &ranking{}
		if len(ix.rankings) >= ix.maxIndexes {
			oldest := leastRecent(ix.rankings, func(r *ranking) uint64 { return r.lastUsed })
			if now-oldest.cursor <= few {
				return nil
			}
			r = oldest
			delete(ix.rankings, r.key)
			clear(ix.rankingByClass)
		}
		r.key, r.class, r.generation = key, c, 0
		ix.rankings[r.key] = r
	}
	if len(ix.rankingByClass) >= maxKnownClasses {
		clear(ix.rankingByClass)
	}
	ix.rankingByClass[c.ID] = r
	return r
}

// scansSlowly reports whether a decision for the class asks the tables about each node. That costs as much as to build an index, so the class gets one at
// once, where there is room.
func scansSlowly(c *cluster.Class, scorer *rules.DenseScorer) bool {
	return !scorer.Bounded || c.Constraints.SpreadsSoftly() && !scorer.Filters
}

// leastRecent returns the value that was used longest ago; its memory serves the next.
func leastRecent[K comparable, V any](all map[K]V, used func(V) uint64) (oldest V) {
	first := true
	for _, x := range all {
		if first || used(x) < used(oldest) {
			oldest, first = x, false
		}
	}
	return oldest
}

// PlaceOn returns a place on a certain node, if the class fits there.
func (ix *Index) PlaceOn(slot cluster.Slot, c *cluster.Class) (Choice, bool) {
	s := &ix.snapshot.State
	if slot < 0 || int(slot) >= s.Slots() || !rules.Fits(s, slot, c) {
		return Choice{Slot: cluster.NoSlot}, false
	}
	return ix.Choose(slot, c), true
}
