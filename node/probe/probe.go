// Package probe tries on a machine what Hilbert promises of hardware, and says of each promise whether it holds there.
//
// Some of this hardware was never at hand (Promise.Seen is empty): the code for it was written by manuals and tested on fixtures. Whoever has such a machine runs
// hilbert node probe, and knows before pods do.
//
//	Machine ─▶ Run ─▶ []Result   pass, fail, absent (not this hardware), unknown (it could not be looked at)
//
// For example, a GPU whose driver does not say how much memory it has fails gpu-inventory, for the agent would close it. A machine without GPUs has gpu-inventory absent.
//
// Invariants: nothing is changed unless Machine.Write is set, and then only what the agent would make too, which is removed again; programs that see run queues are in the kernel
// for a moment all the same. No disk is written to that Machine.Disk does
// not name, and none that others use unless that is allowed. What cannot be read is unknown, never a
// pass. A promise without its hardware is absent, never a pass.
//
// It is not the agent, and asks no API server. It does not compute on GPUs: make gpu-test does.
package probe

import (
	"context"
	"io/fs"
	"time"

	"hilbert.dev/hilbert/node/gpu"
	"hilbert.dev/hilbert/node/rdt"
)

// Outcome is what became of a promise.
type Outcome string

// The outcomes.
const (
	Pass    Outcome = "pass"
	Fail    Outcome = "fail"
	Absent  Outcome = "absent"
	Unknown Outcome = "unknown"
)

// Promise is something that Hilbert says of hardware.
type Promise struct {
	Name string `json:"name"` // scripts may compare it
	Text string `json:"promise"`
	// Seen is where it was seen to hold; empty: on no machine yet, but on fixtures.
	Seen string `json:"seen,omitempty"`

	try func(ctx context.Context, m *Machine) verdict
}

// verdict is an outcome, and why.
type verdict struct {
	outcome Outcome
	detail  string
	cure    string
}

// Result is what a machine says to a promise.
type Result struct {
	Promise
	Outcome Outcome `json:"outcome"`
	// Detail is what was found, and Cure what may help where it fails.
	Detail string `json:"detail"`
	Cure   string `json:"cure,omitempty"`
}

// Machine is what is looked at.
type Machine struct {
	Now time.Time
	// Root is the machine's root directory. CDI are the directories of CDI's specifications, and Toolkit is the configuration of NVIDIA's container toolkit.
	Root    fs.FS
	CDI     []string
	Toolkit string
	Driver  gpu.Driver
	// Faults reads the faults of GPUs from the kernel's log.
	Faults func() ([]gpu.Xid, error)
	// RunQueues puts the programs that see for whom threads wait into the kernel, and takes them away.
	RunQueues func() error
	// Instructions counts the instructions and the cycles that this thread takes for some work.
	Instructions func() (instructions, cycles uint64, err error)
	RDT          rdt.Tree
	// Threads are those of this program; LoadMemory has one of them move bytes between the processor and the memory.
	Threads    func() ([]int, error)
	LoadMemory func() (bytes float64, took time.Duration)
	// Disk is a disk that may be measured; nil: none may.
	Disk *DiskTrial
	// Write allows to make groups of resctrl as an agent makes them, and to remove them.
	Write bool

	inventory    *gpu.Inventory // of the driver, once it has answered
	inventoryErr error          // why it has not
}

// Promises are all that are probed.
func Promises() []Promise {
	return []Promise{
		{"pressure", "The kernel tells how long tasks wait for CPU, memory and disks.", "Linux 6.18 in a virtual machine", pressure},
		{"cgroups", "The cgroup v2 hierarchy has the controllers by which the agent sets limits.", "Linux 6.18 in a virtual machine", cgroups},
		{"machine", "CPUs, cores, caches, NUMA nodes and their distances are known.", "x86-64 and arm64 fixtures of real machines, virtual machines of 1 to 4 NUMA nodes", hardware},
		{"counters", "Instructions and cycles of a thread can be counted, to name neighbours that slow each other down.", "", counters},
		{"run-queues", "It is seen for whom threads wait, to name neighbours that take their CPUs.", "Linux 6.18 in a virtual machine", runQueues},
		{"disk-model", "What a disk can do is measured, for io.cost, and written nowhere but to a file that goes.", "a virtual disk", diskModel},
		{"rdt", "Reclaimed pods are kept to a part of the last-level cache and of the memory's bandwidth, and what they use is counted.", "", resctrl},
		{"memory-bandwidth", "The memory bandwidth of a pod is read, to name who fills the memory bus.", "", memoryBandwidth},
		{"memory-throttle", "Reclaimed pods move less memory at a smaller percentage, and what moves in each domain of the last-level cache is counted.", "", memoryThrottle},
		{"rdma", "The device files of network cards with RDMA are known, so that a pod can be given them.", "", rdma},
		{"gpu-inventory", "NVIDIA's driver says of each GPU what placement needs: identity, memory, device file, multiprocessors, mode.", "an H100 and an H200, driver 580", gpuInventory},
		{"gpu-faults", "Faults of GPUs are read from the kernel's log.", "an H100, driver 580", gpuFaults},
		{"gpu-links", "It is known how GPUs are connected.", "", gpuLinks},
		{"gpu-mig", "MIG instances have an identity, memory and multiprocessors.", "", gpuMIG},
		{"gpu-soft", "An MPS daemon serves each GPU that gives soft slices.", "an H100 and an H200, driver 580: make gpu-test", gpuSoft},
		{"gpu-cdi", "A CDI specification names each GPU and instance, so that the runtime can give it to a container.", "an H200, driver 580: make gpu-test", gpuCDI},
		{"gpu-toolkit", "NVIDIA's container toolkit gives no container a GPU that its pod does not hold.", "", gpuToolkit},
	}
}

// Unseen are the names of the promises that were never seen to hold on any hardware.
func Unseen() (names []string) {
	for _, p := range Promises() {
		if p.Seen == "" {
			names = append(names, p.Name)
		}
	}
	return names
}

// Run tries the promises in turn. ctx ends what waits for a driver.
func Run(ctx context.Context, m *Machine, promises []Promise) []Result {
	out := make([]Result, 0, len(promises))
	for _, p := range promises {
		v := p.try(ctx, m)
		out = append(out, Result{Promise: p, Outcome: v.outcome, Detail: v.detail, Cure: v.cure})
	}
	return out
}

// Failed is how many promises do not hold.
func Failed(results []Result) (n int) {
	for i := range results {
		if results[i].Outcome == Fail {
			n++
		}
	}
	return n
}

func pass(detail string) verdict          { return verdict{outcome: Pass, detail: detail} }
func absent(detail string) verdict        { return verdict{outcome: Absent, detail: detail} }
func unknown(detail, cure string) verdict { return verdict{Unknown, detail, cure} }
func fail(detail, cure string) verdict    { return verdict{Fail, detail, cure} }
