// Package inject makes of a grant what a container gets: it joins which GPUs there are (package gpu), how CDI calls them (package cdi), and how MPS
// limits a slice (package mps).
//
// Data flow: Uninjectable says before anything is promised which GPUs could not be put into a container; it is part of what gpu.Step observes. Resolve turns
// a grant of the allocator into names, environment and mounts, which cdi.Inject gives to the pod's containers.
//
// Invariants: an index is turned into a device by its UUID and device file of now, and only while that is certain: a GPU that is gone, replaced,
// doubled or not known is refused, even to its holder, because another device could be meant. One that is merely unhealthy, or closed for a
// reason that does not put its identity in doubt, is still given to its holder, whose containers may start again. All of it is pure.
//
// It decides no grant, and keeps none.
package inject

import (
	"errors"
	"fmt"
	"math/bits"

	"hilbert.dev/hilbert/node/cdi"
	"hilbert.dev/hilbert/node/gpu"
	"hilbert.dev/hilbert/node/mps"
	"hilbert.dev/hilbert/topology"
)

// ErrDevice is a grant of which a device cannot be given now.
var ErrDevice = errors.New("the device cannot be given")

// ErrUnserved is a GPU that has to be reached through MPS, of which no daemon serves it now.
var ErrUnserved = errors.New("no MPS daemon serves it")

// Node is what is known of the node.
type Node struct {
	View    *gpu.View
	Catalog *cdi.Catalog
	MPS     *mps.Params
	// Served are the GPUs, by UUID, that an MPS daemon serves now, and the memory that it shares with its clients.
	Served map[string]mps.Shared
}

// Resolve is what a grant brings into a pod's containers. cards are the functions of network cards that were chosen for it. The error says which device
// cannot be given, and why.
func Resolve(n *Node, g *topology.Grant, cards []cdi.Function) (cdi.Grant, error) {
	var out cdi.Grant
	for set := g.GPUs; set != 0; set &= set - 1 {
		i := bits.TrailingZeros16(set)
		name, err := n.name(i, g)
		if err != nil {
			return cdi.Grant{}, fmt.Errorf("%w: GPU %d: %w", ErrDevice, i, err)
		}
		out.GPUs = append(out.GPUs, name)
		if out.Soft, err = n.soft(i, g); err != nil {
			return cdi.Grant{}, fmt.Errorf("%w: GPU %d: %w", ErrDevice, i, err)
		}
	}
	for i := range cards {
		if len(cards[i].Files) > 0 {
			out.Cards = append(out.Cards, cards[i].Name())
		}
	}
	return out, nil
}

// name is the CDI device of one GPU of a grant.
func (n *Node) name(i int, g *topology.Grant) (string, error) {
	if i >= len(n.View.Slots) {
		return "", fmt.Errorf("there are %d", len(n.View.Slots))
	}
	slot := &n.View.Slots[i]
	switch slot.Closed {
	case gpu.DriverAway, gpu.Vanished, gpu.DuplicateUUID, gpu.Replaced, gpu.Unreadable:
		return "", fmt.Errorf("%s: %s", slot.Closed, slot.Why)
	default: // it is the one that was promised
	}
	of := describe(&slot.GPU, n.View.Version)
	if g.Instance == 0 {
		if slot.GPU.MIG == gpu.MIGOn {
			return "", errors.New("it is divided, and no instance is granted")
		}
		return n.Catalog.GPU(of)
	}
	k := int(g.Instance) - 1
	if k >= len(slot.Instances) || slot.Instances[k].Gone {
		return "", fmt.Errorf("its instance %d is gone", k)
	}
	return n.Catalog.Instance(of, slot.Instances[k].UUID)
}

// soft is what limits a slice. A GPU whose compute mode admits one process alone is reached through the daemon by each holder.
func (n *Node) soft(i int, g *topology.Grant) (cdi.Edits, error) {
	of := &n.View.Slots[i].GPU
	shared, served := n.Served[of.UUID]
	switch {
	case g.Isolation == topology.Soft && !served:
		return cdi.Edits{}, ErrUnserved
	case g.Isolation == topology.Soft:
		return n.MPS.Edits(mps.Slice{UUID: of.UUID, Milli: g.Milli, Memory: g.Memory}, shared.Name)
	case served && of.Compute == gpu.ComputeExclusive && bits.OnesCount16(g.GPUs) == 1:
		return n.MPS.Whole(of.UUID, shared.Name), nil
	case served && of.Compute == gpu.ComputeExclusive:
		return cdi.Edits{}, errors.New("an MPS daemon holds it alone, and one daemon is all that a container can have")
	}
	return cdi.Edits{}, nil
}

// Uninjectable are the GPUs of an inventory that could not be put into a container, by address, with why. Of one that is divided, every instance must be
// known.
func Uninjectable(inv *gpu.Inventory, c *cdi.Catalog) map[string]string {
	out := make(map[string]string)
	for i := range inv.GPUs {
		g := &inv.GPUs[i]
		if g.Lost != "" {
			continue // it is closed for that
		}
		of := describe(g, inv.Version)
		var err error
		if g.MIG != gpu.MIGOn {
			_, err = c.GPU(of)
		}
		for k := range g.Instances {
			if err == nil && g.Instances[k].UUID != "" {
				_, err = c.Instance(of, g.Instances[k].UUID)
			}
		}
		if err != nil {
			out[g.Address] = err.Error()
		}
	}
	return out
}

func describe(g *gpu.GPU, driver string) cdi.GPU {
	return cdi.GPU{UUID: g.UUID, Node: g.Node, Driver: driver}
}
