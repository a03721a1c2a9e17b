package node

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/node/cdi"
	"hilbert.dev/hilbert/node/devices"
	"hilbert.dev/hilbert/node/gpu"
	"hilbert.dev/hilbert/node/mps"
	"hilbert.dev/hilbert/node/runtime"
)

// ourGPUs is a world whose two GPUs are the agent's to give, and an MPS daemon serves the first.
func ourGPUs(t *testing.T) (*world, *scriptedDevices) {
	t.Helper()
	w, e := withDevices(t)
	w.owner = spec.OwnerHilbert
	e.do(twoGPUs, func(l *devices.Inspection) {
		l.Served = map[string]mps.Shared{"GPU-a": {Name: "shm-0123456789", Seen: time.Now().Add(time.Second)}}
	})
	w.start()
	w.says("they are ours", func(d *spec.Devices) bool { return d != nil && len(d.GPUs) == 2 && d.Owner == spec.OwnerHilbert })
	return w, e
}

// withGPUs is a pod whose Binding promises GPUs.
func withGPUs(uid, gpus string) runtime.Sandbox {
	s := sandbox(uid, 1)
	s.Annotations[spec.AnnotationGPUs] = gpus
	return s
}

// asking is a container whose image asks for all GPUs, in both ways.
func asking(c *runtime.Container) {
	c.Env = []string{"PATH=/bin", "NVIDIA_VISIBLE_DEVICES=all"}
	c.Mounts = []string{"/data", "/var/run/nvidia-container-devices/all"}
}

// as is a container of a user.
func as(uid uint32) func(*runtime.Container) { return func(c *runtime.Container) { c.User = &uid } }

// ownUsers is a container with a user namespace.
func ownUsers(c *runtime.Container) { c.UserNamespace = true }

// edits is what a container got of devices, as text.
func edits(a runtime.Adjustment) string {
	e := &a.Devices
	words := slices.Concat(e.Devices, e.Env)
	for _, m := range e.Mounts {
		words = append(words, m.Source+":"+m.Place)
	}
	for _, place := range e.Without {
		words = append(words, "-"+place)
	}
	return strings.Join(words, " ")
}

const (
	hidden = "NVIDIA_VISIBLE_DEVICES=void"
	soft   = "nvidia.com/gpu=GPU-a " + hidden + " CUDA_MPS_PIPE_DIRECTORY=/tmp/nvidia-mps CUDA_MPS_ACTIVE_THREAD_PERCENTAGE=25.2 " +
		"CUDA_MPS_PINNED_DEVICE_MEM_LIMIT=0=10240M /run/hilbert/mps/GPU-a/pipe:/tmp/nvidia-mps /run/hilbert/mps/GPU-a/shm-0123456789:/dev/shm"
)

// A pod gets exactly what it holds, and one that holds nothing sees no GPU, whatever its image asks for.
func TestContainersGetWhatTheirPodsHold(t *testing.T) {
	w, _ := ourGPUs(t)
	whole, slice := withGPUs("whole", "1"), withGPUs("slice", "0:252/10240Mi/soft")
	for _, c := range []struct {
		pod  runtime.Sandbox
		want string
	}{
		{whole, "nvidia.com/gpu=GPU-b " + hidden + " -/var/run/nvidia-container-devices/all"},
		{slice, soft + " -/var/run/nvidia-container-devices/all"},
		{sandbox("none", 1), hidden + " -/var/run/nvidia-container-devices/all"},
	} {
		if got := edits(w.mustRun(c.pod, asking)); got != c.want {
			t.Errorf("%s: %s, want\n%s", c.pod.Name, got, c.want)
		}
	}
	if got := edits(w.mustRun(sandbox("modest", 1))); got != hidden {
		t.Errorf("one that asks for nothing may be of an image from before: %s", got)
	}
	if d, _ := w.devices(); allocation(d, "whole") != "1" || allocation(d, "slice") != "0:252/10240Mi/soft" {
		t.Errorf("%+v", d.Allocations)
	}
}

// While NVIDIA's container toolkit gives GPUs to whoever asks, the agent offers none and says why. What pods hold stays theirs, and hidden from others.
func TestOpenToolkit(t *testing.T) {
	w, e := ourGPUs(t)
	whole := withGPUs("whole", "1")
	w.mustRun(whole)
	open := func(why string) {
		e.do("", func(l *devices.Inspection) { l.Offers.Toolkit = why })
	}
	withheld := func(d *spec.Devices) bool {
		return d.Owner == spec.OwnerNone && d.Reason == string(gpu.OwnToolkitOpen)+": config.toml: set it"
	}
	open("config.toml: set it")
	w.says("none is offered", withheld)
	if got := edits(w.mustRun(whole)); got != "nvidia.com/gpu=GPU-b "+hidden {
		t.Errorf("what it held before: %s", got)
	}
	if got := edits(w.mustRun(sandbox("none", 1), asking)); !strings.HasPrefix(got, hidden) {
		t.Errorf("who holds none: %s", got)
	}
	open("")
	w.says("it was mended", func(d *spec.Devices) bool { return d.Owner == spec.OwnerHilbert })
	w.stop()
	w.ignoreToolkit = true
	open("config.toml: set it")
	w.start()
	w.says("whatever it is set to", func(d *spec.Devices) bool { return d != nil && d.Owner == spec.OwnerHilbert })
}

// A container that starts again gets the same, after a restart of the agent too, even if the GPU is closed since; and what runs is adopted.
func TestRestartedContainersKeepTheirDevices(t *testing.T) {
	w, e := ourGPUs(t)
	slice := withGPUs("slice", "0:252/10240Mi/soft")
	first := edits(w.mustRun(slice))
	e.do("health 0000:3b:00.0 pending")
	w.says("it is closed", func(d *spec.Devices) bool { return d.GPUs[0].Closed != "" })
	if got := edits(w.mustRun(slice)); got != first || got != soft {
		t.Errorf("again: %s, want %s", got, first)
	}
	for _, lost := range []bool{false, true} {
		w.stop()
		if lost {
			w.store.data = nil
		}
		w.start()
		w.says("it has what it had", func(d *spec.Devices) bool { return allocation(d, "slice") == "0:252/10240Mi/soft" })
		if got := edits(w.mustRun(slice)); got != first {
			t.Errorf("after a restart, checkpoint lost %t: %s", lost, got)
		}
	}
	e.do("", func(l *devices.Inspection) { l.Offers.Slices = 1 })
	w.says("they are ours no longer", func(d *spec.Devices) bool { return d.Owner == spec.OwnerNone })
	if got := edits(w.mustRun(slice)); got != first {
		t.Errorf("no longer ours, and it holds one: %s", got)
	}
	if got := edits(w.mustRun(sandbox("beside", 1), asking)); !strings.HasPrefix(got, hidden) {
		t.Errorf("no longer ours, and one is held by another: %s", got)
	}
	e.do("", func(l *devices.Inspection) { l.Offers.Slices = 0 })
	w.says("they are ours again", func(d *spec.Devices) bool { return d.Owner == spec.OwnerHilbert })
	w.end(slice)
	w.says("it holds nothing", func(d *spec.Devices) bool { return allocation(d, "slice") == "" })
	if got := edits(w.mustRun(sandbox("later", 1), asking)); !strings.HasPrefix(got, hidden) {
		t.Errorf("who comes after it: %s", got)
	}
}

// Where nobody can be sure of a device, its holder's container is not made; nothing else stands still.
func TestWithheldDevices(t *testing.T) {
	w, e := ourGPUs(t)
	whole, slice := withGPUs("whole", "1"), withGPUs("slice", "0:252/10240Mi/soft")
	w.mustRun(whole)
	w.mustRun(slice, as(1000))
	withheld := func(s runtime.Sandbox, reason, why string, by ...func(*runtime.Container)) {
		t.Helper()
		before := w.state().Withheld[reason]
		_, err := w.run(s, by...)
		if err == nil || !strings.Contains(err.Error(), reason) || !strings.Contains(err.Error(), why) {
			t.Errorf("%s: %v, want %s: …%s", s.Name, err, reason, why)
		}
		if after := w.state().Withheld[reason]; after != before+1 {
			t.Errorf("%s: counted %d times", s.Name, after-before)
		}
		if told := w.events(); !slices.ContainsFunc(told, func(event string) bool { return strings.HasPrefix(event, s.Name+": "+reason) }) {
			t.Errorf("%s: nobody is told: %q", s.Name, told)
		}
	}
	withheld(withGPUs("guest", "0:252/10240Mi/soft"), spec.ReasonSliceOfOtherUser, "those of user 1000", as(7))
	w.end(withGPUs("guest", ""))
	withheld(slice, spec.ReasonSliceOfHostRoot, "hostUsers: false", as(0))
	w.mustRun(slice, as(0), ownUsers) // root, and of no consequence on the host
	w.mustRun(slice, as(7))           // a pod's own containers are not held against each other
	w.mustRun(slice, as(1000))
	if got := edits(w.mustRun(withGPUs("friend", "0:252/10240Mi/soft"), as(1000))); got != soft {
		t.Errorf("of the same user: %s", got)
	}
	e.do("uuid 0000:86:00.0 GPU-z", func(l *devices.Inspection) { l.Served = nil })
	w.says("both are seen", func(d *spec.Devices) bool {
		return d.GPUs[1].Closed != "" && !slices.Contains(d.GPUs[0].Isolation, "soft")
	})
	withheld(whole, spec.ReasonDeviceUncertain, "Replaced")
	withheld(slice, spec.ReasonSliceUnserved, "no MPS daemon serves it", as(1000))
	if got := edits(w.mustRun(sandbox("none", 1), asking)); !strings.HasPrefix(got, hidden) {
		t.Errorf("others run, and see none: %s", got)
	}
	if broken := w.broken(); len(broken) != 0 {
		t.Errorf("the kubelet tries again, and no promise is broken: %q", broken)
	}
}

// The memory that a GPU's daemon shares with its clients is one namespace's: the pods of another wait until there is a new one, and so do all when the agent does not know
// whose it was.
func TestSharedMemoryIsOneNamespaces(t *testing.T) {
	w, e := ourGPUs(t)
	of := func(namespace, uid string) runtime.Sandbox {
		s := withGPUs(uid, "0:252/10240Mi/soft")
		s.Namespace = namespace
		return s
	}
	first := of("red", "first")
	if got := edits(w.mustRun(first, as(1000))); got != soft {
		t.Fatalf("the first: %s", got)
	}
	w.mustRun(of("red", "second"), as(1000))
	w.end(first)
	w.end(of("red", "second"))
	w.mustRun(of("red", "third"), as(1000))
	w.end(of("red", "third"))
	other := of("blue", "other")
	if _, err := w.run(other, as(1000)); err == nil || !strings.Contains(err.Error(), spec.ReasonSliceUnserved) || !strings.Contains(err.Error(), "another namespace") {
		t.Fatalf("another namespace gets what the first had: %v", err)
	}
	e.do("", func(l *devices.Inspection) {
		l.Served = map[string]mps.Shared{"GPU-a": {Name: "shm-new1234567", Used: true, Seen: time.Now()}}
	})
	w.eventually("one that it knows nothing of, and that was used, is not given", func() bool {
		_, err := w.run(other, as(1000))
		return err != nil && strings.Contains(err.Error(), "not known whose")
	})
	e.do("", func(l *devices.Inspection) {
		l.Served = map[string]mps.Shared{"GPU-a": {Name: "shm-new1234567", Seen: time.Now().Add(time.Second)}}
	})
	w.eventually("a new one is given", func() bool {
		a, err := w.run(other, as(1000))
		return err == nil && strings.Contains(edits(a), "/run/hilbert/mps/GPU-a/shm-new1234567:/dev/shm")
	})
}

// A runtime that drops what plugins ask for is given no GPU to drop.
func TestRuntimeThatDropsDevices(t *testing.T) {
	w, e := withDevices(t)
	w.owner, w.runtime = spec.OwnerHilbert, "containerd v2.0.5"
	e.do(twoGPUs)
	w.start()
	w.says("they are closed", func(d *spec.Devices) bool {
		return d != nil && len(d.GPUs) == 2 && strings.HasPrefix(d.GPUs[0].Closed, string(gpu.Uninjectable)) && strings.Contains(d.GPUs[1].Closed, "v2.0.5 drops")
	})
}

// Where others give the GPUs out, or nobody yet, containers are left alone; an observer gets all of them unless somebody else sees to it.
func TestWhoIsLeftAlone(t *testing.T) {
	w, e := withDevices(t)
	all := catalogOf(t, `{"name": "GPU-a", "containerEdits": {"deviceNodes": [{"path": "/dev/nvidia0"}]}}, {"name": "all", "containerEdits": {"deviceNodes": [{"path": "/dev/nvidia0"}]}}`)
	e.do(twoGPUs, func(l *devices.Inspection) { l.Catalog = all })
	observer := sandbox("observer", 1)
	observer.Namespace = runtime.Observers
	w.start()
	w.says("nobody's yet", func(d *spec.Devices) bool { return d != nil && d.Owner == spec.OwnerNone })
	if got := edits(w.mustRun(sandbox("none", 1), asking)); got != "" {
		t.Errorf("nobody's: %s", got)
	}
	if got := edits(w.mustRun(observer, asking)); !strings.HasPrefix(got, "nvidia.com/gpu=all "+hidden) {
		t.Errorf("nobody's, and an observer, which knows the driver: %s", got)
	}
	if got := edits(w.mustRun(observer)); got != "" {
		t.Errorf("an observer that does not ask: %s", got)
	}
	e.do("", func(l *devices.Inspection) { l.Offers.Offered = map[string]int64{"nvidia.com/gpu": 2} })
	w.says("the kubelet's", func(d *spec.Devices) bool { return d.Owner == spec.OwnerKubelet })
	for _, s := range []runtime.Sandbox{sandbox("none", 1), observer, withGPUs("plugin", "0")} {
		if got := edits(w.mustRun(s, asking)); got != "" {
			t.Errorf("the kubelet's, %s: %s", s.Name, got)
		}
	}
}

// catalogOf reads a specification with some devices.
func catalogOf(t *testing.T, devices string) *cdi.Catalog {
	t.Helper()
	dir := t.TempDir()
	err := os.WriteFile(filepath.Join(dir, "nvidia.json"), fmt.Appendf(nil, `{"cdiVersion": "0.5.0", "kind": "nvidia.com/gpu", "devices": [%s]}`, devices), 0o600)
	if err != nil {
		t.Fatal(err)
	}
	catalog, err := cdi.ReadCatalog(dir)
	if err != nil {
		t.Fatal(err)
	}
	return catalog
}

// A process without a grant closes its GPU; one of who holds it does not, wherever below the pod's cgroup it is.
func TestStrangersCloseAGPU(t *testing.T) {
	w, e := ourGPUs(t)
	w.mustRun(withGPUs("slice", "0:252/10240Mi/soft"))
	closed := func(want string) func(*spec.Devices) bool {
		return func(d *spec.Devices) bool {
			return strings.HasPrefix(d.GPUs[0].Closed, want) && (d.GPUs[0].Closed == "") == (want == "") && d.GPUs[1].Closed == ""
		}
	}
	cgroups := func(list map[int]string) func(*devices.Inspection) {
		return func(l *devices.Inspection) { l.Cgroups = list }
	}
	looks := func() {
		e.mu.Lock()
		n := e.looks
		e.mu.Unlock()
		w.eventually("it is looked", func() bool { e.mu.Lock(); defer e.mu.Unlock(); return e.looks > n+1 })
	}
	e.do("compute-on 0000:3b:00.0 7 python", cgroups(map[int]string{7: "/../../podslice/c-slice/inner"}))
	looks()
	w.says("its holder's", closed(""))
	for _, cgroup := range []string{"/user.slice/session-1.scope", "/kubepods/burstable/podother/c-other", "/kubepods/podslice-of-another/c"} {
		e.do("", cgroups(map[int]string{7: cgroup}))
		w.says("a stranger's: "+cgroup, closed(string(gpu.Foreign)+": process 7 (python)"))
		e.do("", cgroups(nil))
		w.says("it has ended", closed(""))
	}
	w.mustRun(sandbox("other", 1))
	e.do("", cgroups(map[int]string{7: "/kubepods/burstable/podother/c-other"}))
	w.says("a pod's that holds nothing", closed(string(gpu.Foreign)))
	e.do("quiet 0000:3b:00.0")
	w.says("nobody computes", closed(""))
	e.do("compute-on 0000:86:00.0 8 python", cgroups(map[int]string{8: "/kubepods/burstable/podslice/c-slice"}))
	w.says("on a GPU that it does not hold", func(d *spec.Devices) bool { return strings.HasPrefix(d.GPUs[1].Closed, string(gpu.Foreign)) })
}

// After a restart of the agent nothing is said, and no pod with devices admitted, before it is known who computes.
func TestStrangersAfterARestart(t *testing.T) {
	w, e := ourGPUs(t)
	w.mustRun(withGPUs("slice", "0:252/10240Mi/soft"))
	w.stop()
	e.do("compute-on 0000:3b:00.0 7 python\ncompute-on 0000:86:00.0 8 python", func(l *devices.Inspection) {
		l.Cgroups = map[int]string{7: "/kubepods/burstable/podslice/c-slice", 8: "/user.slice"}
	})
	reports := func() int {
		w.mu.Lock()
		defer w.mu.Unlock()
		return len(w.reports)
	}
	before := reports()
	w.seldom, w.late = true, true
	w.start()
	w.eventually("it has looked", func() bool {
		var looked bool
		w.agent.Ask(patience, func(a *Agent) { looked, _ = a.devices.Looked() })
		return looked
	})
	if d, _ := w.devices(); d.GPUs[0].Closed != "" || d.GPUs[1].Closed != "" {
		t.Errorf("before it is known who runs nobody is a stranger: %+v", d.GPUs)
	}
	hold := make(chan struct{})
	e.mu.Lock()
	e.hold = hold
	e.mu.Unlock()
	w.connect()
	if _, err := w.run(withGPUs("early", "1")); err == nil || !strings.Contains(err.Error(), "not looked at yet") {
		t.Errorf("a GPU that a stranger computes on: %v", err)
	}
	w.ticks(3)
	if n := reports() - before; n != 0 {
		t.Errorf("%d reports before it is known", n)
	}
	close(hold)
	w.eventually("it reports", func() bool { w.mu.Lock(); defer w.mu.Unlock(); return len(w.reports) > before })
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, r := range w.reports[before:] {
		if d := r.Status.Devices; d == nil || d.GPUs[0].Closed != "" || !strings.HasPrefix(d.GPUs[1].Closed, string(gpu.Foreign)) && !strings.HasPrefix(d.GPUs[1].Closed, spec.ReasonPromiseBroken) {
			t.Errorf("reported: %+v", d)
		}
	}
}

// cardFiles gives card 0 two virtual functions with device files.
func cardFiles(l *devices.Inspection) {
	function := func(address, file string) cdi.Function {
		return cdi.Function{Address: address, Files: []string{"/dev/infiniband/rdma_cm", file}}
	}
	l.Functions = map[string]devices.CardFunctions{"0000:3c:00.0": {
		Card:    function("0000:3c:00.0", "/dev/infiniband/uverbs0"),
		Virtual: []cdi.Function{{Address: "0000:3c:00.1"}, function("0000:3c:00.2", "/dev/infiniband/uverbs2"), function("0000:3c:00.3", "/dev/infiniband/uverbs3")},
	}}
}

// Device files of cards: a share of a card gets the card's, and a virtual function is one pod's alone, over restarts of the agent.
func TestCardsBringTheirDeviceFiles(t *testing.T) {
	w, e := withDevices(t)
	w.hardware.Devices[1].MaxVirtualFunctions = 3
	e.do("unload", cardFiles, func(l *devices.Inspection) { l.Loaded = false })
	w.start()
	w.says("the card", func(d *spec.Devices) bool { return d != nil && len(d.NICs) == 1 && d.NICs[0].Functions == 3 })
	get := func(uid, nics, want string, by ...func(*runtime.Container)) {
		t.Helper()
		a, err := w.run(promised(uid, nics), by...)
		if got := edits(a); got != want || err != nil {
			t.Errorf("%s: %q, %v; want %q", uid, got, err, want)
		}
	}
	get("share", "0:1000", "hilbert.dev/nic=0000:3c:00.0")
	get("one", "0:vf", "hilbert.dev/nic=0000:3c:00.2")
	get("two", "0:vf", "hilbert.dev/nic=0000:3c:00.3")
	get("one", "0:vf", "hilbert.dev/nic=0000:3c:00.2")
	if _, err := w.run(promised("three", "0:vf")); err == nil || !strings.Contains(err.Error(), "no other pod has") {
		t.Errorf("a third: %v", err)
	}
	w.end(promised("three", ""))
	w.stop()
	w.start()
	w.says("they hold them", func(d *spec.Devices) bool { return allocation(d, "two") == "0:vf" })
	get("two", "0:vf", "hilbert.dev/nic=0000:3c:00.3")
	w.end(promised("one", ""))
	w.says("it is forgotten", func(d *spec.Devices) bool { return allocation(d, "one") == "" })
	w.ticks(3)
	get("two", "0:vf", "hilbert.dev/nic=0000:3c:00.3")
	get("four", "0:vf", "hilbert.dev/nic=0000:3c:00.2")
	if data, err := w.numbers.Load(); err != nil || strings.Contains(string(data), `"one"`) {
		t.Errorf("who is gone is remembered: %s, %v", data, err)
	}
	w.numbers.mu.Lock()
	w.numbers.fail = errors.New("disk full")
	w.numbers.mu.Unlock()
	w.end(promised("four", ""))
	w.ticks(3)
	if _, err := w.run(promised("five", "0:vf")); err == nil || !strings.Contains(err.Error(), "disk full") {
		t.Errorf("a function that nobody would remember is given: %v", err)
	}
	e.do("", func(l *devices.Inspection) { l.FunctionsUnknown = map[string]string{"0000:3c:00.0": "no permission"} })
	w.ticks(3)
	if _, err := w.run(promised("share", "0:1000")); err == nil || !strings.Contains(err.Error(), "no permission") {
		t.Errorf("its files are not known: %v", err)
	}
}

// Which function a pod has is learned from the runtime where the agent's memory is lost, else no other pod gets one.
func TestFunctionsWhenTheMemoryIsLost(t *testing.T) {
	for _, told := range []bool{true, false} {
		w, e := withDevices(t)
		w.hardware.Devices[1].MaxVirtualFunctions = 3
		e.do("unload", cardFiles, func(l *devices.Inspection) { l.Loaded = false })
		w.start()
		w.says("the card", func(d *spec.Devices) bool { return d != nil && len(d.NICs) == 1 })
		w.mustRun(promised("one", "0:vf"))
		w.stop()
		w.numbers.data = nil
		if told {
			w.running["one"].containers[0].CDI = []string{"vendor.com/x=y", "hilbert.dev/nic=0000:3c:00.2"}
		}
		w.start()
		w.says("it holds it", func(d *spec.Devices) bool { return allocation(d, "one") == "0:vf" })
		a, err := w.run(promised("two", "0:vf"))
		if got := edits(a); told && got != "hilbert.dev/nic=0000:3c:00.3" || !told && (err == nil || !strings.Contains(err.Error(), "default/pod-one has")) {
			t.Errorf("told %t: %q, %v", told, got, err)
		}
		w.stop()
	}
}

// A MIG instance that is gone keeps its number in the report, and closes nothing else.
func TestInstanceThatIsGoneIsReported(t *testing.T) {
	w, e := withDevices(t)
	w.owner = spec.OwnerHilbert
	e.do(`add 0000:3b:00.0 uuid=GPU-a mig
instance 0000:3b:00.0 MIG-x 3g.20gb 1 42 19968
instance 0000:3b:00.0 MIG-y 1g.5gb 3 14 4864`, func(l *devices.Inspection) {
		l.Catalog = catalogOf(t, `{"name": "MIG-x", "containerEdits": {"deviceNodes": [{"path": "/dev/nvidia0"}]}}, {"name": "MIG-y", "containerEdits": {"deviceNodes": [{"path": "/dev/nvidia0"}]}}`)
	})
	w.start()
	w.says("two instances", func(d *spec.Devices) bool {
		return d != nil && len(d.GPUs) == 1 && len(d.GPUs[0].Instances) == 2 && d.Owner == spec.OwnerHilbert
	})
	if got := edits(w.mustRun(withGPUs("first", "0:mig-0"))); got != "nvidia.com/gpu=MIG-x "+hidden {
		t.Errorf("an instance: %s", got)
	}
	e.do("unmake 0000:3b:00.0 MIG-x")
	w.says("one is gone", func(d *spec.Devices) bool { return d.GPUs[0].Instances[0].Gone })
	d, _ := w.devices()
	if d.GPUs[0].Closed != "" || d.GPUs[0].Instances[1].Gone || d.GPUs[0].Instances[1].Milli == 0 {
		t.Errorf("the other is as it was: %+v", d.GPUs[0])
	}
	if _, err := w.run(withGPUs("first", "0:mig-0")); err == nil || !strings.Contains(err.Error(), spec.ReasonDeviceUncertain) {
		t.Errorf("its holder's container: %v", err)
	}
}
