// Package given keeps which of a node's GPUs the kubelet gave to pods, for a device plugin.
//
// Data flow: the kubelet lists its pods with the devices of each, by names that the plugin made up. Parse reads such a name. Book.Read puts a list
// beside the pods that run here, Book.Resolve finds what it names among the GPUs, by index. Book.Of then says of a pod what it holds, and Book.Doubt
// of the node whether something could be held of which nobody knows.
//
// Invariants: what was read of a pod stays until the pod is gone, and a device that was found stays where it was found: a kubelet that has just started
// lists the pods that it has heard of so far, and one whose own books are lost lists pods without the devices that their containers still have. That a pod is not listed
// says nothing of it. A name that could mean two devices means none.
//
// It asks nobody and gives nothing out. The list has no UIDs, so that of two pods of one name the younger is meant.
package given

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"hilbert.dev/hilbert/node/gpu"
	"hilbert.dev/hilbert/topology"
)

// maxDevices bounds what is kept of one pod. A plugin that shares a GPU makes many devices of it.
const maxDevices = 256

// Device is a device by the name of the resource that a plugin offers, and the plugin's own name for it.
type Device struct{ Resource, ID string }

// Listed is a pod as the kubelet lists it.
type Listed struct {
	Namespace, Name string
	Devices         []Device
}

// Pod is a pod that runs on the node.
type Pod struct{ UID, Namespace, Name string }

// Book is what is known. The zero Book knows nothing.
type Book struct {
	pods map[string]*entry // by UID
	// strays are pods of the last list that have devices and do not run here, as far as is known. They have no UID.
	strays []*entry
	// sure: since nobody offers devices any more, a reading had all pods that ran then. Else unlisted is one that was never listed, if there was a reading.
	sure     bool
	unlisted string
}

type entry struct {
	pod     Pod
	devices []device
}

// device is one that somebody holds.
type device struct {
	Device
	place Place
	found bool
}

// Read takes in a list that was asked for when pods ran, oldest first.
func (b *Book) Read(pods []Pod, list []Listed) {
	if b.pods == nil {
		b.pods = make(map[string]*entry)
	}
	newest := make(map[string]Pod, len(pods))
	for _, p := range pods {
		newest[p.Namespace+"/"+p.Name] = p
	}
	b.strays = nil
	for i := range list {
		l := &list[i]
		p, runs := newest[l.Namespace+"/"+l.Name]
		if runs {
			e := b.pods[p.UID]
			if e == nil {
				e = &entry{pod: p}
				b.pods[p.UID] = e
			}
			e.devices = add(e.devices, l.Devices)
		} else if devices := add(nil, l.Devices); len(devices) > 0 && len(b.strays) < maxDevices {
			b.strays = append(b.strays, &entry{Pod{Namespace: l.Namespace, Name: l.Name}, devices})
		}
	}
	b.unlisted = ""
	for _, p := range pods {
		if b.pods[p.UID] == nil {
			b.unlisted = p.Namespace + "/" + p.Name
			return
		}
	}
	b.sure = true // who comes later comes when there is nothing to be given
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

// Keep forgets the pods that do not run any more. runs says of a UID whether it does.
func (b *Book) Keep(runs func(uid string) bool) {
	maps.DeleteFunc(b.pods, func(uid string, _ *entry) bool { return !runs(uid) })
}

// Suspect says that somebody offers devices now, so that whoever comes may be given some.
func (b *Book) Suspect() { b.sure, b.unlisted = false, "" }

// Sure reports whether all pods were listed since nobody offers devices any more.
func (b *Book) Sure() bool { return b.sure }

// each gives the pods that run here by UID, and then the strays.
func (b *Book) each(f func(*entry)) {
	for _, uid := range b.UIDs() {
		f(b.pods[uid])
	}
	for _, e := range b.strays {
		f(e)
	}
}

// Resolve looks for devices that were not found yet, and calls lost for each that it does not find either, with the pod's UID; none, if it does not run here.
func (b *Book) Resolve(slots []gpu.Slot, lost func(p Pod, d Device)) {
	b.each(func(e *entry) { resolve(e.devices, slots, func(d Device) { lost(e.pod, d) }) })
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

// Holding is what a pod has of the kubelet.
type Holding struct {
	// Any: it has devices of NVIDIA's, whichever they are.
	Any bool
	// Grant is whole GPUs, or one MIG instance without its amounts: as much as a Grant can say.
	Grant topology.Grant
	// Rest are the devices that it does not say.
	Rest []Rest
}

// Rest is a device that a Grant does not say.
type Rest struct {
	Namespace, Name string
	Device
	// GPU is the index of the GPU that it is of; -1: not known.
	GPU int
}

// Of is what a pod has. False: the kubelet has never listed it.
func (b *Book) Of(uid string) (Holding, bool) {
	e := b.pods[uid]
	if e == nil {
		return Holding{}, false
	}
	return e.holding(), true
}

// All are the devices of a pod, where they cannot be said otherwise.
func (b *Book) All(uid string) []Rest {
	if e := b.pods[uid]; e != nil {
		return e.all()
	}
	return nil
}

// Count is how many devices of GPUs are known to be held, and how many of them were found.
func (b *Book) Count() (all, found int) {
	b.each(func(e *entry) {
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
func (b *Book) UIDs() []string { return slices.Sorted(maps.Keys(b.pods)) }

// Strays are devices of pods that do not run here, as far as is known: they are just starting, or just gone.
func (b *Book) Strays() (out []Rest) {
	for _, e := range b.strays {
		out = append(out, e.all()...)
	}
	return out
}

// Held adds all GPUs and instances that somebody has to what is held.
func (b *Book) Held(h *gpu.Held) { b.each(func(e *entry) { e.hold(h) }) }

func (e *entry) hold(h *gpu.Held) {
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

// Doubt says why GPUs could be held of which nobody knows; empty: none can.
func (b *Book) Doubt() string {
	switch {
	case b.sure:
	case b.unlisted == "":
		return "the kubelet has not said which GPUs it gave to pods"
	default:
		return fmt.Sprintf("the kubelet does not list %s, so it is not known which GPUs it gave to it", b.unlisted)
	}
	for _, uid := range b.UIDs() {
		if h, _ := b.Of(uid); len(h.Rest) > 0 {
			if i := slices.IndexFunc(h.Rest, func(r Rest) bool { return r.GPU < 0 }); i >= 0 {
				return h.Rest[i].doubt()
			}
		}
	}
	strays := b.Strays()
	if i := slices.IndexFunc(strays, func(r Rest) bool { return r.GPU < 0 }); i >= 0 {
		return strays[i].doubt()
	}
	return ""
}

func (r *Rest) doubt() string {
	return fmt.Sprintf("the kubelet gave %s/%s %s %q, and it is not known which GPU that is", r.Namespace, r.Name, r.Resource, r.ID)
}

func (e *entry) holding() (h Holding) {
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
	h.Rest = e.rest(func(d *device) bool { return !d.found || d.place.Instance >= 0 && h.Grant.Instance == 0 })
	return h
}

// all are the devices that are of GPUs, or may be.
func (e *entry) all() []Rest {
	return e.rest(func(d *device) bool { return !d.found || d.place.GPU >= 0 })
}

func (e *entry) rest(of func(*device) bool) (out []Rest) {
	for i := range e.devices {
		d := &e.devices[i]
		if !of(d) {
			continue
		}
		r := Rest{Namespace: e.pod.Namespace, Name: e.pod.Name, Device: d.Device, GPU: -1}
		if d.found {
			r.GPU = d.place.GPU
		}
		out = append(out, r)
	}
	return out
}

// String is the device for people.
func (d Device) String() string { return fmt.Sprintf("%s %q", d.Resource, d.ID) }
