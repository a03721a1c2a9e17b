package probe

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"hilbert.dev/hilbert/node/cdi"
	"hilbert.dev/hilbert/node/gpu"
	"hilbert.dev/hilbert/node/mps"
	"hilbert.dev/hilbert/topology"
)

// gpus are those that the driver tells of. It is asked once. ended is set where there is nothing to look at.
func (m *Machine) gpus(ctx context.Context) (list []gpu.GPU, ended *verdict) {
	if m.inventory == nil && m.inventoryErr == nil {
		if _, err := fs.Stat(m.Root, "proc/driver/nvidia/version"); errors.Is(err, fs.ErrNotExist) {
			m.inventoryErr = fmt.Errorf("%w: none is loaded", gpu.ErrNoDriver)
		} else {
			m.inventory, m.inventoryErr = m.Driver.Inventory(ctx)
		}
	}
	var v verdict
	switch {
	case errors.Is(m.inventoryErr, gpu.ErrNoDriver):
		v = absent(m.inventoryErr.Error())
	case m.inventoryErr != nil:
		v = unknown(m.inventoryErr.Error(), "run nvidia-smi -q -x by hand")
	case len(m.inventory.GPUs) == 0:
		v = absent("the driver knows no GPU")
	default:
		return m.inventory.GPUs, nil
	}
	return nil, &v
}

// devices are the GPUs as the agent would count with them if an MPS daemon served each.
func devices(inv *gpu.Inventory) (d *topology.Devices, view gpu.View) {
	p := gpu.Defaults()
	_, view = gpu.Step(&p, gpu.State{}, &gpu.Observation{Inventory: inv})
	return view.Devices(&p, nil, topology.OwnerHilbert, func(string) bool { return true }), view
}

func gpuInventory(ctx context.Context, m *Machine) verdict {
	gpus, ended := m.gpus(ctx)
	if ended != nil {
		return *ended
	}
	const report = "report it to Hilbert's maintainers, with the output of nvidia-smi -q -x"
	d, view := devices(m.inventory)
	for i := range view.Slots {
		if slot := &view.Slots[i]; slot.Closed != "" {
			return fail(fmt.Sprintf("the GPU at %s would be closed: %s: %s", slot.Address, slot.Closed, slot.Why), report)
		}
		g := &view.Slots[i].GPU
		if _, err := fs.Stat(m.Root, strings.TrimPrefix(g.Node, "/")); g.Node == "" || err != nil {
			return fail(fmt.Sprintf("the GPU at %s has no device file %s: %v", g.Address, g.Node, err), "run nvidia-modprobe, or nvidia-smi once as root")
		}
		if d.GPU[i].Grain == 0 {
			return fail(fmt.Sprintf("how many multiprocessors %q has is not known", g.Model), "set node.devices.multiprocessors, and tell Hilbert's maintainers")
		}
	}
	return pass(fmt.Sprintf("%d GPUs, the first: %s, %d MiB; driver %s", len(gpus), gpus[0].Model, gpus[0].Memory, m.inventory.Version))
}

func gpuFaults(ctx context.Context, m *Machine) verdict {
	if _, ended := m.gpus(ctx); ended != nil {
		return *ended
	}
	faults, err := m.Faults()
	if err != nil {
		return unknown(err.Error(), "run it as root, or with CAP_SYSLOG")
	}
	return pass(fmt.Sprintf("the kernel's log is read, and has %d", len(faults)))
}

func gpuLinks(ctx context.Context, m *Machine) verdict {
	gpus, ended := m.gpus(ctx)
	switch n := len(gpus); {
	case ended != nil:
		return *ended
	case n < 2:
		return absent("there is one GPU")
	case len(m.inventory.Links) != n*n:
		return fail("nvidia-smi topo -m was not understood: all GPUs count as connected alike", "report it to Hilbert's maintainers, with that output")
	}
	return pass(fmt.Sprintf("%d GPUs, the first two by %d of 199", len(gpus), m.inventory.Links[1]))
}

func gpuMIG(ctx context.Context, m *Machine) verdict {
	gpus, ended := m.gpus(ctx)
	if ended != nil {
		return *ended
	}
	divided, instances := 0, 0
	for i := range gpus {
		if gpus[i].MIG != gpu.MIGOn {
			continue
		}
		divided++
		for _, in := range gpus[i].Instances {
			if in.UUID == "" || in.Profile == "" || in.Memory == 0 || in.Multiprocessors == 0 {
				return fail(fmt.Sprintf("an instance of the GPU at %s is not fully known: %+v", gpus[i].Address, in), "report it to Hilbert's maintainers, with the output of nvidia-smi -q -x and of nvidia-smi -L")
			}
			instances++
		}
	}
	switch {
	case divided == 0:
		return absent("no GPU is in MIG mode")
	case instances == 0:
		return fail(fmt.Sprintf("%d GPUs are in MIG mode and have no instance", divided), "make instances, or switch MIG mode off")
	}
	return pass(fmt.Sprintf("%d instances of %d GPUs", instances, divided))
}

func gpuSoft(ctx context.Context, m *Machine) verdict {
	gpus, ended := m.gpus(ctx)
	if ended != nil {
		return *ended
	}
	params := mps.Defaults()
	root, err := fs.Sub(m.Root, strings.TrimPrefix(params.Root, "/"))
	if err != nil {
		return unknown(err.Error(), "")
	}
	if _, err := fs.Stat(root, "."); errors.Is(err, fs.ErrNotExist) {
		return absent("the pod of deploy/mps.yaml does not run here")
	}
	served := 0
	for i := range gpus {
		g := &gpus[i]
		if g.MIG == gpu.MIGOn || !fs.ValidPath(g.UUID) {
			continue
		}
		state, err := params.ReadState(root, g.UUID, m.Now)
		if err != nil {
			return fail(err.Error(), "look at the log of the pod hilbert-mps")
		}
		if why := state.Serves(m.inventory.Version); why != "" {
			return fail(fmt.Sprintf("%s gives no soft slice: %s", g.UUID, why), "look at the log of the pod hilbert-mps")
		}
		served++
	}
	if served == 0 {
		return absent("all GPUs are in MIG mode")
	}
	return pass(fmt.Sprintf("%d GPUs are served", served))
}

func gpuCDI(ctx context.Context, m *Machine) verdict {
	gpus, ended := m.gpus(ctx)
	if ended != nil {
		return *ended
	}
	const generate = "nvidia-ctk cdi generate --device-name-strategy=uuid --output=/var/run/cdi/nvidia.yaml"
	catalog, err := cdi.ReadCatalog(m.CDI...)
	if err != nil {
		return fail(err.Error(), generate)
	}
	for i := range gpus {
		g := cdi.GPU{UUID: gpus[i].UUID, Node: gpus[i].Node, Driver: m.inventory.Version}
		if gpus[i].MIG != gpu.MIGOn {
			if _, err := catalog.GPU(g); err != nil {
				return fail(err.Error(), generate)
			}
			continue
		}
		for _, in := range gpus[i].Instances {
			if _, err := catalog.Instance(g, in.UUID); err != nil {
				return fail(err.Error(), generate)
			}
		}
	}
	return pass(fmt.Sprintf("%d GPUs are in the specifications", len(gpus)))
}

func gpuToolkit(_ context.Context, m *Machine) verdict {
	switch installed, err := cdi.CheckToolkitFile(m.Root, m.Toolkit); {
	case errors.Is(err, fs.ErrPermission):
		return unknown(err.Error(), "run it as root")
	case err != nil: // the agent gives no GPU then
		return fail(err.Error(), "")
	case !installed:
		return absent("no toolkit is configured at " + m.Toolkit)
	}
	return pass(m.Toolkit)
}
