package probe

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"time"

	"hilbert.dev/hilbert/node/bandwidth"
	"hilbert.dev/hilbert/node/rdt"
)

// slower is how much less has to be moved at the least percentage than at all of it, for a limit to be one.
const slower = 0.95

// memoryThrottle has this program move memory as a reclaimed pod does, with all of the bandwidth and with the least, and reads what moves in each domain meanwhile. It removes the groups.
func memoryThrottle(_ context.Context, m *Machine) verdict {
	const report = "report it to Hilbert's maintainers, with the files below /sys/fs/resctrl/info"
	if m.RDT == nil {
		return absent(rdt.ErrAbsent.Error())
	}
	control, err := rdt.Open(m.RDT)
	switch {
	case errors.Is(err, fs.ErrPermission):
		return unknown(err.Error(), "run it as root")
	case errors.Is(err, rdt.ErrAbsent):
		return absent(err.Error())
	case err != nil:
		return fail(err.Error(), report)
	case control.Hardware.Bandwidth == nil:
		return absent("the memory's bandwidth cannot be limited")
	case !slices.Contains(control.Hardware.Counters, "mbm_total_bytes"):
		return absent(bandwidth.ErrAbsent.Error())
	case !m.Write:
		return unknown("no group was made", "run it with --write on a node without an agent")
	}
	if v := occupied(m); v != nil {
		return *v
	}
	t := throttled{Machine: m, control: control, domains: bandwidth.Domains{Tree: m.RDT}}
	all, err := t.move(1)
	var least moved
	if err == nil {
		least, err = t.move(0)
	}
	if left := control.Close(); left != nil {
		return fail("groups are left: "+left.Error(), "remove them by rmdir /sys/fs/resctrl/hilbert-*")
	}
	said := fmt.Sprintf("this program moved %v with all of the bandwidth, and %v with the least", all, least)
	switch {
	case err != nil:
		return fail(err.Error(), report)
	case all.counted < leastCounted*all.gigabytes || least.counted < leastCounted*least.gigabytes:
		return fail("what moves in the domains is not counted: "+said, report)
	case least.gigabytes > slower*all.gigabytes:
		return fail("the limit slows nobody down: "+said, report)
	}
	return pass(said)
}

// throttled moves memory in the group of reclaimed pods.
type throttled struct {
	*Machine
	control *rdt.Control
	domains bandwidth.Domains
	at      time.Duration
}

// moved is in GB/s: by this program, and as the domains counted for the group.
type moved struct{ gigabytes, counted float64 }

func (m moved) String() string {
	return fmt.Sprintf("%.2f GB/s (counted %.2f)", m.gigabytes, m.counted)
}

// move moves memory at a share of the bandwidth.
func (t *throttled) move(share float64) (out moved, err error) {
	if err := t.control.Apply(rdt.Plan(t.control.Hardware, rdt.Params{CacheShare: 1, BandwidthShare: share})); err != nil {
		return out, err
	}
	threads, err := t.Threads()
	if err == nil {
		_, err = t.control.Assign(rdt.Reclaimed, threads)
	}
	if err != nil {
		return out, fmt.Errorf("move this program into the group of reclaimed pods: %w", err)
	}
	if _, err := t.domains.Read(t.at); err != nil {
		return out, err
	}
	bytes, took := t.LoadMemory()
	t.at += max(took, time.Nanosecond)
	list, err := t.domains.Read(t.at)
	const giga = 1e9
	out.gigabytes = bytes / max(took, time.Nanosecond).Seconds() / giga
	for i := range list {
		if list[i].Total.Known && list[i].Reclaimed.Known && list[i].Reclaimed.Value <= list[i].Total.Value {
			out.counted += list[i].Reclaimed.Value / giga
		}
	}
	return out, err
}
