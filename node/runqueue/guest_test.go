//go:build linux

package runqueue

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"
)

// The tests of this file make cgroups and look into the scheduler of the machine that they run on. They run only where HILBERT_IN_GUEST says that it may be done to
// the machine, as root and with cgroup v2.

const role = "HILBERT_RUNQUEUE_ROLE" // what a child of the test is

// burnt is what a child that burns counts.
var burnt atomic.Uint64

func TestMain(m *testing.M) {
	switch os.Getenv(role) {
	case "":
		os.Exit(m.Run())
	case "burn":
		for n := uint64(0); ; n++ { // until it is killed
			burnt.Store(n)
		}
	case "serve": // works a little, and sleeps
		for {
			for began := time.Now(); time.Since(began) < 2*time.Millisecond; {
			}
			time.Sleep(2 * time.Millisecond)
		}
	case "switch": // two of them take turns
		one, other := os.NewFile(3, "in"), os.NewFile(4, "out")
		var letter [1]byte
		for {
			if _, err := other.Write(letter[:]); err != nil {
				return
			}
			if _, err := one.Read(letter[:]); err != nil {
				return
			}
		}
	}
}

// hierarchy is where cgroup v2 is mounted.
func hierarchy() string {
	if _, err := os.Stat("/sys/fs/cgroup/cgroup.procs"); err == nil {
		if _, err := os.Stat("/sys/fs/cgroup/unified"); err == nil {
			return "/sys/fs/cgroup/unified"
		}
		return "/sys/fs/cgroup"
	}
	return "/sys/fs/cgroup/unified"
}

// machine is a guest with pods' cgroups.
type machine struct {
	t    *testing.T
	root string
}

func newMachine(t *testing.T) *machine {
	t.Helper()
	if os.Getenv("HILBERT_IN_GUEST") == "" {
		t.Skip("it makes cgroups and looks into the scheduler; HILBERT_IN_GUEST=1 in a guest runs it")
	}
	if _, err := os.Stat("/sys/kernel/tracing/events"); err != nil {
		if err := unix.Mount("tracefs", "/sys/kernel/tracing", "tracefs", 0, ""); err != nil {
			t.Fatal(err)
		}
	}
	return &machine{t, hierarchy()}
}

// run starts a child in a pod's cgroup on one CPU.
func (m *machine) run(pod, as string, cpu int) {
	m.t.Helper()
	dir := filepath.Join(m.root, pod, "container")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		m.t.Fatal(err)
	}
	c := exec.Command(os.Args[0])
	c.Env = append(os.Environ(), role+"="+as, "GOMAXPROCS=1")
	if err := c.Start(); err != nil {
		m.t.Fatal(err)
	}
	m.t.Cleanup(func() {
		_ = c.Process.Kill()
		_ = c.Wait()
		for at := dir; at != m.root; at = filepath.Dir(at) {
			_ = os.Remove(at)
		}
	})
	var set unix.CPUSet
	set.Set(cpu)
	tasks, err := os.ReadDir(fmt.Sprintf("/proc/%d/task", c.Process.Pid))
	if err != nil {
		m.t.Fatal(err)
	}
	for _, task := range tasks {
		id, _ := strconv.Atoi(task.Name())
		if err := unix.SchedSetaffinity(id, &set); err != nil && !errors.Is(err, unix.ESRCH) {
			m.t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "cgroup.procs"), []byte(strconv.Itoa(c.Process.Pid)), 0o644); err != nil {
		m.t.Fatal(err)
	}
}

// TestGuestNamesWhoRan: a service shares its CPU with a hog, and another burns as much beside them. It waits for the hog and not for the other; pods at two levels of the hierarchy are told apart.
func TestGuestNamesWhoRan(t *testing.T) {
	m := newMachine(t)
	const victim, hog, other = "hilbert-rq/burstable/pod1", "hilbert-rq/pod2", "hilbert-rq/burstable/pod3"
	pods := []string{victim, hog, other}
	m.run(victim, "serve", 0)
	m.run(hog, "burn", 0)
	if runtime.NumCPU() > 1 {
		m.run(other, "burn", 1)
	}
	p := New(Options{Cgroups: m.root, Tracing: "/sys/kernel/tracing"})
	defer func() { _ = p.Close() }()
	if _, err := p.Look([]string{victim}, pods); err != nil {
		t.Fatalf("%+v", err)
	}
	waited := make(map[string]time.Duration)
	for until := time.Now().Add(time.Minute); waited[hog] < 100*time.Millisecond; {
		time.Sleep(100 * time.Millisecond)
		got, err := p.Look([]string{victim}, pods)
		if err != nil || got.Over <= 0 || got.Dropped != 0 {
			t.Fatalf("%+v, %v", got, err)
		}
		for who, d := range got.Of[victim] {
			waited[who] += d
		}
		if len(got.Of) > 1 || time.Now().After(until) {
			t.Fatalf("%+v", got)
		}
	}
	t.Logf("waited %v", waited)
	if waited[other]*5 > waited[hog] {
		t.Errorf("it waited for one on another CPU: %v", waited)
	}
	if err := p.Close(); err != nil {
		t.Error(err)
	}
	if got, err := p.Look(nil, pods); err != nil || len(got.Of) > 0 || p.maps != nil {
		t.Errorf("without victims: %+v, %v", got, err)
	}
}

// TestGuestFull: what finds no room for its pair is counted, and not lost.
func TestGuestFull(t *testing.T) {
	m := newMachine(t)
	const victim, hog = "hilbert-rq/pod1", "hilbert-rq/pod2"
	for _, pod := range []string{victim, hog} {
		if err := os.MkdirAll(filepath.Join(m.root, pod), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	p := New(Options{Cgroups: m.root, Tracing: "/sys/kernel/tracing"})
	defer func() { _ = p.Close() }()
	if _, err := p.Look([]string{victim}, []string{victim, hog}); err != nil {
		t.Fatal(err)
	}
	for i := range uint64(maxPairs) { // before anybody waits
		if err := p.maps["waits"].Update([2]uint64{1 << 60, i}, uint64(0), ebpf.UpdateAny); err != nil {
			t.Fatal(err)
		}
	}
	m.run(victim, "serve", 0)
	m.run(hog, "burn", 0)
	for until := time.Now().Add(time.Minute); ; {
		time.Sleep(50 * time.Millisecond)
		got, err := p.Look([]string{victim}, []string{victim, hog})
		if err != nil {
			t.Fatal(err)
		}
		if got.Dropped > 0 {
			return
		}
		if time.Now().After(until) {
			t.Fatalf("%+v", got)
		}
	}
}

// BenchmarkSwitch is what the programs take of each switch and of each wakeup, by the kernel's own account, while two processes take turns on a CPU: where they are of a victim, and where
// they are not. Without the probe nothing is there to be measured.
func BenchmarkSwitch(b *testing.B) {
	if os.Getenv("HILBERT_IN_GUEST") == "" {
		b.Skip("it looks into the scheduler; HILBERT_IN_GUEST=1 in a guest runs it")
	}
	root := hierarchy()
	const here, there = "hilbert-rq-bench", "hilbert-rq-none"
	for _, pod := range []string{here, there} {
		if err := os.MkdirAll(filepath.Join(root, pod), 0o755); err != nil {
			b.Fatal(err)
		}
		b.Cleanup(func() { _ = os.Remove(filepath.Join(root, pod)) })
	}
	for _, c := range []struct {
		name    string
		victims []string
	}{{"not-victims", []string{there}}, {"victims", []string{here}}} {
		b.Run(c.name, func(b *testing.B) {
			p := New(Options{Cgroups: root, Tracing: "/sys/kernel/tracing"})
			defer func() { _ = p.Close() }()
			if _, err := p.Look(c.victims, []string{here, there}); err != nil {
				b.Fatal(err)
			}
			stats, err := ebpf.EnableStats(uint32(unix.BPF_STATS_RUN_TIME))
			if err != nil {
				b.Fatal(err)
			}
			defer func() { _ = stats.Close() }()
			pingPong(b, filepath.Join(root, here))
			for event, program := range p.program {
				s, err := program.Stats()
				if err != nil {
					b.Fatal(err)
				}
				b.ReportMetric(float64(s.Runtime)/float64(max(s.RunCount, 1)), "ns/"+event)
			}
		})
	}
}

// pingPong lets two processes of a cgroup, on one CPU, send each other a letter b.N times.
func pingPong(b *testing.B, dir string) {
	b.Helper()
	var pairs [2][2]*os.File
	for i := range pairs {
		r, w, err := os.Pipe()
		if err != nil {
			b.Fatal(err)
		}
		pairs[i] = [2]*os.File{r, w}
	}
	c := exec.Command(os.Args[0])
	c.Env = append(os.Environ(), role+"=switch", "GOMAXPROCS=1")
	c.ExtraFiles = []*os.File{pairs[0][0], pairs[1][1]}
	if err := c.Start(); err != nil {
		b.Fatal(err)
	}
	var set, before unix.CPUSet
	set.Set(0)
	_ = unix.SchedGetaffinity(0, &before)
	for _, pid := range []int{c.Process.Pid, os.Getpid()} {
		tasks, _ := os.ReadDir(fmt.Sprintf("/proc/%d/task", pid))
		for _, task := range tasks {
			id, _ := strconv.Atoi(task.Name())
			_ = unix.SchedSetaffinity(id, &set)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "cgroup.procs"), []byte(strconv.Itoa(c.Process.Pid)), 0o644); err != nil {
		b.Fatal(err)
	}
	in, out := int(pairs[1][0].Fd()), int(pairs[0][1].Fd()) // blocking: no poller between
	letter := make([]byte, 1)
	for b.Loop() {
		if _, err := unix.Read(in, letter); err != nil {
			b.Fatal(err)
		}
		if _, err := unix.Write(out, letter); err != nil {
			b.Fatal(err)
		}
	}
	_ = c.Process.Kill()
	_ = c.Wait()
	for _, f := range slices.Concat(pairs[0][:], pairs[1][:]) {
		_ = f.Close()
	}
}
