// Package machine reads what a node's hardware is from sysfs: sockets, NUMA nodes, L3 groups, cores, and the PCIe devices that matter for
// placement.
//
// Its input is an fs.FS rooted at /sys, so that a capture of any machine can be read as the machine itself would be. What it returns is a
// topology.Machine, the model that the allocator and the report share.
//
// Missing data is never read as zero. What promises rest on (which CPUs are online and share a core, where they and the memory are) must be
// there and must agree, or nothing is returned: a wrong model would give one core to two pods. What only makes a placement better (caches,
// distances, devices) may be missing; it is left out, and a Note says so.
package machine

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strconv"
	"strings"

	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/topology"
)

// Note is something that the machine's model lacks, or has only in part.
type Note struct {
	Reason  string // of api/spec
	Message string
}

// Read returns the machine that sys describes, whose root is /sys. Notes say what was left out. It fails if the CPUs, their cores, their NUMA
// nodes or the memory of those are unknown or contradict each other; as a CPU can go offline meanwhile, a second try may succeed.
func Read(sys fs.FS) (*topology.Machine, []Note, error) {
	r := &reader{sys: sys}
	online, err := r.online()
	if err != nil {
		return nil, nil, err
	}
	nodes, err := r.numa(online)
	if err != nil {
		return nil, nil, err
	}
	cpus, err := r.cpus(online, nodes)
	if err != nil {
		return nil, nil, err
	}
	if len(nodes) > topology.MaxNUMANodes {
		r.note(spec.ReasonTooManyNUMANodes, "%d NUMA nodes: no more than %d can be promised from", len(nodes), topology.MaxNUMANodes)
	}
	m := &topology.Machine{CPUs: cpus, NUMA: nodes}
	m.Devices = r.devices(nodes)
	return m, r.notes, nil
}

// reader reads attributes, files of mostly one line, and remembers what it could not.
type reader struct {
	sys   fs.FS
	notes []Note
}

func (r *reader) note(reason, format string, args ...any) {
	r.notes = append(r.notes, Note{Reason: reason, Message: fmt.Sprintf(format, args...)})
}

// text is an attribute without the space around it.
func (r *reader) text(name string) (string, error) {
	content, err := fs.ReadFile(r.sys, name)
	if err != nil {
		return "", err
	}
	return strings.TrimSpace(string(content)), nil
}

// number is an attribute that is a whole number, in the base that its prefix says.
func (r *reader) number(name string) (int, error) {
	text, err := r.text(name)
	if err != nil {
		return 0, err
	}
	n, err := strconv.ParseInt(text, 0, 32)
	if err != nil {
		return 0, fmt.Errorf("%s: want a number, got %q", name, shortened(text))
	}
	return int(n), nil
}

// list is the set that the first attribute which exists has.
func (r *reader) list(names ...string) (topology.CPUSet, error) {
	var text string
	err := fs.ErrNotExist
	for _, name := range names {
		if text, err = r.text(name); err == nil {
			set, err := topology.ParseCPUSet(text)
			if err != nil {
				return set, fmt.Errorf("%s: %w", name, err)
			}
			return set, nil
		}
		if !errors.Is(err, fs.ErrNotExist) {
			break
		}
	}
	return topology.CPUSet{}, err
}

// numbered is the set of the numbers N of a directory's entries PREFIXN.
func (r *reader) numbered(dir, prefix string) (set topology.CPUSet, err error) {
	entries, err := fs.ReadDir(r.sys, dir)
	if err != nil {
		return set, err
	}
	for _, entry := range entries {
		digits, ok := strings.CutPrefix(entry.Name(), prefix)
		n, err := strconv.ParseUint(digits, 10, 31)
		if !ok || err != nil {
			continue
		}
		if n >= topology.MaxCPUs {
			return set, fmt.Errorf("%s/%s: want a number below %d", dir, entry.Name(), topology.MaxCPUs)
		}
		set.Add(int(n))
	}
	return set, nil
}

// node returns the node with an ID, nil if there is none.
func node(nodes []topology.NUMANode, id int) *topology.NUMANode {
	i := slices.IndexFunc(nodes, func(n topology.NUMANode) bool { return n.ID == id })
	if i < 0 {
		return nil
	}
	return &nodes[i]
}

// shortened keeps a malformed attribute from filling a condition's message.
func shortened(text string) string {
	const most = 40
	if len(text) > most {
		return text[:most] + "…"
	}
	return text
}
