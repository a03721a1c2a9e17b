package observe

import (
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"
)

// machine writes the tree of a node with so many pods of one container of three threads each below dir, and lists their containers.
func machine(tb testing.TB, write func(name, text string), containers int) []Cgroup {
	tb.Helper()
	writeNode(tb, write)
	var out []Cgroup
	for i := range containers {
		dir := fmt.Sprintf("kubepods/burstable/pod%d/container%d", i, i)
		writePod(tb, write, dir)
		var list string
		for thread := range 3 {
			id := 10_000 + 3*i + thread
			list += fmt.Sprintln(id)
			write(fmt.Sprintf("proc/%d/schedstat", id), "67321 50625 2\n")
		}
		write(filepath.Join("sys/fs/cgroup", dir, "cgroup.threads"), list)
		out = append(out, Cgroup{ID: fmt.Sprintf("container%d", i), Dir: "/" + dir, Threads: true})
	}
	return out
}

// disk writes files below a directory, which is in memory where the machine has such a place.
func disk(tb testing.TB) (root string, write func(name, text string)) {
	tb.Helper()
	root, err := os.MkdirTemp("/dev/shm", "observe") //nolint:usetesting // the default place may be a disk
	if err != nil {
		root = tb.TempDir()
	}
	tb.Cleanup(func() {
		if err := os.RemoveAll(root); err != nil {
			tb.Error(err)
		}
	})
	return root, func(name, text string) {
		name = filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			tb.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
			tb.Fatal(err)
		}
	}
}

// TestAllocations holds that a Read of what was there before allocates nothing if observations are given back, and else an observation: itself,
// its cgroups, CPUs and NUMA nodes.
func TestAllocations(t *testing.T) {
	root, write := disk(t)
	cgroups := machine(t, write, 20)
	for _, slow := range []int{1, 5} {
		r := New(Root(root), Params{SlowEvery: slow})
		now := time.Duration(0)
		read := func() *Observation {
			now += time.Second
			return r.Read(now, cgroups)
		}
		for range 2 * slow {
			r.Recycle(read())
		}
		if n := testing.AllocsPerRun(20, func() { r.Recycle(read()) }); n != 0 {
			t.Errorf("a read with every %d-th slow allocates %v times", slow, n)
		}
		if n := testing.AllocsPerRun(20, func() { read() }); n != 4 {
			t.Errorf("a read whose observation is kept allocates %v times", n)
		}
		if o := read(); o.Counts.Faults != (Faults{}) || o.Counts.Uncached != 0 {
			t.Errorf("the tree is not whole: %+v", o.Counts)
		}
		r.Close()
	}
}

// cpuTime is what this process has used: on a machine that others use too, elapsed time says little.
func cpuTime(b *testing.B) time.Duration {
	b.Helper()
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		b.Fatal(err)
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

// BenchmarkRead100 reads 100 containers of three threads and the node. At one read a second, a core's hundredth is 10 ms of cpu-ns/op.
func BenchmarkRead100(b *testing.B) {
	root, write := disk(b)
	cgroups := machine(b, write, 100)
	for name, params := range map[string]Params{"slow=1": {SlowEvery: 1}, "slow=5": {SlowEvery: 5}, "uncached": {SlowEvery: 5, MaxOpenFiles: 1}} {
		b.Run(name, func(b *testing.B) {
			r := New(Root(root), params)
			now := time.Duration(0)
			read := func() {
				now += time.Second
				r.Recycle(r.Read(now, cgroups))
			}
			for range 2 * params.SlowEvery { // the files are opened
				read()
			}
			b.ReportAllocs()
			b.ResetTimer()
			before := cpuTime(b)
			for b.Loop() {
				read()
			}
			b.ReportMetric(float64((cpuTime(b)-before).Nanoseconds())/float64(b.N), "cpu-ns/op")
			r.Close()
		})
	}
}
