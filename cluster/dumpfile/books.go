package dumpfile

import (
	"hilbert.dev/hilbert/cluster"
	"hilbert.dev/hilbert/cluster/facts"
)

// How queues, units and reservations stand in a file.

type sortText facts.SortPolicy

func (p sortText) MarshalText() ([]byte, error) { return []byte(facts.SortPolicy(p).String()), nil }

func (p *sortText) UnmarshalText(b []byte) error {
	value, err := valueOf[facts.SortPolicy](string(b))
	*p = sortText(value)
	return err
}

type queueRecord struct {
	Name           string           `json:"name"`
	Parent         string           `json:"parent,omitempty"`
	UID            facts.UID        `json:"uid,omitempty"`
	Generation     int64            `json:"generation,omitempty"`
	Guaranteed     []quantityRecord `json:"guaranteed,omitempty"`
	Max            []quantityRecord `json:"max,omitempty"`
	Weight         int64            `json:"weight,omitempty"`
	Sort           sortText         `json:"sort"`
	HalfLife       int64            `json:"halfLife,omitempty"`
	BorrowsNothing bool             `json:"borrowsNothing,omitempty"`
	KeepsBorrowed  bool             `json:"keepsBorrowed,omitempty"`
	MinRuntime     *int64           `json:"reclaimMinRuntime,omitempty"`
	NeverPreempts  bool             `json:"neverPreempts,omitempty"`
	Namespaces     *selectorRecord  `json:"namespaces,omitempty"`
}

type packingRecord struct {
	Required  string `json:"required,omitempty"`
	Preferred string `json:"preferred,omitempty"`
	Spread    string `json:"spread,omitempty"`
	Uniform   string `json:"uniform,omitempty"`
}

type unitConditionRecord struct {
	Met     bool   `json:"met,omitempty"`
	Reason  string `json:"reason,omitempty"`
	Message string `json:"message,omitempty"`
}

type unitRecord struct {
	Namespace        string              `json:"namespace"`
	Name             string              `json:"name"`
	Known            bool                `json:"known,omitempty"`
	UID              facts.UID           `json:"uid,omitempty"`
	Created          int64               `json:"created,omitempty"`
	MinMember        int32               `json:"minMember,omitempty"`
	Timeout          int64               `json:"timeout,omitempty"`
	Priority         int32               `json:"priority,omitempty"`
	Prioritized      bool                `json:"prioritized,omitempty"`
	NeverPreempts    bool                `json:"neverPreempts,omitempty"`
	Indivisible      bool                `json:"indivisible,omitempty"`
	Divisible        bool                `json:"divisible,omitempty"`
	Topology         packingRecord       `json:"topology,omitzero"`
	SubgroupTopology packingRecord       `json:"subgroupTopology,omitzero"`
	Scheduled        bool                `json:"scheduled,omitempty"`
	Invalid          string              `json:"invalid,omitempty"`
	Reported         unitConditionRecord `json:"reported,omitzero"`
	Reached          bool                `json:"reached,omitempty"`
	Done             int                 `json:"done,omitempty"`
}

type reservationRecord struct {
	Node string                `json:"node"`
	By   cluster.ReservationID `json:"by"`
}

func writeQueue(q *facts.Queue) queueRecord {
	r := queueRecord{
		Name: q.Name, Parent: q.Parent, UID: q.UID, Generation: q.Generation, Guaranteed: each(q.Guaranteed, writeQuantity), Max: each(q.Max, writeQuantity),
		Weight: q.Weight, Sort: sortText(q.Sort), HalfLife: q.HalfLife,
		BorrowsNothing: q.BorrowsNothing, KeepsBorrowed: q.KeepsBorrowed, MinRuntime: q.ReclaimMinRuntime, NeverPreempts: q.NeverPreempts,
	}
	if q.Namespaces != nil {
		s := writeSelector(*q.Namespaces)
		r.Namespaces = &s
	}
	return r
}

func readQueue(r *queueRecord) *facts.Queue {
	q := &facts.Queue{
		Name: r.Name, Parent: r.Parent, UID: r.UID, Generation: r.Generation, Guaranteed: each(r.Guaranteed, readQuantity), Max: each(r.Max, readQuantity),
		Weight: r.Weight, Sort: facts.SortPolicy(r.Sort), HalfLife: r.HalfLife,
		BorrowsNothing: r.BorrowsNothing, KeepsBorrowed: r.KeepsBorrowed, ReclaimMinRuntime: r.MinRuntime, NeverPreempts: r.NeverPreempts,
	}
	if r.Namespaces != nil {
		s := readSelector(*r.Namespaces)
		q.Namespaces = &s
	}
	return q
}

func writeUnit(u *cluster.UnitRecord) unitRecord {
	f := &u.Facts
	return unitRecord{
		Namespace: f.Namespace, Name: f.Name, Known: u.Known, UID: f.UID, Created: f.Created, MinMember: f.MinMember, Timeout: f.Timeout,
		Priority: f.Priority, Prioritized: f.Prioritized, NeverPreempts: f.NeverPreempts, Indivisible: f.Indivisible, Divisible: f.Divisible,
		Topology: packingRecord(f.Topology), SubgroupTopology: packingRecord(f.SubgroupTopology),
		Scheduled: f.Scheduled, Invalid: f.Invalid, Reported: unitConditionRecord(f.Reported), Reached: u.Reached, Done: u.Done,
	}
}

func readUnit(r *unitRecord) cluster.UnitRecord {
	return cluster.UnitRecord{
		Facts: facts.Unit{
			UnitName: facts.UnitName{Namespace: r.Namespace, Name: r.Name}, UID: r.UID, Created: r.Created, MinMember: r.MinMember, Timeout: r.Timeout,
			Priority: r.Priority, Prioritized: r.Prioritized, NeverPreempts: r.NeverPreempts, Indivisible: r.Indivisible, Divisible: r.Divisible,
			Topology: facts.Packing(r.Topology), SubgroupTopology: facts.Packing(r.SubgroupTopology),
			Scheduled: r.Scheduled, Invalid: r.Invalid, Reported: facts.UnitCondition(r.Reported),
		},
		Known: r.Known, Reached: r.Reached, Done: r.Done,
	}
}
