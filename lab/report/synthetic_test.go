package report

import (
	"flag"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
	"time"
)

var write = flag.String("write", "", "directory to write sample pages to, for people to look at")

// synthetic is the record of a run that never was: services that come up in the first half minute, then jobs that fill what is
// left and drain. The same arguments give the same run.
func synthetic(nodes, pods int) *Run {
	random := rand.New(rand.NewPCG(7, uint64(nodes)))
	r := &Run{
		Title: "Demo", Source: "examples/demo.yaml", Scheduler: "hilbert", Kubernetes: "Kubernetes v1.37.0",
		Started: time.Date(2026, 3, 14, 9, 26, 53, 0, time.UTC), Elapsed: 100 * time.Second, FullestAt: 45 * time.Second,
	}
	machines := []struct {
		name        string
		cores, gibs int64
		gpus        int64
		model       string
	}{{"lab.16c64", 16, 64, 0, ""}, {"lab.32c128", 32, 128, 0, ""}, {"lab.96c384", 96, 384, 0, ""}, {"lab.96c768.8xA100", 96, 768, 8, "A100"}}
	for i := range nodes {
		m := machines[min(int(random.ExpFloat64()*1.3), 3)]
		n := Node{
			Name: fmt.Sprintf("node-%05d", i), Machine: m.name, Group: "lab-" + string(rune('a'+i%3)), GPUModel: m.model, MaxPods: 110,
			Allocatable: Amount{CPU: m.cores * 1000, Memory: m.gibs << 30, GPU: m.gpus * 1000},
		}
		use := func(online, offline float64) Use {
			part := func(f float64) Amount {
				return Amount{CPU: int64(f * float64(n.Allocatable.CPU)), Memory: int64(f * .8 * float64(n.Allocatable.Memory)), GPU: int64(f * float64(n.Allocatable.GPU))}
			}
			return Use{Online: part(online), Offline: part(offline), Pods: int(40 * (online + offline))}
		}
		online := .35 + .3*random.Float64()
		n.Fullest = use(online, min(.9-online, 1-online)+.1*random.Float64())
		n.Final = use(online, 0)
		r.Nodes = append(r.Nodes, n)
	}
	all := r.Capacity()
	share := func(f float64) Amount {
		return Amount{CPU: int64(f * float64(all.CPU)), Memory: int64(f * .8 * float64(all.Memory)), GPU: int64(f * .9 * float64(all.GPU))}
	}
	rise := func(t, from, length float64) float64 { return 1 / (1 + math.Exp(-8*((t-from)/length-.5))) }
	for i := range 400 {
		t := float64(i) / 4
		created := rise(t, 0, 34)
		bound := rise(t, 0.8, 36)
		r.Samples = append(r.Samples, Sample{
			At: time.Duration(t * float64(time.Second)), Created: int(created * float64(pods)), Bound: int(bound * float64(pods)),
			Pending: max(int((created-bound)*float64(pods)), 0), Running: int((bound - .6*rise(t, 45, 50)) * float64(pods)), Succeeded: int(.6 * rise(t, 45, 50) * float64(pods)),
			Online: share(.48 * bound), Offline: share(.44 * rise(t, 12, 30) * (1 - rise(t, 45, 50))),
		})
	}
	for i := range pods {
		x := (float64(i) + .5) / float64(pods)
		at := 0.8 + 36*(.5+math.Log(x/(1-x))/8)
		r.BoundAt = append(r.BoundAt, time.Duration(max(at, 0)*float64(time.Second)))
		r.Waits = append(r.Waits, time.Duration(math.Exp(3.4+1.1*random.NormFloat64())*float64(time.Millisecond)))
	}
	r.Workloads = []Workload{
		{Name: "web-frontend", Priority: 1000000, Each: Amount{CPU: 1000, Memory: 2 << 30}, Created: pods / 2, Bound: pods / 2},
		{Name: "train-bert", Offline: true, Priority: 100, Each: Amount{CPU: 6000, Memory: 24 << 30, GPU: 1000}, Created: pods - pods/2, Bound: pods - pods/2 - 3, Finished: pods / 4},
	}
	r.Unplaced = []Unplaced{{Reason: "Unschedulable", Message: fmt.Sprintf("0/%d nodes fit: %d too little cpu", nodes, nodes), Pods: 3, Example: "default/train-bert-x2<b>"}}
	r.Notes = []string{"Allocated means requested by pods that have a node and have not ended."}
	return r
}

func TestWritePages(t *testing.T) {
	if *write == "" {
		t.Skip("no -write directory")
	}
	for _, nodes := range []int{0, 1, 50, 1000, 5000} {
		f, err := os.Create(filepath.Join(*write, fmt.Sprintf("sample-%d.html", nodes)))
		if err != nil {
			t.Fatal(err)
		}
		if err := WriteHTML(f, synthetic(nodes, 10*nodes)); err != nil {
			t.Fatal(err)
		}
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
	}
}
