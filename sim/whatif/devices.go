package whatif

import (
	"slices"

	"hilbert.dev/hilbert/cluster"
	"hilbert.dev/hilbert/cluster/dra"
	"hilbert.dev/hilbert/cluster/facts"
)

// feedDevices tells of devices, their classes and the claims. Pods that are gone, or are moved off drained nodes, give up what their claims have; slices of drained
// nodes are gone.
func (f *forecast) feedDevices(l *cluster.Dump, leaving map[facts.UID]bool, drain []string) {
	gone := make(map[facts.UID]bool)
	for i := range l.Pods {
		if r := &l.Pods[i]; leaving[r.Facts.UID] || slices.Contains(drain, r.Facts.Node) {
			gone[r.Facts.UID] = true
		}
	}
	for _, object := range l.DRA {
		switch o := object.(type) {
		case *facts.ResourceSlice:
			if slices.Contains(drain, o.Node) {
				continue
			}
		case *facts.ResourceClaim:
			if leaving[o.Pod] {
				continue
			}
			object = without(o, gone)
		}
		f.scheduler.Apply(facts.DRAUpserted{Object: object}, f.now)
	}
}

// without is a claim that is not reserved for some any more. Without any user it has nothing.
func without(claim *facts.ResourceClaim, gone map[facts.UID]bool) *facts.ResourceClaim {
	out := *claim
	out.ReservedFor = slices.DeleteFunc(slices.Clone(claim.ReservedFor), func(uid facts.UID) bool { return gone[uid] })
	if len(claim.ReservedFor) > 0 && len(out.ReservedFor) == 0 {
		out.Allocation, out.Conditions = nil, nil
	}
	return &out
}

// claimed lets the watch tell of a claim that was written, as its driver leaves it: ready.
func (f *forecast) claimed(o *dra.Obligation) {
	if o.Protect || len(o.Mappings) > 0 {
		return
	}
	claim := f.scheduler.Store().ResourceClaims().Claim(o.Claim)
	if claim == nil {
		return
	}
	if claim.Protected = !o.Create; o.Create {
		claim.Allocation, claim.ReservedFor = nil, nil
	}
	if a := claim.Allocation; a != nil {
		claim.Conditions = slices.Clip(claim.Conditions)
		for i := range a.Devices {
			for _, condition := range a.Devices[i].Binding {
				claim.Conditions = append(claim.Conditions, facts.DeviceCondition{DeviceID: a.Devices[i].DeviceID, Type: condition})
			}
		}
	}
	f.scheduler.Apply(facts.DRAUpserted{Object: claim}, f.now)
}
