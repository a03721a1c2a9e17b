package egress

import (
	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
)

// mark is the queue mapping of a reclaimed pod's packet on its way to the uplink. No network card has a queue of that number: the kernel
// sets the field to the number of the receiving queue, plus one, for what it forwards.
const mark = 0x4842

// What a TCX program returns: the next program shall decide, or the packet is dropped.
const (
	tcxNext = -1
	tcxDrop = 2
)

// Offsets in the kernel's struct __sk_buff.
const (
	skbQueueMapping = 12
	skbTimestamp    = 152
	skbWireLength   = 160
)

// settings is the one entry of the map of that name.
type settings struct {
	Rate    uint64 // bytes per second; 0: no ceiling
	Horizon uint64 // nanoseconds that a packet may wait, below 2^32
	Level   uint64 // of the pods' cgroups below the root; 0: none is in the host's network
}

const (
	settingsRate    = 0
	settingsHorizon = 8
	settingsLevel   = 16
)

// tally is an entry of the map of counters, for each CPU and class.
type tally struct{ Packets, Bytes, Delayed, Dropped uint64 }

const (
	tallyPackets = 0
	tallyBytes   = 8
	tallyDelayed = 16
	tallyDropped = 24
)

// The classes, as keys of the counters.
const (
	classOnline = iota
	classReclaimed
	classes
)

// earlyShift is where packets begin to be dropped: at the horizon shifted right by so much, and from there the more often the longer they would
// wait. A sender through a veth does not feel how much of its own waits in the qdisc and fills whatever there is; one in the host's network
// may have two packets there (TCP small queues), so that its share is two packets in each such wait. A short wait keeps the shares alike.
const earlyShift = 4

// maxHostPods bounds the reclaimed pods in the host's network.
const maxHostPods = 1024

// mapSpecs are the maps. Names are those of their pins. The one entry of clock is when the next packet may leave, in nanoseconds of the
// monotonic clock; only the program writes it.
func mapSpecs() map[string]*ebpf.MapSpec {
	return map[string]*ebpf.MapSpec{
		"settings": {Name: "settings", Type: ebpf.Array, KeySize: 4, ValueSize: 24, MaxEntries: 1},
		"clock":    {Name: "clock", Type: ebpf.Array, KeySize: 4, ValueSize: 8, MaxEntries: 1},
		"tally":    {Name: "tally", Type: ebpf.PerCPUArray, KeySize: 4, ValueSize: 32, MaxEntries: classes},
		"cgroups":  {Name: "cgroups", Type: ebpf.Hash, KeySize: 8, ValueSize: 4, MaxEntries: maxHostPods},
	}
}

// markSpec is the program at the host's end of a reclaimed pod's veth.
func markSpec() *ebpf.ProgramSpec {
	return &ebpf.ProgramSpec{Name: "hilbert_mark", Type: ebpf.SchedCLS, AttachType: ebpf.AttachTCXIngress, License: license, Instructions: asm.Instructions{
		asm.Mov.Imm(asm.R2, mark),
		asm.StoreMem(asm.R1, skbQueueMapping, asm.R2, asm.Word),
		asm.Mov.Imm(asm.R0, tcxNext),
		asm.Return(),
	}}
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

// paceSpec is the program at the uplink. Throughout, R6 is the packet, R7 the settings, R8 the packet's length, and later R9 the class's counters.
func paceSpec(maps map[string]*ebpf.Map) *ebpf.ProgramSpec {
	var code asm.Instructions
	for _, part := range []asm.Instructions{
		begin(maps["settings"]), classify(maps["cgroups"]), tallyOf(maps["tally"]), reserve(maps["clock"]), decide(), end(),
	} {
		code = append(code, part...)
	}
	return &ebpf.ProgramSpec{
		Name: "hilbert_pace", Type: ebpf.SchedCLS, AttachType: ebpf.AttachTCXEgress, License: license, Instructions: code,
	}
}

// begin fetches the settings and the length, which is what the wire carries of all segments.
func begin(settings *ebpf.Map) asm.Instructions {
	return asm.Instructions{
		asm.Mov.Reg(asm.R6, asm.R1),
		asm.StoreImm(asm.RFP, -4, 0, asm.Word),
		asm.LoadMapPtr(asm.R1, settings.FD()),
		asm.Mov.Reg(asm.R2, asm.RFP),
		asm.Add.Imm(asm.R2, -4),
		asm.FnMapLookupElem.Call(),
		asm.JEq.Imm(asm.R0, 0, "next"),
		asm.Mov.Reg(asm.R7, asm.R0),
		asm.LoadMem(asm.R8, asm.R6, skbWireLength, asm.Word),
		asm.JGT.Imm(asm.R8, leastCharge-1, "classify"),
		asm.Mov.Imm(asm.R8, leastCharge),
	}
}

// classify stores the packet's class at FP-4.
func classify(cgroups *ebpf.Map) asm.Instructions {
	return asm.Instructions{
		asm.LoadMem(asm.R1, asm.R6, skbQueueMapping, asm.Word).WithSymbol("classify"),
		asm.JNE.Imm(asm.R1, mark, "by cgroup"),
		asm.Mov.Imm(asm.R1, 0),
		asm.StoreMem(asm.R6, skbQueueMapping, asm.R1, asm.Word), // it is no queue
		asm.Ja.Label("reclaimed"),
		asm.LoadMem(asm.R2, asm.R7, settingsLevel, asm.DWord).WithSymbol("by cgroup"),
		asm.JEq.Imm(asm.R2, 0, "online"),
		asm.Mov.Reg(asm.R1, asm.R6),
		asm.FnSkbAncestorCgroupId.Call(),
		asm.StoreMem(asm.RFP, -16, asm.R0, asm.DWord),
		asm.LoadMapPtr(asm.R1, cgroups.FD()),
		asm.Mov.Reg(asm.R2, asm.RFP),
		asm.Add.Imm(asm.R2, -16),
		asm.FnMapLookupElem.Call(),
		asm.JNE.Imm(asm.R0, 0, "reclaimed"),
		asm.StoreImm(asm.RFP, -4, classOnline, asm.Word).WithSymbol("online"),
		asm.Ja.Label("tally"),
		asm.StoreImm(asm.RFP, -4, classReclaimed, asm.Word).WithSymbol("reclaimed"),
	}
}

// tallyOf fetches the class's counters. A packet of the class online, and any where there is no ceiling, is only counted.
func tallyOf(tallies *ebpf.Map) asm.Instructions {
	return asm.Instructions{
		asm.LoadMapPtr(asm.R1, tallies.FD()).WithSymbol("tally"),
		asm.Mov.Reg(asm.R2, asm.RFP),
		asm.Add.Imm(asm.R2, -4),
		asm.FnMapLookupElem.Call(),
		asm.JEq.Imm(asm.R0, 0, "next"),
		asm.Mov.Reg(asm.R9, asm.R0),
		asm.LoadMem(asm.R1, asm.RFP, -4, asm.Word),
		asm.JEq.Imm(asm.R1, classOnline, "count"),
		asm.LoadMem(asm.R1, asm.R7, settingsRate, asm.DWord),
		asm.JEq.Imm(asm.R1, 0, "count"),
	}
}

// reserve takes the packet's time from the clock that all packets of all CPUs share: R3 is when it may leave, R4 the time it takes, R0 now,
// R5 the clock.
func reserve(clock *ebpf.Map) asm.Instructions {
	const nanoseconds = 1_000_000_000
	return asm.Instructions{
		asm.Mov.Reg(asm.R2, asm.R8),
		asm.Mul.Imm(asm.R2, nanoseconds),
		asm.Div.Reg(asm.R2, asm.R1),
		asm.StoreMem(asm.RFP, -24, asm.R2, asm.DWord),
		asm.StoreImm(asm.RFP, -4, 0, asm.Word),
		asm.LoadMapPtr(asm.R1, clock.FD()),
		asm.Mov.Reg(asm.R2, asm.RFP),
		asm.Add.Imm(asm.R2, -4),
		asm.FnMapLookupElem.Call(),
		asm.JEq.Imm(asm.R0, 0, "next"),
		asm.StoreMem(asm.RFP, -32, asm.R0, asm.DWord),
		asm.FnKtimeGetNs.Call(),
		asm.LoadMem(asm.R4, asm.RFP, -24, asm.DWord),
		asm.LoadMem(asm.R5, asm.RFP, -32, asm.DWord),
		asm.Mov.Reg(asm.R3, asm.R4),
		atomic(asm.FetchAdd, asm.R5, asm.R3, 0),
	}
}

// decide lets the packet go at once where the clock was behind, and else gives it its time, or drops it.
func decide() asm.Instructions {
	return asm.Instructions{
		asm.JGT.Reg(asm.R3, asm.R0, "wait"),
		// Nothing was sent for a while. The clock starts again at this packet's end. If another CPU does so at the same moment, its value is as good.
		asm.Mov.Reg(asm.R1, asm.R0),
		asm.Add.Reg(asm.R1, asm.R4),
		asm.Mov.Reg(asm.R0, asm.R3),
		asm.Add.Reg(asm.R0, asm.R4),
		atomic(asm.CmpXchg, asm.R5, asm.R1, 0),
		asm.Ja.Label("count"),

		asm.Mov.Reg(asm.R1, asm.R3).WithSymbol("wait"),
		asm.Sub.Reg(asm.R1, asm.R0),
		asm.LoadMem(asm.R2, asm.R7, settingsHorizon, asm.DWord),
		asm.JGT.Reg(asm.R1, asm.R2, "drop"),
		asm.RSh.Imm(asm.R2, earlyShift),
		asm.JLE.Reg(asm.R1, asm.R2, "delay"),
		asm.Sub.Reg(asm.R1, asm.R2),
		asm.StoreMem(asm.RFP, -40, asm.R1, asm.DWord),
		asm.StoreMem(asm.RFP, -48, asm.R3, asm.DWord),
		asm.FnGetPrandomU32.Call(),
		asm.LoadMem(asm.R2, asm.R7, settingsHorizon, asm.DWord),
		asm.Mul.Reg(asm.R0, asm.R2),
		asm.RSh.Imm(asm.R0, 32),
		asm.LoadMem(asm.R1, asm.RFP, -40, asm.DWord),
		asm.LoadMem(asm.R3, asm.RFP, -48, asm.DWord),
		asm.LoadMem(asm.R4, asm.RFP, -24, asm.DWord),
		asm.LoadMem(asm.R5, asm.RFP, -32, asm.DWord),
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
	}
}

// end counts what leaves.
func end() asm.Instructions {
	return asm.Instructions{
		asm.Mov.Imm(asm.R1, 1).WithSymbol("count"),
		atomic(asm.AddAtomic, asm.R9, asm.R1, tallyPackets),
		atomic(asm.AddAtomic, asm.R9, asm.R8, tallyBytes),
		asm.Mov.Imm(asm.R0, tcxNext).WithSymbol("next"),
		asm.Return(),
	}
}
