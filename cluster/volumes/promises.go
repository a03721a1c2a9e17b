package volumes

import (
	"fmt"
	"slices"

	"hilbert.dev/hilbert/cluster/facts"
)

// Obligation is a write that must be done before a pod with unbound claims may be bound: tell the claim its node, so that a volume is provisioned, or tell a
// volume its claim.
type Obligation struct {
	Claim    facts.ClaimName
	ClaimUID string
	// Volume is told the claim; empty: the claim is told the Node. Version is that of the one that is told, as it is known.
	Volume, Version string
	Node            string
}

// Take gives a pod that has its node what its unbound claims are bound to there. leaves reports which pods leave before the pod comes: they keep nothing from it.
// conflict says why that cannot be; then nothing is taken. It returns the other pods whose needs may be others now, sorted.
func (b *Book) Take(uid facts.UID, node *facts.Node, leaves func(facts.UID) bool) (conflict string, affected []facts.UID) {
	u := b.pods[uid]
	if u == nil {
		return "", nil
	}
	needs, waits := b.Needs(uid)
	if waits != "" {
		return waits, nil
	}
	var choice []facts.ClaimBinding
	if needs != nil {
		if c := needs.Conflict(node); c != facts.NoVolumeConflict {
			return c.String(), nil
		}
		if slices.ContainsFunc(needs.Users, func(u facts.ClaimUser) bool { return !leaves(u.Pod) }) {
			return facts.VolumeInUse.String(), nil
		}
		choice, _ = needs.Choose(node)
	}
	for i, claim := range b.inOrder(b.unboundOf(u)) {
		p := &promise{claim: claim.ClaimName, uid: claim.UID, volume: choice[i].Volume, node: node.Name}
		if b.told[p.claim] != nil {
			continue // another pod waits for the same
		}
		p.seen = p.volume == "" && claim.SelectedNode == node.Name || p.volume != "" && b.volumes[p.volume].ClaimUID == claim.UID
		u.promises = append(u.promises, p)
		b.told[p.claim] = p
		if _, taken := b.promised[p.volume]; p.volume != "" && !taken {
			b.promised[p.volume] = p.claim // else it is kept for this claim since it was promised to another, whose promise will be refused
		}
	}
	return "", b.place(u, node.Name)
}

// unboundOf lists the claims of a pod that are not bound.
func (o *objects) unboundOf(u *user) (list []*facts.Claim) {
	for name := range u.claims {
		if c := o.claims[name]; c != nil && !c.Bound {
			list = append(list, c)
		}
	}
	return list
}

// place notes which node a pod has (empty: none), and returns the others that are affected.
func (b *Book) place(u *user, node string) []facts.UID {
	u.node = node
	affected := make(pods)
	for name := range u.claims {
		if c := b.claims[name]; c != nil && (c.Modes&facts.ReadWriteOncePod != 0 || !c.Bound) {
			b.ofClaim(name, affected)
		}
	}
	for _, p := range u.promises {
		if p.volume != "" {
			b.ofClass(b.classOf(p.claim), affected)
		}
	}
	delete(affected, u.uid)
	return affected.list()
}

func (o *objects) classOf(name facts.ClaimName) string {
	if c := o.claims[name]; c != nil {
		return c.StorageClass
	}
	return ""
}

// Hold notes that a pod was seen on a node: nothing need be promised to it. It returns the others whose needs may be others now, sorted.
func (b *Book) Hold(uid facts.UID, node string) []facts.UID {
	u := b.pods[uid]
	if u == nil || u.node == node && len(u.promises) == 0 {
		return nil
	}
	affected := b.place(u, node)
	b.dropPromises(u)
	return affected
}

// Release takes back that a pod has a node, with what was promised to it. It returns the others whose needs may be others now, sorted.
func (b *Book) Release(uid facts.UID) []facts.UID {
	u := b.pods[uid]
	if u == nil || u.node == "" {
		return nil
	}
	affected := b.place(u, "")
	b.dropPromises(u)
	return affected
}

func (b *promises) dropPromises(u *user) {
	for _, p := range u.promises {
		delete(b.told, p.claim)
		if p.volume != "" && b.promised[p.volume] == p.claim {
			delete(b.promised, p.volume)
		}
	}
	u.promises = nil
}

// Obligations lists what must be written for a pod that was taken, and the API server was not seen to have.
func (b *Book) Obligations(uid facts.UID) (list []Obligation) {
	u := b.pods[uid]
	if u == nil {
		return nil
	}
	for _, p := range u.promises {
		if p.seen {
			continue
		}
		o := Obligation{Claim: p.claim, ClaimUID: p.uid, Volume: p.volume, Node: p.node}
		if v := b.volumes[p.volume]; v != nil {
			o.Version = v.Version
		} else if c := b.claims[p.claim]; p.volume == "" && c != nil {
			o.Version = c.Version
		}
		list = append(list, o)
	}
	return list
}

// Promised counts the claims that are promised a volume or a node.
func (b *promises) Promised() int { return len(b.told) }

// Owes reports whether a pod that has its node waits for claims to be bound.
func (b *Book) Owes(uid facts.UID) bool {
	u := b.pods[uid]
	return u != nil && len(b.unboundOf(u)) > 0
}

// Progress says how far the claims of a pod are that was taken for a node: ready when all are bound, failed (with the reason) when one will not be bound there.
func (b *Book) Progress(uid facts.UID, node *facts.Node) (ready bool, failed string) {
	u := b.pods[uid]
	if u == nil {
		return true, ""
	}
	ready = true
	for name, use := range u.claims {
		claim := b.claims[name]
		if claim == nil || claim.Deleting || claim.Lost {
			return false, fmt.Sprintf("persistentvolumeclaim %q is gone, or is being deleted", use.Claim)
		}
		if claim.Volume != "" {
			v := b.volumes[claim.Volume]
			if v == nil {
				ready = false // its watch is behind that of claims; where the volume is must be known
			} else if !v.UsableOn(node) {
				return false, fmt.Sprintf("pv %q node affinity doesn't match node %q", v.Name, node.Name)
			}
		}
		if !claim.Bound {
			ready = false
			if failed := b.broken(claim); failed != "" {
				return false, failed
			}
		}
	}
	return ready, ""
}

// keeps reports whether a volume is kept for the claim.
func (o *objects) keeps(c *facts.Claim) bool {
	for _, v := range o.kept[c.ClaimName] {
		if v.StorageClass == c.StorageClass && v.KeptFor(c) {
			return true
		}
	}
	return false
}

// broken says how the API server came to contradict what was promised to a claim, once it had it; empty: it does not.
func (b *Book) broken(c *facts.Claim) string {
	p := b.told[c.ClaimName]
	switch {
	case p == nil && c.SelectedNode == "" && !b.keeps(c):
		return fmt.Sprintf("persistentvolumeclaim %q is bound by no pod any more", c.Name)
	case p == nil:
		return ""
	case p.uid != c.UID:
		return fmt.Sprintf("persistentvolumeclaim %q was created anew", c.Name)
	case p.volume == "" && p.seen && c.SelectedNode != p.node:
		return fmt.Sprintf("provisioning failed for PVC %q", c.Name)
	case p.volume == "":
		return ""
	}
	switch v := b.volumes[p.volume]; {
	case v == nil || p.seen && v.ClaimUID != p.uid:
		return fmt.Sprintf("ClaimRef got reset for pv %q", p.volume)
	case !p.seen && !v.KeptFor(c) && (!v.Available || v.Claim != (facts.ClaimName{})): // written to its newest version, it would be taken from who has it
		return fmt.Sprintf("pv %q is another claim's, or not available any more", p.volume)
	}
	return ""
}
