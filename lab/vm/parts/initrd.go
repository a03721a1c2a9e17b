package parts

import (
	"bytes"
	"context"
	"debug/elf"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// modules are loaded in this order, each after those that it depends on.
var modules = []string{ //nolint:gochecknoglobals // a constant
	"crc32c_generic", "crc32_generic", // the kernel asks for these by name at run time, so no dependency lists them
	"virtio_blk", "ext4", "virtio_net", "virtio_rng", // the root disk, the network; without entropy TLS waits
	"overlay", "veth", "bridge", "br_netfilter", // containers and their network
	"sch_fq", // keeps packets until the time that they were given
	"e1000e", // the network cards whose place in the machine is to be seen
	"loop",   // a file as a disk, which a test fills or freezes
}

// initrd packs the modules and the first process, uncompressed: unpacking under emulation takes longer than reading.
func (b *builder) initrd(ctx context.Context, from debian, own string) (string, error) {
	name := "initrd-" + digest(append([]string{string(from), own}, modules...)...)
	dir, err := b.once(name, true, func(dir string) error {
		found, err := findModules(filepath.Join(string(from), "kernel", "lib", "modules", KernelRelease))
		if err != nil {
			return err
		}
		order := moduleOrder{paths: found, read: func(path string) ([]byte, error) {
			return exec.CommandContext(ctx, from.command("usr/bin/xz")[0], append(from.command("usr/bin/xz")[1:], "--decompress", "--stdout", path)...).Output()
		}}
		for _, name := range modules {
			if err := order.add(name); err != nil {
				return err
			}
		}
		out := new(bytes.Buffer)
		archive := cpio{out: out}
		if err := archive.file("init", filepath.Join(own, "hilbert-vm-init")); err != nil {
			return err
		}
		archive.add("modules", cpioDir|0o755, nil)
		archive.add("dev", cpioDir|0o755, nil)
		for i, m := range order.loaded {
			archive.add(fmt.Sprintf("modules/%02d-%s.ko", i, m.name), cpioFile|0o644, m.data)
		}
		archive.close()
		return os.WriteFile(filepath.Join(dir, "initrd"), out.Bytes(), 0o644)
	})
	return filepath.Join(dir, "initrd"), err
}

// findModules maps names to files.
func findModules(root string) (map[string]string, error) {
	found := map[string]string{}
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if name, ok := strings.CutSuffix(filepath.Base(path), ".ko.xz"); ok && err == nil && !d.IsDir() {
			found[moduleName(name)] = path
		}
		return err
	})
	return found, err
}

// moduleName is how the kernel writes it; its file may have dashes.
func moduleName(name string) string { return strings.ReplaceAll(name, "-", "_") }

type module struct {
	name string
	data []byte
}

// moduleOrder collects modules so that each comes after those it depends on.
type moduleOrder struct {
	paths  map[string]string
	read   func(path string) ([]byte, error)
	loaded []module
}

func (o *moduleOrder) add(name string) error {
	if slices.ContainsFunc(o.loaded, func(m module) bool { return m.name == name }) {
		return nil
	}
	path, ok := o.paths[name]
	if !ok {
		return fmt.Errorf("the kernel has no module %s", name)
	}
	data, err := o.read(path)
	if err != nil {
		return fmt.Errorf("module %s: %w", name, err)
	}
	needed, err := dependencies(data)
	if err != nil {
		return fmt.Errorf("module %s: %w", name, err)
	}
	for _, one := range needed {
		if err := o.add(one); err != nil {
			return fmt.Errorf("%w, which %s needs", err, name)
		}
	}
	o.loaded = append(o.loaded, module{name, data})
	return nil
}

// dependencies reads what a module says of itself.
func dependencies(data []byte) ([]string, error) {
	object, err := elf.NewFile(bytes.NewReader(data))
	if err != nil {
		return nil, err
	}
	section := object.Section(".modinfo")
	if section == nil {
		return nil, errors.New("no module: it has no .modinfo")
	}
	info, err := section.Data()
	if err != nil {
		return nil, err
	}
	for field := range strings.SplitSeq(string(info), "\x00") {
		if list, ok := strings.CutPrefix(field, "depends="); ok && list != "" {
			names := strings.Split(list, ",")
			for i := range names {
				names[i] = moduleName(names[i])
			}
			return names, nil
		}
	}
	return nil, nil
}

const (
	cpioDir  = 0o040000
	cpioFile = 0o100000
)

// cpio writes the archive format that the kernel unpacks ("newc").
type cpio struct {
	out   *bytes.Buffer
	inode int
}

func (c *cpio) file(name, path string) error {
	data, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	c.add(name, cpioFile|0o755, data)
	return nil
}

func (c *cpio) add(name string, mode int, data []byte) {
	c.inode++
	fmt.Fprintf(c.out, "070701%08x%08x%08x%08x%08x%08x%08x%08x%08x%08x%08x%08x%08x",
		c.inode, mode, 0, 0, 1, 0, len(data), 0, 0, 0, 0, len(name)+1, 0)
	_, _ = io.WriteString(c.out, name+"\x00") // a buffer takes everything
	c.pad()
	c.out.Write(data)
	c.pad()
}

func (c *cpio) pad() {
	for c.out.Len()%4 != 0 {
		c.out.WriteByte(0)
	}
}

func (c *cpio) close() {
	c.inode = -1
	c.add("TRAILER!!!", 0, nil)
}
