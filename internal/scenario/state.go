package scenario

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/resource"
)

// State is what two players of a scenario must agree on.
type State struct {
	Sets         []Set
	Queues       []Queue
	Reservations []Reservation
}

// Reservation is how the places of one stand, as its status has it.
type Reservation struct {
	Name string // namespace/name
	// Places counts all, Reserved those that are kept, Consumed those that owners have, Lost those that are gone.
	Places, Reserved, Consumed, Lost int
	// Reasons are why places were lost.
	Reasons []string
}

// Set is the pods of a gang or of one command.
type Set struct {
	Kind string // "gang" or "pods"
	Name string // namespace/name
	// Size counts the pods that exist, Bound those on nodes that have not ended, Ended those that have.
	Size, Bound, Ended int
	// Reasons are why the others wait, as the API server has it.
	Reasons []string
	// Domains counts the bound pods by domain, for each label that the gang is packed by.
	Domains []Domains
}

// Domains are the numbers of pods in the domains of a label.
type Domains struct {
	Label  string
	Counts []int
}

// Queue is what the pods of a queue, and of those below it, hold.
type Queue struct {
	Name string
	// Used and Borrowed (over the guarantee) are by resource name; GPUs are spec.ResourceGPUMilli.
	Used, Borrowed map[string]int64
	// Problem is the reason why it is not ready.
	Problem string
}

// Lines renders the state, one line a thing, in a fixed order.
func (s *State) Lines() []string {
	var lines []string
	for i := range s.Sets {
		lines = append(lines, s.Sets[i].line())
	}
	slices.Sort(lines)
	queues := make([]string, 0, len(s.Queues))
	for i := range s.Queues {
		queues = append(queues, s.Queues[i].line())
	}
	slices.Sort(queues)
	kept := make([]string, 0, len(s.Reservations))
	for i := range s.Reservations {
		kept = append(kept, s.Reservations[i].line())
	}
	slices.Sort(kept)
	return slices.Concat(lines, queues, kept)
}

func (r *Reservation) line() string {
	line := fmt.Sprintf("reservation %s: %d/%d reserved", r.Name, r.Reserved, r.Places)
	if r.Consumed > 0 {
		line += fmt.Sprintf(", %d consumed", r.Consumed)
	}
	if r.Lost > 0 {
		reasons := slices.Clone(r.Reasons)
		slices.Sort(reasons)
		line += fmt.Sprintf(", %d lost (%s)", r.Lost, strings.Join(slices.Compact(reasons), ", "))
	}
	return line
}

func (s *Set) line() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s %s: %d/%d bound", s.Kind, s.Name, s.Bound, s.Size)
	if s.Ended > 0 {
		fmt.Fprintf(&b, ", %d ended", s.Ended)
	}
	for _, d := range s.Domains {
		counts := slices.Clone(d.Counts)
		slices.SortFunc(counts, func(a, b int) int { return b - a })
		texts := make([]string, len(counts))
		for i, n := range counts {
			texts[i] = strconv.Itoa(n)
		}
		if len(texts) > 0 {
			fmt.Fprintf(&b, ", %s %s", short(d.Label), strings.Join(texts, "+"))
		}
	}
	if len(s.Reasons) > 0 {
		reasons := slices.Clone(s.Reasons)
		slices.Sort(reasons)
		fmt.Fprintf(&b, " (%s)", strings.Join(slices.Compact(reasons), ", "))
	}
	return b.String()
}

// short is a label without its prefix.
func short(label string) string { return label[strings.LastIndexByte(label, '/')+1:] }

func (q *Queue) line() string {
	line := "queue " + q.Name + ": " + amounts(q.Used)
	if borrowed := amounts(q.Borrowed); borrowed != idle {
		line += ", borrowed " + borrowed
	}
	if q.Problem != "" {
		line += " (" + q.Problem + ")"
	}
	return line
}

const idle = "idle"

// amounts renders cores, GiB and GPUs. Pods are left out: what else is used says enough.
func amounts(m map[string]int64) string {
	var parts []string
	for _, r := range []struct {
		name, as string
		unit     float64
	}{{resource.NameCPU, "cpu", 1000}, {resource.NameMemory, "mem", 1 << 30}, {spec.ResourceGPUMilli, "gpu", 1000}} {
		if n := m[r.name]; n != 0 {
			parts = append(parts, r.as+" "+strconv.FormatFloat(float64(n)/r.unit, 'g', -1, 64))
		}
	}
	if len(parts) == 0 {
		return idle
	}
	return strings.Join(parts, " ")
}

// Printer prints states.
type Printer struct{ last []string }

// All prints everything.
func (p *Printer) All(s *State) string {
	p.last = s.Lines()
	return join(p.last)
}

// Changes prints the lines that differ from those of the last state, and what is there no more.
func (p *Printer) Changes(s *State) string {
	lines := s.Lines()
	var changed []string
	for _, line := range lines {
		if !slices.Contains(p.last, line) {
			changed = append(changed, line)
		}
	}
	for _, line := range p.last {
		subject, _, _ := strings.Cut(line, ": ")
		if !slices.ContainsFunc(lines, func(l string) bool { return strings.HasPrefix(l, subject+": ") }) {
			changed = append(changed, subject+": gone")
		}
	}
	p.last = lines
	if len(changed) == 0 {
		return "nothing new\n"
	}
	return join(changed)
}

func join(lines []string) string {
	if len(lines) == 0 {
		return "nothing\n"
	}
	return strings.Join(lines, "\n") + "\n"
}
