package top

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"hilbert.dev/hilbert/api/node/v1alpha1"
	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/cmd/hilbert/complete"
	"hilbert.dev/hilbert/cmd/hilbert/output"
	"hilbert.dev/hilbert/kube/parse"
	"hilbert.dev/hilbert/topology"
)

func newNodes() *cobra.Command {
	var f flags
	cmd := &cobra.Command{
		Use:     "nodes [NAME...]",
		Aliases: []string{"node"},
		Short:   "Show the NUMA nodes of each node: what can be promised, what is free, and the pools",
		Long: `Show for each node which process assigns its CPUs, and for each of its NUMA nodes the CPUs and memory that pods can hold exclusively, how much of that is
free, the CPUs of each pool, and the devices. Nodes that lend to reclaimed pods also show the headroom (CPUs and memory), what is lent now, how far
reclaimed pods are suppressed, and how many evictions the node requests. OBSERVED is the age of the agent's last observation. The scheduler
promises nothing on NUMA nodes that are STALE or closed, or on nodes in mode kubelet.`,
		Example: `  hilbert top nodes
  hilbert top nodes -o wide
  hilbert top nodes node-17 -o json`,
		RunE: func(cmd *cobra.Command, names []string) error {
			view, now := &nodesView{Nodes: []nodeRow{}}, time.Now()
			if err := f.each(cmd, names, func(c *v1alpha1.CustomNodeResource) {
				view.Nodes = append(view.Nodes, rowOfNode(c, now, f.staleAfter))
			}); err != nil {
				return err
			}
			return f.output.Write(cmd.OutOrStdout(), view)
		},
	}
	f.flags(cmd, output.Wide, output.Name)
	cmd.ValidArgsFunction = complete.Nodes(&f.target)
	return cmd
}

// nodesView is the answer of hilbert top nodes.
type nodesView struct {
	Nodes []nodeRow `json:"nodes"`
}

type nodeRow struct {
	Name string `json:"name"`
	Mode string `json:"mode"`
	// Ready is the status of the condition AgentReady, Reason its reason.
	Ready  string `json:"ready,omitempty"`
	Reason string `json:"reason,omitempty"`
	// Problem is why the scheduler cannot read the report.
	Problem string `json:"problem,omitempty"`
	seen
	NUMANodes     []numaRow   `json:"numaNodes"`
	Pools         []spec.Pool `json:"pools,omitempty"`
	DedicatedPods int         `json:"dedicatedPods"`
	// Lending is what reclaimed pods may have; nil: the agent does not say.
	Lending *lendingRow `json:"lending,omitempty"`
}

type numaRow struct {
	NUMANode string `json:"numaNode"`
	Socket   string `json:"socket"`
	Closed   bool   `json:"closed,omitempty"`
	// Alone: one pod has the whole NUMA node.
	Alone bool `json:"alone,omitempty"`
	// CPUs and memory that may be given exclusively, and what is left of them.
	CPUs          int            `json:"cpus"`
	FreeCPUs      int            `json:"freeCPUs"`
	MemoryMiB     int64          `json:"memoryMiB"`
	FreeMemoryMiB int64          `json:"freeMemoryMiB"`
	DedicatedPods int            `json:"dedicatedPods"`
	Pools         map[string]int `json:"pools,omitempty"`   // CPUs of each
	Devices       map[string]int `json:"devices,omitempty"` // how many of each type
	// Headroom is the NUMA node's part of what the node lends.
	Headroom *spec.ReclaimedAmounts `json:"headroom,omitempty"`

	poolSets map[string]string // the CPUs of each
}

func rowOfNode(c *v1alpha1.CustomNodeResource, now time.Time, staleAfter time.Duration) nodeRow {
	s := &c.Status
	row := nodeRow{
		Name: c.Name, Mode: s.Mode, seen: seenOf(c, now, staleAfter), Pools: s.Pools, DedicatedPods: s.Summary.DedicatedPods, NUMANodes: []numaRow{},
	}
	row.Lending = lendingOf(c, row.seen)
	if _, _, err := parse.NodeNUMANodes(&s.NodeStatus); err != nil {
		row.Problem = err.Error()
	}
	for i := range s.Conditions {
		if s.Conditions[i].Type == spec.ConditionAgentReady {
			row.Ready, row.Reason = string(s.Conditions[i].Status), s.Conditions[i].Reason
		}
	}
	for i := range s.Topology {
		for j := range s.Topology[i].Children {
			if z := &s.Topology[i].Children[j]; z.Type == spec.ElementNUMANode {
				row.NUMANodes = append(row.NUMANodes, rowOfNUMANode(z, s.Topology[i].Name, s))
			}
		}
	}
	return row
}

func rowOfNUMANode(z *spec.TopologyElement, socket string, s *v1alpha1.CustomNodeResourceStatus) numaRow {
	pools := s.Pools
	row := numaRow{NUMANode: z.Name, Socket: socket, Closed: z.Closed, Pools: make(map[string]int), Devices: make(map[string]int), poolSets: make(map[string]string)}
	if z.Allocatable != nil {
		row.CPUs, row.MemoryMiB = z.Allocatable.CPUs, z.Allocatable.MemoryMiB
	}
	row.FreeCPUs, row.FreeMemoryMiB = row.CPUs, row.MemoryMiB
	for i := range z.Allocations {
		row.FreeCPUs -= z.Allocations[i].CPUs
		row.FreeMemoryMiB -= z.Allocations[i].MemoryMiB
		if !z.Allocations[i].Shared {
			row.DedicatedPods++
		}
		row.Alone = row.Alone || z.Allocations[i].Exclusive
	}
	if z.Capacity != nil {
		all, _ := topology.ParseCPUSet(z.Capacity.CPUSet) // what cannot be read is the row's Problem
		for i := range pools {
			set, _ := topology.ParseCPUSet(pools[i].CPUSet)
			if n := set.Intersection(all).Len(); n > 0 {
				row.Pools[pools[i].Name] = n
				row.poolSets[pools[i].Name] = set.Intersection(all).String()
			}
		}
	}
	if s.Colocation != nil {
		for i := range s.Colocation.NUMANodes {
			if said := &s.Colocation.NUMANodes[i]; said.Name == z.Name {
				row.Headroom = &said.ReclaimedAmounts
			}
		}
	}
	for i := range z.Children {
		row.Devices[z.Children[i].Type]++
	}
	return row
}

// Objects are the nodes.
func (v *nodesView) Objects() (list []output.Object) {
	for i := range v.Nodes {
		list = append(list, output.Object{Kind: "Node", Name: v.Nodes[i].Name})
	}
	return list
}

// WriteText draws a line for each NUMA node, under the node's first.
func (v *nodesView) WriteText(w io.Writer) error { return v.write(w, false) }

// WriteWide also names the socket of each NUMA node, and which CPUs the pools have there.
func (v *nodesView) WriteWide(w io.Writer) error { return v.write(w, true) }

func (v *nodesView) write(w io.Writer, wide bool) error {
	lines := [][]string{{"NODE", "MODE", "READY", "OBSERVED", "NUMA", "CPUS", "FREE", "OF", "MEMORY FREE", "OF", "DEDICATED", "POOLS", "DEVICES", "NOTE"}}
	if wide {
		lines[0] = before(lines[0], wideHeads)
	}
	lends := v.lends()
	if lends {
		lines[0] = before(lines[0], lendingHeads)
	}
	for i := range v.Nodes {
		n := &v.Nodes[i]
		head := []string{n.Name, output.OrDash(n.Mode), n.readiness(), n.text()}
		if len(n.NUMANodes) == 0 {
			line := append(head, "-", "-", "-", "-", "-", "-", strconv.Itoa(n.DedicatedPods), "-", "-", n.Problem)
			if wide {
				line = before(line, []string{"-", "-"})
			}
			if lends {
				line = before(line, n.lendingCells(true, nil))
			}
			lines = append(lines, line)
		}
		for j := range n.NUMANodes {
			line := append(head, n.NUMANodes[j].cells()...)
			if j == 0 && n.Problem != "" {
				line[len(line)-1] = n.Problem
			}
			if wide {
				line = before(line, []string{n.NUMANodes[j].Socket, n.NUMANodes[j].poolCPUs()})
			}
			if lends {
				line = before(line, n.lendingCells(j == 0, &n.NUMANodes[j]))
			}
			lines = append(lines, line)
			head = []string{"", "", "", ""}
		}
	}
	if err := output.Rows(w, lines); err != nil {
		return err
	}
	_, err := fmt.Fprintf(w, "\n%s\n", v.summary())
	return err
}

// wideHeads are the columns that only --output wide has.
var wideHeads = []string{"SOCKET", "CPUS OF POOLS"}

// poolCPUs lists the CPUs of each pool: "reclaimed 7,15 share 3-6".
func (z *numaRow) poolCPUs() string {
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(z.poolSets)) {
		parts = append(parts, name+" "+z.poolSets[name])
	}
	return output.OrDash(strings.Join(parts, " "))
}

func (n *nodeRow) readiness() string {
	switch n.Ready {
	case "True":
		return "yes"
	case "":
		return "-"
	}
	return n.Reason
}

func (z *numaRow) cells() []string {
	var notes []string
	if z.Closed {
		notes = append(notes, "closed")
	}
	if z.Alone {
		notes = append(notes, "held alone")
	}
	return []string{
		z.NUMANode, bar(z.CPUs-z.FreeCPUs, z.CPUs), strconv.Itoa(z.FreeCPUs), strconv.Itoa(z.CPUs), output.Memory(z.FreeMemoryMiB), output.Memory(z.MemoryMiB),
		strconv.Itoa(z.DedicatedPods), counts(z.Pools), counts(z.Devices), strings.Join(notes, ", "),
	}
}

// counts lists amounts by name: "reclaimed 2, share 6".
func counts(of map[string]int) string {
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(of)) {
		parts = append(parts, fmt.Sprint(name, " ", of[name]))
	}
	return output.OrDash(strings.Join(parts, ", "))
}

// summary says in a line what the table adds up to. What is stale or malformed is not counted as free.
func (v *nodesView) summary() string {
	free, all, pods, stale, kubelet, bad := 0, 0, 0, 0, 0, 0
	for i := range v.Nodes {
		n := &v.Nodes[i]
		pods += n.DedicatedPods
		switch {
		case n.Problem != "":
			bad++
		case n.Stale:
			stale++
		case n.Mode != spec.ModeAgent:
			kubelet++
		default:
			for j := range n.NUMANodes {
				all += n.NUMANodes[j].CPUs
				if !n.NUMANodes[j].Closed {
					free += max(n.NUMANodes[j].FreeCPUs, 0)
				}
			}
		}
	}
	parts := []string{fmt.Sprintf("%d nodes: %d of %d CPUs can be promised, %d pods have CPUs of their own", len(v.Nodes), free, all, pods)}
	for _, part := range []struct {
		count int
		what  string
	}{{kubelet, "in mode kubelet"}, {stale, "stale"}, {bad, "malformed"}} {
		if part.count > 0 {
			parts = append(parts, fmt.Sprint(part.count, " ", part.what))
		}
	}
	return strings.Join(parts, ", ") + "."
}
