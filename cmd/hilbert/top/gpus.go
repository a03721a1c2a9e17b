package top

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"hilbert.dev/hilbert/api/node/v1alpha1"
	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/cmd/exitcode"
	"hilbert.dev/hilbert/cmd/hilbert/complete"
	"hilbert.dev/hilbert/cmd/hilbert/output"
	"hilbert.dev/hilbert/kube/parse"
	"hilbert.dev/hilbert/schedule/fragment"
	"hilbert.dev/hilbert/topology"
)

// defaultNodeLimit is how many nodes hilbert top gpus draws unless told otherwise.
const defaultNodeLimit = 20

func newGPUs() *cobra.Command {
	var f flags
	var model, report string
	limit := defaultNodeLimit
	cmd := &cobra.Command{
		Use:     "gpus [NODE...]",
		Aliases: []string{"gpu"},
		Short:   "Show GPUs and network cards: their place, which pods hold them, and what is free by model",
		Long: `Show for each node with GPUs or network cards which party gives out the GPUs, and for each device its NUMA node and PCIe switch, the held compute and
memory (a letter is a pod with a part, # a pod with the whole device), what is free, which pods hold it and with which isolation, and why it is closed.
A summary by model follows: how many GPUs there are, how many are free as a whole, and for several pod sizes (in GPUs) how many such pods would fit and
which share of the free compute they could not use (fragmentation). GPUs that are closed, STALE, or on a node without an owner count as closed.`,
		Example: `  hilbert top gpus
  hilbert top gpus node-17
  hilbert top gpus --model A100 --limit 100 --report gpus.html
  hilbert top gpus -o json`,
		RunE: func(cmd *cobra.Command, names []string) error {
			if limit < 0 {
				return exitcode.Usagef("top: --limit %d: want how many nodes to draw, or 0 for the summary alone", limit)
			}
			view, now := newGPUsView(model, limit), time.Now()
			if len(names) > 0 {
				view.limit = max(limit, len(names))
			}
			if err := f.each(cmd, names, func(c *v1alpha1.CustomNodeResource) { view.add(c, now, f.staleAfter) }); err != nil {
				return err
			}
			view.sum()
			if report != "" {
				if err := output.WriteFile(report, func(w io.Writer) error { return view.WriteHTML(w, now) }); err != nil {
					return fmt.Errorf("write the report: %w", err)
				}
			}
			return f.output.Write(cmd.OutOrStdout(), view)
		},
	}
	f.flags(cmd, output.Name)
	cmd.ValidArgsFunction = complete.Nodes(&f.target)
	cmd.Flags().StringVar(&model, "model", "", "show only GPUs whose model name contains this, and their nodes")
	cmd.Flags().StringVar(&report, "report", "", "also write an HTML page with pictures to this file")
	cmd.Flags().IntVar(&limit, "limit", limit, "draw at most this many nodes; the summary counts all of them, and named nodes are always drawn")
	return cmd
}

// gpusView is the answer of hilbert top gpus.
type gpusView struct {
	Nodes  []gpuNode  `json:"nodes"`
	Models []gpuModel `json:"models"`
	// More is how many nodes are not listed, Unread of how many nodes what is said cannot be read: those are not counted.
	More   int `json:"more,omitempty"`
	Unread int `json:"unread,omitempty"`

	model string // in small letters
	limit int
	rest  fragment.GPUSummary
}

// Objects are the nodes that are drawn.
func (v *gpusView) Objects() (list []output.Object) {
	for i := range v.Nodes {
		list = append(list, output.Object{Kind: "Node", Name: v.Nodes[i].Name})
	}
	return list
}

func newGPUsView(model string, limit int) *gpusView {
	return &gpusView{Nodes: []gpuNode{}, Models: []gpuModel{}, model: strings.ToLower(model), limit: limit}
}

// gpuNode is a node with devices.
type gpuNode struct {
	Name   string `json:"name"`
	Owner  string `json:"owner"`
	Reason string `json:"reason,omitempty"`
	seen
	// Problem is why the scheduler cannot read what is said of the devices.
	Problem string `json:"problem,omitempty"`
	// Notes are why some of them give nothing.
	Notes []string `json:"notes,omitempty"`
	// Kubelet is what else is known of devices that the kubelet gave to pods.
	Kubelet *spec.KubeletDevices `json:"kubelet,omitempty"`

	GPUs []gpuRow `json:"gpus,omitempty"`
	NICs []nicRow `json:"nics,omitempty"`
}

type gpuRow struct {
	Index int    `json:"index"`
	Model string `json:"model"`
	UUID  string `json:"uuid,omitempty"`
	spec.DevicePlace
	// FreeMilli is the thousandths of compute that nobody holds.
	FreeMilli     int32 `json:"freeMilli"`
	MemoryMiB     int64 `json:"memoryMiB"`
	FreeMemoryMiB int64 `json:"freeMemoryMiB"`
	// Idle: it can be given whole. Part is the largest part that it gives, in thousandths.
	Idle bool  `json:"idle,omitempty"`
	Part int32 `json:"part,omitempty"`
	// Instances are those that the GPU is divided into, and how many of them nobody holds.
	Instances     int      `json:"instances,omitempty"`
	FreeInstances int      `json:"freeInstances,omitempty"`
	Isolation     []string `json:"isolation,omitempty"`
	// Closed: it gives nothing new, and why.
	Closed  string         `json:"closed,omitempty"`
	Holders []deviceHolder `json:"holders,omitempty"`
}

type nicRow struct {
	Index int    `json:"index"`
	Name  string `json:"name"`
	spec.DevicePlace
	BandwidthMbit     int64          `json:"bandwidthMbit"`
	FreeBandwidthMbit int64          `json:"freeBandwidthMbit"`
	Functions         int            `json:"functions,omitempty"`
	FreeFunctions     int            `json:"freeFunctions,omitempty"`
	RDMA              bool           `json:"rdma,omitempty"`
	Closed            string         `json:"closed,omitempty"`
	Holders           []deviceHolder `json:"holders,omitempty"`
}

// deviceHolder is a pod that holds something of a device.
type deviceHolder struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	UID       string `json:"uid"`
	// Milli and MemoryMiB are of a GPU; Isolation is empty where it is held whole.
	Milli     int16  `json:"milli,omitempty"`
	MemoryMiB int64  `json:"memoryMiB,omitempty"`
	Isolation string `json:"isolation,omitempty"`
	Instance  string `json:"instance,omitempty"`
	// BandwidthMbit and Function are of a network card.
	BandwidthMbit int64 `json:"bandwidthMbit,omitempty"`
	Function      bool  `json:"function,omitempty"`
	Moved         bool  `json:"moved,omitempty"`
	// Owner is who gave a GPU, if it was not the agent.
	Owner string `json:"owner,omitempty"`
	// Device is what a device plugin calls something that is no whole GPU and not one instance.
	Device string `json:"device,omitempty"`
}

// gpuModel is what is left of a model.
type gpuModel struct {
	Model   string `json:"model"`
	GPUs    int    `json:"gpus"`
	Idle    int    `json:"idle"`
	Shared  int    `json:"shared"`
	Divided int    `json:"divided"`
	Held    int    `json:"held"`
	Closed  int    `json:"closed"`
	// FreeMilli is the thousandths that nobody holds of GPUs that are not closed.
	FreeMilli int64     `json:"freeMilli"`
	Sizes     []gpuSize `json:"sizes"`
}

// gpuSize is what is left to pods of a size.
type gpuSize struct {
	Milli int32 `json:"milli"`
	Fits  int64 `json:"fits"`
	// Fragmentation is the share of what is free that such a pod could not use; nil: nothing is free.
	Fragmentation *float64 `json:"fragmentation,omitempty"`
}

// unreadable is the reason of a GPU that is closed because of what is said of it, not by its agent.
const unreadable = "Doubtful"

// add takes in a node.
func (v *gpusView) add(c *v1alpha1.CustomNodeResource, now time.Time, staleAfter time.Duration) {
	said := c.Status.Devices
	if said == nil || v.model != "" && !slices.ContainsFunc(said.GPUs, func(g spec.GPU) bool { return v.wants(g.Model) }) {
		return
	}
	node := gpuNode{Name: c.Name, Owner: said.Owner, Reason: said.Reason, seen: seenOf(c, now, staleAfter)}
	parsed, err := parse.NodeDevices(&c.Status.NodeStatus)
	if err != nil {
		node.Problem = err.Error()
		v.Unread++
		v.keep(&node)
		return
	}
	node.Notes, node.Kubelet = parsed.Notes, said.Kubelet
	d := parsed.Devices
	if node.Stale && d.Owner != topology.OwnerKubelet {
		stale := *d
		stale.Owner = topology.OwnerNone
		d = &stale
	}
	left := newDevicesLeft(d)
	for i := range parsed.Held {
		left.view.Commit(&parsed.Held[i].Grant)
	}
	left.giveParts(said.Kubelet)
	holders := holdersOf(said, d)
	for i := range said.GPUs {
		if g := &said.GPUs[i]; v.wants(g.Model) {
			node.GPUs = append(node.GPUs, left.gpu(g, holders.gpus[g.Index]))
		}
	}
	for i := range said.NICs {
		node.NICs = append(node.NICs, left.nic(&said.NICs[i], holders.nics[said.NICs[i].Index]))
	}
	slices.SortFunc(node.GPUs, func(a, b gpuRow) int { return cmp.Compare(a.Index, b.Index) })
	slices.SortFunc(node.NICs, func(a, b nicRow) int { return cmp.Compare(a.Index, b.Index) })
	left.giveUnknown(said.Kubelet) // which GPUs they are is not known, so no line has them
	v.rest.Add(&left.view)
	v.keep(&node)
}

// wants reports whether a model is asked for.
func (v *gpusView) wants(model string) bool { return strings.Contains(strings.ToLower(model), v.model) }

func (v *gpusView) keep(node *gpuNode) {
	if len(v.Nodes) >= v.limit {
		v.More++
		return
	}
	v.Nodes = append(v.Nodes, *node)
}

// sum adds up the models.
func (v *gpusView) sum() {
	for _, m := range v.rest.Models() {
		if !v.wants(m.Model) {
			continue
		}
		out := gpuModel{Model: m.Model, GPUs: m.GPUs, Idle: m.Idle, Shared: m.Shared, Divided: m.Divided, Held: m.Held, Closed: m.Closed, FreeMilli: m.Left}
		for i, size := range fragment.Sizes {
			s := gpuSize{Milli: size, Fits: m.Fits[i]}
			if part, ok := m.Fragmentation(i); ok {
				s.Fragmentation = &part
			}
			out.Sizes = append(out.Sizes, s)
		}
		v.Models = append(v.Models, out)
	}
}

// devicesLeft is what is left of a node's devices, by what its agent says that pods hold.
type devicesLeft struct {
	view    topology.View
	shape   topology.Shape
	free    topology.Free
	devices topology.DeviceFree
}

func newDevicesLeft(d *topology.Devices) *devicesLeft {
	l := &devicesLeft{shape: topology.Shape{Devices: d}}
	if i := slices.IndexFunc(d.GPU, func(g topology.GPU) bool { return g.Model != "" }); i >= 0 {
		l.shape.Model = d.GPU[i].Model // one model a node
	}
	l.free, l.devices = topology.NewFree(l.shape), topology.NewDeviceFree(d)
	l.view = topology.View{Shape: &l.shape, Free: &l.free, Devices: &l.devices}
	return l
}

// giveParts charges GPUs of which the kubelet gave what no allocation says: they are not idle.
func (l *devicesLeft) giveParts(k *spec.KubeletDevices) {
	for i := range othersOf(k) {
		if gpu := k.Others[i].GPU; gpu != nil && *gpu >= 0 && *gpu < len(l.shape.Devices.GPU) && l.view.Rest(*gpu).Whole {
			l.view.Commit(&topology.Grant{GPUs: 1 << *gpu, Milli: topology.FullGPU})
		}
	}
}

// giveUnknown charges as many idle GPUs as the kubelet gave devices of which it is not known which they are.
func (l *devicesLeft) giveUnknown(k *spec.KubeletDevices) {
	unknown := unknownOf(k)
	for i := len(l.shape.Devices.GPU) - 1; i >= 0 && unknown > 0; i-- {
		if l.view.Rest(i).Whole {
			l.view.Commit(&topology.Grant{GPUs: 1 << i, Milli: topology.FullGPU})
			unknown--
		}
	}
}

func othersOf(k *spec.KubeletDevices) []spec.KubeletDevice {
	if k == nil {
		return nil
	}
	return k.Others
}

// unknownOf is how many devices the kubelet gave of which it is not known which they are.
func unknownOf(k *spec.KubeletDevices) (n int) {
	for _, o := range othersOf(k) {
		if o.GPU == nil {
			n++
		}
	}
	if k != nil {
		n += max(k.More, 0)
	}
	return n
}

func (l *devicesLeft) gpu(said *spec.GPU, holders []deviceHolder) gpuRow {
	rest := l.view.Rest(said.Index)
	row := gpuRow{
		Index: said.Index, Model: said.Model, UUID: said.UUID, DevicePlace: said.DevicePlace, FreeMilli: rest.Left, MemoryMiB: said.MemoryMiB,
		FreeMemoryMiB: int64(max(l.devices.Memory[said.Index], 0)), Idle: rest.Whole, Part: rest.Part, Instances: len(said.Instances),
		Isolation: said.Isolation, Closed: said.Closed, Holders: holders,
	}
	for k := range said.Instances {
		if !l.devices.HoldsInstance(said.Index, k) {
			row.FreeInstances++
		}
	}
	if row.Closed == "" && l.shape.Devices.ClosedGPUs&(1<<said.Index) != 0 {
		row.Closed = unreadable
	}
	return row
}

func (l *devicesLeft) nic(said *spec.NIC, holders []deviceHolder) nicRow {
	row := nicRow{
		Index: said.Index, Name: said.Name, DevicePlace: said.DevicePlace, BandwidthMbit: said.BandwidthMbit, Functions: said.Functions,
		FreeBandwidthMbit: int64(max(l.devices.Bandwidth[said.Index], 0)), FreeFunctions: int(max(l.devices.Functions[said.Index], 0)),
		RDMA: said.RDMA, Closed: said.Closed, Holders: holders,
	}
	if row.Closed == "" && l.shape.Devices.ClosedNICs&(1<<said.Index) != 0 {
		row.Closed = unreadable
	}
	return row
}

// deviceHolders are the pods that hold something of each device, in the order in which the agent names them.
type deviceHolders struct {
	gpus [topology.MaxGPUs][]deviceHolder
	nics [topology.MaxNICs][]deviceHolder
}

// holdersOf reads the allocations, which ParseDevices has read before.
func holdersOf(said *spec.Devices, d *topology.Devices) *deviceHolders {
	h := &deviceHolders{}
	for i := range said.Allocations {
		a := &said.Allocations[i]
		pod := deviceHolder{Namespace: a.Namespace, Name: a.Name, UID: a.UID, Moved: a.Moved}
		var g topology.Grant
		if a.GPUs != "" && g.ParseGPUs(a.GPUs, nil) == nil {
			d.Complete(&g)
			for index := range topology.MaxGPUs {
				if g.GPUs&(1<<index) != 0 {
					holder := pod.withGPU(&g, &d.GPU[index])
					holder.Owner = a.Owner
					h.gpus[index] = append(h.gpus[index], holder)
				}
			}
		}
		if a.NICs != "" && g.ParseNICs(a.NICs, nil) == nil {
			for index := range topology.MaxNICs {
				if g.NICs&(1<<index) != 0 {
					card := pod
					card.BandwidthMbit, card.Function = int64(g.NIC.Bandwidth), g.NIC.Function
					h.nics[index] = append(h.nics[index], card)
				}
			}
		}
	}
	for _, o := range othersOf(said.Kubelet) {
		if o.GPU != nil && *o.GPU >= 0 && *o.GPU < len(d.GPU) {
			h.gpus[*o.GPU] = append(h.gpus[*o.GPU], deviceHolder{Namespace: o.Namespace, Name: o.Name, Owner: spec.OwnerKubelet, Device: o.Resource + " " + o.ID})
		}
	}
	return h
}

// withGPU is the pod with what it holds of a GPU.
func (p deviceHolder) withGPU(g *topology.Grant, gpu *topology.GPU) deviceHolder {
	p.Milli, p.MemoryMiB, p.Isolation = g.Milli, int64(g.Memory), g.Isolation.String()
	if g.Isolation == topology.IsolationAny {
		p.MemoryMiB = int64(gpu.Memory)
	}
	if g.Instance > 0 {
		p.Instance = gpu.Instances[g.Instance-1].Name
	}
	return p
}
