package dumpfile

import (
	"fmt"

	"hilbert.dev/hilbert/cluster"
	"hilbert.dev/hilbert/cluster/facts"
)

// How Reservations and their places stand in a file.

type placeholdersRecord struct {
	UID           facts.UID          `json:"uid"`
	Namespace     string             `json:"namespace"`
	Name          string             `json:"name"`
	Generation    int64              `json:"generation,omitempty"`
	Created       int64              `json:"created,omitempty"`
	Expires       int64              `json:"expires,omitempty"`
	Expired       bool               `json:"expired,omitempty"`
	Template      podRecord          `json:"template"`
	Requirements  requirementsRecord `json:"requirements"` // of the template
	Owners        []placeOwnerRecord `json:"owners,omitempty"`
	Moves         facts.UID          `json:"moves,omitempty"`
	MayEvict      []facts.UID        `json:"mayEvict,omitempty"`
	Problem       conditionRecord    `json:"problem,omitzero"`
	Why           conditionRecord    `json:"why,omitzero"`
	Places        []placeRecord      `json:"places"`
	Told          []placeRecord      `json:"told,omitempty"` // what the status says
	Reported      placesReportRecord `json:"reported,omitzero"`
	ReportedSince int64              `json:"reportedSince,omitempty"`
}

type placeOwnerRecord struct {
	Pods       *selectorRecord  `json:"pods,omitempty"`
	Controller controllerRecord `json:"controller,omitzero"`
	Unit       string           `json:"unit,omitempty"`
}

type placesReportRecord struct {
	Generation int64           `json:"generation,omitempty"`
	Ready      bool            `json:"ready,omitempty"`
	Condition  conditionRecord `json:"condition,omitzero"`
}

type placeRecord struct {
	Index   int            `json:"index"`
	State   placeStateText `json:"state"`
	Node    string         `json:"node,omitempty"`
	Grant   *grantRecord   `json:"grant,omitempty"`
	Pod     string         `json:"pod,omitempty"`
	Reason  string         `json:"reason,omitempty"`
	Message string         `json:"message,omitempty"`
	Told    placeStateText `json:"told,omitempty"`
	Taken   facts.UID      `json:"taken,omitempty"`
}

type placeStateText facts.PlaceState

func (s placeStateText) MarshalText() ([]byte, error) {
	return []byte(facts.PlaceState(s).String()), nil
}

func (s *placeStateText) UnmarshalText(b []byte) error {
	value, err := valueOf[facts.PlaceState](string(b))
	*s = placeStateText(value)
	return err
}

func writePlaceholders(p *cluster.PlaceholdersRecord) placeholdersRecord {
	f := p.Facts
	template := cluster.PodRecord{Facts: f.Template}
	if f.Template.Finished {
		template.Phase = cluster.Finished
	}
	r := placeholdersRecord{
		UID: f.UID, Namespace: f.Namespace, Name: f.Name, Generation: f.Generation, Created: f.Created, Expires: f.Expires, Expired: p.Expired,
		Template: writePod(&template, 0), Requirements: writeRequirements(f.Template.Requirements),
		Owners: each(f.Owners, writePlaceOwner), Moves: f.Moves, MayEvict: f.MayEvict,
		Problem: conditionRecord(f.Problem), Why: conditionRecord(p.Why),
		Places: each(p.Places, writePlace), Told: each(f.Places, func(told facts.Place) placeRecord { return writePlace(cluster.PlaceRecord{Place: told}) }),
		Reported:      placesReportRecord{f.Reported.Generation, f.Reported.Ready, conditionRecord(f.Reported.Condition)},
		ReportedSince: f.ReportedSince,
	}
	return r
}

func readPlaceholders(r *placeholdersRecord) (cluster.PlaceholdersRecord, error) {
	template, err := readPod(&r.Template)
	if err != nil {
		return cluster.PlaceholdersRecord{}, fmt.Errorf("reservation %s: %w", r.UID, err)
	}
	f := &facts.Reservation{
		UID: r.UID, Namespace: r.Namespace, Name: r.Name, Generation: r.Generation, Created: r.Created, Expires: r.Expires, Count: len(r.Places),
		Template: template.Facts, Owners: each(r.Owners, readPlaceOwner), Moves: r.Moves, MayEvict: r.MayEvict, Problem: facts.Condition(r.Problem),
		Reported:      facts.ReservationReport{Generation: r.Reported.Generation, Ready: r.Reported.Ready, Condition: facts.Condition(r.Reported.Condition)},
		ReportedSince: r.ReportedSince,
	}
	f.Template.Requirements = readRequirements(&r.Requirements)
	p := cluster.PlaceholdersRecord{Facts: f, Expired: r.Expired, Why: facts.Condition(r.Why)}
	for i := range r.Places {
		place, err := readPlace(&r.Places[i])
		if err != nil {
			return p, fmt.Errorf("reservation %s: %w", r.UID, err)
		}
		p.Places = append(p.Places, place)
	}
	for i := range r.Told {
		place, err := readPlace(&r.Told[i])
		if err != nil {
			return p, fmt.Errorf("reservation %s: %w", r.UID, err)
		}
		f.Places = append(f.Places, place.Place)
	}
	return p, nil
}

func writePlaceOwner(o facts.ReservationOwner) placeOwnerRecord {
	r := placeOwnerRecord{Controller: controllerRecord(o.Controller), Unit: o.Unit}
	if o.Pods != nil {
		s := writeSelector(*o.Pods)
		r.Pods = &s
	}
	return r
}

func readPlaceOwner(r placeOwnerRecord) facts.ReservationOwner {
	o := facts.ReservationOwner{Controller: facts.Controller(r.Controller), Unit: r.Unit}
	if r.Pods != nil {
		s := readSelector(*r.Pods)
		o.Pods = &s
	}
	return o
}

func writePlace(p cluster.PlaceRecord) placeRecord {
	r := placeRecord{
		Index: p.Index, State: placeStateText(p.State), Node: p.Node, Pod: p.Pod, Reason: p.Reason, Message: p.Message, Told: placeStateText(p.Told), Taken: p.Taken,
	}
	if !p.Grant.IsZero() {
		r.Grant = writeGrant(&p.Grant)
	}
	return r
}

func readPlace(r *placeRecord) (p cluster.PlaceRecord, err error) {
	p = cluster.PlaceRecord{
		Place: facts.Place{Index: r.Index, State: facts.PlaceState(r.State), Node: r.Node, Pod: r.Pod, Reason: r.Reason, Message: r.Message},
		Told:  facts.PlaceState(r.Told), Taken: r.Taken,
	}
	if r.Grant != nil {
		if p.Grant, err = r.Grant.grant(); err != nil {
			return p, fmt.Errorf("place %d: %w", r.Index, err)
		}
	}
	return p, nil
}
