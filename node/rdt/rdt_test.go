package rdt

import (
	"errors"
	"io/fs"
	"maps"
	"math"
	"math/bits"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"pgregory.net/rapid"

	"hilbert.dev/hilbert/node/advise"
)

// fifth leaves online pods everything.
var fifth = Params{CacheShare: 0.2, BandwidthShare: 0.2}

// The files of a processor of two sockets, as kernels write them: Intel's with percentages, AMD's with units of an eighth of a GB/s.
var (
	intel = map[string]string{
		"schemata": "    MB:0=100;1=100\n    L3:0=fffff;1=fffff\n", "tasks": "1\n", "info/last_cmd_status": "ok\n",
		"info/L3/cbm_mask": "fffff\n", "info/L3/min_cbm_bits": "1\n", "info/L3/num_closids": "16\n",
		"info/MB/min_bandwidth": "10\n", "info/MB/bandwidth_gran": "10\n", "info/MB/num_closids": "8\n",
		"info/L3_MON/mon_features": "llc_occupancy\nmbm_total_bytes\nmbm_local_bytes\n",
	}
	amd = map[string]string{
		"schemata": "    L3:0=ffff;1=ffff\n    MB:0=2048;1=2048\n", "tasks": "1\n", "info/last_cmd_status": "ok\n",
		"info/L3/cbm_mask": "ffff\n", "info/L3/min_cbm_bits": "1\n", "info/L3/num_closids": "16\n",
		"info/MB/min_bandwidth": "1\n", "info/MB/bandwidth_gran": "1\n", "info/MB/num_closids": "16\n",
	}
)

// kernel is a resctrl file system in memory.
type kernel struct {
	files  map[string]string
	groups int // that can still be made
	dead   int // a thread that has ended
	bends  bool
	writes []string
}

func newKernel(files map[string]string) *kernel {
	return &kernel{files: maps.Clone(files), groups: 2, dead: 99}
}

func (k *kernel) Read(name string) (string, error) {
	text, ok := k.files[name]
	if !ok {
		return "", &fs.PathError{Op: "read", Path: name, Err: fs.ErrNotExist}
	}
	return text, nil
}

func (k *kernel) Mkdir(name string) error {
	if _, ok := k.files[name+"/schemata"]; ok {
		return &fs.PathError{Op: "mkdir", Path: name, Err: fs.ErrExist}
	}
	if k.groups--; k.groups < 0 {
		return syscall.ENOSPC
	}
	k.files[name+"/schemata"], k.files[name+"/tasks"] = k.files["schemata"], ""
	return nil
}

func (k *kernel) Remove(name string) error {
	if _, ok := k.files[name+"/schemata"]; !ok {
		return &fs.PathError{Op: "remove", Path: name, Err: fs.ErrNotExist}
	}
	k.files["tasks"] += k.files[name+"/tasks"]
	maps.DeleteFunc(k.files, func(file, _ string) bool { return strings.HasPrefix(file, name+"/") })
	return nil
}

func (k *kernel) List(string) ([]string, error) { return nil, fs.ErrNotExist }

func (k *kernel) Write(name, value string) error {
	k.writes = append(k.writes, name+" "+value)
	if strings.HasSuffix(name, "tasks") {
		if value == strconv.Itoa(k.dead) {
			return syscall.ESRCH
		}
		for file, text := range k.files {
			if strings.HasSuffix(file, "tasks") {
				k.files[file] = strings.ReplaceAll(text, value+"\n", "")
			}
		}
		k.files[name] += value + "\n"
		return nil
	}
	has, err := parseSchemata(k.files[name])
	if err != nil {
		return err
	}
	want, err := parseSchemata(value)
	if err != nil {
		return syscall.EINVAL
	}
	if k.bends {
		return nil
	}
	maps.Copy(has, want)
	var out string
	for resource, l := range has {
		var fields []string
		for domain, v := range l {
			fields = append(fields, strconv.Itoa(domain)+"="+strings.Repeat("0", 5-min(len(v), 5))+v) // it pads
		}
		out += "  " + resource + ":" + strings.Join(fields, ";") + "\n"
	}
	k.files[name] = out
	return nil
}

func open(t *testing.T, tree Tree) *Control {
	t.Helper()
	c, err := Open(tree)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestHardware(t *testing.T) {
	split := maps.Clone(intel)
	split["schemata"] = "L3CODE:0=ff\nL3DATA:0=ff\n"
	split["info/L3CODE/cbm_mask"], split["info/L3CODE/min_cbm_bits"], split["info/L3CODE/num_closids"] = "ff", "2", "4"
	megabytes := maps.Clone(intel)
	megabytes["schemata"] = "MB:0=4294967295;1=4294967295\nL3:0=fffff;1=fffff\n"
	counting := map[string]string{"schemata": "", "info/L3_MON/mon_features": "llc_occupancy\n"}
	all := []string{"llc_occupancy", "mbm_total_bytes", "mbm_local_bytes"}
	for name, c := range map[string]struct {
		files map[string]string
		want  Hardware
	}{
		"Intel":                 {intel, Hardware{&Cache{0xfffff, 1, false}, &Bandwidth{100, 10, 10}, []int{0, 1}, 8, all}},
		"AMD":                   {amd, Hardware{&Cache{0xffff, 1, false}, &Bandwidth{2048, 1, 1}, []int{0, 1}, 16, nil}},
		"code and data":         {split, Hardware{&Cache{0xff, 2, true}, nil, []int{0}, 4, all}},
		"bandwidth in MB/s":     {megabytes, Hardware{&Cache{0xfffff, 1, false}, nil, []int{0, 1}, 16, all}},
		"nothing but a counter": {counting, Hardware{Counters: []string{"llc_occupancy"}}},
	} {
		t.Run(name, func(t *testing.T) {
			got := open(t, newKernel(c.files)).Hardware
			sameCache := (got.Cache == nil) == (c.want.Cache == nil) && (got.Cache == nil || *got.Cache == *c.want.Cache)
			sameBandwidth := (got.Bandwidth == nil) == (c.want.Bandwidth == nil) && (got.Bandwidth == nil || *got.Bandwidth == *c.want.Bandwidth)
			if !sameCache || !sameBandwidth || !slices.Equal(got.Domains, c.want.Domains) || got.Groups != c.want.Groups || !slices.Equal(got.Counters, c.want.Counters) {
				t.Errorf("got %+v %+v %+v", got, got.Cache, got.Bandwidth)
			}
		})
	}
}

func TestHardwareThatIsNone(t *testing.T) {
	for name, change := range map[string]func(map[string]string){
		"not mounted":       func(f map[string]string) { clear(f) },
		"nothing in it":     func(f map[string]string) { clear(f); f["schemata"] = "" },
		"no mask":           func(f map[string]string) { f["info/L3/cbm_mask"] = "0" },
		"a mask of words":   func(f map[string]string) { f["info/L3/cbm_mask"] = "wide" },
		"no least":          func(f map[string]string) { delete(f, "info/L3/min_cbm_bits") },
		"more than it has":  func(f map[string]string) { f["info/L3/min_cbm_bits"] = "21" },
		"no steps":          func(f map[string]string) { f["info/MB/bandwidth_gran"] = "?" },
		"a domain of words": func(f map[string]string) { f["schemata"] = "L3:x=1" },
		"no values":         func(f map[string]string) { f["schemata"] = "L3" },
	} {
		files := maps.Clone(intel)
		change(files)
		_, err := Open(newKernel(files))
		if err == nil || errors.Is(err, ErrAbsent) != (files["info/L3/cbm_mask"] == "") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestPlan(t *testing.T) {
	h := func(mask uint64, least int) Hardware {
		return Hardware{Cache: &Cache{Mask: mask, MinBits: least}, Bandwidth: &Bandwidth{100, 10, 10}}
	}
	for name, c := range map[string]struct {
		hardware          Hardware
		params            Params
		reclaimed, online Setting
	}{
		"a fifth":                {h(0xfffff, 1), fifth, Setting{0xf, 20, nil}, Setting{0xfffff, 100, nil}},
		"for itself":             {h(0xfffff, 1), Params{0.2, true, 0.25, nil}, Setting{0xf, 20, nil}, Setting{0xffff0, 100, nil}},
		"rounded as people do":   {h(0x3ff, 1), Params{0.7, false, 0.7, nil}, Setting{0x7f, 70, nil}, Setting{0x3ff, 100, nil}},
		"at least the least":     {h(0xfff, 2), Params{0.01, true, 0.01, nil}, Setting{0x3, 10, nil}, Setting{0xffc, 100, nil}},
		"too few ways to divide": {h(0x7, 2), Params{0.5, true, 1, nil}, Setting{0x3, 100, nil}, Setting{0x7, 100, nil}},
		"no number":              {h(0xff, 1), Params{math.NaN(), false, math.NaN(), nil}, Setting{0x1, 10, nil}, Setting{0xff, 100, nil}},
		"more than all":          {h(0xff, 1), Params{7, true, 7, nil}, Setting{0xff, 100, nil}, Setting{0xff, 100, nil}},
		"a mask with a hole":     {h(0xfc03, 1), Params{0.5, true, 1, nil}, Setting{0x1c00, 100, nil}, Setting{0xe000, 100, nil}},
		"no hardware":            {Hardware{}, fifth, Setting{}, Setting{}},
	} {
		plan := Plan(c.hardware, c.params)
		if !reflect.DeepEqual(plan[Reclaimed], c.reclaimed) || !reflect.DeepEqual(plan[Online], c.online) {
			t.Errorf("%s: reclaimed %x, online %x", name, plan[Reclaimed], plan[Online])
		}
	}
}

// Whatever the hardware and the settings: masks are contiguous, of ways that there are, not too small; bandwidths are steps within the bounds.
func TestPlanProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		mask := rapid.Uint64Range(1, math.MaxUint64).Draw(t, "mask")
		_, ways := longest(mask)
		h := Hardware{
			Cache:     &Cache{Mask: mask, MinBits: rapid.IntRange(1, ways).Draw(t, "least")},
			Bandwidth: &Bandwidth{Full: rapid.Uint64Range(10, 4096).Draw(t, "full"), Step: rapid.Uint64Range(1, 10).Draw(t, "step"), Least: 1},
		}
		p := Params{rapid.Float64().Draw(t, "cache"), rapid.Bool().Draw(t, "exclusive"), rapid.Float64().Draw(t, "bandwidth"), nil}
		for group, s := range Plan(h, p) {
			n := bits.OnesCount64(s.Mask)
			if s.Mask&^mask != 0 || n < h.Cache.MinBits || s.Mask != low(n)<<bits.TrailingZeros64(s.Mask) {
				t.Fatalf("%s: mask %x of %x, at least %d", group, s.Mask, mask, h.Cache.MinBits)
			}
			if b := s.Bandwidth; b < h.Bandwidth.Least || b > h.Bandwidth.Full || b%h.Bandwidth.Step != 0 && b != h.Bandwidth.Full && b != h.Bandwidth.Least {
				t.Fatalf("%s: bandwidth %d of %+v", group, b, h.Bandwidth)
			}
		}
	})
}

func TestApply(t *testing.T) {
	k := newKernel(intel)
	c := open(t, k)
	plan := Plan(c.Hardware, fifth)
	if err := c.Apply(plan); err != nil {
		t.Fatal(err)
	}
	want := []string{"hilbert-reclaimed/schemata L3:0=f;1=f\nMB:0=20;1=20\n"} // the other one is as it shall be from its beginning
	if !slices.Equal(k.writes, want) {
		t.Errorf("writes %q, want %q", k.writes, want)
	}
	if err := c.Apply(plan); err != nil || len(k.writes) != 1 {
		t.Errorf("again: %v, writes %q", err, k.writes)
	}
	k.files["hilbert-reclaimed/schemata"] = "MB:0=20;1=100\nL3:0=f;1=f\n" // somebody's doing, in one domain
	if err := c.Apply(plan); err != nil || k.writes[len(k.writes)-1] != "hilbert-reclaimed/schemata MB:0=20;1=20\n" {
		t.Errorf("%v, writes %q", err, k.writes)
	}
	if err := c.Close(); err != nil || k.files["hilbert-reclaimed/schemata"] != "" || k.files["hilbert-online/schemata"] != "" {
		t.Errorf("%v, left %v", err, k.files)
	}
	if err := c.Close(); err != nil {
		t.Error(err)
	}
	if k.files["schemata"] != intel["schemata"] {
		t.Error("the default group was written")
	}
}

// A domain may have a share of its own, for reclaimed pods alone; one that the hardware does not have is left out.
func TestApplyByDomain(t *testing.T) {
	k := newKernel(intel)
	c := open(t, k)
	p := fifth
	for _, step := range []struct {
		domains map[int]float64
		want    string // the last write; empty: none
	}{
		{map[int]float64{1: 0.1, 7: 0.5}, "hilbert-reclaimed/schemata L3:0=f;1=f\nMB:0=20;1=10\n"},
		{map[int]float64{1: 0.1}, ""},
		{map[int]float64{0: 0.14, 1: 0.1}, "hilbert-reclaimed/schemata MB:0=10;1=10\n"},
		{nil, "hilbert-reclaimed/schemata MB:0=20;1=20\n"},
	} {
		p.Domains, k.writes = step.domains, nil
		if err := c.Apply(Plan(c.Hardware, p)); err != nil || strings.Join(k.writes, "|") != step.want {
			t.Errorf("%v: %v, writes %q, want %q", step.domains, err, k.writes, step.want)
		}
	}
}

func TestApplyFails(t *testing.T) {
	k := newKernel(intel)
	k.groups = 0
	c := open(t, k)
	if err := c.Apply(Plan(c.Hardware, fifth)); !errors.Is(err, syscall.ENOSPC) || !strings.Contains(err.Error(), "8 groups") {
		t.Errorf("no group is free: %v", err)
	}
	k = newKernel(intel)
	k.bends = true
	c = open(t, k)
	if err := c.Apply(Plan(c.Hardware, fifth)); err == nil || !strings.Contains(err.Error(), "is not so") {
		t.Errorf("the kernel does not do what it is told: %v", err)
	}
}

func TestAssign(t *testing.T) {
	k := newKernel(intel)
	c := open(t, k)
	if err := c.Apply(Plan(c.Hardware, fifth)); err != nil {
		t.Fatal(err)
	}
	k.files["hilbert-reclaimed/tasks"] = "7\n8\n"
	if moved, err := c.Assign(Reclaimed, []int{8, 9, 99}); err != nil || moved != 2 {
		t.Errorf("moved %d, %v, want 2: 9 in, 7 out; 99 has ended", moved, err)
	}
	if in, out := k.files["hilbert-reclaimed/tasks"], k.files["tasks"]; in != "8\n9\n" || out != "1\n7\n" {
		t.Errorf("in the group %q, in the default one %q", in, out)
	}
	if _, err := c.Assign("other", nil); err == nil {
		t.Error("a group that is not there is no error")
	}
}

// fixture writes files below a temporary directory.
func fixture(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		file := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func TestUsage(t *testing.T) {
	files := maps.Clone(intel)
	maps.Copy(files, map[string]string{
		"hilbert-reclaimed/schemata":                         "L3:0=fffff;1=fffff\nMB:0=100;1=100\n",
		"hilbert-reclaimed/mon_data/mon_L3_00/llc_occupancy": "4096\n", "hilbert-reclaimed/mon_data/mon_L3_00/mbm_total_bytes": "70\n",
		"hilbert-reclaimed/mon_data/mon_L3_00/mbm_local_bytes": "60\n",
		"hilbert-reclaimed/mon_data/mon_L3_01/llc_occupancy":   "Error\n", "hilbert-reclaimed/mon_data/mon_L3_01/mbm_total_bytes": "Unavailable\n",
		"hilbert-reclaimed/mon_data/mon_PERF_00/energy": "1\n",
	})
	c := open(t, Dir(fixture(t, files)))
	got, err := c.Usage(Reclaimed)
	want := []Usage{{0, advise.Known(4096), advise.Known(70), advise.Known(60)}, {Domain: 1}}
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("%+v, %v, want %+v", got, err, want)
	}
	if _, err := c.Usage(Online); err == nil {
		t.Error("a group that is not there is no error")
	}
	reclaimed := map[Group]Setting{Reclaimed: {Mask: 0xf, Bandwidth: 20}}
	if err := c.Apply(reclaimed); err != nil {
		t.Error(err)
	}
	if text, _ := c.tree.Read("hilbert-reclaimed/schemata"); text != "L3:0=f;1=f\nMB:0=20;1=20\n" {
		t.Errorf("schemata %q", text)
	}
}

func TestStep(t *testing.T) {
	root := fixture(t, map[string]string{"k/a/cgroup.threads": "5\n6\n", "k/b/cgroup.threads": "7\n", "k/c/cgroup.threads": "8\n"})
	k := newKernel(amd)
	c := open(t, k)
	pods := map[Group][]string{Online: {"k/a"}, Reclaimed: {"k/b", "k/gone", "k/c"}}
	if err := c.Step(fifth, root, pods); err != nil {
		t.Fatal(err)
	}
	if online, reclaimed := k.files["hilbert-online/tasks"], k.files["hilbert-reclaimed/tasks"]; online != "5\n6\n" || reclaimed != "7\n8\n" {
		t.Errorf("online %q, reclaimed %q", online, reclaimed)
	}
	has, err := parseSchemata(k.files["hilbert-reclaimed/schemata"])
	if err != nil || !equal(has["MB"][1], "409", 10) || !equal(has["L3"][0], "7", 16) {
		t.Errorf("schemata %v, %v", has, err)
	}
	if err := c.Step(fifth, root, nil); err != nil || k.files["tasks"] != "1\n5\n6\n7\n8\n" {
		t.Errorf("%v, default group %q", err, k.files["tasks"])
	}
}

func TestThreads(t *testing.T) {
	root := fixture(t, map[string]string{
		"k/pod1/cgroup.threads": "", "k/pod1/pause/cgroup.threads": "5\n", "k/pod1/app/cgroup.threads": "9\n7\n", "k/pod1/app/deep/cgroup.threads": "8\n0\n",
		"k/pod2/cgroup.threads": "4\n",
	})
	if got, err := Threads(root, "k/pod1"); err != nil || !slices.Equal(got, []int{5, 7, 8, 9}) {
		t.Errorf("%v, %v", got, err)
	}
	if _, err := Threads(root, "k/pod3"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a pod that is gone: %v", err)
	}
}
