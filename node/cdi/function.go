package cdi

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	library "tags.cncf.io/container-device-interface/pkg/cdi"
	"tags.cncf.io/container-device-interface/specs-go"
)

const (
	// CardKind is what our specification calls network cards and their virtual functions.
	CardKind = "hilbert.dev/nic"
	// FileName is its file. No other program uses that name.
	FileName = "hilbert.dev-nic.json"
	// rdmaManager and vfioManager are the same for all functions.
	rdmaManager, vfioManager = "/dev/infiniband/rdma_cm", "/dev/vfio/vfio"
)

// Function is a PCI function of a network card: the card, or a virtual function of it.
type Function struct {
	Address string   // "0000:3b:00.1"
	Files   []string // the device files by which programs use it, sorted; none: only its network interface
}

// Name is the CDI device of a function.
func (f *Function) Name() string { return CardKind + "=" + f.Address }

// FilesOf are the device files of a PCI function: of its RDMA devices, or of its IOMMU group where the function is handed through. sys is /sys. A
// function that is there and has none is no error.
func FilesOf(sys fs.FS, address string) ([]string, error) {
	dir := path.Join("bus/pci/devices", address)
	if _, err := fs.Stat(sys, dir); err != nil {
		return nil, fmt.Errorf("PCI function %s: %w", address, err)
	}
	var files []string
	for _, class := range []string{"infiniband_verbs", "infiniband_mad"} {
		entries, err := fs.ReadDir(sys, path.Join(dir, class))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("PCI function %s: %w", address, err)
		}
		for _, entry := range entries {
			if served(entry.Name()) {
				files = append(files, "/dev/infiniband/"+entry.Name())
			}
		}
	}
	if len(files) > 0 {
		files = append(files, rdmaManager)
	}
	if driver, err := fs.ReadLink(sys, path.Join(dir, "driver")); err == nil && path.Base(driver) == "vfio-pci" {
		group, err := fs.ReadLink(sys, path.Join(dir, "iommu_group"))
		if err != nil {
			return nil, fmt.Errorf("PCI function %s is handed through: %w", address, err)
		}
		if _, err := strconv.ParseUint(path.Base(group), 10, 32); err != nil {
			return nil, fmt.Errorf("PCI function %s: its IOMMU group: %w", address, err)
		}
		files = append(files, vfioManager, "/dev/vfio/"+path.Base(group))
	}
	slices.Sort(files)
	return files, nil
}

// VirtualOf are the PCI addresses of a card's virtual functions, in the card's order; none: it has none now. sys is /sys.
func VirtualOf(sys fs.FS, address string) ([]string, error) {
	dir := path.Join("bus/pci/devices", address)
	entries, err := fs.ReadDir(sys, dir)
	if err != nil {
		return nil, fmt.Errorf("virtual functions of %s: %w", address, err)
	}
	found := make(map[int]string)
	for _, entry := range entries {
		number, ok := strings.CutPrefix(entry.Name(), "virtfn")
		n, err := strconv.Atoi(number)
		if !ok || err != nil {
			continue
		}
		target, err := fs.ReadLink(sys, path.Join(dir, entry.Name()))
		if err != nil {
			return nil, fmt.Errorf("virtual functions of %s: %w", address, err)
		}
		found[n] = path.Base(target)
	}
	var out []string
	for _, n := range slices.Sorted(maps.Keys(found)) {
		out = append(out, found[n])
	}
	return out, nil
}

// served reports whether a name is of a device that applications open: verbs, and the management datagrams that subnet tools send. Another class
// directory has "issm" beside them, which belongs to the fabric manager.
func served(name string) bool {
	for _, prefix := range []string{"uverbs", "umad"} {
		if number, ok := strings.CutPrefix(name, prefix); ok {
			_, err := strconv.ParseUint(number, 10, 16)
			return err == nil
		}
	}
	return false
}

// Alone are the function's files that only one pod may open at a time: its own, and not those that are the same for all functions.
func (f *Function) Alone() []string {
	return slices.DeleteFunc(slices.Clone(f.Files), func(file string) bool { return file == rdmaManager || file == vfioManager })
}

// Describe is the specification of some functions. Those without files are left out: there is nothing to inject.
func Describe(functions []Function) *specs.Spec {
	spec := &specs.Spec{Kind: CardKind}
	for _, f := range functions {
		if len(f.Files) == 0 {
			continue
		}
		d := specs.Device{Name: f.Address}
		for _, file := range f.Files {
			d.ContainerEdits.DeviceNodes = append(d.ContainerEdits.DeviceNodes, &specs.DeviceNode{Path: file, Permissions: "rw"})
		}
		spec.Devices = append(spec.Devices, d)
	}
	slices.SortFunc(spec.Devices, func(a, b specs.Device) int { return strings.Compare(a.Name, b.Name) })
	return spec
}

// Write keeps the specification of functions in a directory, which the runtime must read: "/var/run/cdi". It replaces the file at once and only where
// it says something else, and removes it where nothing is to be described. It reports whether it changed something.
func Write(dir string, functions []Function) (changed bool, err error) {
	spec := Describe(functions)
	cache, err := library.NewCache(library.WithSpecDirs(dir), library.WithAutoRefresh(false))
	if err != nil {
		return false, fmt.Errorf("write %s: %w", FileName, err)
	}
	before, err := os.ReadFile(filepath.Join(dir, FileName))
	there := err == nil
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return false, fmt.Errorf("write %s: %w", FileName, err)
	}
	if len(spec.Devices) == 0 {
		if err := cache.RemoveSpec(FileName); err != nil {
			return false, fmt.Errorf("remove %s: %w", FileName, err)
		}
		return there, nil
	}
	if spec.Version, err = specs.MinimumRequiredVersion(spec); err != nil {
		return false, fmt.Errorf("write %s: %w", FileName, err)
	}
	var is specs.Spec
	if there && json.Unmarshal(before, &is) == nil && same(&is, spec) {
		return false, nil
	}
	if err := cache.WriteSpec(spec, FileName); err != nil {
		return false, fmt.Errorf("write %s: %w", FileName, err)
	}
	return true, nil
}

// same compares what two specifications say.
func same(a, b *specs.Spec) bool {
	x, err1 := json.Marshal(a)
	y, err2 := json.Marshal(b)
	return err1 == nil && err2 == nil && string(x) == string(y)
}
