package realnode

import (
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"hilbert.dev/hilbert/node/cdi"
	"hilbert.dev/hilbert/node/devices"
	"hilbert.dev/hilbert/node/gpu"
	"hilbert.dev/hilbert/node/mps"
	"hilbert.dev/hilbert/topology"
)

const (
	// maxAnswerAge is how old what the pod of deploy/mps.yaml keeps of nvidia-smi may be: it asks each 15 s, and a question takes up to 30 s.
	maxAnswerAge = 90 * time.Second
	// offersEvery is how often other offers of GPUs are asked for, where a driver is loaded, and offersSeldom where none is and there are GPUs: they may be
	// handed through to guests. Without a GPU, nothing is asked.
	offersEvery, offersSeldom = time.Minute, 10 * time.Minute
	// offersLast is for how long an old answer counts where a new one cannot be had.
	offersLast = 5 * time.Minute
)

// Devices look at a node's GPUs and network cards.
type Devices struct {
	roots   Roots
	machine *topology.Machine
	toolkit string // the configuration of NVIDIA's container toolkit
	driver  gpu.Driver
	offers  func(ctx context.Context) (gpu.Evidence, error) // nil: no API server
	log     *slog.Logger

	known gpu.Evidence // what the offers were
	asked time.Time
	// undescribed is why cards could not be described to the runtime, as it was last told.
	undescribed string
}

// NewDevices asks nvidia-smi where the agent has it, else the pod that has it. toolkit is the path of the configuration of NVIDIA's container toolkit.
func NewDevices(roots Roots, m *topology.Machine, toolkit string, offers func(ctx context.Context) (gpu.Evidence, error), log *slog.Logger) *Devices {
	e := &Devices{roots: roots, machine: m, toolkit: toolkit, offers: offers, log: log}
	run := gpu.Spool(os.DirFS(filepath.Join(roots.Run, "hilbert", "gpu")), maxAnswerAge, time.Now)
	if program, err := exec.LookPath("nvidia-smi"); err == nil {
		run = gpu.Command(program)
	}
	e.driver = &gpu.SMI{Run: run, Proc: os.DirFS(roots.Proc)}
	return e
}

// Look implements node.DeviceInspector.
func (e *Devices) Inspect(ctx context.Context) devices.Inspection {
	var l devices.Inspection
	_, err := os.Stat(filepath.Join(e.roots.Proc, "driver", "nvidia", "version"))
	l.Loaded = err == nil
	l.Offers = e.others(ctx, l.Loaded)
	if !l.Offers.NoneHere {
		l.Offers.Toolkit = toolkitTrouble(e.toolkit)
	}
	l.Bandwidth = e.bandwidth()
	l.Functions, l.FunctionsUnknown = e.functions()
	boot, err := os.ReadFile(filepath.Join(e.roots.Proc, "sys", "kernel", "random", "boot_id"))
	if err != nil {
		e.log.Debug("the kernel's start has no name", "err", err)
	}
	l.Seen.Boot = strings.TrimSpace(string(boot))
	if !l.Loaded {
		l.Seen.Gone, l.Seen.Why = true, "no NVIDIA driver is loaded"
		return l
	}
	if l.Seen.Inventory, err = e.driver.Inventory(ctx); err != nil {
		l.Seen.Inventory, l.Seen.Why, l.Seen.Gone = nil, err.Error(), errors.Is(err, gpu.ErrNoDriver)
	}
	if l.Seen.Xids, err = gpu.KernelLog(filepath.Join(e.roots.Dev, "kmsg")); err != nil {
		e.log.Debug("faults of GPUs are not read from the kernel's log", "err", err)
	}
	if l.Catalog, err = cdi.ReadCatalog(e.roots.CDI...); err != nil {
		e.log.Warn("the CDI specifications cannot be read, so no GPU is given", "err", err)
	}
	l.Served, l.Cgroups = e.served(l.Seen.Inventory), e.cgroups(l.Seen.Inventory)
	return l
}

// cgroups are those of the processes on GPUs. One that cannot be looked at is left out, as one that has ended is.
func (e *Devices) cgroups(inv *gpu.Inventory) map[int]string {
	if inv == nil {
		return nil
	}
	out := make(map[int]string)
	for i := range inv.GPUs {
		for _, p := range inv.GPUs[i].Processes {
			text, err := os.ReadFile(filepath.Join(e.roots.Proc, strconv.Itoa(p.PID), "cgroup"))
			if err != nil {
				e.log.Debug("a process that computes on a GPU is not looked at", "pid", p.PID, "err", err)
				continue
			}
			out[p.PID] = strings.TrimPrefix(strings.TrimSpace(string(text)), "0::")
		}
	}
	return out
}

// functions are the device files of network cards and of their virtual functions, all of them in a specification of CDI. What could not be found out
// or written is missing, with the reason by the card's address.
func (e *Devices) functions() (known map[string]devices.CardFunctions, untold map[string]string) {
	known, untold = make(map[string]devices.CardFunctions), make(map[string]string)
	sys := os.DirFS(e.roots.Sys)
	var all []cdi.Function
	for i := range e.machine.Devices {
		d := &e.machine.Devices[i]
		if d.Kind != topology.DeviceNIC || d.PhysicalFunction != "" {
			continue
		}
		if _, err := fs.Stat(sys, path.Join("bus/pci/devices", d.Address)); errors.Is(err, fs.ErrNotExist) {
			continue // it has been taken out
		}
		card, err := cardFunctions(sys, d.Address)
		if err != nil {
			untold[d.Address] = err.Error()
			continue
		}
		known[d.Address] = card
		all = append(append(all, card.Card), card.Virtual...)
	}
	if err := e.describe(all); err != nil {
		for address, card := range known {
			if len(card.Card.Files) > 0 || len(card.Virtual) > 0 {
				untold[address] = err.Error()
			}
		}
	}
	return known, untold
}

// describe keeps the specification of network cards.
func (e *Devices) describe(all []cdi.Function) error {
	dir, why := e.roots.CDI[len(e.roots.CDI)-1], ""
	changed, err := cdi.Write(dir, all)
	if err != nil {
		why = err.Error()
	}
	switch {
	case why != "" && why != e.undescribed:
		e.log.Warn("network cards cannot be described to the container runtime", "err", err)
	case changed:
		e.log.Info("the device files of network cards are described anew", "directory", dir)
	}
	e.undescribed = why
	return err
}

// cardFunctions reads one card.
func cardFunctions(sys fs.FS, address string) (out devices.CardFunctions, err error) {
	out.Card.Address = address
	if out.Card.Files, err = cdi.FilesOf(sys, address); err != nil {
		return out, err
	}
	virtual, err := cdi.VirtualOf(sys, address)
	if err != nil {
		return out, err
	}
	for _, address := range virtual {
		files, err := cdi.FilesOf(sys, address)
		if err != nil {
			return out, err
		}
		out.Virtual = append(out.Virtual, cdi.Function{Address: address, Files: files})
	}
	return out, nil
}

// others returns the other offers of GPUs. If they cannot be read, the last ones count for a moment.
func (e *Devices) others(ctx context.Context, loaded bool) gpu.Evidence {
	if !loaded && !mayHaveGPU(os.DirFS(e.roots.Sys)) {
		e.known = gpu.Evidence{NoneHere: true}
		return e.known
	}
	every := offersSeldom
	if loaded {
		every = offersEvery
	}
	now := time.Now()
	if e.offers == nil || e.known.NodeKnown && now.Sub(e.asked) < every {
		return e.known
	}
	known, err := e.offers(ctx)
	if err != nil {
		e.log.Debug("it is not known who offers GPUs", "err", err)
	}
	if !known.NodeKnown && e.known.NodeKnown && now.Sub(e.asked) < every+offersLast {
		return e.known // not much can have been bound meanwhile, and a pod must not be refused for it
	}
	e.known, e.asked = known, now
	return known
}

// mayHaveGPU reports whether a function on the PCI bus is a GPU of NVIDIA, or might be: one that cannot be read.
func mayHaveGPU(sys fs.FS) bool {
	const functions, nvidia, display = "bus/pci/devices", "0x10de", "0x03"
	entries, err := fs.ReadDir(sys, functions)
	if err != nil {
		return true
	}
	return slices.ContainsFunc(entries, func(entry fs.DirEntry) bool {
		class, err := fs.ReadFile(sys, path.Join(functions, entry.Name(), "class"))
		if err != nil || !strings.HasPrefix(string(class), display) {
			return err != nil
		}
		vendor, err := fs.ReadFile(sys, path.Join(functions, entry.Name(), "vendor"))
		return err != nil || strings.TrimSpace(string(vendor)) == nvidia
	})
}

// toolkitTrouble is why containers could have GPUs by NVIDIA's container toolkit that their pods do not hold; empty: the file says that they cannot, or there is
// none. It is read each time, so that a mended file counts without a restart of the agent.
func toolkitTrouble(file string) string {
	if _, err := cdi.CheckToolkitFile(os.DirFS("/"), file); err != nil {
		return err.Error()
	}
	return ""
}

// served are the GPUs that an MPS daemon serves, and that take another client, with the memory that clients share.
func (e *Devices) served(inv *gpu.Inventory) map[string]mps.Shared {
	if inv == nil {
		return nil
	}
	out := make(map[string]mps.Shared)
	params := mps.Defaults()
	root := os.DirFS(filepath.Join(e.roots.Run, "hilbert", "mps"))
	for i := range inv.GPUs {
		uuid := inv.GPUs[i].UUID
		if uuid == "" || !fs.ValidPath(uuid) {
			continue
		}
		if state, err := params.ReadState(root, uuid, time.Now()); err == nil && state.Serves(inv.Version) == "" {
			out[uuid] = state.Shared
		}
	}
	return out
}

// bandwidth is what the drivers of network cards say that their links carry, in Mbit/s. Of a link that is down nothing is known.
func (e *Devices) bandwidth() map[string]uint32 {
	out := make(map[string]uint32)
	for i := range e.machine.Devices {
		d := &e.machine.Devices[i]
		if d.Kind != topology.DeviceNIC {
			continue
		}
		for _, name := range d.Names {
			text, err := os.ReadFile(filepath.Join(e.roots.Sys, "class", "net", name, "speed"))
			if err != nil {
				continue
			}
			if speed, err := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 32); err == nil && speed > 0 {
				out[d.Address] = max(out[d.Address], uint32(speed))
			}
		}
	}
	return out
}
