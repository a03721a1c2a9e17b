package blkio

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/fstest"

	"pgregory.net/rapid"

	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/node/enforce"
)

// kernel is io.cost in memory, for devices that have a line; a device whose line is "no" refuses.
type kernel struct {
	files  map[string]map[string]settings
	other  map[string]string
	broken map[string]error
	writes []string
	bends  string // a key that the kernel makes something else of
}

func newKernel(devices ...string) *kernel {
	k := &kernel{
		files:  map[string]map[string]settings{costQuality: {}, costModel: {}},
		other:  map[string]string{},
		broken: map[string]error{},
	}
	for _, d := range devices {
		k.files[costQuality][d], k.files[costModel][d] = settings{}, settings{"ctrl": "auto", "model": "linear", "rbps": "1"}
	}
	return k
}

func (k *kernel) Read(name string) (string, error) {
	if text, ok := k.other[name]; ok {
		return text, nil
	}
	lines, ok := k.files[name]
	if !ok {
		return "", fmt.Errorf("%s: %w", name, syscall.ENOENT)
	}
	var out string
	for device, s := range lines {
		if len(s) > 0 {
			out += device + " " + s.String() + "\n"
		}
	}
	return out, nil
}

func (k *kernel) Write(name, value string) error {
	k.writes = append(k.writes, name+": "+value)
	fields := strings.Fields(value)
	lines := k.files[name]
	if err := k.broken[fields[0]]; err != nil {
		return err
	}
	if lines[fields[0]] == nil {
		return syscall.ENODEV
	}
	for _, field := range fields[1:] {
		key, value, _ := strings.Cut(field, "=")
		if key == "min" || key == "max" || key == "rpct" {
			var n float64
			_, _ = fmt.Sscan(value, &n)
			value = fmt.Sprintf("%.2f", n)
		}
		if key == k.bends {
			value = "1"
		}
		lines[fields[0]][key] = value
	}
	return nil
}

func (k *kernel) expect(t *testing.T, writes ...string) {
	t.Helper()
	if !slices.Equal(k.writes, writes) {
		t.Errorf("writes\n%s\nwant\n%s", strings.Join(k.writes, "\n"), strings.Join(writes, "\n"))
	}
	k.writes = nil
}

func reasons(t *testing.T, got []Condition, want ...string) {
	t.Helper()
	var out []string
	for _, c := range got {
		out = append(out, c.Reason)
		if c.Message == "" {
			t.Errorf("%s says nothing", c.Reason)
		}
	}
	if !slices.Equal(out, want) {
		t.Errorf("conditions %v, want %v", got, want)
	}
}

var (
	a = Disk{Name: "a", Number: "8:0", Scheduler: "none"}
	b = Disk{Name: "b", Number: "8:16", Scheduler: "mq-deadline"}
	m = &Model{ReadBytes: 1e6, ReadSequential: 2, ReadRandom: 3, WriteBytes: 4, WriteSequential: 5, WriteRandom: 6}
	q = &Quality{ReadPercentile: 95, ReadMicros: 5000, Least: 50, Most: 150}
)

const (
	modelLine   = "io.cost.model: 8:0 ctrl=user model=linear rbps=1000000 rrandiops=3 rseqiops=2 wbps=4 wrandiops=6 wseqiops=5"
	qualityLine = "io.cost.qos: 8:0 enable=1 ctrl=user max=150.00 min=50.00 rlat=5000 rpct=95.00 wpct=0.00"
)

// What the settings name is written once, model first, kept, and turned off when they name it no more. No other device is touched.
func TestCost(t *testing.T) {
	k := newKernel("8:0", "8:16")
	c := NewCost(k, []Device{{Name: "a", Model: m, Quality: q}})
	disks := []Disk{a, b}
	reasons(t, c.Tick(disks), ReasonWeightsIdle)
	k.expect(t, modelLine, qualityLine)
	reasons(t, c.Tick(disks), ReasonWeightsIdle)
	k.expect(t)
	k.files[costQuality]["8:0"]["enable"] = "0" // somebody's doing
	c.Tick(disks)
	k.expect(t, qualityLine)
	c.Set([]Device{{Name: "b"}})
	reasons(t, c.Tick(disks), ReasonWeightsIdle)
	k.expect(t, "io.cost.qos: 8:16 enable=1", "io.cost.qos: 8:0 enable=0 ctrl=auto", "io.cost.model: 8:0 ctrl=auto")
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	k.expect(t, "io.cost.qos: 8:16 enable=0")
}

// A model and a quality that the settings say no more are the kernel's to choose again; those of an administrator are left.
func TestCostForgets(t *testing.T) {
	k := newKernel("8:0", "8:16")
	k.files[costModel]["8:16"]["ctrl"] = "user" // an administrator's
	c := NewCost(k, []Device{{Name: "a", Model: m, Quality: q}, {Name: "b"}})
	c.Tick([]Disk{a, b})
	k.expect(t, modelLine, qualityLine, "io.cost.qos: 8:16 enable=1")
	c.Set([]Device{{Name: "a"}, {Name: "b"}})
	for range 2 {
		reasons(t, c.Tick([]Disk{a, b}))
	}
	k.expect(t, "io.cost.model: 8:0 ctrl=auto", "io.cost.qos: 8:0 enable=1 ctrl=auto")
}

func TestCostNamesNothing(t *testing.T) {
	k := newKernel("8:0")
	k.files[costQuality]["8:0"]["enable"] = "1" // by somebody else
	c := NewCost(k, nil)
	reasons(t, c.Tick([]Disk{a}))
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	k.expect(t)
}

func TestCostConditions(t *testing.T) {
	named := []Device{{Name: "a", Model: m, Quality: q}}
	t.Run("no such disk", func(t *testing.T) {
		reasons(t, NewCost(newKernel("8:0"), []Device{{Name: "z"}}).Tick(nil), ReasonNoDisk)
	})
	t.Run("no io.cost", func(t *testing.T) {
		k := newKernel()
		delete(k.files, costQuality)
		reasons(t, NewCost(k, named).Tick([]Disk{a}), ReasonNoCost)
		reasons(t, NewCost(k, nil).Tick([]Disk{a}))
	})
	t.Run("refused, and tried again later", func(t *testing.T) {
		k := newKernel("8:0")
		k.broken["8:0"] = syscall.EOPNOTSUPP
		c := NewCost(k, named)
		for range rest + 1 {
			reasons(t, c.Tick([]Disk{a}), ReasonRefused, ReasonWeightsIdle)
		}
		k.expect(t, modelLine)
		delete(k.broken, "8:0")
		reasons(t, c.Tick([]Disk{a}))
		k.expect(t, modelLine, qualityLine)
	})
	t.Run("taken for something else", func(t *testing.T) {
		k := newKernel("8:0")
		k.bends = "rlat"
		reasons(t, NewCost(k, named).Tick([]Disk{a}), ReasonRefused, ReasonWeightsIdle)
	})
	t.Run("bfq has weights of its own", func(t *testing.T) {
		reasons(t, NewCost(newKernel("8:0"), nil).Tick([]Disk{{Name: "a", Number: "8:0", Scheduler: "bfq"}}))
	})
	t.Run("gone meanwhile", func(t *testing.T) {
		k := newKernel("8:0")
		c := NewCost(k, named)
		c.Tick([]Disk{a})
		k.broken["8:0"] = syscall.ENODEV
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
}

func TestDetect(t *testing.T) {
	k := newKernel("8:0")
	reasons(t, Detect(k, "kubepods").Conditions, ReasonNoController)
	k.other["kubepods/cgroup.subtree_control"] = "cpu io memory\n"
	k.other["kubepods/io.weight"] = "default 100\n"
	if s := Detect(k, "kubepods"); !s.Weights || s.Ceilings || !s.Cost || s.Conditions != nil {
		t.Errorf("%+v", s)
	}
	k.other["kubepods/io.max"] = ""
	delete(k.files, costQuality)
	s := Detect(k, "kubepods")
	reasons(t, s.Conditions, ReasonNoCost)
	if !s.Weights || !s.Ceilings || s.Cost {
		t.Errorf("%+v", s)
	}
}

func TestDisks(t *testing.T) {
	file := func(text string) *fstest.MapFile { return &fstest.MapFile{Data: []byte(text)} }
	disks, err := Disks(fstest.MapFS{
		"block/sdb/dev": file("8:16\n"), "block/sdb/device/model": file("x"), "block/sdb/queue/scheduler": file("[mq-deadline] none\n"),
		"block/nvme0n1/dev": file("259:0\n"), "block/nvme0n1/device/model": file("x"), "block/nvme0n1/queue/scheduler": file("none\n"),
		"block/loop0/dev": file("7:0\n"),
		"block/odd/dev":   file("?"), "block/odd/device/model": file("x"),
	})
	if want := []Disk{{"nvme0n1", "259:0", "none"}, {"sdb", "8:16", "mq-deadline"}}; err != nil || !slices.Equal(disks, want) {
		t.Errorf("%v, %v, want %v", disks, err, want)
	}
	if _, err := Disks(fstest.MapFS{}); err == nil {
		t.Error("no /sys/block is no error")
	}
}

// knobsOn are the knobs of a node with these disks.
func knobsOn(disks []Disk, pods []enforce.Pod, p Params) []enforce.DesiredKnob {
	return desiredKnobs(pods, perDisk{strings.Join(p.limits(disks), "\n"), strings.Join(p.latencies(disks), "\n")}, p)
}

func TestDesiredKnobs(t *testing.T) {
	p := Params{Dedicated: 800, Shared: 400, Reclaimed: 50, Ceilings: []Ceiling{
		{Name: "a", WriteBytes: 7, ReadOperations: 9}, {Name: "gone", WriteBytes: 1}, {Name: "b", ReadBytes: 5},
	}}
	pods := []enforce.Pod{
		{Cgroup: "k/pod1", Level: spec.QoSDedicated},
		{Cgroup: "k/burstable/pod2", Level: spec.QoSShared},
		{Cgroup: "k/burstable/pod3", Level: spec.QoSShared},
		{Cgroup: "k/besteffort/pod4", Level: spec.QoSShared},
		{Cgroup: "k/besteffort/pod5", Level: spec.QoSReclaimed},
		{Cgroup: "k/besteffort/pod6", Level: spec.QoSReclaimed},
	}
	var got []string
	for _, w := range knobsOn([]Disk{a, b}, pods, p) {
		got = append(got, w.Path()+"="+w.Value)
	}
	want := []string{
		"k/besteffort/io.weight=default 450",
		"k/besteffort/pod4/io.weight=default 400",
		"k/besteffort/pod5/io.max=8:0 wbps=7 riops=9\n8:16 rbps=5",
		"k/besteffort/pod5/io.weight=default 50",
		"k/besteffort/pod6/io.max=8:0 wbps=7 riops=9\n8:16 rbps=5",
		"k/besteffort/pod6/io.weight=default 50",
		"k/burstable/io.weight=default 800",
		"k/burstable/pod2/io.weight=default 400",
		"k/burstable/pod3/io.weight=default 400",
		"k/pod1/io.weight=default 800",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// Whatever runs: each knob once, weights that the kernel takes, and more reclaimed pods never weigh more against online ones.
func TestDesiredKnobsProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		levels := []spec.QoSLevel{spec.QoSDedicated, spec.QoSShared, spec.QoSReclaimed}
		var pods []enforce.Pod
		for i := range rapid.IntRange(0, 60).Draw(t, "pods") {
			group := rapid.SampledFrom([]string{"k", "k/burstable", "k/besteffort"}).Draw(t, "group")
			pods = append(pods, enforce.Pod{Cgroup: fmt.Sprintf("%s/pod%d", group, i), Level: rapid.SampledFrom(levels).Draw(t, "level")})
		}
		p := Params{Dedicated: rapid.IntRange(1, maxWeight).Draw(t, "dedicated"), Shared: 400, Reclaimed: 50}
		knobs := knobsOn(nil, pods, p)
		values := map[string]int{}
		for _, w := range knobs {
			var n int
			if _, err := fmt.Sscanf(w.Value, "default %d", &n); err != nil || n < 1 || n > maxWeight || values[w.Path()] != 0 {
				t.Fatalf("%v: %v", w, err)
			}
			values[w.Path()] = n
		}
		if len(pods) == 0 {
			return
		}
		pods = append(pods, enforce.Pod{Cgroup: "k/besteffort/one", Level: spec.QoSReclaimed}, enforce.Pod{Cgroup: "k/burstable/online", Level: spec.QoSShared})
		of := func(pods []enforce.Pod) (n int) {
			for _, w := range knobsOn(nil, pods, p) {
				if w.Cgroup == "k/besteffort" {
					_, _ = fmt.Sscanf(w.Value, "default %d", &n)
				}
			}
			return n
		}
		if before, after := of(pods), of(append(pods, enforce.Pod{Cgroup: "k/besteffort/two", Level: spec.QoSReclaimed})); before != after || before == 0 {
			t.Fatalf("a second reclaimed pod changed the weight from %d to %d", before, after)
		}
	})
}

func TestValidate(t *testing.T) {
	good := Defaults()
	good.Devices = []Device{{Name: "a", Model: m, Quality: q}, {Name: "b"}}
	good.Ceilings = []Ceiling{{Name: "a"}}
	if err := good.Validate(); err != nil {
		t.Error(err)
	}
	for name, change := range map[string]func(*Params){
		"no weight":          func(p *Params) { p.Reclaimed = 0 },
		"too much weight":    func(p *Params) { p.Shared = maxWeight + 1 },
		"a device twice":     func(p *Params) { p.Devices[1].Name = "a" },
		"two words":          func(p *Params) { p.Devices[1].Name = "sda sdb" },
		"a latency twice":    func(p *Params) { p.Latencies = []Latency{{"a", 1}, {"a", 2}} },
		"a ceiling twice":    func(p *Params) { p.Ceilings = append(p.Ceilings, Ceiling{Name: "a"}) },
		"half a model":       func(p *Params) { p.Devices[1].Model = &Model{ReadBytes: 1} },
		"no percentile":      func(p *Params) { p.Devices[1].Quality = &Quality{ReadPercentile: math.NaN(), Least: 1, Most: 1} },
		"speeds upside down": func(p *Params) { p.Devices[1].Quality = &Quality{Least: 2, Most: 1} },
	} {
		bad := good
		bad.Devices, bad.Ceilings = slices.Clone(good.Devices), slices.Clone(good.Ceilings)
		change(&bad)
		if bad.Validate() == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

func TestControl(t *testing.T) {
	k := newKernel("8:0")
	sys := fstest.MapFS{}
	p := Params{Dedicated: 3, Shared: 2, Reclaimed: 1, Devices: []Device{{Name: "a"}}, Ceilings: []Ceiling{{Name: "a", ReadBytes: 5}}}
	c := NewControl(k, sys, func() (string, error) { return "", errors.New("no mounts") }, "k", p)
	pods := []enforce.Pod{{Cgroup: "k/besteffort/pod1", Level: spec.QoSReclaimed}}
	knobs, conditions := c.Tick(pods)
	reasons(t, conditions, ReasonNoController, ReasonNoDisk, ReasonNoDisk) // none can be listed, so the one that is named is not there
	if len(knobs) != 0 {
		t.Errorf("knobs %v without a controller", knobs)
	}
	sys["block/a/dev"], sys["block/a/device/model"] = &fstest.MapFile{Data: []byte("8:0\n")}, &fstest.MapFile{}
	k.other["k/cgroup.subtree_control"], k.other["k/io.weight"], k.other["k/io.max"] = "io", "default 100", ""
	for range lookAgain {
		knobs, conditions = c.Tick(pods)
	}
	reasons(t, conditions)
	k.expect(t, "io.cost.qos: 8:0 enable=1")
	if len(knobs) != 2 {
		t.Fatalf("knobs %v", knobs)
	}
	want := []enforce.DesiredKnob{{Knob: knobs[0].Knob, Value: "8:0 rbps=5"}, {Knob: knobs[1].Knob, Value: "default 1"}}
	if !slices.Equal(knobs, want) || knobs[0].Path() != "k/besteffort/pod1/io.max" || knobs[1].Path() != "k/besteffort/pod1/io.weight" {
		t.Errorf("knobs %v", knobs)
	}
	c.Set(Defaults())
	if knobs, _ = c.Tick(pods); len(knobs) != 2 || knobs[0].Value != "8:0" || knobs[1].Value != "default 50" {
		t.Errorf("knobs %v, want the ceiling lifted", knobs)
	}
	k.expect(t, "io.cost.qos: 8:0 enable=0")
	if err := c.Close(); err != nil {
		t.Error(err)
	}
	k.expect(t)
}

// memo is a store in memory, which may fail.
type memo struct {
	data []byte
	err  error
}

func (m *memo) Load() ([]byte, error) { return m.data, m.err }

func (m *memo) Save(data []byte) error {
	if m.err == nil {
		m.data = data
	}
	return m.err
}

// A weight of all pods that an agent has set is given back by the next one that is started without it, once, and never set where that cannot be kept.
func TestWeightOfAllPodsOutlivesNobody(t *testing.T) {
	k := newKernel("8:0")
	k.other["k/cgroup.subtree_control"], k.other["k/io.weight"] = "io", "default 500"
	sys := fstest.MapFS{"block/a/dev": {Data: []byte("8:0\n")}, "block/a/device/model": {}}
	store := &memo{}
	for i, agent := range []struct {
		weight int
		fails  error
		want   string
	}{
		{0, nil, ""}, // somebody else's
		{1000, errors.New("full"), ""},
		{1000, nil, "default 1000"},
		{0, errors.New("full"), ""},
		{0, nil, "default 100"},
		{0, nil, ""},
	} {
		p := Defaults()
		p.Pods, store.err = agent.weight, agent.fails
		c := NewControl(k, sys, func() (string, error) { return "", nil }, "k", p)
		c.KeepWeight(store)
		got, said := "", ""
		for range 2 {
			knobs, conditions := c.Tick(nil)
			got = ""
			for _, knob := range knobs {
				if knob.Path() == "k/io.weight" {
					got, k.other["k/io.weight"] = knob.Value, knob.Value+"\n8:0 7"
				}
			}
			said = fmt.Sprint(conditions)
		}
		if got != agent.want || (agent.fails != nil) != strings.Contains(said, "full") {
			t.Errorf("agent %d: %q, want %q; %s", i, got, agent.want, said)
		}
	}
}

// All pods together weigh what the settings say beside the host's services, and as the kernel has it when they say nothing any more; what nobody set is left alone.
func TestWeightOfAllPods(t *testing.T) {
	k := newKernel("8:0")
	k.other["k/cgroup.subtree_control"], k.other["k/io.weight"] = "io", "default 100"
	sys := fstest.MapFS{"block/a/dev": {Data: []byte("8:0\n")}, "block/a/device/model": {}}
	c := NewControl(k, sys, func() (string, error) { return "", nil }, "k", Defaults())
	pods := []enforce.Pod{{Cgroup: "k/besteffort/pod1", Level: spec.QoSReclaimed}, {Cgroup: "k/pod2", Level: spec.QoSShared}}
	top := func() (value string) {
		knobs, _ := c.Tick(pods)
		for _, knob := range knobs {
			if knob.Path() == "k/io.weight" {
				value += knob.Value
			}
		}
		return value
	}
	for _, step := range []struct {
		weight int
		want   string
	}{{0, ""}, {1000, "default 1000"}, {20, "default 20"}, {0, "default 100"}} {
		p := Defaults()
		p.Pods = step.weight
		c.Set(p)
		if got := top(); got != step.want {
			t.Errorf("weight %d: %q, want %q", step.weight, got, step.want)
		}
	}
	delete(k.other, "k/io.weight")
	p := Defaults()
	p.Pods = 1000
	c.Set(p)
	if got := top(); got != "" {
		t.Errorf("%q where the kernel has no weights", got)
	}
}
