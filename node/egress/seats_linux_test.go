package egress

import (
	"maps"
	"strings"
	"testing"

	"github.com/cilium/ebpf"

	"hilbert.dev/hilbert/node/advise"
)

// seated is Egress with maps of the kernel and no interfaces of its own.
func seated(t *testing.T) *Egress {
	t.Helper()
	b := newBench(t, noSlot, 0, settings{})
	return &Egress{maps: b.maps, pods: map[string]pod{}}
}

func (e *Egress) count(t *testing.T, uplink, slot int, bytes uint64) {
	t.Helper()
	must(t, e.maps["pods"].Put(uint32(uplink*maxSlots+slot), podTally{Packets: 1, Bytes: bytes}))
}

// An agent that starts again goes on with the counters of a pod, by its veth or its cgroup; a pod that takes the slot of another begins anew.
func TestSeatsAcrossAgents(t *testing.T) {
	e := seated(t)
	must(t, e.seatUplinks([]iface{{index: 7, name: "eth0"}}))
	must(t, e.maps["veths"].Put(uint32(31), uint32(5)))
	must(t, e.maps["cgroups"].Put(uint64(99), uint32(6)))
	for slot, bytes := range map[int]uint64{5: 500, 6: 600, 0: 9} {
		e.count(t, 0, slot, bytes)
	}
	e.pods = map[string]pod{
		"a/new":  {Pod: Pod{Cgroup: "a/new", Reclaimed: true}, veths: []int{32}},
		"b/veth": {Pod: Pod{Cgroup: "b/veth", Reclaimed: true, Background: true}, veths: []int{31}},
		"c/host": {Pod: Pod{Cgroup: "c/host", Background: true}, host: true, inode: 99},
	}
	n, err := e.needs()
	must(t, err)
	must(t, e.applySlots())
	if n.level != 2 || n.veths[31] != 5 || n.veths[32] != 0 || n.hosts[99] != 6 {
		t.Errorf("%+v", n)
	}
	sent := e.Sent()
	for cgroup, want := range map[string]float64{"a/new": 0, "b/veth": 500, "c/host": 600} {
		if got := sent[cgroup]["eth0"]; got != advise.Known(want) {
			t.Errorf("%s: %+v, want %g", cgroup, got, want)
		}
	}
	for slot, want := range map[uint32]uint32{0: flagReclaimed, 5: flagReclaimed | flagBackground, 6: flagBackground, 7: 0, restSlot: flagReclaimed} {
		var got uint32
		if must(t, e.maps["slots"].Lookup(slot, &got)); got != want {
			t.Errorf("slot %d: flags %d, want %d", slot, got, want)
		}
	}
	e.forget("b/veth")
	if _, err = e.needs(); err != nil {
		t.Fatal(err)
	}
	must(t, e.applySlots())
	var got uint32
	if must(t, e.maps["slots"].Lookup(uint32(5), &got)); got != 0 {
		t.Errorf("flags %d of a slot that nobody has", got)
	}
}

// A reclaimed pod for whom there is no slot has the ceiling like all, and nothing is said of what it sends; others go on without a mark.
func TestSeatsRunOut(t *testing.T) {
	e := seated(t)
	must(t, e.seatUplinks([]iface{{index: 7, name: "eth0"}}))
	for slot := range restSlot {
		e.slots.holders[slot] = "taken"
	}
	e.pods = map[string]pod{
		"a": {Pod: Pod{Cgroup: "a", Reclaimed: true}, veths: []int{31}},
		"b": {Pod: Pod{Cgroup: "b", Background: true}, veths: []int{32}},
	}
	n, err := e.needs()
	must(t, err)
	if slot, is := n.veths[31]; !is || slot != restSlot || len(n.veths) != 1 || e.Crowded() != 2 || len(e.Sent()) != 0 {
		t.Errorf("%+v, %d crowded, sent %v", n, e.Crowded(), e.Sent())
	}
}

// An uplink keeps its slot and its counters from one agent to the next; one that takes the place of another begins anew.
func TestSeatsOfUplinks(t *testing.T) {
	e := seated(t)
	must(t, e.seatUplinks([]iface{{index: 7, name: "eth0"}, {index: 8, name: "eth1"}}))
	cpus, err := ebpf.PossibleCPU()
	must(t, err)
	for slot := range 2 {
		each := make([]tally, cpus)
		each[0].Bytes = uint64(100 + slot)
		must(t, e.maps["tally"].Put(uint32(slot*classes+classOnline), each))
		e.count(t, slot, 3, 50)
	}
	must(t, e.SetRates("eth1", Rates{Outgoing: 77, Incoming: 78}))
	next := &Egress{maps: e.maps, pods: map[string]pod{}}
	must(t, next.seatUplinks([]iface{{index: 9, name: "eth9"}, {index: 8, name: "eth1"}}))
	counts, err := next.Counts()
	must(t, err)
	if len(counts) != 2 || counts["eth1"].Online.Bytes != 101 || counts["eth9"] != (Counts{}) {
		t.Errorf("%+v", counts)
	}
	if s := next.set[1]; next.uplinks[1].name != "eth1" || s.Rate != 77 || s.Incoming != 78 || next.set[0].Rate != 0 {
		t.Errorf("uplinks %+v, settings %+v", next.uplinks[:2], next.set[:2])
	}
	var left podTally
	if must(t, e.maps["pods"].Lookup(uint32(3), &left)); left != (podTally{}) {
		t.Errorf("a pod is said to have sent by an uplink that has just come: %+v", left)
	}
	var slot uint32
	if must(t, e.maps["uplinks"].Lookup(uint32(9), &slot)); slot != 0 || e.maps["uplinks"].Lookup(uint32(7), &slot) == nil {
		t.Errorf("interface 9 is uplink %d, or 7 still one", slot)
	}
	if err := next.SetRates("eth0", Rates{}); err == nil {
		t.Error("an uplink that has gone can be set")
	}
}

// A pod in the host's network at another level than the reclaimed ones there has no slot: it is nobody's that another pod has, and is not said to have sent what that one sent. An
// online pod, wherever it is in the order, does not cost a reclaimed one its ceiling.
func TestSeatsOfHostLevels(t *testing.T) {
	e := seated(t)
	must(t, e.seatUplinks([]iface{{index: 7, name: "eth0"}}))
	const first, other, reclaimed = "kubepods/a", "kubepods/z", "kubepods/besteffort/podA"
	e.pods = map[string]pod{
		first:     {Pod: Pod{Cgroup: first, Background: true}, host: true, inode: 98, slot: noSlot},
		other:     {Pod: Pod{Cgroup: other, Background: true}, host: true, inode: 97, slot: noSlot},
		reclaimed: {Pod: Pod{Cgroup: reclaimed, Reclaimed: true}, host: true, inode: 99, slot: noSlot},
	}
	flags := func(slot uint32) (got uint32) {
		must(t, e.maps["slots"].Lookup(slot, &got))
		return got
	}
	for range 20 { // the pods are gone through in any order
		n, err := e.needs()
		if err == nil || !strings.Contains(err.Error(), first) || !strings.Contains(err.Error(), other) || strings.Contains(err.Error(), reclaimed) {
			t.Fatalf("%v", err)
		}
		if slot, is := n.hosts[99]; n.level != 3 || len(n.hosts) != 1 || !is || slot != 0 {
			t.Fatalf("%+v", n)
		}
		must(t, e.applySlots())
		if sent := e.Sent(); flags(0) != flagReclaimed || flags(1) != 0 || len(sent) != 1 || !sent[reclaimed]["eth0"].Known {
			t.Fatalf("flags %d and %d, sent %v", flags(0), flags(1), sent)
		}
	}
	e.forget(reclaimed)
	n, err := e.needs()
	must(t, err)
	must(t, e.applySlots())
	if n.level != 2 || len(n.hosts) != 2 || flags(0) != flagBackground || flags(1) != flagBackground {
		t.Errorf("%+v, flags %d and %d", n, flags(0), flags(1))
	}
}

// An interface whose slot is another one by now is not found until the slots are right.
func TestSeatsMove(t *testing.T) {
	e := seated(t)
	for index, slot := range map[uint32]uint32{31: 5, 32: 6, 33: 7} {
		must(t, e.maps["veths"].Put(index, slot))
	}
	want := map[uint32]uint32{31: 8, 32: 6, 34: 5}
	must(t, unassign(e.maps["veths"], want))
	if got := entries[uint32](e.maps["veths"]); !maps.Equal(got, map[uint32]uint32{32: 6}) {
		t.Errorf("%v", got)
	}
	must(t, assign(e.maps["veths"], want))
	if got := entries[uint32](e.maps["veths"]); !maps.Equal(got, want) {
		t.Errorf("%v", got)
	}
}
