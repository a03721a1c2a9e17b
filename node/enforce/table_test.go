package enforce

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"pgregory.net/rapid"
)

// world is a kernel in memory, with faults.
type world struct {
	files  map[string]string
	fail   map[string][]error // by "read PATH" or "write PATH": what the next ones answer; the last one stays
	writes []string
	rounds func(path, value string) string
	// gone, if set, is called before each write: the cgroup may vanish then.
	before func(path string)
}

func newWorld(files ...string) *world {
	w := &world{files: make(map[string]string), fail: make(map[string][]error)}
	for _, f := range files {
		path, value, _ := strings.Cut(f, "=")
		w.files[path] = value
	}
	return w
}

func (w *world) fault(call string) error {
	faults := w.fail[call]
	if len(faults) == 0 {
		return nil
	}
	if len(faults) > 1 {
		w.fail[call] = faults[1:]
	}
	return faults[0]
}

func (w *world) Read(path string) (string, error) {
	if err := w.fault("read " + path); err != nil {
		return "", err
	}
	value, ok := w.files[path]
	if !ok {
		return "", fmt.Errorf("%s: %w", path, syscall.ENOENT)
	}
	return value + "\n", nil
}

func (w *world) Write(path, value string) error {
	if w.before != nil {
		w.before(path)
	}
	if err := w.fault("write " + path); err != nil {
		return err
	}
	if _, ok := w.files[path]; !ok {
		return fmt.Errorf("%s: %w", path, syscall.ENODEV)
	}
	w.writes = append(w.writes, path+"="+value)
	if w.rounds != nil {
		value = w.rounds(path, value)
	}
	w.files[path] = value
	return nil
}

func (w *world) expect(t *testing.T, writes ...string) {
	t.Helper()
	if !slices.Equal(w.writes, writes) {
		t.Errorf("writes\n%s\nwant\n%s", strings.Join(w.writes, "\n"), strings.Join(writes, "\n"))
	}
	w.writes = nil
}

func want(t *testing.T, table *Table, rows ...string) {
	t.Helper()
	for _, row := range rows {
		path, value, _ := strings.Cut(row, "=")
		i := strings.LastIndexByte(path, '/')
		if err := table.Want("a", Knob{path[:i], path[i+1:]}, value); err != nil {
			t.Fatal(err)
		}
	}
}

func TestTableWritesWhatDiffersOnce(t *testing.T) {
	w := newWorld("p/c/cpuset.cpus=0,1,2,3", "p/cpu.idle=0", "p/c/memory.max=max")
	table := NewTable()
	want(t, table, "p/c/cpuset.cpus=0-3", "p/cpu.idle=1", "p/c/memory.max=8192")
	if o := table.Tick(w); o.Written != 2 || o.Right != 1 || o.Reverted != 0 {
		t.Errorf("first: %+v", o)
	}
	w.expect(t, "p/cpu.idle=1", "p/c/memory.max=8192")
	if o := table.Tick(w); o.Written != 0 || o.Right != 3 {
		t.Errorf("second: %+v", o)
	}
	w.files["p/cpu.idle"] = "0"
	if o := table.Tick(w); o.Written != 1 || o.Reverted != 1 {
		t.Errorf("after somebody's change: %+v", o)
	}
	w.expect(t, "p/cpu.idle=1")
}

func TestFlushLooksOnlyAtWhatIsNew(t *testing.T) {
	w := newWorld("p/cpu.idle=0", "q/cpu.idle=0", "q/c/cpuset.cpus=")
	table := NewTable()
	want(t, table, "p/cpu.idle=1", "q/c/cpuset.cpus=1")
	table.Flush(w)
	w.writes, w.files["p/cpu.idle"], w.files["q/c/cpuset.cpus"] = nil, "0", "7"
	want(t, table, "p/cpu.idle=1", "q/cpu.idle=1") // the first is no news
	table.Flush(w)
	w.expect(t, "q/cpu.idle=1")
	table.Recheck("q")
	table.Flush(w)
	w.expect(t, "q/c/cpuset.cpus=1")
}

// Who loses CPUs loses them before another one gets them, and parents come before children.
func TestOrderOfWrites(t *testing.T) {
	w := newWorld("a/x/cpuset.cpus=4-7", "a/cpuset.cpus=4-7", "b/cpuset.cpus=0-3", "b/y/cpuset.cpus=0-3", "c/cpuset.cpus=")
	table := NewTable()
	want(t, table, "a/cpuset.cpus=2-7", "a/x/cpuset.cpus=2-7", "b/y/cpuset.cpus=0-1", "b/cpuset.cpus=0-1", "c/cpuset.cpus=0-1")
	table.Tick(w)
	w.expect(t, "b/cpuset.cpus=0-1", "c/cpuset.cpus=0-1", "b/y/cpuset.cpus=0-1", "a/cpuset.cpus=2-7", "a/x/cpuset.cpus=2-7")
}

func TestFaults(t *testing.T) {
	for name, c := range map[string]struct {
		faults  []error
		outcome string
		writes  int
	}{
		"busy for a moment":         {[]error{syscall.EBUSY, syscall.EINTR, nil}, "written 1", 1},
		"busy for longer":           {[]error{syscall.EBUSY}, "refused 1", 0},
		"no value for this machine": {[]error{syscall.EINVAL}, "refused 1", 0},
		"gone before the write":     {[]error{syscall.ENODEV}, "gone 1", 0},
		"gone":                      {[]error{syscall.ENOENT}, "gone 1", 0},
		"not allowed":               {[]error{syscall.EACCES}, "refused 1", 0},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld("p/cpuset.cpus=0", "p/cpu.idle=0")
			w.fail["write p/cpuset.cpus"] = c.faults
			table := NewTable()
			want(t, table, "p/cpuset.cpus=1", "p/cpu.idle=1")
			o := table.Tick(w)
			o.Written-- // cpu.idle: a fault of one knob is no other's
			if w.files["p/cpu.idle"] != "1" {
				t.Error("another knob suffers")
			}
			got := ""
			switch {
			case o.Written == 1:
				got = "written 1"
			case o.Gone == 1:
				got = "gone 1"
			case len(o.Refused) == 1 && o.Refused[0].Value == "1" && errors.Is(o.Refused[0].Err, c.faults[0]):
				got = "refused 1"
			}
			if got != c.outcome || len(w.writes) != 1+c.writes {
				t.Errorf("%s: %+v, writes %v", got, o, w.writes)
			}
		})
	}
}

// A cgroup that vanishes between the read and the write is gone, and is no refusal.
func TestVanishes(t *testing.T) {
	w := newWorld("p/cpu.idle=0")
	w.before = func(path string) { delete(w.files, path) }
	table := NewTable()
	want(t, table, "p/cpu.idle=1")
	if o := table.Tick(w); o.Gone != 1 || len(o.Refused) != 0 {
		t.Errorf("%+v", o)
	}
	w.before, w.files["p/cpu.idle"] = nil, "0" // a pod of that name again
	if o := table.Tick(w); o.Written != 1 {
		t.Errorf("%+v", o)
	}
}

// What the kernel goes on refusing is tried ever more rarely, and at once when the desired value is new.
func TestRefusedRests(t *testing.T) {
	w := newWorld("p/cpuset.cpus=0")
	w.fail["write p/cpuset.cpus"] = []error{syscall.EINVAL}
	table := NewTable()
	want(t, table, "p/cpuset.cpus=1")
	tried := 0
	for range 100 {
		tried += len(table.Tick(w).Refused)
	}
	if tried < 5 || tried > 12 {
		t.Errorf("tried %d times in 100 ticks", tried)
	}
	want(t, table, "p/cpuset.cpus=2")
	if o := table.Tick(w); len(o.Refused) != 1 {
		t.Errorf("a new value rests: %+v", o)
	}
	delete(w.fail, "write p/cpuset.cpus")
	for range maxBackoff {
		table.Tick(w)
	}
	if w.files["p/cpuset.cpus"] != "2" {
		t.Error("never tried again")
	}
}

// What the runtime alone can write is no refusal, and is tried at each tick: it may be right then.
func TestOwnContainer(t *testing.T) {
	w := newWorld("p/cpuset.cpus=0")
	w.fail["write p/cpuset.cpus"] = []error{fmt.Errorf("%w: %w", ErrOwnContainer, syscall.EPERM)}
	table := NewTable()
	want(t, table, "p/cpuset.cpus=1")
	for range 3 {
		if o := table.Tick(w); o.Left != 1 || len(o.Refused) != 0 || o.BackingOff != 0 {
			t.Errorf("%+v", o)
		}
	}
	w.files["p/cpuset.cpus"] = "1" // the runtime has done it
	if o := table.Tick(w); o.Right != 1 || o.Left != 0 {
		t.Errorf("%+v", o)
	}
}

// The kernel rounds memory limits down to its pages; that is no difference.
func TestRounding(t *testing.T) {
	const page = 64 << 10
	w := newWorld("p/memory.max=max", "p/memory.high=max", "p/memory.low=0", "p/memory.swap.max=max")
	w.rounds = func(_, value string) string {
		n, err := strconv.Atoi(value)
		if err != nil {
			return value
		}
		return strconv.Itoa(n / page * page)
	}
	table := NewTable()
	want(t, table, "p/memory.max=200000", "p/memory.high=max", "p/memory.low=200000", "p/memory.swap.max=200000")
	table.Tick(w)
	w.expect(t, "p/memory.low=196608", "p/memory.max=196608", "p/memory.swap.max=196608")
	for range 3 {
		table.Tick(w)
	}
	w.expect(t)
}

func TestOwners(t *testing.T) {
	table := NewTable()
	k := Knob{"p", CPUWeight}
	if err := table.Want("a", k, "100"); err != nil {
		t.Fatal(err)
	}
	if err := table.Want("b", k, "200"); !errors.Is(err, ErrOwned) {
		t.Errorf("a second owner: %v", err)
	}
	table.Release("b", k)
	w := newWorld("p/cpu.weight=1")
	table.Tick(w)
	w.expect(t, "p/cpu.weight=100")
	table.Release("a", k)
	if err := table.Want("b", k, "200"); err != nil {
		t.Error(err)
	}
	table.Drop("p")
	if table.Len() != 0 {
		t.Error("dropped, and still there")
	}
}

func TestWhatIsNoKnob(t *testing.T) {
	for _, c := range []struct {
		knob  Knob
		value string
	}{
		{Knob{"p", "cgroup.kill"}, "1"},
		{Knob{"p", "memory.reclaim"}, "1"},
		{Knob{"", CPUIdle}, "1"},
		{Knob{"..", CPUIdle}, "1"},
		{Knob{"p/../..", CPUIdle}, "1"},
		{Knob{"/p", CPUIdle}, "1"},
		{Knob{"p/", CPUIdle}, "1"},
		{Knob{"p", CPUIdle}, "2"},
		{Knob{"p", CPUSet}, "3-1"},
		{Knob{"p", CPUWeight}, "0"},
		{Knob{"p", CPUMax}, "max max"},
		{Knob{"p", CPUMax}, "0"},
		{Knob{"p", CPUMax}, "1000 100000"},
		{Knob{"p", MemoryMax}, "-1"},
		{Knob{"p", MemoryLow}, "-1"},
		{Knob{"p", MemoryMin}, "1M"},
		{Knob{"p", SwapMax}, ""},
		{Knob{"p", OOMScoreAdj}, "1001"},
	} {
		table := NewTable()
		if err := table.Want("a", c.knob, c.value); err == nil || table.Len() != 0 {
			t.Errorf("%+v = %q is taken", c.knob, c.value)
		}
	}
}

func TestCanonical(t *testing.T) {
	for _, c := range [][3]string{
		{CPUSet, "3,0-1,2\n", "0-3"},
		{CPUSet, "\n", ""},
		{CPUMax, "max", "max 100000"},
		{CPUMax, "50000  100000\n", "50000 100000"},
		{MemoryMax, "4097", "4096"},
		{MemoryLow, "8193\n", "8192"},
		{MemoryMin, "max", "max"},
		{SwapMax, "0\n", "0"},
		{CPUWeight, " 100\n", "100"},
	} {
		kind := kinds[c[0]]
		if got, err := kind.canonical(c[1]); err != nil || got != c[2] {
			t.Errorf("%s %q: %q, %v", c[0], c[1], got, err)
		}
	}
	if kind := kinds[OOMScoreAdj]; !kind.right("1000", "900") || kind.right("899", "900") {
		t.Error("oom_score_adj is only ever raised")
	}
}

// Whatever happens, after one tick without faults the kernel is as wanted, but for limits that the kubelet has set, and the next tick writes nothing.
func TestConverges(t *testing.T) {
	values := map[string][]string{
		CPUSet: {"0", "1-2", "0,1,2"}, CPUIdle: {"0", "1"}, CPUWeight: {"1", "100"}, CPUMax: {"max", "1000 99991"}, MemoryMax: {"max", "4096"},
	}
	files := slices.Sorted(maps.Keys(values))
	rapid.Check(t, func(t *rapid.T) {
		w, table, wanted := newWorld(), NewTable(), make(map[Knob]string)
		knob := rapid.Custom(func(t *rapid.T) Knob {
			return Knob{rapid.SampledFrom([]string{"a", "a/b", "c"}).Draw(t, "cgroup"), rapid.SampledFrom(files).Draw(t, "file")}
		})
		t.Repeat(map[string]func(*rapid.T){
			"want": func(t *rapid.T) {
				k := knob.Draw(t, "knob")
				value := rapid.SampledFrom(values[k.File]).Draw(t, "value")
				if err := table.Want("a", k, value); err != nil {
					t.Fatal(err)
				}
				wanted[k] = value
			},
			"other": func(t *rapid.T) {
				k := knob.Draw(t, "knob")
				w.files[k.Path()] = rapid.SampledFrom(values[k.File]).Draw(t, "value")
			},
			"kubelet": func(t *rapid.T) {
				k := Knob{knob.Draw(t, "knob").Cgroup, CPUMax}
				w.files[k.Path()] = "1000 100000"
				table.Tick(w)
				if actual := w.files[k.Path()]; actual != "1000 100000" {
					t.Fatalf("%s was written over: %q", k.Path(), actual)
				}
			},
			"vanish": func(t *rapid.T) { delete(w.files, knob.Draw(t, "knob").Path()) },
			"fault": func(t *rapid.T) {
				k := knob.Draw(t, "knob")
				call := rapid.SampledFrom([]string{"read ", "write "}).Draw(t, "call")
				w.fail[call+k.Path()] = []error{rapid.SampledFrom([]error{syscall.EBUSY, syscall.EINVAL, syscall.ENODEV}).Draw(t, "fault"), nil}
			},
			"flush": func(*rapid.T) { table.Flush(w) },
			"tick":  func(*rapid.T) { table.Tick(w) },
			"rest": func(t *rapid.T) {
				clear(w.fail)
				for range maxBackoff {
					table.Tick(w)
				}
				for k, value := range wanted {
					if actual, ok := w.files[k.Path()]; ok {
						a, _ := kinds[k.File].canonical(actual)
						if v, _ := kinds[k.File].canonical(value); a != v && a != "1000 100000" {
							t.Fatalf("%s is %q, want %q", k.Path(), actual, value)
						}
					}
				}
				w.writes = nil
				if o := table.Tick(w); o.Written != 0 || len(w.writes) != 0 {
					t.Fatalf("%+v writes %v", o, w.writes)
				}
			},
		})
	})
}

// A limit that the kubelet writes while knobs are compared stays, and one of the agent's own is written over and taken away.
func TestForeignLimitStays(t *testing.T) {
	const limit, set = "pods/a/cpu.max", "pods/a/cpuset.cpus"
	w := newWorld(limit+"=max 100000", set+"=0-3")
	table := NewTable()
	wants := func(value, cpus string) {
		for file, value := range map[string]string{CPUMax: value, CPUSet: cpus} {
			if err := table.Want("test", Knob{"pods/a", file}, value); err != nil {
				t.Fatal(err)
			}
		}
	}
	wants("25000 99991", "0-3")
	if o := table.Tick(w); w.files[limit] != "25000 99991" || o.Foreign != 0 {
		t.Errorf("%q, %+v", w.files[limit], o)
	}
	wants("50000 99991", "0")
	w.before = func(path string) { // the set is written first
		if path == set {
			w.files[limit] = "70000 100000"
		}
	}
	for _, value := range []string{"50000 99991", "max 100000"} {
		wants(value, "0")
		if o := table.Tick(w); w.files[limit] != "70000 100000" || o.Foreign != 1 || len(o.Refused) > 0 {
			t.Errorf("want %q: %q, %+v", value, w.files[limit], o)
		}
	}
	w.files[limit] = "50000 99991"
	if table.Tick(w); w.files[limit] != "max 100000" {
		t.Errorf("the agent's own is still there: %q", w.files[limit])
	}
}
