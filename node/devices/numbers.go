package devices

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/node/cdi"
	"hilbert.dev/hilbert/node/controller"
	"hilbert.dev/hilbert/node/gpu"
	"hilbert.dev/hilbert/node/store"
	"hilbert.dev/hilbert/topology"
)

// numbersFile is what must outlast the agent: an index that was promised is never another device.
type numbersFile struct {
	GPU gpu.State `json:"gpu"`
	// Cards are the PCI addresses of network cards by index.
	Cards []string `json:"cards,omitempty"`
	// Functions are the virtual functions that pods were given, by UID: PCI addresses.
	Functions map[string][]string `json:"functions,omitempty"`
}

// numbers keeps which number belongs to which GPU, card and function. A promise names devices by number, so a number is written down before
// anybody is told of it.
type numbers struct {
	node  *controller.Node
	store store.Store // nil: nothing is kept
	known numbersFile
	saver *store.Saver
	// kept are the numbers of GPUs and cards that are on disk, and writing those that are being written.
	kept, writing string
	// changed is called in the loop when a write has ended; err is why the last one failed.
	changed func()
	err     error
}

// newNumbers returns those that are kept. Where no devices are looked at, it does not read them.
func newNumbers(n *controller.Node, kept store.Store, looks bool, changed func()) *numbers {
	d := &numbers{node: n, store: kept, changed: changed}
	d.saver = store.NewSaver(n.Loop, n.Now, kept, d.written)
	if looks {
		d.load()
	}
	return d
}

// load takes over which number belongs to which device. What cannot be read is numbered anew.
func (n *numbers) load() {
	if n.store == nil {
		return
	}
	data, err := n.store.Load()
	if err == nil && data != nil {
		var known struct {
			GPU       json.RawMessage     `json:"gpu"`
			Cards     []string            `json:"cards"`
			Functions map[string][]string `json:"functions"`
		}
		if err = json.Unmarshal(data, &known); err == nil {
			n.known.Cards, n.known.Functions = known.Cards[:min(len(known.Cards), topology.MaxNICs)], known.Functions
			n.known.GPU, err = gpu.Load(known.GPU)
		}
	}
	if err != nil {
		n.node.Counts.CheckpointErrors++
		n.node.Events.Problems.Set(spec.ReasonCheckpointLost, "devices: "+err.Error())
		n.node.Log.Warn("the numbers of devices cannot be read; they are numbered anew", "err", err)
		return
	}
	n.kept = n.numbering()
	n.saver.Loaded(data)
}

// numbering is which number belongs to which GPU, instance and card, as text. What else is kept changes often, and nobody is told of it by number.
func (n *numbers) numbering() string {
	var out strings.Builder
	for i := range n.known.GPU.Slots {
		s := &n.known.GPU.Slots[i]
		fmt.Fprintf(&out, "%s %s", s.Address, s.GPU.UUID)
		for k := range s.Instances {
			fmt.Fprintf(&out, " %s", s.Instances[k].UUID)
		}
		out.WriteByte('\n')
	}
	fmt.Fprintln(&out, n.known.Cards)
	return out.String()
}

// save has written down which number belongs to which device. It does not wait for the disk.
func (n *numbers) save(now time.Time) {
	if n.store == nil {
		return
	}
	data, err := json.Marshal(n.known)
	if err != nil {
		n.written(err)
		return
	}
	if !n.saver.Writes() {
		n.writing = n.numbering()
	}
	n.saver.Save(data, now)
}

// written takes the end of a write.
func (n *numbers) written(err error) {
	if n.err = nil; err != nil {
		n.node.Counts.CheckpointErrors++
		n.err = fmt.Errorf("the numbers of devices cannot be kept: %w", err)
	} else {
		n.node.Events.Problems.Resolve(spec.ReasonCheckpointLost)
		n.kept = n.writing
		n.writing = n.numbering() // of what is written next, if there is something
	}
	n.changed()
}

// tellable reports whether the numbers are on disk, so that people may be told of them.
func (n *numbers) tellable() bool {
	return n.store == nil || n.kept == n.numbering()
}

// cards are the machine's devices with network cards at the index that their address has.
func (n *numbers) cards(bandwidth map[string]uint32) *topology.Devices {
	is := topology.DevicesOf(n.node.Machine)
	known := n.known.Cards
	for i := range is.NIC {
		if address := is.NIC[i].Address; !slices.Contains(known, address) && len(known) < topology.MaxNICs {
			known = append(slices.Clip(known), address)
		}
	}
	n.known.Cards = known
	out := &topology.Devices{GPU: is.GPU}
	for i, address := range known {
		at := slices.IndexFunc(is.NIC, func(n topology.NIC) bool { return n.Address == address })
		if at < 0 { // it is gone, and keeps its number
			out.NIC = append(out.NIC, topology.NIC{Address: address, Switch: topology.NoPlace, NUMANode: topology.NoPlace, Socket: topology.NoPlace})
			out.ClosedNICs |= 1 << i
			continue
		}
		n := is.NIC[at]
		n.Bandwidth = min(bandwidth[address], topology.MaxAmount)
		out.NIC = append(out.NIC, n)
	}
	return out
}

func (n *numbers) noteFunction(uid, address string) {
	if n.known.Functions == nil {
		n.known.Functions = make(map[string][]string)
	}
	n.known.Functions[uid] = append(n.known.Functions[uid], address)
}

// recallFunctions notes which functions a pod has, as far as the runtime tells of the CDI devices of what runs.
func (n *numbers) recallFunctions(uid string, devices []string) {
	for _, name := range devices {
		address, ours := strings.CutPrefix(name, cdi.CardKind+"=")
		if own := n.known.Functions[uid]; ours && !slices.Contains(own, address) && len(own) < 2*topology.MaxNICs {
			n.noteFunction(uid, address)
		}
	}
}

// forgetFunctions frees the functions of pods that are gone.
func (n *numbers) forgetFunctions(pods []string) {
	maps.DeleteFunc(n.known.Functions, func(uid string, _ []string) bool {
		_, here := slices.BinarySearch(pods, uid)
		return !here
	})
}
