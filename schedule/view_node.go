package schedule

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"

	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/cluster"
	"hilbert.dev/hilbert/cluster/facts"
	"hilbert.dev/hilbert/resource"
	"hilbert.dev/hilbert/schedule/place/explain"
)

// NodeAnswer says what the scheduler makes of a node's report: what reclaimed pods may hold of it and why it is no more, who of them is to
// go, and what its zones can promise. It depends on the Dump and on nothing else.
type NodeAnswer struct {
	Revision cluster.Revision `json:"revision"`
	Node     string           `json:"node"`
	// Headroom is open, closed, stale, malformed or unsaid; Note says why.
	Headroom string `json:"headroom"`
	Note     string `json:"note,omitempty"`
	// Offered is what reclaimed pods may hold, those that run included; Requested is what they request.
	Offered   LentAmounts `json:"offered"`
	Requested LentAmounts `json:"requested"`
	// Said is what the node names: also where nothing of it is offered.
	Said LentAmounts `json:"said"`
	// ReclaimedPods are on the node, or on their way there.
	ReclaimedPods int `json:"reclaimedPods"`
	// Wishes are the pods that the node wants evicted, the first most.
	Wishes []NodeWish `json:"wishes,omitempty"`
	// Ruler is who rules the CPUs: agent, kubelet or none; Why says what is wrong with the report.
	Ruler string     `json:"ruler"`
	Why   string     `json:"why,omitempty"`
	Zones []NodeZone `json:"zones,omitempty"`
}

// LentAmounts is thousandths of a CPU, and bytes.
type LentAmounts struct {
	MilliCPU int64 `json:"milliCPU"`
	Memory   int64 `json:"memory"`
}

// NodeWish is a pod that a node wants evicted.
type NodeWish struct {
	Namespace string    `json:"namespace"`
	Name      string    `json:"name"`
	UID       facts.UID `json:"uid"`
	Reason    string    `json:"reason"`
	Message   string    `json:"message,omitempty"`
	Urgent    bool      `json:"urgent,omitempty"`
	// State is waiting (for the budget, or its turn), leaving, or refused: the pod is not there, or is not of the reclaimed level.
	State string `json:"state"`
}

// The states of a NodeWish.
const (
	WishWaiting = "waiting"
	WishLeaving = "leaving"
	WishRefused = "refused"
)

// NodeZone is a zone of the node: CPUs, and memory in MiB, that pods may have for themselves, and what is left of them.
type NodeZone struct {
	Zone     int    `json:"zone"`
	CPUs     uint16 `json:"cpus"`
	FreeCPUs int32  `json:"freeCPUs"`
	Memory   uint32 `json:"memoryMiB"`
	FreeMiB  int64  `json:"freeMemoryMiB"`
	Closed   bool   `json:"closed,omitempty"`
}

// NoNode is the error about a node that the ledger does not have.
type NoNode struct{ Name string }

func (e *NoNode) Error() string { return fmt.Sprintf("the scheduler knows no node %q", e.Name) }

// ExplainNode answers for the node of that name. It makes a ledger of the dump, which costs about a second for 200,000 pods.
func (d *Dump) ExplainNode(name string) (*NodeAnswer, error) {
	store, err := cluster.Load(d.Ledger)
	if err != nil {
		return nil, fmt.Errorf("load the ledger: %w", err)
	}
	slot := store.Slot(name)
	if slot == cluster.NoSlot {
		return nil, &NoNode{name}
	}
	h := store.Headroom(slot)
	a := &NodeAnswer{
		Revision: d.Ledger.Revision, Node: name, Headroom: h.State.String(), Note: h.Note, Said: LentAmounts{h.MilliCPU, h.Memory},
	}
	a.Offered.MilliCPU, a.Offered.Memory = h.Offered()
	for _, pod := range store.PodsOn(slot) {
		asks := pod.Class.Reclaims()
		a.Requested.MilliCPU, a.Requested.Memory = a.Requested.MilliCPU+asks[0].Value, a.Requested.Memory+asks[1].Value
		if pod.Class.Reclaimed {
			a.ReclaimedPods++
		}
	}
	for _, w := range store.EvictionRequests().On(name) {
		a.Wishes = append(a.Wishes, NodeWish{w.Namespace, w.Name, w.UID, w.Reason, w.Message, w.Urgent, wishState(store.Pod(w.UID), name)})
	}
	shape, free := store.Zones(slot)
	a.Ruler = shape.Ruler.String()
	if r := store.Report(slot); r != nil {
		a.Why = r.Why
	}
	for z := range int(shape.Zones) {
		a.Zones = append(a.Zones, NodeZone{z, shape.Zone[z].CPUs, int32(free[z].CPUs), shape.Zone[z].Memory, int64(free[z].Memory), shape.Closed&(1<<z) != 0})
	}
	return a, nil
}

func wishState(pod *cluster.Pod, node string) string {
	switch {
	case pod == nil || !pod.Class.Reclaimed || pod.Node() != node:
		return WishRefused
	case pod.Deleting || pod.Claimed():
		return WishLeaving
	}
	return WishWaiting
}

// WriteText renders the answer for people.
func (a *NodeAnswer) WriteText(w io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, "%s %s\n", a.Node, a.standing())
	if a.ReclaimedPods > 0 || a.Requested != (LentAmounts{}) {
		fmt.Fprintf(&b, "%d reclaimed pods request %s there", a.ReclaimedPods, a.Requested)
		if a.Requested.MilliCPU > a.Offered.MilliCPU || a.Requested.Memory > a.Offered.Memory {
			b.WriteString(", which is more than they may hold: nobody goes for that alone, and nobody comes")
		}
		b.WriteString(".\n")
	}
	a.writeWishes(&b)
	a.writeZones(&b)
	fmt.Fprintf(&b, "\nAs of revision %d.\n", a.Revision)
	_, err := io.WriteString(w, b.String())
	return err
}

// String renders the amounts: "3000m cpu and 1.5Gi memory".
func (l LentAmounts) String() string {
	return explain.AmountText(resource.NameCPU, l.MilliCPU) + " and " + explain.AmountText(resource.NameMemory, l.Memory)
}

// standing continues a sentence that begins with the node.
func (a *NodeAnswer) standing() string {
	switch a.Headroom {
	case facts.HeadroomOpen.String():
		left := LentAmounts{max(a.Offered.MilliCPU-a.Requested.MilliCPU, 0), max(a.Offered.Memory-a.Requested.Memory, 0)}
		return fmt.Sprintf("lends reclaimed pods %s; %s are left.", a.Offered, left)
	case facts.HeadroomClosed.String():
		return "is closed to new reclaimed pods: " + cmp.Or(a.Note, "it says not why") + "."
	case facts.HeadroomStale.String():
		return fmt.Sprintf("lends nothing: its report (%s) is too old to act on.", a.Said)
	case facts.HeadroomMalformed.String():
		return "lends nothing: its report cannot be read: " + a.Note + "."
	}
	return "lends nothing: no agent says what could be lent."
}

func (a *NodeAnswer) writeWishes(b *strings.Builder) {
	if len(a.Wishes) == 0 {
		return
	}
	b.WriteString("\nIt wants these pods evicted, the first most:\n")
	for _, w := range a.Wishes {
		text := fmt.Sprintf("  %s/%s: %s", w.Namespace, w.Name, w.Reason)
		if w.Message != "" {
			text += ": " + w.Message
		}
		urgent := ""
		if w.Urgent {
			urgent = "urgent, "
		}
		fmt.Fprintf(b, "%s (%s%s)\n", text, urgent, w.State)
	}
}

func (a *NodeAnswer) writeZones(b *strings.Builder) {
	switch {
	case a.Why != "":
		fmt.Fprintf(b, "\nNothing is promised by zone: its report is %s.\n", a.Why)
	case a.Ruler == spec.ModeKubelet:
		b.WriteString("\nNothing is promised by zone: the kubelet rules the CPUs.\n")
	case len(a.Zones) == 0:
		return
	}
	if len(a.Zones) == 0 {
		return
	}
	b.WriteString("\n")
	table := tabwriter.NewWriter(b, 0, 0, 2, ' ', 0)
	_, _ = fmt.Fprintln(table, "ZONE\tEXCLUSIVE CPUS\tFREE\tMEMORY\tFREE") // a Builder never fails
	for _, z := range a.Zones {
		closed := ""
		if z.Closed {
			closed = "\tclosed"
		}
		cells := []string{strconv.Itoa(z.Zone), strconv.Itoa(int(z.CPUs)), strconv.Itoa(int(z.FreeCPUs)), fmt.Sprint(z.Memory, "Mi"), fmt.Sprint(z.FreeMiB, "Mi")}
		_, _ = fmt.Fprintln(table, strings.Join(slices.Clip(cells), "\t")+closed)
	}
	_ = table.Flush()
}
