package explain

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/duration"

	"hilbert.dev/hilbert/api/node/v1alpha1"
	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/cmd/hilbert/output"
	"hilbert.dev/hilbert/cmd/hilbert/render"
	"hilbert.dev/hilbert/kube/reach"
	"hilbert.dev/hilbert/schedule/inspect"
)

// nodeAnswer is what the scheduler makes of a node, with what the agent itself says of what it lends.
type nodeAnswer struct {
	*inspect.NodeAnswer
	// ObservedAt is when the agent looked, by its clock.
	ObservedAt *time.Time `json:"observedAt,omitempty"`
	// Report is the agent's; without one, Unread says why.
	Report *spec.Colocation `json:"report,omitempty"`
	Unread string           `json:"unread,omitempty"`
	// Devices are the GPUs and network cards that it tells of.
	Devices *spec.Devices `json:"devices,omitempty"`
	// Configuration is what the agent was told by a NodeConfiguration, and made of it; nil: none targets the node.
	Configuration *nodeConfigured `json:"configuration,omitempty"`
	// Interference is which services are harmed, by whom, and what is done; nil: it is not watched.
	Interference *spec.Interference `json:"interference,omitempty"`
	// Overcommit is how much CPU may be promised a second time, and why; nil: nothing is said of it.
	Overcommit *spec.NodeOvercommitStatus `json:"overcommit,omitempty"`
	// Conditions are those that are not as they should be.
	Conditions []string `json:"conditions,omitempty"`

	age time.Duration
}

func (f *flags) node(ctx context.Context, name string) (*nodeAnswer, error) {
	answer, err := f.Node(ctx, name)
	if err != nil {
		return nil, err
	}
	a := &nodeAnswer{NodeAnswer: answer}
	if f.From != "" {
		return a, nil
	}
	err = reach.EachNodeReport(ctx, f.Target, []string{name}, func(c *v1alpha1.CustomNodeResource) error {
		a.reported(c, time.Now())
		return nil
	})
	if err != nil {
		a.Unread = err.Error()
	}
	return a, nil
}

// reported takes in the agent's own words.
func (a *nodeAnswer) reported(c *v1alpha1.CustomNodeResource, now time.Time) {
	a.Report, a.Devices, a.Interference, a.Overcommit = c.Status.Colocation, c.Status.Devices, c.Status.Interference, c.Status.Overcommit
	a.Configuration = configured(c.Spec.Configuration, c.Status.Configuration)
	if at := c.Status.ObservedAt.Time; !at.IsZero() {
		a.ObservedAt, a.age = &at, max(now.Sub(at), 0)
	}
	for i := range c.Status.Conditions {
		condition := &c.Status.Conditions[i]
		if well := condition.Type == spec.ConditionAgentReady; (condition.Status == "True") != well {
			a.Conditions = append(a.Conditions, fmt.Sprintf("%s is %s (%s) %s", condition.Type, condition.Status, condition.Reason, condition.Message))
		}
	}
}

// WriteText adds the agent's words to the scheduler's.
func (a *nodeAnswer) WriteText(w io.Writer) error {
	if err := render.Node(w, a.NodeAnswer); err != nil {
		return err
	}
	switch {
	case a.Unread != "":
		_, err := fmt.Fprintf(w, "\nWhat the agent itself says cannot be read: %s\n", a.Unread)
		return err
	case a.ObservedAt == nil:
		return nil
	}
	if _, err := fmt.Fprintf(w, "\nThe agent looked %s ago.\n", duration.HumanDuration(a.age)); err != nil {
		return err
	}
	if a.Configuration != nil {
		if _, err := fmt.Fprintln(w, a.Configuration); err != nil {
			return err
		}
	}
	for _, condition := range a.Conditions {
		if _, err := fmt.Fprintln(w, condition); err != nil {
			return err
		}
	}
	if err := a.writeGPUs(w); err != nil {
		return err
	}
	if a.Report != nil {
		if err := a.writeReport(w); err != nil {
			return err
		}
	}
	_, err := io.WriteString(w, a.harm())
	return err
}

// writeGPUs says whose the GPUs are, what of them is not promised for that, and who has which. hilbert top gpus draws how much.
func (a *nodeAnswer) writeGPUs(w io.Writer) error {
	d := a.Devices
	if d == nil || len(d.GPUs) == 0 {
		return nil
	}
	lines := []string{fmt.Sprintf("GPUs: %d, owner %s: %s.", len(d.GPUs), d.Owner, output.OrDash(d.Reason))}
	if d.Owner == spec.OwnerKubelet {
		lines = append(lines, "The kubelet gives them out for a device plugin, whole and by number, and chooses which: no part of one, no PCIe switch and no NUMA node is promised.")
	}
	for _, note := range render.KubeletNotes(d.Kubelet) {
		lines = append(lines, "Of the kubelet's devices: "+note+".")
	}
	for i := range d.Allocations {
		if h := &d.Allocations[i]; h.GPUs != "" {
			text := fmt.Sprintf("%s/%s has GPUs %s", h.Namespace, h.Name, h.GPUs)
			if h.Owner != "" {
				text += ", given by the " + h.Owner
			}
			lines = append(lines, text+".")
		}
	}
	_, err := fmt.Fprintln(w, strings.Join(lines, "\n"))
	return err
}

// writeReport draws a line for each NUMA node, with what bounds its headroom.
func (a *nodeAnswer) writeReport(w io.Writer) error {
	r := a.Report
	if _, err := fmt.Fprintf(w, "Lent now: %s CPUs and %s. Suppression of reclaimed pods: %s.\n\n", output.Cores(r.Lent.MilliCPU), output.Memory(r.Lent.MemoryMiB), output.OrDash(r.Suppression)); err != nil {
		return err
	}
	lines := [][]string{{"NUMA", "HEADROOM CPU", "BOUND BY", "MEMORY", "BOUND BY", "WHY"}}
	for i := range r.NUMANodes {
		z := &r.NUMANodes[i]
		lines = append(lines, []string{z.Name, output.Cores(z.MilliCPU), output.OrDash(z.CPUReason), output.Memory(z.MemoryMiB), output.OrDash(z.MemoryReason), z.Message})
	}
	lines = append(lines, []string{"all", output.Cores(r.Headroom.MilliCPU), "", output.Memory(r.Headroom.MemoryMiB)})
	return output.Rows(w, lines)
}
