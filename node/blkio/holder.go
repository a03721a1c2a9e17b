package blkio

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"
)

// maxDepth bounds how many block devices may lie below one another: a partition, a RAID, an encryption, a volume.
const maxDepth = 8

// ErrNoDisk says that a path lies on no disk of this node: on a network's or in memory.
var ErrNoDisk = errors.New("it is on no disk of this node")

// Holders returns the names of the disks that hold an absolute path: below partitions and device mappings of every kind, so there may be several. sys is /sys, and mounts is
// the text of a mountinfo file of the mount namespace in which the path is meant.
func Holders(sys fs.FS, mounts, name string) ([]string, error) {
	number, source, ok := mountOf(mounts, name)
	if !ok {
		return nil, fmt.Errorf("%s: no file system is mounted there", name)
	}
	known, err := blocks(sys)
	if err != nil {
		return nil, err
	}
	block, ok := known.byNumber[number]
	if !ok { // btrfs has numbers of its own
		if base, isDevice := strings.CutPrefix(source, "/dev/"); isDevice {
			block, ok = known.find(base)
		}
	}
	if !ok {
		return nil, fmt.Errorf("%s is on %s (%s): %w", name, source, number, ErrNoDisk)
	}
	disks := known.below(block, maxDepth)
	if len(disks) == 0 {
		return nil, fmt.Errorf("%s is on %s: %w", name, block, ErrNoDisk)
	}
	slices.Sort(disks)
	return slices.Compact(disks), nil
}

// mountOf is the device number and the source of the file system that holds a path: the last mounted of those whose mount point is the deepest above it.
func mountOf(mounts, name string) (number, source string, ok bool) {
	const numberAt, pointAt = 2, 4
	deepest := -1
	for line := range strings.Lines(mounts) {
		before, after, found := strings.Cut(line, " - ")
		fields, rest := strings.Fields(before), strings.Fields(after)
		if !found || len(fields) <= pointAt || len(rest) < 2 {
			continue
		}
		point := unescape(fields[pointAt])
		if (point == "/" || name == point || strings.HasPrefix(name, point+"/")) && len(point) >= deepest {
			deepest, number, source, ok = len(point), fields[numberAt], unescape(rest[1]), true
		}
	}
	return number, source, ok
}

// unescape undoes mountinfo's octal escapes of spaces and the like.
func unescape(text string) string {
	const digits, octal, bits = 3, 8, 8
	var out strings.Builder
	for i := 0; i < len(text); i++ {
		if text[i] == '\\' && i+digits < len(text) {
			if n, err := strconv.ParseUint(text[i+1:i+1+digits], octal, bits); err == nil {
				out.WriteByte(byte(n))
				i += digits
				continue
			}
		}
		out.WriteByte(text[i])
	}
	return out.String()
}

// blockDevices are a node's block devices, partitions and mappings included.
type blockDevices struct {
	byNumber map[string]string
	under    map[string][]string // what a block device consists of
	disk     map[string]bool
}

func blocks(sys fs.FS) (*blockDevices, error) {
	entries, err := fs.ReadDir(sys, "block")
	if err != nil {
		return nil, fmt.Errorf("list the block devices: %w", err)
	}
	b := &blockDevices{byNumber: map[string]string{}, under: map[string][]string{}, disk: map[string]bool{}}
	for _, entry := range entries[:min(len(entries), maxDisks)] {
		name := entry.Name()
		dir := path.Join("block", name)
		b.byNumber[attribute(sys, dir+"/dev")] = name
		if _, err := fs.Stat(sys, dir+"/device"); err == nil {
			b.disk[name] = true
		}
		slaves, _ := fs.ReadDir(sys, dir+"/slaves") // a disk has none
		for _, slave := range slaves {
			b.under[name] = append(b.under[name], slave.Name())
		}
		parts, err := fs.ReadDir(sys, dir)
		if err != nil {
			return nil, fmt.Errorf("list the partitions of %s: %w", name, err)
		}
		for _, part := range parts {
			if attribute(sys, path.Join(dir, part.Name(), "partition")) != "" {
				b.byNumber[attribute(sys, path.Join(dir, part.Name(), "dev"))] = part.Name()
				b.under[part.Name()] = []string{name}
			}
		}
	}
	delete(b.byNumber, "")
	return b, nil
}

// find is a block device by the name that a mount's source has.
func (b *blockDevices) find(name string) (string, bool) {
	return name, b.disk[name] || len(b.under[name]) > 0
}

// below are the disks that a block device lies on.
func (b *blockDevices) below(name string, depth int) (out []string) {
	if b.disk[name] {
		return []string{name}
	}
	if depth == 0 {
		return nil
	}
	for _, under := range b.under[name] {
		out = append(out, b.below(under, depth-1)...)
	}
	return out
}

// closeness orders the ways of naming a disk: what names it more closely counts.
func closeness(name string) int {
	switch {
	case name == everyDisk:
		return 2
	case strings.HasPrefix(name, "/"):
		return 1
	default:
		return 0
	}
}

// named is a setting and the disk that it is for.
type named struct {
	disk  string
	index int
}

// assign gives each disk the one of the settings, of which these are the names, that names it most closely. Names of disks that are not there are kept as they are;
// missing says which paths lie on no disk.
func assign(names []string, disks []Disk, holders func(name string) ([]string, error)) (out []named, missing []string) {
	has := map[string]bool{}
	give := func(disk string, index int) {
		if !has[disk] {
			has[disk] = true
			out = append(out, named{disk, index})
		}
	}
	for rank := range 3 {
		for i, name := range names {
			switch {
			case closeness(name) != rank:
			case name == everyDisk:
				for _, d := range disks {
					give(d.Name, i)
				}
			case rank == 1:
				on, err := holders(name)
				if err != nil {
					missing = append(missing, err.Error())
				}
				for _, d := range on {
					give(d, i)
				}
			default:
				give(name, i)
			}
		}
	}
	slices.SortStableFunc(out, func(a, b named) int { return a.index - b.index })
	return out, missing
}

func noDisk(name string) string { return "there is no disk " + name }

// on returns the settings with the kernel's names of disks in place of paths and "*".
func (p Params) on(disks []Disk, holders func(name string) ([]string, error)) (Params, []Condition) {
	out := p
	var conditions []Condition
	place := func(names []string) []named {
		assigned, missing := assign(names, disks, holders)
		for _, n := range assigned {
			if !slices.ContainsFunc(disks, func(d Disk) bool { return d.Name == n.disk }) {
				missing = append(missing, noDisk(n.disk))
			}
		}
		for _, message := range missing {
			conditions = append(conditions, Condition{ReasonNoDisk, message})
		}
		return assigned
	}
	out.Devices, out.Latencies, out.Ceilings = nil, nil, nil
	// Together, for a disk has io.cost or io.latency.
	devices, latencies := namesOf(p.Devices, func(d Device) string { return d.Name }), namesOf(p.Latencies, func(l Latency) string { return l.Name })
	either := slices.Clone(devices)
	for _, name := range latencies {
		if !slices.Contains(devices, name) {
			either = append(either, name)
		}
	}
	for _, n := range place(either) {
		if n.index < len(devices) {
			d := p.Devices[n.index]
			d.Name = n.disk
			out.Devices = append(out.Devices, d)
		} else if l := p.Latencies[slices.Index(latencies, either[n.index])]; l.Micros > 0 {
			out.Latencies = append(out.Latencies, Latency{n.disk, l.Micros})
		}
	}
	for _, n := range place(namesOf(p.Ceilings, func(c Ceiling) string { return c.Name })) {
		c := p.Ceilings[n.index]
		c.Name = n.disk
		out.Ceilings = append(out.Ceilings, c)
	}
	slices.SortFunc(conditions, func(a, b Condition) int { return strings.Compare(a.Message, b.Message) })
	return out, slices.Compact(conditions)
}

func namesOf[T any](all []T, name func(T) string) []string {
	out := make([]string, len(all))
	for i, one := range all {
		out[i] = name(one)
	}
	return out
}
