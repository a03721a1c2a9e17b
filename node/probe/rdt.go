package probe

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"hilbert.dev/hilbert/node/rdt"
)

// half is what is tried: no group may be without anything.
var half = rdt.Params{CacheShare: 0.5, Exclusive: true, BandwidthShare: 0.5}

// resctrl reads what the hardware has and, if it may, makes both groups, reads back what they have and what they use, and removes them.
func resctrl(_ context.Context, m *Machine) verdict {
	if m.RDT == nil {
		// A kernel that has the file system names it, mounted or not.
		if text, err := fs.ReadFile(m.Root, "proc/filesystems"); err == nil && !slices.Contains(strings.Fields(string(text)), "resctrl") {
			return absent("the kernel has no resctrl file system: the processor or the hypervisor shows nothing of it, or it was built without CONFIG_X86_CPU_RESCTRL")
		}
		return absent(rdt.ErrAbsent.Error())
	}
	control, err := rdt.Open(m.RDT)
	switch {
	case errors.Is(err, rdt.ErrAbsent) && errors.Is(err, fs.ErrPermission):
		return unknown(err.Error(), "run it as root")
	case errors.Is(err, rdt.ErrAbsent):
		return absent(err.Error())
	case err != nil:
		return fail(err.Error(), "report it to Hilbert's maintainers, with the files below /sys/fs/resctrl/info")
	}
	h := &control.Hardware
	said := fmt.Sprintf("%d groups, domains %v, counters %s", h.Groups, h.Domains, strings.Join(h.Counters, " "))
	if h.Cache == nil && h.Bandwidth == nil {
		return absent("neither the cache nor the memory's bandwidth can be divided; " + said)
	}
	if !m.Write {
		return unknown("no group was made; "+said, "run it with --write on a node without an agent")
	}
	if v := occupied(m); v != nil {
		return *v
	}
	return tried(control, said)
}

// occupied says that an agent has its groups there; nil: none has.
func occupied(m *Machine) *verdict {
	entries, err := m.RDT.List(".")
	if err != nil {
		v := unknown(err.Error(), "")
		return &v
	}
	for _, group := range []rdt.Group{rdt.Online, rdt.Reclaimed} {
		if slices.Contains(entries, string(group)) {
			v := unknown(fmt.Sprintf("the group %s is there: an agent runs", group), "drain the node and stop its agent first")
			return &v
		}
	}
	return nil
}

// tried makes the groups and removes them.
func tried(control *rdt.Control, said string) verdict {
	const report = "report it to Hilbert's maintainers, with the files below /sys/fs/resctrl/info"
	err := control.Apply(rdt.Plan(control.Hardware, half))
	var uncounted []string
	for _, group := range []rdt.Group{rdt.Online, rdt.Reclaimed} {
		usage, unread := control.Usage(group)
		if err == nil && len(control.Hardware.Counters) > 0 {
			err = unread
		}
		for _, u := range usage {
			if !u.Occupancy.Known && slices.Contains(control.Hardware.Counters, "llc_occupancy") {
				uncounted = append(uncounted, fmt.Sprintf("%s in domain %d", group, u.Domain))
			}
		}
	}
	if left := control.Close(); left != nil {
		return fail("groups are left: "+left.Error(), "remove them by rmdir /sys/fs/resctrl/hilbert-*")
	}
	switch {
	case err != nil:
		return fail(err.Error(), report)
	case len(uncounted) > 0:
		return fail("the cache that a group holds is not counted: "+strings.Join(uncounted, ", "), report)
	}
	return pass("both groups were made, read back and removed; " + said)
}
