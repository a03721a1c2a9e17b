package realnode

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/kube/parse"
	"hilbert.dev/hilbert/node/cdi"
	"hilbert.dev/hilbert/node/devices"
	"hilbert.dev/hilbert/node/gpu"
	"hilbert.dev/hilbert/node/gpu/gputest"
	"hilbert.dev/hilbert/node/report"
	"hilbert.dev/hilbert/topology"
)

// Without a driver there is nothing to own, and the cards are there all the same.
func TestEyesWithoutDriver(t *testing.T) {
	dir := t.TempDir()
	roots := Roots{Sys: filepath.Join(dir, "sys"), Proc: filepath.Join(dir, "proc"), Run: filepath.Join(dir, "run"), Dev: filepath.Join(dir, "dev"), CDI: []string{filepath.Join(dir, "etc/cdi"), filepath.Join(dir, "run/cdi")}}
	writeTestFile(t, filepath.Join(roots.Sys, "class/net/eth0/speed"), "25000\n")
	writeTestFile(t, filepath.Join(roots.Sys, "class/net/eth1/speed"), "-1\n")
	writeTestFile(t, filepath.Join(roots.Proc, "sys/kernel/random/boot_id"), "first\n")
	m := &topology.Machine{Devices: []topology.Device{
		{Address: "a", Kind: topology.DeviceNIC, Names: []string{"eth0"}}, {Address: "b", Kind: topology.DeviceNIC, Names: []string{"eth1"}},
	}}
	l := NewDevices(roots, m, "", nil, slog.New(slog.DiscardHandler)).Inspect(t.Context())
	if l.Loaded || l.Seen.Inventory != nil || !l.Seen.Gone || l.Seen.Boot != "first" || l.Offers.NodeKnown {
		t.Errorf("%+v", l)
	}
	if len(l.Bandwidth) != 1 || l.Bandwidth["a"] != 25000 {
		t.Errorf("bandwidth: %v", l.Bandwidth)
	}
	writeTestFile(t, filepath.Join(roots.Proc, "driver/nvidia/version"), "NVRM version")
	writeTestFile(t, filepath.Join(roots.Run, "hilbert/gpu/x"), "")
	e := NewDevices(roots, m, "", nil, slog.New(slog.DiscardHandler))
	if l := e.Inspect(t.Context()); !l.Loaded || l.Seen.Inventory != nil || l.Seen.Why == "" {
		t.Errorf("a driver that says nothing: %+v", l)
	}
}

// What the agent says of a MIG instance that is gone, the scheduler reads as a number that gives nothing.
func TestGoneInstanceIsReadBack(t *testing.T) {
	driver, params := gputest.New(t), gpu.Defaults()
	var memory gpu.State
	var view gpu.View
	for _, line := range []string{
		"add 0000:3b:00.0 uuid=GPU-a mig", "instance 0000:3b:00.0 MIG-x 3g.20gb 1 42 19968", "instance 0000:3b:00.0 MIG-y 1g.5gb 3 14 4864", "unmake 0000:3b:00.0 MIG-x",
	} {
		driver.Do(line)
		o := driver.Observation()
		memory, view = gpu.Step(&params, memory, &o)
	}
	m := &topology.Machine{Devices: []topology.Device{{Address: "0000:3b:00.0", Kind: topology.DeviceGPU, NUMA: -1}}}
	devices := view.Devices(&params, topology.DevicesOf(m), topology.OwnerHilbert, nil)
	said := report.Devices(m, devices, &view, nil)
	if g := said.GPUs[0]; len(g.Instances) != 2 || !g.Instances[0].Gone || g.Instances[1].Gone || g.Closed != "" {
		t.Fatalf("said: %+v", g)
	}
	read, err := parse.NodeDevices(&spec.NodeStatus{Devices: said})
	if err != nil || read.Odd {
		t.Fatalf("%v, %q", err, read.Notes)
	}
	g := read.Devices.GPU[0]
	if len(g.Instances) != 2 || g.Instances[0].Milli != 0 || g.Instances[0].Memory != 0 || g.Instances[1].Memory != 4864 || read.Devices.ClosedGPUs != 0 {
		t.Errorf("read: %+v", g)
	}
	for name, want := range map[string]bool{"1:mig-0": false, "0:mig-0": false, "0:mig-1": true} {
		var grant topology.Grant
		if err := grant.ParseGPUs(name, nil); err != nil {
			t.Fatal(err)
		}
		r := topology.Request{Milli: 1, Isolation: topology.Hard}
		free, rest := topology.NewFree(topology.Shape{Devices: read.Devices}), topology.NewDeviceFree(read.Devices)
		v := topology.View{Shape: &topology.Shape{Devices: read.Devices}, Free: &free, Devices: &rest}
		read.Devices.Complete(&grant)
		if got := grant.GPUs == 1 && v.Fits(&r, nil, &grant); got != want {
			t.Errorf("%s fits: %t", name, got)
		}
	}
}

// Device files of cards: described to the runtime, and said. A card whose files cannot be told is missing with the reason.
func TestEyesSeeFunctions(t *testing.T) {
	dir := t.TempDir()
	roots := Roots{Sys: filepath.Join(dir, "sys"), Proc: filepath.Join(dir, "proc"), Run: filepath.Join(dir, "run"), Dev: filepath.Join(dir, "dev"), CDI: []string{filepath.Join(dir, "cdi")}}
	functions := filepath.Join(roots.Sys, "bus/pci/devices")
	writeTestFile(t, filepath.Join(functions, "0000:3c:00.0/infiniband_verbs/uverbs0/dev"), "")
	writeTestFile(t, filepath.Join(functions, "0000:3c:00.1/class"), "")
	writeTestFile(t, filepath.Join(functions, "0000:3c:00.2/infiniband_verbs/uverbs2/dev"), "")
	writeTestFile(t, filepath.Join(functions, "0000:3d:00.0/class"), "")
	for name, to := range map[string]string{
		"0000:3c:00.0/virtfn10": "../0000:3c:00.1", "0000:3c:00.0/virtfn2": "../0000:3c:00.2", "0000:3d:00.0/virtfn0": "../0000:3d:00.1",
	} {
		if err := os.Symlink(to, filepath.Join(functions, name)); err != nil {
			t.Fatal(err)
		}
	}
	m := &topology.Machine{Devices: []topology.Device{
		{Address: "0000:3c:00.0", Kind: topology.DeviceNIC},
		{Address: "0000:3c:00.2", Kind: topology.DeviceNIC, PhysicalFunction: "0000:3c:00.0"},
		{Address: "0000:3d:00.0", Kind: topology.DeviceNIC},
		{Address: "0000:3e:00.0", Kind: topology.DeviceNIC},
	}}
	look := func() devices.Inspection {
		return NewDevices(roots, m, "", nil, slog.New(slog.DiscardHandler)).Inspect(t.Context())
	}
	l := look()
	card := l.Functions["0000:3c:00.0"]
	if len(l.Functions) != 1 || len(card.Card.Files) != 2 || len(card.Virtual) != 2 || card.Virtual[0].Address != "0000:3c:00.2" || len(card.Virtual[0].Files) != 2 || len(card.Virtual[1].Files) != 0 {
		t.Errorf("%+v", l.Functions)
	}
	if len(l.FunctionsUnknown) != 1 || l.FunctionsUnknown["0000:3d:00.0"] == "" {
		t.Errorf("what a function has that is not there is not known: %v", l.FunctionsUnknown)
	}
	catalog, err := cdi.ReadCatalog(roots.CDI...)
	if err != nil || len(catalog.Troubles) != 0 {
		t.Fatalf("%v, %q", err, catalog.Troubles)
	}
	if text, err := os.ReadFile(filepath.Join(roots.CDI[0], "hilbert.dev-nic.json")); err != nil || !strings.Contains(string(text), "/dev/infiniband/uverbs2") {
		t.Errorf("%s, %v", text, err)
	}
	roots.CDI[0] = filepath.Join(functions, "0000:3d:00.0/class") // no directory
	if l := look(); l.FunctionsUnknown["0000:3c:00.0"] == "" {
		t.Error("a card that the runtime does not know is given")
	}
}

// Processes that compute on GPUs, with their cgroups. One that has ended is left out.
func TestEyesSeeProcesses(t *testing.T) {
	dir := t.TempDir()
	writeTestFile(t, filepath.Join(dir, "proc/7/cgroup"), "0::/../../podx/c\n")
	e := &Devices{roots: Roots{Proc: filepath.Join(dir, "proc")}, log: slog.New(slog.DiscardHandler)}
	got := e.cgroups(&gpu.Inventory{GPUs: []gpu.GPU{{Processes: []gpu.Process{{PID: 7}, {PID: 8}}}}})
	if len(got) != 1 || got[7] != "/../../podx/c" || e.cgroups(nil) != nil {
		t.Errorf("%v", got)
	}
}

// Who offers GPUs is asked only where there may be some: where a driver is loaded, or a function on the PCI bus is NVIDIA's, or cannot be read.
func TestOffersAreAskedWhereGPUsMayBe(t *testing.T) {
	for _, c := range []struct {
		name   string
		files  map[string]string
		driver bool
		asks   bool
	}{
		{"a console and a card", map[string]string{"0/class": "0x030000\n", "0/vendor": "0x1a03\n", "1/class": "0x020000\n", "1/vendor": "0x10de\n"}, false, false},
		{"a GPU without a driver", map[string]string{"0/class": "0x030200\n", "0/vendor": "0x10de\n"}, false, true},
		{"a console, and a driver", map[string]string{"0/class": "0x030000\n", "0/vendor": "0x1a03\n"}, true, true},
		{"a function of no class", map[string]string{"0/vendor": "0x1a03\n"}, false, true},
		{"a display of nobody", map[string]string{"0/class": "0x030000\n"}, false, true},
		{"no bus", nil, false, true},
	} {
		dir := t.TempDir()
		roots := Roots{Sys: filepath.Join(dir, "sys"), Proc: filepath.Join(dir, "proc"), Run: dir, Dev: dir, CDI: []string{dir}}
		for name, text := range c.files {
			writeTestFile(t, filepath.Join(roots.Sys, "bus/pci/devices", name), text)
		}
		if c.driver {
			writeTestFile(t, filepath.Join(roots.Proc, "driver/nvidia/version"), "NVRM version")
		}
		asked := 0
		e := NewDevices(roots, &topology.Machine{}, "", func(context.Context) (gpu.Evidence, error) {
			asked++
			return gpu.Evidence{NodeKnown: true, SlicesKnown: true}, nil
		}, slog.New(slog.DiscardHandler))
		for range 2 {
			if l := e.Inspect(t.Context()); l.Offers.NodeKnown != c.asks || l.Offers.NoneHere == c.asks {
				t.Errorf("%s: %+v", c.name, l.Offers)
			}
		}
		if want := map[bool]int{true: 1}[c.asks]; asked != want {
			t.Errorf("%s: asked %d times, want %d", c.name, asked, want)
		}
		writeTestFile(t, filepath.Join(roots.Sys, "bus/pci/devices/9/class"), "0x030200\n")
		writeTestFile(t, filepath.Join(roots.Sys, "bus/pci/devices/9/vendor"), "0x10de\n")
		if l := e.Inspect(t.Context()); asked != 1 || !l.Offers.NodeKnown {
			t.Errorf("%s, and a GPU was put in: asked %d times, %+v", c.name, asked, l.Offers)
		}
	}
}

// TestToolkitIsRead: GPUs are withheld for what the toolkit's configuration says, and for one that cannot be read; and the agent sees at once that it was mended.
func TestToolkitIsRead(t *testing.T) {
	dir := t.TempDir()
	roots := Roots{Sys: filepath.Join(dir, "sys"), Proc: filepath.Join(dir, "proc"), Run: dir, Dev: dir, CDI: []string{dir}}
	writeTestFile(t, filepath.Join(roots.Proc, "driver/nvidia/version"), "NVRM version")
	file := filepath.Join(dir, "etc/nvidia-container-runtime/config.toml")
	e := NewDevices(roots, &topology.Machine{}, file, nil, slog.New(slog.DiscardHandler))
	says := func(name, want string) {
		t.Helper()
		if got := e.Inspect(t.Context()).Offers.Toolkit; (got == "") != (want == "") || !strings.Contains(got, want) || got != "" && !strings.Contains(got, file) {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
	says("no toolkit", "")
	writeTestFile(t, file, "#accept-nvidia-visible-devices-envvar-when-unprivileged = true\n")
	says("as it is installed", "when-unprivileged = false")
	writeTestFile(t, file, "accept-nvidia-visible-devices-envvar-when-unprivileged = false\n")
	says("mended", "")
	writeTestFile(t, file, "accept-nvidia-visible-devices-envvar-when-unprivileged = false\n"+strings.Repeat("#", 1<<20))
	says("too long", "at most")
	if err := errors.Join(os.Remove(file), os.Symlink(filepath.Join(dir, "elsewhere"), file)); err != nil {
		t.Fatal(err)
	}
	says("a link that leads nowhere", "no such file")
	if err := errors.Join(os.Remove(file), os.Mkdir(file, 0o700)); err != nil {
		t.Fatal(err)
	}
	says("a directory", "no file")
	if err := os.Remove(filepath.Join(roots.Proc, "driver/nvidia/version")); err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Join(roots.Sys, "bus/pci/devices"), 0o700); err != nil {
		t.Fatal(err)
	}
	says("no GPU", "")
}

func writeTestFile(t *testing.T, path, text string) {
	t.Helper()
	if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, []byte(text), 0o600)); err != nil {
		t.Fatal(err)
	}
}
