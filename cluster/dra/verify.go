package dra

import (
	"fmt"
	"slices"

	"hilbert.dev/hilbert/cluster/facts"
)

// Verify holds what the Book keeps beside its objects against these, and returns the first difference.
func (b *Book) Verify() error {
	want := make(map[facts.DeviceID]facts.ClaimName)
	taken := 0
	each := func(name facts.ClaimName) error {
		a := b.allocation(name)
		if a == nil {
			return nil
		}
		for _, d := range a.Devices {
			if d.Admin {
				continue
			}
			taken++
			if other, ok := want[d.DeviceID]; ok && d.Share == "" && b.promised[name] != nil && b.promised[other] != nil { // others may do what they like
				return fmt.Errorf("device %s is promised to claims %s and %s", d.DeviceID, name, other)
			}
			want[d.DeviceID] = name
			p := b.pools[poolOf(&d)]
			if p == nil || !slices.ContainsFunc(p.taken[name], func(x facts.AllocatedDevice) bool { return sameDevice(x, d) }) {
				return fmt.Errorf("claim %s has device %s, and its pool does not know", name, d.DeviceID)
			}
		}
		return nil
	}
	for name := range b.claims {
		if b.promised[name] == nil {
			if err := each(name); err != nil {
				return err
			}
		}
	}
	for name, p := range b.promised {
		if p.allocation == nil || b.claims[name] != nil && b.claims[name].Allocation != nil {
			return fmt.Errorf("claim %s is promised devices though it has some", name)
		}
		if err := each(name); err != nil {
			return err
		}
	}
	for id, p := range b.pools {
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
	for uid, u := range b.pods {
		if len(u.promises) > 0 && !u.placed {
			return fmt.Errorf("pod %s was promised something and has no node", uid)
		}
	}
	return nil
}
