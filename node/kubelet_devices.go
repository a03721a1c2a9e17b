package node

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"math/bits"
	"slices"
	"strings"
	"time"

	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/node/allocate"
	"hilbert.dev/hilbert/node/gpu"
	"hilbert.dev/hilbert/node/gpu/kubelet"
	"hilbert.dev/hilbert/node/report"
	"hilbert.dev/hilbert/topology"
)

const (
	// kubeletDevicesTimeout bounds a question to the kubelet which devices it gave to pods.
	kubeletDevicesTimeout = 5 * time.Second
	// kubeletDevicesInterval is how often it is asked though no pod has come or gone: devices may have been given to a container since.
	kubeletDevicesInterval = time.Minute
	// kubeletDevicesStale is from when on an answer is said to be old.
	kubeletDevicesStale = 3 * time.Minute
)

// kubeletDevices is what the loop knows of the devices that the kubelet gave to pods.
type kubeletDevices struct {
	assignments kubelet.Assignments
	// tried: there was an answer, or a failure. last is when the last good answer was asked for; zero: there was none. failed is why there was none since.
	tried  bool
	last   time.Time
	failed error
	// changes counts the pods that came and went, seen as of the last good answer.
	changes, seen uint64
	// told are the devices of which it was told that nobody knows them.
	told map[string]bool
	// unaccounted are the devices that no grant says.
	unaccounted []kubelet.Unaccounted
	// good and bad count answers.
	good, bad uint64
}

// kubeletAnswer is an answer of the kubelet.
type kubeletAnswer struct {
	asked   time.Time
	changes uint64
	pods    []kubelet.Pod // that ran then, oldest first
	list    []kubelet.ListedPod
	err     error
}

// mayHaveGPUs reports whether there is a GPU on the node, as far as is known, so that the kubelet may have given some.
func (a *Agent) mayHaveGPUs(l *DeviceInspection) bool {
	return l.Loaded || len(a.devices.numbers.GPU.Slots) > 0 || gpu.Offers(&l.Offers)
}

// kubeletQuestion is one to the kubelet, if it is time; nil: it is not. It is asked beside the loop.
func (a *Agent) kubeletQuestion(now time.Time) func(ctx context.Context) *kubeletAnswer {
	r := &a.devices.kubelet
	doubtful := !a.devices.others && r.assignments.Uncertainty() != "" // then it decides who may give the GPUs out
	switch {
	case a.ports.KubeletDevices == nil, !a.runtime.synced: // before, it is not known who runs
		return nil
	case r.tried && r.failed == nil && !doubtful && len(r.assignments.NotRunning()) == 0 && r.changes == r.seen && now.Sub(r.last) < kubeletDevicesInterval:
		return nil
	}
	q := &kubeletAnswer{asked: now, changes: r.changes}
	order := slices.SortedFunc(maps.Values(a.pods), func(x, y *pod) int { return cmp.Or(x.since.Compare(y.since), cmp.Compare(x.name.UID, y.name.UID)) })
	for _, p := range order {
		q.pods = append(q.pods, kubelet.Pod{UID: p.name.UID, Namespace: p.name.Namespace, Name: p.name.Name})
	}
	return func(ctx context.Context) *kubeletAnswer {
		ctx, cancel := context.WithTimeout(ctx, kubeletDevicesTimeout)
		defer cancel()
		q.list, q.err = a.ports.KubeletDevices(ctx)
		return q
	}
}

// updateKubelet takes an answer over; nil: there is none. What was known stays where the kubelet says nothing.
func (a *Agent) updateKubelet(q *kubeletAnswer) {
	r := &a.devices.kubelet
	runs := func(uid string) bool { return a.pods[uid] != nil }
	r.assignments.Retain(runs)
	maps.DeleteFunc(r.told, func(key string, _ bool) bool {
		uid, _, _ := strings.Cut(key, " ")
		return !runs(uid)
	})
	if q == nil {
		return
	}
	r.tried = true
	if q.err != nil {
		if r.failed == nil {
			a.log.Warn("the kubelet does not say which devices it gave to pods", "err", q.err)
		}
		r.failed, r.bad = q.err, r.bad+1
		return
	}
	r.last, r.seen, r.failed, r.good = q.asked, q.changes, nil, r.good+1
	r.assignments.Update(slices.DeleteFunc(q.pods, func(p kubelet.Pod) bool { return !runs(p.UID) }), q.list)
}

// kubeletUnasked reports whether the kubelet is to be asked before anything is said of the node's devices.
func (a *Agent) kubeletUnasked(l *DeviceInspection) bool {
	return a.ports.KubeletDevices != nil && !a.devices.kubelet.tried && a.mayHaveGPUs(l)
}

// kubeletUncertainty is why pods could hold GPUs of the kubelet's of which nobody knows; empty: none can, or there is no kubelet to ask.
func (a *Agent) kubeletUncertainty() string {
	if a.ports.KubeletDevices == nil {
		return ""
	}
	r := &a.devices.kubelet
	why := r.assignments.Uncertainty()
	if why != "" && r.failed != nil {
		why += ": " + r.failed.Error()
	}
	return why
}

// chargeKubeletDevices finds what the kubelet gave among the GPUs, and has it charged.
func (a *Agent) chargeKubeletDevices(is *topology.Devices) {
	r := &a.devices.kubelet
	if a.ports.KubeletDevices == nil {
		return
	}
	r.assignments.Resolve(a.devices.view.Slots, a.noteUnknownDevice)
	r.unaccounted = a.unaccountedDevices(is)
	charged := make(map[string]allocate.KubeletDevices)
	for _, uid := range r.assignments.UIDs() {
		h, _ := r.assignments.Pod(uid)
		charged[uid] = allocate.KubeletDevices{Any: h.Any}
		if a.chargeable(uid, &h, is) {
			charged[uid] = allocate.KubeletDevices{Any: h.Any, Grant: h.Grant}
		}
	}
	a.manager.SetKubeletDevices(charged)
}

// chargeable reports whether what a pod has of the kubelet can be charged and said: not beside some of ours, and no instance of which nobody knows how
// much it is.
func (a *Agent) chargeable(uid string, h *kubelet.PodDevices, is *topology.Devices) bool {
	held, _ := a.manager.Placement(uid)
	g := h.Grant
	is.Complete(&g)
	return held.Devices.GPUs == 0 && (g.Instance == 0 || g.Milli > 0)
}

// unaccountedDevices are the kubelet's devices that are not charged.
func (a *Agent) unaccountedDevices(is *topology.Devices) []kubelet.Unaccounted {
	book := &a.devices.kubelet.assignments
	rest := book.NotRunning()
	for _, uid := range book.UIDs() {
		if h, _ := book.Pod(uid); a.chargeable(uid, &h, is) {
			rest = append(rest, h.Unaccounted...)
		} else {
			rest = append(rest, book.PodUnaccounted(uid)...)
		}
	}
	return rest
}

// noteUnknownDevice tells once of a device that is none of the node's GPUs.
func (a *Agent) noteUnknownDevice(p kubelet.Pod, d kubelet.Device) {
	r := &a.devices.kubelet
	key := p.UID + " " + d.String()
	if r.told[key] || p.UID == "" || len(a.devices.view.Slots) == 0 {
		return
	}
	if r.told == nil {
		r.told = make(map[string]bool)
	}
	r.told[key] = true
	a.note(PodName{Namespace: p.Namespace, Name: p.Name, UID: p.UID}, allocate.Note{
		Reason: spec.ReasonDeviceUnknown, Message: fmt.Sprintf("the kubelet gave it %s, and it is not known which GPU that is", d),
	})
}

// addPartlyUsed are the GPUs, by address, of which the kubelet gave something that is not charged, with to whom.
func (a *Agent) addPartlyUsed(to map[string]string) map[string]string {
	slots := a.devices.numbers.GPU.Slots
	for _, r := range a.unaccountedDevices(a.manager.Devices()) {
		if r.GPU < 0 || r.GPU >= len(slots) {
			continue
		}
		if to == nil {
			to = make(map[string]string)
		}
		to[slots[r.GPU].Address] = fmt.Sprintf("the kubelet gave %s/%s %s of it", r.Namespace, r.Name, r.Device)
	}
	return to
}

// holdsFromKubelet reports whether the kubelet gave a pod the GPU of an index, or something that may be it.
func (a *Agent) holdsFromKubelet(uid string, index int) bool {
	return slices.ContainsFunc(a.devices.kubelet.assignments.PodUnaccounted(uid), func(r kubelet.Unaccounted) bool { return r.GPU == index || r.GPU < 0 })
}

// kubeletStatus is what is said of the kubelet's devices beside who holds which.
func (a *Agent) kubeletStatus(now time.Time) *spec.KubeletDevices {
	r := &a.devices.kubelet
	all, _ := r.assignments.DeviceCount()
	if a.ports.KubeletDevices == nil || len(a.devices.view.Slots) == 0 || all == 0 && a.devices.own.Owner != topology.OwnerKubelet {
		return nil
	}
	unread := ""
	switch {
	case r.last.IsZero() && r.failed != nil:
		unread = r.failed.Error()
	case r.last.IsZero():
		unread = "the kubelet was not asked yet"
	case now.Sub(r.last) >= kubeletDevicesStale && r.failed != nil:
		unread = fmt.Sprintf("as of %s: %v", r.last.UTC().Format(time.RFC3339), r.failed)
	case now.Sub(r.last) >= kubeletDevicesStale:
		unread = "as of " + r.last.UTC().Format(time.RFC3339)
	}
	return report.KubeletDevices(unread, r.unaccounted)
}

// kubeletFree is how many of the GPUs the kubelet has left, by what was read. False: it is not known.
func (a *Agent) kubeletFree(total int) (int, bool) {
	r := &a.devices.kubelet
	if a.ports.KubeletDevices == nil || r.last.IsZero() {
		return 0, false
	}
	var held gpu.Held
	r.assignments.AddHeld(&held)
	all, found := r.assignments.DeviceCount()
	return max(total-bits.OnesCount16(held.GPUs&(1<<total-1))-(all-found), 0), true
}
