package egress

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
	"golang.org/x/sys/unix"

	"hilbert.dev/hilbert/node/advise"
)

// Egress is the ceilings in the kernel. It belongs to one caller at a time.
type Egress struct {
	options Options
	uplinks []iface // by their slots; one without an interface has the index 0
	missing []string
	taken   []takenUplink
	netlink *netlink
	pins    string // "": nothing is pinned
	maps    map[string]*ebpf.Map
	mark    *ebpf.Program
	police  *ebpf.Program        // nil: what comes in is not policed
	hosts   *ebpf.Program        // the same for pods in the host's network
	links   map[string]link.Link // by name of the pin
	slots   slotTable
	flags   [maxSlots]uint32 // as told to the kernel
	told    bool
	crowded int
	pods    map[string]pod // by cgroup
	set     [MaxUplinks]settings
}

// pod is a pod that is marked.
type pod struct {
	Pod
	inode uint64 // of its cgroup
	veths []int
	host  bool // it is in the host's network, and known by its cgroup
	slot  int  // noSlot: it is not marked
}

// Open puts the programs and the qdisc where they belong, or takes over those of an earlier run. The error holds an *Unsupported where there
// can be no ceiling on this node. With an error nothing is left behind, of an earlier run either.
func Open(o Options) (_ *Egress, err error) {
	e, err := newEgress(o)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, e.Detach())
		}
	}()
	if err = e.openPins(); err != nil {
		return nil, err
	}
	found, err := e.findUplinks()
	if err != nil {
		return nil, err
	}
	if found, e.taken, err = withoutTaken(found, e.netlink.look); err != nil {
		return nil, err
	}
	e.uplinks = found // until they are seated
	if err = e.load(found); err != nil {
		return nil, err
	}
	// The last step: a qdisc that is replaced drops what waits in it, of online pods too, and shall not be for programs that the kernel refuses.
	for _, one := range found {
		if err = e.netlink.pace(one.index, queues(e.options.Sys, one.name)); err != nil {
			return nil, fmt.Errorf("uplink %s: %w", one.name, err)
		}
	}
	return e, nil
}

func newEgress(o Options) (_ *Egress, err error) {
	e := &Egress{
		options: o.withDefaults(), maps: map[string]*ebpf.Map{}, links: map[string]link.Link{}, pods: map[string]pod{},
	}
	e.netlink, err = openNetlink()
	return e, err
}

// Remove takes back what an earlier run has left: for an agent whose settings want no ceiling. Where nothing is pinned, or nothing can be, it asks
// nothing of the kernel.
func Remove(o Options) error {
	if _, err := os.Stat(o.withDefaults().Pins); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	e, err := newEgress(o)
	if err != nil {
		return err
	}
	return errors.Join(e.openPins(), e.Detach())
}

// openPins makes the directory of the pins, where there is a BPF file system for it.
func (e *Egress) openPins() error {
	var info unix.Statfs_t
	if err := unix.Statfs(filepath.Dir(e.options.Pins), &info); err != nil || info.Type != unix.BPF_FS_MAGIC {
		return nil //nolint:nilerr // then there is none, and nothing is pinned
	}
	if err := os.Mkdir(e.options.Pins, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("pins: %w", err)
	}
	e.pins = e.options.Pins
	return nil
}

// load makes or takes over the maps, loads the programs, and attaches those of the uplinks. Maps of another shape are another version's, which then goes whole.
func (e *Egress) load(found []iface) error {
	err := e.loadMaps()
	if errors.Is(err, ebpf.ErrMapIncompatible) && e.pins != "" {
		if err = errors.Join(e.dropUplinks(found...), e.unpin()); err == nil {
			err = e.loadMaps()
		}
	}
	if err != nil {
		return cannot(err)
	}
	if e.mark, err = ebpf.NewProgram(markSpec(e.maps)); err != nil {
		return cannot(err)
	}
	if e.options.Incoming {
		if e.police, err = ebpf.NewProgram(policeSpec(e.maps, &atVeth)); err != nil {
			return cannot(err)
		}
		if e.hosts, err = ebpf.NewProgram(policeSpec(e.maps, &atHost)); err != nil {
			return cannot(err)
		}
	}
	if err := e.seatUplinks(found); err != nil {
		return err
	}
	for slot := range e.uplinks {
		if err := e.loadUplink(slot); err != nil {
			return err
		}
	}
	return e.dropUplinks(e.uplinks...)
}

// loadUplink attaches the program of an uplink.
func (e *Egress) loadUplink(slot int) error {
	index := e.uplinks[slot].index
	if index == 0 {
		return nil
	}
	pace, err := ebpf.NewProgram(paceSpec(e.maps, int32(slot)))
	if err != nil {
		return cannot(err)
	}
	defer func() { _ = pace.Close() }()
	name := "uplink-" + strconv.Itoa(index)
	attached, err := e.attach(name, index, pace, ebpf.AttachTCXEgress)
	if err != nil {
		return cannot(err)
	}
	e.links[name] = attached
	return nil
}

func (e *Egress) loadMaps() error {
	for name, spec := range mapSpecs() {
		var o ebpf.MapOptions
		if e.pins != "" {
			o.PinPath, spec.Pinning = e.pins, ebpf.PinByName
		}
		m, err := ebpf.NewMapWithOptions(spec, o)
		if err != nil {
			return fmt.Errorf("map %s: %w", name, err)
		}
		e.maps[name] = m
	}
	return nil
}

// unpin closes the maps and removes all pins; links without another holder detach.
func (e *Egress) unpin() error {
	for name, m := range e.maps {
		_ = m.Close() // it is given up
		delete(e.maps, name)
	}
	if err := os.RemoveAll(e.pins); err != nil {
		return fmt.Errorf("pins: %w", err)
	}
	if err := os.Mkdir(e.pins, 0o700); err != nil {
		return fmt.Errorf("pins: %w", err)
	}
	return nil
}

// cannot says of what the kernel refuses to load that it never will.
func cannot(err error) error {
	if errors.Is(err, ebpf.ErrNotSupported) || errors.Is(err, unix.EPERM) || errors.Is(err, unix.ENOSYS) {
		return &Unsupported{ReasonNoTCX, "programs cannot be attached: " + err.Error()}
	}
	return err
}

// attach puts a program at an interface before all others there, or into the link that is pinned under the name.
func (e *Egress) attach(name string, index int, program *ebpf.Program, where ebpf.AttachType) (link.Link, error) {
	return e.pinned(name, program, func() (link.Link, error) {
		return link.AttachTCX(link.TCXOptions{Interface: index, Program: program, Attach: where, Anchor: link.Head()})
	})
}

// attachHost puts the program of what comes in at the cgroup of a pod in the host's network.
func (e *Egress) attachHost(name, cgroup string) (link.Link, error) {
	return e.pinned(name, e.hosts, func() (link.Link, error) {
		return link.AttachCgroup(link.CgroupOptions{Path: filepath.Join(e.options.Cgroups, cgroup), Attach: ebpf.AttachCGroupInetIngress, Program: e.hosts})
	})
}

// pinned puts a program into the link that is pinned under the name, or makes and pins one.
func (e *Egress) pinned(name string, program *ebpf.Program, attach func() (link.Link, error)) (link.Link, error) {
	pin := filepath.Join(e.pins, name)
	if e.pins != "" {
		if pinned, err := link.LoadPinnedLink(pin, nil); err == nil {
			if err := pinned.Update(program); err == nil {
				return pinned, nil
			}
			// Its interface is gone, and the number belongs to another one by now.
			_ = errors.Join(pinned.Unpin(), pinned.Close())
		}
	}
	attached, err := attach()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	if e.pins != "" {
		if err := attached.Pin(pin); err != nil {
			return nil, errors.Join(fmt.Errorf("pin %s: %w", name, err), attached.Close())
		}
	}
	return attached, nil
}

// dropUplinks removes the pins and the qdiscs of uplinks, but some.
func (e *Egress) dropUplinks(but ...iface) error {
	if e.pins == "" {
		return nil
	}
	entries, err := os.ReadDir(e.pins)
	if err != nil {
		return fmt.Errorf("pins: %w", err)
	}
	for _, entry := range entries {
		number, isUplink := strings.CutPrefix(entry.Name(), "uplink-")
		index, err := strconv.Atoi(number)
		if !isUplink || err != nil || slices.ContainsFunc(but, func(one iface) bool { return one.index == index }) {
			continue
		}
		if err := errors.Join(os.Remove(filepath.Join(e.pins, entry.Name())), e.netlink.unpace(index)); err != nil {
			return fmt.Errorf("the uplink of before: %w", err)
		}
	}
	return nil
}

// Traffic implements Kernel. An uplink whose counters cannot be read has none that are known.
func (e *Egress) Traffic() map[string]Traffic {
	out := make(map[string]Traffic, len(e.uplinks))
	var equal []string // share what the options say
	for _, one := range e.uplinks {
		if one.index == 0 {
			continue
		}
		t := traffic(e.options.Sys, one.name)
		at := slices.IndexFunc(e.options.Uplinks, func(u Uplink) bool { return u.Name == one.name })
		switch {
		case at >= 0 && e.options.Uplinks[at].Link > 0:
			t.Link = advise.Known(e.options.Uplinks[at].Link)
		case e.options.Link > 0:
			equal = append(equal, one.name)
		}
		out[one.name] = t
	}
	for _, name := range equal {
		t := out[name]
		t.Link = advise.Known(e.options.Link / float64(len(equal)))
		out[name] = t
	}
	return out
}

// SetRates implements Kernel; a rate of 0 is no ceiling.
func (e *Egress) SetRates(uplink string, rates Rates) error {
	slot := slices.IndexFunc(e.uplinks, func(one iface) bool { return one.index != 0 && one.name == uplink })
	if slot < 0 {
		return fmt.Errorf("%s is no uplink", uplink)
	}
	s := &e.set[slot]
	s.Rate, s.Horizon = rates.Outgoing, uint64(horizon(rates.Outgoing))
	s.Incoming, s.Burst = rates.Incoming, uint64(burst(rates.Incoming))
	return e.writeSettings(slot)
}

func (e *Egress) writeSettings(slot int) error {
	if err := e.maps["settings"].Put(uint32(slot), e.set[slot]); err != nil {
		return fmt.Errorf("settings: %w", err)
	}
	return nil
}

// Counts implements Kernel.
func (e *Egress) Counts() (map[string]Counts, error) {
	out := make(map[string]Counts, len(e.uplinks))
	for slot, one := range e.uplinks {
		if one.index == 0 {
			continue
		}
		var sums [classes]Class
		for class := range sums {
			var each []tally // by CPU
			if err := e.maps["tally"].Lookup(uint32(slot*classes+class), &each); err != nil {
				return nil, fmt.Errorf("counters: %w", err)
			}
			for _, t := range each {
				sums[class].Packets += t.Packets
				sums[class].Bytes += t.Bytes
				sums[class].Delayed += t.Delayed
				sums[class].Dropped += t.Dropped
				sums[class].Refused += t.Refused
			}
		}
		out[one.name] = Counts{Online: sums[classOnline], Reclaimed: sums[classReclaimed], Incoming: sums[classIncoming]}
	}
	return out, nil
}

// Close lets go. What is pinned stays as it is; without pins all ends.
func (e *Egress) Close() error {
	var errs []error
	for _, l := range e.links {
		errs = append(errs, l.Close())
	}
	for _, m := range e.maps {
		errs = append(errs, m.Close())
	}
	for _, program := range []*ebpf.Program{e.mark, e.police, e.hosts} {
		if program != nil {
			errs = append(errs, program.Close())
		}
	}
	for _, one := range e.uplinks {
		if e.pins == "" && one.index != 0 {
			errs = append(errs, e.netlink.unpace(one.index))
		}
	}
	return errors.Join(append(errs, e.netlink.close())...)
}

// Detach takes everything back, and closes: programs, counters, pins, and the qdisc where it was ours.
func (e *Egress) Detach() error {
	var errs []error
	for _, l := range e.links {
		errs = append(errs, gone(l.Detach()))
	}
	errs = append(errs, e.dropUplinks())
	if e.pins != "" {
		errs = append(errs, os.RemoveAll(e.pins))
	}
	for _, one := range e.uplinks {
		if one.index != 0 {
			errs = append(errs, e.netlink.unpace(one.index))
		}
	}
	return errors.Join(append(errs, e.Close())...)
}

// gone takes it for good that what was to be detached is not there any more.
func gone(err error) error {
	if errors.Is(err, unix.ENOLINK) || errors.Is(err, unix.ENODEV) || errors.Is(err, unix.ENOENT) {
		return nil
	}
	return err
}
