package volumes

import (
	"fmt"
	"maps"
	"slices"

	"hilbert.dev/hilbert/cluster/facts"
)

// Verify holds what the Book keeps beside its objects against these, and returns the first difference.
func (b *Book) Verify() error {
	if err := b.promises.verify(&b.userTable, &b.objects); err != nil {
		return err
	}
	if err := b.objects.verify(); err != nil {
		return err
	}
	return b.verifyAttachments()
}

// verify holds what is promised against the pods that it is promised to.
func (b *promises) verify(t *userTable, o *objects) error {
	told, promised := 0, 0
	for uid, u := range t.pods {
		for _, p := range u.promises {
			told++
			if b.told[p.claim] != p {
				return fmt.Errorf("pod %s: claim %s is promised something else", uid, p.claim)
			}
			if p.volume == "" {
				continue
			}
			if v := o.volumes[p.volume]; b.promised[p.volume] != p.claim && v != nil && v.Claim == p.claim {
				continue // kept for the claim, and promised to another before that was known
			}
			if promised++; b.promised[p.volume] != p.claim {
				return fmt.Errorf("pod %s: volume %s is promised to %s, not to %s", uid, p.volume, b.promised[p.volume], p.claim)
			}
		}
		if len(u.promises) > 0 && u.node == "" {
			return fmt.Errorf("pod %s was promised something and has no node", uid)
		}
		for name := range u.claims {
			if t.users[name][uid] != u {
				return fmt.Errorf("pod %s is not among the users of claim %s", uid, name)
			}
		}
	}
	if told != len(b.told) || promised != len(b.promised) {
		return fmt.Errorf("%d claims and %d volumes are promised, by the pods %d and %d", len(b.told), len(b.promised), told, promised)
	}
	return nil
}

// verify holds the lists by storage class against the objects.
func (o *objects) verify() error {
	for name, c := range o.claims {
		if o.unbound[c.StorageClass][name] == c.Bound {
			return fmt.Errorf("claim %s is bound: %v, and among those that are not: %v", name, c.Bound, !c.Bound)
		}
	}
	free := 0
	for class, volumes := range o.free {
		for name, v := range volumes {
			if free++; o.volumes[name] != v || v.StorageClass != class || !v.Available || v.Claim != (facts.ClaimName{}) {
				return fmt.Errorf("volume %s is among the free ones of storage class %q", name, class)
			}
		}
	}
	for claim, volumes := range o.kept {
		for name, v := range volumes {
			if free++; o.volumes[name] != v || v.Claim != claim {
				return fmt.Errorf("volume %s is among those that are kept for claim %s", name, claim)
			}
		}
	}
	for _, v := range o.volumes {
		if v.Available || v.Claim != (facts.ClaimName{}) {
			free--
		}
	}
	if free != 0 {
		return fmt.Errorf("%d volumes too many are listed as free or kept", free)
	}
	return nil
}

// verifyAttachments counts anew what pods have attached, and which drivers nodes limit.
func (b *Book) verifyAttachments() error {
	users := 0
	for uid, u := range b.pods {
		want := b.attaches(u)
		if !slices.Equal(want, u.attached) {
			return fmt.Errorf("pod %s has %v attached, and %v is noted", uid, want, u.attached)
		}
		for _, a := range want {
			if users++; !slices.Contains(b.attachments.byVolume[a.VolumeHandle], u) {
				return fmt.Errorf("pod %s is not among the users of volume %v", uid, a.VolumeHandle)
			}
		}
	}
	for _, list := range b.attachments.byVolume {
		users -= len(list)
	}
	limited := make(map[string]int)
	for _, n := range b.attachments.nodes {
		for i := range n.Drivers {
			if n.Drivers[i].Limited {
				limited[n.Drivers[i].Name]++
			}
		}
	}
	if users != 0 || !maps.Equal(limited, b.attachments.limited) {
		return fmt.Errorf("%d users of volumes too few are listed; nodes limit %v, and %v is noted", users, limited, b.attachments.limited)
	}
	return nil
}
