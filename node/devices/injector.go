package devices

import (
	"errors"
	"fmt"
	"math/bits"
	"path"
	"slices"
	"strings"

	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/node/allocate"
	"hilbert.dev/hilbert/node/cdi"
	"hilbert.dev/hilbert/node/controller"
	"hilbert.dev/hilbert/node/gpu"
	"hilbert.dev/hilbert/node/gpu/inject"
	"hilbert.dev/hilbert/node/mps"
	"hilbert.dev/hilbert/node/pods"
	"hilbert.dev/hilbert/node/runtime"
	"hilbert.dev/hilbert/topology"
)

// errNotLooked: the first inspection is not done yet. It will be in a moment, so no Event is written.
var errNotLooked = errors.New("hilbert: the node's devices were not looked at yet; the kubelet tries again")

// Injector turns what a pod holds of GPUs and network cards into what its containers get.
type Injector struct {
	node    *controller.Node
	devices *Controller
}

// NewInjector returns one of the devices that a controller knows.
func NewInjector(d *Controller) *Injector {
	return &Injector{node: d.node, devices: d}
}

// Inject is what a new container gets of the node's GPUs and cards: what its pod holds, and no other. The error is why it cannot be made now; the
// kubelet tries again.
func (j *Injector) Inject(s *runtime.Sandbox, c *runtime.Container) (cdi.Edits, error) {
	if j.devices.ports.Inspector == nil {
		return cdi.Edits{}, nil
	}
	box := cdi.Container{Name: c.Name, Env: c.Env, Mounts: c.Mounts}
	held, admitted := j.node.Manager.Placement(s.UID)
	g := held.Devices
	switch {
	case !j.devices.looked && g.GPUs|g.NICs != 0, j.devices.Pending(j.node.Now(), false) && box.Asks():
		return cdi.Edits{}, errNotLooked
	case held.Unsettled && !j.devices.others:
		return cdi.Edits{}, errors.New("hilbert: it is not known yet whose the devices are that the pod was promised; the kubelet tries again")
	case !admitted && pods.Asked(s).Devices != (topology.Grant{}):
		return cdi.Edits{}, errors.New("hilbert: the pod was promised devices and is not admitted yet; the kubelet tries again")
	}
	pod := cdi.Pod{Observer: s.Namespace == runtime.Observers}
	if g.GPUs|g.NICs != 0 {
		given, reason, err := j.resolve(s.UID, c, &g)
		if err == nil {
			reason, err = spec.ReasonSliceUnserved, j.giveShared(s, &g, &given)
		}
		if err != nil {
			j.node.Counts.Withheld[reason]++
			j.node.Events.Note(s.Ref(), allocate.Note{Reason: reason, Message: "container " + c.Name + ": " + err.Error()})
			return cdi.Edits{}, errors.New("hilbert: " + reason + ": " + err.Error())
		}
		pod.Grant = &given
	}
	n := cdi.Node{Ours: j.devices.own.Owner == topology.OwnerHilbert || j.devices.held().GPUs != 0}
	if by, _ := j.devices.kubelet.assignments.Pod(s.UID); by.Any && pod.Grant == nil { // the kubelet brings it what it gave, the same when the container starts again
		n.Ours = false
	}
	if j.devices.last.Catalog != nil && !j.devices.others {
		n.All = j.devices.last.Catalog.All()
	}
	edits, err := cdi.Inject(&n, &pod, &box)
	if err != nil {
		return cdi.Edits{}, fmt.Errorf("hilbert: container %s: %w", c.Name, err)
	}
	return edits, nil
}

// resolve turns what a pod holds into what one of its containers gets. Otherwise it says why that cannot be had now, by its reason and in words.
func (j *Injector) resolve(uid string, c *runtime.Container, g *topology.Grant) (out cdi.Grant, reason string, err error) {
	if why := cdi.Drops(j.node.Runtime.Name); why != "" {
		return out, spec.ReasonDeviceUncertain, errors.New(why)
	}
	cards, err := j.functionsOf(uid, g)
	if err != nil {
		return out, spec.ReasonDeviceUncertain, err
	}
	n := inject.Node{View: &j.devices.view, Catalog: j.devices.last.Catalog, MPS: &j.devices.mps, Served: j.devices.last.Served}
	if n.Catalog == nil {
		n.Catalog = &cdi.Catalog{}
	}
	out, err = inject.Resolve(&n, g, cards)
	switch {
	case errors.Is(err, inject.ErrUnserved):
		return out, spec.ReasonSliceUnserved, err
	case err != nil:
		return out, spec.ReasonDeviceUncertain, err
	case g.Isolation == topology.Soft && c.User != nil: // without the user's number from the runtime, the rules cannot be checked
		err = j.devices.mps.Admit(*pods.UserOf(c), j.usersOf(g.GPUs, uid))
		if errors.Is(err, mps.ErrHostRoot) {
			return out, spec.ReasonSliceOfHostRoot, err
		}
		if err != nil {
			return out, spec.ReasonSliceOfOtherUser, err
		}
	}
	return out, "", nil
}

// giveShared gives a pod the memory that the daemon of its GPU shares with its clients, if it is to have it.
func (j *Injector) giveShared(s *runtime.Sandbox, g *topology.Grant, given *cdi.Grant) error {
	if j.devices.mps.SeveralNamespaces || len(given.Soft.Mounts) == 0 {
		return nil
	}
	for set := g.GPUs; set != 0; set &= set - 1 {
		i := bits.TrailingZeros16(set)
		shared := j.devices.last.Served[j.devices.view.Slots[i].GPU.UUID]
		if err := j.devices.owners.Give(i, shared, s.Namespace, j.runningOn(i)); err != nil {
			return fmt.Errorf("GPU %d: %w", i, err)
		}
	}
	return nil
}

// runningOn are the namespaces of the containers that there are of a GPU's holders.
func (j *Injector) runningOn(i int) (namespaces []string) {
	for _, h := range j.node.Manager.Devices.Held() {
		p := j.node.Pods.Of(h.UID)
		if p == nil || h.Grant.GPUs&(1<<i) == 0 {
			continue
		}
		for _, c := range p.Containers {
			if c.Exists {
				namespaces = append(namespaces, p.Ref.Namespace)
				break
			}
		}
	}
	return namespaces
}

// usersOf returns the users that hold soft slices of some GPUs, but for one pod: its containers trust each other. A pod whose containers are of several
// users is passed over, because it is not known which of them computes.
func (j *Injector) usersOf(gpus uint16, but string) (users []mps.User) {
	for _, h := range j.node.Manager.Devices.Held() {
		p := j.node.Pods.Of(h.UID)
		if h.Grant.GPUs&gpus == 0 || h.Grant.Isolation != topology.Soft || h.UID == but || p == nil {
			continue
		}
		var own []mps.User
		for _, c := range p.Containers {
			if c.User != nil && !slices.Contains(own, *c.User) {
				own = append(own, *c.User)
			}
		}
		if len(own) == 1 {
			users = append(users, own[0])
		}
	}
	return users
}

// mayUse says of a process that computes on a GPU whether its pod holds the GPU, or may see all of them. cgroups are as a DeviceInspection has them. What
// is not known, and what has ended since, is no stranger.
func (d *Controller) mayUse(cgroups map[int]string) func(pid int, address string) bool {
	pods := make(map[string]*pods.Pod, d.node.Pods.Len()) // by the last part of their cgroup, which has the UID in it
	for _, p := range d.node.Pods.All() {
		if p.Cgroup != "" {
			pods[path.Base(p.Cgroup)] = p
		}
	}
	return func(pid int, address string) bool {
		cgroup, lives := cgroups[pid]
		if !lives || d.holderUnseen(address) {
			return true
		}
		// In the agent's container the kernel shows it relative to the agent's own cgroup, so only the pod's part of it counts.
		for part := range strings.SplitSeq(cgroup, "/") {
			if p := pods[part]; p != nil {
				return p.Ref.Namespace == runtime.Observers || d.holds(p.Ref.UID, address)
			}
		}
		return false
	}
}

// holds reports whether a pod holds the GPU at an address, or may: it was promised some, and it is not known yet whose they are.
func (d *Controller) holds(uid, address string) bool {
	held, _ := d.node.Manager.Placement(uid)
	slots := d.numbers.known.GPU.Slots
	for set := held.Devices.GPUs; set != 0; set &= set - 1 {
		if i := bits.TrailingZeros16(set); i < len(slots) && slots[i].Address == address {
			return true
		}
	}
	return held.Unsettled || d.kubelet.holds(uid, slices.IndexFunc(slots, func(s gpu.Slot) bool { return s.Address == address }))
}

// holderUnseen reports whether a GPU's holder has a cgroup that could not be found out: then its processes cannot be told from others.
func (d *Controller) holderUnseen(address string) bool {
	for uid, p := range d.node.Pods.All() {
		if p.Cgroup == "" && d.holds(uid, address) {
			return true
		}
	}
	return false
}

// Ours reports whether containers are kept from GPUs that they were not given.
func (j *Injector) Ours() bool {
	return j.devices.ports.Inspector != nil && (j.devices.own.Owner == topology.OwnerHilbert || j.devices.held().GPUs != 0)
}

// Files are the device files that a CDI device has in a container; none where it is not known.
func (j *Injector) Files(device string) []string {
	if strings.HasPrefix(device, cdi.CardKind+"=") || j.devices.last.Catalog == nil {
		return nil
	}
	return j.devices.last.Catalog.Files(device)
}
