package machine

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"

	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/topology"
)

var (
	// address is a PCI function: domain, bus, device, function. Domains above ffff are made by drivers.
	address = regexp.MustCompile(`^[0-9a-f]{4,8}:[0-9a-f]{2}:[0-1][0-9a-f]\.[0-7]$`)
	// host is a host bridge, the root of a PCI tree.
	host = regexp.MustCompile(`^pci[0-9a-f]{4,8}:[0-9a-f]{2}$`)
	// namespace is a disk of an NVMe controller. With multipath the controller's own (nvme0c1n1) is hidden behind the common one (nvme0n1).
	namespace = regexp.MustCompile(`^(nvme[0-9]+)(?:c[0-9]+)?(n[0-9]+)$`)
	// identifier is what vendor and device have.
	identifier = regexp.MustCompile(`^0x[0-9a-f]{4}$`)
)

// consoles are the vendors of displays that compute nothing: those of management controllers and of emulators.
var consoles = []string{
	"0x1013", // Cirrus Logic, emulated
	"0x102b", // Matrox
	"0x1234", // Bochs, emulated
	"0x1a03", // ASPEED
}

// found is a PCI function on the way: what it is, and what hangs from it.
type found struct {
	topology.Device
	children []*found
}

// devices reads the PCI trees and keeps what serves: GPUs, network cards, disks, and the bridges above them.
func (r *reader) devices(nodes []topology.NUMANode) []topology.Device {
	var root found
	seen := make(map[string]bool)
	for _, dir := range r.hosts() {
		r.descend(dir, &root, seen)
	}
	r.softRDMA(root.children)
	root.NUMA = -1
	if len(nodes) == 1 {
		root.NUMA = nodes[0].ID // there is no other node to be near to
	}
	return root.keep(nil, nodes)
}

// hosts lists the directories of the host bridges. The links of the PCI bus lead to those that are below other devices too; where there are no
// links, only the usual place is looked at.
func (r *reader) hosts() []string {
	const bus, usual = "bus/pci/devices", "devices"
	dirs := make(map[string]bool)
	entries, _ := fs.ReadDir(r.sys, usual)
	for _, entry := range entries {
		if host.MatchString(entry.Name()) {
			dirs[path.Join(usual, entry.Name())] = true
		}
	}
	entries, _ = fs.ReadDir(r.sys, bus)
	for _, entry := range entries {
		target, err := fs.ReadLink(r.sys, path.Join(bus, entry.Name()))
		if err != nil {
			continue
		}
		parts := strings.Split(path.Join(bus, target), "/")
		if i := slices.IndexFunc(parts, host.MatchString); i >= 0 && parts[0] == usual {
			dirs[path.Join(parts[:i+1]...)] = true
		}
	}
	return slices.Sorted(maps.Keys(dirs))
}

// descend goes through the directories below a device. Links are not followed: they lead out of the tree.
func (r *reader) descend(dir string, above *found, seen map[string]bool) {
	entries, err := fs.ReadDir(r.sys, dir)
	if err != nil {
		r.note(spec.ReasonDeviceUnreadable, "%v", err)
		return
	}
	serves := above.Kind == topology.DeviceGPU || above.Kind == topology.DeviceNIC || above.Kind == topology.DeviceDisk
	for _, entry := range entries {
		name := entry.Name()
		below := path.Join(dir, name)
		isAddress := address.MatchString(name)
		switch {
		case !entry.IsDir() || isAddress && seen[name]:
		case isAddress:
			seen[name] = true
			r.function(below, above, seen)
		case serves && !above.named(path.Base(dir), name):
			r.descend(below, above, seen)
		}
	}
}

// function reads a PCI function and what is below it. If it cannot be read, that hangs from what is above.
func (r *reader) function(dir string, above *found, seen map[string]bool) {
	d, err := r.device(dir)
	f := &found{Device: d}
	if err == nil {
		above.children = append(above.children, f)
		r.descend(dir, f, seen)
		return
	}
	r.note(spec.ReasonDeviceUnreadable, "PCI device %s is left out: %v", d.Address, err)
	r.descend(dir, f, seen)
	above.children = append(above.children, f.children...)
}

// named takes a directory's name where it is what the kernel calls the device, and reports whether it has.
func (f *found) named(class, name string) bool {
	parts := namespace.FindStringSubmatch(name)
	switch {
	case class == "infiniband":
		f.RDMA = append(f.RDMA, name)
	case class == "net" || class == "block":
		f.Names = append(f.Names, name)
	case parts != nil:
		f.Names = append(f.Names, parts[1]+parts[2])
	default:
		return false
	}
	return true
}

// device reads one PCI function.
func (r *reader) device(dir string) (d topology.Device, err error) {
	d = topology.Device{Address: path.Base(dir), NUMA: -1}
	class, err := r.number(dir + "/class")
	if err != nil {
		return d, err
	}
	if d.Vendor, err = r.identifier(dir + "/vendor"); err != nil {
		return d, err
	}
	if d.Model, err = r.identifier(dir + "/device"); err != nil {
		return d, err
	}
	d.Kind = kind(class, d.Vendor)
	near, err := r.number(dir + "/numa_node")
	switch {
	case err == nil:
		d.NUMA = near
	case !errors.Is(err, fs.ErrNotExist):
		r.note(spec.ReasonDeviceUnreadable, "PCI device %s: its NUMA node is not known: %v", d.Address, err)
	}
	most, err := r.number(dir + "/sriov_totalvfs")
	switch {
	case err == nil && most >= 0:
		d.MaxVirtualFunctions = most
	case !errors.Is(err, fs.ErrNotExist):
		r.note(spec.ReasonDeviceUnreadable, "PCI device %s: how many virtual functions it can have is not known", d.Address)
	}
	if target, err := fs.ReadLink(r.sys, dir+"/physfn"); err == nil && address.MatchString(path.Base(target)) {
		d.PhysicalFunction = path.Base(target)
	}
	return d, nil
}

// identifier is a vendor's or a model's number, as the kernel writes it.
func (r *reader) identifier(name string) (string, error) {
	text, err := r.text(name)
	if err == nil && !identifier.MatchString(text) {
		err = fmt.Errorf("%s: want an identifier, got %q", name, shortened(text))
	}
	return text, err
}

// kind is what a PCI class is for; empty if it does not matter to us.
func kind(class int, vendor string) topology.DeviceKind {
	switch class >> 16 {
	case 0x01:
		return topology.DeviceDisk
	case 0x02:
		return topology.DeviceNIC
	case 0x03:
		if !slices.Contains(consoles, vendor) {
			return topology.DeviceGPU
		}
	case 0x06:
		return topology.DeviceBridge
	}
	return ""
}

// softRDMA adds RDMA devices that are software on a network interface: they belong where the interface is.
func (r *reader) softRDMA(devices []*found) {
	dir := "class/infiniband"
	entries, err := fs.ReadDir(r.sys, dir)
	if err != nil {
		dir = "devices/virtual/infiniband"
		entries, _ = fs.ReadDir(r.sys, dir)
	}
	for _, entry := range entries {
		name := entry.Name()
		if owner(devices, func(f *found) bool { return slices.Contains(f.RDMA, name) }) != nil {
			continue
		}
		network, err := r.text(path.Join(dir, name, "parent"))
		if err != nil || network == "" {
			network, err = r.text(path.Join(dir, name, "ports/1/gid_attrs/ndevs/0"))
		}
		on := owner(devices, func(f *found) bool { return slices.Contains(f.Names, network) })
		if err != nil || on == nil {
			r.note(spec.ReasonDeviceUnreadable, "RDMA device %s is left out: no PCI device is known below it", name)
			continue
		}
		on.RDMA = append(on.RDMA, name)
	}
}

// owner finds the device that is asked for, nil if there is none.
func owner(devices []*found, is func(*found) bool) *found {
	for _, f := range devices {
		if is(f) {
			return f
		}
		if below := owner(f.children, is); below != nil {
			return below
		}
	}
	return nil
}

// keep lists what serves below f: parents before children, siblings by address. What does not say which NUMA node it is near to is near to its
// parent's.
func (f *found) keep(above *found, nodes []topology.NUMANode) []topology.Device {
	if above != nil {
		f.Parent = above.Address
		if node(nodes, f.NUMA) == nil {
			f.NUMA = above.NUMA
		}
	}
	slices.SortFunc(f.children, func(a, b *found) int { return strings.Compare(a.Address, b.Address) })
	var below []topology.Device
	for _, child := range f.children {
		below = append(below, child.keep(f, nodes)...)
	}
	serves := f.Kind == topology.DeviceGPU || f.Kind == topology.DeviceNIC || f.Kind == topology.DeviceDisk && len(f.Names) > 0
	if above == nil || !serves && len(below) == 0 {
		return below
	}
	if !serves {
		f.Kind = topology.DeviceBridge // some storage controllers are bridges too
	}
	slices.Sort(f.Names)
	f.Names = slices.Compact(f.Names)
	slices.Sort(f.RDMA)
	return append([]topology.Device{f.Device}, below...)
}
