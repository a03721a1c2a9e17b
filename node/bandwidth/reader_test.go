package bandwidth

import (
	"errors"
	"fmt"
	"io/fs"
	"math"
	"path"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"pgregory.net/rapid"

	"hilbert.dev/hilbert/node/rdt"
)

// kernel is resctrl as Documentation/filesystems/resctrl.rst has it. A group is a directory: "" is the default one, "x" a control group, "mon_groups/y" and "x/mon_groups/y" are monitoring
// groups. It has two domains.
type kernel struct {
	dirs     map[string]*fakeGroup
	in       map[int]string // the group that counts each thread
	cgroups  map[string][]int
	features string
	rmids    int
	free     error // what mkdir says when no RMID is free
	said     map[string]string
	writes   int
	renames  int // counters of new groups begin elsewhere
}

type fakeGroup struct{ total, local [2]uint64 }

func newKernel() *kernel {
	return &kernel{
		dirs: map[string]*fakeGroup{"": {}}, in: make(map[int]string), cgroups: make(map[string][]int), said: make(map[string]string),
		features: "llc_occupancy\nmbm_total_bytes\nmbm_local_bytes\n", rmids: 64, free: syscall.ENOSPC,
	}
}

// control is the control group of a group.
func control(group string) string {
	before, _, _ := strings.Cut(group, monDir)
	return strings.TrimSuffix(before, "/")
}

func absent(op, name string) error { return &fs.PathError{Op: op, Path: name, Err: fs.ErrNotExist} }

func (k *kernel) Read(name string) (string, error) {
	if text, ok := k.said[name]; ok {
		return text, nil
	}
	switch dir, file := path.Split(name); {
	case name == "info/L3_MON/mon_features" && k.features != "":
		return k.features, nil
	case name == "info/L3_MON/num_rmids":
		return strconv.Itoa(k.rmids) + "\n", nil
	case file == "tasks" && k.dirs[strings.TrimSuffix(dir, "/")] != nil:
		group, out := strings.TrimSuffix(dir, "/"), ""
		for thread, in := range k.in {
			if in == group || !strings.Contains(group, monDir) && control(in) == group {
				out += strconv.Itoa(thread) + "\n"
			}
		}
		return out, nil
	}
	group, rest, ok := strings.Cut("/"+name, "/mon_data/mon_L3_0")
	group = strings.TrimPrefix(group, "/")
	g := k.counts(group)
	if !ok || g == nil {
		return "", absent("read", name)
	}
	domain := int(rest[0] - '0')
	switch rest[2:] {
	case "mbm_total_bytes":
		return strconv.FormatUint(g.total[domain], 10) + "\n", nil
	case "mbm_local_bytes":
		return strconv.FormatUint(g.local[domain], 10) + "\n", nil
	}
	return "", absent("read", name)
}

// counts are what a group's files say: a control group's have those of its monitoring groups in them.
func (k *kernel) counts(group string) *fakeGroup {
	g := k.dirs[group]
	if g == nil || strings.Contains(group, monDir) {
		return g
	}
	sum := *g
	for name, of := range k.dirs {
		if strings.Contains(name, monDir) && control(name) == group {
			for domain := range sum.total {
				sum.total[domain] += of.total[domain]
				sum.local[domain] += of.local[domain]
			}
		}
	}
	return &sum
}

func (k *kernel) Write(name, value string) error {
	k.writes++
	group := strings.TrimSuffix(name, "/tasks")
	if k.dirs[group] == nil {
		return absent("write", name)
	}
	thread, err := strconv.Atoi(value)
	if err != nil {
		return syscall.EINVAL
	}
	in, ok := k.in[thread]
	if !ok {
		return syscall.ESRCH
	}
	if strings.Contains(group, monDir) && control(in) != control(group) {
		return syscall.EINVAL
	}
	k.in[thread] = group
	return nil
}

func (k *kernel) Mkdir(name string) error {
	if k.dirs[name] != nil {
		return &fs.PathError{Op: "mkdir", Path: name, Err: fs.ErrExist}
	}
	if k.dirs[control(name)] == nil {
		return absent("mkdir", name)
	}
	if len(k.dirs) >= k.rmids {
		return &fs.PathError{Op: "mkdir", Path: name, Err: k.free}
	}
	k.renames++
	k.dirs[name] = &fakeGroup{total: [2]uint64{uint64(k.renames) * 1e9, 7}}
	return nil
}

func (k *kernel) Remove(name string) error {
	if k.dirs[name] == nil {
		return absent("remove", name)
	}
	for group := range k.dirs { // a control group takes its monitoring groups along
		if group == name || control(group) == name && !strings.Contains(name, monDir) {
			delete(k.dirs, group)
		}
	}
	for thread, in := range k.in {
		if k.dirs[in] != nil {
			continue
		}
		if k.in[thread] = control(in); k.dirs[control(in)] == nil {
			k.in[thread] = ""
		}
	}
	return nil
}

func (k *kernel) List(name string) (out []string, err error) {
	if group, ok := strings.CutSuffix("/"+name, "/mon_data"); ok && k.dirs[strings.TrimPrefix(group, "/")] != nil && k.features != "" {
		return []string{"mon_L3_00", "mon_L3_01"}, nil
	}
	if name == "." {
		out = []string{"info", "mon_data", monDir, "tasks"}
		for group := range k.dirs {
			if group != "" && !strings.Contains(group, monDir) {
				out = append(out, group)
			}
		}
		return out, nil
	}
	if !strings.HasSuffix(name, monDir) || k.dirs[control(name)] == nil {
		return nil, absent("open", name)
	}
	for group := range k.dirs {
		if rest, ok := strings.CutPrefix(group, name+"/"); ok {
			out = append(out, rest)
		}
	}
	slices.Sort(out)
	return out, nil
}

// start has a thread begin in a pod: by a thread that is there, whose group it inherits; 0: by the runtime, in the default group.
func (k *kernel) start(pod string, thread, parent int) {
	k.in[thread] = k.in[parent]
	k.cgroups[pod] = append(k.cgroups[pod], thread)
}

// run has a thread move bytes, a quarter of them in domain 1, half of them local.
func (k *kernel) run(thread int, bytes uint64) {
	g := k.dirs[k.in[thread]]
	g.total[0] += bytes - bytes/4
	g.total[1] += bytes / 4
	g.local[0] += bytes / 2
}

func (k *kernel) list(cgroup string) ([]int, error) {
	threads, ok := k.cgroups[cgroup]
	if !ok {
		return nil, absent("open", cgroup)
	}
	return threads, nil
}

// ours are the groups that an agent makes.
func (k *kernel) ours() (out []string) {
	for group := range k.dirs {
		if strings.Contains(group, prefix) {
			out = append(out, group)
		}
	}
	slices.Sort(out)
	return out
}

// rig is a Reader on a kernel. A pod's name is its cgroup and its UID.
type rig struct {
	*kernel
	*Reader

	now  time.Duration
	pods []Pod
	next int // threads of happen
}

func newRig(groups int, pods ...string) *rig {
	r := &rig{kernel: newKernel()}
	p := DefaultParams()
	p.Groups = groups
	r.Reader = NewReader(r.kernel, r.list, p)
	for i, pod := range pods {
		r.pods = append(r.pods, Pod{UID: pod, Cgroup: pod})
		r.start(pod, 10*(i+1), 0)
	}
	return r
}

func (r *rig) pass(run func()) {
	r.now += Interval
	if run != nil {
		run()
	}
	r.Reader.Read(r.now, r.pods)
}

func (r *rig) check(t *testing.T, pod string, want float64) {
	t.Helper()
	got := r.Of(pod)
	if math.IsNaN(want) {
		if got.Total.Known || got.Domains != nil {
			t.Errorf("%s: %+v, want unknown", pod, got)
		}
		return
	}
	if !got.Total.Known || math.Abs(got.Total.Value-want) > 1 || math.Abs(got.Domains[0]+got.Domains[1]-want) > 1 {
		t.Errorf("%s: %+v, want %v bytes per second", pod, got, want)
	}
}

var unknown = math.NaN()

// A value is what a pod has moved between two readings, by all threads that were in its group; the first reading says nothing.
func TestRead(t *testing.T) {
	r := newRig(8, "web", "scan")
	r.pass(nil)
	r.check(t, "web", unknown)
	r.pass(func() { r.run(10, 5e9); r.run(20, 50e9) })
	r.check(t, "web", 1e9)
	r.check(t, "scan", 10e9)
	if got := r.Of("scan"); !got.Local.Known || got.Local.Value != 5e9 || got.Domains[1] != 2.5e9 {
		t.Errorf("%+v", got)
	}
	r.pass(func() { r.start("web", 11, 10); r.run(11, 20e9) }) // it is in the group by itself
	r.check(t, "web", 4e9)
	r.pass(func() { r.start("web", 12, 0); r.run(12, 20e9); r.run(11, 5e9) }) // a probe: it is counted from now on
	r.check(t, "web", 1e9)
	r.pass(func() { r.run(12, 20e9) })
	r.check(t, "web", 4e9)
	writes := r.writes
	r.pass(nil)
	r.check(t, "web", 0) // it was counted, and has moved nothing
	if r.writes != writes {
		t.Error("threads that are where they belong are moved again")
	}
	if s := r.Status(); s.Known != 2 || s.Unknown != 0 || s.Waiting != 0 || s.Groups != 2 || s.Limit != 8 || s.Why != nil {
		t.Errorf("%+v", s)
	}
	if err := r.Close(); err != nil || len(r.ours()) > 0 || r.Of("web").Total.Known {
		t.Errorf("%v, left %q", err, r.ours())
	}
}

// What was not counted is unknown, and never zero.
func TestUnknown(t *testing.T) {
	for name, spoil := range map[string]func(r *rig){
		"unavailable": func(r *rig) {
			r.said["mon_groups/hilbert-pod-web/mon_data/mon_L3_01/mbm_total_bytes"] = "Unavailable\n"
		},
		"unassigned": func(r *rig) { r.said["mon_groups/hilbert-pod-web/mon_data/mon_L3_00/mbm_total_bytes"] = "Unassigned\n" },
		"error":      func(r *rig) { r.said["mon_groups/hilbert-pod-web/mon_data/mon_L3_00/mbm_total_bytes"] = "Error\n" },
		"backwards":  func(r *rig) { r.dirs["mon_groups/hilbert-pod-web"].total[0] = 3 },
		"it wraps":   func(r *rig) { r.dirs["mon_groups/hilbert-pod-web"].total[1] = 0 },
		"it jumps":   func(r *rig) { r.dirs["mon_groups/hilbert-pod-web"].total[0] += 1e15 },
		"too long":   func(r *rig) { r.now += 2 * time.Minute },
		"a restart: all threads are new": func(r *rig) {
			r.cgroups["web"] = nil
			r.start("web", 13, 0)
			r.start("web", 14, 13)
		},
		"most threads are new":     func(r *rig) { r.start("web", 13, 0); r.start("web", 14, 0) },
		"somebody removed it":      func(r *rig) { _ = r.Remove("mon_groups/hilbert-pod-web") },
		"nothing runs":             func(r *rig) { r.cgroups["web"] = nil },
		"it is gone":               func(r *rig) { delete(r.cgroups, "web") },
		"a tasks file of words":    func(r *rig) { r.said["mon_groups/hilbert-pod-web/tasks"] = "?\n" },
		"in others' control group": func(r *rig) { r.dirs["batch"] = &fakeGroup{}; r.in[10] = "batch" },
		"in others' monitoring group": func(r *rig) {
			r.dirs["mon_groups/telegraf"] = &fakeGroup{}
			r.in[10] = "mon_groups/telegraf"
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(8, "web", "scan")
			r.pass(nil)
			r.pass(func() { r.run(10, 5e9); r.run(20, 5e9) })
			r.check(t, "web", 1e9)
			r.pass(func() { r.run(10, 5e9); r.run(20, 5e9); spoil(r) })
			r.check(t, "web", unknown)
			if name != "too long" {
				r.check(t, "scan", 1e9)
			}
			if strings.HasPrefix(name, "in others'") && (r.in[10] == "mon_groups/hilbert-pod-web" || r.Status().Why == nil || !errors.Is(r.Status().Why, ErrTaken)) {
				t.Errorf("thread 10 is in %q; %+v", r.in[10], r.Status())
			}
		})
	}
}

// After each of these the next readings are known again.
func TestRecovers(t *testing.T) {
	r := newRig(8, "web")
	r.pass(nil)
	for _, spoil := range []func(){
		func() { r.dirs["mon_groups/hilbert-pod-web"].total = [2]uint64{} },
		func() { _ = r.Remove("mon_groups/hilbert-pod-web") },
		func() { r.cgroups["web"] = nil; r.start("web", 10, 0) },
	} {
		r.pass(func() { r.run(10, 5e9) })
		r.check(t, "web", 1e9)
		r.pass(spoil)
		r.check(t, "web", unknown)
		r.pass(func() { r.run(10, 0) })
	}
	for range 2 { // at the second reading the counter is there again, and it is not known what it was
		r.said["mon_groups/hilbert-pod-web/mon_data/mon_L3_00/mbm_total_bytes"] = "Unavailable\n"
		r.pass(func() { r.run(10, 5e9) })
		r.check(t, "web", unknown)
		clear(r.said)
		r.pass(func() { r.run(10, 5e9) })
		r.check(t, "web", unknown)
		r.pass(func() { r.run(10, 5e9) })
		r.check(t, "web", 1e9)
	}
}

// Where the groups of package rdt are there, a pod's group is in the one that its threads are in, and moves when they come and go.
func TestControlGroups(t *testing.T) {
	r := newRig(8, "web", "scan")
	r.pods[1].Reclaimed = true
	r.pass(nil)
	r.pass(func() { r.run(10, 5e9); r.run(20, 5e9) })
	r.check(t, "scan", 1e9)
	for _, group := range []rdt.Group{rdt.Online, rdt.Reclaimed} {
		r.dirs[string(group)] = &fakeGroup{}
	}
	r.in[10], r.in[20] = string(rdt.Online), string(rdt.Reclaimed) // package rdt moves them
	r.pass(nil)
	r.check(t, "scan", unknown)
	want := []string{"hilbert-online/mon_groups/hilbert-pod-web", "hilbert-reclaimed/mon_groups/hilbert-pod-scan"}
	if got := r.ours(); !slices.Equal(got, want) {
		t.Errorf("groups %q, want %q", got, want)
	}
	r.pass(func() { r.run(10, 5e9); r.run(20, 10e9) })
	r.check(t, "web", 1e9)
	r.check(t, "scan", 2e9)
	r.in[20] = string(rdt.Reclaimed) // somebody moved it back
	r.pass(func() { r.run(20, 10e9) })
	r.check(t, "scan", unknown)
	r.pass(func() { r.run(20, 10e9) })
	r.check(t, "scan", 2e9)
	for _, group := range []rdt.Group{rdt.Online, rdt.Reclaimed} { // package rdt ends, and its groups take ours along
		if err := r.Remove(string(group)); err != nil {
			t.Fatal(err)
		}
	}
	r.pass(nil)
	r.pass(func() { r.run(10, 5e9) })
	r.check(t, "web", 1e9)
}

// There are no more groups than may be; those wanted most have them, for a turn at least, and the groups of others are left alone.
func TestBounds(t *testing.T) {
	r := newRig(2, "a", "b", "c")
	r.dirs["mon_groups/telegraf"], r.dirs["batch"], r.dirs["batch/mon_groups/hilbert-pod-x"] = &fakeGroup{}, &fakeGroup{}, &fakeGroup{}
	r.dirs["mon_groups/hilbert-pod-left"] = &fakeGroup{} // by an agent that was killed
	r.pass(nil)
	if got := r.ours(); !slices.Equal(got, []string{"batch/mon_groups/hilbert-pod-x", "mon_groups/hilbert-pod-a", "mon_groups/hilbert-pod-b"}) || r.Status().Waiting != 1 {
		t.Errorf("%q, %+v", got, r.Status())
	}
	slices.Reverse(r.pods)
	r.pass(nil)
	if r.dirs["mon_groups/hilbert-pod-c"] != nil {
		t.Error("c is wanted more, and does not wait until a turn ends")
	}
	r.now += DefaultParams().Turn
	r.pass(nil)
	if r.dirs["mon_groups/hilbert-pod-c"] == nil || r.dirs["mon_groups/hilbert-pod-b"] == nil || r.dirs["mon_groups/hilbert-pod-a"] != nil {
		t.Errorf("after a turn: %q", r.ours())
	}
	r.rmids = 6
	r.Reader = NewReader(r.kernel, r.list, Params{Groups: 100, Turn: time.Minute, Retry: time.Minute})
	r.pass(nil)
	if s := r.Status(); s.Limit != 3 || s.Groups != 2 || s.Waiting != 1 || !errors.Is(s.Why, ErrFull) { // of six, others have four: the default one, batch and two in them
		t.Errorf("%+v, %q", s, r.ours())
	}
	r.free = syscall.EBUSY
	if r.pass(nil); !errors.Is(r.Status().Why, ErrFull) {
		t.Errorf("%+v", r.Status())
	}
	r.rmids = 64
	if r.pass(nil); r.Status().Why != nil || r.Status().Groups != 3 {
		t.Errorf("there are more: %+v", r.Status())
	}
	if err := Remove(r.kernel); err != nil || !slices.Equal(r.ours(), []string{"batch/mon_groups/hilbert-pod-x"}) || r.dirs["mon_groups/telegraf"] == nil {
		t.Errorf("%v, %q", err, r.ours())
	}
}

// A machine that counts nothing says why, and nothing is made there; it is looked again after a while.
func TestAbsent(t *testing.T) {
	for name, c := range map[string]struct {
		spoil func(k *kernel)
		says  string
	}{
		"no resctrl":      {func(k *kernel) { k.features = "" }, "does not exist"},
		"occupancy alone": {func(k *kernel) { k.features = "llc_occupancy\n" }, "only \"llc_occupancy\""},
		"no number":       {func(k *kernel) { k.said["info/L3_MON/num_rmids"] = "many\n" }, "want a number"},
	} {
		r := newRig(8, "web")
		c.spoil(r.kernel)
		r.pass(nil)
		r.pass(nil)
		if s := r.Status(); s.Why == nil || !strings.Contains(s.Why.Error(), c.says) || len(r.ours()) > 0 || s.Waiting != 1 {
			t.Errorf("%s: %+v, %q", name, s, r.ours())
		}
		r.features, r.said = "mbm_total_bytes\n", map[string]string{}
		r.now += time.Minute
		if r.pass(nil); r.Status().Why != nil || len(r.ours()) != 1 {
			t.Errorf("%s: it has come, and %+v", name, r.Status())
		}
	}
	r := newRig(8, "../../etc")
	if r.pass(nil); len(r.ours()) > 0 || r.Status().Waiting != 1 {
		t.Errorf("a UID that leads elsewhere: %q", r.ours())
	}
}

// Whatever comes, goes and moves, a value that is known is no more than what the pod has moved, the bounds hold, and nothing that is not ours is removed.
func TestProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := newRig(rapid.IntRange(0, 6).Draw(t, "groups"), "p0", "p1", "p2", "p3", "p4")
		r.rmids = rapid.IntRange(1, 12).Draw(t, "rmids")
		r.dirs["mon_groups/other"], r.dirs["batch"] = &fakeGroup{}, &fakeGroup{}
		for range rapid.IntRange(1, 40).Draw(t, "readings") {
			moved := make(map[string]uint64)
			for range rapid.IntRange(0, 8).Draw(t, "events") {
				r.happen(t, moved)
			}
			rapidShuffle(t, r.pods)
			r.pass(nil)
			s := r.Status()
			if len(r.ours()) > s.Limit || s.Groups > s.Limit || s.Limit > r.rmids/2 || s.Known+s.Unknown+s.Waiting != len(r.pods) {
				t.Fatalf("%+v, %q", s, r.ours())
			}
			for _, p := range r.pods {
				if got := r.Of(p.UID).Total; got.Known && got.Value > float64(moved[p.UID])/Interval.Seconds()+1 {
					t.Fatalf("%s has moved %d, and %v is said", p.UID, moved[p.UID], got.Value)
				}
			}
		}
		if err := r.Close(); err != nil || len(r.ours()) > 0 || r.dirs["mon_groups/other"] == nil || r.dirs["batch"] == nil {
			t.Fatalf("%v, left %q", err, r.ours())
		}
	})
}

// happen has something happen to a pod, and adds what it has moved up.
func (r *rig) happen(t *rapid.T, moved map[string]uint64) {
	pod := fmt.Sprint("p", rapid.IntRange(0, 4).Draw(t, "pod"))
	list := r.cgroups[pod]
	switch rapid.IntRange(0, 6).Draw(t, "event") {
	case 0: // a thread by the runtime
		r.next++
		r.start(pod, 1000+r.next, 0)
	case 1: // all end
		for _, thread := range list {
			delete(r.in, thread)
		}
		r.cgroups[pod] = nil
	case 2:
		if len(list) > 0 {
			r.in[list[0]] = rapid.SampledFrom([]string{"", "batch", "mon_groups/other"}).Draw(t, "to")
		}
	case 3:
		_ = r.Remove("mon_groups/" + prefix + pod)
	default:
		for _, thread := range list {
			n := rapid.Uint64Range(0, 1e10).Draw(t, "bytes") / 4 * 4
			moved[pod] += n
			r.run(thread, n)
		}
	}
}

func rapidShuffle(t *rapid.T, pods []Pod) {
	for i := len(pods) - 1; i > 0; i-- {
		j := rapid.IntRange(0, i).Draw(t, "place")
		pods[i], pods[j] = pods[j], pods[i]
	}
}
