package egress

import (
	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
)

// What a program at a cgroup returns.
const (
	cgroupDrop = 0
	cgroupPass = 1
)

// entrance is a place where packets for reclaimed pods are seen after they came in by an uplink, and before the pod has them.
type entrance struct {
	name       string
	kind       ebpf.ProgramType
	attach     ebpf.AttachType
	came       int16 // offset of the interface by which the packet came
	length     int16 // offset of its length
	pass, drop int32
	// pod finds the pod's slot: at atSlot, or it goes to "next".
	pod func(maps map[string]*ebpf.Map) asm.Instructions
}

// atVeth is the host's end of a pod's veth, and atHost the cgroup of a pod in the host's network.
var (
	atVeth = entrance{"hilbert_police", ebpf.SchedCLS, ebpf.AttachTCXEgress, skbIngressIfindex, skbWireLength, tcxNext, tcxDrop, podOfVeth}
	atHost = entrance{"hilbert_polhost", ebpf.CGroupSKB, ebpf.AttachCGroupInetIngress, skbIfindex, skbLength, cgroupPass, cgroupDrop, podOfCgroup}
)

// policeSpec is the program at an entrance: what came in by an uplink for a reclaimed pod, faster than that uplink's rate, is dropped, and its sender slows down. It is a token
// bucket, kept as the time at which it would be full: a packet moves that time on by what it takes at the rate, and is dropped if the time is further ahead than the burst.
// Throughout, R6 is the packet, R7 the settings, R8 the packet's length, and R9 the counters. What did not come by an uplink, from a pod of the node, passes and is not counted.
func policeSpec(maps map[string]*ebpf.Map, at *entrance) *ebpf.ProgramSpec {
	return &ebpf.ProgramSpec{Name: at.name, Type: at.kind, AttachType: at.attach, License: license, Instructions: join(
		came(maps, at), at.pod(maps), reclaimedOnly(maps["slots"]), bucket(maps), verdictOf(at),
	)}
}

// came finds the uplink by which the packet came, and its settings; the uplink's number is at atBeyond.
func came(maps map[string]*ebpf.Map, at *entrance) asm.Instructions {
	return join(
		asm.Instructions{
			asm.Mov.Reg(asm.R6, asm.R1),
			asm.LoadMem(asm.R1, asm.R6, at.came, asm.Word),
			asm.StoreMem(asm.RFP, atKey, asm.R1, asm.Word),
		}, lookup(maps["uplinks"], atKey),
		asm.Instructions{
			asm.JEq.Imm(asm.R0, 0, "next"),
			asm.LoadMem(asm.R1, asm.R0, 0, asm.Word),
			asm.StoreMem(asm.RFP, atBeyond, asm.R1, asm.Word),
		}, lookup(maps["settings"], atBeyond),
		asm.Instructions{
			asm.JEq.Imm(asm.R0, 0, "next"),
			asm.Mov.Reg(asm.R7, asm.R0),
			asm.LoadMem(asm.R8, asm.R6, at.length, asm.Word),
			asm.JGT.Imm(asm.R8, leastCharge-1, "pod"),
			asm.Mov.Imm(asm.R8, leastCharge),
			asm.Mov.Imm(asm.R1, 0).WithSymbol("pod"),
		})
}

func podOfVeth(maps map[string]*ebpf.Map) asm.Instructions {
	return join(
		asm.Instructions{
			asm.LoadMem(asm.R1, asm.R6, skbIfindex, asm.Word),
			asm.StoreMem(asm.RFP, atKey, asm.R1, asm.Word),
		}, lookup(maps["veths"], atKey), slotFound())
}

func podOfCgroup(maps map[string]*ebpf.Map) asm.Instructions {
	return join(
		asm.Instructions{
			asm.LoadMem(asm.R2, asm.R7, settingsLevel, asm.DWord),
			asm.JEq.Imm(asm.R2, 0, "next"),
			asm.Mov.Reg(asm.R1, asm.R6),
			asm.FnSkbAncestorCgroupId.Call(),
			asm.StoreMem(asm.RFP, atCgroup, asm.R0, asm.DWord),
		}, lookup(maps["cgroups"], atCgroup), slotFound())
}

func slotFound() asm.Instructions {
	return asm.Instructions{
		asm.JEq.Imm(asm.R0, 0, "next"),
		asm.LoadMem(asm.R1, asm.R0, 0, asm.Word),
		asm.StoreMem(asm.RFP, atSlot, asm.R1, asm.Word),
	}
}

// reclaimedOnly lets all others go.
func reclaimedOnly(slots *ebpf.Map) asm.Instructions {
	return join(lookup(slots, atSlot), asm.Instructions{
		asm.JEq.Imm(asm.R0, 0, "next"),
		asm.LoadMem(asm.R1, asm.R0, 0, asm.Word),
		asm.And.Imm(asm.R1, flagReclaimed),
		asm.JEq.Imm(asm.R1, 0, "next"),
	})
}

// bucket fetches the counters, and takes the packet's time from the uplink's bucket: R3 is the time before, R0 now, R4 what the packet takes, R5 the bucket.
func bucket(maps map[string]*ebpf.Map) asm.Instructions {
	return join(
		asm.Instructions{
			asm.LoadMem(asm.R1, asm.RFP, atBeyond, asm.Word),
			asm.Mul.Imm(asm.R1, classes),
			asm.Add.Imm(asm.R1, classIncoming),
			asm.StoreMem(asm.RFP, atKey, asm.R1, asm.Word),
		}, lookup(maps["tally"], atKey),
		asm.Instructions{
			asm.JEq.Imm(asm.R0, 0, "next"),
			asm.Mov.Reg(asm.R9, asm.R0),
			asm.LoadMem(asm.R1, asm.R7, settingsIncoming, asm.DWord),
			asm.JEq.Imm(asm.R1, 0, "count"),
		}, reserve(maps["incoming"], atBeyond))
}

// verdictOf drops the packet, or counts it and lets it pass.
func verdictOf(at *entrance) asm.Instructions {
	return join(behind("ahead"), asm.Instructions{ // a clock that is behind is a full bucket
		asm.Sub.Reg(asm.R3, asm.R0).WithSymbol("ahead"),
		asm.LoadMem(asm.R2, asm.R7, settingsBurst, asm.DWord),
		asm.JLE.Reg(asm.R3, asm.R2, "count"),
		asm.Neg.Imm(asm.R4, 0),
		atomic(asm.AddAtomic, asm.R5, asm.R4, 0),
		asm.Mov.Imm(asm.R1, 1),
		atomic(asm.AddAtomic, asm.R9, asm.R1, tallyDropped),
		atomic(asm.AddAtomic, asm.R9, asm.R8, tallyRefused),
		asm.Mov.Imm(asm.R0, at.drop),
		asm.Return(),

		asm.Mov.Imm(asm.R1, 1).WithSymbol("count"),
		atomic(asm.AddAtomic, asm.R9, asm.R1, tallyPackets),
		atomic(asm.AddAtomic, asm.R9, asm.R8, tallyBytes),
		asm.Mov.Imm(asm.R0, at.pass).WithSymbol("next"),
		asm.Return(),
	})
}
