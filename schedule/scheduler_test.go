package schedule_test

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"

	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/cluster"
	"hilbert.dev/hilbert/cluster/facts"
	"hilbert.dev/hilbert/internal/script"
	"hilbert.dev/hilbert/schedule"
	"hilbert.dev/hilbert/schedule/bind"
)

// TestScheduler replays testdata/*: the whole pipeline, one command an input, with every invariant verified after each.
func TestScheduler(t *testing.T) {
	datadriven.Walk(t, "testdata", func(t *testing.T, path string) {
		h := newHarness(t)
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			h.log.Reset()
			out := h.run(t, d)
			if err := h.s.Verify(); err != nil {
				d.Fatalf(t, "invariant: %v", err)
			}
			return h.log.String() + out
		})
	})
}

// harness drives a Scheduler by hand and logs what its Observer hears.
type harness struct {
	s       *schedule.Scheduler
	now     time.Time
	lags    bool // the instance decides by what it has seen already
	shown   map[string]shownStatus
	told    []string // events about pods and units, for the command events
	log     strings.Builder
	ids     map[uint64]bind.WriteID // of writes handed out, by number
	devices script.Devices
}

func newHarness(t *testing.T) *harness {
	h := &harness{now: time.Unix(0, 0).UTC(), ids: make(map[uint64]bind.WriteID)}
	cfg := spec.Default().Scheduling
	cfg.Binding.MaxInFlight, cfg.Binding.MaxAhead, cfg.Binding.MaxAttempts = 2, 3, 2
	cfg.Conditions.Burst, cfg.Conditions.PerSecond = 2, 1
	s, err := schedule.New(schedule.Options{Config: cfg, Observer: h, Lag: func(int) bool { return h.lags }, Devices: &h.devices})
	if err != nil {
		t.Fatal(err)
	}
	h.s = s
	return h
}

func (h *harness) run(t *testing.T, d *datadriven.TestData) string {
	switch d.Cmd {
	case "node":
		h.s.Apply(facts.NodeUpserted{Node: script.Node(t, d)}, h.now)
	case "report":
		h.s.Apply(script.Report(t, d), h.now)
	case "rmnode":
		h.s.Apply(facts.NodeRemoved{Name: d.CmdArgs[0].Key}, h.now)
	case "pod":
		h.s.Apply(facts.PodUpserted{Pod: script.Pod(t, d)}, h.now)
	case "unit":
		h.s.Apply(facts.UnitUpserted{Unit: script.Unit(t, d)}, h.now)
	case "reservation":
		h.s.Apply(facts.ReservationUpserted{Reservation: script.Reservation(t, d)}, h.now)
	case "rmreservation":
		h.s.Apply(facts.ReservationRemoved{UID: facts.UID(d.CmdArgs[0].Key)}, h.now)
	case "reservations":
		return script.Reservations(h.s.Store())
	case "rmunit":
		h.s.Apply(facts.UnitRemoved{Name: facts.UnitName{Namespace: "default", Name: d.CmdArgs[0].Key}}, h.now)
	case "namespace":
		h.s.Apply(facts.NamespaceUpserted{Namespace: script.Namespace(t, d)}, h.now)
	case "qspec":
		h.s.Apply(facts.QueueUpserted{Queue: script.Queue(t, d)}, h.now)
	case "rmqueue":
		h.s.Apply(facts.QueueRemoved{Name: d.CmdArgs[0].Key}, h.now)
	case "pods": // pods a 3 ...: a-0, a-1, a-2
		h.pods(t, d)
	case "bind-all": // every write is answered well, until there are none
		h.bindAll()
	case "storage":
		h.s.Apply(script.Storage(t, d), h.now)
	case "dra":
		h.s.Apply(script.DRA(t, d), h.now)
	case "devices": // devices [needs=CONDITION fails=CONDITION]: what all devices have
		for _, arg := range d.CmdArgs {
			switch arg.Key {
			case "needs":
				h.devices.Binding = arg.Vals
			case "fails":
				h.devices.Failure = arg.Vals
			}
		}
	case "rmpod":
		h.s.Apply(facts.PodRemoved{UID: facts.UID(d.CmdArgs[0].Key)}, h.now)
	case "explain":
		return h.explain(t, d)
	case "explain-node":
		return h.explainNode(t, d)
	case "queue":
		return h.queue(t)
	case "view": // view [queue=NAME] [limit=N] [resource=R]
		return h.view(t, d)
	case "explain-unit":
		return h.explainUnit(t, d)
	case "lag": // lag on, lag off
		h.lags = d.CmdArgs[0].Key == "on"
	case "step": // step [most=N]
		most := 100
		d.MaybeScanArgs(t, "most", &most)
		return fmt.Sprintf("%d decisions\n", h.s.Step(h.now, most))
	case "ready":
		writes := h.ready()
		for i := range writes {
			h.ids[shownAs(writes[i].ID)] = writes[i].ID
		}
		return renderWrites(writes)
	case "finish":
		h.finish(t, d)
	case "flush":
		h.s.Flush()
	case "wait":
		pause, err := time.ParseDuration(d.CmdArgs[0].Key)
		if err != nil {
			d.Fatalf(t, "%v", err)
		}
		h.now = h.now.Add(pause)
	case "wake":
		at, ok := h.s.NextWake(h.now)
		if !ok {
			return "never\n"
		}
		return fmt.Sprintf("in %v\n", at.Sub(h.now))
	case "pending":
		return fmt.Sprintf("%+v\n", h.s.Pending())
	case "autoscalers": // which pods would have nodes added
		return h.autoscalers()
	case "events": // about pods and units since the last time
		told := strings.Join(h.told, "")
		h.told = nil
		return told
	case "dump":
		return script.Dump(h.s.Store())
	default:
		d.Fatalf(t, "unknown command %q", d.Cmd)
	}
	return ""
}

// pods creates several alike.
func (h *harness) pods(t *testing.T, d *datadriven.TestData) {
	prefix := d.CmdArgs[0].Key
	var count int
	if _, err := fmt.Sscan(d.CmdArgs[1].Key, &count); err != nil {
		d.Fatalf(t, "pods: %v", err)
	}
	for i := range count {
		one := *d
		one.CmdArgs = append([]datadriven.CmdArg{{Key: fmt.Sprintf("%s-%d", prefix, i)}}, d.CmdArgs[2:]...)
		h.s.Apply(facts.PodUpserted{Pod: script.Pod(t, &one)}, h.now)
	}
}

// ready is what is to be written, but for the events of pods, which say what the conditions say: these are answered at once, and the
// command events shows them.
func (h *harness) ready() (writes []bind.Write) {
	for _, w := range slices.Clone(h.s.Ready(h.now)) {
		if w.ID.Owner == bind.OwnerPodEvents {
			h.tell(w)
			h.s.Finish(bind.Result{ID: w.ID, Outcome: bind.Written}, h.now)
			continue
		}
		writes = append(writes, w)
	}
	return writes
}

// tell keeps an event for the command events.
func (h *harness) tell(w bind.Write) {
	kind := "pod"
	if !w.Unit.IsZero() {
		kind = "unit"
	}
	h.told = append(h.told, fmt.Sprintf("%s %s: %s: %s\n", kind, w.Name, w.Condition.Reason, w.Condition.Message))
}

// shownStatus is what autoscalers read of a pod that has no node.
type shownStatus struct {
	reason    string // of its condition PodScheduled
	nominated string
}

// show takes note of what bindAll has written into a pod's status.
func (h *harness) show(w *bind.Write) {
	if h.shown == nil {
		h.shown = make(map[string]shownStatus)
	}
	s := h.shown[w.Name]
	switch w.Kind {
	case bind.WriteNomination:
		s = shownStatus{w.Condition.Reason, w.Node}
	case bind.WriteCondition:
		if w.Condition.Reason != "" {
			s.reason = w.Condition.Reason
		}
		if w.Withdraw {
			s.nominated = ""
		}
	case bind.WriteBinding:
		delete(h.shown, w.Name)
		return
	default:
		return
	}
	h.shown[w.Name] = s
}

// autoscalers says for which pods nodes would be added. The rule is ours, in the words of Karpenter's documentation and of Cluster Autoscaler's: a pod without a
// node whose condition PodScheduled has the reason Unschedulable; Karpenter passes over those that are nominated, because others leave for them.
func (h *harness) autoscalers() string {
	var b strings.Builder
	for _, name := range slices.Sorted(maps.Keys(h.shown)) {
		switch s := h.shown[name]; {
		case s.reason != "Unschedulable":
			fmt.Fprintf(&b, "%s: no node, for it is %s\n", name, s.reason)
		case s.nominated != "":
			fmt.Fprintf(&b, "%s: a node by Cluster Autoscaler; none by Karpenter, for it is nominated for %s\n", name, s.nominated)
		default:
			fmt.Fprintf(&b, "%s: a node\n", name)
		}
	}
	return b.String()
}

// bindAll answers all writes with success.
func (h *harness) bindAll() {
	for range 1000 {
		writes := slices.Clone(h.s.Ready(h.now))
		if len(writes) == 0 {
			return
		}
		for _, w := range writes {
			if w.ID.Owner == bind.OwnerPodEvents {
				h.tell(w)
			}
			h.s.Finish(bind.Result{ID: w.ID, Outcome: bind.Written}, h.now)
			h.show(&w)
			if w.Kind == bind.WriteUnitCondition || w.Kind == bind.WriteCondition || w.Kind == bind.DeletePod || w.Kind == bind.EvictPod {
				h.log.WriteString(renderWrites([]bind.Write{w}))
			}
		}
	}
}

// shownAs is the number that a write has in a transcript: those about Reservations count from 101.
func shownAs(id bind.WriteID) uint64 {
	if id.Owner == bind.OwnerReservations {
		return 100 + id.Number
	}
	return id.Number
}

var outcomes = map[string]bind.Outcome{
	"written": bind.Written, "gone": bind.Gone, "conflict": bind.Conflict, "refused": bind.Refused, "unknown": bind.Unknown, "notsent": bind.NotSent,
}

func (h *harness) finish(t *testing.T, d *datadriven.TestData) {
	for _, arg := range d.CmdArgs { // id=outcome or, for a read, id=(written,node)
		number, err := strconv.ParseUint(arg.Key, 10, 64)
		if err != nil {
			d.Fatalf(t, "write %q: %v", arg.Key, err)
		}
		r := bind.Result{ID: h.ids[number], Outcome: outcomes[arg.Vals[0]], Message: "because"}
		if r.Outcome == 0 {
			d.Fatalf(t, "unknown outcome %q", arg.Vals[0])
		}
		if len(arg.Vals) > 1 {
			r.Node = arg.Vals[1]
			r.Version, _ = strconv.ParseUint(arg.Vals[1], 10, 64) // of a claim that was given back
		}
		h.s.Finish(r, h.now)
	}
}

func renderWrites(writes []bind.Write) string {
	var b strings.Builder
	for _, w := range writes {
		switch w.Kind {
		case bind.WriteBinding:
			fmt.Fprintf(&b, "%d: bind %s to %s", w.ID.Number, w.Name, w.Node)
			if w.Placeholder != "" {
				fmt.Fprintf(&b, " in the place of %s", w.Placeholder)
			}
			if !w.Grant.IsZero() {
				fmt.Fprintf(&b, " gpus %s", w.Grant)
			}
		case bind.WriteReservation:
			r := w.Reservation.Report()
			fmt.Fprintf(&b, "%d: status of %s: ready %v, %s: %s", shownAs(w.ID), w.Name, r.Ready, r.Condition.Reason, r.Condition.Message)
		case bind.ReadPod:
			fmt.Fprintf(&b, "%d: read %s", w.ID.Number, w.Name)
		case bind.WriteNomination:
			fmt.Fprintf(&b, "%d: nominate %s for %s: %s: %s", w.ID.Number, w.Name, w.Node, w.Condition.Reason, w.Condition.Message)
		case bind.WriteDisruption:
			fmt.Fprintf(&b, "%d: disrupt %s: %s: %s", w.ID.Number, w.Name, w.Condition.Reason, w.Condition.Message)
		case bind.DeletePod:
			fmt.Fprintf(&b, "%d: delete %s", w.ID.Number, w.Name)
		case bind.EvictPod:
			fmt.Fprintf(&b, "%d: evict %s", w.ID.Number, w.Name)
		case bind.WriteEvent, bind.WriteNodeEvent:
			fmt.Fprintf(&b, "event of %s: %s", w.Name, w.Condition.Reason)
		case bind.WriteRefusals:
			fmt.Fprintf(&b, "refused on %s: %v", w.Node, w.Refused)
		case bind.WriteUnitCondition:
			fmt.Fprintf(&b, "%d: unit condition of %s: %v %s: %s", w.ID.Number, w.Unit, w.UnitCondition.Met, w.UnitCondition.Reason, w.UnitCondition.Message)
		case bind.WriteVolume:
			if w.Volume.Volume != "" {
				fmt.Fprintf(&b, "%d: volume %s version %s to claim %s", w.ID.Number, w.Volume.Volume, w.Volume.Version, w.Volume.Claim)
			} else {
				fmt.Fprintf(&b, "%d: claim %s to node %s", w.ID.Number, w.Volume.Claim, w.Volume.Node)
				if w.Volume.Version != "" {
					fmt.Fprintf(&b, " at version %s", w.Volume.Version)
				}
			}
		case bind.WriteClaim:
			switch {
			case w.Claim.Create:
				fmt.Fprintf(&b, "%d: create claim %s for %s: %s", w.ID.Number, w.Claim.Claim, w.Name, w.Claim.Requests.Key)
			case len(w.Claim.Mappings) > 0:
				fmt.Fprintf(&b, "%d: status of %s: claim %s: %v", w.ID.Number, w.Name, w.Claim.Claim, w.Claim.Mappings)
			case w.Claim.Protect:
				fmt.Fprintf(&b, "%d: protect claim %s", w.ID.Number, w.Claim.Claim)
			case w.Claim.Allocation != "":
				fmt.Fprintf(&b, "%d: claim %s for %s: %s", w.ID.Number, w.Claim.Claim, w.Name, strings.TrimSpace(w.Claim.Allocation))
			default:
				fmt.Fprintf(&b, "%d: reserve claim %s for %s", w.ID.Number, w.Claim.Claim, w.Name)
			}
		case bind.GiveBackClaim:
			fmt.Fprintf(&b, "%d: give back claim %s of %s", w.ID.Number, w.GiveBack.Claim, w.GiveBack.Pod)
			if w.GiveBack.Deallocate {
				b.WriteString(" with its devices")
			}
		case bind.WriteCondition:
			fmt.Fprintf(&b, "%d: condition of %s: %s: %s", w.ID.Number, w.Name, w.Condition.Reason, w.Condition.Message)
			if w.Withdraw {
				b.WriteString(" (nomination withdrawn)")
			}
		}
		b.WriteString("\n")
	}
	return b.String()
}

func (h *harness) Placed(pod *cluster.Pod, _ time.Time) {
	fmt.Fprintf(&h.log, "placed %s on %s\n", pod.UID, pod.Node())
}

func (h *harness) Preempting(pod *cluster.Pod, victims []*cluster.Pod, _ time.Time) {
	fmt.Fprintf(&h.log, "preempting for %s on %s:", pod.UID, pod.Node())
	for _, victim := range victims {
		fmt.Fprintf(&h.log, " %s", victim.UID)
	}
	h.log.WriteString("\n")
}

func (h *harness) Cleared(pod *cluster.Pod, _ time.Time) {
	fmt.Fprintf(&h.log, "cleared for %s\n", pod.UID)
}

func (h *harness) Rejected(reason string, _ time.Time) { fmt.Fprintf(&h.log, "rejected: %s\n", reason) }

func (h *harness) Unschedulable(pod *cluster.Pod, counts []schedule.FilterCount, _ time.Time) {
	fmt.Fprintf(&h.log, "unschedulable %s %v\n", pod.UID, counts)
}

func (h *harness) Bound(pod *cluster.Pod, _ time.Time) { fmt.Fprintf(&h.log, "bound %s\n", pod.UID) }

func (h *harness) MissedWakeup(pod *cluster.Pod, _ time.Time) {
	fmt.Fprintf(&h.log, "missed wake-up: %s\n", pod.Name)
}

func (h *harness) Released(pod *cluster.Pod, message string, _ time.Time) {
	fmt.Fprintf(&h.log, "released %s: %s\n", pod.UID, message)
}
