package evict

import (
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/node/advise"
)

// world is a node that anything may happen to. below gives a number from 0 to below n.
type world struct {
	below func(n int) int
	o     Observation
	p     Params
	m     State

	stopped   map[string]bool // pods that were stopped since they came
	lastStop  time.Duration   // in time that passed; -1: none
	passed    time.Duration
	nextPod   int
	decisions int // that named a pod
	steps     int
}

func newWorld(below func(int) int) *world {
	w := &world{below: below, p: Defaults(), stopped: map[string]bool{}, lastStop: -1}
	w.p.DryRun = below(8) == 0
	if below(4) == 0 {
		w.p.Off = Detectors(below(1 << detectorCount))
	}
	for range 3 {
		w.add()
	}
	w.o.NUMANodes = make([]NUMANode, 1+below(3))
	if below(2) == 0 { // something begins to happen at once
		w.o.Node.MemoryTotal, w.o.Node.MemoryAvailable = advise.Known(16*gibibyte), advise.Known(gibibyte/4)
		for i := range w.o.Pods {
			w.o.Pods[i].Memory = advise.Known(gibibyte / 8)
		}
	}
	return w
}

func (w *world) add() {
	w.nextPod++
	name := fmt.Sprint("p", w.nextPod)
	levels := []spec.QoSLevel{spec.QoSReclaimed, spec.QoSReclaimed, spec.QoSReclaimed, spec.QoSShared, spec.QoSDedicated, spec.QoSSystem, ""}
	p := Pod{PodRef: spec.PodRef{Namespace: "ns", Name: name, UID: "uid-" + name}, Level: levels[w.below(len(levels))], Priority: int32(w.below(3) - 1), Started: w.o.At}
	p.MemoryAmount, p.CPUAmount = w.sample(gibibyte), w.sample(4)
	w.o.Pods = append(w.o.Pods, p)
}

// sample is mostly a number up to a size, and sometimes not known, or none.
func (w *world) sample(size float64) advise.Sample {
	switch k := w.below(20); k {
	case 0:
		return advise.Sample{}
	case 1:
		return advise.Known([]float64{math.NaN(), math.Inf(1), -1, math.MaxFloat64, 0}[w.below(5)])
	default:
		return advise.Known(size * float64(k-2) / 17)
	}
}

// change lets something happen.
func (w *world) change() {
	o := &w.o
	switch w.below(12) {
	case 0:
		o.Node.MemoryAvailable, o.Node.MemoryTotal, o.Node.MinWatermark = w.sample(4*gibibyte), w.sample(32*gibibyte), w.sample(gibibyte/4)
	case 1:
		o.Node.MemoryAvailable, o.Node.MemoryTotal = w.sample(gibibyte), advise.Known(16*gibibyte)
	case 2:
		o.Node.MemorySome, o.Node.MemoryFull, o.Node.CPUPressure = w.sample(1), w.sample(1), w.sample(1)
	case 3:
		z := &o.NUMANodes[w.below(len(o.NUMANodes))]
		z.Total, z.Free, z.InactiveFile, z.LowWatermark = w.sample(8*gibibyte), w.sample(gibibyte), w.sample(gibibyte), w.sample(gibibyte/8)
	case 4:
		d := []*Disk{&o.Root, &o.Images}[w.below(2)]
		d.BytesTotal, d.Bytes, d.InodesTotal, d.Inodes = advise.Known(100), w.sample(60), advise.Known(1e6), w.sample(6e5)
	case 5:
		o.Suppression = advise.Suppression(w.below(5))
	case 6:
		o.API.Unreachable, o.API.Since = !o.API.Unreachable, o.At
	case 7:
		if len(w.m.Victims) > 0 {
			a := &w.m.Victims[w.below(len(w.m.Victims))]
			o.API.Answers = []Answer{{a.UID, []AnswerState{Refused, Pending}[w.below(2)], o.At}}
		}
	case 8:
		w.add()
	default:
		w.changePod()
	}
}

func (w *world) changePod() {
	if len(w.o.Pods) == 0 {
		return
	}
	i := w.below(len(w.o.Pods))
	p := &w.o.Pods[i]
	switch w.below(6) {
	case 0:
		p.Terminating = true
	case 1:
		if p.Terminating {
			delete(w.stopped, p.UID)
			w.o.Pods = slices.Delete(w.o.Pods, i, i+1)
		}
	case 2:
		p.CPU, p.RunDelay = w.sample(1), w.sample(4)
	case 3:
		p.Root, p.Images = Use{w.sample(20), w.sample(1e5)}, Use{w.sample(20), w.sample(1e5)}
	default:
		p.Memory, p.RSS = w.sample(2*gibibyte), w.sample(gibibyte)
		p.NUMANodes = []advise.Sample{w.sample(gibibyte), w.sample(gibibyte)}
	}
}

// step makes a step and says what is wrong with the decision; empty: nothing.
func (w *world) step() string {
	d := []time.Duration{time.Second, time.Second, time.Second, time.Second, 2 * time.Second, 5 * time.Second, time.Minute, -time.Hour}[w.below(8)]
	w.o.At = max(w.o.At+d, 0)
	w.passed += max(d, 0)

	var twin State
	const twins = 16 // a second life through JSON is slow
	w.steps++
	if w.steps%twins == 0 {
		text, err := json.Marshal(&w.m)
		if err != nil || json.Unmarshal(text, &twin) != nil {
			return fmt.Sprintf("the memory: %v: %s", err, text)
		}
	}
	decision := Step(&w.o, &w.p, &w.m)
	if wrong := w.check(&decision); wrong != "" {
		return wrong + "\n" + decision.Explain()
	}
	if w.steps%twins == 0 {
		again := Step(&w.o, &w.p, &twin)
		if told, toldAgain := text(&decision, &w.m), text(&again, &twin); told != toldAgain {
			return fmt.Sprintf("the same gave\n%s\nand\n%s", told, toldAgain)
		}
	}
	return ""
}

func text(d *Decision, m *State) string {
	text, err := json.Marshal(struct {
		Decision *Decision
		Memory   *State
	}{d, m})
	if err != nil {
		return err.Error()
	}
	return string(text)
}

// check holds what is always so.
func (w *world) check(d *Decision) string {
	levels := map[Detector]Level{}
	for _, p := range d.Pressures {
		if !p.Blind {
			levels[p.Detector] = max(levels[p.Detector], p.Level)
		}
		if w.p.Off.Has(p.Detector) || p.Need < 0 || p.Pending < 0 || math.IsNaN(p.Need+p.Pending) || math.IsInf(p.Need+p.Pending, 0) {
			return fmt.Sprintf("pressure %+v", p)
		}
	}
	seen := map[string]bool{}
	for _, request := range d.Requests {
		pod := w.pod(request.UID)
		reason := Detector(0)
		if err := reason.UnmarshalText([]byte(request.Reason)); err != nil {
			return err.Error()
		}
		switch {
		case pod == nil || pod.Level != spec.QoSReclaimed || pod.Terminating || seen[request.UID]:
			return "a request for " + request.Name
		case !w.stopped[request.UID] && levels[reason] == None:
			return "a request without a pressure that is known: " + request.Name
		case request.Urgent && levels[reason] != Hard && !w.stopped[request.UID]:
			return "urgent without a hard pressure"
		}
		seen[request.UID] = true
	}
	for _, n := range d.Notices {
		if pod := w.pod(n.Pod.UID); pod == nil || pod.Level != spec.QoSReclaimed || seen[n.Pod.UID] {
			return "a notice to " + n.Pod.Name
		}
	}
	for _, r := range d.Reclaims {
		if pod := w.pod(r.Pod.UID); pod == nil || pod.Level != spec.QoSReclaimed || r.Bytes <= 0 || levels[r.Reason] == None {
			return "a reclaim from " + r.Pod.Name
		}
	}
	if len(d.Requests) > MaxRequests || len(d.Notices) > MaxRequests || w.p.DryRun && d.Closed.Reason != "" {
		return "a bound"
	}
	if len(d.Requests)+len(d.Notices) > 0 {
		w.decisions++
	}
	return w.checkStop(d, levels)
}

func (w *world) checkStop(d *Decision, levels map[Detector]Level) string {
	if d.Stop == nil {
		return ""
	}
	pod := w.pod(d.Stop.Pod.UID)
	switch {
	case pod == nil || pod.Level != spec.QoSReclaimed || levels[d.Stop.Reason] != Hard || d.Stop.Why == NoStop:
		return "the stop"
	case w.lastStop >= 0 && w.passed-w.lastStop < w.p.Escalation.StopInterval.D():
		return fmt.Sprintf("stops %v apart", w.passed-w.lastStop)
	case !w.p.DryRun && d.Closed.Until-w.o.At < w.p.Close.First.D():
		return "a stop that closes nothing"
	}
	w.lastStop, w.stopped[pod.UID] = w.passed, true
	return ""
}

func (w *world) pod(uid string) *Pod {
	for i := range w.o.Pods {
		if w.o.Pods[i].UID == uid {
			return &w.o.Pods[i]
		}
	}
	return nil
}

// Whatever happens on a node, decisions name reclaimed pods alone, follow from what is known, keep their bounds, and are the same again.
func TestAnything(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld(func(n int) int { return rapid.IntRange(0, n-1).Draw(t, "") })
		if wrong := w.play(rapid.IntRange(1, 150).Draw(t, "steps")); wrong != "" {
			t.Fatal(wrong)
		}
	})
}

// In such worlds pods are named and stopped; otherwise TestAnything would hold nothing.
func TestSomethingHappens(t *testing.T) {
	named, stops := 0, uint64(0)
	for seed := range uint64(20) {
		rng := rand.New(rand.NewPCG(seed, 0))
		w := newWorld(rng.IntN)
		if wrong := w.play(150); wrong != "" {
			t.Fatalf("seed %d: %s", seed, wrong)
		}
		named += w.decisions
		for _, n := range w.m.Counts.Stops {
			stops += n
		}
	}
	if named == 0 || stops == 0 {
		t.Errorf("%d decisions named a pod, %d pods were stopped", named, stops)
	}
}

// play takes so many steps, and returns what is wrong with one of them.
func (w *world) play(steps int) string {
	for range steps {
		if w.below(5) == 0 {
			w.change()
		}
		if wrong := w.step(); wrong != "" {
			return wrong
		}
	}
	return ""
}

func FuzzStep(f *testing.F) {
	f.Add([]byte{1, 2, 3, 4, 5, 6, 7, 8, 9})
	f.Add([]byte("a node where memory gets short, and nobody answers"))
	f.Fuzz(func(t *testing.T, data []byte) {
		i := 0
		w := newWorld(func(n int) int {
			if i >= len(data) {
				return 0
			}
			i++
			return int(data[i-1]) % n
		})
		for n := 0; n < 200 && (i < len(data) || n < 20); n++ {
			w.change()
			if wrong := w.step(); wrong != "" {
				t.Fatal(wrong)
			}
		}
	})
}
