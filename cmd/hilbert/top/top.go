// Package top is hilbert top: what the nodes' agents report, as tables and pictures of nodes, pods and GPUs.
//
// Each of its commands reads CustomNodeResources one by one, keeps what it shows, and writes it as text, HTML or JSON. For example, hilbert top gpus draws which pods hold
// which part of each GPU, and sums up by model what is free and what of that is fragmented.
//
// Invariants: a report that is too old is marked and never counted as free; memory goes by what is shown, not by what the cluster has.
// These are allocations as agents tell of them. Usage over time is on the dashboard's pages.
package top

import (
	"strings"
	"time"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/duration"

	"hilbert.dev/hilbert/api/node/v1alpha1"
	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/cmd/exitcode"
	"hilbert.dev/hilbert/cmd/hilbert/ask"
	"hilbert.dev/hilbert/cmd/hilbert/output"
	"hilbert.dev/hilbert/kube/reach"
)

// flags are the flags that all forms of hilbert top have.
type flags struct {
	target     reach.Target
	output     output.Format
	staleAfter time.Duration
}

// NewCommand returns hilbert top with its subcommands.
func NewCommand() *cobra.Command {
	top := &cobra.Command{
		Use:   "top",
		Short: "Show what the nodes' agents report: NUMA nodes, pools, GPUs, and pods with exclusive CPUs",
		Long: `Show what the agents report in the CustomNodeResources: the NUMA nodes and their free amounts, the pools, GPUs and network cards, and which
pod holds what. These are allocations, not usage. The scheduler uses a report while it is fresh.`,
	}
	top.AddCommand(newNodes(), newPods(), newGPUs())
	return top
}

func (f *flags) flags(cmd *cobra.Command, formats ...string) {
	flags := cmd.Flags()
	ask.TargetFlags(cmd, &f.target)
	flags.DurationVar(&f.staleAfter, "stale-after", spec.Default().Scheduling.NodeReports.StaleAfter.D(), "mark reports of this age or older as stale, like scheduling.nodeReports.staleAfter of hilbertd")
	f.output.Flag(cmd, formats...)
}

// check refuses flags that cannot be meant.
func (f *flags) check() error {
	if f.staleAfter <= 0 {
		return exitcode.Usagef("top: --stale-after %s: want more than 0, for example 15m", f.staleAfter)
	}
	return f.output.Check("top")
}

// each reads the reports.
func (f *flags) each(cmd *cobra.Command, names []string, visit func(*v1alpha1.CustomNodeResource)) error {
	if err := f.check(); err != nil {
		return err
	}
	return ask.Cause(reach.EachNodeReport(cmd.Context(), f.target, names, func(c *v1alpha1.CustomNodeResource) error {
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

// bar draws how much is held.
func bar(held, all int) string {
	const width = 8
	filled := 0
	if all > 0 {
		filled = min(max((held*width+all-1)/all, 0), width)
	}
	return strings.Repeat("#", filled) + strings.Repeat(".", width-filled)
}
