package command

import (
	"fmt"
	"io"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/duration"

	"hilbert.dev/hilbert/api/node/v1alpha1"
	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/cmd/exitcode"
	"hilbert.dev/hilbert/cmd/hilbert/output"
	"hilbert.dev/hilbert/kube/reach"
)

// topFlags are the flags that all forms of hilbert top have.
type topFlags struct {
	target     reach.Target
	output     output.Format
	staleAfter time.Duration
}

func newTop() *cobra.Command {
	top := &cobra.Command{
		Use:   "top",
		Short: "Show what the nodes' agents report: NUMA nodes, pools, GPUs, and pods with exclusive CPUs",
		Long: `Show what the agents report in the CustomNodeResources: the NUMA nodes and their free amounts, the pools, GPUs and network cards, and which
pod holds what. These are allocations, not usage. The scheduler uses a report while it is fresh.`,
	}
	top.AddCommand(newTopNodes(), newTopPods(), newTopGPUs())
	return top
}

func (f *topFlags) flags(cmd *cobra.Command, formats ...string) {
	flags := cmd.Flags()
	targetFlags(cmd, &f.target)
	flags.DurationVar(&f.staleAfter, "stale-after", spec.Default().Scheduling.NodeReports.StaleAfter.D(), "mark reports of this age or older as stale, like scheduling.nodeReports.staleAfter of hilbertd")
	f.output.Flag(cmd, formats...)
}

// check refuses flags that cannot be meant.
func (f *topFlags) check() error {
	if f.staleAfter <= 0 {
		return exitcode.Usagef("top: --stale-after %s: want more than 0, for example 15m", f.staleAfter)
	}
	return f.output.Check("top")
}

// each reads the reports.
func (f *topFlags) each(cmd *cobra.Command, names []string, visit func(*v1alpha1.CustomNodeResource)) error {
	if err := f.check(); err != nil {
		return err
	}
	return cause(reach.EachNodeReport(cmd.Context(), f.target, names, func(c *v1alpha1.CustomNodeResource) error {
		visit(c)
		return nil
	}))
}

// seen is when an agent looked, and what that is worth now.
type seen struct {
	ObservedAt *metav1.Time `json:"observedAt,omitempty"`
	Stale      bool         `json:"stale,omitempty"`

	age time.Duration
}

func seenOf(c *v1alpha1.CustomNodeResource, now time.Time, staleAfter time.Duration) seen {
	if c.Status.ObservedAt.IsZero() {
		return seen{Stale: true}
	}
	age := max(now.Sub(c.Status.ObservedAt.Time), 0)
	return seen{ObservedAt: &c.Status.ObservedAt, Stale: age >= staleAfter, age: age}
}

// text is the age, marked where the report is too old to be acted on.
func (s seen) text() string {
	switch {
	case s.ObservedAt == nil:
		return "never"
	case s.Stale:
		return duration.HumanDuration(s.age) + " STALE"
	}
	return duration.HumanDuration(s.age)
}

// rows writes lines of cells in columns.
func rows(w io.Writer, lines [][]string) error {
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, cells := range lines {
		for len(cells) > 0 && cells[len(cells)-1] == "" {
			cells = cells[:len(cells)-1] // no blanks at the end of a line
		}
		if _, err := fmt.Fprintln(table, strings.Join(cells, "\t")); err != nil {
			return err
		}
	}
	return table.Flush()
}

// memory writes MiB as people do.
func memory(mebibytes int64) string {
	const gibibyte, fewDigits = 1024, 100
	switch {
	case mebibytes < gibibyte:
		return strconv.FormatInt(mebibytes, 10) + "Mi"
	case mebibytes < fewDigits*gibibyte && mebibytes%gibibyte != 0:
		return strconv.FormatFloat(float64(mebibytes)/gibibyte, 'f', 1, 64) + "Gi"
	}
	return strconv.FormatInt(mebibytes/gibibyte, 10) + "Gi"
}

// bar draws how much is held.
func bar(held, all int) string {
	const width = 8
	filled := 0
	if all > 0 {
		filled = min(max((held*width+all-1)/all, 0), width)
	}
	return strings.Repeat("#", filled) + strings.Repeat(".", width-filled)
}
