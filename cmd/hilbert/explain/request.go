package explain

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"hilbert.dev/hilbert/api/scheduling/v1alpha1"
	"hilbert.dev/hilbert/api/spec"
)

// mostWaiting bounds how many waiting pods of a request are told.
const mostWaiting = 20

// requestAnswer is how a ResourceRequest stands, and why pods of it have no node.
type requestAnswer struct {
	Namespace string                         `json:"namespace"`
	Name      string                         `json:"name"`
	Asks      []v1alpha1.ResourceAsk         `json:"asks"`
	Status    v1alpha1.ResourceRequestStatus `json:"status"`
	// Waiting are pods without a node, the first mostWaiting by name; MoreWaiting says that there are others.
	Waiting     []waitingPod `json:"waitingPods,omitempty"`
	MoreWaiting bool         `json:"moreWaiting,omitempty"`
	// Unread says why Waiting is not known.
	Unread string `json:"unread,omitempty"`
}

// waitingPod is a pod without a node, and what the scheduler says of it.
type waitingPod struct {
	Pod     string `json:"pod"`
	Ask     string `json:"ask"`
	Message string `json:"message,omitempty"`
}

// requestPath is where the API server has the ResourceRequests of a namespace.
func requestPath(namespace string) string {
	return "/apis/" + v1alpha1.GroupVersion.String() + "/namespaces/" + namespace + "/" + v1alpha1.ResourceRequests
}

// request reads the object, which says how each container stands, and those of its pods that have no node.
func (f *flags) request(ctx context.Context, namespace, name string) (*requestAnswer, error) {
	var r v1alpha1.ResourceRequest
	inspector, err := f.read(ctx, kindRequest, "ResourceRequests", requestPath(namespace)+"/"+name, &r)
	if err != nil {
		return nil, err
	}
	a := &requestAnswer{Namespace: r.Namespace, Name: r.Name, Asks: r.Spec.Asks, Status: r.Status}
	var pods corev1.PodList
	path := "/api/v1/namespaces/" + namespace + "/pods?labelSelector=" + spec.LabelResourceRequest + "%3D" + name + "&fieldSelector=spec.nodeName%3D"
	if err := inspector.Get(ctx, path, &pods); err != nil {
		a.Unread = err.Error()
	}
	a.wait(pods.Items)
	return a, nil
}

// wait takes note of the pods that have no node.
func (a *requestAnswer) wait(pods []corev1.Pod) {
	for i := range pods {
		p := &pods[i]
		if p.DeletionTimestamp != nil || p.Status.Phase != corev1.PodPending {
			continue
		}
		one := waitingPod{Pod: p.Name, Ask: p.Labels[spec.LabelAsk]}
		for _, c := range p.Status.Conditions {
			if c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse {
				one.Message = c.Message
			}
		}
		a.Waiting = append(a.Waiting, one)
	}
	slices.SortFunc(a.Waiting, func(x, y waitingPod) int { return cmp.Compare(x.Pod, y.Pod) })
	if len(a.Waiting) > mostWaiting {
		a.Waiting, a.MoreWaiting = a.Waiting[:mostWaiting], true
	}
}

// WriteText renders the answer.
func (a *requestAnswer) WriteText(w io.Writer) error {
	var out strings.Builder
	s := &a.Status
	fmt.Fprintf(&out, "ResourceRequest %s/%s: %d asked, %d waiting, %d allocated, %d running, %d succeeded, %d failed, %d released\n",
		a.Namespace, a.Name, s.Asked, s.Waiting, s.Allocated, s.Running, s.Succeeded, s.Failed, s.Released)
	if len(s.Conditions) == 0 {
		out.WriteString("\nHilbert's controller has not said anything about it. Does it run with controller.requests.enabled?\n")
	}
	section(&out, "Conditions", conditionLines(s.Conditions))
	if len(s.Allocations) > 0 {
		out.WriteString("\n")
		table := tabwriter.NewWriter(&out, 0, 0, 2, ' ', 0)
		fmt.Fprintln(table, "ASK\tINDEX\tSTATE\tNODE\tPOD\tFAILURES\tWHY")
		for i := range s.Allocations {
			l := &s.Allocations[i]
			why := strings.Trim(l.Reason+": "+l.Message, ": ")
			fmt.Fprintf(table, "%s\t%d\t%s\t%s\t%s\t%d\t%s\n", l.Ask, l.Index, l.State, l.Node, l.Pod, l.Failures, why)
		}
		_ = table.Flush() // to memory
	}
	var waits []string
	for _, p := range a.Waiting {
		waits = append(waits, fmt.Sprintf("%s of %s: %s", p.Pod, p.Ask, cmp.Or(p.Message, "the scheduler has not said anything yet")))
	}
	if a.MoreWaiting {
		waits = append(waits, "and more")
	}
	if a.Unread != "" {
		waits = append(waits, "not known: "+a.Unread)
	}
	section(&out, "Without a node", waits)
	if len(a.Waiting) > 0 {
		fmt.Fprintf(&out, "\nWhat would help: hilbert explain pod %s/%s\n", a.Namespace, a.Waiting[0].Pod)
	}
	_, err := io.WriteString(w, out.String())
	return err
}

// conditionLines are the conditions of an object, one in a line.
func conditionLines(conditions []metav1.Condition) (lines []string) {
	for i := range conditions {
		c := &conditions[i]
		lines = append(lines, fmt.Sprintf("%s is %s (%s): %s", c.Type, c.Status, c.Reason, c.Message))
	}
	return lines
}
