package explain

import (
	"fmt"
	"strings"

	"hilbert.dev/hilbert/cluster"
	"hilbert.dev/hilbert/schedule/place/pack"
)

// UnitExplanation says why a unit has no places, and what it could do without to get some.
type UnitExplanation struct {
	// Members that wait, and how many of them must get places together.
	Members int `json:"members"`
	Need    int `json:"need"`
	// Anywhere is how many of the members would fit if no packing were asked; Room how many pods like them would fit in the cluster, where
	// all are alike and have no constraints between them, else it is Anywhere.
	Anywhere int   `json:"anywhere"`
	Room     int64 `json:"room"`
	// Key is the label of which the unit asks for one value: what it requires, or Uniform, if that is all; empty for none. Of both, it is
	// what is required, and Uniform is set too.
	Key     string `json:"key,omitempty"`
	Uniform string `json:"uniform,omitempty"`
	// Domain is the value where most members fit, empty when none does; and how many do.
	Domain string `json:"domain,omitempty"`
	Fit    int    `json:"fit,omitempty"`
	// Short is the first member that has no place even without packing, and why; nil when all fit.
	Short *Shortfall `json:"short,omitempty"`
	// Without lists what of the packing the unit could do without so that it would fit, each by itself.
	Without []Relaxation `json:"without,omitempty"`
}

// Shortfall is a member that finds no node once those before it have theirs.
type Shortfall struct {
	Pod         string      `json:"pod"`
	Explanation Explanation `json:"explanation"`
}

// Relaxation is one thing less to ask.
type Relaxation struct {
	What string `json:"what"` // as in "without WHAT"
	Key  string `json:"key"`
}

// Unit finds out what keeps a unit waiting. It costs several times what PlaceUnit does, and an Explain of one pod.
func Unit(p *pack.Packer, ask *pack.Ask) UnitExplanation {
	e := UnitExplanation{Members: len(ask.Members), Need: max(ask.Need, 1)}
	if len(ask.Members) == 0 {
		return e
	}
	explainAnywhere(p, &e, ask)
	e.Key, e.Uniform = ask.Topology.Required, ask.Topology.Uniform
	if e.Key == "" {
		e.Key = e.Uniform
	}
	fits := p.WouldFit(ask)
	if e.Key != "" {
		less := *ask
		if fits == 0 {
			less.Need = 1
		}
		explainDomain(p, &e, &less)
	}
	if e.Anywhere < e.Need || fits > 0 {
		return e
	}
	for _, drop := range []struct {
		what string
		of   func(*pack.Ask) *string
	}{
		{"the required", func(a *pack.Ask) *string { return &a.Topology.Required }},
		{"the uniform", func(a *pack.Ask) *string { return &a.Topology.Uniform }},
		{"the subgroups' required", func(a *pack.Ask) *string { return &a.Subgroups.Required }},
		{"the subgroups' uniform", func(a *pack.Ask) *string { return &a.Subgroups.Uniform }},
	} {
		less := *ask
		key := *drop.of(&less)
		*drop.of(&less) = ""
		if key != "" && p.WouldFit(&less) > 0 {
			e.Without = append(e.Without, Relaxation{drop.what + " " + shortKey(key), key})
		}
	}
	return e
}

// explainAnywhere counts the members that fit if no packing is asked.
func explainAnywhere(p *pack.Packer, e *UnitExplanation, ask *pack.Ask) {
	mark := p.Index().Snapshot().Mark()
	placed, _ := p.PlaceUnit(&pack.Ask{Members: ask.Members, Need: 1, Within: ask.Within})
	e.Anywhere = len(placed)
	done := make(map[*cluster.Pod]bool)
	for _, m := range placed {
		done[m.Pod] = true
	}
	for _, pod := range ask.Members {
		if !done[pod] {
			e.Short = &Shortfall{pod.Namespace + "/" + pod.Name, Explain(&p.Index().Snapshot().State, pod.Class)}
			break
		}
	}
	p.Index().Snapshot().Rollback(mark)
	e.Room = int64(e.Anywhere)
	class := ask.Members[0].Class
	for _, pod := range ask.Members {
		if pod.Class != class || class.Constraints != nil {
			return
		}
	}
	if room := p.Index().Capacity(class); ask.Within == nil {
		e.Room = room.Total()
	}
}

// explainDomain finds the domain in which most members fit.
func explainDomain(p *pack.Packer, e *UnitExplanation, ask *pack.Ask) {
	mark := p.Index().Snapshot().Mark()
	if placed, ok := p.PlaceUnit(ask); ok {
		e.Fit, e.Domain = len(placed), p.Index().Snapshot().Node(placed[0].Slot).Labels[e.Key]
	}
	p.Index().Snapshot().Rollback(mark)
}

// Unpacked reports whether the unit would fit if it asked for no packing: then it is the topology that keeps it waiting.
func (e *UnitExplanation) Unpacked() bool { return e.Anywhere >= e.Need }

// String renders the explanation as a condition shows it; it is at most MaxMessage bytes long.
func (e UnitExplanation) String() string {
	var b strings.Builder
	switch {
	case e.Members == 0:
		return "no member waits"
	case !e.Unpacked() && e.Short == nil: // fewer members than it needs
		fmt.Fprintf(&b, "%d members wait, %d are needed", e.Members, e.Need)
	case !e.Unpacked():
		fmt.Fprintf(&b, "%d of %d members fit, %d are needed; for %s %s", e.Anywhere, e.Members, e.Need, e.Short.Pod, e.Short.Explanation.Counts())
	case e.Key != "" && e.Fit < e.Need:
		kind := shortKey(e.Key)
		if e.Uniform != "" && e.Uniform != e.Key {
			kind += " of one " + shortKey(e.Uniform)
		}
		fmt.Fprintf(&b, "no %s holds %d members", kind, e.Need)
		if e.Fit > 0 {
			fmt.Fprintf(&b, ": the best, %s, has room for %d", e.Domain, e.Fit)
		}
		fmt.Fprintf(&b, "; %d would fit in the cluster", e.Room)
	case len(e.Without) > 0:
		fmt.Fprintf(&b, "%d members would fit, but not with the subgroups packed as requested", e.Anywhere)
	default:
		fmt.Fprintf(&b, "%d of %d members fit", max(e.Fit, e.Need), e.Members)
	}
	for i, less := range e.Without {
		if i == 0 {
			b.WriteString("; it would fit without ")
		} else {
			b.WriteString(" or without ")
		}
		b.WriteString(less.What)
	}
	text := b.String()
	return strings.ToValidUTF8(text[:min(len(text), MaxMessage)], "")
}

// shortKey is a label without the domain before its slash.
func shortKey(key string) string { return key[strings.LastIndexByte(key, '/')+1:] }
