package cluster

import "hilbert.dev/hilbert/resource"

// spend charges the pod, sign times, to its tenant and all queues above, and lets everybody know.
func (s *Store) spend(pod *Pod, sign int64) {
	s.account(pod, sign)
	t := pod.tenant
	if !t.dirty {
		t.dirty = true
		s.dirtyTenants = append(s.dirtyTenants, t)
	}
	eases := sign < 0 && !s.judging
	if eases {
		s.easings++
	}
	for q := t.queue; q != nil; q = q.parent {
		if eases {
			q.eased = s.easings
		}
		s.touchQueue(q)
	}
}

// account charges the pod, sign times, without telling anybody: what a judgement takes away it puts back.
func (s *Store) account(pod *Pod, sign int64) {
	t, charge := pod.tenant, pod.Class.Charge
	t.used = s.widen(t.used)
	add(t.used, charge, sign)
	for q := t.queue; q != nil; q = q.parent {
		q.used = s.widen(q.used)
		add(q.used, charge, sign)
	}
}

func add(column []int64, amounts resource.List, sign int64) {
	for _, a := range amounts {
		column[a.Kind] += sign * a.Value
	}
}

// shift adds a whole account, sign times, to a queue and all above.
func (s *Store) shift(q *Queue, used []int64, sign int64) {
	s.easings++
	for ; q != nil; q = q.parent {
		q.used = s.widen(q.used)
		for kind, amount := range used {
			q.used[kind] += sign * amount
		}
		if sign < 0 {
			q.eased = s.easings
		}
		s.touchQueue(q)
	}
}

func (s *Store) touchQueue(q *Queue) {
	if !q.dirty {
		q.dirty = true
		s.dirtyQueues = append(s.dirtyQueues, q)
	}
}

// widen makes a column as long as there are kinds.
func (s *Store) widen(column []int64) []int64 {
	for len(column) < s.kinds.Len() {
		column = append(column, 0)
	}
	return column
}
