package node

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/node/devices"
	"hilbert.dev/hilbert/node/gpu"
	"hilbert.dev/hilbert/node/gpu/kubelet"
)

// kubeletAnswers is what a kubelet says that it gave.
type kubeletAnswers struct {
	mu   sync.Mutex
	pods map[string]string // by name: "nvidia.com/gpu=GPU-a …"
	err  error
	asks int
}

func (k *kubeletAnswers) list(context.Context) (out []kubelet.ListedPod, err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.asks++
	for _, name := range slices.Sorted(maps.Keys(k.pods)) {
		l := kubelet.ListedPod{Namespace: "default", Name: "pod-" + name}
		for word := range strings.FieldsSeq(k.pods[name]) {
			resource, id, _ := strings.Cut(word, "=")
			l.Devices = append(l.Devices, kubelet.Device{Resource: resource, ID: id})
		}
		out = append(out, l)
	}
	return out, k.err
}

// has says what the kubelet gave to a pod, and fails what it answers if err is one.
func (k *kubeletAnswers) has(name, words string, err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.err = err
	if name != "" {
		k.pods[name] = words
	}
}

func (k *kubeletAnswers) forget(name string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	delete(k.pods, name)
}

func (k *kubeletAnswers) asked() int {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.asks
}

// withPlugin is a world whose kubelet offers two GPUs for a device plugin.
func withPlugin(t *testing.T) (*world, *scriptedDevices, *kubeletAnswers) {
	t.Helper()
	w, e := withDevices(t)
	k := &kubeletAnswers{pods: make(map[string]string)}
	w.given = k.list
	e.do(twoGPUs, func(l *devices.Inspection) { l.Offers.Offered = map[string]int64{"nvidia.com/gpu": 2} })
	return w, e, k
}

// gift is what is said that the kubelet gave to a pod.
func gift(d *spec.Devices, uid string) string {
	if d != nil {
		for _, a := range d.Allocations {
			if a.UID == uid && a.Owner == spec.OwnerKubelet {
				return a.GPUs
			}
		}
	}
	return ""
}

// others are the devices that no allocation says.
func others(d *spec.Devices) (out []string) {
	if d == nil || d.Kubelet == nil {
		return nil
	}
	for _, o := range d.Kubelet.Others {
		where := "?"
		if o.GPU != nil {
			where = fmt.Sprint(*o.GPU)
		}
		out = append(out, fmt.Sprintf("%s %s=%s of %s", o.Name, o.Resource, o.ID, where))
	}
	return out
}

// What the kubelet gave is read back: by UUID and replica, beside cards that the agent gave, and again after a restart.
func TestGivenIsReadBack(t *testing.T) {
	w, _, k := withPlugin(t)
	k.has("train", "nvidia.com/gpu=GPU-b", nil)
	k.has("share", "nvidia.com/gpu=GPU-a::0 nvidia.com/gpu=GPU-a::3", nil)
	k.has("plain", "", nil)
	w.start()
	w.says("the kubelet's", func(d *spec.Devices) bool { return d != nil && d.Owner == spec.OwnerKubelet })
	train := withGPUs("train", "0") // the scheduler counts, the kubelet chooses
	train.Annotations[spec.AnnotationNICs] = "0:1000"
	w.mustRun(train)
	w.mustRun(sandbox("share", 1))
	w.mustRun(sandbox("plain", 1))
	for range 2 {
		w.says("who has which", func(d *spec.Devices) bool { return gift(d, "train") == "1" && gift(d, "share") == "0" })
		d, gpus := w.devices()
		if allocation(d, "train") != "1 0:1000" || len(d.Allocations) != 2 || d.Kubelet != nil || gpus != "0/2 free, owner kubelet" {
			t.Errorf("%+v, %+v, %q", d.Allocations, d.Kubelet, gpus)
		}
		w.stop()
		w.store.data = nil // what runs is adopted
		w.start()
	}
	w.end(sandbox("share", 1))
	w.says("the kubelet still has it", func(d *spec.Devices) bool {
		return gift(d, "share") == "" && slices.Equal(others(d), []string{"pod-share nvidia.com/gpu=GPU-a::0 of 0", "pod-share nvidia.com/gpu=GPU-a::3 of 0"})
	})
	k.forget("share")
	w.mustRun(sandbox("more", 1)) // so that it is asked
	w.says("it is gone", func(d *spec.Devices) bool { return d.Kubelet == nil && gift(d, "train") == "1" })
	if _, gpus := w.devices(); gpus != "1/2 free, owner kubelet" {
		t.Errorf("left: %q", gpus)
	}
}

// An answer that fails, or that leaves a pod out, says nothing: what was known stays, and the reason is said while nothing was ever read.
func TestKubeletThatDoesNotSay(t *testing.T) {
	w, _, k := withPlugin(t)
	k.has("train", "nvidia.com/gpu=GPU-b", errors.New("it is starting"))
	w.start()
	w.mustRun(sandbox("train", 1))
	w.says("that it is not known", func(d *spec.Devices) bool {
		return d != nil && d.Owner == spec.OwnerKubelet && d.Kubelet != nil && d.Kubelet.Unread == "it is starting"
	})
	if d, gpus := w.devices(); len(d.Allocations) != 0 || gpus != "2, owner kubelet" {
		t.Errorf("%+v, %q", d.Allocations, gpus)
	}
	if s := w.state(); s.Kubelet.Unread == 0 || s.Kubelet.Read != 0 {
		t.Errorf("counted: %d read, %d not", s.Kubelet.Read, s.Kubelet.Unread)
	}
	k.has("", "", nil)
	w.says("it is read", func(d *spec.Devices) bool { return gift(d, "train") == "1" && d.Kubelet == nil })
	k.forget("train")
	w.mustRun(sandbox("new", 1)) // so that it is asked
	before := k.asked()
	w.eventually("it is asked", func() bool { return k.asked() > before })
	w.ticks(2)
	if d, _ := w.devices(); gift(d, "train") != "1" {
		t.Errorf("it is not listed, and runs: %+v", d.Allocations)
	}
	unread := w.state().Kubelet.Unread
	k.has("", "", errors.New("no answer"))
	w.mustRun(sandbox("another", 1)) // so that it is asked
	w.eventually("it does not answer", func() bool { return w.state().Kubelet.Unread > unread })
	w.agent.Ask(patience, func(a *Agent) {
		now, _ := a.devices.Status(time.Now())
		later, _ := a.devices.Status(time.Now().Add(3 * time.Minute))
		if now.Kubelet != nil || later.Kubelet == nil || !strings.Contains(later.Kubelet.Unread, "as of ") || !strings.Contains(later.Kubelet.Unread, ": no answer") || gift(later, "train") != "1" {
			t.Errorf("what is old: %+v", later.Kubelet)
		}
	})
}

// A device that nobody knows is told once, and counted; so are those that no allocation can say.
func TestGivenDevicesThatAreNotKnown(t *testing.T) {
	w, _, k := withPlugin(t)
	k.has("who", "nvidia.com/gpu=tegra", nil)
	k.has("both", "nvidia.com/gpu=GPU-a amd.com/gpu=GPU-b", nil)
	w.start()
	w.mustRun(sandbox("who", 1))
	w.mustRun(sandbox("both", 1))
	w.says("it is told", func(d *spec.Devices) bool {
		return slices.Equal(others(d), []string{"pod-who nvidia.com/gpu=tegra of ?"}) && gift(d, "both") == "0"
	})
	w.ticks(3)
	if _, gpus := w.devices(); gpus != "0/2 free, owner kubelet" {
		t.Errorf("both are held, whichever it is: %q", gpus)
	}
	told := slices.DeleteFunc(w.events(), func(e string) bool { return !strings.Contains(e, spec.ReasonDeviceUnknown) })
	if want := `pod-who: DeviceUnknown: the kubelet gave it nvidia.com/gpu "tegra", and it is not known which GPU that is`; !slices.Equal(told, []string{want}) {
		t.Errorf("told: %q", told)
	}
	if s := w.state(); s.Kubelet.Found != 1 || s.Kubelet.Unknown != 1 {
		t.Errorf("%d found, %d unknown", s.Kubelet.Found, s.Kubelet.Unknown)
	}
}

// When the device plugin is gone, its pods keep what they have: it is charged, their processes are no strangers, their containers are not hidden from it; and
// nothing is ours before it is known who has what.
func TestGivenOutlastsThePlugin(t *testing.T) {
	w, e, k := withPlugin(t)
	w.owner = spec.OwnerHilbert
	k.has("train", "nvidia.com/gpu=GPU-b", nil)
	w.start()
	train := sandbox("train", 1)
	w.mustRun(train)
	w.says("the kubelet gave it", func(d *spec.Devices) bool { return gift(d, "train") == "1" })
	k.has("", "", errors.New("it is starting"))
	e.do("compute-on 0000:86:00.0 7 python", func(l *devices.Inspection) {
		l.Offers.Offered, l.Cgroups = nil, map[int]string{7: "/" + train.Cgroup + "/c"}
	})
	w.says("nobody's, until the kubelet has said what it gave since", func(d *spec.Devices) bool {
		return d.Owner == spec.OwnerNone && strings.Contains(d.Reason, "has not said which GPUs it gave to pods: it is starting") && gift(d, "train") == "1"
	})
	if _, err := w.run(withGPUs("early", "0")); err == nil || !strings.Contains(err.Error(), "the kubelet tries again") {
		t.Errorf("whose it is to give is not known: %v", err)
	}
	if broken := w.broken(); len(broken) != 0 {
		t.Errorf("promises are broken: %q", broken)
	}
	k.has("", "", nil)
	w.says("ours", func(d *spec.Devices) bool {
		return d.Owner == spec.OwnerHilbert && gift(d, "train") == "1" && d.GPUs[0].Closed == "" && d.GPUs[1].Closed == ""
	})
	if _, gpus := w.devices(); gpus != "1/2 free" {
		t.Errorf("left: %q", gpus)
	}
	if got := edits(w.mustRun(train, asking)); got != "" {
		t.Errorf("its container, again: %q", got)
	}
	if got := edits(w.mustRun(sandbox("none", 1), asking)); !strings.HasPrefix(got, hidden) {
		t.Errorf("one without: %q", got)
	}
	a := w.mustRun(withGPUs("next", "1")) // promised what the kubelet's pod has: another is taken
	if d, _ := w.devices(); allocation(d, "next") != "0 moved" || !strings.HasPrefix(edits(a), "nvidia.com/gpu=GPU-a") {
		t.Errorf("%+v, %s", d.Allocations, edits(a))
	}
	if _, err := w.run(withGPUs("last", "1")); err == nil || !strings.Contains(err.Error(), spec.ReasonPromiseBroken) {
		t.Errorf("none is left: %v", err)
	}
}

// A GPU of which the kubelet gave what cannot be charged is closed once it is ours.
func TestGivenThatCannotBeChargedClosesItsGPU(t *testing.T) {
	w, e, k := withPlugin(t)
	w.owner = spec.OwnerHilbert
	e.do(`mig 0000:86:00.0 on
instance 0000:86:00.0 MIG-x 3g.20gb 1 42 19968
instance 0000:86:00.0 MIG-y 1g.5gb 3 14 4864`, func(l *devices.Inspection) {
		l.Catalog = catalogOf(t, `{"name": "GPU-a", "containerEdits": {"deviceNodes": [{"path": "/dev/nvidia0"}]}},
			{"name": "MIG-x", "containerEdits": {"deviceNodes": [{"path": "/dev/nvidia1"}]}}, {"name": "MIG-y", "containerEdits": {"deviceNodes": [{"path": "/dev/nvidia1"}]}}`)
	})
	k.has("two", "nvidia.com/mig-3g.20gb=MIG-x nvidia.com/mig-1g.5gb=MIG-y", nil)
	w.start()
	w.mustRun(sandbox("two", 1))
	w.says("what it has", func(d *spec.Devices) bool {
		return slices.Equal(others(d), []string{"pod-two nvidia.com/mig-3g.20gb=MIG-x of 1", "pod-two nvidia.com/mig-1g.5gb=MIG-y of 1"})
	})
	e.do("", func(l *devices.Inspection) { l.Offers.Offered = nil })
	w.says("closed", func(d *spec.Devices) bool {
		return d.Owner == spec.OwnerHilbert && d.GPUs[0].Closed == "" && strings.HasPrefix(d.GPUs[1].Closed, string(gpu.Foreign)) &&
			strings.Contains(d.GPUs[1].Closed, "the kubelet gave default/pod-two nvidia.com/mig-")
	})
	k.has("two", "", nil)
	w.end(sandbox("two", 1))
	w.says("open again", func(d *spec.Devices) bool { return d.GPUs[1].Closed == "" && d.Kubelet == nil })
}

// The Node cannot be read when the agent starts, and no checkpoint tells: whole GPUs that a pod was promised are not taken for ours, or the plugin would
// seem to sell what we gave.
func TestPromisesOfAPluginAreNotTakenForOurs(t *testing.T) {
	w, e, k := withPlugin(t)
	k.has("train", "nvidia.com/gpu=GPU-b", nil)
	w.start()
	w.says("the kubelet's", func(d *spec.Devices) bool { return d != nil && d.Owner == spec.OwnerKubelet })
	w.mustRun(withGPUs("train", "0"))
	w.stop()
	w.store.data = nil
	e.do("", func(l *devices.Inspection) { l.Offers.NodeKnown, l.Offers.Offered = false, nil })
	w.start()
	w.says("it is not known whose", func(d *spec.Devices) bool { return d != nil && d.Owner == spec.OwnerNone && gift(d, "train") == "1" })
	e.do("", func(l *devices.Inspection) {
		l.Offers.NodeKnown, l.Offers.Offered = true, map[string]int64{"nvidia.com/gpu": 2}
	})
	w.says("the kubelet's", func(d *spec.Devices) bool { return d.Owner != spec.OwnerNone })
	if d, _ := w.devices(); d.Owner != spec.OwnerKubelet || strings.Contains(d.Reason, string(gpu.OwnContested)) || gift(d, "train") != "1" {
		t.Errorf("%s: %s; %+v", d.Owner, d.Reason, d.Allocations)
	}
}

// A GPU that the kubelet gave keeps its number and its name while it is held, whatever is at its address.
func TestGivenGPUThatIsReplaced(t *testing.T) {
	w, e, k := withPlugin(t)
	k.has("train", "nvidia.com/gpu=GPU-b", nil)
	w.start()
	w.mustRun(sandbox("train", 1))
	w.says("read", func(d *spec.Devices) bool { return gift(d, "train") == "1" })
	e.do("uuid 0000:86:00.0 GPU-z")
	w.says("another is there", func(d *spec.Devices) bool {
		return strings.HasPrefix(d.GPUs[1].Closed, string(gpu.Replaced)) && d.GPUs[1].UUID == "GPU-b" && gift(d, "train") == "1"
	})
}

// The kubelet is asked when a pod has come or gone, and else seldom.
func TestKubeletIsAskedSeldom(t *testing.T) {
	w, _, k := withPlugin(t)
	k.has("train", "nvidia.com/gpu=GPU-b", nil)
	w.start()
	w.mustRun(sandbox("train", 1))
	w.says("read", func(d *spec.Devices) bool { return gift(d, "train") == "1" })
	w.ticks(2)
	before := k.asked()
	w.ticks(10)
	if now := k.asked(); now != before {
		t.Errorf("asked %d times though nothing changed", now-before)
	}
	w.end(sandbox("train", 1))
	w.eventually("it is asked", func() bool { return k.asked() > before })
}
