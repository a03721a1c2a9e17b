package affinity

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"hilbert.dev/hilbert/sim/trace"
	"hilbert.dev/hilbert/topology"
)

const header = "instance_sn,role,app_name,cpu_request,gpu_request,rdma_request,memory_request,disk_request,max_instance_per_node,creation_time,deletion_time\n"

// workload reads lines of "role app cpu gpu rdma memory limit created deleted".
func workload(t interface{ Fatal(...any) }, lines []string) *trace.Workload {
	var b strings.Builder
	b.WriteString(header)
	for i, line := range lines {
		f := strings.Fields(line)
		for len(f) < 9 {
			f = append(f, "")
		}
		if f[6] == "" { // any number of an application
			f[6] = "-1"
		}
		fmt.Fprintf(&b, "i%d,%s,%s,%s,%s,%s,%s,10,%s,%s,%s\n", i, f[0], f[1], f[2], f[3], f[4], f[5], f[6], f[7], f[8])
	}
	w, err := trace.ReadDLRM("test", strings.NewReader(b.String()))
	if err != nil {
		t.Fatal(err)
	}
	return w
}

// busy has instances that come, go, and leave holes.
func busy(t interface{ Fatal(...any) }) *trace.Workload {
	var lines []string
	for i := range 400 {
		share := []int{25, 25, 50, 75}[i%4]
		lines = append(lines, fmt.Sprintf("HN app%d %d 1 %d %d 8 %d %d", i%5, 8+i%3*4, share, 40+i%2*80, 1+i, 60+i+i*7%150))
		if i%4 == 0 {
			lines = append(lines, fmt.Sprintf("CN app9 %d 0 %d 320 2 %d %d", []int{48, 64, 96, 192}[i/4%4], 1+i%2*24, 1+i, 80+i+i*11%90))
		}
	}
	return workload(t, lines)
}

func options(modes ...Mode) Options {
	return Options{Modes: modes, Spare: []float64{20, -20}, Seed: 1, Seeds: 2, Fill: 1.3, Demand: []float64{1}}
}

// TestRequiredIsNeverBroken, preferred is more often kept than by chance, and neither refuses what fits.
func TestRequiredIsNeverBroken(t *testing.T) {
	w := busy(t)
	res, err := Run(t.Context(), w, options(Modes()...))
	if err != nil {
		t.Fatal(err)
	}
	if len(res.Settings) != 3 {
		t.Fatalf("%d settings", len(res.Settings))
	}
	waited, torn := 0, 0
	for _, s := range res.Settings {
		by := make(map[Mode]Outcome)
		for _, o := range s.Mean {
			by[o.Mode] = o
			waited += o.Waited
			if o.RefusedThoughFit != 0 || o.Wrong != 0 || o.Together == 0 {
				t.Errorf("%s, %s: %+v", s.Name, o.Mode, o)
			}
		}
		torn += by[Preferred].Broken
		if o := by[Required]; o.Broken != 0 || o.OneSwitchPercent != 100 || o.OneNUMANodePercent != 100 {
			t.Errorf("%s, required: %+v", s.Name, o)
		}
		if b, p, sought := by[Blind], by[Preferred], by[Sought]; b.Broken == 0 || b.OneSwitchPercent > 60 || p.OneSwitchPercent < b.OneSwitchPercent+20 ||
			sought.OneSwitchPercent < p.OneSwitchPercent {
			t.Errorf("%s: blind %.1f, preferred %.1f, sought %.1f of one switch", s.Name, b.OneSwitchPercent, p.OneSwitchPercent, sought.OneSwitchPercent)
		}
		if b, r := by[Blind], by[Required]; r.GPUServedPercent < b.GPUServedPercent-5 {
			t.Errorf("%s: required serves %.1f of the GPUs, blind %.1f", s.Name, r.GPUServedPercent, b.GPUServedPercent)
		}
	}
	if waited == 0 || torn == 0 {
		t.Errorf("%d were refused and held against brute force, %d preferred ones are broken: the workload is too easy", waited, torn)
	}
}

// TestCardRoom: GPUs are left and bandwidth is left, but not under one switch; the blind run places what is broken then.
func TestCardRoom(t *testing.T) {
	var lines []string
	for range 8 { // a machine: 75 shares on each of 4 cards, beside 4 GPUs, and no room for a fifth
		lines = append(lines, "HN app 8 1 75 40")
	}
	w := workload(t, lines)
	w.Nodes = w.Nodes[:1]
	run := func(mode Mode) *Outcome {
		r, err := newReplay(w, &setup{mode, 1, 1, 1})
		if err != nil {
			t.Fatal(err)
		}
		r.wall = func() time.Duration { return 0 }
		return r.play()
	}
	if o := run(Required); o.Placed != 4 || o.Never != 4 || o.RefusedThoughFit != 0 || o.OneSwitch != 4 {
		t.Errorf("required: %+v", o)
	}
	if o := run(First); o.Placed != 5 || o.Broken == 0 { // 400 shares hold five, one of them in pieces
		t.Errorf("first: %+v", o)
	}
}

// TestWaitingIsTriedWhereSomethingLeft.
func TestWaitingIsTriedWhereSomethingLeft(t *testing.T) {
	var lines []string
	for i := range 9 {
		lines = append(lines, fmt.Sprintf("HN app 8 1 25 40 -1 %d %d", i+1, 100+i))
	}
	w := workload(t, lines)
	w.Nodes = w.Nodes[:1]
	r, err := newReplay(w, &setup{Required, 1, 1, 1})
	if err != nil {
		t.Fatal(err)
	}
	r.wall = func() time.Duration { return 0 }
	if o := r.play(); o.Waited != 1 || o.Placed != 9 || o.Never != 0 || len(r.at) != 0 {
		t.Errorf("%+v, %d held", o, len(r.at))
	}
	n := r.nodes[r.asks[0].model][0]
	if fresh := newNode(n.model); n.free != fresh.free || n.devices != fresh.devices || n.numa != fresh.numa || n.left != fresh.left || n.spare != fresh.spare {
		t.Errorf("all have left, and the machine has %+v", n)
	}
}

// TestRuns: in any small workload nothing is refused that fits, what is required is near, and all comes back.
func TestRuns(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var lines []string
		for range rapid.IntRange(1, 60).Draw(t, "instances") {
			created := rapid.IntRange(1, 50).Draw(t, "created")
			life := fmt.Sprintf("%d %d", created, created+rapid.IntRange(0, 30).Draw(t, "life"))
			app, limit, _ := strings.Cut(rapid.SampledFrom([]string{"a 2", "b 5", "c -1"}).Draw(t, "app"), " ")
			if rapid.Bool().Draw(t, "gpu") {
				lines = append(lines, fmt.Sprintf("HN %s %d %d %d %d %s %s", app, rapid.IntRange(1, 40).Draw(t, "cores"), rapid.IntRange(0, 8).Draw(t, "gpus"),
					rapid.IntRange(0, 100).Draw(t, "share"), rapid.IntRange(1, 500).Draw(t, "memory"), limit, life))
			} else {
				lines = append(lines, fmt.Sprintf("CN %s %d 0 %d %d %s %s", app, rapid.IntRange(1, 192).Draw(t, "cores"),
					rapid.IntRange(0, 100).Draw(t, "share"), rapid.IntRange(1, 1000).Draw(t, "memory"), limit, life))
			}
		}
		w := workload(t, lines)
		mode := rapid.SampledFrom(Modes()).Draw(t, "mode")
		r, err := newReplay(w, &setup{mode, rapid.Float64Range(0.1, 1).Draw(t, "machines"), 3, rapid.SampledFrom([]float64{1, 1.7, 3}).Draw(t, "demand")})
		if err != nil {
			t.Fatal(err)
		}
		r.wall = func() time.Duration { return 0 }
		o := r.play()
		if o.RefusedThoughFit != 0 || o.Wrong != 0 || (mode == Required && o.Broken != 0) || o.Placed+o.Never != o.Instances {
			t.Fatalf("%s: %+v", mode, o)
		}
		for m, nodes := range r.nodes {
			for _, n := range nodes {
				if fresh := newNode(m); n.free != fresh.free || n.devices != fresh.devices || n.numa != fresh.numa || n.left != fresh.left || n.spare != fresh.spare {
					t.Fatalf("all have left, and a machine has %+v", n)
				}
			}
		}
	})
}

// TestJudge knows what hangs where.
func TestJudge(t *testing.T) {
	w := workload(t, []string{"HN app 8 1 25 40"})
	m, err := newModel(w.Nodes[0])
	if err != nil {
		t.Fatal(err)
	}
	n := newNode(m)
	for _, c := range []struct {
		gpus, nics     uint16
		numa           int
		aswitch, azone bool
	}{
		{0b11, 0b1, 0, true, true},
		{0b11, 0b1, 1, true, false},
		{0b100, 0b1, 0, false, true},
		{0b110, 0b1, 0, false, true},
		{0b1, 0b1000, 0, false, false},
		{0b1100_0000, 0b1000, 1, true, true},
		{0b1, 0b11, 0, false, true},
	} {
		g := topology.Grant{GPUs: c.gpus, NICs: c.nics}
		g.NUMANodes.CPUs[c.numa] = 8
		if a, b := oneSwitch(n, &g), oneNUMANode(n, &g); a != c.aswitch || b != c.azone {
			t.Errorf("%+v: one switch %t, one NUMA node %t", c, a, b)
		}
	}
}

func TestBadOptions(t *testing.T) {
	w := busy(t)
	for name, change := range map[string]func(*Options){
		"seeds": func(o *Options) { o.Seeds = 0 }, "fill": func(o *Options) { o.Fill = -1 }, "modes": func(o *Options) { o.Modes = nil },
		"demand": func(o *Options) { o.Demand = []float64{0} }, "spare": func(o *Options) { o.Spare = []float64{-100} },
	} {
		o := options(Blind)
		change(&o)
		if _, err := Run(t.Context(), w, o); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	if _, err := Run(t.Context(), &trace.Workload{Nodes: w.Nodes[:1], Tasks: []trace.Task{{Requirements: nil}}}, Options{}); err == nil {
		t.Error("no options: no error")
	}
	if _, err := ParseMode("wild"); err == nil {
		t.Error("a mode that is not known: no error")
	}
}

// TestRealDLRM replays the public trace on a cluster that is just large enough.
func TestRealDLRM(t *testing.T) {
	dir := os.Getenv("HILBERT_TRACES")
	if dir == "" {
		dir = filepath.Join("..", "..", "..", "shared", "traces")
	}
	path := filepath.Join(dir, "dlrm2025", "disaggregated_DLRM_trace.csv")
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) || testing.Short() {
		t.Skipf("long, or no trace at %s: set HILBERT_TRACES to the folder that holds dlrm2025/", path)
	}
	w, err := trace.LoadDLRM(path)
	if err != nil {
		t.Fatal(err)
	}
	o := options(Blind, Required)
	o.Spare, o.Seeds, o.Fill = []float64{0}, 1, 0
	res, err := Run(t.Context(), w, o)
	if err != nil {
		t.Fatal(err)
	}
	blind, required := &res.Settings[0].Mean[0], &res.Settings[0].Mean[1]
	if required.OneSwitchPercent != 100 || required.Together < 7000 || required.RefusedThoughFit+required.Wrong != 0 {
		t.Errorf("required: %+v", required)
	}
	if blind.OneSwitchPercent > 40 || required.GPUServedPercent < blind.GPUServedPercent-0.5 {
		t.Errorf("blind: %+v\nrequired: %+v", blind, required)
	}
}
