package observe

import (
	"encoding/json"
	"fmt"
	"math"
	"path"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"
)

var errnos = map[string]error{
	"EACCES": syscall.EACCES, "EIO": syscall.EIO, "EOPNOTSUPP": syscall.EOPNOTSUPP, "EMFILE": syscall.EMFILE, "none": nil,
}

// TestReader reads transcripts of a kernel and of what a Reader sees of it:
//
//	node                             the fixtures of a node appear
//	pod DIR...                       the fixtures of cgroups
//	write FILE                       a file, with the input as its text
//	remove NAME                      a file or cgroup goes
//	fault FILE open=ERRNO read=ERRNO the kernel refuses; none: no longer
//	read at=2s cgroups=(a,b) slow=N  an observation, rendered; threads of all cgroups are asked for
//	cpus                             the last observation's CPUs
//	json                             the last observation's first cgroup
//
// Cgroups are named by their directory.
func TestReader(t *testing.T) {
	datadriven.Walk(t, "testdata/reader", func(t *testing.T, file string) {
		w := &world{kernel: newFakeKernel()}
		datadriven.RunTest(t, file, func(t *testing.T, d *datadriven.TestData) string { return w.run(t, d) })
		if w.reader != nil {
			w.reader.Close()
		}
		if w.kernel.open != 0 {
			t.Errorf("%d files are open at the end", w.kernel.open)
		}
	})
}

type world struct {
	kernel *fakeKernel
	reader *Reader
	last   *Observation
}

func (w *world) run(t *testing.T, d *datadriven.TestData) string {
	switch d.Cmd {
	case "node":
		writeNode(t, w.kernel.write)
	case "pod":
		for _, arg := range d.CmdArgs {
			writePod(t, w.kernel.write, arg.Key)
		}
	case "write":
		w.kernel.write(d.CmdArgs[0].Key, d.Input+"\n")
	case "remove":
		w.kernel.remove(d.CmdArgs[0].Key)
	case "fault":
		file := w.kernel.files[d.CmdArgs[0].Key]
		for _, arg := range d.CmdArgs[1:] {
			if arg.Key == "open" {
				file.openErr = errnos[arg.Vals[0]]
			} else {
				file.readErr = errnos[arg.Vals[0]]
			}
		}
	case "read":
		return w.read(t, d)
	case "cpus":
		var b strings.Builder
		for i, c := range w.last.Node.CPUs {
			fmt.Fprintf(&b, "%d busy %s delay %s\n", i, cell(c.Busy, cores), cell(c.RunDelay, cores))
		}
		return b.String()
	case "json":
		text, err := json.MarshalIndent(w.last.Cgroups[0].CPU, "", "  ")
		if err != nil {
			t.Fatal(err)
		}
		counts, err := json.Marshal(w.last.Counts)
		if err != nil {
			t.Fatal(err)
		}
		return string(text) + "\n" + string(counts) + "\n"
	default:
		t.Fatalf("unknown command %s", d.Cmd)
	}
	return ""
}

func (w *world) read(t *testing.T, d *datadriven.TestData) string {
	var at string
	slow := 1
	d.ScanArgs(t, "at", &at)
	if d.HasArg("slow") {
		d.ScanArgs(t, "slow", &slow)
	}
	if w.reader == nil {
		w.reader = New(w.kernel, Params{SlowEvery: slow})
	}
	now, err := time.ParseDuration(at)
	if err != nil {
		t.Fatal(err)
	}
	var cgroups []Cgroup
	if arg, ok := d.Arg("cgroups"); ok {
		for _, dir := range arg.Vals {
			if dir == "" {
				continue
			}
			cgroups = append(cgroups, Cgroup{ID: dir, Dir: dir, Threads: true})
		}
	}
	w.last = w.reader.Read(now, cgroups)
	text := w.last.Render()
	if _, ok := w.kernel.files["proc/stat"]; !ok { // a story of cgroups alone
		text = text[strings.Index(text, "CGROUP"):]
	}
	return text
}

// A cgroup that is made anew between the opening of its file and the asking for its identity is not taken for the old one.
func TestReplacedWhileOpening(t *testing.T) {
	k := newFakeKernel()
	writePod(t, k.write, "a")
	r := New(k, Params{SlowEvery: 1})
	cgroups := []Cgroup{{ID: "a", Dir: "a"}}
	r.Read(0, cgroups)
	renew := func() {
		k.remove("sys/fs/cgroup/a")
		writePod(t, k.write, "a")
		k.write("sys/fs/cgroup/a/cpu.stat", "usage_usec 99000000\nuser_usec 1\nsystem_usec 1\n")
	}
	renew()
	k.files["sys/fs/cgroup/a/cpu.stat"].replaced = renew
	o := r.Read(time.Second, cgroups)
	if usage := o.Cgroups[0].CPU.Usage; usage.State() != Missing {
		t.Errorf("usage %v of two cgroups", usage)
	}
	o = r.Read(2*time.Second, cgroups)
	if usage, ok := r.Read(3*time.Second, cgroups).Cgroups[0].CPU.Usage.Get(); !ok || usage != 0 {
		t.Errorf("usage %v %v after the cgroup had come to rest", usage, ok)
	}
	if o.Counts.Replaced == 0 {
		t.Error("nobody counted the replacement")
	}
}

// An observation does not change while the Reader goes on, and is used again only when it was given back.
func TestImmutable(t *testing.T) {
	k := newFakeKernel()
	writeNode(t, k.write)
	writePod(t, k.write, "a")
	r := New(k, Params{SlowEvery: 1})
	cgroups := []Cgroup{{ID: "a", Dir: "a", Threads: true}}
	r.Read(0, cgroups)
	first := r.Read(time.Second, cgroups)
	text, data := first.Render(), marshal(t, first)
	k.write("sys/fs/cgroup/a/memory.current", "7\n")
	second := r.Read(2*time.Second, cgroups)
	if first.Render() != text || marshal(t, first) != data {
		t.Error("the first observation has changed")
	}
	r.Recycle(second)
	r.Recycle(second)
	third, fourth := r.Read(3*time.Second, cgroups), r.Read(4*time.Second, cgroups)
	if third != second {
		t.Error("an observation that was given back is not used again")
	}
	if third == fourth {
		t.Error("an observation that was given back twice is used by two")
	}
	if marshal(t, first) != data {
		t.Error("the first observation has changed")
	}
}

func marshal(t *testing.T, o *Observation) string {
	t.Helper()
	text, err := json.Marshal(o)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// Of more cgroups than are read at once each has its turn, whatever its place in the list, and an old value says how old it is.
func TestManyCgroupsTakeTurns(t *testing.T) {
	for _, n := range []int{MaxCgroups + 1, 2000, MaxListed} {
		k := newFakeKernel()
		writeNode(t, k.write)
		var cgroups []Cgroup
		for i := range n {
			dir := fmt.Sprintf("c%d", i)
			writePod(t, k.write, dir)
			cgroups = append(cgroups, Cgroup{ID: dir, Dir: dir})
		}
		r := New(k, Params{})
		rounds := (n + MaxCgroups - 1) / MaxCgroups
		for read := range 3 * rounds {
			o := r.Read(time.Duration(read)*time.Second, cgroups)
			for i := range o.Cgroups {
				use := &o.Cgroups[i]
				if age := use.Memory.Current.Age(); age > time.Duration(rounds)*time.Second {
					t.Fatalf("%d of %d: its memory was read %v ago", i, n, age)
				}
				_, used := use.CPU.Usage.Get()
				if _, held := use.Memory.Current.Get(); read >= rounds && !held || read >= 2*rounds && !used {
					t.Fatalf("%d of %d, read %d: memory %v, CPU %v", i, n, read, use.Memory.Current, use.CPU.Usage)
				}
			}
			if o.Counts.DroppedCgroups > 0 {
				t.Fatalf("%d of %d cgroups are dropped", o.Counts.DroppedCgroups, n)
			}
		}
		r.Close()
	}
}

// Whatever is beyond a bound is left out and counted, and nothing stays open.
func TestBounds(t *testing.T) {
	k := newFakeKernel()
	writeNode(t, k.write)
	k.write("sys/devices/system/node/online", "0-9\n")
	var cgroups []Cgroup
	for i := range MaxListed + 3 {
		dir := fmt.Sprintf("c%d", i)
		writePod(t, k.write, dir)
		cgroups = append(cgroups, Cgroup{ID: dir, Dir: dir, Threads: true})
	}
	k.write("sys/fs/cgroup/c1/cgroup.threads", strings.Repeat("812\n", MaxThreads+1))
	r := New(k, Params{SlowEvery: 1, MaxOpenFiles: 100})
	o := r.Read(0, cgroups)
	if len(o.Cgroups) != MaxListed || o.Counts.DroppedCgroups != 3 {
		t.Errorf("%d cgroups, %d dropped", len(o.Cgroups), o.Counts.DroppedCgroups)
	}
	if o.Counts.DroppedNUMANodes != 2 || o.Counts.DroppedCPUs != 0 {
		t.Errorf("%d NUMA nodes and %d CPUs dropped", o.Counts.DroppedNUMANodes, o.Counts.DroppedCPUs)
	}
	if delay := o.Cgroups[1].CPU.RunDelay; delay.Reason() != First {
		t.Errorf("run delay of many threads that were looked at once: %v", delay)
	}
	if o.Counts.OpenFiles != 100 || k.open != 100 || k.most > 101 || o.Counts.Uncached == 0 {
		t.Errorf("%d files open, %d counted, %d at most, %d uncached", k.open, o.Counts.OpenFiles, k.most, o.Counts.Uncached)
	}
	if _, ok := o.Cgroups[MaxCgroups-1].Memory.Current.Get(); !ok {
		t.Error("what is not kept open is not read")
	}
	r.Read(time.Second, cgroups[:1])
	if k.open > 26 || len(r.slots) != 1 {
		t.Errorf("%d files, %d slots are kept of cgroups that are no longer listed", k.open, len(r.slots))
	}
	r.Close()
	if k.open != 0 {
		t.Errorf("%d files are open after Close", k.open)
	}
}

// The budget reaches each cgroup in turn: once it is known how many threads there are, so few of each are read that all have theirs.
func TestThreadBudget(t *testing.T) {
	k := newFakeKernel()
	var cgroups []Cgroup
	for c := range 4 {
		dir := fmt.Sprintf("c%d", c)
		writePod(t, k.write, dir)
		var list strings.Builder
		for i := range 200 {
			id := 1000*(c+1) + i
			fmt.Fprintln(&list, id)
			k.write(fmt.Sprintf("proc/%d/schedstat", id), "5 5 5\n")
		}
		k.write(path.Join("sys/fs/cgroup", dir, "cgroup.threads"), list.String())
		cgroups = append(cgroups, Cgroup{ID: dir, Dir: dir, Threads: true})
	}
	k.page = 256
	r := New(k, Params{SlowEvery: 1, ThreadBudget: 400})
	var states []string
	for i := range 4 {
		o := r.Read(time.Duration(i)*time.Second, cgroups)
		var line []string
		for _, c := range o.Cgroups {
			line = append(line, cell(c.CPU.RunDelay, cores))
		}
		states = append(states, strings.Join(line, " "))
	}
	want := []string{"- - !budget !budget", "0.00 - - -", "0.00 0.00 0.00 0.00", "0.00 0.00 0.00 0.00"}
	if got := strings.Join(states, "\n"); got != strings.Join(want, "\n") {
		t.Errorf("run delays\n%s\nwant\n%s", got, strings.Join(want, "\n"))
	}
}

// No directory leads out of the mount, and a slash before or after its name makes no difference.
func TestDirs(t *testing.T) {
	k := newFakeKernel()
	writePod(t, k.write, "a/b")
	k.write("sys/fs/cgroup/memory.current", "1\n")
	r := New(k, Params{})
	for dir, want := range map[string]string{
		"a/b": "50Mi", "/a/b": "50Mi", "/a/b/": "50Mi", "/": "1", "": "1",
		"../a": "!badPath", "/a/../b": "!badPath", "a//b": "!badPath", "/..": "!badPath", "a/./b": "!badPath", "x": "!gone",
	} {
		o := r.Read(0, []Cgroup{{Dir: dir}})
		if got := cell(o.Cgroups[0].Memory.Current, amounts); got != want {
			t.Errorf("%q: %s, want %s", dir, got, want)
		}
	}
}

// Who reads more often than a rate may be taken gets one at every reading that is far enough from the last that had one.
func TestTooOften(t *testing.T) {
	k := newFakeKernel()
	writePod(t, k.write, "a")
	r := New(k, Params{SlowEvery: 1})
	rates := 0
	for i := range 41 {
		k.write("sys/fs/cgroup/a/cpu.stat", fmt.Sprintf("usage_usec %d\n", i*25_000))
		o := r.Read(time.Duration(i)*50*time.Millisecond, []Cgroup{{ID: "a", Dir: "a"}})
		if usage, ok := o.Cgroups[0].CPU.Usage.Get(); ok {
			rates++
			if math.Abs(usage-0.5) > 1e-9 {
				t.Errorf("reading %d: usage %v, want 0.5", i, usage)
			}
		}
	}
	if rates != 20 {
		t.Errorf("%d rates in 2 s, want 20", rates)
	}
}

// A file that fills the buffer may go on: it says nothing, unless its beginning is what we want.
func TestTooLarge(t *testing.T) {
	k := newFakeKernel()
	writeNode(t, k.write)
	writePod(t, k.write, "a")
	long := strings.Repeat("nothing 1\n", maxFile/10+1)
	for _, name := range []string{"proc/stat", "sys/fs/cgroup/a/memory.stat"} {
		k.write(name, k.files[name].text+long)
	}
	o := New(k, Params{}).Read(0, []Cgroup{{ID: "a", Dir: "a"}})
	if anon := o.Cgroups[0].Memory.Anon; anon.State() != Missing || anon.Reason() != TooLarge {
		t.Errorf("anonymous memory of a file that is too long: %s", cell(anon, amounts))
	}
	if busy := o.Node.CPU.Busy; busy.Reason() != First {
		t.Errorf("/proc/stat with a long end: %s", cell(busy, cores))
	}
}
