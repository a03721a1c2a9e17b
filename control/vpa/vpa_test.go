package vpa

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"

	"hilbert.dev/hilbert/control/budget"
	"hilbert.dev/hilbert/control/recommend"
)

var start = time.Date(2026, time.March, 2, 0, 0, 0, 0, time.UTC)

// bench is what a transcript talks about: one VerticalPodAutoscaler, whose pods and Reservations do what they are told.
type bench struct {
	t      *testing.T
	now    time.Time
	params Params
	state  *State
	budget *budget.Budget
	view   View
	saved  *Checkpoint
	// throttled is what is measured of all containers; less than 0: nothing.
	throttled float64
	// resized is the last resize, and what the container had before.
	resized struct {
		*Resize

		has, limits recommend.Amounts
	}
}

func TestTranscripts(t *testing.T) {
	datadriven.Walk(t, filepath.Join("testdata", "transcripts"), func(t *testing.T, path string) {
		p := DefaultParams()
		p.ChangePods, p.ControlGroup = true, 0
		b := &bench{throttled: -1, now: start, params: p, state: NewState(p), budget: budget.New(budget.Limits{PerHour: 60, Burst: 20}, start)}
		b.view.Reservations, b.view.LendersKnown = true, true
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			b.t = t
			return b.run(d)
		})
	})
}

func (b *bench) object() *Object { return &b.view.Objects[0] }

func (b *bench) text(d *datadriven.TestData, name string) (value string) {
	if d.HasArg(name) {
		d.ScanArgs(b.t, name, &value)
	}
	return value
}

func (b *bench) number(d *datadriven.TestData, name string, otherwise float64) float64 {
	value := otherwise
	if s := b.text(d, name); s != "" {
		if _, err := fmt.Sscan(s, &value); err != nil {
			b.t.Fatalf("%s: %s=%s: %v", d.Pos, name, s, err)
		}
	}
	return value
}

// run carries out a command.
func (b *bench) run(d *datadriven.TestData) string {
	switch d.Cmd {
	case "vpa": // update=Off mode=InPlace pods=2 cpu=1 memory=1024 limit=2
		o := Object{Key: Key{"shop", "web"}, UID: "v1", Generation: 1, UpdateMode: b.text(d, "update"), Mode: b.text(d, "mode"), PodsKnown: true, Problem: strings.ReplaceAll(b.text(d, "problem"), "_", " ")}
		for i := range int(b.number(d, "pods", 0)) {
			c := Container{Name: "app", Requests: recommend.Amounts{CPU: b.number(d, "cpu", 0), Memory: b.number(d, "memory", 0) * mebibyte}, Use: recommend.Sample{CPU: -1, Memory: -1}}
			c.Limits = recommend.Amounts{CPU: b.number(d, "cpu-limit", 0), Memory: b.number(d, "memory-limit", 0) * mebibyte}
			c.Restarts = d.HasArg("restarts")
			o.Pods = append(o.Pods, Pod{
				Namespace: "shop", Name: fmt.Sprintf("web-%d", i), UID: fmt.Sprintf("00000000-0000-0000-0000-%012d", i), Node: "n1", Created: b.now.Add(-48 * time.Hour),
				Fixed: strings.ReplaceAll(b.text(d, "fixed"), "_", " "), Containers: []Container{c},
			})
		}
		if d.HasArg("policy") {
			p := ContainerPolicy{Container: strings.ReplaceAll(b.text(d, "policy"), "any", AnyContainer), Off: d.HasArg("off")}
			p.Policy.Max = recommend.Amounts{CPU: b.number(d, "max-cpu", 0), Memory: b.number(d, "max-memory", 0) * mebibyte}
			p.Policy.KeepCPU, p.Policy.RequestsOnly = d.HasArg("keep-cpu"), d.HasArg("requests-only")
			o.Policies = []ContainerPolicy{p}
		}
		b.view.Objects = []Object{o}
	case "gone":
		b.view.Objects = nil
	case "no-reservations":
		b.view.Reservations = false
	case "unknown":
		b.object().PodsKnown = false
	case "known":
		b.object().PodsKnown = true
	case "use": // cpu= memory= hours=
		for range int(b.number(d, "hours", 1) * 12) {
			b.now = b.now.Add(5 * time.Minute)
			b.use(b.number(d, "cpu", -1), b.number(d, "memory", -1))
			o := b.object()
			update, mode := o.UpdateMode, o.Mode
			o.UpdateMode, o.Mode = UpdateOff, "" // it only looks
			b.state.Decide(&b.view, nil, b.now)
			o.UpdateMode, o.Mode = update, mode
		}
	case "lends": // node=n1 held=1/1024 headroom=2/2048, in CPUs and MiB; without headroom it is not known; unknown: nothing is
		b.view.LendersKnown = !d.HasArg("unknown")
		b.view.Lenders = nil
		if d.HasArg("node") {
			n := Lender{Held: b.amounts(d, "held"), Headroom: b.amounts(d, "headroom"), Known: d.HasArg("headroom")}
			b.view.Lenders = map[string]Lender{b.text(d, "node"): n}
		}
	case "throttled": // 0.2
		b.throttled = b.number(d, "share", -1)
	case "wait":
		b.now = b.now.Add(time.Duration(b.number(d, "hours", 0) * float64(time.Hour)))
	case "pod":
		b.pod(d)
	case "place": // state=Reserved node=n1 reason=
		for i := range b.view.Places {
			p := &b.view.Places[i]
			p.State, p.Node, p.Reason = PlaceState(b.text(d, "state")), b.text(d, "node"), strings.ReplaceAll(b.text(d, "reason"), "_", " ")
		}
	case "refuse": // the last resize was refused by the API server; the pod is as it was
		p := &b.object().Pods[0]
		p.Containers[0].Requests, p.Containers[0].Limits = b.resized.has, b.resized.limits
		b.state.Refused(b.object().Key, b.resized.Resize, strings.ReplaceAll(b.text(d, "why"), "_", " "), b.now)
	case "restart": // another leader; fresh: and nothing was saved
		b.state = NewState(b.params)
		if b.saved != nil && !d.HasArg("fresh") {
			if err := b.state.Restore(Key{"shop", "web"}, b.saved); err != nil {
				return err.Error()
			}
		}
	case "decide":
		return b.decide(d.HasArg("status"))
	default:
		b.t.Fatalf("%s: unknown command %s", d.Pos, d.Cmd)
	}
	return ""
}

// pod changes what is seen of a pod: web-0 ran-out resize=Deferred node=n2
func (b *bench) pod(d *datadriven.TestData) {
	for i := range b.object().Pods {
		p := &b.object().Pods[i]
		if p.Name != d.CmdArgs[0].Key {
			continue
		}
		if d.HasArg("ran-out") {
			p.Containers[0].RanOut = b.now
		}
		if d.HasArg("resize") {
			p.Resize = recommend.Resize(strings.ReplaceAll(b.text(d, "resize"), "none", ""))
		}
		if d.HasArg("node") {
			p.Node = b.text(d, "node")
		}
	}
}

func (b *bench) use(cpu, memory float64) {
	if memory > 0 {
		memory *= mebibyte
	}
	for i := range b.object().Pods {
		c := &b.object().Pods[i].Containers[0]
		c.Use, c.UseAt = recommend.Sample{CPU: cpu, Memory: memory}, b.now
		c.Throttled, c.ThrottledKnown = b.throttled, b.throttled >= 0
	}
}

func (b *bench) amounts(d *datadriven.TestData, name string) (a recommend.Amounts) {
	if text := b.text(d, name); text != "" {
		if _, err := fmt.Sscanf(text, "%f/%f", &a.CPU, &a.Memory); err != nil {
			b.t.Fatalf("%s: %s=%s: %v", d.Pos, name, text, err)
		}
	}
	a.Memory *= mebibyte
	return a
}

// decide decides, and does what is decided.
func (b *bench) decide(status bool) string {
	var out strings.Builder
	for _, a := range b.state.Decide(&b.view, b.budget, b.now) {
		switch {
		case a.Status != nil:
			b.object().Status = *a.Status
			if status {
				write(&out, a.Status)
			}
		case a.Save != nil:
			b.saved = a.Save
			fmt.Fprintf(&out, "save\n")
		case a.Reserve != nil:
			fmt.Fprintf(&out, "reserve %s on %s: %s: %s\n", a.Reserve.Name, a.Reserve.Pod.Node, words(a.Reserve.Amounts), a.Reason)
			b.view.Places = append(b.view.Places, Place{Namespace: "shop", Name: a.Reserve.Name, State: PlaceWaiting, From: a.Reserve.From, Amounts: a.Reserve.Amounts})
		case a.Release != nil:
			fmt.Fprintf(&out, "release %s: %s\n", a.Release.Name, a.Reason)
			var left []Place
			for i := range b.view.Places {
				if b.view.Places[i].Name != a.Release.Name {
					left = append(left, b.view.Places[i])
				}
			}
			b.view.Places = left
		case a.Resize != nil:
			fmt.Fprintf(&out, "resize %s to %s, limits %s, disturbs %t: %s\n", a.Resize.Pod.Name, words(a.Resize.Requests), words(a.Resize.Limits), a.Resize.Disturbs, a.Reason)
			c := a.Resize.Pod.container(a.Resize.Container)
			b.resized.Resize, b.resized.has, b.resized.limits = a.Resize, c.Requests, c.Limits
			c.Requests, c.Limits = a.Resize.Requests, a.Resize.Limits
		case a.Evict != nil:
			fmt.Fprintf(&out, "evict %s: %s\n", a.Evict.Pod.Name, a.Reason)
		case a.Forget != "":
			fmt.Fprintf(&out, "forget %s of %s\n", a.Forget, a.Object)
		}
	}
	if len(b.view.Objects) > 0 && !status {
		if c := b.object().Status.condition(Applied); c != nil {
			fmt.Fprintf(&out, "applied %t %s: %s\n", c.True, c.Reason, c.Message)
		}
	}
	return out.String()
}

func write(out *strings.Builder, s *Status) {
	for _, c := range s.Containers {
		fmt.Fprintf(out, "%s: cpu %s memory %s\n", c.Container, show(c.CPU, 1), show(c.Memory, mebibyte))
	}
	for _, c := range s.Conditions {
		fmt.Fprintf(out, "%s %t %s: %s\n", c.Type, c.True, c.Reason, strings.ReplaceAll(c.Message, "\n", " | "))
	}
}

func show(b Bounds, unit int64) string {
	if !b.Known {
		return "-"
	}
	return fmt.Sprintf("%d (%d to %d, uncapped %d)", b.Target/unit, b.Lower/unit, b.Upper/unit, b.Uncapped/unit)
}

// Workloads that all want to change disturb no more pods in one round than AtOnce says, though the budget, which others take from too, has more.
func TestAtOnce(t *testing.T) {
	for most := 1; most <= 3; most++ {
		p := DefaultParams()
		p.ChangePods, p.ControlGroup, p.AtOnce = true, 0, most
		state, now := NewState(p), start
		view := View{LendersKnown: true}
		for i := range 3 {
			name := fmt.Sprint("web-", i)
			view.Objects = append(view.Objects, Object{Key: Key{"shop", name}, UID: name, Generation: 1, UpdateMode: UpdateInitial, Mode: string(recommend.ModeRecreate), PodsKnown: true, Pods: []Pod{{
				Namespace: "shop", Name: name, UID: name, Node: "n1", Created: now.Add(-48 * time.Hour), Containers: []Container{{Name: "app", Requests: recommend.Amounts{CPU: 2, Memory: 4000 * mebibyte}}},
			}}})
		}
		for range 30 * 12 {
			now = now.Add(5 * time.Minute)
			for i := range view.Objects {
				c := &view.Objects[i].Pods[0].Containers[0]
				c.Use, c.UseAt = recommend.Sample{CPU: 0.5, Memory: 600 * mebibyte}, now
			}
			state.Decide(&view, nil, now)
		}
		evicted, b := 0, budget.New(budget.Limits{PerHour: 60, Burst: 20}, now)
		for _, a := range state.Decide(&view, b, now) {
			if a.Evict != nil {
				evicted++
			}
		}
		if left := b.Left(now); left != 20-evicted || state.Disturbed() != evicted {
			t.Errorf("%d are left of 20 after %d evictions, %d count as disturbed", left, evicted, state.Disturbed())
		}
		for range evicted {
			state.EvictionRefused(b)
		}
		if left := b.Left(now); left != 20 || state.Disturbed() != 0 {
			t.Errorf("%d are left of 20 when all were refused, %d count as disturbed", left, state.Disturbed())
		}
		if evicted != most {
			t.Errorf("%d pods are evicted at once, want %d", evicted, most)
		}
	}
}

// TestForeignPlaces: a Reservation that has the label of a growth and another name is left alone; one of a growth whose pod is gone is given back.
func TestForeignPlaces(t *testing.T) {
	v := View{Places: []Place{{Namespace: "shop", Name: "hilbert-move-0f5e7a36-0d3c-4a5e-9a50-0c1d2e3f4a5b"}, {Namespace: "shop", Name: placePrefix + "0f5e7a36-0d3c-4a5e-9a50-0c1d2e3f4a5b-0"}}}
	p := newPlaces(&v)
	if left := p.leftover(); len(left) != 1 || left[0].Release != &v.Places[1] {
		t.Errorf("given back: %+v", left)
	}
}

// TestWorthWriting: a target that moves by a hundredth is written, a bound only when it has moved by a tenth.
func TestWorthWriting(t *testing.T) {
	was := Bounds{Known: true, Target: 1000, Lower: 900, Upper: 2000, Uncapped: 1000}
	for _, x := range []struct {
		is   Bounds
		near bool
	}{
		{was, true},
		{Bounds{Known: true, Target: 1005, Lower: 860, Upper: 1850, Uncapped: 1005}, true},
		{Bounds{Known: true, Target: 1020, Lower: 900, Upper: 2000, Uncapped: 1000}, false},
		{Bounds{Known: true, Target: 1000, Lower: 900, Upper: 1700, Uncapped: 1000}, false},
		{Bounds{}, false},
	} {
		if got := was.near(&x.is); got != x.near {
			t.Errorf("%+v is near %+v: %t, want %t", x.is, was, got, x.near)
		}
	}
}
