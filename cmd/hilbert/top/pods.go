package top

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"hilbert.dev/hilbert/api/node/v1alpha1"
	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/cmd/hilbert/ask"
	"hilbert.dev/hilbert/cmd/hilbert/complete"
	"hilbert.dev/hilbert/cmd/hilbert/output"
	"hilbert.dev/hilbert/topology"
)

func newPods() *cobra.Command {
	var f flags
	var all bool
	var nodes []string
	cmd := &cobra.Command{
		Use:     "pods",
		Aliases: []string{"pod"},
		Short:   "Show the pods with exclusive CPUs: on which node, which CPUs, and whether the promise was kept",
		Long: `Show the pods that hold exclusive CPUs or memory of NUMA nodes, as the agents report: on which node, in which NUMA nodes, and which CPUs.
MOVED pods were promised other NUMA nodes that were no longer free, and have equivalent ones. Shown are the pods of --namespace, else of the namespace of the
kubeconfig's context, or of all.`,
		Example: `  hilbert top pods
  hilbert top pods -A -o wide
  hilbert top pods --namespace prod --node node-17 -o json`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := f.check(); err != nil {
				return err
			}
			namespace, err := f.namespace(all)
			if err != nil {
				return err
			}
			view, now := &podsView{Pods: []podRow{}}, time.Now()
			if err := f.each(cmd, nodes, func(c *v1alpha1.CustomNodeResource) { view.add(c, namespace, now, f.staleAfter) }); err != nil {
				return err
			}
			view.sort()
			return f.output.Write(cmd.OutOrStdout(), view)
		},
	}
	f.flags(cmd, output.Wide, output.Name)
	ask.NamespaceFlag(cmd, &f.target)
	cmd.Flags().BoolVarP(&all, "all-namespaces", "A", false, "pods of all namespaces")
	cmd.MarkFlagsMutuallyExclusive("namespace", "all-namespaces")
	cmd.Flags().StringSliceVar(&nodes, "node", nil, "only pods of these nodes")
	complete.Flag(cmd, "node", complete.Nodes(&f.target))
	return cmd
}

// namespace is that whose pods are shown; empty: all.
func (f *flags) namespace(all bool) (string, error) {
	if all {
		return "", nil
	}
	namespace, err := f.target.DefaultNamespace()
	return namespace, ask.Cause(err)
}

// podsView is the answer of hilbert top pods.
type podsView struct {
	Pods []podRow `json:"pods"`
}

type podRow struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	UID       string `json:"uid"`
	Node      string `json:"node"`
	Mode      string `json:"mode"`
	seen
	NUMANodes []podNUMANode `json:"numaNodes"`
	CPUs      int           `json:"cpus"`
	CPUSet    string        `json:"cpuset"`
	MemoryMiB int64         `json:"memoryMiB,omitempty"`
	Exclusive bool          `json:"exclusive,omitempty"`
	Moved     bool          `json:"moved,omitempty"`
}

// podNUMANode is what a pod holds of one NUMA node.
type podNUMANode struct {
	NUMANode  string `json:"numaNode"`
	CPUs      int    `json:"cpus"`
	CPUSet    string `json:"cpuset,omitempty"`
	MemoryMiB int64  `json:"memoryMiB,omitempty"`
}

// add takes the pods of a node.
func (v *podsView) add(c *v1alpha1.CustomNodeResource, namespace string, now time.Time, staleAfter time.Duration) {
	at := make(map[string]int) // in Pods, by UID
	for i := range c.Status.Topology {
		for j := range c.Status.Topology[i].Children {
			z := &c.Status.Topology[i].Children[j]
			for k := range z.Allocations {
				a := &z.Allocations[k]
				if namespace != "" && a.Namespace != namespace {
					continue
				}
				if _, ok := at[a.UID]; !ok {
					at[a.UID] = len(v.Pods)
					v.Pods = append(v.Pods, podRow{
						Namespace: a.Namespace, Name: a.Name, UID: a.UID, Node: c.Name, Mode: c.Status.Mode, seen: seenOf(c, now, staleAfter),
					})
				}
				v.Pods[at[a.UID]].hold(z.Name, a)
			}
		}
	}
}

// hold adds what the pod holds of a NUMA node.
func (p *podRow) hold(numa string, a *spec.NUMAAllocation) {
	p.NUMANodes = append(p.NUMANodes, podNUMANode{NUMANode: numa, CPUs: a.CPUs, CPUSet: a.CPUSet, MemoryMiB: a.MemoryMiB})
	p.CPUs += a.CPUs
	p.MemoryMiB += a.MemoryMiB
	p.Exclusive, p.Moved = p.Exclusive || a.Exclusive, p.Moved || a.Moved
	set, err := topology.ParseCPUSet(p.CPUSet)
	more, moreErr := topology.ParseCPUSet(a.CPUSet)
	if err != nil || moreErr != nil {
		p.CPUSet = strings.Trim(p.CPUSet+","+a.CPUSet, ",") // as it stands
		return
	}
	p.CPUSet = set.Union(more).String()
}

func (v *podsView) sort() {
	slices.SortStableFunc(v.Pods, func(a, b podRow) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name), cmp.Compare(a.Node, b.Node))
	})
}

// Objects are the pods.
func (v *podsView) Objects() (list []output.Object) {
	for i := range v.Pods {
		list = append(list, output.Object{Kind: "Pod", Name: v.Pods[i].Name})
	}
	return list
}

// WriteText draws a line for each pod.
func (v *podsView) WriteText(w io.Writer) error { return v.write(w, false) }

// WriteWide also says by whom the CPUs are assigned, how old the report is, and the pods' UIDs.
func (v *podsView) WriteWide(w io.Writer) error { return v.write(w, true) }

func (v *podsView) write(w io.Writer, wide bool) error {
	lines := [][]string{{"NAMESPACE", "POD", "NODE", "NUMA", "CPUS", "CPUSET", "MEMORY", "NOTE"}}
	if wide {
		lines[0] = before(lines[0], []string{"MODE", "OBSERVED", "UID"})
	}
	moved := 0
	for i := range v.Pods {
		p := &v.Pods[i]
		var numaNodes, notes []string
		for j := range p.NUMANodes {
			numaNodes = append(numaNodes, p.NUMANodes[j].NUMANode)
		}
		if p.Exclusive {
			notes = append(notes, "alone")
		}
		if p.Moved {
			notes = append(notes, "MOVED")
			moved++
		}
		if p.Mode == spec.ModeKubelet {
			notes = append(notes, "by the kubelet")
		}
		if p.Stale {
			notes = append(notes, p.text())
		}
		bound := "-"
		if p.MemoryMiB > 0 {
			bound = output.Memory(p.MemoryMiB)
		}
		line := []string{
			p.Namespace, p.Name, p.Node, strings.Join(numaNodes, ","), strconv.Itoa(p.CPUs), output.OrDash(p.CPUSet), bound, strings.Join(notes, ", "),
		}
		if wide {
			line = before(line, []string{output.OrDash(p.Mode), p.text(), p.UID})
		}
		lines = append(lines, line)
	}
	if err := output.Rows(w, lines); err != nil {
		return err
	}
	_, err := fmt.Fprintf(w, "\n%d pods have CPUs of their own, %d of them elsewhere than promised.\n", len(v.Pods), moved)
	return err
}
