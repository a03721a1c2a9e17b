package node

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"math/bits"
	"slices"
	"time"

	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/node/cdi"
	"hilbert.dev/hilbert/node/gpu"
	"hilbert.dev/hilbert/node/gpu/inject"
	"hilbert.dev/hilbert/node/gpu/kubelet"
	"hilbert.dev/hilbert/node/mps"
	"hilbert.dev/hilbert/node/report"
	"hilbert.dev/hilbert/topology"
)

// inspectTimeout bounds one look at the devices. A run of nvidia-smi takes at most 30 s.
const inspectTimeout = 45 * time.Second

// DeviceInspector sees what the driver, the kernel and the API server say of GPUs and network cards.
type DeviceInspector interface {
	// Look is called beside the loop, by one goroutine at a time, and may take its time.
	Inspect(ctx context.Context) DeviceInspection
}

// DeviceInspection is what was seen at one moment.
type DeviceInspection struct {
	// Seen is the driver's answer and the kernel's log. Held and Uninjectable are the agent's to say.
	Seen gpu.Observation
	// Loaded: a driver is loaded, whatever it answers.
	Loaded bool
	// Offers are who else offers GPUs: the first four fields.
	Offers gpu.Evidence
	// Catalog is the node's CDI devices; nil: it cannot be read.
	Catalog *cdi.Catalog
	// Served are the GPUs, by UUID, that an MPS daemon serves.
	Served map[string]bool
	// Cgroups are those of the processes that compute on GPUs, as /proc has them, by PID. One that is not in it has ended, or cannot be looked at.
	Cgroups map[int]string
	// Functions are the device files of network cards, by the card's PCI address, and CDI has them all. Untold says of cards why theirs are missing.
	Functions        map[string]CardFunctions
	FunctionsUnknown map[string]string
	// Bandwidth of network cards in Mbit/s, by PCI address; those that are not in it have none to give.
	Bandwidth map[string]uint32
}

// devices is what the loop knows of GPUs and network cards.
type devices struct {
	params       gpu.Params
	mps          mps.Params
	busy         bool
	asked        time.Time // when it was last looked
	looked       bool      // once at least
	judged       bool      // once at least since the runtime told what runs
	others       bool      // somebody else offers the GPUs, as of the last look
	numbers      deviceNumbers
	saveErr      error  // why the memory is not on disk; nil: it is
	savedNumbers []byte // the memory on disk
	view         gpu.View
	own          gpu.Ownership
	whose        bool      // it is known who gives the GPUs out
	quiet        time.Time // since when nobody else has offered GPUs; zero: somebody does, or it is not known
	ready        bool      // one GPU at least could be put into a container
	last         DeviceInspection
	// kubelet are what the kubelet gave to pods.
	kubelet kubeletDevices
	// shutGPUs and shutNICs are closed because a promise of them was broken, by index.
	shutGPUs, shutNICs map[int]shutDevice
}

// shutDevice is a device that a broken promise has closed.
type shutDevice struct {
	why string
	at  time.Time
}

// shut notes devices that a broken promise has closed.
func (d *devices) shut(gpus, nics uint16, why string, now time.Time) {
	if d.shutGPUs == nil {
		d.shutGPUs, d.shutNICs = make(map[int]shutDevice), make(map[int]shutDevice)
	}
	for i := range topology.MaxGPUs {
		if gpus&(1<<i) != 0 {
			d.shutGPUs[i] = shutDevice{why, now}
		}
		if nics&(1<<i) != 0 {
			d.shutNICs[i] = shutDevice{why, now}
		}
	}
}

// reopenDevices opens devices again whose being closed has served its purpose, as reopen does zones.
func (a *Agent) reopenDevices(now time.Time) {
	over := func(s shutDevice) bool {
		return (a.ports.Report == nil || a.reporting.written.After(s.at)) && now.Sub(s.at) >= reopenAfter
	}
	maps.DeleteFunc(a.devices.shutGPUs, func(i int, s shutDevice) bool {
		if over(s) {
			a.manager.OpenDevices(1<<i, 0)
		}
		return over(s)
	})
	maps.DeleteFunc(a.devices.shutNICs, func(i int, s shutDevice) bool {
		if over(s) {
			a.manager.OpenDevices(0, 1<<i)
		}
		return over(s)
	})
}

// deviceNumbers is what must outlast the agent: an index that was promised is never another device.
type deviceNumbers struct {
	GPU gpu.State `json:"gpu"`
	// Cards are the PCI addresses of network cards by index.
	Cards []string `json:"cards,omitempty"`
	// Functions are the virtual functions that pods were given, by UID: PCI addresses.
	Functions map[string][]string `json:"functions,omitempty"`
}

// pending reports whether the first look is still under way, or the first since the runtime told what runs. A report without devices would say that
// nobody knows of any, and one that has not judged who computes may have a GPU open that somebody else uses.
func (d *devices) pending(now time.Time, synced bool) bool {
	seen := d.looked
	if synced {
		seen = d.judged
	}
	return d.busy && !seen && now.Sub(d.asked) < inspectTimeout
}

// loadDeviceNumbers takes over which number belongs to which device. What cannot be read is numbered anew.
func (a *Agent) loadDeviceNumbers() {
	d := &a.devices
	d.params = gpu.Defaults()
	d.params.Owner = gpu.Setting(a.options.Config.Devices.Owner)
	d.mps = mps.Defaults()
	d.mps.SeveralUsers = a.options.Config.Devices.SeveralUsers
	if a.ports.Devices == nil || a.options.Devices == nil {
		return
	}
	data, err := a.ports.Devices.Load()
	if err == nil && data != nil {
		var known struct {
			GPU       json.RawMessage     `json:"gpu"`
			Cards     []string            `json:"cards"`
			Functions map[string][]string `json:"functions"`
		}
		if err = json.Unmarshal(data, &known); err == nil {
			d.numbers.Cards, d.numbers.Functions = known.Cards[:min(len(known.Cards), topology.MaxNICs)], known.Functions
			d.numbers.GPU, err = gpu.Load(known.GPU)
		}
	}
	if err != nil {
		a.counts.CheckpointErrors++
		a.problems.set(spec.ReasonCheckpointLost, "devices: "+err.Error())
		a.log.Warn("the numbers of devices cannot be read; they are numbered anew", "err", err)
		return
	}
	d.savedNumbers = data
}

// inspectDevices has the devices looked at when it is time.
func (a *Agent) inspectDevices(now time.Time) {
	d := &a.devices
	if a.options.Devices == nil || d.busy || a.work == nil || now.Sub(d.asked) < a.options.Config.Devices.Interval.D() {
		return
	}
	d.busy, d.asked = true, now
	ask, known := a.kubeletQuestion(now), a.mayHaveGPUs(&DeviceInspection{})
	a.work(func(ctx context.Context) {
		bounded, cancel := context.WithTimeout(ctx, inspectTimeout)
		defer cancel()
		seen := a.options.Devices.Inspect(bounded)
		var answer *kubeletAnswer
		if ask != nil && (known || seen.Loaded || gpu.Offers(&seen.Offers)) {
			answer = ask(ctx)
		}
		a.post(func() {
			d.busy = false
			a.updateDevices(&seen, answer, time.Now())
		})
	})
}

// inspectDevicesNow has the devices looked at as soon as possible. A look that is under way will do.
func (a *Agent) inspectDevicesNow(now time.Time) {
	if !a.devices.busy {
		a.devices.asked = time.Time{}
		a.inspectDevices(now)
	}
}

// updateDevices takes a look over, and what the kubelet answered meanwhile; nil: it was not asked.
func (a *Agent) updateDevices(l *DeviceInspection, answer *kubeletAnswer, now time.Time) {
	d := &a.devices
	o, e := l.Seen, l.Offers
	a.updateKubelet(answer)
	d.kubelet.assignments.Resolve(d.numbers.GPU.Slots, func(kubelet.Pod, kubelet.Device) {})
	ours := a.heldDevices()
	o.Held = ours
	d.kubelet.assignments.AddHeld(&o.Held)
	others := !e.NoneHere && gpu.DecideOwner(&d.params, &e).Owner == topology.OwnerKubelet
	d.others = others || e.Slices > 0
	if gpu.Offers(&e) {
		d.kubelet.assignments.Invalidate()
	}
	if inv := o.Inventory; inv != nil {
		cannot := a.uninjectable(l)
		d.ready = l.Catalog != nil && len(cannot) < len(inv.GPUs)
		if !others { // a device plugin has its own way, and its pods their grants
			o.Uninjectable = cannot
			if a.runtime.synced {
				o.Foreign = gpu.Strangers(inv, a.mayUse(l.Cgroups))
			}
			o.Foreign = a.addPartlyUsed(o.Foreign)
		}
	}
	d.numbers.GPU, d.view = gpu.Step(&d.params, d.numbers.GPU, &o)
	for _, note := range d.view.Notes {
		a.log.Warn("about the GPUs", "note", note)
	}
	if others || e.Slices > 0 || !e.NodeKnown || !e.SlicesKnown {
		d.quiet = time.Time{}
	} else if d.quiet.IsZero() {
		d.quiet = now
	}
	if !d.quiet.IsZero() {
		e.Quiet = int(now.Sub(d.quiet).Seconds())
	}
	e.GPUs, e.Ready, e.Held, e.Untold = len(d.view.Slots), d.ready, ours.GPUs != 0, a.kubeletUncertainty()
	before := d.own
	d.own = gpu.DecideOwner(&d.params, &e)
	d.whose = d.own.Reason != gpu.OwnUnknown
	d.last, d.looked = *l, true
	if a.runtime.synced { // before, it is not known who runs
		d.judged = d.judged || !a.kubeletUnasked(l)
		d.forgetFunctions(a.manager.Pods())
	}
	cards := a.cards(l.Bandwidth)
	a.saveDeviceNumbers()
	if d.own.Owner != before.Owner || d.own.Reason != before.Reason {
		a.log.Info("who gives the GPUs out", "owner", d.own.Owner, "reason", d.own.Reason, "message", d.own.Message)
	}
	is := a.checkedDevices(l, cards, others)
	a.chargeKubeletDevices(is)
	a.manager.SetDevices(is, d.whose)
	if a.runtime.synced && !d.judged { // the runtime told what runs while this look was under way, and the kubelet was not asked
		a.inspectDevicesNow(now)
	}
}

// checkedDevices is what there is; nil: nothing is said of it.
func (a *Agent) checkedDevices(l *DeviceInspection, cards *topology.Devices, others bool) *topology.Devices {
	d := &a.devices
	// A node whose kubelet offers GPUs that the driver does not tell us of is counted as before: nothing is said.
	if unseen := len(d.view.Slots) == 0; unseen && (l.Loaded || others || a.ports.Report != nil && !l.Offers.NodeKnown && !l.Offers.NoneHere) {
		return nil
	}
	is := d.view.Devices(&d.params, cards, d.own.Owner, func(uuid string) bool { return l.Served[uuid] })
	if err := is.Check(); err != nil {
		a.log.Error("the devices are not sound; nothing is said of them", "err", err)
		return nil
	}
	return is
}

// uninjectable are the GPUs that could not be put into a container now, by address, with why.
func (a *Agent) uninjectable(l *DeviceInspection) map[string]string {
	cannot := make(map[string]string)
	if l.Catalog != nil {
		cannot = inject.Uninjectable(l.Seen.Inventory, l.Catalog)
	}
	if why := cdi.Drops(a.runtime.name); why != "" {
		for i := range l.Seen.Inventory.GPUs {
			cannot[l.Seen.Inventory.GPUs[i].Address] = why
		}
	}
	return cannot
}

// saveDeviceNumbers writes down which number belongs to which device, before anybody is told of it. Numbers that cannot be kept are not promised.
func (a *Agent) saveDeviceNumbers() {
	d := &a.devices
	if a.ports.Devices == nil {
		return
	}
	data, err := json.Marshal(d.numbers)
	d.saveErr = nil
	if err == nil && bytes.Equal(data, d.savedNumbers) {
		return
	}
	if err == nil {
		err = a.ports.Devices.Save(data)
	}
	if err != nil {
		a.counts.CheckpointErrors++
		d.saveErr = fmt.Errorf("the numbers of devices cannot be kept: %w", err)
		d.own = gpu.Ownership{Owner: topology.OwnerNone, Reason: gpu.OwnUnknown, Message: d.saveErr.Error()}
		return
	}
	d.savedNumbers = data
}

// cards are the machine's devices with network cards at the index that their address has.
func (a *Agent) cards(bandwidth map[string]uint32) *topology.Devices {
	d := &a.devices
	is := topology.DevicesOf(a.options.Machine)
	known := d.numbers.Cards
	for i := range is.NIC {
		if address := is.NIC[i].Address; !slices.Contains(known, address) && len(known) < topology.MaxNICs {
			known = append(slices.Clip(known), address)
		}
	}
	d.numbers.Cards = known
	out := &topology.Devices{GPU: is.GPU}
	for i, address := range known {
		at := slices.IndexFunc(is.NIC, func(n topology.NIC) bool { return n.Address == address })
		if at < 0 { // it is gone, and keeps its number
			out.NIC = append(out.NIC, topology.NIC{Address: address, Switch: topology.NoPlace, Zone: topology.NoPlace, Socket: topology.NoPlace})
			out.ClosedNICs |= 1 << i
			continue
		}
		n := is.NIC[at]
		n.Bandwidth = min(bandwidth[address], topology.MaxAmount)
		out.NIC = append(out.NIC, n)
	}
	return out
}

// heldDevices are the GPUs that pods hold and that we gave.
func (a *Agent) heldDevices() (h gpu.Held) {
	for _, held := range a.manager.HeldDevices() {
		h.Add(&held.Grant)
	}
	return h
}

// deviceStatus is what is said of GPUs and network cards, and how many GPUs nobody uses.
func (a *Agent) deviceStatus(now time.Time) (*spec.Devices, string) {
	d := &a.devices
	is := a.manager.Devices()
	if is == nil {
		return nil, ""
	}
	said := report.Devices(a.options.Machine, is, &d.view, a.manager.HeldDevices())
	for i, s := range d.shutGPUs {
		if i < len(said.GPUs) && d.view.Slots[i].Closed == "" {
			said.GPUs[i].Closed = s.why
		}
	}
	for i, s := range d.shutNICs {
		if i < len(said.NICs) {
			said.NICs[i].Closed = s.why
		}
	}
	said.Reason, said.Kubelet = string(d.own.Reason)+": "+d.own.Message, a.kubeletStatus(now)
	if a.runtimeAway(now) {
		said.Owner, said.Reason = spec.OwnerNone, spec.ReasonRuntimeLost+": "+a.runtime.why
	}
	total := len(is.GPU)
	free, known := a.kubeletFree(total)
	switch {
	case total == 0:
		return said, ""
	case d.own.Owner == topology.OwnerKubelet && known:
		return said, fmt.Sprintf("%d/%d free, owner %s", free, total, d.own.Owner)
	case d.own.Owner != topology.OwnerHilbert:
		return said, fmt.Sprintf("%d, owner %s", total, d.own.Owner)
	}
	held := a.heldDevices()
	d.kubelet.assignments.AddHeld(&held)
	used := is.ClosedGPUs | held.GPUs
	return said, fmt.Sprintf("%d/%d free", total-bits.OnesCount16(used), total)
}
