// Package kubelet keeps which of a node's GPUs the kubelet gave to pods, for a device plugin.
//
// Data flow: the kubelet lists its pods with the devices of each, by names that the plugin made up. Parse reads such a name. Book.Update puts a list
// beside the pods that run here, Assignments.Resolve finds what it names among the GPUs, by index. Book.Pod then says of a pod what it holds, and Book.Uncertainty
// of the node whether devices could be held that are not known.
//
// Invariants: what was read of a pod stays until the pod is gone, and a device that was found stays where it was found: a kubelet that has just started
// lists the pods that it has heard of so far, and one whose own books are lost lists pods without the devices that their containers still have. That a pod is not listed
// says nothing of it. A name that could mean two devices means none.
//
// It does no I/O and gives nothing out. The list has no UIDs, so that of two pods of one name the younger is meant.
package kubelet

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/node/gpu"
	"hilbert.dev/hilbert/topology"
)

// maxDevices bounds what is kept of one pod. A plugin that shares a GPU makes many devices of it.
const maxDevices = 256

// Device is a device by the name of the resource that a plugin offers, and the plugin's own name for it.
type Device struct{ Resource, ID string }

// ListedPod is a pod as the kubelet lists it.
type ListedPod struct {
	Namespace, Name string
	Devices         []Device
}

// Assignments is what is known. The zero Assignments knows nothing.
type Assignments struct {
	pods map[string]*podEntry // by UID
	// notRunning are pods of the last list that have devices and do not run here, as far as is known. They have no UID.
	notRunning []*podEntry
	// complete: since devices are no longer offered, a reading had all pods that ran then. Else unlisted is one that was never listed, if there was a reading.
	complete bool
	unlisted string
}

type podEntry struct {
	pod     spec.PodRef
	devices []device
}

// device is one that a pod holds.
type device struct {
	Device
	place Place
	found bool
}

// Update takes in a list that was asked for when pods ran, oldest first.
func (b *Assignments) Update(pods []spec.PodRef, list []ListedPod) {
	if b.pods == nil {
		b.pods = make(map[string]*podEntry)
	}
	newest := make(map[string]spec.PodRef, len(pods))
	for _, p := range pods {
		newest[p.Namespace+"/"+p.Name] = p
	}
	b.notRunning = nil
	for i := range list {
		l := &list[i]
		p, runs := newest[l.Namespace+"/"+l.Name]
		if runs {
			e := b.pods[p.UID]
			if e == nil {
				e = &podEntry{pod: p}
				b.pods[p.UID] = e
			}
			e.devices = add(e.devices, l.Devices)
		} else if devices := add(nil, l.Devices); len(devices) > 0 && len(b.notRunning) < maxDevices {
			b.notRunning = append(b.notRunning, &podEntry{spec.PodRef{Namespace: l.Namespace, Name: l.Name}, devices})
		}
	}
	b.unlisted = ""
	for _, p := range pods {
		if b.pods[p.UID] == nil {
			b.unlisted = p.Namespace + "/" + p.Name
			return
		}
	}
	b.complete = true // pods that come later find nothing on offer
}

// add adds the devices of NVIDIA's that are not there yet.
func add(have []device, more []Device) []device {
	for _, d := range more {
		if strings.HasPrefix(d.Resource, gpu.Vendor) && len(have) < maxDevices && !slices.ContainsFunc(have, func(h device) bool { return h.Device == d }) {
			have = append(have, device{Device: d})
		}
	}
	return have
}

// Retain forgets the pods that do not run any more. runs says of a UID whether it does.
func (b *Assignments) Retain(runs func(uid string) bool) {
	maps.DeleteFunc(b.pods, func(uid string, _ *podEntry) bool { return !runs(uid) })
}

// Invalidate says that devices are offered now, so that new pods may be given some.
func (b *Assignments) Invalidate() { b.complete, b.unlisted = false, "" }

// Complete reports whether all pods were listed since devices are no longer offered.
func (b *Assignments) Complete() bool { return b.complete }

// each gives the pods that run here by UID, and then those that do not run.
func (b *Assignments) each(f func(*podEntry)) {
	for _, uid := range b.UIDs() {
		f(b.pods[uid])
	}
	for _, e := range b.notRunning {
		f(e)
	}
}

// Resolve looks for devices that were not found yet, and calls lost for each that it does not find either, with the pod's UID; none, if it does not run here.
func (b *Assignments) Resolve(slots []gpu.Slot, lost func(p spec.PodRef, d Device)) {
	b.each(func(e *podEntry) { resolve(e.devices, slots, func(d Device) { lost(e.pod, d) }) })
}

func resolve(devices []device, slots []gpu.Slot, lost func(Device)) {
	for i := range devices {
		d := &devices[i]
		if d.found {
			continue
		}
		if id, ok := Parse(d.ID); ok {
			d.place, d.found = id.find(slots)
		}
		if !d.found {
			lost(d.Device)
		}
	}
}

// PodDevices is what a pod has of the kubelet.
type PodDevices struct {
	// Any: it has devices of NVIDIA's, whichever they are.
	Any bool
	// Grant is whole GPUs, or one MIG instance without its amounts: as much as a Grant can say.
	Grant topology.Grant
	// Unaccounted are the devices that it does not say.
	Unaccounted []Unaccounted
}

// Unaccounted is a device that a Grant does not say.
type Unaccounted struct {
	Namespace, Name string
	Device
	// GPU is the index of the GPU that it is of; -1: not known.
	GPU int
}

// Pod is what a pod has. False: the kubelet has never listed it.
func (b *Assignments) Pod(uid string) (PodDevices, bool) {
	e := b.pods[uid]
	if e == nil {
		return PodDevices{}, false
	}
	return e.holding(), true
}

// PodUnaccounted are the devices of a pod, where they cannot be said otherwise.
func (b *Assignments) PodUnaccounted(uid string) []Unaccounted {
	if e := b.pods[uid]; e != nil {
		return e.all()
	}
	return nil
}

// DeviceCount is how many devices of GPUs are known to be held, and how many of them were found.
func (b *Assignments) DeviceCount() (all, found int) {
	b.each(func(e *podEntry) {
		for i := range e.devices {
			switch d := &e.devices[i]; {
			case !d.found:
				all++
			case d.place.GPU >= 0:
				all, found = all+1, found+1
			}
		}
	})
	return all, found
}

// UIDs are the pods that were listed, ascending.
func (b *Assignments) UIDs() []string { return slices.Sorted(maps.Keys(b.pods)) }

// NotRunning are devices of pods that do not run here, as far as is known: they are just starting, or just gone.
func (b *Assignments) NotRunning() (out []Unaccounted) {
	for _, e := range b.notRunning {
		out = append(out, e.all()...)
	}
	return out
}

// AddHeld adds all GPUs and instances that pods have to the set of held ones.
func (b *Assignments) AddHeld(h *gpu.Held) { b.each(func(e *podEntry) { e.hold(h) }) }

func (e *podEntry) hold(h *gpu.Held) {
	for i := range e.devices {
		d := &e.devices[i]
		if !d.found || d.place.GPU < 0 {
			continue
		}
		h.GPUs |= 1 << d.place.GPU
		if d.place.Instance >= 0 {
			h.Instances[d.place.GPU] |= 1 << d.place.Instance
		}
	}
}

// Uncertainty says why pods could hold GPUs that are not known; empty: none can.
func (b *Assignments) Uncertainty() string {
	switch {
	case b.complete:
	case b.unlisted == "":
		return "the kubelet has not said which GPUs it gave to pods"
	default:
		return fmt.Sprintf("the kubelet does not list %s, so it is not known which GPUs it gave to it", b.unlisted)
	}
	for _, uid := range b.UIDs() {
		if h, _ := b.Pod(uid); len(h.Unaccounted) > 0 {
			if i := slices.IndexFunc(h.Unaccounted, func(r Unaccounted) bool { return r.GPU < 0 }); i >= 0 {
				return h.Unaccounted[i].uncertainty()
			}
		}
	}
	notRunning := b.NotRunning()
	if i := slices.IndexFunc(notRunning, func(r Unaccounted) bool { return r.GPU < 0 }); i >= 0 {
		return notRunning[i].uncertainty()
	}
	return ""
}

func (r *Unaccounted) uncertainty() string {
	return fmt.Sprintf("the kubelet gave %s/%s %s %q, and it is not known which GPU that is", r.Namespace, r.Name, r.Resource, r.ID)
}

func (e *podEntry) holding() (h PodDevices) {
	instances := make(map[Place]bool)
	for i := range e.devices {
		d := &e.devices[i]
		switch {
		case d.found && d.place.GPU < 0: // no GPU
		case d.found && d.place.Instance < 0:
			h.Any, h.Grant.GPUs, h.Grant.Milli = true, h.Grant.GPUs|1<<d.place.GPU, topology.FullGPU
		default:
			h.Any = true
			if d.found {
				instances[d.place] = true
			}
		}
	}
	if h.Grant.GPUs == 0 && len(instances) == 1 {
		for p := range instances {
			h.Grant = topology.Grant{GPUs: 1 << p.GPU, Instance: int8(p.Instance + 1), Isolation: topology.Hard}
		}
	}
	h.Unaccounted = e.rest(func(d *device) bool { return !d.found || d.place.Instance >= 0 && h.Grant.Instance == 0 })
	return h
}

// all are the devices that are of GPUs, or may be.
func (e *podEntry) all() []Unaccounted {
	return e.rest(func(d *device) bool { return !d.found || d.place.GPU >= 0 })
}

func (e *podEntry) rest(of func(*device) bool) (out []Unaccounted) {
	for i := range e.devices {
		d := &e.devices[i]
		if !of(d) {
			continue
		}
		r := Unaccounted{Namespace: e.pod.Namespace, Name: e.pod.Name, Device: d.Device, GPU: -1}
		if d.found {
			r.GPU = d.place.GPU
		}
		out = append(out, r)
	}
	return out
}

// String is the device for people.
func (d Device) String() string { return fmt.Sprintf("%s %q", d.Resource, d.ID) }
