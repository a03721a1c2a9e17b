package fragment

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"

	"hilbert.dev/hilbert/topology"
)

// TestMoves plays testdata/moves: nodes with their pods, and what makes room for another.
//
//	node NAME cpu=CORES gpus=N [model=MODEL]     then a pod a line: gpu=N|0.N cpu=CORES [at=GPU] [models=A]
//	plan gpu=... cpu=... [most=N]                by how many moves, which, and where the pod then fits
//	reset
func TestMoves(t *testing.T) {
	datadriven.RunTest(t, "testdata/moves", func(t *testing.T, d *datadriven.TestData) string {
		s := &story{}
		for line := range strings.SplitSeq(d.Input, "\n") {
			s.line(t, strings.Fields(line))
		}
		if d.Cmd != "plan" {
			t.Fatalf("%s: command %q is not known", d.Pos, d.Cmd)
		}
		most := MaxMoves
		d.MaybeScanArgs(t, "most", &most)
		return s.plan(t, int32(len(s.t.Kinds)-1), most)
	})
}

// story is a tenancy in the making.
type story struct{ t Assignment }

func (s *story) line(t *testing.T, words []string) {
	r, model, gpus, at := Request{}, "G2", 0, 0
	for _, w := range words[1:] {
		key, value, ok := strings.Cut(w, "=")
		if !ok {
			continue // a name
		}
		x, err := strconv.ParseFloat(value, 64)
		switch {
		case key == "model":
			model, err = value, nil
			r.Models = NewModels(value)
		case key == "cpu":
			r.CPU = int64(1000*x + 0.5)
		case key == "gpu" && x < 1:
			r.GPU.Milli = int16(1000*x + 0.5)
		case key == "gpu":
			r.GPU.Whole = int8(x)
		case key == "gpus":
			gpus = int(x)
		case key == "at":
			at = int(x)
		}
		if err != nil {
			t.Fatalf("%v: %v", words, err)
		}
	}
	if words[0] == "node" {
		shape := topology.Shape{GPUs: gpus, Model: model, Shareable: true}
		s.t.Nodes = append(s.t.Nodes, Node{CPU: r.CPU, Memory: 1 << 40, Shape: shape, Free: topology.NewFree(shape)})
		s.t.Pods = append(s.t.Pods, nil)
		return
	}
	kind := slices.Index(s.t.Kinds, r)
	if kind < 0 || words[0] == "for" {
		kind = len(s.t.Kinds)
		s.t.Kinds = append(s.t.Kinds, r)
	}
	if words[0] == "pod" {
		last := len(s.t.Nodes) - 1
		if n := &s.t.Nodes[last]; !n.Fits(&r) || r.GPU.Milli > 0 && n.Free[at] < int32(r.GPU.Milli) {
			t.Fatalf("%v does not fit", words)
		}
		s.t.Pods[last] = append(s.t.Pods[last], Occupant{Kind: int32(kind), Grant: s.t.Nodes[last].Take(&r, at)})
	}
}

func (s *story) plan(t *testing.T, kind int32, most int) string {
	var m Mover
	m.Survey(&s.t)
	room, ok := m.Plan(&s.t, kind, most, tightest(&s.t))
	if !ok {
		return "no room\n"
	}
	var b strings.Builder
	for _, step := range room.Steps {
		q := &s.t.Kinds[step.Pod.Kind]
		fmt.Fprintf(&b, "n%d: gpu=%g cpu=%g to n%d", step.From, float64(q.GPU.Total())/1000, float64(q.CPU)/1000, step.To)
		if q.GPU.Milli > 0 {
			fmt.Fprintf(&b, " GPU %d", step.GPU)
		}
		b.WriteByte('\n')
	}
	if moves, _ := m.Moves(kind); moves != len(room.Steps) {
		fmt.Fprintf(&b, "(%d moves were expected)\n", moves)
	}
	if err := replay(&s.t, room, kind); err != nil {
		t.Fatal(err)
	}
	return b.String() + fmt.Sprintf("room on n%d\n", room.Node)
}

// tightest prefers the node that is left with the least.
func tightest(t *Assignment) Score {
	return func(node int, kind int32) (float64, int, bool) {
		n, q := &t.Nodes[node], &t.Kinds[kind]
		if !n.Fits(q) {
			return 0, 0, false
		}
		gpu, left := 0, int32(topology.FullGPU)
		for i := range n.Shape.GPUs {
			if f := n.Free[i] - int32(q.GPU.Milli); f >= 0 && f < left {
				gpu, left = i, f
			}
		}
		return float64(left) + float64(n.CPU)/1e9, gpu, true
	}
}

// replay does a plan step by step on a copy and says what is wrong with it.
func replay(t *Assignment, room MovePlan, kind int32) error {
	nodes := slices.Clone(t.Nodes)
	pods := make([][]Occupant, len(t.Pods))
	for i := range pods {
		pods[i] = slices.Clone(t.Pods[i])
	}
	for i, s := range room.Steps {
		q := &t.Kinds[s.Pod.Kind]
		at := slices.Index(pods[s.From], s.Pod)
		switch {
		case s.From == s.To:
			return fmt.Errorf("step %d goes nowhere", i)
		case s.From != room.Node && !slices.ContainsFunc(room.Steps[i+1:], func(later Step) bool { return later.To == s.From }):
			return fmt.Errorf("step %d makes room for nobody", i)
		case at < 0:
			return fmt.Errorf("step %d moves a pod that is not there", i)
		case !fitsAt(&nodes[s.To], q, s.GPU):
			return fmt.Errorf("step %d does not fit", i)
		}
		pods[s.From] = slices.Delete(pods[s.From], at, at+1)
		nodes[s.From].Give(q, s.Pod.Grant)
		pods[s.To] = append(pods[s.To], Occupant{s.Pod.Kind, nodes[s.To].Take(q, s.GPU)})
	}
	if !fitsAt(&nodes[room.Node], &t.Kinds[kind], room.GPU) {
		return fmt.Errorf("there is no room after all steps")
	}
	return nil
}

func fitsAt(n *Node, q *Request, gpu int) bool {
	return n.Fits(q) && (q.GPU.Milli == 0 || gpu < n.Shape.GPUs && n.Free[gpu] >= int32(q.GPU.Milli))
}

// crowd fills a few nodes with random pods until little fits.
func crowd(random *rand.Rand) *Assignment {
	s := &Assignment{}
	for k := range 3 + random.IntN(7) {
		r := Request{CPU: random.Int64N(9) * 1000, Memory: random.Int64N(5)}
		switch {
		case k == 0 || random.IntN(4) == 0:
			r.GPU.Whole = int8(1 + random.IntN(2))
		case random.IntN(5) > 0:
			r.GPU.Milli = int16(1+random.IntN(9)) * 100
		}
		if !r.GPU.IsZero() && random.IntN(6) == 0 {
			r.Models = NewModels("T4")
		}
		s.Kinds = append(s.Kinds, r)
	}
	for range 3 + random.IntN(6) {
		shape := topology.Shape{GPUs: max(0, random.IntN(7)-3), Model: []string{"T4", "G2"}[random.IntN(2)], Shareable: true}
		s.Nodes = append(s.Nodes, Node{CPU: 8000 + 1000*random.Int64N(33), Memory: 24, Shape: shape, Free: topology.NewFree(shape)})
		s.Pods = append(s.Pods, nil)
	}
	for range random.IntN(300) {
		kind, at, gpu := int32(random.IntN(len(s.Kinds))), random.IntN(len(s.Nodes)), random.IntN(3)
		if fitsAt(&s.Nodes[at], &s.Kinds[kind], gpu) && random.IntN(4) > 0 {
			s.Pods[at] = append(s.Pods[at], Occupant{kind, s.Nodes[at].Take(&s.Kinds[kind], gpu)})
		}
	}
	return s
}

// Every step of every plan fits, no pod is lost, there are no more moves than allowed, planning changes nothing, and the same question has the same
// answer.
func TestPlansCanBeDone(t *testing.T) {
	plans, several, nested := 0, 0, 0
	for seed := range uint64(1500) {
		random := rand.New(rand.NewPCG(seed, 3))
		s, before := crowd(random), crowd(rand.New(rand.NewPCG(seed, 3)))
		most := random.IntN(7)
		var m Mover
		m.Survey(s)
		for kind := range int32(len(s.Kinds)) {
			if slices.ContainsFunc(s.Nodes, func(n Node) bool { return n.Fits(&s.Kinds[kind]) }) {
				continue
			}
			room, ok := m.Plan(s, kind, most, tightest(s))
			if again, same := m.Plan(s, kind, most, tightest(s)); same != ok || !reflect.DeepEqual(again, room) {
				t.Fatalf("seed %d, kind %d: another plan the second time: %+v, %+v", seed, kind, room, again)
			}
			if !ok {
				continue
			}
			if err := replay(s, room, kind); err != nil {
				t.Fatalf("seed %d, kind %d: %v: %+v", seed, kind, err, room)
			}
			if len(room.Steps) > most {
				t.Fatalf("seed %d, kind %d: %d moves of at most %d", seed, kind, len(room.Steps), most)
			}
			plans++
			if len(room.Steps) > 1 {
				several++
			}
			if slices.ContainsFunc(room.Steps, func(s Step) bool { return s.From != room.Node }) {
				nested++
			}
		}
		if !reflect.DeepEqual(s, before) {
			t.Fatalf("seed %d: planning changed the tenancy", seed)
		}
	}
	t.Logf("%d plans, %d with several moves, %d where pods made room for one another", plans, several, nested)
	if plans < 100 || several < 10 || nested < 10 {
		t.Error("that is too few to say anything")
	}
}

// What wins the most moves, only parts of GPUs, never to where it is, and only for more than the least.
func TestImprove(t *testing.T) {
	s := &story{}
	for _, line := range []string{
		"node n0 cpu=64 gpus=2", "pod gpu=0.1 cpu=1", "pod gpu=0.6 cpu=1", "pod gpu=1 cpu=1",
		"node n1 cpu=64 gpus=1", "pod gpu=0.8 cpu=1",
		"node n2 cpu=64 gpus=1",
	} {
		s.line(t, strings.Fields(line))
	}
	// A piece is worth what it is; a part costs nothing beside the 800.
	gain := func(_ int, after *Node) float64 { return float64(after.Free.Total(after.Shape)) }
	best := func(loss float64) BestNode {
		return func(kind int32) (int, int, float64, bool) {
			switch s.t.Kinds[kind].GPU.Total() {
			case 100:
				return 1, 0, loss, true
			case 600:
				return 0, 1, -5000, true // where it is
			case 1000:
				return 2, 0, -5000, true // whole
			}
			return 0, 0, 0, false
		}
	}
	step, won, ok := BestMove(&s.t, 20, best(0), gain)
	if !ok || step != (Step{Pod: s.t.Pods[0][0], From: 0, To: 1, GPU: 0}) || won != 400 {
		t.Errorf("%+v won %v (%v)", step, won, ok)
	}
	if step, won, ok := BestMove(&s.t, 20, best(380), gain); ok {
		t.Errorf("%+v won %v, no more than the least", step, won)
	}
	if step, won, ok := BestMove(&s.t, 20, best(370), gain); !ok || won != 30 {
		t.Errorf("%+v won %v (%v), want 30", step, won, ok)
	}
}
