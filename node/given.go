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
	"hilbert.dev/hilbert/node/gpu/given"
	"hilbert.dev/hilbert/node/report"
	"hilbert.dev/hilbert/topology"
)

const (
	// givenTimeout bounds a question to the kubelet which devices it gave to pods.
	givenTimeout = 5 * time.Second
	// givenEvery is how often it is asked though no pod has come or gone: devices may have been given to a container since.
	givenEvery = time.Minute
	// givenOld is from when on an answer is said to be old.
	givenOld = 3 * time.Minute
)

// readings is what the loop knows of the devices that the kubelet gave to pods.
type readings struct {
	book given.Book
	// tried: there was an answer, or a failure. last is when the last good answer was asked for; zero: there was none. failed is why there was none since.
	tried  bool
	last   time.Time
	failed error
	// changes counts the pods that came and went, seen as of the last good answer.
	changes, seen uint64
	// told are the devices of which it was told that nobody knows them.
	told map[string]bool
	// rest are the devices that no grant says.
	rest []given.Rest
	// good and bad count answers.
	good, bad uint64
}

// reading is an answer of the kubelet.
type reading struct {
	asked   time.Time
	changes uint64
	pods    []given.Pod // that ran then, oldest first
	list    []given.Listed
	err     error
}

// aboutGPUs reports whether there is a GPU on the node, as far as is known, so that the kubelet may have given some.
func (a *Agent) aboutGPUs(l *DeviceLook) bool {
	return l.Loaded || len(a.devices.memory.GPU.Slots) > 0 || gpu.Offers(&l.Offers)
}

// question is one to the kubelet, if it is time; nil: it is not. It is asked beside the loop.
func (a *Agent) question(now time.Time) func(ctx context.Context) *reading {
	r := &a.devices.readings
	doubtful := !a.devices.others && r.book.Doubt() != "" // then it decides who may give the GPUs out
	switch {
	case a.ports.Given == nil, !a.runtime.synced: // before, it is not known who runs
		return nil
	case r.tried && r.failed == nil && !doubtful && len(r.book.Strays()) == 0 && r.changes == r.seen && now.Sub(r.last) < givenEvery:
		return nil
	}
	q := &reading{asked: now, changes: r.changes}
	order := slices.SortedFunc(maps.Values(a.pods), func(x, y *pod) int { return cmp.Or(x.since.Compare(y.since), cmp.Compare(x.name.UID, y.name.UID)) })
	for _, p := range order {
		q.pods = append(q.pods, given.Pod{UID: p.name.UID, Namespace: p.name.Namespace, Name: p.name.Name})
	}
	return func(ctx context.Context) *reading {
		ctx, cancel := context.WithTimeout(ctx, givenTimeout)
		defer cancel()
		q.list, q.err = a.ports.Given(ctx)
		return q
	}
}

// readBack takes an answer over; nil: there is none. What was known stays where the kubelet says nothing.
func (a *Agent) readBack(q *reading) {
	r := &a.devices.readings
	runs := func(uid string) bool { return a.pods[uid] != nil }
	r.book.Keep(runs)
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
	r.book.Read(slices.DeleteFunc(q.pods, func(p given.Pod) bool { return !runs(p.UID) }), q.list)
}

// owesReading reports whether the kubelet is to be asked before anything is said of the node's devices.
func (a *Agent) owesReading(l *DeviceLook) bool {
	return a.ports.Given != nil && !a.devices.readings.tried && a.aboutGPUs(l)
}

// untold is why pods could hold GPUs of the kubelet's of which nobody knows; empty: none can, or there is no kubelet to ask.
func (a *Agent) untold() string {
	if a.ports.Given == nil {
		return ""
	}
	r := &a.devices.readings
	why := r.book.Doubt()
	if why != "" && r.failed != nil {
		why += ": " + r.failed.Error()
	}
	return why
}

// takeGiven finds what the kubelet gave among the GPUs, and has it charged.
func (a *Agent) takeGiven(is *topology.Devices) {
	r := &a.devices.readings
	if a.ports.Given == nil {
		return
	}
	r.book.Resolve(a.devices.view.Slots, a.tellLost)
	r.rest = a.unsaid(is)
	charged := make(map[string]allocate.Given)
	for _, uid := range r.book.UIDs() {
		h, _ := r.book.Of(uid)
		charged[uid] = allocate.Given{Any: h.Any}
		if a.chargeable(uid, &h, is) {
			charged[uid] = allocate.Given{Any: h.Any, Grant: h.Grant}
		}
	}
	a.manager.SetGiven(charged)
}

// chargeable reports whether what a pod has of the kubelet can be charged and said: not beside some of ours, and no instance of which nobody knows how
// much it is.
func (a *Agent) chargeable(uid string, h *given.Holding, is *topology.Devices) bool {
	held, _ := a.manager.Placement(uid)
	g := h.Grant
	is.Complete(&g)
	return held.Devices.GPUs == 0 && (g.Instance == 0 || g.Milli > 0)
}

// unsaid are the kubelet's devices that are not charged.
func (a *Agent) unsaid(is *topology.Devices) []given.Rest {
	book := &a.devices.readings.book
	rest := book.Strays()
	for _, uid := range book.UIDs() {
		if h, _ := book.Of(uid); a.chargeable(uid, &h, is) {
			rest = append(rest, h.Rest...)
		} else {
			rest = append(rest, book.All(uid)...)
		}
	}
	return rest
}

// tellLost tells once of a device that is none of the node's GPUs.
func (a *Agent) tellLost(p given.Pod, d given.Device) {
	r := &a.devices.readings
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

// partly are the GPUs, by address, of which the kubelet gave something that is not charged, with to whom.
func (a *Agent) partly(to map[string]string) map[string]string {
	slots := a.devices.memory.GPU.Slots
	for _, r := range a.unsaid(a.manager.Devices()) {
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

// holdsGiven reports whether the kubelet gave a pod the GPU of an index, or something that may be it.
func (a *Agent) holdsGiven(uid string, index int) bool {
	return slices.ContainsFunc(a.devices.readings.book.All(uid), func(r given.Rest) bool { return r.GPU == index || r.GPU < 0 })
}

// saidOfKubelet is what is said of the kubelet's devices beside who holds which.
func (a *Agent) saidOfKubelet(now time.Time) *spec.KubeletDevices {
	r := &a.devices.readings
	all, _ := r.book.Count()
	if a.ports.Given == nil || len(a.devices.view.Slots) == 0 || all == 0 && a.devices.own.Owner != topology.OwnerKubelet {
		return nil
	}
	unread := ""
	switch {
	case r.last.IsZero() && r.failed != nil:
		unread = r.failed.Error()
	case r.last.IsZero():
		unread = "the kubelet was not asked yet"
	case now.Sub(r.last) >= givenOld && r.failed != nil:
		unread = fmt.Sprintf("as of %s: %v", r.last.UTC().Format(time.RFC3339), r.failed)
	case now.Sub(r.last) >= givenOld:
		unread = "as of " + r.last.UTC().Format(time.RFC3339)
	}
	return report.Kubelet(unread, r.rest)
}

// freeOfKubelet is how many of the GPUs the kubelet has left, by what was read. False: it is not known.
func (a *Agent) freeOfKubelet(total int) (int, bool) {
	r := &a.devices.readings
	if a.ports.Given == nil || r.last.IsZero() {
		return 0, false
	}
	var held gpu.Held
	r.book.Held(&held)
	all, found := r.book.Count()
	return max(total-bits.OnesCount16(held.GPUs&(1<<total-1))-(all-found), 0), true
}
