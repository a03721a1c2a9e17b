package moves

import (
	"context"
	"errors"
	"fmt"

	"hilbert.dev/hilbert/api/scheduling/v1alpha1"
	"hilbert.dev/hilbert/cluster/facts"
	"hilbert.dev/hilbert/control/reschedule"
)

// A gang that is moved whole has one Reservation, with a place for each member, that is the PodGroup's. Its members are evicted by the Eviction API in any case: whoever acts on EvictionRequests may let
// one member go and keep another.

// seeGang says how the move of a gang stands. The Reservation is read last, as for one pod.
func (c *Client) seeGang(ctx context.Context, m *reschedule.Carried) (reschedule.Seen, error) {
	members := make([]reschedule.Seen, len(m.Gang.Members))
	for i := range m.Gang.Members {
		seen, err := c.seePod(ctx, m, &m.Gang.Members[i])
		if err != nil {
			return reschedule.Seen{}, err
		}
		members[i] = seen
	}
	target, there, err := c.target(ctx, m)
	if err != nil {
		return reschedule.Seen{}, err
	}
	places, why := placesOf(target, there, len(members))
	return reschedule.SeenGang(members, places, why), nil
}

// placesOf says how each place of a gang stands, and why one is not there any more.
func placesOf(r *v1alpha1.Reservation, there bool, count int) (places []reschedule.Place, why string) {
	if !there || r.DeletionTimestamp != nil || int(r.Spec.Count) != count {
		return nil, "there is no Reservation of all places any more"
	}
	places = make([]reschedule.Place, count)
	for i := range places {
		places[i] = reschedule.Asked
	}
	for i := range r.Status.Places {
		p := &r.Status.Places[i]
		if p.Index < 0 || int(p.Index) >= count {
			continue
		}
		switch p.State {
		case facts.PlaceReserved.String():
			places[p.Index] = reschedule.Reserved
		case facts.PlaceConsumed.String():
			places[p.Index] = reschedule.Consumed
			why = "pod " + p.Pod + " has one"
		case facts.PlaceLost.String():
			places[p.Index] = reschedule.Lost
			return places, p.Reason + ": " + p.Message
		}
	}
	return places, why
}

// askGang asks whether each member could be evicted now.
func (c *Client) askGang(ctx context.Context, m *reschedule.Carried) (refused string, err error) {
	for i := range m.Gang.Members {
		p := &m.Gang.Members[i]
		if refused, err = c.evict(ctx, m.Namespace, p.Name, p.Pod, true); refused != "" || err != nil {
			return refused, err
		}
	}
	return "", nil
}

// ErrFollows is the eviction of a gang some of whose members were evicted, and others refused.
var ErrFollows = errors.New("others of its gang are gone, so it is asked again")

// evictGang evicts all members, one after the other without a pause. If the first one is refused, or nobody knows what became of it, nobody else is evicted. Once one has left, all others are
// asked to, whatever becomes of one of them: those who are refused are asked again.
func (c *Client) evictGang(ctx context.Context, m *reschedule.Carried) (refused string, err error) {
	begun := m.Begun
	var errs []error
	for i := range m.Gang.Members {
		p := &m.Gang.Members[i]
		no, failed := c.evict(ctx, m.Namespace, p.Name, p.Pod, false)
		if !begun && (no != "" || failed != nil) {
			return no, failed
		}
		begun = true
		if no != "" {
			failed = fmt.Errorf("evict %s/%s: %w: %s", m.Namespace, p.Name, ErrFollows, no)
		}
		errs = append(errs, failed)
	}
	return "", errors.Join(errs...)
}

// gangOf reads of which gang a record speaks; nil: of one pod. ok is false where it contradicts its Reservation, whose spec cannot have been changed: only pods of its owner may be evicted.
func gangOf(what *record, r *v1alpha1.Reservation) (g *reschedule.GangMove, ok bool) {
	if len(what.Members) == 0 {
		return nil, r.Spec.Count <= 1
	}
	owners := r.Spec.Owners
	if len(what.Members) > reschedule.MaxGang || len(what.Members) != int(r.Spec.Count) || len(owners) != 1 || owners[0].PodGroup == "" || len(what.Nodes) == 0 {
		return nil, false
	}
	if first := what.Members[0]; first.Pod != what.UID || first.Name != what.Name {
		return nil, false
	}
	uids := make(map[string]bool)
	for _, p := range what.Members {
		if !isName(p.Name) || uids[p.Pod] {
			return nil, false
		}
		uids[p.Pod] = true
	}
	return &reschedule.GangMove{PodGroup: owners[0].PodGroup, Members: what.Members, Nodes: what.Nodes}, true
}
