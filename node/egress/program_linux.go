package egress

import (
	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
)

// mark is the queue mapping of a packet of the pod in slot 0 on its way to the uplink; that of slot 1 has one more, and so on. No network card has queues of these numbers:
// the kernel sets the field to the number of the receiving queue, plus one, for what it forwards.
const mark = 0x4800

// What a TCX program returns: the next program shall decide, or the packet is dropped.
const (
	tcxNext = -1
	tcxDrop = 2
)

// Offsets in the kernel's struct __sk_buff.
const (
	skbLength         = 0
	skbQueueMapping   = 12
	skbPriority       = 32
	skbIngressIfindex = 36
	skbIfindex        = 40
	skbTimestamp      = 152
	skbWireLength     = 160
)

// settings is an entry of the map of that name, one for each uplink.
type settings struct {
	Rate     uint64 // of what is sent, in bytes per second; 0: no ceiling
	Horizon  uint64 // nanoseconds that a packet may wait, below 2^32
	Level    uint64 // of the pods' cgroups below the root; 0: none is in the host's network
	Incoming uint64 // the rate of what comes in; 0: no ceiling
	Burst    uint64 // nanoseconds by which what comes in may be ahead of its rate
	Index    uint64 // of the uplink's interface; 0: the entry is free
}

const (
	settingsRate     = 0
	settingsHorizon  = 8
	settingsLevel    = 16
	settingsIncoming = 24
	settingsBurst    = 32
)

// tally is an entry of the map of counters, for each CPU, uplink and class.
type tally struct{ Packets, Bytes, Delayed, Dropped, Refused uint64 }

const (
	tallyPackets = 0
	tallyBytes   = 8
	tallyDelayed = 16
	tallyDropped = 24
	tallyRefused = 32 // bytes of what came in and was dropped
)

// podTally is an entry of the map of what pods sent, for each uplink and slot. It fills a line of the cache, so that pods do not slow each other down.
type podTally struct {
	Packets, Bytes uint64
	_              [6]uint64
}

// The classes, as keys of the counters of an uplink.
const (
	classOnline = iota
	classReclaimed
	classIncoming // what came in for reclaimed pods
	classes
)

// What the map of slots says of a pod.
const (
	flagReclaimed  = 1
	flagBackground = 2
)

// priorityBackground is the kernel's TC_PRIO_BULK: qdiscs that have bands (fq since Linux 6.7, mqprio, a VLAN's egress map) have the lowest for it.
const priorityBackground = 2

// backgroundShift is how much sooner than others packets of background pods are dropped below the ceiling: they may wait an eighth of the horizon. Who waits longer keeps
// the queue above that as long as there is enough to send, so that these have what the others leave.
const backgroundShift = 3

// earlyShift is where packets begin to be dropped: at the horizon shifted right by so much, and from there the more often the longer they would
// wait. A sender through a veth does not feel how much of its own waits in the qdisc and fills whatever there is; one in the host's network
// may have two packets there (TCP small queues), so that its share is two packets in each such wait. A short wait keeps the shares alike.
const earlyShift = 4

// mapSpecs are the maps. Names are those of their pins. An entry of clock is when the uplink's next packet may leave, in nanoseconds of the monotonic clock, and one of incoming when
// the next may come in; only the programs write them. veths, by interface, and cgroups, by number, say in which slot a pod is; uplinks is the uplink of an interface.
func mapSpecs() map[string]*ebpf.MapSpec {
	return map[string]*ebpf.MapSpec{
		"settings": {Name: "settings", Type: ebpf.Array, KeySize: 4, ValueSize: 48, MaxEntries: MaxUplinks},
		"clock":    {Name: "clock", Type: ebpf.Array, KeySize: 4, ValueSize: 8, MaxEntries: MaxUplinks},
		"incoming": {Name: "incoming", Type: ebpf.Array, KeySize: 4, ValueSize: 8, MaxEntries: MaxUplinks},
		"tally":    {Name: "tally", Type: ebpf.PerCPUArray, KeySize: 4, ValueSize: 40, MaxEntries: MaxUplinks * classes},
		"uplinks":  {Name: "uplinks", Type: ebpf.Hash, KeySize: 4, ValueSize: 4, MaxEntries: MaxUplinks},
		"cgroups":  {Name: "cgroups", Type: ebpf.Hash, KeySize: 8, ValueSize: 4, MaxEntries: maxSlots},
		"veths":    {Name: "veths", Type: ebpf.Hash, KeySize: 4, ValueSize: 4, MaxEntries: maxVeths},
		"slots":    {Name: "slots", Type: ebpf.Array, KeySize: 4, ValueSize: 4, MaxEntries: maxSlots},
		"pods":     {Name: "pods", Type: ebpf.Array, KeySize: 4, ValueSize: 64, MaxEntries: MaxUplinks * maxSlots},
	}
}

// lookup calls for the entry of a map whose key is at an offset from the frame pointer; R0 is the entry, or 0.
func lookup(table *ebpf.Map, key int32) asm.Instructions {
	return asm.Instructions{
		asm.LoadMapPtr(asm.R1, table.FD()), asm.Mov.Reg(asm.R2, asm.RFP), asm.Add.Imm(asm.R2, key), asm.FnMapLookupElem.Call(),
	}
}

// join makes one program of parts.
func join(parts ...asm.Instructions) (code asm.Instructions) {
	for _, part := range parts {
		code = append(code, part...)
	}
	return code
}

// markSpec is the program at the host's end of a pod's veth. The mark says in which slot the pod is.
func markSpec(maps map[string]*ebpf.Map) *ebpf.ProgramSpec {
	return &ebpf.ProgramSpec{Name: "hilbert_mark", Type: ebpf.SchedCLS, AttachType: ebpf.AttachTCXIngress, License: license, Instructions: join(
		asm.Instructions{
			asm.Mov.Reg(asm.R6, asm.R1),
			asm.LoadMem(asm.R1, asm.R6, skbIfindex, asm.Word),
			asm.StoreMem(asm.RFP, -4, asm.R1, asm.Word),
		}, lookup(maps["veths"], -4),
		asm.Instructions{
			asm.JEq.Imm(asm.R0, 0, "next"),
			asm.LoadMem(asm.R1, asm.R0, 0, asm.Word),
			asm.JGT.Imm(asm.R1, maxSlots-1, "next"),
			asm.Add.Imm(asm.R1, mark),
			asm.StoreMem(asm.R6, skbQueueMapping, asm.R1, asm.Word),
			asm.Mov.Imm(asm.R0, tcxNext).WithSymbol("next"),
			asm.Return(),
		},
	)}
}

// license says nothing more than the project's own: none of the kernel's functions that the programs call asks for another.
const license = "Apache-2.0"

// atomic is an operation on 8 bytes of memory. The library (v0.22.0) takes which one it is from Constant when it encodes, and then sets
// that too late: without it all of them are plain additions.
func atomic(op asm.AtomicOp, at, value asm.Register, offset int16) asm.Instruction {
	code := op.Mem(at, value, asm.DWord, offset)
	code.Constant = int64(op >> 8)
	return code
}

// Where the program at an uplink keeps things, from the frame pointer: a key; the number of the cgroup; how long the packet takes; the clock's entry; how much beyond the early
// drops it waits, and its time, while it is drawn; the pod's slot and flags; what it may wait.
const (
	atKey, atCgroup, atTakes, atClock, atBeyond, atTime, atSlot, atFlags, atHorizon = -4, -16, -24, -32, -40, -48, -52, -56, -64
)

// paceSpec is the program at an uplink. Throughout, R6 is the packet, R7 the settings, R8 the packet's length, and later R9 the class's counters.
func paceSpec(maps map[string]*ebpf.Map, uplink int32) *ebpf.ProgramSpec {
	return &ebpf.ProgramSpec{
		Name: "hilbert_pace", Type: ebpf.SchedCLS, AttachType: ebpf.AttachTCXEgress, License: license, Instructions: join(
			begin(maps["settings"], uplink), classify(maps["cgroups"], maps["slots"]), tallyOf(maps["tally"], uplink), clockOf(maps["clock"], uplink), decide(), end(maps["pods"], uplink),
		),
	}
}

// begin fetches the settings and the length, which is what the wire carries of all segments.
func begin(settings *ebpf.Map, uplink int32) asm.Instructions {
	return join(
		asm.Instructions{
			asm.Mov.Reg(asm.R6, asm.R1),
			asm.StoreImm(asm.RFP, atKey, int64(uplink), asm.Word),
			asm.StoreImm(asm.RFP, atSlot, maxSlots, asm.Word),
			asm.StoreImm(asm.RFP, atFlags, 0, asm.Word),
		}, lookup(settings, atKey),
		asm.Instructions{
			asm.JEq.Imm(asm.R0, 0, "next"),
			asm.Mov.Reg(asm.R7, asm.R0),
			asm.LoadMem(asm.R8, asm.R6, skbWireLength, asm.Word),
			asm.JGT.Imm(asm.R8, leastCharge-1, "classify"),
			asm.Mov.Imm(asm.R8, leastCharge),
		})
}

// classify finds the pod's slot and flags, if the packet is of a pod that has a slot; else its slot is beyond all.
func classify(cgroups, slots *ebpf.Map) asm.Instructions {
	return join(
		asm.Instructions{
			asm.LoadMem(asm.R1, asm.R6, skbQueueMapping, asm.Word).WithSymbol("classify"),
			asm.JLT.Imm(asm.R1, mark, "by cgroup"),
			asm.JGT.Imm(asm.R1, mark+maxSlots-1, "by cgroup"),
			asm.Mov.Imm(asm.R2, 0),
			asm.StoreMem(asm.R6, skbQueueMapping, asm.R2, asm.Word), // it is no queue
			asm.Sub.Imm(asm.R1, mark),
			asm.StoreMem(asm.RFP, atSlot, asm.R1, asm.Word),
			asm.Ja.Label("slot"),
			asm.LoadMem(asm.R2, asm.R7, settingsLevel, asm.DWord).WithSymbol("by cgroup"),
			asm.JEq.Imm(asm.R2, 0, "tally"),
			asm.Mov.Reg(asm.R1, asm.R6),
			asm.FnSkbAncestorCgroupId.Call(),
			asm.StoreMem(asm.RFP, atCgroup, asm.R0, asm.DWord),
		}, lookup(cgroups, atCgroup),
		asm.Instructions{
			asm.JEq.Imm(asm.R0, 0, "tally"),
			asm.LoadMem(asm.R1, asm.R0, 0, asm.Word),
			asm.StoreMem(asm.RFP, atSlot, asm.R1, asm.Word),
			asm.LoadMapPtr(asm.R1, slots.FD()).WithSymbol("slot"),
			asm.Mov.Reg(asm.R2, asm.RFP),
			asm.Add.Imm(asm.R2, atSlot),
			asm.FnMapLookupElem.Call(),
			asm.JEq.Imm(asm.R0, 0, "tally"),
			asm.LoadMem(asm.R1, asm.R0, 0, asm.Word),
			asm.StoreMem(asm.RFP, atFlags, asm.R1, asm.Word),
			asm.And.Imm(asm.R1, flagBackground),
			asm.JEq.Imm(asm.R1, 0, "tally"),
			asm.Mov.Imm(asm.R1, priorityBackground),
			asm.StoreMem(asm.R6, skbPriority, asm.R1, asm.Word),
		})
}

// tallyOf fetches the class's counters. A packet of the class online, and any where there is no ceiling, is only counted.
func tallyOf(tallies *ebpf.Map, uplink int32) asm.Instructions {
	return asm.Instructions{
		asm.LoadMem(asm.R1, asm.RFP, atFlags, asm.Word).WithSymbol("tally"),
		asm.And.Imm(asm.R1, flagReclaimed), // which is classReclaimed
		asm.Add.Imm(asm.R1, uplink*classes),
		asm.StoreMem(asm.RFP, atKey, asm.R1, asm.Word),
		asm.LoadMapPtr(asm.R1, tallies.FD()),
		asm.Mov.Reg(asm.R2, asm.RFP),
		asm.Add.Imm(asm.R2, atKey),
		asm.FnMapLookupElem.Call(),
		asm.JEq.Imm(asm.R0, 0, "next"),
		asm.Mov.Reg(asm.R9, asm.R0),
		asm.LoadMem(asm.R1, asm.RFP, atFlags, asm.Word),
		asm.And.Imm(asm.R1, flagReclaimed),
		asm.JEq.Imm(asm.R1, 0, "count"),
		asm.LoadMem(asm.R1, asm.R7, settingsRate, asm.DWord),
		asm.JEq.Imm(asm.R1, 0, "count"),
	}
}

// clockOf takes the packet's time from the uplink's clock.
func clockOf(clocks *ebpf.Map, uplink int32) asm.Instructions {
	return join(asm.Instructions{asm.StoreImm(asm.RFP, atKey, int64(uplink), asm.Word)}, reserve(clocks, atKey))
}

// reserve takes the time of a packet of R8 bytes, at R1 bytes per second, from a clock that all CPUs share, by its key on the stack: R3 is what the clock said, which is when the packet has its
// turn, R4 the time it takes, R0 now, R5 the clock.
func reserve(clocks *ebpf.Map, key int32) asm.Instructions {
	const nanoseconds = 1_000_000_000
	return join(
		asm.Instructions{
			asm.Mov.Reg(asm.R2, asm.R8),
			asm.Mul.Imm(asm.R2, nanoseconds),
			asm.Div.Reg(asm.R2, asm.R1),
			asm.StoreMem(asm.RFP, atTakes, asm.R2, asm.DWord),
		}, lookup(clocks, key),
		asm.Instructions{
			asm.JEq.Imm(asm.R0, 0, "next"),
			asm.StoreMem(asm.RFP, atClock, asm.R0, asm.DWord),
			asm.FnKtimeGetNs.Call(),
			asm.LoadMem(asm.R4, asm.RFP, atTakes, asm.DWord),
			asm.LoadMem(asm.R5, asm.RFP, atClock, asm.DWord),
			asm.Mov.Reg(asm.R3, asm.R4),
			atomic(asm.FetchAdd, asm.R5, asm.R3, 0),
		})
}

// behind goes on at a symbol where the clock is ahead of now. Else nothing was taken from it for a while, and it starts again at this packet's end. If another CPU does so at the
// same moment, its value is as good.
func behind(ahead string) asm.Instructions {
	return asm.Instructions{
		asm.JGT.Reg(asm.R3, asm.R0, ahead),
		asm.Mov.Reg(asm.R1, asm.R0),
		asm.Add.Reg(asm.R1, asm.R4),
		asm.Mov.Reg(asm.R0, asm.R3),
		asm.Add.Reg(asm.R0, asm.R4),
		atomic(asm.CmpXchg, asm.R5, asm.R1, 0),
		asm.Ja.Label("count"),
	}
}

// decide lets the packet go at once where the clock was behind, and else gives it its time, or drops it.
func decide() asm.Instructions {
	return join(behind("wait"), asm.Instructions{
		asm.Mov.Reg(asm.R1, asm.R3).WithSymbol("wait"),
		asm.Sub.Reg(asm.R1, asm.R0),
		asm.LoadMem(asm.R2, asm.R7, settingsHorizon, asm.DWord),
		asm.LoadMem(asm.R0, asm.RFP, atFlags, asm.Word),
		asm.And.Imm(asm.R0, flagBackground),
		asm.JEq.Imm(asm.R0, 0, "horizon"),
		asm.RSh.Imm(asm.R2, backgroundShift),
		asm.StoreMem(asm.RFP, atHorizon, asm.R2, asm.DWord).WithSymbol("horizon"),
		asm.JGT.Reg(asm.R1, asm.R2, "drop"),
		asm.RSh.Imm(asm.R2, earlyShift),
		asm.JLE.Reg(asm.R1, asm.R2, "delay"),
		asm.Sub.Reg(asm.R1, asm.R2),
		asm.StoreMem(asm.RFP, atBeyond, asm.R1, asm.DWord),
		asm.StoreMem(asm.RFP, atTime, asm.R3, asm.DWord),
		asm.FnGetPrandomU32.Call(),
		asm.LoadMem(asm.R2, asm.RFP, atHorizon, asm.DWord),
		asm.Mul.Reg(asm.R0, asm.R2),
		asm.RSh.Imm(asm.R0, 32),
		asm.LoadMem(asm.R1, asm.RFP, atBeyond, asm.DWord),
		asm.LoadMem(asm.R3, asm.RFP, atTime, asm.DWord),
		asm.LoadMem(asm.R4, asm.RFP, atTakes, asm.DWord),
		asm.LoadMem(asm.R5, asm.RFP, atClock, asm.DWord),
		asm.JLT.Reg(asm.R0, asm.R1, "drop"),

		asm.Mov.Imm(asm.R1, 1).WithSymbol("delay"),
		atomic(asm.AddAtomic, asm.R9, asm.R1, tallyDelayed),
		asm.LoadMem(asm.R1, asm.R6, skbTimestamp, asm.DWord),
		asm.JGT.Reg(asm.R1, asm.R3, "count"), // its sender wants it to leave later still
		asm.StoreMem(asm.R6, skbTimestamp, asm.R3, asm.DWord),
		asm.Ja.Label("count"),

		asm.Neg.Imm(asm.R4, 0).WithSymbol("drop"),
		atomic(asm.AddAtomic, asm.R5, asm.R4, 0),
		asm.Mov.Imm(asm.R1, 1),
		atomic(asm.AddAtomic, asm.R9, asm.R1, tallyDropped),
		asm.Mov.Imm(asm.R0, tcxDrop),
		asm.Return(),
	})
}

// end counts what leaves, and of a pod that has a slot also for it.
func end(pods *ebpf.Map, uplink int32) asm.Instructions {
	return join(
		asm.Instructions{
			asm.Mov.Imm(asm.R1, 1).WithSymbol("count"),
			atomic(asm.AddAtomic, asm.R9, asm.R1, tallyPackets),
			atomic(asm.AddAtomic, asm.R9, asm.R8, tallyBytes),
			asm.LoadMem(asm.R1, asm.RFP, atSlot, asm.Word),
			asm.JGT.Imm(asm.R1, maxSlots-1, "next"),
			asm.Add.Imm(asm.R1, uplink*maxSlots),
			asm.StoreMem(asm.RFP, atKey, asm.R1, asm.Word),
		}, lookup(pods, atKey),
		asm.Instructions{
			asm.JEq.Imm(asm.R0, 0, "next"),
			asm.Mov.Imm(asm.R1, 1),
			atomic(asm.AddAtomic, asm.R0, asm.R1, tallyPackets),
			atomic(asm.AddAtomic, asm.R0, asm.R8, tallyBytes),
			asm.Mov.Imm(asm.R0, tcxNext).WithSymbol("next"),
			asm.Return(),
		})
}
