package allocate

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/topology"
	"hilbert.dev/hilbert/topology/cores"
	"hilbert.dev/hilbert/topology/topologytest"
)

// node is a Manager under random operations.
type node struct {
	m    *Manager
	mode string
	next int
}

func newNode(t *rapid.T, mode string) *node {
	machine := topologytest.Machine(
		rapid.IntRange(1, 3).Draw(t, "numaNodes"), rapid.IntRange(1, 5).Draw(t, "cores"), rapid.IntRange(1, 2).Draw(t, "threads"),
		rapid.IntRange(1, 3).Draw(t, "l3"), int64(rapid.IntRange(0, 4).Draw(t, "memory")*256))
	if last := len(machine.CPUs) - 1; last > 0 && rapid.Bool().Draw(t, "irregular") {
		machine.CPUs = machine.CPUs[:last]
	}
	m, err := New(machine, Params{ReservedCores: rapid.IntRange(0, 2).Draw(t, "reserved"), ReclaimedCores: rapid.IntRange(1, 2).Draw(t, "floor"), Mode: mode})
	if err != nil {
		t.Fatal(err)
	}
	return &node{m: m, mode: mode}
}

func drawMode(t *rapid.T) string {
	return rapid.SampledFrom([]string{spec.ModeAgent, spec.ModeAgent, spec.ModeKubelet}).Draw(t, "mode")
}

func (n *node) pod(t *rapid.T) Pod {
	n.next++
	p := Pod{UID: fmt.Sprintf("p%02d", n.next), Namespace: "x", Name: fmt.Sprint(n.next), MilliCPU: int64(rapid.IntRange(0, 30).Draw(t, "milli")) * 100}
	p.QoS = spec.QoS{Said: rapid.Bool().Draw(t, "said"), Pool: rapid.SampledFrom([]string{"", spec.PoolShare, "ads", "web"}).Draw(t, "pool")}
	p.QoS.Level = rapid.SampledFrom([]spec.QoSLevel{"", spec.QoSShared, spec.QoSReclaimed, spec.QoSSystem, spec.QoSDedicated, spec.QoSDedicated}).Draw(t, "level")
	p.BestEffort = p.MilliCPU == 0
	if p.QoS.Level == spec.QoSReclaimed && rapid.Bool().Draw(t, "amounts") {
		p.Reclaimed = spec.ReclaimedAmounts{MilliCPU: rapid.Int64Range(0, 200_000).Draw(t, "reclaimed CPU"), MemoryMiB: rapid.Int64Range(0, 4096).Draw(t, "reclaimed MiB")}
	}
	bound := p.QoS.Level == spec.QoSShared && rapid.Bool().Draw(t, "bound")
	if p.QoS.Level == spec.QoSDedicated || bound {
		p.Request = topology.NUMARequest{
			CPUs: uint16(rapid.IntRange(0, 6).Draw(t, "cpus")), Binding: topology.Binding(rapid.IntRange(0, 2).Draw(t, "binding")),
			Memory: uint32(rapid.IntRange(0, 3).Draw(t, "need") * 128),
		}
		if bound {
			p.QoS.NUMA, p.QoS.Pool, p.Request.Binding, p.Request.CPUs = spec.NUMABound, spec.PoolShare, topology.BoundShared, uint16((p.MilliCPU+999)/1000)
		}
		shape := n.m.capacity.alloc.Shape()
		free := topology.NewNUMAFree(&shape)
		switch rapid.IntRange(0, 3).Draw(t, "promise") {
		case 0:
			free = n.m.capacity.alloc.Free()
			fallthrough
		case 1:
			p.Promise, _ = topology.OfferNUMA(&shape, &free, p.Request)
		case 2:
			p.Promise.CPUs[rapid.IntRange(0, 7).Draw(t, "numaNode")] = uint16(rapid.IntRange(0, 4).Draw(t, "promised"))
		}
	}
	if rapid.IntRange(0, 3).Draw(t, "runs") == 0 {
		for range rapid.IntRange(1, 4).Draw(t, "on") {
			p.Fixed.Add(rapid.IntRange(0, 20).Draw(t, "cpu"))
		}
	}
	return p
}

// step does one thing, and says what was answered.
func (n *node) step(t *rapid.T) (operation string, do func(*Manager) any) {
	uid := fmt.Sprintf("p%02d", rapid.IntRange(1, n.next+1).Draw(t, "uid"))
	switch rapid.IntRange(0, 9).Draw(t, "step") {
	case 0, 1:
		return "release", func(m *Manager) any { return m.Release(uid) }
	case 2:
		milli := int64(rapid.IntRange(0, 80).Draw(t, "resized")) * 100
		return "resize", func(m *Manager) any { return m.Resize(uid, milli) }
	case 3:
		var cores [topology.MaxNUMANodes]int
		for z := range 3 {
			cores[z] = rapid.IntRange(0, 4).Draw(t, "wanted")
		}
		return "want", func(m *Manager) any { m.Pools.SetReclaimed(cores); return nil }
	case 6:
		yes, ads := rapid.Bool().Draw(t, "suppress"), rapid.Int64Range(0, 9000).Draw(t, "ads")
		return "steer", func(m *Manager) any {
			m.Pools.Suppress(yes)
			m.Pools.SetDemands(map[string]int64{"ads": ads})
			return nil
		}
	case 4:
		numa, closed := rapid.IntRange(-1, 3).Draw(t, "numaNode"), rapid.Bool().Draw(t, "closed")
		return "close", func(m *Manager) any {
			if m.OpenNUMANode(numa); closed {
				m.CloseNUMANode(numa, Note{"x", "y"})
			}
			return nil
		}
	case 5:
		p := n.pod(t)
		p.UID = uid // perhaps known
		return "again", func(m *Manager) any { return m.Admit(p) }
	}
	p := n.pod(t)
	return "admit", func(m *Manager) any { return m.Admit(p) }
}

// check holds the placements of all pods against one another.
func (n *node) check(t *rapid.T) {
	if err := n.m.Verify(); err != nil {
		t.Fatal(err)
	}
	var held, shared, reclaimed topology.CPUSet
	system := n.m.capacity.alloc.Reserved()
	for _, uid := range n.m.UIDs() {
		p, ok := n.m.Placement(uid)
		switch {
		case !ok:
			t.Fatalf("%s is known, and has no placement", uid)
		case n.mode == spec.ModeAgent && (p.CPUs.IsEmpty() || p.Mems.IsEmpty()):
			t.Fatalf("%s: %v: a kernel takes no empty set", uid, place(p))
		case n.mode == spec.ModeKubelet && !p.Mems.IsEmpty():
			t.Fatalf("%s: %v: memory is the kubelet's", uid, place(p))
		case p.Pool != spec.PoolReclaimed && (p.Idle || p.Weight != 0 || p.MemoryMax != 0):
			t.Fatalf("%s: %v", uid, place(p))
		case p.Pool == spec.PoolReclaimed && p.Idle != (p.Weight == 0):
			t.Fatalf("%s: %v: the kernel takes no weight from who is idle, and who is not has one", uid, place(p))
		case p.Pool == spec.PoolReclaimed && n.m.capacity.alloc.Pools().Reclaimed.IsEmpty() && !p.Idle:
			t.Fatalf("%s: %v: it shares its CPUs and is not idle", uid, place(p))
		case p.Pool == "":
			if !held.Intersection(p.CPUs).IsEmpty() {
				t.Fatalf("%s: %v are held twice", uid, p.CPUs)
			}
			held = held.Union(p.CPUs)
		case p.Pool == spec.PoolReclaimed:
			reclaimed = p.CPUs
		case p.Pool != spec.PoolSystem:
			shared = shared.Union(p.CPUs)
		}
	}
	everything := held == n.m.capacity.machine.AllCPUs()
	if !everything && !held.Intersection(shared.Union(reclaimed)).IsEmpty() || n.mode == spec.ModeAgent && !held.Intersection(system).IsEmpty() {
		t.Fatalf("held %v, shared %v, reclaimed %v, system %v", held, shared, reclaimed, system)
	}
	pools := n.m.capacity.alloc.Pools()
	if both := shared.Intersection(reclaimed); !both.IsEmpty() && !pools.Reclaimed.IsEmpty() {
		if meets := both.Intersection(pools.Reclaimed); !meets.IsEmpty() && !system.IsEmpty() {
			t.Fatalf("shared pods run on %v of the reclaimed pool", meets)
		}
	}
}

// checkBound: a pod that is bound runs and has its memory in the NUMA nodes that it holds, beside others of pool share; what is held of each NUMA node is there.
func (n *node) checkBound(t *rapid.T) {
	free, alloc := n.m.capacity.alloc.Free(), n.m.capacity.alloc
	for _, uid := range n.m.UIDs() {
		h, holds := alloc.Holding(uid)
		if !holds || h.Request.Binding != topology.BoundShared {
			continue
		}
		var in, room topology.CPUSet
		for z, machine := range n.m.capacity.machine.NUMA {
			if h.Grant.CPUs[z] == 0 {
				continue
			}
			in = in.Union(machine.CPUs)
			if free[z].CPUs >= 0 && machine.Memory > 0 { // as it was given
				room = room.Union(machine.CPUs.Minus(alloc.Held()))
			}
		}
		p, _ := n.m.Placement(uid)
		share := alloc.Pools().Shared[spec.PoolShare].Intersection(in)
		switch {
		case p.Pool != spec.PoolShare:
			t.Fatalf("%s: %v: it is bound", uid, place(p))
		case !room.IsEmpty() && !p.CPUs.Minus(in).IsEmpty():
			t.Fatalf("%s: %v: granted is %v", uid, place(p), h.Grant)
		case !share.IsEmpty() && p.CPUs != share:
			t.Fatalf("%s: %v: of its NUMA nodes the pool has %v", uid, place(p), share)
		}
		for z, machine := range n.m.capacity.machine.NUMA {
			if p.Mems.Has(machine.ID) && h.Grant.NUMANodes()&(1<<z) == 0 && !in.IsEmpty() && n.hasMemory(h.Grant.NUMANodes()) {
				t.Fatalf("%s: %v: memory outside of %v", uid, place(p), h.Grant)
			}
		}
	}
}

// hasMemory reports whether any NUMA node of a set has memory.
func (n *node) hasMemory(numaNodes uint8) bool {
	for z, machine := range n.m.capacity.machine.NUMA {
		if numaNodes&(1<<z) != 0 && machine.Memory > 0 {
			return true
		}
	}
	return false
}

// TestInvariants admits, resizes and releases pods of all kinds, promised and not.
func TestInvariants(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := newNode(t, drawMode(t))
		for range rapid.IntRange(1, 40).Draw(t, "steps") {
			_, do := n.step(t)
			before := n.m.Report()
			v, ok := do(n.m).(Verdict)
			if ok && v.Refused != nil && len(n.m.Report().Held) != len(before.Held) {
				t.Fatalf("%v: refused, and holds something", v.Refused)
			}
			n.check(t)
			n.checkBound(t)
		}
	})
}

// TestRestoreIsExact: a Manager that is restored from a checkpoint, through JSON, is the same, and decides the same ever after.
func TestRestoreIsExact(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := newNode(t, drawMode(t))
		for range rapid.IntRange(1, 30).Draw(t, "steps") {
			_, do := n.step(t)
			do(n.m)
		}
		data, err := json.Marshal(n.m.Checkpoint())
		if err != nil {
			t.Fatal(err)
		}
		c := &Checkpoint{}
		if err := json.Unmarshal(data, c); err != nil {
			t.Fatal(err)
		}
		other, err := New(n.m.capacity.machine, n.m.capacity.params)
		if err != nil {
			t.Fatal(err)
		}
		if notes := other.Restore(c); notes != nil {
			t.Fatalf("restored with %v", notes)
		}
		for range rapid.IntRange(0, 10).Draw(t, "more") {
			if a, b := n.m.Report(), other.Report(); !reflect.DeepEqual(a, b) {
				t.Fatalf("the report was\n%+v\nand is\n%+v", a, b)
			}
			for _, uid := range n.m.UIDs() {
				if a, b := n.m.Confirm(uid), other.Confirm(uid); !reflect.DeepEqual(a, b) {
					t.Fatalf("%s: was %+v, is %+v", uid, a, b)
				}
			}
			operation, do := n.step(t)
			if a, b := do(n.m), do(other); !reflect.DeepEqual(a, b) {
				t.Fatalf("%s: the one says %+v, the other %+v", operation, a, b)
			}
		}
	})
}

// TestHintsNeverDecide: what the resources leave out is nothing that the fit function would use.
func TestHintsNeverDecide(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := newNode(t, spec.ModeAgent)
		for range rapid.IntRange(1, 20).Draw(t, "steps") {
			_, do := n.step(t)
			do(n.m)
			p := n.pod(t)
			hinted, ok := n.m.capacity.alloc.Offer(p.Request, p.Promise, n.m.pods.among(&pod{Pod: p}))
			free, want := n.m.capacity.alloc.Offer(p.Request, p.Promise, ^uint8(0))
			if ok != want || !reflect.DeepEqual(hinted, free) {
				t.Fatalf("%+v: with hints %v %+v, without %v %+v", p, ok, hinted, want, free)
			}
		}
	})
}

// ledger is the scheduler's view of the node: NUMA nodes, and the sum of all requests.
type ledger struct {
	shape topology.NUMAShape
	free  topology.NUMAFree
	milli int64 // left of the node's allocatable CPU
	grant map[string]topology.NUMAGrant
	asks  map[string]int64
}

// bind takes what a pod asks for, if the scheduler could bind it.
func (l *ledger) bind(p *Pod) bool {
	asks := p.MilliCPU
	if !p.Request.IsZero() {
		g, ok := topology.OfferNUMA(&l.shape, &l.free, p.Request)
		if !ok {
			return false
		}
		p.Promise = g
		if excess, _ := g.Excess(p.Request); p.QoS.Level == spec.QoSDedicated {
			asks = (int64(p.Request.CPUs) + excess) * 1000
		}
	}
	if asks > l.milli {
		return false
	}
	l.milli -= asks
	l.free.Commit(&p.Promise)
	l.grant[p.UID], l.asks[p.UID] = p.Promise, asks
	return true
}

func (l *ledger) release(uid string) {
	g := l.grant[uid]
	l.free.Release(&g)
	l.milli += l.asks[uid]
}

// TestLegalPromisesAreKept: as long as all that the scheduler has bound fits the node, by NUMA node and in sum, each promise is kept, in whatever
// order pods arrive, and nobody who asks for CPUs is left without.
func TestLegalPromisesAreKept(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := newNode(t, spec.ModeAgent)
		l := ledger{shape: n.m.capacity.alloc.Shape(), grant: map[string]topology.NUMAGrant{}, asks: map[string]int64{}}
		l.free = topology.NewNUMAFree(&l.shape)
		l.milli = int64(len(n.m.capacity.machine.CPUs)) * 1000
		var coming []Pod
		for range rapid.IntRange(1, 40).Draw(t, "steps") {
			switch rapid.IntRange(0, 3).Draw(t, "step") {
			case 0, 1:
				p := n.pod(t)
				p.Promise, p.Fixed = topology.NUMAGrant{}, topology.CPUSet{}
				if p.QoS.Level == spec.QoSReclaimed { // it asks for other resources
					p.MilliCPU = 0
				}
				if l.bind(&p) {
					coming = append(coming, p)
				}
			case 2:
				if len(coming) == 0 {
					continue
				}
				i := rapid.IntRange(0, len(coming)-1).Draw(t, "arrives")
				p := coming[i]
				coming = append(coming[:i], coming[i+1:]...)
				v := n.m.Admit(p)
				if v.Refused != nil || v.Moved {
					t.Fatalf("%+v: %+v, moved %v; ledger %v", p, v.Refused, v.Moved, l)
				}
			case 3:
				if pods := n.m.UIDs(); len(pods) > 0 {
					uid := rapid.SampledFrom(pods).Draw(t, "goes")
					n.m.Release(uid)
					l.release(uid)
				}
			}
			n.check(t)
			n.checkBound(t)
			n.fed(t)
		}
		if c := n.m.Report().Counts; c.Moved+c.Broken+c.Forged+c.Foreign+c.Refused != 0 {
			t.Fatalf("%+v", c)
		}
	})
}

// fed: whoever asks for CPUs has one that nobody holds.
func (n *node) fed(t *rapid.T) {
	for uid, p := range n.m.pods.known {
		if p.pool != "" && p.pool != spec.PoolReclaimed && p.pool != spec.PoolSystem && p.MilliCPU > 0 {
			if place, _ := n.m.Placement(uid); !place.CPUs.Intersection(n.m.capacity.alloc.Held()).IsEmpty() {
				t.Fatalf("%s runs on %v, and %v are held", uid, place.CPUs, n.m.capacity.alloc.Held())
			}
		}
	}
}

// FuzzRestore: whatever a checkpoint says, with a checksum that fits it, a Manager takes over what it can and stays sound.
func FuzzRestore(f *testing.F) {
	m, _ := New(topologytest.Machine(2, 3, 2, 2, 512), Params{ReservedCores: 1, ReclaimedCores: 1, Mode: spec.ModeAgent})
	m.Admit(Pod{UID: "a", QoS: spec.QoS{Level: spec.QoSDedicated}, Request: topology.NUMARequest{CPUs: 3, Binding: topology.Bound, Memory: 100}})
	m.Admit(Pod{UID: "b", QoS: spec.QoS{Level: spec.QoSReclaimed}})
	m.Admit(Pod{UID: "c", QoS: spec.QoS{Level: spec.QoSShared, Pool: "ads"}, MilliCPU: 700})
	m.Admit(Pod{UID: "d", QoS: spec.QoS{Level: spec.QoSDedicated}, Request: topology.NUMARequest{CPUs: 2, Binding: topology.Exclusive}})
	m.Admit(Pod{
		UID: "e", QoS: spec.QoS{Level: spec.QoSShared, NUMA: spec.NUMABound}, MilliCPU: 900, Request: topology.NUMARequest{CPUs: 1, Binding: topology.BoundShared, Memory: 10},
	})
	m.CloseNUMANode(1, Note{"x", "y"})
	c := m.Checkpoint()
	data, _ := json.Marshal(c)
	f.Add(data)
	f.Fuzz(func(t *testing.T, data []byte) {
		var read Checkpoint
		if json.Unmarshal(data, &read) != nil {
			return
		}
		read.Version, read.Machine, read.Mode = c.Version, c.Machine, c.Mode
		read.Sum = read.checksum()
		other, _ := New(m.capacity.machine, m.capacity.params)
		other.Restore(&read)
		if err := other.Verify(); err != nil {
			t.Fatal(err)
		}
		for _, uid := range other.UIDs() {
			if p, _ := other.Placement(uid); p.CPUs.IsEmpty() || p.Mems.IsEmpty() {
				t.Fatalf("%s: %s", uid, place(p))
			}
		}
	})
}

func TestPoolNames(t *testing.T) {
	if cores.SharePool != spec.PoolShare {
		t.Errorf("the allocator calls the pool that is always there %q, the API %q", cores.SharePool, spec.PoolShare)
	}
	if spec.ReasonPromiseBroken == spec.ReasonCheckpointLost {
		t.Error("two reasons have one name")
	}
}

// TestMemorylessNodes: cpuset.mems has only nodes with memory, unless the kernel tells of none.
func TestMemorylessNodes(t *testing.T) {
	for want, memory := range map[string][3]int64{"0,2": {1, 0, 1}, "0-2": {}, "1": {0, 1, 0}} {
		hardware := topologytest.Machine(3, 2, 1, 2, 0)
		for z := range hardware.NUMA {
			hardware.NUMA[z].Memory = memory[z] * 1000 * topology.Mebibyte
		}
		m, err := New(hardware, Params{Mode: spec.ModeAgent})
		if err != nil {
			t.Fatal(err)
		}
		if got := m.Admit(Pod{UID: "a"}).Placement.Mems; got.String() != want {
			t.Errorf("memory %v: mems %v, want %s", memory, got, want)
		}
	}
}

// TestCheckpointOfOddities: text that is not UTF-8 does not damage a checkpoint, and no pod stands in it twice.
func TestCheckpointOfOddities(t *testing.T) {
	fresh := func() *Manager {
		m, err := New(topologytest.Machine(1, 2, 1, 2, 100), Params{Mode: spec.ModeAgent})
		if err != nil {
			t.Fatal(err)
		}
		return m
	}
	m := fresh()
	m.Admit(Pod{UID: "a", Invalid: "\xff", QoS: spec.QoS{Level: spec.QoSShared, Pool: "ads"}, MilliCPU: 1})
	m.CloseNUMANode(0, Note{"x", "\xfe"})
	data, err := json.Marshal(m.Checkpoint())
	if err != nil {
		t.Fatal(err)
	}
	var c Checkpoint
	if err := json.Unmarshal(data, &c); err != nil {
		t.Fatal(err)
	}
	if notes := fresh().Restore(&c); notes != nil {
		t.Errorf("restored with %v", notes)
	}
	c.Pods = append(c.Pods, c.Pods[0])
	c.Sum = c.checksum()
	twice := fresh()
	if notes := twice.Restore(&c); len(notes) != 1 {
		t.Errorf("a pod that stands twice: %v", notes)
	}
	if twice.Release("a"); len(twice.Report().Pools) != 1 {
		t.Errorf("after its only pod, pools %v", twice.Report().Pools)
	}
	c.Pods, c.Pods[0].Request = c.Pods[:1], topology.NUMARequest{CPUs: 1, Bandwidth: topology.BandwidthSensitive + 1}
	c.Sum = c.checksum()
	if notes := fresh().Restore(&c); len(notes) != 1 || !strings.Contains(notes[0].Message, "bandwidth") {
		t.Errorf("a bandwidth of a later version: %v", notes)
	}
	if notes := twice.Restore(nil); notes != nil {
		t.Errorf("no checkpoint: %v", notes)
	}
}
