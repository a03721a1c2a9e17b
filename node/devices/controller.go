package devices

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/bits"
	"time"

	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/node/allocate"
	"hilbert.dev/hilbert/node/cdi"
	"hilbert.dev/hilbert/node/controller"
	"hilbert.dev/hilbert/node/gpu"
	"hilbert.dev/hilbert/node/gpu/inject"
	"hilbert.dev/hilbert/node/gpu/kubelet"
	"hilbert.dev/hilbert/node/mps"
	"hilbert.dev/hilbert/node/report"
	"hilbert.dev/hilbert/node/store"
	"hilbert.dev/hilbert/topology"
)

// inspectTimeout bounds one look at the devices. A run of nvidia-smi takes at most 30 s.
const inspectTimeout = 45 * time.Second

// Inspector sees what the driver, the kernel and the API server say of GPUs and network cards.
type Inspector interface {
	// Look is called beside the loop, by one goroutine at a time, and may take its time.
	Inspect(ctx context.Context) Inspection
}

// Inspection is what was seen at one moment.
type Inspection struct {
	// Seen is the driver's answer and the kernel's log. Held and Uninjectable are the agent's to say.
	Seen gpu.Observation
	// Loaded: a driver is loaded, whatever it answers.
	Loaded bool
	// Offers says which other parties offer GPUs: the first four fields, and Toolkit.
	Offers gpu.Evidence
	// Catalog is the node's CDI devices; nil: it cannot be read.
	Catalog *cdi.Catalog
	// Served are the GPUs, by UUID, that an MPS daemon serves, and the memory that it shares with its clients.
	Served map[string]mps.Shared
	// Cgroups are those of the processes that compute on GPUs, as /proc has them, by PID. One that is not in it has ended, or cannot be looked at.
	Cgroups map[int]string
	// Functions are the device files of network cards, by the card's PCI address, and CDI has them all. Untold says of cards why theirs are missing.
	Functions        map[string]CardFunctions
	FunctionsUnknown map[string]string
	// Bandwidth of network cards in Mbit/s, by PCI address; those that are not in it have none to give.
	Bandwidth map[string]uint32
}

// Controller knows the node's GPUs and network cards: which there are, which party gives them out, and which must not be promised. It looks at them beside
// the loop, each Devices.Interval, and tells the allocator what it may promise.
//
// GPUs have one owner. If a device plugin offers them, the kubelet gives them out and the controller only charges what it reads from the kubelet;
// otherwise Hilbert does. While that is not known, nothing is promised: two owners of one GPU are worse than none.
type Controller struct {
	node    *controller.Node
	ports   Ports
	numbers *numbers
	kubelet *kubeletDevices // what the kubelet gave to pods
	params  gpu.Params
	mps     mps.Params
	owners  mps.Owners // of the memory that MPS daemons share with their clients
	busy    bool
	asked   time.Time // when it was last looked
	looked  bool      // once at least
	judged  bool      // once at least since the runtime told what runs
	others  bool      // another party offers the GPUs, as of the last inspection
	view    gpu.View
	own     gpu.Ownership
	whose   bool      // it is known which party gives the GPUs out
	quiet   time.Time // since when no other party has offered GPUs; zero: one does, or it is not known
	ready   bool      // one GPU at least could be put into a container
	last    Inspection
	tell    func() // what the last look found, while its numbers are not on disk
	// shutGPUs and shutNICs are closed because a promise of them was broken, by index.
	shutGPUs, shutNICs map[int]shutDevice
}

// Ports are the ways to devices and to who gives them out.
type Ports struct {
	// Inspector looks at GPUs and network cards; nil: nothing is said of them.
	Inspector Inspector
	// Kept keeps which number belongs to which GPU and network card; nil: nothing is kept.
	Kept store.Store
	// Kubelet are the pods that the kubelet lists, with the devices that it gave them for device plugins; nil: it cannot be asked.
	Kubelet func(ctx context.Context) ([]kubelet.ListedPod, error)
	// Reports: what is said of devices reaches an API server, which knows what the kubelet offers.
	Reports bool
}

// NewController returns one that knows the numbers that are kept, and has not looked yet.
func NewController(n *controller.Node, ports Ports) *Controller {
	d := &Controller{node: n, ports: ports, params: gpu.Defaults(), mps: mps.Defaults(), owners: mps.Owners{Since: n.Now()}}
	d.params.Owner = gpu.Setting(n.Config.Devices.Owner)
	d.params.SeveralNamespaces = n.Config.Devices.SeveralNamespaces
	d.params.IgnoreToolkit = n.Config.Devices.IgnoreToolkit
	d.mps.SeveralNamespaces = n.Config.Devices.SeveralNamespaces
	d.mps.SeveralUsers = n.Config.Devices.SeveralUsers
	d.numbers = newNumbers(n, ports.Kept, ports.Inspector != nil, d.numbersWritten)
	d.kubelet = &kubeletDevices{node: n, devices: d}
	return d
}

// Saver keeps the numbers of devices on disk.
func (d *Controller) Saver() *store.Saver { return d.numbers.saver }

// Looked reports whether the devices have been looked at, and judged whether that was so since the runtime told what runs.
func (d *Controller) Looked() (once, judged bool) { return d.looked, d.judged }

// RecallFunctions notes which functions of network cards a pod has, by the CDI devices of a container that runs.
func (d *Controller) RecallFunctions(uid string, devices []string) {
	d.numbers.recallFunctions(uid, devices)
}

// Undecided says why a pod cannot be admitted yet, for it is not known who gives out what it was promised; nil: it can.
func (d *Controller) Undecided(asked *allocate.Pod) error {
	switch {
	case asked.Devices != (topology.Grant{}) && d.ports.Inspector != nil && !d.judged:
		return errNotLooked
	case asked.Devices.GPUs != 0 && !d.whose && d.node.Manager.Devices.Inventory() != nil: // the promise may be the kubelet's to keep, or ours
		return errors.New("hilbert: " + d.own.Message + "; the kubelet tries again")
	}
	return nil
}

// KubeletCounts are what the kubelet has answered as to which devices it gave to pods, and those devices now.
type KubeletCounts struct {
	Read, Unread   uint64 // answers
	Found, Unknown int    // devices
}

// KubeletCounts are those of now.
func (d *Controller) KubeletCounts() KubeletCounts {
	all, found := d.kubelet.assignments.DeviceCount()
	return KubeletCounts{d.kubelet.good, d.kubelet.bad, found, all - found}
}

// shutDevice is a device that a broken promise has closed.
type shutDevice struct {
	why string
	at  time.Time
}

// Shut notes devices that a broken promise has closed.
func (d *Controller) Shut(gpus, nics uint16, why string, now time.Time) {
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

// Reopen opens devices again whose closing has served its purpose; over says so of the time when they were closed.
func (d *Controller) Reopen(over func(at time.Time) bool) {
	maps.DeleteFunc(d.shutGPUs, func(i int, s shutDevice) bool {
		if over(s.at) {
			d.node.Manager.Devices.Open(1<<i, 0)
		}
		return over(s.at)
	})
	maps.DeleteFunc(d.shutNICs, func(i int, s shutDevice) bool {
		if over(s.at) {
			d.node.Manager.Devices.Open(0, 1<<i)
		}
		return over(s.at)
	})
}

// Tick implements controller.Ticker.
func (d *Controller) Tick(now time.Time) (changed bool) {
	if err := d.numbers.saver.Late(now); err != nil {
		d.node.Events.Problems.Set(spec.ReasonCheckpointLost, "devices: "+err.Error())
	}
	d.Inspect(now)
	return false
}

// Pending reports whether the first look is still under way, or the first since the runtime told what runs. A report without devices would say that
// nobody knows of any, and one that has not judged who computes may have a GPU open that somebody else uses.
func (d *Controller) Pending(now time.Time, synced bool) bool {
	seen := d.looked
	if synced {
		seen = d.judged
	}
	return d.busy && !seen && now.Sub(d.asked) < inspectTimeout
}

// Inspect has the devices looked at when it is time.
func (d *Controller) Inspect(now time.Time) {
	if d.ports.Inspector == nil || d.busy || !d.node.Loop.Running() || now.Sub(d.asked) < d.node.Config.Devices.Interval.D() {
		return
	}
	d.busy, d.asked = true, now
	ask, known := d.kubelet.question(now), d.mayHaveGPUs(&Inspection{})
	d.node.Loop.Work(func(ctx context.Context) {
		bounded, cancel := context.WithTimeout(ctx, inspectTimeout)
		defer cancel()
		seen := d.ports.Inspector.Inspect(bounded)
		var answer *kubeletAnswer
		if ask != nil && (known || seen.Loaded || gpu.Offers(&seen.Offers)) {
			answer = ask(ctx)
		}
		d.node.Loop.Post(func() {
			d.busy = false
			d.update(&seen, answer, d.node.Now())
		})
	})
}

// InspectNow has the devices looked at as soon as possible. A look that is under way will do.
func (d *Controller) InspectNow(now time.Time) {
	if !d.busy {
		d.asked = time.Time{}
		d.Inspect(now)
	}
}

// update takes a look over, and what the kubelet answered meanwhile; nil: it was not asked.
func (d *Controller) update(l *Inspection, answer *kubeletAnswer, now time.Time) {
	o, e := l.Seen, l.Offers
	d.kubelet.update(answer)
	d.kubelet.assignments.Resolve(d.numbers.known.GPU.Slots, func(spec.PodRef, kubelet.Device) {})
	ours := d.held()
	o.Held = ours
	d.kubelet.assignments.AddHeld(&o.Held)
	others := !e.NoneHere && gpu.DecideOwner(&d.params, &e).Owner == topology.OwnerKubelet
	d.others = others || e.Slices > 0
	if gpu.Offers(&e) {
		d.kubelet.assignments.Invalidate()
	}
	if inv := o.Inventory; inv != nil {
		cannot := d.uninjectable(l)
		d.ready = l.Catalog != nil && len(cannot) < len(inv.GPUs)
		if !others { // a device plugin has its own way, and its pods their grants
			o.Uninjectable = cannot
			if d.node.Runtime.Synced {
				o.Foreign = gpu.Strangers(inv, d.mayUse(l.Cgroups))
			}
			o.Foreign = d.kubelet.addPartlyUsed(o.Foreign)
		}
	}
	var view gpu.View
	d.numbers.known.GPU, view = gpu.Step(&d.params, d.numbers.known.GPU, &o)
	for _, note := range view.Notes {
		d.node.Log.Warn("about the GPUs", "note", note)
	}
	if others || e.Slices > 0 || !e.NodeKnown || !e.SlicesKnown {
		d.quiet = time.Time{}
	} else if d.quiet.IsZero() {
		d.quiet = now
	}
	if !d.quiet.IsZero() {
		e.Quiet = int(now.Sub(d.quiet).Seconds())
	}
	e.GPUs, e.Ready, e.Held, e.Untold = len(view.Slots), d.ready, ours.GPUs != 0, d.kubelet.uncertainty()
	if d.node.Runtime.Synced { // before, the running pods are not known
		d.numbers.forgetFunctions(d.node.Manager.UIDs())
	}
	cards := d.numbers.cards(l.Bandwidth)
	synced := d.node.Runtime.Synced
	d.tell = func() {
		d.view = view
		d.decided(l, &e, synced)
		is := d.checked(l, cards, others)
		d.kubelet.charge(is)
		d.node.Manager.Devices.Set(is, d.whose)
		if d.node.Runtime.Synced && !d.judged { // the runtime told what runs while this look was under way, and the kubelet was not asked
			d.InspectNow(d.node.Now())
		}
	}
	d.numbers.save(now)
	d.numbersWritten()
}

// numbersWritten carries out what the last look found, when its numbers are on disk: nobody is told of one before. Until then what was found before holds.
func (d *Controller) numbersWritten() {
	if tell := d.tell; tell != nil && (d.numbers.tellable() || d.numbers.err != nil) {
		d.tell = nil
		tell()
	}
}

// decided takes over who gives the GPUs out.
func (d *Controller) decided(l *Inspection, e *gpu.Evidence, synced bool) {
	before := d.own
	d.own = gpu.DecideOwner(&d.params, e)
	d.whose = d.own.Reason != gpu.OwnUnknown
	d.last, d.looked = *l, true
	if synced {
		d.judged = d.judged || !d.kubelet.unasked(l)
	}
	if err := d.numbers.err; err != nil { // what cannot be kept is not promised
		d.own = gpu.Ownership{Owner: topology.OwnerNone, Reason: gpu.OwnUnknown, Message: err.Error()}
	}
	if d.own.Owner != before.Owner || d.own.Reason != before.Reason {
		d.node.Log.Info("who gives the GPUs out", "owner", d.own.Owner, "reason", d.own.Reason, "message", d.own.Message)
	}
}

// checked is what there is; nil: nothing is said of it.
func (d *Controller) checked(l *Inspection, cards *topology.Devices, others bool) *topology.Devices {
	// A node whose kubelet offers GPUs that the driver does not tell us of is counted as before: nothing is said.
	if unseen := len(d.view.Slots) == 0; unseen && (l.Loaded || others || d.ports.Reports && !l.Offers.NodeKnown && !l.Offers.NoneHere) {
		return nil
	}
	is := d.view.Devices(&d.params, cards, d.own.Owner, func(uuid string) bool { _, served := l.Served[uuid]; return served })
	if err := is.Check(); err != nil {
		d.node.Log.Error("the devices are not sound; nothing is said of them", "err", err)
		return nil
	}
	return is
}

// uninjectable are the GPUs that could not be put into a container now, by address, with why.
func (d *Controller) uninjectable(l *Inspection) map[string]string {
	cannot := make(map[string]string)
	if l.Catalog != nil {
		cannot = inject.Uninjectable(l.Seen.Inventory, l.Catalog)
	}
	if why := cdi.Drops(d.node.Runtime.Name); why != "" {
		for i := range l.Seen.Inventory.GPUs {
			cannot[l.Seen.Inventory.GPUs[i].Address] = why
		}
	}
	return cannot
}

// held are the GPUs that pods hold and that we gave.
func (d *Controller) held() (h gpu.Held) {
	for _, held := range d.node.Manager.Devices.Held() {
		h.Add(&held.Grant)
	}
	return h
}

// Status returns what is reported of GPUs and network cards, and how many GPUs are idle.
func (d *Controller) Status(now time.Time) (*spec.Devices, string) {
	is := d.node.Manager.Devices.Inventory()
	if is == nil {
		return nil, ""
	}
	said := report.Devices(d.node.Machine, is, &d.view, d.node.Manager.Devices.Held())
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
	said.Reason, said.Kubelet = string(d.own.Reason)+": "+d.own.Message, d.kubelet.status(now)
	if d.node.Runtime.Away(now) {
		said.Owner, said.Reason = spec.OwnerNone, spec.ReasonRuntimeLost+": "+d.node.Runtime.Why
	}
	total := len(is.GPU)
	free, known := d.kubelet.free(total)
	switch {
	case total == 0:
		return said, ""
	case d.own.Owner == topology.OwnerKubelet && known:
		return said, fmt.Sprintf("%d/%d free, owner %s", free, total, d.own.Owner)
	case d.own.Owner != topology.OwnerHilbert:
		return said, fmt.Sprintf("%d, owner %s", total, d.own.Owner)
	}
	held := d.held()
	d.kubelet.assignments.AddHeld(&held)
	used := is.ClosedGPUs | held.GPUs
	return said, fmt.Sprintf("%d/%d free", total-bits.OnesCount16(used), total)
}
