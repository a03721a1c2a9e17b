package probe

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"hilbert.dev/hilbert/node/cdi"
	"hilbert.dev/hilbert/node/machine"
	"hilbert.dev/hilbert/topology"
)

func pressure(_ context.Context, m *Machine) verdict {
	var lacking []string
	for _, name := range []string{"cpu", "memory", "io"} {
		if text, err := fs.ReadFile(m.Root, "proc/pressure/"+name); err != nil || !strings.HasPrefix(string(text), "some avg10=") {
			lacking = append(lacking, name)
		}
	}
	if len(lacking) > 0 {
		return fail("no pressure is told of "+strings.Join(lacking, ", "), "start the kernel with psi=1; it needs CONFIG_PSI")
	}
	return pass("cpu, memory, io")
}

func cgroups(_ context.Context, m *Machine) verdict {
	text, err := fs.ReadFile(m.Root, "sys/fs/cgroup/cgroup.controllers")
	if err != nil {
		return fail("no cgroup v2 hierarchy is at /sys/fs/cgroup: "+err.Error(), "start the node with systemd.unified_cgroup_hierarchy=1")
	}
	have := strings.Fields(string(text))
	for _, want := range []string{"cpuset", "cpu", "io", "memory"} {
		if !slices.Contains(have, want) {
			return fail(fmt.Sprintf("it has no controller %s, but %s", want, strings.Join(have, " ")), "enable the controller in the kernel")
		}
	}
	return pass(strings.Join(have, " "))
}

// hardware needs the whole model of the machine.
func hardware(_ context.Context, m *Machine) verdict {
	sys, err := fs.Sub(m.Root, "sys")
	if err != nil {
		return unknown(err.Error(), "")
	}
	is, notes, err := machine.Read(sys)
	if err != nil {
		return fail(err.Error(), "report it to Hilbert's maintainers, with the files below /sys/devices/system/cpu and /sys/devices/system/node")
	}
	said := fmt.Sprintf("%d CPUs, %d NUMA nodes, %d devices", len(is.CPUs), len(is.NUMA), len(is.Devices))
	if len(notes) > 0 {
		return fail(fmt.Sprintf("%s; %d parts are not known, the first: %s", said, len(notes), notes[0].Message), "placement does without them")
	}
	return pass(said)
}

// rdma needs the device file of each card that has RDMA.
func rdma(_ context.Context, m *Machine) verdict {
	sys, err := fs.Sub(m.Root, "sys")
	if err != nil {
		return unknown(err.Error(), "")
	}
	is, _, err := machine.Read(sys)
	if err != nil {
		return unknown(err.Error(), "")
	}
	var known []string
	for i := range is.Devices {
		d := &is.Devices[i]
		if d.Kind != topology.DeviceNIC || len(d.RDMA) == 0 {
			continue
		}
		files, err := cdi.FilesOf(sys, d.Address)
		if err != nil || len(files) == 0 {
			return fail(fmt.Sprintf("the card %s (%s) has no device files: %v", d.Address, strings.Join(d.RDMA, ", "), err), "load the module ib_uverbs")
		}
		for _, file := range files {
			if _, err := fs.Stat(m.Root, strings.TrimPrefix(file, "/")); err != nil {
				return fail(fmt.Sprintf("the card %s has %s, which is not there: %v", d.Address, file, err), "see that udev makes it")
			}
		}
		known = append(known, d.Address+" "+strings.Join(files, " "))
	}
	if len(known) == 0 {
		return absent("no network card has RDMA")
	}
	return pass(strings.Join(known, "; "))
}

// runQueues are seen by BPF programs: a kernel without them has none.
func runQueues(_ context.Context, m *Machine) verdict {
	err := m.RunQueues()
	switch {
	case err == nil:
		return pass("programs at sched_switch and sched_wakeup can be loaded")
	case errors.Is(err, fs.ErrPermission):
		return unknown(err.Error(), "run it as root, or with CAP_BPF and CAP_PERFMON")
	}
	return unknown(err.Error(), "it needs CONFIG_BPF_SYSCALL, CONFIG_FTRACE and tracefs at /sys/kernel/tracing; the agent names neighbours by correlation without it")
}

func counters(_ context.Context, m *Machine) verdict {
	instructions, cycles, err := m.Instructions()
	switch {
	case errors.Is(err, errors.ErrUnsupported), errors.Is(err, fs.ErrNotExist):
		return absent("the processor, or the hypervisor, shows no such counters: " + err.Error())
	case errors.Is(err, fs.ErrPermission):
		return unknown(err.Error(), "run it as root, or with CAP_PERFMON")
	case err != nil:
		return unknown(err.Error(), "")
	case instructions == 0 || cycles == 0:
		return fail(fmt.Sprintf("%d instructions in %d cycles were counted", instructions, cycles), "another program may have taken the counters")
	}
	return pass(fmt.Sprintf("%.2f cycles an instruction in a loop", float64(cycles)/float64(instructions)))
}
