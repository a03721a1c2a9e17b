package evict

import (
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"

	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/node/advise"
)

// short is a node that is short of everything, past each hard mark, with the API away.
func short() *Observation {
	o := &Observation{
		Node: Node{
			MemoryTotal: advise.Known(16 * gibibyte), MemoryAvailable: advise.Known(mebibyte), MemorySome: advise.Known(1), MemoryFull: advise.Known(1),
			CPUPressure: advise.Known(1),
		},
		NUMANodes: []NUMANode{{
			Total: advise.Known(16 * gibibyte), Free: advise.Known(mebibyte), InactiveFile: advise.Known(0),
		}},
		Suppression: advise.SuppressEvict,
		Network:     Network{Known: true, Pressed: []string{"eth0"}, Floored: true},
		API:         API{Unreachable: true},
		Findings: []Finding{{
			Plugin: "p", Condition: "Hot", Met: true, Candidates: []Candidate{{"a", 1}, {"b", 0.5}, {"online", 1}},
		}},
	}
	for _, d := range []*Disk{&o.Root, &o.Images} {
		*d = Disk{advise.Known(100 * gibibyte), advise.Known(0), advise.Known(1e6), advise.Known(0)}
	}
	return o
}

// hog is a pod that has much of everything, and starves.
func hog(name string, level spec.QoSLevel) Pod {
	much := advise.Known(gibibyte)
	use := Use{much, much}
	return Pod{
		PodRef: spec.PodRef{Namespace: "ns", Name: name, UID: name}, Level: level, Memory: advise.Known(3 * gibibyte), RSS: advise.Known(3 * gibibyte), NUMANodes: []advise.Sample{much},
		MemoryAmount: much, CPU: advise.Known(0.1), RunDelay: advise.Known(4), CPUAmount: advise.Known(4), Root: use, Images: use, Sent: much,
	}
}

// Only reclaimed pods are ever named, whatever the shortage and however little another would be missed.
func TestOnlinePodsAreNoVictims(t *testing.T) {
	for _, level := range []spec.QoSLevel{spec.QoSShared, spec.QoSDedicated, spec.QoSSystem, "", "best_effort"} {
		o, p, m := short(), Defaults(), State{}
		pod := hog("online", level)
		pod.Priority = -1 << 31
		o.Pods = []Pod{pod}
		for ; o.At < 10*time.Minute; o.At += time.Second {
			d := Step(o, &p, &m)
			if len(d.Notices)+len(d.Requests)+len(d.Reclaims) > 0 || d.Stop != nil || len(m.Victims) > 0 {
				t.Fatalf("%q at %v:\n%s", level, o.At, d.Explain())
			}
		}
		if m.Counts.Hard[MemoryAvailable] == 0 { // each of them did see it
			t.Fatal("no pressure")
		}
	}
}

// Each detector alone finds a victim; with its input not known it finds none, and neither does one that is off.
func TestEachDetector(t *testing.T) {
	for d := range detectorCount {
		for _, c := range []struct {
			name   string
			change func(*Observation, *Params)
			want   bool
		}{
			{"alone", func(*Observation, *Params) {}, true},
			{"off", func(_ *Observation, p *Params) { p.Off |= Of(d) }, false},
			{"not known", func(o *Observation, _ *Params) { blind(o) }, false},
		} {
			o, p, m := short(), Defaults(), State{}
			o.Pods = []Pod{hog("a", spec.QoSReclaimed), hog("b", spec.QoSReclaimed)}
			p.Off, p.Network.PerHour = ^Of(d), 1
			c.change(o, &p)
			named := false
			for ; o.At < 5*time.Minute; o.At += time.Second {
				decision := Step(o, &p, &m)
				named = named || len(decision.Requests) > 0
			}
			if named != c.want || m.Counts.Soft[d] > 0 != c.want {
				t.Errorf("%v, %s: named %v, counts %+v", d, c.name, named, m.Counts.Soft)
			}
			if c.name == "not known" && m.Counts.Unknown[d] == 0 {
				t.Errorf("%v: nobody said that something is not known", d)
			}
		}
	}
}

// blind takes all that is measured away.
func blind(o *Observation) {
	o.Node, o.NUMANodes, o.Root, o.Images = Node{}, []NUMANode{{}}, Disk{}, Disk{}
	o.Findings[0].Stale, o.Network.Known = true, false
	for i := range o.Pods {
		p := &o.Pods[i]
		o.Pods[i] = Pod{PodRef: p.PodRef, Level: p.Level}
	}
}

// Amounts far beyond what the machine has, and pods that are held down for that: that headroom shrank evicts nobody.
func TestHeadroomAloneEvictsNobody(t *testing.T) {
	o, p, m := short(), Defaults(), State{}
	o.Node = Node{
		MemoryTotal: advise.Known(16 * gibibyte), MemoryAvailable: advise.Known(8 * gibibyte), MemorySome: advise.Known(0), MemoryFull: advise.Known(0),
		CPUPressure: advise.Known(0),
	}
	o.NUMANodes, o.Root, o.Images, o.Findings = nil, Disk{}, Disk{}, nil
	for i := range 40 {
		pod := hog(fmt.Sprint(i), spec.QoSReclaimed)
		pod.MemoryAmount, pod.CPUAmount, pod.RunDelay = advise.Known(8*gibibyte), advise.Known(32), advise.Known(0.01)
		o.Pods = append(o.Pods, pod)
	}
	for ; o.At < time.Hour; o.At += 2 * time.Second {
		if d := Step(o, &p, &m); len(d.Notices)+len(d.Requests)+len(d.Reclaims)+len(d.Pressures) > 0 || d.Closed.Reason != "" {
			t.Fatalf("at %v:\n%s", o.At, d.Explain())
		}
	}
}

// No more than MaxRequests pods are asked for at a time, and that there were more to ask is counted.
func TestBoundOfRequests(t *testing.T) {
	o, p, m := &Observation{}, Defaults(), State{}
	o.Node.MemoryTotal, o.Node.MemoryAvailable = advise.Known(16*gibibyte), advise.Known(0)
	p.Escalation.AnswerWithin = spec.Duration(time.Hour)
	for i := range 3 * MaxRequests {
		o.Pods = append(o.Pods, Pod{PodRef: spec.PodRef{Namespace: "ns", Name: fmt.Sprint(i), UID: fmt.Sprint(i)}, Level: spec.QoSReclaimed, Memory: advise.Known(10 * mebibyte)})
	}
	most := 0
	for ; o.At < 5*time.Minute; o.At += time.Second {
		most = max(most, len(Step(o, &p, &m).Requests))
	}
	if most != MaxRequests || len(m.Victims) != MaxRequests || m.Counts.Crowded == 0 {
		t.Fatalf("%d requests, %d victims, %d were too many", most, len(m.Victims), m.Counts.Crowded)
	}
}

// A level neither begins nor ends before its time, and between the mark and its clearance it stays what it was.
func TestHysteresis(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		o, p, m := &Observation{}, Defaults(), State{}
		o.Node.MemoryTotal = advise.Known(16 * gibibyte)
		soft := markOf(p.Memory.Soft, 16*gibibyte)
		over := soft * (1 + p.Memory.Clear)
		level, changed, between := None, time.Duration(-1), 0
		for range rapid.IntRange(1, 150).Draw(t, "steps") {
			o.At += time.Duration(rapid.IntRange(200, 3000).Draw(t, "ms")) * time.Millisecond
			available := rapid.OneOf(
				rapid.Float64Range(soft*0.9, soft-1), rapid.Float64Range(soft+1, over-1), rapid.Float64Range(over, over*1.1),
			).Draw(t, "available")
			o.Node.MemoryAvailable = advise.Known(available)
			if between++; available < soft || available >= over {
				between = 0
			}
			d := Step(o, &p, &m)
			now := None
			if len(d.Pressures) > 0 {
				now = d.Pressures[0].Level
			}
			if now == level {
				continue
			}
			lasted, least := o.At-changed, p.Memory.SoftFor.D()
			if now == None {
				least = p.ReleaseAfter.D()
			}
			if changed >= 0 && lasted < least || between > 0 {
				t.Fatalf("%v became %v after %v, with %v available", level, now, lasted, available)
			}
			level, changed = now, o.At
		}
	})
}

// Memory is given back within the stated bound, whatever the tick.
func TestMemoryBound(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		tick := time.Duration(rapid.IntRange(100, 5000).Draw(t, "ms")) * time.Millisecond
		pods := rapid.IntRange(1, 6).Draw(t, "pods")
		gain := rapid.SampledFrom([]float64{16 * mebibyte, gibibyte}).Draw(t, "gain") // too little, or as much as was promised, which does not come
		o, p, m := &Observation{}, Defaults(), State{}
		o.Node.MemoryTotal, o.Node.MemoryAvailable = advise.Known(16*gibibyte), advise.Known(9*gibibyte)
		for i := range pods {
			o.Pods = append(o.Pods, Pod{PodRef: spec.PodRef{Namespace: "ns", Name: fmt.Sprint(i), UID: fmt.Sprint(i)}, Level: spec.QoSReclaimed, Memory: advise.Known(gain)})
		}
		Step(o, &p, &m)
		began, stops := o.At, 0 // it may be short from right after this reading on
		o.Node.MemoryAvailable = advise.Known(300 * mebibyte)
		for stops < pods {
			o.At += tick
			if d := Step(o, &p, &m); d.Stop != nil {
				stops++
				if took, bound := o.At-began, p.MemoryBound(stops, tick); took > bound {
					t.Fatalf("stop %d after %v, not %v", stops, took, bound)
				}
			}
			if o.At > 10*time.Minute {
				t.Fatalf("%d stops", stops)
			}
		}
	})
}

// A node that evicts again as soon as it is open is closed for twice as long each time, up to an hour.
func TestClosingDoubles(t *testing.T) {
	p := Defaults().Close
	var c Closure
	at := time.Duration(0)
	for _, want := range []time.Duration{5, 10, 20, 40, 60, 60} {
		c.evicted(at, &p, "")
		if c.Until-at != want*time.Minute {
			t.Fatalf("closed for %v, not %d min", c.Until-at, want)
		}
		again := c.status(c.Until - 1)
		c.evicted(c.Until-1, &p, "still closed")
		if again.Reason != "" || c.For != want*time.Minute {
			t.Fatalf("%v: an eviction while it is closed counts as another", c.For)
		}
		at = c.Until
		c.decay(at, &p)
	}
	for _, want := range []time.Duration{60 * time.Minute, 60 * time.Minute, 30 * time.Minute, 15 * time.Minute, 450 * time.Second, p.First.D(), p.First.D()} {
		copied := c
		copied.evicted(at, &p, "")
		if got := copied.Until - at; got != want {
			t.Fatalf("closed for %v at %v, not %v", got, at, want)
		}
		at += p.Again.D()
		c.decay(at, &p)
	}
}

func TestClosingProperty(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := Defaults().Close
		var c Closure
		at := time.Duration(0)
		for range rapid.IntRange(1, 50).Draw(t, "evictions") {
			at += time.Duration(rapid.IntRange(0, 20_000).Draw(t, "s")) * time.Second
			c.decay(at, &p)
			before := c.status(at)
			c.evicted(at, &p, "x")
			if left := c.Until - at; c.Until < before.Until || left < p.First.D() || left > p.Most.D() || c.status(at).Reason != "x" {
				t.Fatalf("%+v at %v, before %+v", c, at, before)
			}
		}
	})
}

func BenchmarkStep(b *testing.B) {
	o, p, m := short(), Defaults(), State{}
	o.Node.MemoryAvailable, o.Node.MemorySome, o.Node.MemoryFull, o.Node.CPUPressure = advise.Known(8*gibibyte), advise.Known(0), advise.Known(0), advise.Known(0)
	o.NUMANodes[0].Free, o.Suppression = advise.Known(gibibyte), advise.SuppressNone
	o.Root, o.Images, o.Findings = Disk{}, Disk{}, nil
	for i := range 10 {
		pod := hog(fmt.Sprint(i), spec.QoSReclaimed)
		pod.Memory = advise.Known(gibibyte)
		o.Pods = append(o.Pods, pod)
	}
	b.ReportAllocs()
	for b.Loop() {
		o.At += time.Second
		if d := Step(o, &p, &m); len(d.Pressures) > 0 {
			b.Fatal(d.Explain())
		}
	}
}
