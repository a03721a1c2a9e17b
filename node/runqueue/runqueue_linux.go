package runqueue

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
	"golang.org/x/sys/unix"

	"hilbert.dev/hilbert/node/observe"
)

// Probe is the programs in the kernel, while there are any. It belongs to one caller at a time.
type Probe struct {
	options Options
	maps    map[string]*ebpf.Map
	closers []func() error
	program map[string]*ebpf.Program // by event
	victims []string
	levels  []int
	since   time.Duration     // of the monotonic clock
	names   map[uint64]string // of cgroups in the map of pods
	last    map[[2]uint64]uint64
	dropped uint64
}

// New returns a probe that looks at nothing yet.
func New(o Options) *Probe { return &Probe{options: o} }

// Check says whether the node can have the probe: it loads and attaches the programs, and takes them away. The error is an *Unsupported where not.
func (p *Probe) Check() error {
	err := p.begin([]int{1})
	return errors.Join(err, p.Close())
}

// Look says for whom the victims waited since the last call, and goes on to look at them. Other victims, or pods at another level of the hierarchy, make it begin anew; without victims
// nothing is left in the kernel. All are cgroups below the hierarchy's root.
func (p *Probe) Look(victims, pods []string) (*Waits, error) {
	if len(victims) == 0 {
		return &Waits{}, p.Close()
	}
	victims = slices.Sorted(slices.Values(victims))
	levels, err := levelsOf(victims, pods)
	if err != nil {
		return nil, errors.Join(err, p.Close())
	}
	if p.maps != nil && (!slices.Equal(victims, p.victims) || !slices.Equal(levels, p.levels)) {
		if err := p.Close(); err != nil {
			return nil, err
		}
	}
	out := &Waits{}
	if p.maps != nil {
		if out, err = p.read(); err != nil {
			return nil, errors.Join(err, p.Close())
		}
	} else if err := p.begin(levels); err != nil {
		return nil, errors.Join(err, p.Close())
	}
	p.victims = victims
	if err := p.setPods(pods); err != nil {
		return nil, errors.Join(err, p.Close())
	}
	return out, nil
}

// levelsOf are the levels at which pods are.
func levelsOf(victims, pods []string) ([]int, error) {
	all := make(map[int]bool)
	for _, list := range [][]string{victims, pods} {
		for _, cgroup := range list {
			all[depth(cgroup)] = true
		}
	}
	if len(all) > maxLevels {
		return nil, fmt.Errorf("pods are at %d levels of the cgroup hierarchy: the run-queue probe looks at %d", len(all), maxLevels)
	}
	return slices.Sorted(maps.Keys(all)), nil
}

// fields reads where the kernel's events have what the programs read.
func (p *Probe) fields() (fields, error) {
	var formats [2]string
	for i, event := range []string{"sched_switch", "sched_wakeup"} {
		text, err := os.ReadFile(filepath.Join(p.options.Tracing, "events/sched", event, "format"))
		if errors.Is(err, fs.ErrNotExist) {
			return fields{}, &Unsupported{"tracefs is not mounted at " + p.options.Tracing + ", or the kernel has no events of its scheduler", err}
		}
		if err != nil {
			return fields{}, &Unsupported{fmt.Sprintf("read the kernel's events: %v", err), err}
		}
		formats[i] = string(text)
	}
	f, err := fieldsOf(formats[0], formats[1])
	if err != nil {
		return fields{}, &Unsupported{fmt.Sprintf("events of %s: %v", p.options.Tracing, err), nil}
	}
	return f, nil
}

// begin loads and attaches the programs. Whoever calls it closes what an error has left.
func (p *Probe) begin(levels []int) error {
	f, err := p.fields()
	if err != nil {
		return err
	}
	p.maps, p.program = make(map[string]*ebpf.Map), make(map[string]*ebpf.Program)
	p.names, p.last, p.dropped, p.levels = make(map[uint64]string), make(map[[2]uint64]uint64), 0, levels
	for name, spec := range mapSpecs() {
		m, err := ebpf.NewMap(spec)
		if err != nil {
			return refused("making the map "+name, err)
		}
		p.maps[name], p.closers = m, append(p.closers, m.Close)
	}
	for event, spec := range map[string]*ebpf.ProgramSpec{"sched_switch": switchSpec(p.maps, f, levels), "sched_wakeup": wakeupSpec(p.maps, f)} {
		program, err := ebpf.NewProgram(spec)
		if err != nil {
			return refused("loading the program of "+event, err)
		}
		p.program[event], p.closers = program, append(p.closers, program.Close)
		attached, err := link.Tracepoint("sched", event, program, nil)
		if err != nil {
			return refused("attaching to "+event, err)
		}
		p.closers = append(p.closers, attached.Close)
	}
	p.since, err = now()
	return err
}

// refused tells what the kernel does not allow, which another try will not change, from what failed.
func refused(what string, err error) error {
	if errors.Is(err, unix.EPERM) || errors.Is(err, unix.EACCES) || errors.Is(err, unix.ENOSYS) || errors.Is(err, ebpf.ErrNotSupported) || errors.Is(err, os.ErrNotExist) {
		return &Unsupported{fmt.Sprintf("%s: %v; it needs CAP_BPF and CAP_PERFMON, and tracefs", what, err), err}
	}
	return fmt.Errorf("%s: %w", what, err)
}

// setPods brings the map of pods to what they are. Those for which there is no room count as no pod.
func (p *Probe) setPods(pods []string) error {
	wanted, hierarchy := make(map[uint64]string, len(pods)), observe.Root(p.options.Cgroups) // the kernel's programs know a cgroup by its inode
	for _, list := range [][]string{p.victims, pods} {                                       // victims first: there is room for them
		for _, cgroup := range list {
			id, err := hierarchy.Identity(cgroup)
			switch {
			case errors.Is(err, os.ErrNotExist): // it has gone
			case err != nil:
				return fmt.Errorf("cgroup %s: %w", cgroup, err)
			case len(wanted) < maxPods:
				wanted[id] = cgroup
			}
		}
	}
	for id := range p.names {
		if wanted[id] == "" {
			if err := p.maps["pods"].Delete(id); err != nil && !errors.Is(err, ebpf.ErrKeyNotExist) {
				return fmt.Errorf("pod of the run-queue probe: %w", err)
			}
		}
	}
	for id, cgroup := range wanted {
		victim := uint64(0)
		if slices.Contains(p.victims, cgroup) {
			victim = 1
		}
		if p.names[id] == "" {
			if err := p.maps["pods"].Put(id, victim); err != nil {
				return fmt.Errorf("pod of the run-queue probe: %w", err)
			}
		}
	}
	p.names = wanted
	return nil
}

// read is what was counted since the last read.
func (p *Probe) read() (*Waits, error) {
	at, err := now()
	if err != nil {
		return nil, err
	}
	out := &Waits{Over: at - p.since, Of: make(map[string]map[string]time.Duration)}
	p.since = at
	var key [2]uint64
	var total uint64
	all := p.maps["waits"].Iterate()
	for all.Next(&key, &total) {
		waited := time.Duration(total - p.last[key])
		p.last[key] = total
		victim := p.names[key[0]]
		if waited <= 0 || victim == "" {
			continue
		}
		if out.Of[victim] == nil {
			out.Of[victim] = make(map[string]time.Duration)
		}
		out.Of[victim][p.names[key[1]]] += waited // of no pod, or of one that has gone: NoPod
	}
	if err := all.Err(); err != nil {
		return nil, fmt.Errorf("reading who waited for whom: %w", err)
	}
	if err := p.maps["dropped"].Lookup(uint32(0), &total); err != nil {
		return nil, fmt.Errorf("reading what found no room: %w", err)
	}
	out.Dropped, p.dropped = time.Duration(total-p.dropped), total
	return out, nil
}

// now is the monotonic clock.
func now() (time.Duration, error) {
	var at unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &at); err != nil {
		return 0, fmt.Errorf("reading the clock: %w", err)
	}
	return time.Duration(at.Nano()), nil
}

// Close takes everything out of the kernel.
func (p *Probe) Close() error {
	var errs []error
	for _, c := range slices.Backward(p.closers) {
		errs = append(errs, c())
	}
	p.maps, p.program, p.closers, p.victims, p.names, p.last = nil, nil, nil, nil, nil, nil
	return errors.Join(errs...)
}
