package node

import (
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/node/advise"
	sysfs "hilbert.dev/hilbert/node/machine"
	"hilbert.dev/hilbert/topology"
)

// A NUMA node without CPUs is the memory of a GPU (as in a GH200) or of a slower tier (CXL). Nothing of it is lent; that it is full, as it is by design, is no
// shortage, and that it is free does not make up for one.
func TestMemoryWithoutCPUs(t *testing.T) {
	for name, free := range map[string][2]int{"full": {1800, 0}, "free": {1800, 2000}, "short": {400, 2000}} {
		l := &lender{world: newWorld(t), counters: newCounters(t), now: time.Now()}
		for i := range l.hardware.CPUs {
			l.hardware.CPUs[i].NUMA = 0
		}
		l.hardware.NUMA[0].CPUs, l.hardware.NUMA[1].CPUs = l.hardware.AllCPUs(), topology.CPUSet{}
		l.counters.free = free
		l.start()
		batch := sandbox("batch", 0, "qos=reclaimed_cores", "besteffort")
		batch.Annotations[spec.AnnotationReclaimed] = "1000m/256Mi"
		l.mustRun(batch)
		said := l.run(240)
		if got := said.NUMANodes[1].MemoryMiB; got != 0 {
			t.Errorf("%s: %d MiB of memory without CPUs are lent", name, got)
		}
		l.agent.Ask(time.Minute, func(a *Agent) {
			short := len(a.eviction.decision.Pressures) > 0
			if short != (name == "short") || (said.Headroom.MemoryMiB > 500) == short {
				t.Errorf("%s: %d MiB are lent, pressures %v", name, said.Headroom.MemoryMiB, a.eviction.decision.Pressures)
			}
		})
	}
}

// tiers is a machine of testdata/tiers.
type tiers struct {
	files map[string]string
	// total and free are of the NUMA nodes with CPUs, in bytes; page cache that can be dropped is free.
	total, free float64
}

var amountLine = regexp.MustCompile(`(MemTotal|MemFree|Inactive\(file\)): (\d+) kB`)

func readTiers(t *testing.T, file string) *tiers {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	out := &tiers{files: make(map[string]string)}
	for line := range strings.Lines(string(text)) {
		if name, content, ok := strings.Cut(strings.TrimRight(line, "\n"), " ="); ok && !strings.HasPrefix(line, "#") {
			out.files[name] = strings.ReplaceAll(strings.TrimPrefix(content, " "), `\n`, "\n") + "\n"
		}
	}
	for name := range out.files {
		if dir, ok := strings.CutSuffix(name, "/cpulist"); ok && strings.TrimSpace(out.files[name]) != "" {
			for _, m := range amountLine.FindAllStringSubmatch(out.files[dir+"/meminfo"], -1) {
				kB, err := strconv.ParseFloat(m[2], 64)
				if err != nil {
					t.Fatal(err)
				}
				if m[1] == "MemTotal" {
					out.total += kB * 1024
				} else {
					out.free += kB * 1024
				}
			}
		}
	}
	return out
}

// scarce leaves one percent free of the NUMA nodes with CPUs, and no page cache.
func (f *tiers) scarce() {
	for name := range maps.Clone(f.files) {
		dir, ok := strings.CutSuffix(name, "/cpulist")
		if !ok || strings.TrimSpace(f.files[name]) == "" {
			continue
		}
		var total int
		f.files[dir+"/meminfo"] = amountLine.ReplaceAllStringFunc(f.files[dir+"/meminfo"], func(line string) string {
			m := amountLine.FindStringSubmatch(line)
			n, _ := strconv.Atoi(m[2]) // it is digits
			switch m[1] {
			case "MemTotal":
				total = n
				return line
			case "MemFree":
				return fmt.Sprintf("MemFree: %d kB", total/100)
			}
			return m[1] + ": 0 kB"
		})
	}
}

// lender is a node with that machine.
func (f *tiers) lender(t *testing.T) *lender {
	t.Helper()
	l := &lender{world: newWorld(t), counters: newCounters(t), now: time.Now()}
	l.counters.fixture = f.files
	for name, text := range f.files {
		l.counters.write(name, text)
	}
	m, _, err := sysfs.Read(os.DirFS(filepath.Join(l.counters.dir, "sys")))
	if err != nil {
		t.Fatal(err)
	}
	l.hardware = m
	l.start()
	web, batch := sandbox("web", 2, "qos=shared_cores"), sandbox("batch", 0, "qos=reclaimed_cores", "besteffort")
	batch.Annotations[spec.AnnotationReclaimed] = "1000m/256Mi"
	l.mustRun(web)
	l.mustRun(batch)
	return l
}

// On machines with the memory of GPUs, or with slower tiers, in NUMA nodes of their own: what can be lent is that of the NUMA nodes with CPUs, and what is said of the
// node is of these, however many others there are, how full they are, and whether the agent can read them. Where those with CPUs are short the node is, however
// much of the others is free.
func TestMachinesWithTiers(t *testing.T) {
	files, err := filepath.Glob("testdata/tiers/*.txt")
	if err != nil || len(files) < 5 {
		t.Fatalf("%v: %v", files, fs.ErrNotExist)
	}
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".txt")
		t.Run(name, func(t *testing.T) {
			f := readTiers(t, file)
			f.ample(t)
			f.scarce()
			f.short(t)
		})
	}
}

// ample holds what a node says of itself that has enough: the headroom is the law's own, which is published minutes later.
func (f *tiers) ample(t *testing.T) {
	t.Helper()
	l := f.lender(t)
	if len(l.hardware.NUMA) > topology.MaxNUMANodes {
		t.Errorf("%d NUMA nodes", len(l.hardware.NUMA))
	}
	said := l.run(20)
	var node advise.Node
	var pressures int
	lent, tier := 0.0, 0.0
	l.agent.Ask(time.Minute, func(a *Agent) {
		o := a.sensor.sense(l.now)
		node, pressures = o.laws.Node, len(a.eviction.decision.Pressures)
		o.release()
		for i, z := range a.lending.advice.NUMANodes {
			lent += float64(z.Memory.Now)
			if l.hardware.NUMA[i].CPUs.IsEmpty() {
				tier += float64(z.Memory.Now + z.CPU.Now)
			}
		}
	})
	if !node.MemoryTotal.Known || node.MemoryTotal.Value != f.total || !node.MemoryAvailable.Known || node.MemoryAvailable.Value > f.free {
		t.Errorf("the node has %+v, of which %+v are available; its NUMA nodes with CPUs have %.0f, of which %.0f are free", node.MemoryTotal, node.MemoryAvailable, f.total, f.free)
	}
	if most := f.total * 0.25; !node.EvictBelow.Known || node.EvictBelow.Value <= 0 || node.EvictBelow.Value > most {
		t.Errorf("the node is short below %+v", node.EvictBelow)
	}
	if least := 0.5 * f.free; lent < least || lent > f.free || tier != 0 {
		t.Errorf("%.0f of the %.0f bytes that are free are lent, and %.0f of NUMA nodes without CPUs", lent, f.free, tier)
	}
	if pressures > 0 || said.Closed != "" {
		t.Errorf("%d pressures, closed %q", pressures, said.Closed)
	}
}

// short holds what a node does whose NUMA nodes with CPUs have nothing left.
func (f *tiers) short(t *testing.T) {
	t.Helper()
	l := f.lender(t)
	said := l.run(40)
	pressures, lent := 0, int64(0)
	l.agent.Ask(time.Minute, func(a *Agent) {
		pressures = len(a.eviction.decision.Pressures)
		for _, z := range a.lending.advice.NUMANodes {
			lent += z.Memory.Now
		}
	})
	if pressures == 0 || lent > 256<<20 || said.Headroom.MemoryMiB > 256 {
		t.Errorf("with 1 %% free beside the CPUs: %d bytes are lent, %d pressures", lent, pressures)
	}
}
