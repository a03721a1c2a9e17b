package parse

import (
	"cmp"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apiresource "k8s.io/apimachinery/pkg/api/resource"

	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/cluster/facts"
	"hilbert.dev/hilbert/resource"
)

// allocatable is what a node has. Where the scheduler goes by what agents say of over-commitment, it has as much of facts.PromisedCPU as of CPU, whatever it says itself.
func (p *Parser) allocatable(node *corev1.Node) []resource.Quantity {
	list := p.amounts.quantities(node.Status.Allocatable)
	if p.PromisedCPU > 0 {
		list = withPromised(list, amount(corev1.ResourceCPU, node.Status.Allocatable.Cpu()))
	}
	return list
}

// withPromised puts an amount of facts.PromisedCPU in the place of what is said of it; the list is sorted by name.
func withPromised(list []resource.Quantity, milliCPU int64) []resource.Quantity {
	list = slices.DeleteFunc(list, func(q resource.Quantity) bool { return q.Name == facts.PromisedCPU })
	if milliCPU <= 0 {
		return list
	}
	at, _ := slices.BinarySearchFunc(list, facts.PromisedCPU, func(q resource.Quantity, name string) int { return cmp.Compare(q.Name, name) })
	return slices.Insert(list, at, resource.Quantity{Name: facts.PromisedCPU, Amount: milliCPU})
}

// askedCPU is what a pod asked for of CPU before its requests were lowered: what it requests now (list), if they were not. Its annotation says what each container asked for, and bounds it by
// the percent by which requests were lowered, so that a request that shrinks in place takes with it what counts.
func askedCPU(pod *corev1.Pod, list corev1.ResourceList) int64 {
	stored := amount(corev1.ResourceCPU, list.Cpu())
	text := pod.Annotations[spec.AnnotationRequestedCPU]
	if text == "" || stored <= 0 {
		return stored
	}
	asked := spec.ParseRequestedCPU(text)
	before := &corev1.Pod{Spec: pod.Spec}
	before.Spec.Containers = withAsked(pod.Spec.Containers, asked)
	before.Spec.InitContainers = withAsked(pod.Spec.InitContainers, asked)
	whole := podRequests(before, requestOptions)
	return asked.Asked(stored, amount(corev1.ResourceCPU, whole.Cpu()))
}

// withAsked are containers as they were before their requests were lowered.
func withAsked(list []corev1.Container, asked spec.RequestedCPU) []corev1.Container {
	out := slices.Clone(list)
	for i := range out {
		c := &out[i]
		q := c.Resources.Requests[corev1.ResourceCPU]
		stored := amount(corev1.ResourceCPU, &q)
		if was := asked.Asked(stored, asked.Containers[c.Name]); was > stored {
			c.Resources.Requests = c.Resources.Requests.DeepCopy()
			c.Resources.Requests[corev1.ResourceCPU] = *apiresource.NewMilliQuantity(was, apiresource.DecimalSI)
		}
	}
	return out
}

// overcommit turns what a node's agent says of over-commitment into the ledger's terms. Nothing said is nothing, and so is what the scheduler does not go by.
func (p *Parser) overcommit(s *spec.NodeOvercommitStatus) (facts.Overcommit, error) {
	const whole = 100
	switch {
	case s == nil || p.PromisedCPU <= whole:
		return facts.Overcommit{}, nil
	case s.Percent < whole || s.ExtraMilliCPU < 0 || s.ExtraMilliCPU > maxMilliCPU*maxOvercommit:
		return facts.Overcommit{}, fmt.Errorf("overcommit: percent %d, extraMilliCPU %d; write at least %d, and 0 to %d", s.Percent, s.ExtraMilliCPU, whole, maxMilliCPU*maxOvercommit)
	}
	percent := min(s.Percent, p.PromisedCPU)
	extra := s.ExtraMilliCPU
	if s.Percent > percent { // as if the agent had stopped there
		extra = extra * int64(percent-whole) / int64(s.Percent-whole)
	}
	if extra == 0 {
		return facts.Overcommit{}, nil
	}
	return facts.Overcommit{ExtraCPU: extra, Percent: percent}, nil
}

// maxOvercommit is how many times its CPUs a node may promise.
const maxOvercommit = spec.MaxOvercommitPercent / 100
