package inspect

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"time"

	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/cluster"
	"hilbert.dev/hilbert/cluster/dumpfile"
	"hilbert.dev/hilbert/cluster/facts"
	"hilbert.dev/hilbert/cluster/quota"
	"hilbert.dev/hilbert/internal/jsonstream"
	"hilbert.dev/hilbert/schedule"
	"hilbert.dev/hilbert/schedule/admit"
	"hilbert.dev/hilbert/schedule/queue"
)

// Dump is everything that a scheduler knows at one moment, as values: to look at, to keep in a file, and to ask questions of. Every answer
// that people get about a running scheduler is made from one, so a file gives the same answer.
type Dump struct {
	// Taken is when, by the clock of the scheduler's shell.
	Taken time.Time
	// SchedulerName is the spec.schedulerName of our pods, to tell our pods where more are read in.
	SchedulerName string
	Scheduling    spec.Scheduling
	Ledger        *cluster.Dump
	// Kept is the gangs that have nodes or quota reserved, the highest rank first.
	Kept []Kept
	// Relieved is what relief has evicted, for whoever shares a budget with it.
	Relieved Relieved
	// Queue has the pods of ours that are not bound, in the order in which it is their turn.
	Queue []Waiting

	standings []queue.WaitingPod   // what Queue is made of
	held      map[facts.UID]string // why
	protected map[facts.UID]string // what it may evict later
	sorted    bool
}

// Relieved is how many pods relief has evicted since a process began to lead.
type Relieved struct {
	Evicted int       `json:"evicted"`
	Since   time.Time `json:"since"`
}

// Kept is a gang that has waited long, so that what frees is kept for it.
type Kept struct {
	// Reservation is the number of its nodes in the ledger, NoReservation if no nodes are kept.
	Reservation cluster.ReservationID `json:"reservation,omitempty"`
	Namespace   string                `json:"namespace"`
	Name        string                `json:"name"`
	// Until is the latest end of a pod on the nodes, as far as pods say when they end.
	Until time.Time `json:"until,omitzero"`
	// Queues whose limits are kept for it.
	Queues []string `json:"queues,omitempty"`
}

// Waiting is a pod of ours that is not bound.
type Waiting struct {
	Namespace string    `json:"namespace"`
	Name      string    `json:"name"`
	UID       facts.UID `json:"uid"`
	// Placeholder: it is no pod, but a place of the Reservation that it is named after.
	Placeholder bool `json:"placeholder,omitempty"`
	// Unit is the PodGroup that it names, in its namespace.
	Unit     string       `json:"unit,omitempty"`
	Priority int32        `json:"priority"`
	Created  time.Time    `json:"created"`
	State    WaitingState `json:"state"`
	// Attempts that failed: placements that were refused or whose Binding failed.
	Attempts int       `json:"attempts,omitempty"`
	Until    time.Time `json:"until,omitzero"` // backoff: until then
	Node     string    `json:"node,omitempty"` // binding: where to
	Why      string    `json:"why,omitempty"`  // held, quota: because of what; unschedulable: what it may evict later
}

// WaitingState is how a pod waits.
type WaitingState string

// The states, in the order of Dump.Queue.
const (
	WaitingBinding       WaitingState = "binding"       // placed; the Binding is not confirmed yet
	WaitingActive        WaitingState = "active"        // would be tried now
	WaitingBackoff       WaitingState = "backoff"       // waits out a backoff
	WaitingUnschedulable WaitingState = "unschedulable" // fits nowhere; what could help wakes it
	WaitingQuota         WaitingState = "quota"         // the limit of a queue leaves no room
	WaitingGathering     WaitingState = "gathering"     // its gang lacks members
	WaitingHeld          WaitingState = "held"          // gated, with a constraint that is not supported, or of a doubtful PodGroup or queue
	WaitingLeaving       WaitingState = "leaving"       // being deleted, or settled otherwise; the watch has not said so yet
)

var WaitingStates = []WaitingState{
	WaitingBinding, WaitingActive, WaitingBackoff, WaitingUnschedulable, WaitingQuota, WaitingGathering, WaitingHeld, WaitingLeaving,
}

// Take copies out what a scheduler knows and changes nothing. It costs time proportional to the ledger, about half a microsecond a
// pod; what can be done later is left to Sort. schedulerName is the spec.schedulerName of our pods.
func Take(s *schedule.Scheduler, schedulerName string, now time.Time) *Dump {
	d := &Dump{
		Taken: now.UTC().Round(0), SchedulerName: schedulerName, Scheduling: s.Config(), Ledger: s.Store().Dump(), standings: s.Standings(),
		held: make(map[facts.UID]string), protected: s.Protected(),
	}
	for pod := range s.Held() {
		d.held[pod.UID] = heldBy(pod)
	}
	d.Kept = kept(s)
	if evicted, since := s.Relieved(); evicted > 0 {
		d.Relieved = Relieved{evicted, since.UTC().Round(0)}
	}
	return d
}

// heldBy says why a pod is held.
func heldBy(pod *cluster.Pod) string {
	if pod.Gated {
		return "it has scheduling gates"
	}
	if refusal := pod.Refusal(); refusal != "" {
		return refusal
	}
	why, _ := admit.Refuse(pod)
	return why.Message
}

// kept copies out what is reserved for gangs.
func kept(s *schedule.Scheduler) (list []Kept) {
	at := make(map[facts.UnitName]int)
	of := func(name facts.UnitName) *Kept {
		i, ok := at[name]
		if !ok {
			i = len(list)
			at[name] = i
			list = append(list, Kept{Namespace: name.Namespace, Name: name.Name})
		}
		return &list[i]
	}
	for _, x := range s.Gate().Reservations.List() {
		k := of(x.Unit)
		k.Reservation = x.ID
		if x.Until > 0 {
			k.Until = time.Unix(0, x.Until).UTC()
		}
	}
	s.Store().Quota().Each(func(q *quota.Queue) {
		if unit, ask := s.Gate().Claims.Of(q); len(ask) > 0 {
			k := of(unit)
			k.Queues = append(k.Queues, q.Name)
		}
	})
	return list
}

// Sort brings everything in order and makes the Queue. Other methods call it; it does its work once.
func (d *Dump) Sort() {
	if d.sorted {
		return
	}
	d.sorted = true
	d.Ledger.Sort()
	if d.standings == nil {
		return
	}
	queue.Sort(d.standings)
	turn := make(map[facts.UID]int, len(d.standings))
	for i := range d.standings {
		turn[d.standings[i].Pod] = i
	}
	d.Queue = nil
	place := make(map[facts.UID]int)
	for i := range d.Ledger.Pods {
		r := &d.Ledger.Pods[i]
		if !r.Facts.Ours || r.Phase != cluster.Pending && r.Phase != cluster.Assumed {
			continue
		}
		at, waits := turn[r.Facts.UID]
		place[r.Facts.UID] = at
		var standing *queue.WaitingPod
		if waits {
			standing = &d.standings[at]
		}
		d.Queue = append(d.Queue, waiting(r, standing, cmp.Or(d.held[r.Facts.UID], d.protected[r.Facts.UID])))
	}
	slices.SortStableFunc(d.Queue, func(a, b Waiting) int {
		if a.State != b.State {
			return slices.Index(WaitingStates, a.State) - slices.Index(WaitingStates, b.State)
		}
		return place[a.UID] - place[b.UID]
	})
	d.standings, d.held, d.protected = nil, nil, nil
}

func waiting(r *cluster.PodRecord, standing *queue.WaitingPod, why string) Waiting {
	f := &r.Facts
	w := Waiting{
		Namespace: f.Namespace, Name: f.Name, UID: f.UID, Unit: f.Unit, Priority: f.Priority, Created: time.Unix(0, f.Created).UTC(),
		State: WaitingLeaving, Placeholder: r.Placeholder,
	}
	switch {
	case standing != nil:
		w.State = standingStates[standing.State]
		w.Attempts = standing.Attempts
		if standing.State == queue.BackingOff {
			w.Until = standing.Until.UTC().Round(0)
		}
		if standing.State == queue.QuotaBlocked {
			w.Why = "the limit of queue " + standing.Limit + " leaves no room"
			if why != "" {
				w.Why += "; " + why
			}
		}
		if standing.State == queue.Parked {
			w.Why = why
		}
	case r.Phase == cluster.Assumed:
		w.State, w.Node = WaitingBinding, f.Node
		if n := len(r.Victims); n > 0 {
			w.Why = fmt.Sprintf("it waits for %d pods to leave the node", n)
		}
	case why != "":
		w.State, w.Why = WaitingHeld, why
	}
	return w
}

var standingStates = [...]WaitingState{
	queue.Ready: WaitingActive, queue.BackingOff: WaitingBackoff, queue.Parked: WaitingUnschedulable, queue.QuotaBlocked: WaitingQuota,
	queue.Gathering: WaitingGathering,
}

// Counts says how many pods wait in each state.
func (d *Dump) Counts() map[WaitingState]int {
	d.Sort()
	counts := make(map[WaitingState]int, len(WaitingStates))
	for _, state := range WaitingStates {
		counts[state] = 0
	}
	for i := range d.Queue {
		counts[d.Queue[i].State]++
	}
	return counts
}

// MaxDumpBytes bounds a file that ReadDump reads: 20,000 nodes with 50 images each and 200,000 pods take a tenth of it.
const MaxDumpBytes = 2 << 30

// Write writes the dump as one JSON object, without holding it. Equal dumps are equal bytes.
func (d *Dump) Write(w io.Writer) error {
	d.Sort()
	o := jsonstream.NewWriter(w)
	o.Field("apiVersion", spec.SnapshotAPIVersion)
	o.Field("kind", spec.SnapshotKind)
	o.Field("taken", d.Taken)
	o.Field("schedulerName", d.SchedulerName)
	o.Field("scheduling", d.Scheduling)
	o.Object("ledger", func(o *jsonstream.Writer) { dumpfile.Write(o, d.Ledger) })
	o.List("kept", len(d.Kept), func(i int) any { return d.Kept[i] })
	if d.Relieved.Evicted > 0 {
		o.Field("relieved", d.Relieved)
	}
	o.List("queue", len(d.Queue), func(i int) any { return d.Queue[i] })
	return o.End()
}

// ReadDump reads what Write wrote, and refuses whatever else.
func ReadDump(r io.Reader) (*Dump, error) {
	limited := &io.LimitedReader{R: r, N: MaxDumpBytes + 1}
	decoder := json.NewDecoder(limited)
	d := &Dump{sorted: true}
	var version, kind string
	fields := jsonstream.Fields{
		"apiVersion": func() error {
			if err := decoder.Decode(&version); err != nil || version == spec.SnapshotAPIVersion {
				return err
			}
			return fmt.Errorf("%q is not known; this version reads %s", version, spec.SnapshotAPIVersion)
		},
		"kind": func() error {
			if err := decoder.Decode(&kind); err != nil || kind == spec.SnapshotKind {
				return err
			}
			return fmt.Errorf("%q is not known; this version reads %s", kind, spec.SnapshotKind)
		},
		"taken":         jsonstream.Value(decoder, &d.Taken),
		"schedulerName": jsonstream.Value(decoder, &d.SchedulerName),
		"scheduling":    jsonstream.Value(decoder, &d.Scheduling),
		"ledger": func() (err error) {
			d.Ledger, err = dumpfile.Read(decoder)
			return err
		},
		"kept": jsonstream.List(decoder, func(k *Kept) error {
			d.Kept = append(d.Kept, *k)
			return nil
		}),
	}
	fields["relieved"] = jsonstream.Value(decoder, &d.Relieved)
	pods := jsonstream.List(decoder, func(w *Waiting) error {
		d.Queue = append(d.Queue, *w)
		return nil
	})
	fields["queue"] = func() error {
		delete(fields, "kept") // it comes before, but older files lack it
		delete(fields, "relieved")
		return pods()
	}
	err := jsonstream.Read(decoder, fields)
	switch {
	case limited.N == 0:
		return nil, fmt.Errorf("it is larger than %d bytes", MaxDumpBytes)
	case err != nil:
		return nil, err
	case decoder.More():
		return nil, fmt.Errorf("something follows the end at byte %d", decoder.InputOffset())
	}
	return d, nil
}
