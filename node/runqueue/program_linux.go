package runqueue

import (
	"fmt"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
)

// license says nothing more than the project's own: none of the kernel's functions that the programs call asks for another.
const license = "Apache-2.0"

// turns is how many turns of pods each CPU keeps, a power of two.
const turns = 8

// Offsets in the entry of map "cpu", of which each CPU has its own: the number of the last turn, when the last switch was, and the turns: whose, and since when.
const (
	cpuCursor  = 0
	cpuLast    = 8
	cpuTurns   = 16
	turnSize   = 16
	turnPod    = cpuTurns
	turnStart  = cpuTurns + 8
	cpuSize    = cpuTurns + turns*turnSize
	threadPod  = 0
	threadFrom = 8 // since when it waits; 0: it does not
)

// What the programs keep on their stacks.
const (
	stackVictim = -8
	stackCgroup = -16
	stackPID    = -24
	stackPair   = -40 // who waited, and who ran
	stackRan    = -32
	stackFrom   = -48
	stackEnd    = -56
	stackCursor = -64
	stackTime   = -72
	stackThread = -88
	stackZero   = -96
)

// States of a task as sched_switch says them: no bit of stateMask is a task that could go on, and one of stateDead is one that never will.
const (
	stateMask = 0xff
	stateDead = 0x30
)

// mapSpecs are the maps. pods says of a pod's cgroup whether it is a victim; waits adds up nanoseconds by who waited and who ran; dropped has what found no room there.
func mapSpecs() map[string]*ebpf.MapSpec {
	return map[string]*ebpf.MapSpec{
		"cpu":     {Name: "cpu", Type: ebpf.PerCPUArray, KeySize: 4, ValueSize: cpuSize, MaxEntries: 1},
		"pods":    {Name: "pods", Type: ebpf.Hash, KeySize: 8, ValueSize: 8, MaxEntries: maxPods},
		"threads": {Name: "threads", Type: ebpf.LRUHash, KeySize: 4, ValueSize: 16, MaxEntries: maxThreads},
		"waits":   {Name: "waits", Type: ebpf.Hash, KeySize: 16, ValueSize: 8, MaxEntries: maxPairs},
		"dropped": {Name: "dropped", Type: ebpf.Array, KeySize: 4, ValueSize: 8, MaxEntries: 1},
	}
}

// lookup calls for the entry of the key on the stack, in R0; 0: there is none.
func lookup(m *ebpf.Map, key int16) asm.Instructions {
	return asm.Instructions{asm.LoadMapPtr(asm.R1, m.FD()), asm.Mov.Reg(asm.R2, asm.RFP), asm.Add.Imm(asm.R2, int32(key)), asm.FnMapLookupElem.Call()}
}

// switchSpec is the program at sched_switch. Throughout, R6 is the event, R7 the CPU's turns, R8 now, and R9 the pod that stops, 0 for none.
func switchSpec(maps map[string]*ebpf.Map, f fields, levels []int) *ebpf.ProgramSpec {
	var code asm.Instructions
	for _, part := range []asm.Instructions{
		begin(maps["cpu"]), whoStops(maps["pods"], f, levels), turn(), stops(maps["threads"], f), runs(maps["threads"], f), divide(maps), end(),
	} {
		code = append(code, part...)
	}
	return &ebpf.ProgramSpec{Name: "hilbert_switch", Type: ebpf.TracePoint, License: license, Instructions: code}
}

func begin(cpu *ebpf.Map) asm.Instructions {
	code := asm.Instructions{
		asm.Mov.Reg(asm.R6, asm.R1),
		asm.FnKtimeGetNs.Call(),
		asm.Mov.Reg(asm.R8, asm.R0),
		asm.Mov.Imm(asm.R1, 0),
		asm.StoreMem(asm.RFP, stackZero, asm.R1, asm.DWord),
	}
	code = append(code, lookup(cpu, stackZero)...)
	return append(code, asm.JEq.Imm(asm.R0, 0, "end"), asm.Mov.Reg(asm.R7, asm.R0))
}

// whoStops finds the pod of the current task, which is the one that stops.
func whoStops(pods *ebpf.Map, f fields, levels []int) asm.Instructions {
	code := asm.Instructions{
		asm.Mov.Imm(asm.R9, 0),
		asm.StoreMem(asm.RFP, stackVictim, asm.R9, asm.DWord),
		asm.LoadMem(asm.R1, asm.R6, f.prevPID, asm.Word),
		asm.JEq.Imm(asm.R1, 0, "turn"), // the idle task
	}
	for i, level := range levels {
		next := fmt.Sprint("level ", i+1)
		if i+1 == len(levels) {
			next = "turn"
		}
		first := asm.Mov.Imm(asm.R1, int32(level))
		if i > 0 {
			first = first.WithSymbol(fmt.Sprint("level ", i))
		}
		code = append(code, first, asm.FnGetCurrentAncestorCgroupId.Call(), asm.JEq.Imm(asm.R0, 0, next), asm.StoreMem(asm.RFP, stackCgroup, asm.R0, asm.DWord))
		code = append(code, lookup(pods, stackCgroup)...)
		code = append(
			code, asm.JEq.Imm(asm.R0, 0, next),
			asm.LoadMem(asm.R9, asm.RFP, stackCgroup, asm.DWord),
			asm.LoadMem(asm.R1, asm.R0, 0, asm.DWord),
			asm.StoreMem(asm.RFP, stackVictim, asm.R1, asm.DWord),
			asm.Ja.Label("turn"),
		)
	}
	return code
}

// turn writes whose turn it was, unless it was that pod's before too.
func turn() asm.Instructions {
	return asm.Instructions{
		asm.LoadMem(asm.R1, asm.R7, cpuCursor, asm.DWord).WithSymbol("turn"),
		asm.LoadMem(asm.R5, asm.R7, cpuLast, asm.DWord),
		asm.StoreMem(asm.R7, cpuLast, asm.R8, asm.DWord),
		asm.And.Imm(asm.R1, turns-1),
		asm.Mov.Reg(asm.R2, asm.R1),
		asm.Mul.Imm(asm.R2, turnSize),
		asm.Mov.Reg(asm.R3, asm.R7),
		asm.Add.Reg(asm.R3, asm.R2),
		asm.LoadMem(asm.R4, asm.R3, turnPod, asm.DWord),
		asm.JEq.Reg(asm.R4, asm.R9, "stops"),
		asm.Add.Imm(asm.R1, 1),
		asm.And.Imm(asm.R1, turns-1),
		asm.StoreMem(asm.R7, cpuCursor, asm.R1, asm.DWord),
		asm.Mul.Imm(asm.R1, turnSize),
		asm.Mov.Reg(asm.R3, asm.R7),
		asm.Add.Reg(asm.R3, asm.R1),
		asm.StoreMem(asm.R3, turnPod, asm.R9, asm.DWord),
		asm.StoreMem(asm.R3, turnStart, asm.R5, asm.DWord),
	}
}

// stops keeps a victim's thread that stops, and since when it waits if it could go on.
func stops(threads *ebpf.Map, f fields) asm.Instructions {
	return asm.Instructions{
		asm.LoadMem(asm.R1, asm.RFP, stackVictim, asm.DWord).WithSymbol("stops"),
		asm.JEq.Imm(asm.R1, 0, "runs"),
		asm.LoadMem(asm.R1, asm.R6, f.prevPID, asm.Word),
		asm.StoreMem(asm.RFP, stackPID, asm.R1, asm.Word),
		asm.StoreMem(asm.RFP, stackThread+threadPod, asm.R9, asm.DWord),
		asm.StoreMem(asm.RFP, stackThread+threadFrom, asm.R8, asm.DWord),
		asm.LoadMapPtr(asm.R1, threads.FD()),
		asm.Mov.Reg(asm.R2, asm.RFP),
		asm.Add.Imm(asm.R2, stackPID),
		asm.LoadMem(asm.R3, asm.R6, f.prevState, asm.DWord),
		asm.And.Imm(asm.R3, stateMask),
		asm.JEq.Imm(asm.R3, 0, "keep"),
		asm.Mov.Imm(asm.R4, 0),
		asm.StoreMem(asm.RFP, stackThread+threadFrom, asm.R4, asm.DWord),
		asm.And.Imm(asm.R3, stateDead),
		asm.JEq.Imm(asm.R3, 0, "keep"),
		asm.FnMapDeleteElem.Call(), // its number will be another's
		asm.Ja.Label("runs"),
		asm.Mov.Reg(asm.R3, asm.RFP).WithSymbol("keep"),
		asm.Add.Imm(asm.R3, stackThread),
		asm.Mov.Imm(asm.R4, 0),
		asm.FnMapUpdateElem.Call(),
	}
}

// runs finds since when the thread that runs now has waited, if it is a victim's.
func runs(threads *ebpf.Map, f fields) asm.Instructions {
	code := asm.Instructions{
		asm.LoadMem(asm.R1, asm.R6, f.nextPID, asm.Word).WithSymbol("runs"),
		asm.JEq.Imm(asm.R1, 0, "end"),
		asm.StoreMem(asm.RFP, stackPID, asm.R1, asm.Word),
	}
	code = append(code, lookup(threads, stackPID)...)
	return append(
		code, asm.JEq.Imm(asm.R0, 0, "end"),
		asm.LoadMem(asm.R1, asm.R0, threadFrom, asm.DWord),
		asm.JEq.Imm(asm.R1, 0, "end"),
		asm.Mov.Imm(asm.R2, 0),
		asm.StoreMem(asm.R0, threadFrom, asm.R2, asm.DWord),
		asm.StoreMem(asm.RFP, stackFrom, asm.R1, asm.DWord),
		asm.LoadMem(asm.R1, asm.R0, threadPod, asm.DWord),
		asm.StoreMem(asm.RFP, stackPair, asm.R1, asm.DWord),
		asm.StoreMem(asm.RFP, stackEnd, asm.R8, asm.DWord),
		asm.LoadMem(asm.R1, asm.R7, cpuCursor, asm.DWord),
		asm.StoreMem(asm.RFP, stackCursor, asm.R1, asm.DWord),
	)
}

// divide gives each turn, the last one first, the part of the waiting that was in it, and what was before all of them to nobody.
func divide(maps map[string]*ebpf.Map) asm.Instructions {
	var code asm.Instructions
	for i := range turns {
		next := fmt.Sprint("before ", i)
		code = append(
			code, asm.LoadMem(asm.R1, asm.RFP, stackCursor, asm.DWord),
			asm.Add.Imm(asm.R1, int32(turns-i)),
			asm.And.Imm(asm.R1, turns-1),
			asm.Mul.Imm(asm.R1, turnSize),
			asm.Mov.Reg(asm.R3, asm.R7),
			asm.Add.Reg(asm.R3, asm.R1),
			asm.LoadMem(asm.R2, asm.R3, turnPod, asm.DWord),
			asm.LoadMem(asm.R9, asm.R3, turnStart, asm.DWord),
			asm.StoreMem(asm.RFP, stackRan, asm.R2, asm.DWord),
			asm.LoadMem(asm.R4, asm.RFP, stackFrom, asm.DWord),
			asm.JGE.Reg(asm.R4, asm.R9, fmt.Sprint("part ", i)),
			asm.Mov.Reg(asm.R4, asm.R9),
			asm.LoadMem(asm.R5, asm.RFP, stackEnd, asm.DWord).WithSymbol(fmt.Sprint("part ", i)),
			asm.JGE.Reg(asm.R4, asm.R5, next),
			asm.StoreMem(asm.RFP, stackEnd, asm.R4, asm.DWord),
			asm.Sub.Reg(asm.R5, asm.R4),
			asm.StoreMem(asm.RFP, stackTime, asm.R5, asm.DWord),
		)
		code = append(code, count(maps, next)...)
		code = append(
			code, asm.LoadMem(asm.R4, asm.RFP, stackFrom, asm.DWord).WithSymbol(next),
			asm.JGE.Reg(asm.R4, asm.R9, "end"),
		)
	}
	code = append(
		code, asm.Mov.Imm(asm.R1, 0),
		asm.StoreMem(asm.RFP, stackRan, asm.R1, asm.DWord),
		asm.LoadMem(asm.R5, asm.RFP, stackEnd, asm.DWord),
		asm.JGE.Reg(asm.R4, asm.R5, "end"),
		asm.Sub.Reg(asm.R5, asm.R4),
		asm.StoreMem(asm.RFP, stackTime, asm.R5, asm.DWord),
	)
	return append(code, count(maps, "end")...)
}

// count adds the time on the stack to the pair on the stack, or to what found no room, and goes to next, which is a symbol that follows or the end.
func count(maps map[string]*ebpf.Map, next string) asm.Instructions {
	code := lookup(maps["waits"], stackPair)
	code = append(code, asm.JNE.Imm(asm.R0, 0, next+" add"),
		asm.LoadMapPtr(asm.R1, maps["waits"].FD()),
		asm.Mov.Reg(asm.R2, asm.RFP), asm.Add.Imm(asm.R2, stackPair),
		asm.Mov.Reg(asm.R3, asm.RFP), asm.Add.Imm(asm.R3, stackTime),
		asm.Mov.Imm(asm.R4, int32(ebpf.UpdateNoExist)),
		asm.FnMapUpdateElem.Call(),
		asm.JEq.Imm(asm.R0, 0, next))
	code = append(code, lookup(maps["dropped"], stackZero)...)
	return append(
		code, asm.JEq.Imm(asm.R0, 0, next),
		asm.LoadMem(asm.R1, asm.RFP, stackTime, asm.DWord).WithSymbol(next+" add"),
		asm.AddAtomic.Mem(asm.R0, asm.R1, asm.DWord, 0),
	)
}

func end() asm.Instructions {
	return asm.Instructions{asm.Mov.Imm(asm.R0, 0).WithSymbol("end"), asm.Return()}
}

// wakeupSpec is the program at sched_wakeup: a victim's thread waits from now on.
func wakeupSpec(maps map[string]*ebpf.Map, f fields) *ebpf.ProgramSpec {
	code := asm.Instructions{asm.LoadMem(asm.R1, asm.R1, f.wokenPID, asm.Word), asm.StoreMem(asm.RFP, stackPID, asm.R1, asm.Word)}
	code = append(code, lookup(maps["threads"], stackPID)...)
	code = append(
		code, asm.JEq.Imm(asm.R0, 0, "end"),
		asm.LoadMem(asm.R1, asm.R0, threadFrom, asm.DWord),
		asm.JNE.Imm(asm.R1, 0, "end"),
		asm.Mov.Reg(asm.R6, asm.R0),
		asm.FnKtimeGetNs.Call(),
		asm.StoreMem(asm.R6, threadFrom, asm.R0, asm.DWord),
	)
	return &ebpf.ProgramSpec{Name: "hilbert_wakeup", Type: ebpf.TracePoint, License: license, Instructions: append(code, end()...)}
}
