package node

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/node/cdi"
	"hilbert.dev/hilbert/node/devices"
	"hilbert.dev/hilbert/node/gpu"
	"hilbert.dev/hilbert/node/gpu/gputest"
	"hilbert.dev/hilbert/node/runtime"
	"hilbert.dev/hilbert/topology"
)

// scriptedDevices inspect a driver that follows a script.
type scriptedDevices struct {
	mu     sync.Mutex
	driver *gputest.Driver
	look   devices.Inspection
	hold   chan struct{} // a look waits for it; nil: none does
	looks  int
}

func (e *scriptedDevices) Inspect(ctx context.Context) devices.Inspection {
	e.mu.Lock()
	hold := e.hold
	e.mu.Unlock()
	if hold != nil {
		select {
		case <-hold:
		case <-ctx.Done():
		}
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.looks++
	l := e.look
	l.Seen = e.driver.Observation()
	return l
}

// do changes what they see.
func (e *scriptedDevices) do(lines string, more ...func(*devices.Inspection)) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for line := range strings.Lines(lines) {
		e.driver.Do(line)
	}
	for _, f := range more {
		f(&e.look)
	}
}

const twoGPUs = `add 0000:3b:00.0 uuid=GPU-a
add 0000:86:00.0 uuid=GPU-b`

// withDevices is a world with a card and the places of two GPUs, of which the driver knows. Nobody offers them.
func withDevices(t *testing.T) (*world, *scriptedDevices) {
	t.Helper()
	dir := t.TempDir()
	err := os.WriteFile(filepath.Join(dir, "nvidia.json"), []byte(`{"cdiVersion": "0.5.0", "kind": "nvidia.com/gpu", "devices": [
 {"name": "GPU-a", "containerEdits": {"deviceNodes": [{"path": "/dev/nvidia0"}]}},
 {"name": "GPU-b", "containerEdits": {"deviceNodes": [{"path": "/dev/nvidia1"}]}}]}`), 0o600)
	if err != nil {
		t.Fatal(err)
	}
	catalog, err := cdi.ReadCatalog(dir)
	if err != nil {
		t.Fatal(err)
	}
	e := &scriptedDevices{driver: gputest.New(t), look: devices.Inspection{
		Loaded: true, Catalog: catalog, Offers: gpu.Evidence{NodeKnown: true, SlicesKnown: true}, Bandwidth: map[string]uint32{"0000:3c:00.0": 25000},
	}}
	w := newWorld(t)
	w.inspector, w.hardware = e, machine()
	w.hardware.Devices = []topology.Device{
		{Address: "0000:3b:00.0", Kind: topology.DeviceGPU, NUMA: 0},
		{Address: "0000:3c:00.0", Kind: topology.DeviceNIC, NUMA: 0, Names: []string{"eth0"}, RDMA: []string{"mlx5_0"}},
		{Address: "0000:86:00.0", Kind: topology.DeviceGPU, NUMA: 1},
	}
	return w, e
}

// devices is what the agent says of its devices now.
func (w *world) devices() (d *spec.Devices, gpus string) {
	w.Helper()
	if !w.agent.Ask(patience, func(a *Agent) {
		s := a.Status().Status
		d, gpus = s.Devices, s.Summary.GPUs
	}) {
		w.Fatal("the loop is stuck")
	}
	return d, gpus
}

// says waits until a look has made it so.
func (w *world) says(what string, holds func(d *spec.Devices) bool) {
	w.Helper()
	w.eventually(what, func() bool {
		d, _ := w.devices()
		var judged bool
		w.agent.Ask(patience, func(a *Agent) { _, judged = a.devices.Looked() })
		return judged && holds(d)
	})
}

func TestDevicesAreSaid(t *testing.T) {
	w, e := withDevices(t)
	e.do(twoGPUs)
	w.start()
	w.says("two GPUs and a card", func(d *spec.Devices) bool { return d != nil && len(d.GPUs) == 2 && len(d.NICs) == 1 })
	d, gpus := w.devices()
	card := d.NICs[0]
	if card.Name != "eth0" || card.BandwidthMbit != 25000 || !card.RDMA || card.NUMA == nil || *card.NUMA != 0 {
		t.Errorf("the card: %+v", card)
	}
	for i, uuid := range []string{"GPU-a", "GPU-b"} {
		if g := d.GPUs[i]; g.Index != i || g.UUID != uuid || g.Closed != "" || *g.NUMA != i || *g.Socket != i || g.MemoryMiB == 0 {
			t.Errorf("GPU %d: %+v", i, g)
		}
	}
	if d.Owner == spec.OwnerHilbert || gpus == "" {
		t.Errorf("nobody else has offered them for no time at all: %s, %s; %s", d.Owner, d.Reason, gpus)
	}
	e.do("health 0000:3b:00.0 recovery=Reset")
	w.says("it is closed, with why", func(d *spec.Devices) bool {
		return strings.HasPrefix(d.GPUs[0].Closed, string(gpu.Unhealthy)) && d.GPUs[1].Closed == ""
	})
}

// An index belongs to an address, whatever becomes of it, and the agent's restart changes nothing.
func TestNumbersOfDevicesLast(t *testing.T) {
	w, e := withDevices(t)
	e.do(twoGPUs)
	w.start()
	w.says("two GPUs", func(d *spec.Devices) bool { return d != nil && len(d.GPUs) == 2 })
	w.stop()
	e.do("remove 0000:3b:00.0")
	w.hardware.Devices = w.hardware.Devices[2:]
	w.hardware.Devices = append(w.hardware.Devices, topology.Device{Address: "0000:01:00.0", Kind: topology.DeviceNIC, NUMA: 0, Names: []string{"eth1"}})
	w.start()
	w.says("the second is still the second", func(d *spec.Devices) bool {
		return d != nil && len(d.GPUs) == 2 && strings.HasPrefix(d.GPUs[0].Closed, string(gpu.Vanished)) && d.GPUs[1].UUID == "GPU-b" && d.GPUs[1].Closed == ""
	})
	if d, _ := w.devices(); len(d.NICs) != 2 || d.NICs[0].Address != "0000:3c:00.0" || d.NICs[0].Closed == "" || d.NICs[1].Name != "eth1" {
		t.Errorf("cards: %+v", d.NICs)
	}
}

// Numbers that would not outlast the agent are promised to nobody.
func TestNumbersThatCannotBeKept(t *testing.T) {
	w, e := withDevices(t)
	e.do(twoGPUs)
	w.numbers.fail = errors.New("disk full")
	w.start()
	w.says("why", func(d *spec.Devices) bool {
		return d != nil && d.Owner == spec.OwnerNone && strings.Contains(d.Reason, "disk full")
	})
}

// Who owns the GPUs of a node that others may sell too, and what is said of nodes whose GPUs are not seen.
func TestOwnerIsSaid(t *testing.T) {
	w, e := withDevices(t)
	e.do("", func(l *devices.Inspection) { l.Loaded = false })
	e.driver.Do("unload")
	w.start()
	w.says("no GPU, and the card", func(d *spec.Devices) bool {
		return d != nil && d.Owner == spec.OwnerNone && strings.HasPrefix(d.Reason, string(gpu.OwnNoGPU)) && len(d.NICs) == 1 && len(d.GPUs) == 0
	})
	known := e.look.Offers
	e.do("", func(l *devices.Inspection) { l.Offers = gpu.Evidence{NoneHere: true} })
	w.says("the card, and GPUs are the kubelet's if there are any after all", func(d *spec.Devices) bool {
		return d != nil && d.Owner == spec.OwnerKubelet && strings.HasPrefix(d.Reason, string(gpu.OwnNoGPU)) && len(d.NICs) == 1 && len(d.GPUs) == 0
	})
	e.do("", func(l *devices.Inspection) { l.Offers = known })
	offers := func(l *devices.Inspection) { l.Offers.Offered = map[string]int64{"nvidia.com/gpu": 2} }
	e.do("", offers)
	w.says("nothing, where the kubelet offers GPUs that are not seen", func(d *spec.Devices) bool { return d == nil })
	e.do("", func(l *devices.Inspection) { l.Loaded, l.Offers.Offered = true, nil })
	w.ticks(3)
	if d, _ := w.devices(); d != nil {
		t.Errorf("a driver is loaded and says nothing: %+v", d)
	}
	e.do("load\n"+twoGPUs, offers, func(l *devices.Inspection) { l.Catalog = &cdi.Catalog{} })
	w.says("the kubelet's, and open although no CDI specification knows them", func(d *spec.Devices) bool {
		return d != nil && d.Owner == spec.OwnerKubelet && len(d.GPUs) == 2 && d.GPUs[0].Closed == ""
	})
	e.do("", func(l *devices.Inspection) { l.Offers.Offered = nil })
	w.says("nobody's, and closed", func(d *spec.Devices) bool {
		return d != nil && d.Owner == spec.OwnerNone && strings.HasPrefix(d.GPUs[0].Closed, string(gpu.Uninjectable))
	})
}

// The first report waits for the first look: one without devices would say that nobody knows of any.
func TestFirstReportHasDevices(t *testing.T) {
	w, e := withDevices(t)
	e.do(twoGPUs)
	e.hold = make(chan struct{})
	w.start()
	w.ticks(3)
	w.mu.Lock()
	early := len(w.reports)
	w.mu.Unlock()
	close(e.hold)
	first := func() *spec.NodeReport {
		w.mu.Lock()
		defer w.mu.Unlock()
		if len(w.reports) == 0 {
			return nil
		}
		return w.reports[0]
	}
	w.eventually("it reports", func() bool { return first() != nil })
	if r := first(); early != 0 || r.Status.Devices == nil || len(r.Status.Devices.GPUs) != 2 {
		t.Errorf("%d reports before; %+v", early, r.Status.Devices)
	}
}

// promised is a pod with network cards that its Binding names.
func promised(uid, nics string) runtime.Sandbox {
	s := sandbox(uid, 1)
	s.Annotations[spec.AnnotationNICs] = nics
	return s
}

// allocation is what is said of a pod's devices: "nics=0:10000 moved"; empty: nothing.
func allocation(d *spec.Devices, uid string) (out string) {
	if d == nil {
		return ""
	}
	for _, a := range d.Allocations {
		if a.UID != uid {
			continue
		}
		out = strings.TrimSpace(a.GPUs + " " + a.NICs)
		if a.Moved {
			out += " moved"
		}
	}
	return out
}

// The promise of a card is kept, moved or broken, told in the report, and outlasts the agent.
func TestPromisedCards(t *testing.T) {
	w, e := withDevices(t)
	w.hardware.Devices = append(w.hardware.Devices, topology.Device{Address: "0000:87:00.0", Kind: topology.DeviceNIC, NUMA: 1, RDMA: []string{"mlx5_1"}})
	e.do("unload", func(l *devices.Inspection) { l.Loaded, l.Bandwidth["0000:87:00.0"] = false, 25000 })
	e.hold = make(chan struct{})
	w.start()
	if _, err := w.run(promised("early", "0:10000")); err == nil || !strings.Contains(err.Error(), "not looked at yet") {
		t.Errorf("before the devices are known: %v", err)
	}
	close(e.hold)
	w.says("the cards", func(d *spec.Devices) bool { return d != nil && len(d.NICs) == 2 })
	w.mustRun(promised("kept", "0:20000"))
	moved := promised("moved", "0:10000")
	w.mustRun(moved)
	for uid, want := range map[string]string{"kept": "0:20000", "moved": "1:10000 moved"} {
		if d, _ := w.devices(); allocation(d, uid) != want {
			t.Errorf("%s: %q, want %q", uid, allocation(d, uid), want)
		}
	}
	if _, err := w.run(promised("broken", "0:20000")); err == nil || !strings.Contains(err.Error(), spec.ReasonPromiseBroken) {
		t.Errorf("no card has so much: %v", err)
	}
	if broken := w.broken(); len(broken) != 1 || broken[0] != "pod-broken" {
		t.Errorf("broken are %q", broken)
	}
	d, _ := w.devices()
	if !strings.HasPrefix(d.NICs[0].Closed, spec.ReasonPromiseBroken) || d.NICs[1].Closed != "" || allocation(d, "broken") != "" {
		t.Errorf("the card that was promised is closed at once: %+v", d)
	}
	if _, err := w.run(promised("forged", "no card")); err != nil {
		t.Errorf("what nobody can have promised counts as nothing: %v", err)
	}
	w.stop()
	w.start()
	w.says("what they held they hold", func(d *spec.Devices) bool {
		return allocation(d, "kept") == "0:20000" && allocation(d, "moved") == "1:10000 moved"
	})
	w.stop()
	w.store.data = nil
	w.start()
	w.says("what runs is adopted with what its containers say that it has", func(d *spec.Devices) bool {
		return allocation(d, "kept") == "0:20000" && allocation(d, "moved") == "1:10000"
	})
	w.end(moved)
	w.says("who has gone holds nothing", func(d *spec.Devices) bool { return allocation(d, "moved") == "" && allocation(d, "kept") != "" })
}
