package devices

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
	"hilbert.dev/hilbert/node/controller"
	"hilbert.dev/hilbert/node/gpu"
	"hilbert.dev/hilbert/node/gpu/kubelet"
	"hilbert.dev/hilbert/node/pods"
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

// kubeletDevices is what is known of the devices that the kubelet gave to pods, for a device plugin. The kubelet is asked beside the loop, when pods
// came or went and once a minute. What it gave is charged in the allocator; what cannot be charged closes the GPU that it is of.
type kubeletDevices struct {
	node        *controller.Node
	devices     *Controller
	assignments kubelet.Assignments
	// tried: there was an answer, or a failure. last is when the last good answer was asked for; zero: there was none. failed is why there was none since.
	tried  bool
	last   time.Time
	failed error
	// seen is how many changes of pods there were as of the last good answer.
	seen uint64
	// told are the unknown devices that were reported already.
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
	pods    []spec.PodRef // that ran then, oldest first
	list    []kubelet.ListedPod
	err     error
}

// mayHaveGPUs reports whether there is a GPU on the node, as far as is known, so that the kubelet may have given some.
func (d *Controller) mayHaveGPUs(l *Inspection) bool {
	return l.Loaded || len(d.numbers.known.GPU.Slots) > 0 || gpu.Offers(&l.Offers)
}

// question is one to the kubelet, if it is time; nil: it is not. It is asked beside the loop.
func (k *kubeletDevices) question(now time.Time) func(ctx context.Context) *kubeletAnswer {
	doubtful := !k.devices.others && k.assignments.Uncertainty() != "" // then it decides which party may give the GPUs out
	switch {
	case k.devices.ports.Kubelet == nil, !k.node.Runtime.Synced: // before, the running pods are not known
		return nil
	case k.tried && k.failed == nil && !doubtful && len(k.assignments.NotRunning()) == 0 && k.node.Pods.Revision() == k.seen && now.Sub(k.last) < kubeletDevicesInterval:
		return nil
	}
	q := &kubeletAnswer{asked: now, changes: k.node.Pods.Revision()}
	order := slices.SortedFunc(slices.Values(k.node.Pods.Sorted()), func(x, y *pods.Pod) int { return cmp.Or(x.Since.Compare(y.Since), cmp.Compare(x.Ref.UID, y.Ref.UID)) })
	for _, p := range order {
		q.pods = append(q.pods, p.Ref)
	}
	return func(ctx context.Context) *kubeletAnswer {
		ctx, cancel := context.WithTimeout(ctx, kubeletDevicesTimeout)
		defer cancel()
		q.list, q.err = k.devices.ports.Kubelet(ctx)
		return q
	}
}

// update takes an answer over; nil: there is none. What was known stays where the kubelet says nothing.
func (k *kubeletDevices) update(q *kubeletAnswer) {
	runs := func(uid string) bool { return k.node.Pods.Of(uid) != nil }
	k.assignments.Retain(runs)
	maps.DeleteFunc(k.told, func(key string, _ bool) bool {
		uid, _, _ := strings.Cut(key, " ")
		return !runs(uid)
	})
	if q == nil {
		return
	}
	k.tried = true
	if q.err != nil {
		if k.failed == nil {
			k.node.Log.Warn("the kubelet does not say which devices it gave to pods", "err", q.err)
		}
		k.failed, k.bad = q.err, k.bad+1
		return
	}
	k.last, k.seen, k.failed, k.good = q.asked, q.changes, nil, k.good+1
	k.assignments.Update(slices.DeleteFunc(q.pods, func(p spec.PodRef) bool { return !runs(p.UID) }), q.list)
}

// unasked reports whether the kubelet is to be asked before anything is said of the node's devices.
func (k *kubeletDevices) unasked(l *Inspection) bool {
	return k.devices.ports.Kubelet != nil && !k.tried && k.devices.mayHaveGPUs(l)
}

// uncertainty says why pods could hold GPUs of the kubelet's that the agent does not know of; empty: none can, or there is no kubelet to ask.
func (k *kubeletDevices) uncertainty() string {
	if k.devices.ports.Kubelet == nil {
		return ""
	}
	why := k.assignments.Uncertainty()
	if why != "" && k.failed != nil {
		why += ": " + k.failed.Error()
	}
	return why
}

// charge finds what the kubelet gave among the GPUs, and has it charged.
func (k *kubeletDevices) charge(is *topology.Devices) {
	if k.devices.ports.Kubelet == nil {
		return
	}
	k.assignments.Resolve(k.devices.view.Slots, k.noteUnknown)
	k.unaccounted = k.unaccountedDevices(is)
	charged := make(map[string]allocate.KubeletDevices)
	for _, uid := range k.assignments.UIDs() {
		h, _ := k.assignments.Pod(uid)
		charged[uid] = allocate.KubeletDevices{Any: h.Any}
		if k.chargeable(uid, &h, is) {
			charged[uid] = allocate.KubeletDevices{Any: h.Any, Grant: h.Grant}
		}
	}
	k.node.Manager.Devices.SetKubelet(charged)
}

// chargeable reports whether what a pod has of the kubelet can be charged and said: not beside some of ours, and no instance of which nobody knows how
// much it is.
func (k *kubeletDevices) chargeable(uid string, h *kubelet.PodDevices, is *topology.Devices) bool {
	held, _ := k.node.Manager.Placement(uid)
	g := h.Grant
	is.Complete(&g)
	return held.Devices.GPUs == 0 && (g.Instance == 0 || g.Milli > 0)
}

// unaccountedDevices are the kubelet's devices that are not charged.
func (k *kubeletDevices) unaccountedDevices(is *topology.Devices) []kubelet.Unaccounted {
	book := &k.assignments
	rest := book.NotRunning()
	for _, uid := range book.UIDs() {
		if h, _ := book.Pod(uid); k.chargeable(uid, &h, is) {
			rest = append(rest, h.Unaccounted...)
		} else {
			rest = append(rest, book.PodUnaccounted(uid)...)
		}
	}
	return rest
}

// noteUnknown tells once of a device that is none of the node's GPUs.
func (k *kubeletDevices) noteUnknown(p spec.PodRef, d kubelet.Device) {
	key := p.UID + " " + d.String()
	if k.told[key] || p.UID == "" || len(k.devices.view.Slots) == 0 {
		return
	}
	if k.told == nil {
		k.told = make(map[string]bool)
	}
	k.told[key] = true
	k.node.Events.Note(p, allocate.Note{
		Reason: spec.ReasonDeviceUnknown, Message: fmt.Sprintf("the kubelet gave it %s, and it is not known which GPU that is", d),
	})
}

// addPartlyUsed adds the GPUs, by address, of which the kubelet gave a part that is not charged, and the pods that have it.
func (k *kubeletDevices) addPartlyUsed(to map[string]string) map[string]string {
	slots := k.devices.numbers.known.GPU.Slots
	for _, r := range k.unaccountedDevices(k.node.Manager.Devices.Inventory()) {
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

// holds reports whether the kubelet gave a pod the GPU of an index, or something that may be it.
func (k *kubeletDevices) holds(uid string, index int) bool {
	return slices.ContainsFunc(k.assignments.PodUnaccounted(uid), func(r kubelet.Unaccounted) bool { return r.GPU == index || r.GPU < 0 })
}

// status returns what is reported of the kubelet's devices, apart from their holders.
func (k *kubeletDevices) status(now time.Time) *spec.KubeletDevices {
	all, _ := k.assignments.DeviceCount()
	if k.devices.ports.Kubelet == nil || len(k.devices.view.Slots) == 0 || all == 0 && k.devices.own.Owner != topology.OwnerKubelet {
		return nil
	}
	unread := ""
	switch {
	case k.last.IsZero() && k.failed != nil:
		unread = k.failed.Error()
	case k.last.IsZero():
		unread = "the kubelet was not asked yet"
	case now.Sub(k.last) >= kubeletDevicesStale && k.failed != nil:
		unread = fmt.Sprintf("as of %s: %v", k.last.UTC().Format(time.RFC3339), k.failed)
	case now.Sub(k.last) >= kubeletDevicesStale:
		unread = "as of " + k.last.UTC().Format(time.RFC3339)
	}
	return report.KubeletDevices(unread, k.unaccounted)
}

// free is how many of the GPUs the kubelet has left, by what was read. False: it is not known.
func (k *kubeletDevices) free(total int) (int, bool) {
	if k.devices.ports.Kubelet == nil || k.last.IsZero() {
		return 0, false
	}
	var held gpu.Held
	k.assignments.AddHeld(&held)
	all, found := k.assignments.DeviceCount()
	return max(total-bits.OnesCount16(held.GPUs&(1<<total-1))-(all-found), 0), true
}
