package render

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"text/tabwriter"
	"unicode/utf8"

	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/cluster/facts"
	"hilbert.dev/hilbert/resource"
	"hilbert.dev/hilbert/schedule/inspect"
	"hilbert.dev/hilbert/schedule/place/explain"
)

const (
	// barCells is how wide a bar is, maxName and maxResource how many runes of a name are shown: the table stays some 130 columns wide.
	barCells    = 20
	maxName     = 28
	maxResource = 16
)

// barStyle is what bars are drawn with.
type barStyle struct{ used, borrowed, pending, free, end string }

func newBarStyle(plain bool) *barStyle {
	if plain {
		return &barStyle{used: "#", borrowed: "+", pending: "-", free: ".", end: "|"}
	}
	return &barStyle{used: "█", borrowed: "▓", pending: "░", free: "·", end: "│"}
}

func (b *barStyle) legend() string {
	return fmt.Sprintf("%s used  %s borrowed  %s pending  %s free up to the guarantee or the limit  %s end of the guarantee\n",
		b.used, b.borrowed, b.pending, b.free, b.end)
}

// bar draws an amount: as wide as the largest of what it is about, each cell as what is at its middle.
func (b *barStyle) bar(a *inspect.QueueAmount) string {
	top := max(resource.Add(a.Used, a.Pending), a.Guaranteed)
	if a.Limit != nil {
		top = max(top, *a.Limit)
	}
	if top <= 0 {
		return ""
	}
	within, used, wanted := min(a.Used, a.Guaranteed), a.Used, resource.Add(a.Used, a.Pending)
	reaches := func(amount int64, cell int) bool { return float64(amount)/float64(top)*barCells > float64(cell)+0.5 }
	var text strings.Builder
	marked := a.Guaranteed <= 0
	for cell := range barCells {
		if !marked && !reaches(a.Guaranteed, cell) {
			text.WriteString(b.end)
			marked = true
		}
		switch {
		case reaches(within, cell):
			text.WriteString(b.used)
		case reaches(used, cell):
			text.WriteString(b.borrowed)
		case reaches(wanted, cell):
			text.WriteString(b.pending)
		default:
			text.WriteString(b.free)
		}
	}
	if !marked {
		text.WriteString(b.end)
	}
	return text.String()
}

// Options say how Queues renders.
type Options struct {
	// Resource that all queues are shown by, as ParseResource returns it; empty: by the dominant one of each.
	Resource string
	// Plain draws bars with ASCII only.
	Plain bool
	// Wide draws a line for each resource of a queue, and says how it divides.
	Wide bool
}

// writeTree draws the tree of queues.
func writeTree(b *strings.Builder, v *inspect.QueueView, o Options) {
	brush := newBarStyle(o.Plain)
	t := tabwriter.NewWriter(b, 0, 8, 2, ' ', 0)
	head := "QUEUE\tRESOURCE\t\tUSED\tBORROWED\tGUARANTEED\tLIMIT\tFAIR\tPENDING\tUNITS\tPODS"
	if o.Wide {
		head += "\tRUNNING\tWEIGHT\tORDER"
	}
	fmt.Fprintln(t, head)
	depth := v.Queues[0].Depth
	var problems []string
	for i := range v.Queues {
		q := &v.Queues[i]
		if q.Name == facts.DefaultQueue && !q.Configured && len(q.Amounts) == 0 {
			continue // it is not configured and empty
		}
		title := short(strings.Repeat("  ", q.Depth-depth)+queueTitle(q), maxName)
		if q.Reason != "" {
			title += " !"
			problems = append(problems, fmt.Sprintf("! %s: %s: %s\n", queueTitle(q), q.Reason, q.Message))
		}
		for _, name := range o.shown(q, v.Capacity) {
			a := q.Amount(name)
			fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%d\t%d", title, short(shownResource(name), maxResource), brush.bar(&a),
				strings.Join(amountCells(&a), "\t"), q.PendingUnits, q.PendingPods)
			if o.Wide {
				fmt.Fprintf(t, "\t%d\t%d\t%s", q.RunningPods, q.Weight, q.Sort)
			}
			fmt.Fprintln(t)
		}
	}
	_ = t.Flush() // to a Builder
	b.WriteString(brush.legend())
	for _, p := range problems {
		b.WriteString(p)
	}
	b.WriteString("\n")
}

// shown are the resources of which a queue has a line.
func (o *Options) shown(q *inspect.QueueStatus, capacity map[string]int64) []string {
	switch {
	case o.Resource != "":
		return []string{o.Resource}
	case !o.Wide || len(q.Amounts) == 0:
		return []string{dominant(q, capacity)}
	}
	names := make([]string, len(q.Amounts))
	for i := range q.Amounts {
		names[i] = q.Amounts[i].Resource
	}
	return names
}

// amountCells are what is used, borrowed, guaranteed, the limit, the fair share and what is pending, without the resource's name.
func amountCells(a *inspect.QueueAmount) []string {
	limit := "-"
	if a.Limit != nil {
		limit = bare(a.Resource, *a.Limit)
	}
	return []string{
		bare(a.Resource, a.Used), bare(a.Resource, a.Borrowed), bare(a.Resource, a.Guaranteed), limit, bare(a.Resource, a.FairShare), bare(a.Resource, a.Pending),
	}
}

// bare is an amount without the resource's name.
func bare(resource string, amount int64) string {
	text, _, _ := strings.Cut(explain.AmountText(resource, amount), " ")
	return text
}

func queueTitle(q *inspect.QueueStatus) string {
	if q.Name == "" {
		return "(all)"
	}
	return q.Name
}

// short cuts a text to so many runes.
func short(text string, runes int) string {
	if utf8.RuneCountInString(text) <= runes {
		return text
	}
	return string([]rune(text)[:runes-1]) + "…"
}

// shownResource is how a resource is called in a table; ParseResource reads it.
func shownResource(name string) string {
	if name == spec.ResourceGPUMilli {
		return "GPU"
	}
	return name
}

// ParseResource reads the name of a resource as people write it. Queues count GPUs of every kind as one.
func ParseResource(text string) string {
	switch {
	case strings.EqualFold(text, "gpu") || text == spec.ResourceNvidiaGPU:
		return spec.ResourceGPUMilli
	case !strings.Contains(text, "/"): // Kubernetes' own
		return strings.ToLower(text)
	}
	return text
}

// Resources are the resources that a view has figures of, as people write them.
func Resources(v *inspect.QueueView) []string {
	var names []string
	for i := range v.Queues {
		for _, a := range v.Queues[i].Amounts {
			if name := shownResource(a.Resource); !slices.Contains(names, name) {
				names = append(names, name)
			}
		}
	}
	slices.Sort(names)
	return names
}

// dominant names the resource of which a queue has, or asks for, the greatest part of the cluster; of equals, the one that is guaranteed
// or limited. Counts of pods are left out.
func dominant(q *inspect.QueueStatus, capacity map[string]int64) string {
	best := slices.MaxFunc(append([]inspect.QueueAmount{{Resource: resource.NameCPU}}, q.Amounts...), func(a, b inspect.QueueAmount) int {
		return cmp.Or(cmp.Compare(share(&a, capacity), share(&b, capacity)), cmp.Compare(configured(&a), configured(&b)))
	})
	return best.Resource
}

// share is the part of the cluster that a queue has, or asks for.
func share(a *inspect.QueueAmount, capacity map[string]int64) float64 {
	total := capacity[a.Resource]
	if total <= 0 || a.Resource == resource.NamePods {
		return 0
	}
	return float64(resource.Add(a.Used, a.Pending)) / float64(total)
}

// configured counts how much the configuration says of the resource.
func configured(a *inspect.QueueAmount) (n int) {
	if a.Resource == resource.NamePods {
		return 0
	}
	if a.Guaranteed > 0 {
		n += 2
	}
	if a.Limit != nil {
		n++
	}
	return n
}
