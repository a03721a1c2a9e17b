package cluster

import (
	"errors"
	"fmt"

	"hilbert.dev/hilbert/topology"
)

// Load makes a Store of a Dump. The errors name what contradicts itself.
func Load(d *Dump) (*Store, error) {
	s := NewStore(d.Defaults...)
	for _, name := range d.Resources {
		if _, err := s.kinds.Intern(name); err != nil {
			return nil, fmt.Errorf("resources: %w", err)
		}
	}
	s.growKinds()
	if err := d.check(); err != nil {
		return nil, err
	}
	s.Apply(NamespacesListed{d.Namespaces})
	for _, w := range d.Workloads {
		s.Apply(WorkloadUpserted{w})
	}
	s.Apply(BudgetsListed{d.Budgets})
	s.Apply(QueuesListed{d.Queues})
	for i := range d.Units {
		if d.Units[i].Known {
			s.Apply(UnitUpserted{&d.Units[i].Facts})
		}
	}
	s.Apply(ReportsListed{d.Reports})
	for _, n := range d.Nodes {
		s.Apply(NodeUpserted{n})
	}
	for i := range d.Pods {
		s.restore(&d.Pods[i])
	}
	for i := range d.Pods {
		pod := s.pods[d.Pods[i].Facts.UID]
		for _, uid := range d.Pods[i].Victims {
			victim := s.pods[uid]
			pod.victims, victim.claims = append(pod.victims, victim), append(victim.claims, pod)
		}
	}
	s.recall(d.Units)
	for _, r := range d.Reservations {
		s.Reserve([]Slot{s.slots[r.Node]}, r.By)
	}
	s.settleRestless()
	s.effects = s.effects[:0]
	return s, nil
}

// recall restores what units remember beyond their members.
func (s *Store) recall(units []UnitRecord) {
	for _, u := range s.units {
		u.reached, u.done = false, 0
	}
	for i := range units {
		u := s.unit(units[i].Facts.UnitName)
		u.reached, u.done = units[i].Reached, units[i].Done
		s.dropUnit(u)
	}
}

// restore enters a pod as it was recorded.
func (s *Store) restore(r *PodRecord) {
	f := &r.Facts
	pod := &Pod{UID: f.UID, Namespace: f.Namespace, Name: f.Name, Created: f.Created, slot: NoSlot}
	s.enter(pod)
	s.observe(pod, f)
	s.reclass(pod, s.classify(pod, r.Phase == Pending || r.Phase == Assumed))
	if f.Node != "" {
		s.place(pod, f.Node, &f.Grant)
	}
	s.setPhase(pod, r.Phase)
}

// check returns the first contradiction.
func (d *Dump) check() error {
	nodes := make(map[string]bool, len(d.Nodes))
	for _, n := range d.Nodes {
		if n.Name == "" || nodes[n.Name] {
			return fmt.Errorf("node %q: the name is empty or stands twice", n.Name)
		}
		nodes[n.Name] = true
		if n.GPU.Devices != nil {
			return fmt.Errorf("node %q: it names devices, which are its agent's to name", n.Name)
		}
	}
	pods := make(map[UID]*PodRecord, len(d.Pods))
	for i := range d.Pods {
		r := &d.Pods[i]
		if r.Facts.UID == "" || pods[r.Facts.UID] != nil {
			return fmt.Errorf("pod %s/%s: the UID %q is empty or stands twice", r.Facts.Namespace, r.Facts.Name, r.Facts.UID)
		}
		if err := r.check(); err != nil {
			return fmt.Errorf("pod %s/%s: %w", r.Facts.Namespace, r.Facts.Name, err)
		}
		pods[r.Facts.UID] = r
	}
	for i := range d.Pods {
		for _, uid := range d.Pods[i].Victims {
			if victim := pods[uid]; victim == nil || victim.Facts.Node == "" || d.Pods[i].Phase != Assumed {
				return fmt.Errorf("pod %s waits for %q to leave its node, which is not there", d.Pods[i].Facts.UID, uid)
			}
		}
	}
	if err := d.checkReports(); err != nil {
		return err
	}
	return d.checkBooks(nodes)
}

// checkBooks returns the first contradiction among queues, units and reservations.
func (d *Dump) checkBooks(nodes map[string]bool) error {
	queues := make(map[string]bool, len(d.Queues))
	for _, q := range d.Queues {
		if q.Name == RootQueue || queues[q.Name] {
			return fmt.Errorf("queue %q: the name is empty or stands twice", q.Name)
		}
		queues[q.Name] = true
	}
	units := make(map[UnitName]bool, len(d.Units))
	for i := range d.Units {
		u := &d.Units[i]
		switch name := u.Facts.UnitName; {
		case name.Name == "" || units[name]:
			return fmt.Errorf("unit %q: the name is empty or stands twice", name)
		case u.Done < 0:
			return fmt.Errorf("unit %q: %d members are done", name, u.Done)
		case !u.Known && u.Reached:
			return fmt.Errorf("unit %q: it was whole, and there is no PodGroup to say how much that is", name)
		}
		units[u.Facts.UnitName] = true
	}
	reserved := make(map[string]bool, len(d.Reservations))
	for _, r := range d.Reservations {
		if !nodes[r.Node] || reserved[r.Node] || r.By == NoReservation {
			return fmt.Errorf("reservation %d of node %q: the node is not there, or reserved twice, or for nobody", r.By, r.Node)
		}
		reserved[r.Node] = true
	}
	return nil
}

func (r *PodRecord) check() error {
	placed := r.Phase == Assumed || r.Phase == Bound
	switch {
	case r.Facts.Requirements == nil:
		return errors.New("it has no requirements")
	case r.Phase > Finished:
		return fmt.Errorf("%d is no phase", r.Phase)
	case placed != (r.Facts.Node != ""):
		return fmt.Errorf("it is %s, and its node is %q", r.Phase, r.Facts.Node)
	case (r.Phase == Finished) != r.Facts.Finished:
		return fmt.Errorf("it is %s, and finished: %v", r.Phase, r.Facts.Finished)
	case r.Facts.Grant.Milli < 0 || r.Facts.Grant.Milli > topology.FullGPU:
		return fmt.Errorf("%+v are no GPUs", r.Facts.Grant)
	}
	return nil
}
