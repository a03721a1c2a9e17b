package gpu

import (
	"context"
	"errors"
	"time"
)

// Driver takes inventories.
type Driver interface {
	// Inventory is what the driver says now. It may take seconds. The error wraps ErrNoDriver where there is certainly no driver that runs; any
	// other says: unknown.
	Inventory(ctx context.Context) (*Inventory, error)
}

// ErrNoDriver is a driver that is not there, or not loaded.
var ErrNoDriver = errors.New("no NVIDIA driver runs")

// Inventory is what the driver said at one moment.
type Inventory struct {
	Version string // of the driver, "590.44.01"
	GPUs    []GPU  // by address
	// Links is how well two GPUs are connected, row by row in the order of GPUs; more is better. nil: not known.
	Links []uint8
}

// GPU is one GPU as the driver has it. Zero values are what is not known.
type GPU struct {
	Address         string // PCI, as the kernel writes it: "0000:3b:00.0"
	UUID            string // "GPU-27b94a00-ed54-5c24-b1fd-1054085de32a"
	Model           string // "NVIDIA A100-SXM4-40GB"
	Architecture    string // "Ampere"
	Node            string // its device file, "/dev/nvidia0"
	Memory          uint32 // MiB, without what the driver keeps for itself
	Multiprocessors uint16 // of the whole GPU
	Compute         ComputeMode
	MIG             MIGMode
	Instances       []Instance // in the driver's order
	Health          Health
	// Processes are those that compute on it. Clients of MPS may be missing: their work counts as its server's.
	Processes []Process
	// Lost is why the driver cannot say more of this GPU; then only its address is known.
	Lost string
}

// Instance is a MIG device: a compute instance in a GPU instance.
type Instance struct {
	UUID            string // "MIG-…"
	Profile         string // "3g.20gb"
	GI, CI          int    // the driver's numbers of the GPU instance, and of the compute instance in it
	Multiprocessors uint16
	Memory          uint32 // MiB; compute instances of one GPU instance share it
}

// Process is a process on a GPU.
type Process struct {
	PID  int // on the host, if the agent is in the host's PID namespace
	Name string
	// Graphics: it only draws.
	Graphics bool
}

// ComputeMode is how many processes may compute on a GPU. It is read, never set.
type ComputeMode string

// The compute modes.
const (
	ComputeDefault    ComputeMode = "Default"
	ComputeExclusive  ComputeMode = "Exclusive_Process"
	ComputeProhibited ComputeMode = "Prohibited"
)

// MIGMode is whether a GPU is divided by hardware.
type MIGMode uint8

// The MIG modes.
const (
	MIGUnknown  MIGMode = iota // the driver does not say
	MIGOff                     // or the GPU cannot
	MIGOn                      // it gives instances, and nothing else
	MIGChanging                // it will be otherwise after the next reset
)

// Answer is what the driver says to a question of yes or no.
type Answer uint8

// The answers.
const (
	Unknown Answer = iota
	No
	Yes
)

// Health is what the driver says of a GPU's faults.
type Health struct {
	// Recovery is what it asks for: "None", "Reset", "Reboot", "Drain P2P", "Drain and Reset". Empty: an older driver, which does not say.
	Recovery string
	// Uncorrected: memory errors that could not be corrected happened since the driver was loaded.
	Uncorrected Answer
	// RepairPending: a repair of memory waits for a reset. RepairFailed: it is beyond repair.
	RepairPending, RepairFailed Answer
}

// Xid is a fault that the kernel's log tells of.
type Xid struct {
	Address string
	Code    int
	At      time.Duration // since the kernel started
}

// faults says what is wrong with a GPU, of what the driver says at this moment; empty: nothing that it knows of.
func (g *GPU) faults() string {
	h := &g.Health
	switch {
	case g.Lost != "":
		return "the driver has lost it: " + g.Lost
	case h.Recovery != "" && h.Recovery != "None":
		return "the driver asks for: " + h.Recovery
	case h.RepairFailed == Yes:
		return "its memory is beyond repair"
	case h.RepairPending == Yes:
		return "a repair of its memory waits for a reset"
	case h.Uncorrected == Yes:
		return "memory errors that could not be corrected"
	case g.Compute == ComputeProhibited:
		return "its compute mode prohibits all work"
	}
	return ""
}

// missing says what must be known of a GPU before it can be given, and is not; empty: nothing.
func (g *GPU) missing() string {
	switch {
	case g.UUID == "":
		return "UUID"
	case g.Memory == 0:
		return "memory"
	case g.Compute == "":
		return "compute mode"
	case g.MIG == MIGUnknown:
		return "MIG mode"
	}
	return ""
}
