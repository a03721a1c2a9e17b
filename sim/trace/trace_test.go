package trace

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"

	"hilbert.dev/hilbert/cluster/facts"
	"hilbert.dev/hilbert/resource"
	"hilbert.dev/hilbert/topology"
)

// TestReaders runs the transcripts: what each reader makes of a file, and what it says of a bad one.
func TestReaders(t *testing.T) {
	datadriven.Walk(t, filepath.Join("testdata", "transcripts"), func(t *testing.T, path string) {
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			input := d.Input + "\n"
			if d.HasArg("empty") {
				input = ""
			}
			if d.HasArg("crlf") {
				input = strings.ReplaceAll(input, "\n", "\r\n")
			}
			if d.HasArg("bom") {
				input = "\xef\xbb\xbf" + input
			}
			if d.HasArg("long") { // the last field of the last line grows beyond every bound
				input = strings.TrimSuffix(input, "\n") + strings.Repeat("x", 40*MaxLine) + "\n"
			}
			return readers(t, d.Cmd, input)
		})
	})
}

func readers(t *testing.T, command, input string) string {
	switch command {
	case "openb-nodes":
		nodes, err := ReadOpenBNodes("nodes.csv", strings.NewReader(input))
		return dump(&Workload{Nodes: nodes}, err)
	case "openb-pods":
		tasks, err := ReadOpenBPods("pods.csv", strings.NewReader(input))
		return dump(&Workload{Tasks: tasks}, err)
	case "dlrm":
		w, err := ReadDLRM("dlrm.csv", strings.NewReader(input))
		return dump(w, err)
	case "synthetic":
		s, err := ParseSynthetic(strings.TrimSpace(input))
		if err != nil {
			return err.Error()
		}
		return s.String()
	}
	t.Fatalf("unknown command %q", command)
	return ""
}

// dump renders a workload, or the error.
func dump(w *Workload, err error) string {
	if err != nil {
		return err.Error()
	}
	var b strings.Builder
	for _, n := range w.Nodes {
		fmt.Fprintf(&b, "%s %s", n.Name, quantities(n.Allocatable))
		if n.GPU != (topology.Shape{}) {
			fmt.Fprintf(&b, " gpus=%d %s shareable=%v", n.GPU.GPUs, n.GPU.Model, n.GPU.Shareable)
		}
		for _, key := range slices.Sorted(mapKeys(n.Labels)) {
			fmt.Fprintf(&b, " %s=%s", key, n.Labels[key])
		}
		b.WriteByte('\n')
	}
	for i := range w.Tasks {
		b.WriteString(describe(&w.Tasks[i]) + "\n")
	}
	return b.String()
}

func mapKeys(m map[string]string) func(func(string) bool) {
	return func(yield func(string) bool) {
		for k := range m {
			if !yield(k) {
				return
			}
		}
	}
}

func quantities(list []resource.Quantity) string {
	fields := make([]string, len(list))
	for i, q := range list {
		fields[i] = fmt.Sprintf("%s=%d", q.Name, q.Amount)
	}
	return strings.Join(fields, " ")
}

func describe(t *Task) string {
	r := t.Requirements
	line := fmt.Sprintf("%s [%d, %d) %q priority=%d %s", t.Name, t.Created, t.Deleted, t.Group, t.Priority, quantities(r.Requests))
	if r.GPU.Total() > 0 {
		line += fmt.Sprintf(" gpu=%d×1000+%d", r.GPU.Whole, r.GPU.Milli)
	}
	for _, l := range r.NodeSelector {
		line += fmt.Sprintf(" on %s=%s", l.Key, l.Value)
	}
	for _, term := range r.Required {
		for _, e := range term.Expressions {
			line += fmt.Sprintf(" %s in %v", e.Key, e.Values)
		}
	}
	return line
}

// unsound says what is wrong with a workload that a reader should not have returned.
func unsound(w *Workload) error {
	names := make(map[string]bool)
	for _, n := range w.Nodes {
		if n.Name == "" || names[n.Name] {
			return fmt.Errorf("node name %q is empty or stands twice", n.Name)
		}
		names[n.Name] = true
		if n.GPU.GPUs < 0 || n.GPU.GPUs > topology.MaxGPUs {
			return fmt.Errorf("node %s has %d GPUs", n.Name, n.GPU.GPUs)
		}
		for _, q := range n.Allocatable {
			if q.Amount < 0 {
				return fmt.Errorf("node %s: %s %d", n.Name, q.Name, q.Amount)
			}
		}
	}
	names, last := make(map[string]bool), int64(0)
	for i := range w.Tasks {
		task := &w.Tasks[i]
		switch r := task.Requirements; {
		case task.Name == "" || names[task.Name]:
			return fmt.Errorf("task name %q is empty or stands twice", task.Name)
		case task.Created < last:
			return fmt.Errorf("task %s is created at %d, after one at %d", task.Name, task.Created, last)
		case task.Deleted != Never && task.Deleted < task.Created:
			return fmt.Errorf("task %s is deleted at %d, created at %d", task.Name, task.Deleted, task.Created)
		case r == nil:
			return fmt.Errorf("task %s asks for nothing known", task.Name)
		case r.GPU.Milli < 0 || r.GPU.Milli >= topology.FullGPU || r.GPU.Whole < 0 || r.GPU.Milli > 0 && r.GPU.Whole > 0:
			return fmt.Errorf("task %s asks for GPUs %+v", task.Name, r.GPU)
		case r.ScoreCPU <= 0 || r.ScoreMemory <= 0:
			return fmt.Errorf("task %s scores with %d, %d", task.Name, r.ScoreCPU, r.ScoreMemory)
		}
		for _, q := range task.Requirements.Requests {
			if q.Amount <= 0 {
				return fmt.Errorf("task %s: %s %d", task.Name, q.Name, q.Amount)
			}
		}
		names[task.Name], last = true, task.Created
	}
	return nil
}

// sorted puts a reader's tasks in order, as the loaders do.
func sorted(tasks []Task) *Workload {
	w := &Workload{Tasks: tasks}
	w.sort()
	return w
}

func seedFile(f *testing.F, name string) {
	data, err := os.ReadFile(filepath.Join("testdata", name))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(data)
	f.Add([]byte("\xef\xbb\xbf" + strings.ReplaceAll(string(data), "\n", "\r\n")))
	f.Add(data[:len(data)/2])
}

// FuzzOpenBNodes: a reader returns a sound workload or an error that names the file; it never panics.
func FuzzOpenBNodes(f *testing.F) {
	seedFile(f, "nodes.csv")
	f.Fuzz(func(t *testing.T, data []byte) {
		nodes, err := ReadOpenBNodes("file.csv", strings.NewReader(string(data)))
		judgeFuzz(t, &Workload{Nodes: nodes}, err)
	})
}

func FuzzOpenBPods(f *testing.F) {
	seedFile(f, "pods.csv")
	f.Fuzz(func(t *testing.T, data []byte) {
		tasks, err := ReadOpenBPods("file.csv", strings.NewReader(string(data)))
		judgeFuzz(t, sorted(tasks), err)
	})
}

func FuzzDLRM(f *testing.F) {
	seedFile(f, "instances.csv")
	f.Fuzz(func(t *testing.T, data []byte) {
		w, err := ReadDLRM("file.csv", strings.NewReader(string(data)))
		if err != nil {
			w = &Workload{}
		}
		judgeFuzz(t, w, err)
	})
}

func FuzzParseSynthetic(f *testing.F) {
	f.Add("nodes=20000,pods=200000,classes=16")
	f.Add("nodes=1,pods=1,classes=1,load=1000,minutes=1")
	f.Fuzz(func(t *testing.T, text string) {
		s, err := ParseSynthetic(text)
		if err != nil {
			if !strings.HasPrefix(err.Error(), "synthetic ") {
				t.Fatalf("%q does not say what it is about", err)
			}
			return
		}
		if again, err := ParseSynthetic(s.String()); err != nil || again != s {
			t.Fatalf("%v reads back as %v, %v", s, again, err)
		}
		if s.Nodes > 100 || s.Pods > 1000 || s.Classes > 100 {
			return
		}
		w := s.Generate(1)
		if err := unsound(w); err != nil || len(w.Nodes) != s.Nodes || len(w.Tasks) != s.Pods {
			t.Fatalf("%v: %v", w, err)
		}
	})
}

func judgeFuzz(t *testing.T, w *Workload, err error) {
	t.Helper()
	if err != nil {
		if !strings.HasPrefix(err.Error(), "file.csv") {
			t.Fatalf("%q does not name the file", err)
		}
		return
	}
	if err := unsound(w); err != nil {
		t.Fatal(err)
	}
}

// arrivals is a small cluster and a list to draw from.
func arrivals(t *testing.T) *Workload {
	t.Helper()
	w, err := LoadOpenB(filepath.Join("testdata", "nodes.csv"), filepath.Join("testdata", "pods.csv"))
	if err != nil {
		t.Fatal(err)
	}
	return w
}

func TestArrive(t *testing.T) {
	w := arrivals(t) // 4 GPUs; the five tasks ask for 4000 milli of them
	for _, ratio := range []float64{0.5, 1, 1.3, 20} {
		for seed := range uint64(20) {
			a, err := Arrive(w, ratio, seed)
			if err != nil {
				t.Fatal(err)
			}
			if err := unsound(a); err != nil {
				t.Fatalf("ratio %g, seed %d: %v", ratio, seed, err)
			}
			var requested int64
			for i := range a.Tasks {
				task := &a.Tasks[i]
				requested += task.Requirements.GPU.Total()
				if task.Created != int64(i)*ArrivalGap || task.Deleted != Never {
					t.Fatalf("task %d lives [%d, %d)", i, task.Created, task.Deleted)
				}
			}
			// The largest task asks for 2000: the last one drawn or removed may miss the target by less than that.
			if target := int64(ratio * 4000); requested <= target-2000 || requested >= target+2000 {
				t.Fatalf("ratio %g, seed %d: %d milli requested, want %d", ratio, seed, requested, target)
			}
		}
	}
	one, _ := Arrive(w, 1.3, 1)
	same, _ := Arrive(w, 1.3, 1)
	other, _ := Arrive(w, 1.3, 2)
	if order(one) != order(same) {
		t.Error("the same seed gave two orders")
	}
	if order(one) == order(other) {
		t.Error("two seeds gave the same order")
	}
	if w.Tasks[0].Created != 0 || w.Tasks[0].Deleted != 100e9 {
		t.Error("the workload itself was changed")
	}
}

func order(w *Workload) string {
	var b strings.Builder
	for i := range w.Tasks {
		b.WriteString(w.Tasks[i].Name + " ")
	}
	return b.String()
}

func TestArriveRefuses(t *testing.T) {
	w := arrivals(t)
	bare := &Workload{Nodes: []*facts.Node{{Name: "n"}}, Tasks: w.Tasks}
	idle := &Workload{Nodes: w.Nodes, Tasks: w.Tasks[1:2]} // pod-3 asks for no GPU
	for _, c := range []struct {
		w     *Workload
		ratio float64
		want  string
	}{
		{w, 0, "ratio above 0"},
		{w, -1, "ratio above 0"},
		{w, MaxRatio + 1, "at most 100"},
		{bare, 1, ErrNoGPUs.Error()},
		{idle, 1, ErrNoGPURequest.Error()},
	} {
		if _, err := Arrive(c.w, c.ratio, 1); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("Arrive(%s, %g) = %v, want %q", c.w, c.ratio, err, c.want)
		}
	}
}
