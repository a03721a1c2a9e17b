package rdt

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"hilbert.dev/hilbert/node/advise"
)

// Control keeps the groups. It belongs to one caller.
type Control struct {
	tree     Tree
	Hardware Hardware
}

// Open reads what the hardware has. The error is ErrAbsent where there is nothing.
func Open(t Tree) (*Control, error) {
	h, err := hardware(t)
	if err != nil {
		return nil, err
	}
	return &Control{tree: t, Hardware: h}, nil
}

// Apply makes the groups and writes what differs from the plan. Values are compared as numbers: the kernel pads masks.
func (c *Control) Apply(plan map[Group]Setting) error {
	var errs []error
	for _, group := range slices.Sorted(maps.Keys(plan)) {
		if err := c.apply(group, c.Hardware.schemata(plan[group])); err != nil {
			errs = append(errs, fmt.Errorf("group %s: %w", group, err))
		}
	}
	return errors.Join(errs...)
}

func (c *Control) apply(group Group, want map[string]line) error {
	if err := c.tree.Mkdir(string(group)); err != nil && !errors.Is(err, fs.ErrExist) {
		if errors.Is(err, syscall.ENOSPC) {
			return fmt.Errorf("the hardware has %d groups, and all are in use: %w", c.Hardware.Groups, err)
		}
		return err
	}
	file := path.Join(string(group), "schemata")
	differs, err := c.differs(file, want)
	if err != nil || differs == "" {
		return err
	}
	if err := c.tree.Write(file, differs); err != nil {
		why, _ := c.tree.Read("info/last_cmd_status")
		return fmt.Errorf("write %q: %w: %s", differs, err, strings.TrimSpace(why))
	}
	left, err := c.differs(file, want)
	if err == nil && left != "" {
		err = fmt.Errorf("wrote %q, and of that %q is not so", differs, left)
	}
	return err
}

// differs are the lines of resources that are not as wanted, to be written in one go; empty: all are.
func (c *Control) differs(file string, want map[string]line) (string, error) {
	text, err := c.tree.Read(file)
	if err != nil {
		return "", err
	}
	has, err := parseSchemata(text)
	if err != nil {
		return "", err
	}
	var out strings.Builder
	for _, resource := range slices.Sorted(maps.Keys(want)) {
		base := 16
		if resource == "MB" {
			base = 10
		}
		same := true
		fields := []string{}
		for _, domain := range want[resource].domains() {
			value := want[resource][domain]
			fields = append(fields, strconv.Itoa(domain)+"="+value)
			same = same && equal(has[resource][domain], value, base)
		}
		if !same {
			fmt.Fprintf(&out, "%s:%s\n", resource, strings.Join(fields, ";"))
		}
	}
	return out.String(), nil
}

func equal(a, b string, base int) bool {
	x, errX := strconv.ParseUint(a, base, 64)
	y, errY := strconv.ParseUint(b, base, 64)
	return errX == nil && errY == nil && x == y
}

// Assign makes a group's threads those that are given: what is not in it moves there, and what is in it and not given goes back to the default
// group. A thread that ends meanwhile is passed over. Threads that a thread makes later are in its group by themselves.
func (c *Control) Assign(group Group, threads []int) (moved int, err error) {
	file := path.Join(string(group), "tasks")
	has, err := Tasks(c.tree, file)
	if err != nil {
		return 0, fmt.Errorf("group %s: %w", group, err)
	}
	var errs []error
	move := func(file string, thread int) {
		switch err := c.tree.Write(file, strconv.Itoa(thread)); {
		case err == nil:
			moved++
		case !errors.Is(err, syscall.ESRCH):
			errs = append(errs, fmt.Errorf("%s: thread %d: %w", file, thread, err))
		}
	}
	for _, thread := range threads {
		if !has[thread] {
			move(file, thread)
		}
		delete(has, thread)
	}
	for _, thread := range slices.Sorted(maps.Keys(has)) {
		move("tasks", thread)
	}
	return moved, errors.Join(errs...)
}

// Tasks reads which threads a file "tasks" lists.
func Tasks(t Tree, file string) (map[int]bool, error) {
	text, err := t.Read(file)
	if err != nil {
		return nil, err
	}
	has := map[int]bool{}
	for field := range strings.FieldsSeq(text) {
		thread, err := strconv.Atoi(field)
		if err != nil {
			return nil, fmt.Errorf("%s: want a thread, got %q", file, field)
		}
		has[thread] = true
	}
	return has, nil
}

// Step brings both groups to the settings, and the threads of pods into them, by the pods' cgroups below the root of the hierarchy that is given.
// A pod that is gone meanwhile is passed over. Reading threads costs a file for each container: once in some seconds is enough.
func (c *Control) Step(p Params, root string, pods map[Group][]string) error {
	errs := []error{c.Apply(Plan(c.Hardware, p))}
	for _, group := range []Group{Online, Reclaimed} {
		var threads []int
		for _, cgroup := range pods[group] {
			of, err := Threads(root, cgroup)
			if err != nil && !gone(err) {
				errs = append(errs, err)
			}
			threads = append(threads, of...)
		}
		_, err := c.Assign(group, threads)
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// Usage is what a group holds and has moved in one domain. The zero value is not known.
type Usage struct {
	Domain int
	// Occupancy is what it holds of the cache, in bytes. Total and Local are what it has read and written of memory since it was made, in bytes; Local of
	// its own NUMA node. These two only grow, until the hardware's counter is taken from the group.
	Occupancy, Total, Local advise.Sample
}

// Usage reads a group's counters, by domain. A counter that is missing, or that the kernel calls unavailable, is not known.
func (c *Control) Usage(group Group) ([]Usage, error) { return Counted(c.tree, string(group)) }

// Counted reads the counters of any group by its directory, as Usage does.
func Counted(t Tree, group string) ([]Usage, error) {
	dir := path.Join(group, "mon_data")
	entries, err := t.List(dir)
	if err != nil {
		return nil, fmt.Errorf("group %s: %w", group, err)
	}
	var out []Usage
	for _, entry := range entries {
		digits, ok := strings.CutPrefix(entry, "mon_L3_")
		domain, err := strconv.Atoi(digits)
		if !ok || err != nil {
			continue
		}
		at := func(counter string) advise.Sample { return sample(t, path.Join(dir, entry, counter)) }
		out = append(out, Usage{domain, at("llc_occupancy"), at("mbm_total_bytes"), at("mbm_local_bytes")})
	}
	slices.SortFunc(out, func(a, b Usage) int { return a.Domain - b.Domain })
	return out, nil
}

func sample(t Tree, file string) advise.Sample {
	text, err := t.Read(file)
	if err != nil {
		return advise.Sample{}
	}
	n, err := strconv.ParseUint(strings.TrimSpace(text), 10, 64)
	if err != nil {
		return advise.Sample{} // "Unavailable", "Error", "Unassigned"
	}
	return advise.Known(float64(n))
}

// Remove removes the groups of any Control, as Close does.
func Remove(t Tree) error { return (&Control{tree: t}).Close() }

// Close removes the groups. Their threads go back to the default group.
func (c *Control) Close() error {
	var errs []error
	for _, group := range []Group{Online, Reclaimed} {
		if err := c.tree.Remove(string(group)); err != nil && !gone(err) {
			errs = append(errs, fmt.Errorf("group %s: %w", group, err))
		}
	}
	return errors.Join(errs...)
}
