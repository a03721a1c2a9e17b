package daemon

import (
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"hilbert.dev/hilbert/node"
	"hilbert.dev/hilbert/node/cdi"
	"hilbert.dev/hilbert/node/gpu"
	"hilbert.dev/hilbert/node/mps"
	"hilbert.dev/hilbert/topology"
)

const (
	// maxAnswerAge is how old what the pod of deploy/mps.yaml keeps of nvidia-smi may be: it asks each 15 s, and a question takes up to 30 s.
	maxAnswerAge = 90 * time.Second
	// offersEvery is how often it is asked who else offers GPUs, where a driver is loaded, and offersSeldom where none is: a device plugin may offer
	// what no driver of this node knows.
	offersEvery, offersSeldom = time.Minute, 10 * time.Minute
	// offersLast is for how long an old answer counts where a new one cannot be had.
	offersLast = 5 * time.Minute
)

// deviceEyes look at a node's GPUs and network cards.
type deviceEyes struct {
	roots   nodeRoots
	machine *topology.Machine
	driver  gpu.Driver
	offers  func(ctx context.Context) (gpu.Evidence, error) // nil: no API server
	log     *slog.Logger

	known gpu.Evidence // what the offers were
	asked time.Time
}

// newDeviceEyes asks nvidia-smi where the agent has it, else the pod that has it.
func newDeviceEyes(roots nodeRoots, m *topology.Machine, offers func(ctx context.Context) (gpu.Evidence, error), log *slog.Logger) *deviceEyes {
	e := &deviceEyes{roots: roots, machine: m, offers: offers, log: log}
	run := gpu.Spool(os.DirFS(filepath.Join(roots.run, "hilbert", "gpu")), maxAnswerAge, time.Now)
	if program, err := exec.LookPath("nvidia-smi"); err == nil {
		run = gpu.Command(program)
	}
	e.driver = &gpu.SMI{Run: run, Proc: os.DirFS(roots.proc)}
	return e
}

// Look implements node.DeviceLooker.
func (e *deviceEyes) Look(ctx context.Context) node.DeviceLook {
	var l node.DeviceLook
	_, err := os.Stat(filepath.Join(e.roots.proc, "driver", "nvidia", "version"))
	l.Loaded = err == nil
	l.Offers = e.others(ctx, l.Loaded)
	l.Bandwidth = e.bandwidth()
	boot, err := os.ReadFile(filepath.Join(e.roots.proc, "sys", "kernel", "random", "boot_id"))
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
	if l.Seen.Xids, err = gpu.KernelLog(filepath.Join(e.roots.dev, "kmsg")); err != nil {
		e.log.Debug("faults of GPUs are not read from the kernel's log", "err", err)
	}
	if l.Catalog, err = cdi.ReadCatalog(cdi.Dirs()...); err != nil {
		e.log.Warn("the CDI specifications cannot be read, so no GPU is given", "err", err)
	}
	l.Served = e.served(l.Seen.Inventory)
	return l
}

// others is who else offers GPUs. What could not be read is not known, but for a moment.
func (e *deviceEyes) others(ctx context.Context, loaded bool) gpu.Evidence {
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
		return e.known // nobody can have bound much meanwhile, and a pod must not be refused for it
	}
	e.known, e.asked = known, now
	return known
}

// served are the GPUs that an MPS daemon serves, and that take another client.
func (e *deviceEyes) served(inv *gpu.Inventory) map[string]bool {
	if inv == nil {
		return nil
	}
	out := make(map[string]bool)
	params := mps.Defaults()
	root := os.DirFS(filepath.Join(e.roots.run, "hilbert", "mps"))
	for i := range inv.GPUs {
		uuid := inv.GPUs[i].UUID
		if uuid == "" || !fs.ValidPath(uuid) {
			continue
		}
		if state, err := params.ReadState(root, uuid, time.Now()); err == nil && state.Serves(inv.Version) == "" {
			out[uuid] = true
		}
	}
	return out
}

// bandwidth is what the drivers of network cards say that their links carry, in Mbit/s. Of a link that is down nothing is known.
func (e *deviceEyes) bandwidth() map[string]uint32 {
	out := make(map[string]uint32)
	for i := range e.machine.Devices {
		d := &e.machine.Devices[i]
		if d.Kind != topology.DeviceNIC {
			continue
		}
		for _, name := range d.Names {
			text, err := os.ReadFile(filepath.Join(e.roots.sys, "class", "net", name, "speed"))
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
