package egress

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
	"golang.org/x/sys/unix"

	"hilbert.dev/hilbert/node/advise"
)

// Egress is the ceiling in the kernel. It belongs to one caller at a time.
type Egress struct {
	options Options
	uplink  iface
	netlink *netlink
	pins    string // "": nothing is pinned
	maps    map[string]*ebpf.Map
	mark    *ebpf.Program
	links   map[string]link.Link // by name of the pin
	veths   map[int]link.Link    // by interface
	pods    map[string]pod       // by cgroup
	set     settings
}

// pod is a reclaimed pod that is marked.
type pod struct {
	inode uint64 // of its cgroup
	veths []int
	host  bool // it is in the host's network, and known by its cgroup
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
	if e.uplink, err = e.findUplink(); err != nil {
		return nil, err
	}
	if err = e.netlink.pace(e.uplink.index, queues(e.options.Sys, e.uplink.name)); err != nil {
		return nil, err
	}
	if err = e.load(); err != nil {
		return nil, err
	}
	return e, nil
}

func newEgress(o Options) (_ *Egress, err error) {
	e := &Egress{
		options: o.withDefaults(), maps: map[string]*ebpf.Map{}, links: map[string]link.Link{}, veths: map[int]link.Link{}, pods: map[string]pod{},
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

// findUplink finds the interface that is named, or that of the default route.
func (e *Egress) findUplink() (iface, error) {
	name := e.options.Uplink
	if name == "" {
		routes, err := os.ReadFile(filepath.Join(e.options.Proc, "self/net/route"))
		if err != nil {
			return iface{}, fmt.Errorf("routes: %w", err)
		}
		if name = defaultRoute(string(routes)); name == "" {
			return iface{}, &Unsupported{ReasonNoUplink, "there is no default route for IPv4; name the interface"}
		}
	}
	all, err := e.netlink.interfaces()
	if err != nil {
		return iface{}, err
	}
	for _, one := range all {
		if one.name == name {
			return one, nil
		}
	}
	return iface{}, &Unsupported{ReasonNoUplink, "there is no interface " + name}
}

// defaultRoute is the interface of the default route with the least metric in /proc/net/route; empty: there is none.
func defaultRoute(routes string) string {
	const name, destination, metric, mask, columns = 0, 1, 6, 7, 8
	best, least := "", 0
	for line := range strings.Lines(routes) {
		fields := strings.Fields(line)
		if len(fields) < columns || fields[destination] != "00000000" || fields[mask] != "00000000" {
			continue
		}
		if n, err := strconv.Atoi(fields[metric]); err == nil && (best == "" || n < least) {
			best, least = fields[name], n
		}
	}
	return best
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

// load makes or takes over the maps, loads the programs, and attaches the one of the uplink. Maps of another shape are another version's,
// which then goes whole.
func (e *Egress) load() error {
	err := e.loadMaps()
	if errors.Is(err, ebpf.ErrMapIncompatible) && e.pins != "" {
		if err = e.unpin(); err == nil {
			err = e.loadMaps()
		}
	}
	if err != nil {
		return cannot(err)
	}
	if e.mark, err = ebpf.NewProgram(markSpec()); err != nil {
		return cannot(err)
	}
	pace, err := ebpf.NewProgram(paceSpec(e.maps))
	if err != nil {
		return cannot(err)
	}
	defer func() { _ = pace.Close() }()
	if err := e.maps["settings"].Lookup(uint32(0), &e.set); err != nil {
		return fmt.Errorf("settings: %w", err)
	}
	attached, err := e.attach("uplink-"+strconv.Itoa(e.uplink.index), e.uplink.index, pace, ebpf.AttachTCXEgress)
	if err != nil {
		return cannot(err)
	}
	e.links["uplink"] = attached
	return e.dropUplinks(e.uplink.index)
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
	attached, err := link.AttachTCX(link.TCXOptions{Interface: index, Program: program, Attach: where, Anchor: link.Head()})
	if err != nil {
		return nil, fmt.Errorf("interface %d: %w", index, err)
	}
	if e.pins != "" {
		if err := attached.Pin(pin); err != nil {
			return nil, errors.Join(fmt.Errorf("pin %s: %w", name, err), attached.Close())
		}
	}
	return attached, nil
}

// dropUplinks removes the pins and the qdiscs of uplinks, but one.
func (e *Egress) dropUplinks(but int) error {
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
		if !isUplink || err != nil || index == but {
			continue
		}
		if err := errors.Join(os.Remove(filepath.Join(e.pins, entry.Name())), e.netlink.unpace(index)); err != nil {
			return fmt.Errorf("the uplink of before: %w", err)
		}
	}
	return nil
}

// Uplink is the interface that the ceiling is at.
func (e *Egress) Uplink() string { return e.uplink.name }

// Link implements Kernel.
func (e *Egress) Link() advise.Sample {
	if e.options.Link > 0 {
		return advise.Known(e.options.Link)
	}
	if carried, known := speed(e.options.Sys, e.uplink.name); known {
		return advise.Known(carried)
	}
	return advise.Sample{}
}

// SetCeiling implements Kernel; 0 is no ceiling.
func (e *Egress) SetCeiling(bytesPerSecond uint64) error {
	e.set.Rate, e.set.Horizon = bytesPerSecond, uint64(horizon(bytesPerSecond))
	return e.writeSettings()
}

func (e *Egress) writeSettings() error {
	if err := e.maps["settings"].Put(uint32(0), e.set); err != nil {
		return fmt.Errorf("settings: %w", err)
	}
	return nil
}

// Counts implements Kernel.
func (e *Egress) Counts() (Counts, error) {
	var sums [classes]Class
	for class := range sums {
		var each []tally // by CPU
		if err := e.maps["tally"].Lookup(uint32(class), &each); err != nil {
			return Counts{}, fmt.Errorf("counters: %w", err)
		}
		for _, t := range each {
			sums[class].Packets += t.Packets
			sums[class].Bytes += t.Bytes
			sums[class].Delayed += t.Delayed
			sums[class].Dropped += t.Dropped
		}
	}
	return Counts{Online: sums[classOnline], Reclaimed: sums[classReclaimed]}, nil
}

// Close lets go. What is pinned stays as it is; without pins all ends.
func (e *Egress) Close() error {
	var errs []error
	for _, l := range e.links {
		errs = append(errs, l.Close())
	}
	for _, l := range e.veths {
		errs = append(errs, l.Close())
	}
	for _, m := range e.maps {
		errs = append(errs, m.Close())
	}
	if e.mark != nil {
		errs = append(errs, e.mark.Close())
	}
	if e.pins == "" && e.uplink.index > 0 {
		errs = append(errs, e.netlink.unpace(e.uplink.index))
	}
	return errors.Join(append(errs, e.netlink.close())...)
}

// Detach takes everything back, and closes: programs, counters, pins, and the qdisc where it was ours.
func (e *Egress) Detach() error {
	var errs []error
	for _, l := range e.links {
		errs = append(errs, gone(l.Detach()))
	}
	for _, l := range e.veths {
		errs = append(errs, gone(l.Detach()))
	}
	errs = append(errs, e.dropUplinks(0))
	if e.pins != "" {
		errs = append(errs, os.RemoveAll(e.pins))
	}
	if e.uplink.index > 0 {
		errs = append(errs, e.netlink.unpace(e.uplink.index))
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
