package dra

import (
	"fmt"
	"slices"

	"hilbert.dev/hilbert/cluster/facts"
)

// Verify holds what the Book keeps beside its objects against these, and returns the first difference.
func (b *Book) Verify() error {
	v := verification{Book: b, of: make(map[facts.DeviceID]facts.ClaimName)}
	for name := range b.claims {
		if b.promised[name] == nil {
			if err := v.claim(name); err != nil {
				return err
			}
		}
	}
	for name, p := range b.promised {
		if p.allocation == nil || b.claims[name] != nil && b.claims[name].Allocation != nil {
			return fmt.Errorf("claim %s is promised devices though it has some", name)
		}
		if err := v.claim(name); err != nil {
			return err
		}
	}
	if err := v.pools(); err != nil {
		return err
	}
	for uid, u := range b.pods {
		if len(u.promises) > 0 && !u.placed {
			return fmt.Errorf("pod %s was promised something and has no node", uid)
		}
	}
	return nil
}

// verification counts the devices that claims have.
type verification struct {
	*Book

	of    map[facts.DeviceID]facts.ClaimName
	taken int
}

// claim counts the devices of a claim, which its pools must know.
func (v *verification) claim(name facts.ClaimName) error {
	a := v.allocation(name)
	if a == nil {
		return nil
	}
	for _, d := range a.Devices {
		if d.Admin {
			continue
		}
		v.taken++
		if other, ok := v.of[d.DeviceID]; ok && d.Share == "" && v.promised[name] != nil && v.promised[other] != nil { // others may do what they like
			return fmt.Errorf("device %s is promised to claims %s and %s", d.DeviceID, name, other)
		}
		v.of[d.DeviceID] = name
		p := v.devices.pools[poolOf(&d)]
		if p == nil || !slices.ContainsFunc(p.taken[name], func(x facts.AllocatedDevice) bool { return sameDevice(x, d) }) {
			return fmt.Errorf("claim %s has device %s, and its pool does not know", name, d.DeviceID)
		}
	}
	return nil
}

// pools: what is taken of them is what claims have, and none is kept for nothing.
func (v *verification) pools() error {
	taken := v.taken
	for id, p := range v.devices.pools {
		for _, devices := range p.taken {
			taken -= len(devices)
		}
		if len(p.slices)+len(p.taken) == 0 {
			return fmt.Errorf("pool %v is kept for nothing", id)
		}
	}
	if taken != 0 {
		return fmt.Errorf("%d devices of claims are not, or too often, among those that are taken", taken)
	}
	return nil
}
