package probe

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"time"

	"hilbert.dev/hilbert/node/bandwidth"
)

// leastCounted is the part of the moved bytes that has to be counted: a cache may hold some of them.
const leastCounted = 0.1

// memoryBandwidth reads what this program moves, as an agent reads pods, and removes the group.
func memoryBandwidth(_ context.Context, m *Machine) verdict {
	const report = "report it to Hilbert's maintainers, with the files below /sys/fs/resctrl/info/L3_MON"
	if m.RDT == nil {
		return absent(bandwidth.ErrAbsent.Error() + ": no such file system")
	}
	features, err := m.RDT.Read("info/L3_MON/mon_features")
	switch {
	case errors.Is(err, fs.ErrPermission):
		return unknown(err.Error(), "run it as root")
	case err != nil:
		return absent(bandwidth.ErrAbsent.Error() + ": " + err.Error())
	case !m.Write:
		return unknown(fmt.Sprintf("no group was made; it counts %q", features), "run it with --write on a node without an agent")
	}
	if left := bandwidth.Left(m.RDT); len(left) > 0 {
		return unknown(fmt.Sprintf("the group %s is there: an agent runs", left[0]), "drain the node and stop its agent first")
	}
	const self = "probe"
	params := bandwidth.DefaultParams()
	params.Groups = 1
	r := bandwidth.NewReader(m.RDT, func(string) ([]int, error) { return m.Threads() }, params)
	pods := []bandwidth.Pod{{UID: self, Cgroup: self}}
	r.Read(0, pods)
	if err := r.Status().Why; err != nil {
		return closed(r, refusal(err, report))
	}
	bytes, took := m.LoadMemory()
	r.Read(took, pods)
	const giga = 1e9
	said, moved := r.Of(self).Total, bytes/max(took, time.Nanosecond).Seconds()
	switch err := r.Status().Why; {
	case err != nil:
		return closed(r, refusal(err, report))
	case !said.Known:
		return closed(r, fail("this program's memory bandwidth is not counted: its counters are unavailable", report))
	case said.Value < leastCounted*moved:
		return closed(r, fail(fmt.Sprintf("%.2f GB/s were counted while this program moved %.2f GB/s", said.Value/giga, moved/giga), report))
	}
	return closed(r, pass(fmt.Sprintf("%.2f GB/s were counted while this program moved %.2f GB/s", said.Value/giga, moved/giga)))
}

// refusal is what an error of the reader means.
func refusal(err error, report string) verdict {
	switch {
	case errors.Is(err, bandwidth.ErrAbsent):
		return absent(err.Error())
	case errors.Is(err, bandwidth.ErrFull), errors.Is(err, bandwidth.ErrTaken):
		return unknown(err.Error(), "stop what else makes groups below /sys/fs/resctrl")
	}
	return fail(err.Error(), report)
}

// closed removes the group, whatever was found.
func closed(r *bandwidth.Reader, v verdict) verdict {
	if err := r.Close(); err != nil {
		return fail("groups are left: "+err.Error(), "remove them by rmdir /sys/fs/resctrl/mon_groups/hilbert-pod-*")
	}
	return v
}
