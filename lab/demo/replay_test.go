package demo

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"hilbert.dev/hilbert/cluster/facts"
	"hilbert.dev/hilbert/resource"
	"hilbert.dev/hilbert/sim/trace"
)

const (
	nodesCSV = "sn,cpu_milli,memory_mib,gpu,model\nn1,64000,262144,2,P100\nn2,32000,131072,0,\n"
	podsCSV  = `name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,pod_phase,creation_time,deletion_time,scheduled_time
whole,12000,16384,1,1000,,LS,Running,100,1100,100
part,6000,12288,1,460,P100|T4,BE,Running,200,300,200
plain,500,1024,0,0,,BE,Running,100000,100010,100000
`
)

func load(t *testing.T, pods string) *trace.Workload {
	t.Helper()
	dir := t.TempDir()
	for name, data := range map[string]string{"nodes.csv": nodesCSV, "pods.csv": pods} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(data), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	w, err := trace.LoadOpenB(filepath.Join(dir, "nodes.csv"), filepath.Join(dir, "pods.csv"))
	if err != nil {
		t.Fatal(err)
	}
	return w
}

func TestReplayMakesNodesAndPods(t *testing.T) {
	r, err := newReplay(load(t, podsCSV), 100, 0)
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	for _, s := range r.shapes() {
		gpu, milli := s.Allocatable["nvidia.com/gpu"], s.Allocatable["hilbert.dev/gpu-milli"]
		fmt.Fprintf(&b, "node %s %v cpu=%s memory=%s pods=%s gpu=%s milli=%s\n", s.Name, s.Labels, s.Allocatable.Cpu(), s.Allocatable.Memory(), s.Allocatable.Pods(), &gpu, &milli)
	}
	for i, p := range r.tasks {
		c := p.Spec.Containers[0].Resources
		gpu, milli := c.Limits["nvidia.com/gpu"], c.Limits["hilbert.dev/gpu-milli"]
		fmt.Fprintf(&b, "pod %s at %s for %s s %v class=%q cpu=%s memory=%s gpu=%s milli=%s", p.Name, r.arrive[i], p.Annotations["lab.hilbert.dev/run-seconds"],
			p.Labels, p.Spec.PriorityClassName, c.Requests.Cpu(), c.Requests.Memory(), &gpu, &milli)
		if a := p.Spec.Affinity; a != nil {
			fmt.Fprintf(&b, " on %v", a.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms)
		}
		b.WriteByte('\n')
	}
	// The third task comes 998 s later at this scale, which is cut to a second.
	want := `node n1 map[hilbert.dev/gpu-model:P100] cpu=64 memory=256Gi pods=1k gpu=2 milli=2k
node n2 map[] cpu=32 memory=128Gi pods=1k gpu=0 milli=0
pod whole at 0s for 10.000 s map[app:LS lab.hilbert.dev/work:online] class="trace-1000" cpu=12 memory=16Gi gpu=1 milli=0
pod part at 1s for 1.000 s map[app:BE lab.hilbert.dev/work:offline] class="" cpu=6 memory=12Gi gpu=0 milli=460 on [{[{hilbert.dev/gpu-model In [P100 T4]}] []}]
pod plain at 2s for 0.100 s map[app:BE lab.hilbert.dev/work:offline] class="" cpu=500m memory=1Gi gpu=0 milli=0
`
	if b.String() != want {
		t.Errorf("got:\n%swant:\n%s", b.String(), want)
	}
}

func TestPaceRefusesNonsense(t *testing.T) {
	w := load(t, podsCSV)
	for _, bad := range []float64{-1, math.NaN(), math.Inf(1)} {
		if _, err := newPace(w, bad, 1); err == nil || !strings.Contains(err.Error(), "time scale") {
			t.Errorf("time scale %g: got error %v", bad, err)
		}
		if _, err := newPace(w, 1, bad); err == nil || !strings.Contains(err.Error(), "life scale") {
			t.Errorf("life scale %g: got error %v", bad, err)
		}
	}
}

// TestPaceKeepsOrder: whatever the trace and the scale, arrivals keep their order, time never runs backwards and no life is negative.
func TestPaceKeepsOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := &trace.Workload{}
		at := int64(0)
		for range rapid.IntRange(1, 40).Draw(t, "tasks") {
			at += rapid.Int64Range(0, 1e15).Draw(t, "gap")
			task := trace.Task{Created: at, Deleted: at + rapid.Int64Range(0, 1e15).Draw(t, "life"), Requirements: load0}
			if rapid.Bool().Draw(t, "stays") {
				task.Deleted = trace.Never
			}
			w.Tasks = append(w.Tasks, task)
		}
		p, err := newPace(w, rapid.SampledFrom([]float64{0, 1, 1e3, 1e9}).Draw(t, "scale"), rapid.SampledFrom([]float64{0, 1, 50}).Draw(t, "life scale"))
		if err != nil {
			t.Fatal(err)
		}
		last := time.Duration(0)
		for i := range w.Tasks {
			now := p.at(w.Tasks[i].Created)
			if now < last || now-last > quietest {
				t.Fatalf("task %d comes at %s after one at %s", i, now, last)
			}
			last = now
			if life := p.life(&w.Tasks[i]); (life < 0) != (w.Tasks[i].Deleted == trace.Never) {
				t.Fatalf("task %d lives for %s", i, life)
			}
		}
		if moment := p.at(rapid.Int64Range(0, 2e17).Draw(t, "moment")); moment < 0 {
			t.Fatalf("a moment at %s", moment)
		}
	})
}

func TestChosenPaceMeetsItsTargets(t *testing.T) {
	w := trace.Workload{Nodes: load(t, podsCSV).Nodes}
	for i := range 4000 {
		at := int64(i) * 1e12
		w.Tasks = append(w.Tasks, trace.Task{Created: at, Deleted: at + 3e12, Requirements: load1})
	}
	p, err := newPace(&w, 0, 0)
	if err != nil {
		t.Fatal(err)
	}
	end := p.at(w.Tasks[len(w.Tasks)-1].Created)
	if end > arrivalTarget || end < arrivalTarget/2 {
		t.Errorf("all have arrived after %s, want about %s", end, arrivalTarget)
	}
	if load := p.peakLoad(&w); load > 1.1*loadTarget || load < .8*loadTarget {
		t.Errorf("the peak asks for %.2f of the cluster, want about %.2f (scale %g, lives %g)", load, loadTarget, p.scale, p.lifeScale)
	}
}

var (
	load0 = &facts.Requirements{}
	load1 = &facts.Requirements{Requests: []resource.Quantity{{Name: resource.NameCPU, Amount: 1000}}}
)
