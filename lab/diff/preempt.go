package diff

import (
	"fmt"
	"math"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	componenthelpers "k8s.io/component-helpers/scheduling/corev1"
	"k8s.io/kubernetes/pkg/scheduler/framework/preemption"
	schedutil "k8s.io/kubernetes/pkg/scheduler/util"

	"hilbert.dev/hilbert/cluster/facts"
	"hilbert.dev/hilbert/schedule/place/victims"
)

// contest compares preemption: on which of the nodes where the pod does not fit it could be at whose expense, and what the chosen one
// costs. A scheduler asks only for a pod that fits nowhere, but the answer does not depend on that.
func (p *Player) contest(u *upstream, o *ours, pod *corev1.Pod) ([]Difference, error) {
	record := o.store.Pod(facts.UID(pod.UID))
	if may := u.mayPreempt(pod); may == record.NeverPreempts {
		return []Difference{{"preempt never", fmt.Sprintf("upstream lets the pod preempt: %v; Hilbert never does: %v", may, record.NeverPreempts)}}, nil
	}
	candidates, chosen, err := u.preempt(pod)
	if err != nil {
		return nil, err
	}
	own := make(map[string]*victims.Preemption)
	for _, c := range o.preempts.Candidates(record) {
		own[o.snapshot.Node(c.Slot).Name] = &c
	}
	found, ok := o.preempts.Preempt(record)
	c := &contested{u: u, o: o, pod: pod, theirs: make(map[string]*victims.Preemption), own: own}
	for _, candidate := range candidates {
		c.theirs[candidate.Name()] = u.outcome(o, candidate)
	}
	if err := c.nodes(&p.contests); err != nil {
		return nil, err
	}
	c.choice(chosen, &found, ok, &p.contests)
	return c.differences, nil
}

// outcome is a candidate of upstream's in our terms.
func (u *upstream) outcome(o *ours, c preemption.Candidate) *victims.Preemption {
	pods := c.Victims().Pods
	out := &victims.Preemption{Cost: victims.Cost{
		Violations: int(c.Victims().NumPDBViolations), Highest: priority(pods[0]), Count: len(pods), Start: math.MaxInt64,
	}}
	for _, victim := range pods {
		out.Victims = append(out.Victims, o.store.Pod(facts.UID(victim.UID)))
		out.Cost.Sum += int64(priority(victim)) + math.MaxInt32 + 1
		if priority(victim) == out.Cost.Highest {
			out.Cost.Start = min(out.Cost.Start, started(victim))
		}
	}
	return out
}

// contested is one comparison.
type contested struct {
	u           *upstream
	o           *ours
	pod         *corev1.Pod
	theirs, own map[string]*victims.Preemption // by node
	vague       bool                           // on some node they need not agree
	differences []Difference
}

func (c *contested) differ(kind, format string, args ...any) {
	c.differences = append(c.differences, Difference{kind, fmt.Sprintf(format, args...)})
}

// nodes compares node by node.
func (c *contested) nodes(count *Contests) error {
	nodes, err := c.u.state.NodeInfos().List()
	if err != nil {
		return fmt.Errorf("list upstream's nodes: %w", err)
	}
	count.Pods++
	for _, node := range nodes {
		name := node.Node().Name
		theirs, own := c.theirs[name], c.own[name]
		why := wavers(node, c.pod)
		if why == miscounted {
			count.Miscounted++
			c.vague = true
			continue
		}
		if (theirs == nil) != (own == nil) {
			c.differ("preempt candidate", "node %s: upstream's victims are %s, Hilbert's %s", name, listing(theirs), listing(own))
			continue
		}
		if theirs == nil {
			continue
		}
		if why == tied {
			count.Tied++
			c.vague = true
			continue
		}
		count.take(c.pod, theirs)
		if !slices.Equal(theirs.Victims, own.Victims) {
			c.differ("preempt victims", "node %s: upstream's victims are %s, Hilbert's %s", name, listing(theirs), listing(own))
		} else if theirs.Cost != own.Cost {
			c.differ("preempt cost", "node %s: it costs %+v by upstream, %+v by Hilbert", name, theirs.Cost, own.Cost)
		}
	}
	return nil
}

// choice compares what is chosen: each must have chosen a cheapest one of its candidates, and their costs must be equal.
func (c *contested) choice(chosen preemption.Candidate, found *victims.Preemption, ok bool, count *Contests) {
	if chosen != nil && !c.vague {
		if at := c.theirs[chosen.Name()]; at.Cost.Compare(cheapest(c.theirs)) != 0 {
			c.differ("preempt upstream", "upstream chooses %s at %+v, though it could have %+v: our idea of what it prefers is wrong",
				chosen.Name(), at.Cost, cheapest(c.theirs))
		}
	}
	if ok != (len(c.own) > 0) {
		c.differ("preempt index", "the index finds a node: %v; there are %d candidates", ok, len(c.own))
		return
	}
	if !ok {
		return
	}
	name := c.o.snapshot.Node(found.Slot).Name
	if own := c.own[name]; own == nil || own.Cost != found.Cost || !slices.Equal(own.Victims, found.Victims) || found.Cost.Compare(cheapest(c.own)) != 0 {
		c.differ("preempt index", "the index chooses %s at %+v; the cheapest candidate is at %+v", name, found.Cost, cheapest(c.own))
	}
	if c.vague {
		return
	}
	count.Chosen++
	if found.Cost.Compare(cheapest(c.theirs)) != 0 {
		c.differ("preempt choice", "the cheapest is at %+v by upstream; Hilbert chooses %s at %+v", cheapest(c.theirs), name, found.Cost)
	}
}

// cheapest is the least cost of the candidates.
func cheapest(candidates map[string]*victims.Preemption) victims.Cost {
	least := victims.Cost{Violations: math.MaxInt}
	for _, c := range candidates {
		if c.Cost.Compare(least) < 0 {
			least = c.Cost
		}
	}
	return least
}

func listing(p *victims.Preemption) string {
	if p == nil {
		return "none"
	}
	var names []string
	for _, victim := range p.Victims {
		names = append(names, victim.Name)
	}
	return fmt.Sprintf("%s (%d violate)", strings.Join(names, ", "), p.Cost.Violations)
}

func priority(pod *corev1.Pod) int32 { return componenthelpers.PodPriority(pod) }

// started is when the pod started, in nanoseconds. For one that has not, upstream takes the time at which it is looked at.
func started(pod *corev1.Pod) int64 {
	if pod.Status.StartTime == nil {
		return math.MaxInt64
	}
	return pod.Status.StartTime.UnixNano()
}

// portsOf are the host ports as upstream keeps them.
func portsOf(pod *corev1.Pod) [][3]string {
	var out [][3]string
	for _, p := range schedutil.GetHostPorts(pod) {
		ip, protocol := p.HostIP, string(p.Protocol)
		if ip == "" {
			ip = "0.0.0.0"
		}
		if protocol == "" {
			protocol = string(corev1.ProtocolTCP)
		}
		out = append(out, [3]string{ip, protocol, fmt.Sprint(p.HostPort)})
	}
	return out
}
