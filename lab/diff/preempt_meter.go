package diff

import (
	"fmt"
	"io"

	corev1 "k8s.io/api/core/v1"

	"hilbert.dev/hilbert/schedule/place/victims"
)

// Contests counts what of preemption was compared.
type Contests struct {
	Pods       int // whose preemption was compared
	Chosen     int // of those, with a choice that was compared
	Candidates int // nodes whose victims were compared
	Victims    int // on them
	Several    int // candidates with two victims or more
	Violating  int // candidates that violate a disruption budget
	Far        int // candidates for pods with constraints that look at other nodes
	Deleting   int // candidates with a victim that terminates already
	Tied       int // candidates on which the victims depend on upstream's sort
	Miscounted int // nodes on which upstream loses count
}

// take counts a candidate.
func (c *Contests) take(pod *corev1.Pod, p *victims.Preemption) {
	c.Candidates++
	c.Victims += len(p.Victims)
	if len(p.Victims) > 1 {
		c.Several++
	}
	if p.Cost.Violations > 0 {
		c.Violating++
	}
	if len(pod.Spec.TopologySpreadConstraints) > 0 || near(pod) != nil || apart(pod) != nil {
		c.Far++
	}
	for _, victim := range p.Victims {
		if victim.Deleting {
			c.Deleting++
			break
		}
	}
}

func (c *Contests) add(other *Contests) {
	c.Pods += other.Pods
	c.Chosen += other.Chosen
	c.Candidates += other.Candidates
	c.Victims += other.Victims
	c.Several += other.Several
	c.Violating += other.Violating
	c.Far += other.Far
	c.Deleting += other.Deleting
	c.Tied += other.Tied
	c.Miscounted += other.Miscounted
}

func (c *Contests) write(w io.Writer) {
	fmt.Fprintf(w, "preemption for %d pods: %d nodes would do (%d with several victims, %d against a budget, %d for pods that look at other nodes, "+
		"%d with a victim that terminates), %d victims in all; %d choices were compared\n",
		c.Pods, c.Candidates, c.Several, c.Violating, c.Far, c.Deleting, c.Victims, c.Chosen)
	fmt.Fprintf(w, "not compared: the victims on %d nodes where upstream's sort decides, and %d nodes on which upstream loses count\n", c.Tied, c.Miscounted)
}
