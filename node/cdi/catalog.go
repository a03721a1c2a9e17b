package cdi

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"

	library "tags.cncf.io/container-device-interface/pkg/cdi"
)

// Kind is what NVIDIA's specification calls its GPUs and MIG instances.
const Kind = "nvidia.com/gpu"

// Dirs are where specifications lie, the weaker first, as runtimes have it.
func Dirs() []string { return []string{"/etc/cdi", "/var/run/cdi"} }

// ErrNoDevice is a GPU, or a part of one, of which no specification says how to put it into a container.
var ErrNoDevice = errors.New("no CDI device")

// Catalog is the CDI devices of a node by their full names. The zero Catalog has none.
type Catalog struct {
	devices map[string]device
	// Troubles are the specifications that the runtime cannot use, and why.
	Troubles []string
}

// device is what must be known of a CDI device to see that it is the right one.
type device struct {
	files  []string // that it opens: their paths in the container, sorted
	driver string   // the version of the driver whose libraries it brings; empty: it does not say
}

// GPU is what the driver says of a GPU that needs a CDI name.
type GPU struct {
	UUID   string
	Node   string // its device file, "/dev/nvidia0"; empty: not known
	Driver string // the version that runs; empty: not known
}

// ReadCatalog reads the specifications in some directories, the weaker first. Like a runtime it passes over what it cannot use, which Troubles
// says. The error is a directory that cannot be read.
func ReadCatalog(dirs ...string) (*Catalog, error) {
	cache, err := library.NewCache(library.WithSpecDirs(dirs...), library.WithAutoRefresh(false))
	if err != nil {
		return nil, fmt.Errorf("read CDI specifications: %w", err)
	}
	c := &Catalog{devices: make(map[string]device)}
	_ = cache.Refresh() // its errors are those of the specifications, below
	for dir, err := range cache.GetSpecDirErrors() {
		c.Troubles = append(c.Troubles, fmt.Sprintf("%s: %v", dir, err))
	}
	troubles := cache.GetErrors()
	for _, file := range slices.Sorted(maps.Keys(troubles)) {
		for _, err := range troubles[file] {
			c.Troubles = append(c.Troubles, fmt.Sprintf("%s: %v", file, err))
		}
	}
	for _, name := range cache.ListDevices() {
		if d := cache.GetDevice(name); d != nil {
			c.devices[name] = deviceOf(d)
		}
	}
	return c, nil
}

// libcuda is the library that is there once for each version of the driver.
var libcuda = regexp.MustCompile(`^libcuda\.so\.([0-9]+\.[0-9.]+)$`)

func deviceOf(d *library.Device) (out device) {
	for _, node := range d.ContainerEdits.DeviceNodes {
		out.files = append(out.files, node.Path)
	}
	slices.Sort(out.files)
	for _, m := range slices.Concat(d.ContainerEdits.Mounts, d.GetSpec().ContainerEdits.Mounts) {
		if version := libcuda.FindStringSubmatch(path.Base(m.HostPath)); version != nil {
			out.driver = version[1]
		}
	}
	return out
}

// GPU is the name of the CDI device that is a whole GPU: the one that is called by its UUID, else one that opens its file and that of no other.
func (c *Catalog) GPU(g GPU) (string, error) {
	if g.UUID == "" {
		return "", fmt.Errorf("%w: the GPU has no UUID", ErrNoDevice)
	}
	name := Kind + "=" + g.UUID
	if d, ok := c.devices[name]; ok {
		return name, d.check(name, g)
	}
	if g.Node == "" {
		return "", c.none(g.UUID)
	}
	var found []string
	for name, d := range c.devices {
		if strings.HasPrefix(name, Kind+"=") && slices.Equal(d.gpus(), []string{g.Node}) && !d.divided() {
			found = append(found, name)
		}
	}
	if len(found) == 0 {
		return "", c.none(g.UUID)
	}
	name = slices.MinFunc(found, func(a, b string) int { return cmp.Or(len(a)-len(b), cmp.Compare(a, b)) })
	d := c.devices[name]
	return name, d.check(name, g)
}

// Instance is the name of the CDI device that is a MIG instance of a GPU. Nothing but its UUID tells it from others: their files are numbered by
// the driver.
func (c *Catalog) Instance(g GPU, uuid string) (string, error) {
	if uuid == "" {
		return "", fmt.Errorf("%w: the instance has no UUID", ErrNoDevice)
	}
	name := Kind + "=" + uuid
	d, ok := c.devices[name]
	if !ok {
		return "", c.none(uuid)
	}
	return name, d.check(name, g)
}

// Files are the device files that a device has in a container; nil: it is not known.
func (c *Catalog) Files(name string) []string { return c.devices[name].files }

// All is the name of the CDI device that is all GPUs, or nothing.
func (c *Catalog) All() string {
	if _, ok := c.devices[Kind+"=all"]; ok {
		return Kind + "=all"
	}
	return ""
}

func (c *Catalog) none(uuid string) error {
	if !slices.ContainsFunc(slices.Collect(maps.Keys(c.devices)), func(name string) bool { return strings.HasPrefix(name, Kind+"=") }) {
		why := "NVIDIA's container toolkit has written none: nvidia-ctk cdi generate --device-name-strategy=uuid --output=/var/run/cdi/nvidia.yaml"
		if len(c.Troubles) > 0 {
			why = c.Troubles[0]
		}
		return fmt.Errorf("%w for %s: %s", ErrNoDevice, uuid, why)
	}
	return fmt.Errorf("%w for %s: the specification is older than it, or names others: nvidia-ctk cdi generate --device-name-strategy=uuid", ErrNoDevice, uuid)
}

// check is nil if a device opens the file that the driver has for the GPU, and brings the libraries of the driver that runs.
func (d *device) check(name string, g GPU) error {
	if g.Node != "" && !slices.Contains(d.files, g.Node) {
		return fmt.Errorf("%w: %s opens %s, and the driver has that GPU at %s: generate the specification again",
			ErrNoDevice, name, strings.Join(d.gpus(), ", "), g.Node)
	}
	if others := d.gpus(); len(others) > 1 {
		return fmt.Errorf("%w: %s opens %s at once", ErrNoDevice, name, strings.Join(others, ", "))
	}
	if g.Driver != "" && d.driver != "" && g.Driver != d.driver {
		return fmt.Errorf("%w: %s is of driver %s, and %s runs: generate the specification again", ErrNoDevice, name, d.driver, g.Driver)
	}
	return nil
}

var gpuFile = regexp.MustCompile(`^/dev/nvidia[0-9]+$`)

// gpus are the device's files that are GPUs.
func (d *device) gpus() []string {
	return slices.DeleteFunc(slices.Clone(d.files), func(file string) bool { return !gpuFile.MatchString(file) })
}

// divided reports whether a device is a part of a GPU.
func (d *device) divided() bool {
	return slices.ContainsFunc(d.files, func(file string) bool { return strings.HasPrefix(file, "/dev/nvidia-caps/") })
}
