package cores

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"testing"

	"pgregory.net/rapid"

	"hilbert.dev/hilbert/topology"
)

// stream reads choices from fuzzed bytes; when they are used up, every choice is the first.
type stream struct{ bytes []byte }

// below returns a number from 0 to n-1.
func (s *stream) below(n int) int {
	if len(s.bytes) == 0 {
		return 0
	}
	b := s.bytes[0]
	s.bytes = s.bytes[1:]
	return int(b) % n
}

// machine reads a small machine: NUMA nodes with IDs that have gaps, cores that lack a thread, siblings numbered side by side or apart.
func (s *stream) machine() *topology.Machine {
	m := &topology.Machine{}
	numaNodes, threads, apart, group := 1+s.below(4), 1+s.below(2), s.below(2) == 1, 1+s.below(4)
	core, l3, cpus := 0, 0, make([][]topology.CPU, threads)
	for z := range numaNodes {
		node := topology.NUMANode{ID: 2 * z, Memory: int64(s.below(9)) * 100 * topology.Mebibyte}
		for i := range s.below(7) {
			if i%group == 0 {
				l3++
			}
			for t := range threads {
				if threads > 1 && t == threads-1 && s.below(8) == 7 {
					continue // offline
				}
				cpus[t] = append(cpus[t], topology.CPU{Core: core, L3: l3, Socket: z / 2, NUMA: node.ID})
			}
			core++
		}
		m.NUMA = append(m.NUMA, node)
	}
	for _, row := range cpus {
		m.CPUs = append(m.CPUs, row...)
	}
	if !apart { // by core
		ordered := make([]topology.CPU, 0, len(m.CPUs))
		for c := range core {
			for _, cpu := range m.CPUs {
				if cpu.Core == c {
					ordered = append(ordered, cpu)
				}
			}
		}
		m.CPUs = ordered
	}
	for i := range m.CPUs {
		m.CPUs[i].ID = i
	}
	return m
}

func (s *stream) request() topology.NUMARequest {
	return topology.NUMARequest{CPUs: uint16(1 + s.below(9)), Binding: topology.Binding(s.below(4)), Memory: uint32(s.below(6)) * 90}
}

// driver plays a stream to the allocator and to the oracle.
type driver struct {
	*stream
	a     *Allocator
	n     *naive
	ids   int
	stale Offer
	marks []mark
	bound int // NUMA nodes with pods that share their CPUs, before the step
}

// mark is what a Rollback has to come back to.
type mark struct {
	Mark
	n     *naive
	state string
}

// dump is everything that Rollback restores.
func (d *driver) dump() string {
	return fmt.Sprintf("%v|%v|%v|%v", d.a.standing, d.a.holdings, d.a.Shape(), d.a.Free())
}

// play returns the first thing that is wrong.
func play(data []byte) error {
	d := &driver{stream: &stream{data}}
	m := d.machine()
	reserved := Reserve(m, d.below(3))
	kept := uint32(d.below(2) * 50)
	a, err := NewAllocator(m, reserved, kept)
	if err != nil {
		if len(m.CPUs) == 0 {
			return nil
		}
		return err
	}
	d.a, d.n = a, newNaive(m, reserved, kept)
	for len(d.bytes) > 0 {
		_, d.bound = d.n.boundCores()
		before, revision, there := d.a.Pools(), d.a.Revision(), d.n.cpusOfPools()
		name, err := d.step()
		if err == nil {
			err = d.a.Verify()
		}
		if err == nil {
			err = d.n.pools(d.a.Pools())
		}
		if err == nil && d.a.Revision() < revision {
			err = errors.New("the revision went back")
		}
		if cores, needed := d.n.moved(before, d.a.Pools()); err == nil && name != "rollback" && cores > needed {
			err = fmt.Errorf("%d cores changed pools, %d had to: %v to %v", cores, needed, before, d.a.Pools())
		}
		if cores, _ := d.n.moved(before, d.a.Pools()); err == nil && name != "rollback" && name != "divide" {
			// Whoever comes or goes with n cores moves no more than these: a pool that lost one takes another's, and the reclaimed
			// pool of a NUMA node may have to take that from a third; and a pool may get another rounding.
			changed := d.n.changed(there)
			_, bound := d.n.boundCores()
			if most := 2*changed + len(d.n.demand); bound == 0 && d.bound == 0 && (cores > most || changed == 0 && cores > 0) {
				err = fmt.Errorf("%d cores came or went, and %d changed pools: %v to %v", changed, cores, before, d.a.Pools())
			}
		}
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return nil
}

func (d *driver) step() (string, error) {
	switch d.below(12) {
	case 0, 1, 2, 3:
		return "offer", d.offer()
	case 4, 5:
		return "release", d.release()
	case 6:
		return "adopt", d.adopt()
	case 7:
		return "resize", d.resize()
	case 8:
		d.divide()
		return "divide", nil
	case 9:
		z, closed := d.below(len(d.n.machine.NUMA)), d.below(2) == 1
		d.a.Close(z, closed)
		d.n.closed[z] = closed
		return "close", nil
	case 10:
		d.marks = append(d.marks, mark{d.a.Mark(), d.n.clone(), d.dump()})
		return "mark", nil
	}
	return "rollback", d.rollback()
}

func (d *driver) rollback() error {
	if len(d.marks) == 0 {
		return nil
	}
	i := d.below(len(d.marks)) // an outer mark ends the inner ones
	m := d.marks[i]
	d.marks = d.marks[:i]
	if d.below(4) == 3 {
		d.a.Forget(m.Mark)
		return nil
	}
	d.a.Rollback(m.Mark)
	d.n = m.n
	if got := d.dump(); got != m.state {
		return fmt.Errorf("came back to\n%s\nnot\n%s", got, m.state)
	}
	return nil
}

func (d *driver) id() string { return fmt.Sprintf("p%d", d.below(d.ids+1)) }

func (d *driver) release() error {
	id := d.id()
	_, known := d.n.pods[id]
	if got := d.a.Release(id); got != known {
		return fmt.Errorf("%s: released %v, want %v", id, got, known)
	}
	d.n.remove(id)
	return nil
}

func (n *naive) remove(id string) {
	delete(n.pods, id)
	for cpu, owner := range n.owner {
		if owner == id {
			delete(n.owner, cpu)
		}
	}
}

func (n *naive) put(id string, h Holding) {
	n.pods[id] = h
	for cpu := range h.CPUs.All() {
		n.owner[cpu] = id
	}
}

// promise is what somebody may have promised: of an empty machine, of what there is now, nothing, or nonsense.
func (d *driver) promise(r topology.NUMARequest) (g topology.NUMAGrant) {
	s, f := d.a.Shape(), d.a.Free()
	switch d.below(4) {
	case 1:
		empty := topology.NewNUMAFree(&s)
		g, _ = topology.OfferNUMA(&s, &empty, r)
	case 2:
		g, _ = topology.OfferNUMA(&s, &f, r)
	case 3:
		for z := range s.NUMANodes {
			g.CPUs[z], g.Memory[z] = uint16(d.below(9)), uint32(d.below(4)*90)
		}
	}
	return g
}

func (d *driver) offer() error {
	r := d.request()
	promised := d.promise(r)
	among := uint8(0xff)
	if d.below(4) == 3 {
		among = uint8(d.below(16))
	}
	s, f := d.a.Shape(), d.a.Free()
	s.Closed |= ^among
	keeps := !promised.IsZero() && f.Fits(&s, r, &promised)
	fewest := d.n.fewest(r, among)
	o, ok := d.a.Offer(r, promised, among)
	switch {
	case ok && !keeps && fewest == 0:
		return fmt.Errorf("%v: offered %v where nothing fits", r, o)
	case ok && o.Kept && o.Grant != promised:
		return fmt.Errorf("%v: kept %v, promised was %v", r, o.Grant, promised)
	case !ok && (keeps || fewest > 0):
		if fresh, fits := topology.OfferNUMA(&s, &f, r); fits && !d.n.starved(chosen(d.a, fresh)) {
			return fmt.Errorf("%v: not offered, but %d NUMA nodes hold it", r, fewest)
		}
		return nil
	case !ok:
		return nil
	case d.n.starved(o.CPUs):
		return fmt.Errorf("%v: offered %v, and starves a pool", r, o.CPUs)
	case !o.Kept && keeps && !d.n.starved(chosen(d.a, promised)):
		return fmt.Errorf("%v: promised %v not kept", r, promised)
	}
	if r.Binding == topology.BoundShared {
		if !o.CPUs.IsEmpty() {
			return fmt.Errorf("%v: offered CPUs %v of its own", r, o.CPUs)
		}
		return d.commit(o)
	}
	if err := errors.Join(d.n.sane(o.CPUs, o.Grant), d.n.packed(o.CPUs)); err != nil {
		return err
	}
	if again, _ := d.a.Offer(r, promised, among); !reflect.DeepEqual(again, o) {
		return fmt.Errorf("%v: offered %v, then %v", r, o, again)
	}
	return d.commit(o)
}

// chosen are the CPUs of a grant: which ones does not matter to who starves.
func chosen(a *Allocator, g topology.NUMAGrant) (cpus topology.CPUSet) {
	o, _ := a.offer(topology.NUMARequest{}, g)
	return o.CPUs
}

func (d *driver) commit(o Offer) error {
	id := d.id()
	_, known := d.n.pods[id]
	revision := d.a.Revision()
	if d.stale.Revision != revision {
		if err := d.a.Commit(id, d.stale); !errors.Is(err, ErrExpired) {
			return fmt.Errorf("an offer of revision %d at %d: %w", d.stale.Revision, revision, err)
		}
	}
	d.stale = o
	err := d.a.Commit(id, o)
	if known {
		if !errors.Is(err, ErrHeld) || d.a.Revision() != revision {
			return fmt.Errorf("%s holds something, and commits more: %w", id, err)
		}
		return nil
	}
	if err != nil || d.a.Revision() == revision {
		return fmt.Errorf("%s: commits at revision %d: %w", id, revision, err)
	}
	d.n.put(id, o.Holding)
	d.ids++
	return nil
}

func (d *driver) adopt() error {
	var cpus topology.CPUSet
	var h Holding
	for range 1 + d.below(8) {
		cpus.Add(d.below(len(d.n.machine.CPUs)))
	}
	if d.below(2) == 1 { // with siblings
		for _, c := range d.n.machine.CPUs {
			for _, sibling := range d.n.machine.CPUs {
				if sibling.Core == c.Core && cpus.Has(c.ID) {
					cpus.Add(sibling.ID)
				}
			}
		}
	}
	h.CPUs = cpus
	h.Request = topology.NUMARequest{CPUs: uint16(cpus.Len()), Binding: topology.Binding(d.below(3)), Memory: uint32(d.below(3) * 400)}
	h.Grant = d.a.GrantOf(h.Request, cpus)
	ok := d.n.sane(cpus, h.Grant) == nil
	memory := int64(0)
	for z := range d.n.machine.NUMA {
		memory += int64(h.Grant.Memory[z])
		touched := h.Grant.CPUs[z] > 0
		ok = ok && (!touched || !d.n.alone(z))
		if h.Request.Binding == topology.Exclusive && touched {
			ok = ok && d.n.claims(z) == 0 && int(h.Grant.CPUs[z]) == len(d.n.givable(z))*d.n.threads
		}
	}
	if h.Request.Binding == topology.Exclusive {
		ok = ok && memory >= int64(h.Request.Memory)
	}
	id := fmt.Sprintf("p%d", d.ids)
	if d.below(4) == 0 {
		h = Holding{Request: d.request()}
		h.Request.Binding = topology.BoundShared
		h.Grant = d.promise(h.Request)
		ok = !h.Grant.IsZero() && d.answers(h.Request, h.Grant)
	}
	if err := d.a.Adopt(id, h); (err == nil) != ok {
		return fmt.Errorf("%v: want it adopted: %v; %w", h, ok, err)
	}
	if ok {
		d.n.put(id, h)
		d.ids++
	}
	return nil
}

// answers: as much as is asked for, of NUMA nodes that are there and that nobody has alone.
func (d *driver) answers(r topology.NUMARequest, g topology.NUMAGrant) bool {
	cpus, memory := 0, 0
	for z := range topology.MaxNUMANodes {
		cpus, memory = cpus+int(g.CPUs[z]), memory+int(g.Memory[z])
		if g.CPUs[z] > 0 || g.Memory[z] > 0 {
			if z >= len(d.n.machine.NUMA) || d.n.alone(z) {
				return false
			}
		}
	}
	return cpus == int(r.CPUs) && memory == int(r.Memory)
}

func (d *driver) resize() error {
	id, cpus := d.id(), uint16(1+d.below(9))
	before, known := d.n.pods[id]
	old := d.dump()
	ok := d.a.Resize(id, cpus)
	if !ok {
		if d.dump() != old {
			return errors.New("it does not fit, and changed something")
		}
		if known && int(cpus) <= int(before.Request.CPUs) {
			return fmt.Errorf("%s: cannot shrink from %d to %d", id, before.Request.CPUs, cpus)
		}
		return nil
	}
	now, _ := d.a.Holding(id)
	if !known || now.Request.CPUs != cpus {
		return fmt.Errorf("%s: has %v", id, now)
	}
	if now.Request.Binding == topology.BoundShared {
		return d.resizeBound(id, before, now)
	}
	smaller, larger := now.CPUs.Minus(before.CPUs), before.CPUs.Minus(now.CPUs)
	if !smaller.IsEmpty() && !larger.IsEmpty() {
		return fmt.Errorf("%s: from %v to %v: neither has all of the other", id, before.CPUs, now.CPUs)
	}
	if now.Grant.NUMANodes() != before.Grant.NUMANodes() && now.Grant.NUMANodes()&^before.Grant.NUMANodes() != 0 && now.Request.Binding != topology.Unbound {
		return fmt.Errorf("%s: from %v to %v", id, before.Grant, now.Grant)
	}
	d.n.remove(id)
	if err := d.n.sane(now.CPUs, now.Grant); err != nil {
		return err
	}
	d.n.put(id, now)
	return nil
}

// resizeBound: all CPUs that are asked for, in the NUMA nodes of before, and no more than there is.
func (d *driver) resizeBound(id string, before, now Holding) error {
	cpus := 0
	for z := range topology.MaxNUMANodes {
		cpus += int(now.Grant.CPUs[z])
	}
	if cpus != int(now.Request.CPUs) || now.Grant.NUMANodes()&^before.Grant.NUMANodes() != 0 || now.Grant.Memory != before.Grant.Memory || !now.CPUs.IsEmpty() {
		return fmt.Errorf("%s: resized from %v to %v", id, before, now)
	}
	d.n.put(id, now)
	for z := range d.n.machine.NUMA {
		if now.Grant.CPUs[z] > before.Grant.CPUs[z] && d.n.bound(z) > len(d.n.free(z))*d.n.threads {
			return fmt.Errorf("%s: resized to %v, and NUMA node %d is too small", id, now.Grant, z)
		}
	}
	return nil
}

func (d *driver) divide() {
	var division Division
	d.n.demand, d.n.wants, d.n.wish = map[string]int64{}, map[string]int64{}, [topology.MaxNUMANodes]int{}
	for range d.below(5) {
		name := []string{SharePool, "ads", "web", "ml"}[d.below(4)]
		milli := int64(d.below(40)) * 250
		wants := milli
		if d.below(3) == 0 {
			wants = int64(d.below(40)) * 250
		}
		division.Shared = append(division.Shared, PoolDemand{name, milli, wants})
		d.n.demand[name] += milli
		d.n.wants[name] += wants
	}
	for z := range d.n.machine.NUMA {
		division.Reclaimed[z] = d.below(4)
		d.n.wish[z] = division.Reclaimed[z]
	}
	d.a.Divide(division)
}

// FuzzAllocator plays streams of operations to the allocator and to an oracle that tries everything: offers fit exactly when anything does, take
// whole free cores from as few L3 groups as can be; nothing is held twice; pools partition the rest in the sizes that they should have and
// move no more than they must; Rollback comes back exactly.
func FuzzAllocator(f *testing.F) {
	f.Add([]byte{1, 1, 1, 3, 8, 6, 1, 1, 1, 1, 1, 1, 8, 6, 1, 1, 1, 1, 1, 1, 1, 0, 0, 3, 1, 2, 0, 0, 8, 2, 1, 9, 0, 0, 1, 1, 4, 0, 10, 0, 8, 2, 0, 0, 11, 0})
	f.Add([]byte("three NUMA nodes, some words, and a seed that is long enough to commit, release, adopt and resize"))
	f.Fuzz(func(t *testing.T, data []byte) {
		// Longer streams find nothing that short ones do not, and the fuzzer takes long to shorten them.
		if err := play(data[:min(len(data), 1024)]); err != nil {
			t.Fatal(err)
		}
	})
}

// TestAllocatorAgainstOracle plays random streams: short ones, which rapid can shrink, and long ones.
func TestAllocatorAgainstOracle(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		if err := play(rapid.SliceOfN(rapid.Byte(), 20, 200).Draw(t, "stream")); err != nil {
			t.Fatal(err)
		}
	})
	for seed := range uint64(400) {
		random := rand.New(rand.NewPCG(seed, 0))
		data := make([]byte, 400)
		for i := range data {
			data[i] = byte(random.Uint32())
		}
		if err := play(data); err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
	}
}
