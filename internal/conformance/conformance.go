// Package conformance holds the doors to one another: the same history of an API server gives the same events, through the door to a real one (kube) and
// the door to the simulated one (sim). Each runs Check in its own tests. It is used by tests only.
package conformance

import (
	_ "embed"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"hilbert.dev/hilbert/cluster/facts"
)

// Node is the one node, and Unit the unit of which the pods m0, m1, ... are members. The pods s0, s1, ... are single.
const (
	Node = "n1"
	Unit = "g"
	// Pods is how many of either there are.
	Pods = 4
)

// Door is an API server that keeps pods, and a door that watches it. Its two watches of pods lag: each of its events waits until it is delivered.
type Door interface {
	// Create, Bind, Finish and Remove change a pod, in namespace ns, by name. A pod that was removed is not created again.
	Create(pod string)
	Bind(pod string)
	Finish(pod string)
	Remove(pod string)
	// Deliver lets the watch of the pods that have not finished deliver its next event, or the watch of those that have, and returns what the ledger is
	// told; nil if nothing.
	Deliver(finished bool) facts.Event
	// List starts one of the watches over.
	List(finished bool) facts.Event
}

// histories are what the doors said when the file was written last.
//
//go:embed testdata/events
var histories string

// Histories is how many are checked, each from its own seed.
const Histories = 200

// Want is what doors have to say.
func Want() string { return histories }

// Transcript lets a new door live through each history, and returns what it told.
func Transcript(t testing.TB, open func() Door) string {
	t.Helper()
	var out strings.Builder
	for seed := range uint64(Histories) {
		fmt.Fprintf(&out, "history %d\n", seed)
		play(open(), rand.New(rand.NewPCG(seed, 0)), &out)
	}
	return out.String()
}

// play lets a door live through one history. What happens depends on the draws only, never on the door.
func play(door Door, draws *rand.Rand, out *strings.Builder) {
	tell := func(e facts.Event) {
		if line := Describe(e); line != "" {
			out.WriteString(line + "\n")
		}
	}
	tell(door.List(false))
	tell(door.List(true))
	states := map[string]int{} // 0: not created, 1: created, 2: bound, 3: finished, 4: removed
	waiting := map[bool]int{}  // events by watch: of the finished
	for range 60 {
		pod := fmt.Sprintf("%c%d", "ms"[draws.IntN(2)], draws.IntN(Pods))
		finished := draws.IntN(2) == 0
		switch do := draws.IntN(10); {
		case do == 0 && draws.IntN(4) == 0:
			waiting[finished] = 0
			tell(door.List(finished))
		case do < 6:
			happen(door, pod, states, waiting, draws.IntN(4) == 0)
		case waiting[finished] > 0:
			waiting[finished]--
			tell(door.Deliver(finished))
		}
	}
	for _, finished := range []bool{true, false} {
		for ; waiting[finished] > 0; waiting[finished]-- {
			tell(door.Deliver(finished))
		}
	}
}

// happen lets a pod take the next step of its life, or be removed early.
func happen(door Door, pod string, states map[string]int, waiting map[bool]int, early bool) {
	member := pod[0] == 'm'
	switch state := states[pod]; {
	case state == 0:
		door.Create(pod)
		waiting[false]++
	case state == 4:
		return
	case state == 3:
		door.Remove(pod)
		if member {
			waiting[true]++
		}
		states[pod] = 4
		return
	case early:
		door.Remove(pod)
		waiting[false]++
		states[pod] = 4
		return
	case state == 1:
		door.Bind(pod)
		waiting[false]++
	case state == 2:
		door.Finish(pod)
		waiting[false]++
		if member {
			waiting[true]++
		}
	}
	states[pod]++
}

// Describe renders an event about pods; empty for others.
func Describe(e facts.Event) string {
	switch e := e.(type) {
	case facts.PodUpserted:
		return describe(&e.Pod)
	case facts.PodRemoved:
		return string(e.UID) + " gone"
	case facts.PodsListed:
		return "listed:" + list(e.Pods)
	case facts.FinishedListed:
		return "finished listed:" + list(e.Pods)
	}
	return ""
}

func list(pods []facts.Pod) string {
	lines := make([]string, len(pods))
	for i := range pods {
		lines[i] = " " + describe(&pods[i])
	}
	slices.Sort(lines)
	return strings.Join(lines, ",")
}

func describe(f *facts.Pod) string {
	if f.Finished {
		return fmt.Sprintf("%s finished in %s", f.UID, f.UnitName())
	}
	return fmt.Sprintf("%s at %q in %s", f.UID, f.Node, f.UnitName())
}
