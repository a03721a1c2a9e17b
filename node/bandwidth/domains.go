package bandwidth

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"syscall"
	"time"

	"hilbert.dev/hilbert/node/advise"
	"hilbert.dev/hilbert/node/rdt"
)

// Traffic is what was moved in a domain of the last-level cache between the last two readings, in bytes per second: by everybody, and by the group of reclaimed pods.
type Traffic struct {
	Domain           int
	Total, Reclaimed advise.Sample
}

// Domains reads what all of a machine moves, by domain. It makes no group: each control group counts what its threads and its monitoring groups move, and all of them together are the
// machine. It is used by one goroutine. The zero value but for Tree is ready.
type Domains struct {
	Tree rdt.Tree

	at     time.Duration
	groups []string // that counted at the last reading, monitoring groups too
	counts map[string]map[int]advise.Sample
}

// Read reads the counters, by number of the domain. now is monotonic. The first reading knows no rate, nor does one after groups were made or removed: a control group no longer has what a
// group that was removed in it has counted, and would seem to have moved less. The error is ErrAbsent where the machine counts nothing.
func (d *Domains) Read(now time.Duration) ([]Traffic, error) {
	control, groups, err := d.list()
	if err != nil {
		return nil, err
	}
	counts := make(map[string]map[int]advise.Sample, len(control))
	for _, group := range control {
		list, err := rdt.Counted(d.Tree, group)
		if err != nil {
			return nil, fmt.Errorf("read what moves in a domain: %w", err)
		}
		counts[group] = make(map[int]advise.Sample, len(list))
		for _, u := range list {
			counts[group][u.Domain] = u.Total
		}
	}
	was, took := d.counts, now-d.at
	if !slices.Equal(groups, d.groups) {
		was = nil
	}
	d.at, d.groups, d.counts = now, groups, counts
	out := make([]Traffic, 0, len(counts[""]))
	for domain := range counts[""] {
		t := Traffic{Domain: domain, Total: advise.Known(0)}
		for _, group := range control {
			moved := rate(was[group][domain], counts[group][domain], took)
			t.Total = plus(t.Total, moved)
			if group == string(rdt.Reclaimed) {
				t.Reclaimed = moved
			}
		}
		out = append(out, t)
	}
	slices.SortFunc(out, func(x, y Traffic) int { return x.Domain - y.Domain })
	return out, nil
}

// list finds the control groups, and all groups.
func (d *Domains) list() (control, groups []string, err error) {
	if _, err := d.Tree.List("mon_data"); err != nil {
		return nil, nil, fmt.Errorf("%w: %w", ErrAbsent, err)
	}
	names, err := d.Tree.List(".")
	if err != nil {
		return nil, nil, fmt.Errorf("list the groups of resctrl: %w", err)
	}
	control = append(control, "")
	for _, name := range names {
		switch _, err := d.Tree.List(path.Join(name, "mon_data")); {
		case err == nil:
			control = append(control, name)
		case !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, syscall.ENOTDIR):
			return nil, nil, fmt.Errorf("list what the group %s counts: %w", name, err)
		}
	}
	slices.Sort(control)
	for _, group := range control {
		groups = append(groups, group)
		names, err := d.Tree.List(path.Join(group, monDir))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, nil, fmt.Errorf("list the monitoring groups of %q: %w", group, err)
		}
		for _, name := range names {
			groups = append(groups, path.Join(group, monDir, name))
		}
	}
	slices.Sort(groups)
	return control, groups, nil
}
