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

// Egress is the ceiling in the kernel. It belongs to one caller at a time.
type Egress struct {
	options Options
	uplinks []iface
	netlink *netlink
	pins    string // "": nothing is pinned
	maps    map[string]*ebpf.Map
	mark    *ebpf.Program
	links   map[string]link.Link // by name of the pin
	veths   map[int]link.Link    // by interface
	pods    map[string]pod       // by cgroup
	sent    map[string]advise.Sample
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
	if e.uplinks, err = e.findUplinks(); err != nil {
		return nil, err
	}
	for _, one := range e.uplinks {
		if err = e.netlink.pace(one.index, queues(e.options.Sys, one.name)); err != nil {
			return nil, fmt.Errorf("uplink %s: %w", one.name, err)
		}
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

// findUplinks finds the interfaces that are named, or those of the default routes.
func (e *Egress) findUplinks() (out []iface, err error) {
	names := e.options.Uplinks
	if len(names) == 0 {
		if names, err = e.defaultUplinks(); err != nil {
			return nil, err
		}
	}
	all, err := e.netlink.interfaces()
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		i := slices.IndexFunc(all, func(one iface) bool { return one.name == name })
		if i < 0 {
			return nil, &Unsupported{ReasonNoUplink, "there is no interface " + name}
		}
		out = append(out, all[i])
	}
	return out, nil
}

// followUplinks takes over new names of the uplinks, whose speed and counters are read by name; the programs stay where they are.
func (e *Egress) followUplinks(all []iface) error {
	for i, one := range e.uplinks {
		at := slices.IndexFunc(all, func(other iface) bool { return other.index == one.index })
		if at < 0 {
			return fmt.Errorf("%s: %w", one.name, ErrUplinkGone)
		}
		e.uplinks[i].name = all[at].name
	}
	return nil
}

// defaultUplinks are the interfaces of the default routes of IPv4 and IPv6.
func (e *Egress) defaultUplinks() (names []string, err error) {
	for file, find := range map[string]func(string) string{"self/net/route": defaultRoute, "self/net/ipv6_route": defaultRoute6} {
		routes, err := os.ReadFile(filepath.Join(e.options.Proc, file))
		if errors.Is(err, fs.ErrNotExist) {
			continue // the kernel is without this one
		}
		if err != nil {
			return nil, fmt.Errorf("routes: %w", err)
		}
		if name := find(string(routes)); name != "" {
			names = append(names, name)
		}
	}
	if len(names) == 0 {
		return nil, &Unsupported{ReasonNoUplink, "there is no default route for IPv4 or IPv6; name the interfaces"}
	}
	slices.Sort(names)
	return slices.Compact(names), nil
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

// defaultRoute6 is that of /proc/net/ipv6_route. The kernel lists a route by way of lo that rejects what no other takes.
func defaultRoute6(routes string) string {
	const destination, length, metric, flags, name, columns = 0, 1, 5, 8, 9, 10
	const gateway, reject = 0x2, 0x200
	best, least := "", uint64(0)
	for line := range strings.Lines(routes) {
		fields := strings.Fields(line)
		if len(fields) < columns || strings.Trim(fields[destination], "0") != "" || fields[length] != "00" {
			continue
		}
		is, errFlags := strconv.ParseUint(fields[flags], 16, 32)
		n, err := strconv.ParseUint(fields[metric], 16, 32)
		if errFlags == nil && err == nil && is&gateway != 0 && is&reject == 0 && fields[name] != "lo" && (best == "" || n < least) {
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

// load makes or takes over the maps, loads the programs, and attaches the one of the uplinks, which all go by one clock. Maps of another shape are another version's,
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
	for _, one := range e.uplinks {
		name := "uplink-" + strconv.Itoa(one.index)
		if e.links[name], err = e.attach(name, one.index, pace, ebpf.AttachTCXEgress); err != nil {
			delete(e.links, name)
			return cannot(err)
		}
	}
	return e.dropUplinks(e.uplinks...)
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

// Uplinks are the interfaces that the ceiling is at.
func (e *Egress) Uplinks() (names []string) {
	for _, one := range e.uplinks {
		names = append(names, one.name)
	}
	return names
}

// Traffic implements Kernel. An uplink whose counters cannot be read has none that are known.
func (e *Egress) Traffic() map[string]Traffic {
	out := make(map[string]Traffic, len(e.uplinks))
	for _, one := range e.uplinks {
		out[one.name] = traffic(e.options.Sys, one.name)
	}
	return out
}

// Link implements Kernel.
func (e *Egress) Link() advise.Sample {
	if e.options.Link > 0 {
		return advise.Known(e.options.Link)
	}
	sum := 0.0
	for _, one := range e.uplinks {
		carried, known := speed(e.options.Sys, one.name)
		if !known {
			return advise.Sample{}
		}
		sum += carried
	}
	return advise.Sample{Value: sum, Known: len(e.uplinks) > 0}
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
	for _, one := range e.uplinks {
		if e.pins == "" {
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
	for _, l := range e.veths {
		errs = append(errs, gone(l.Detach()))
	}
	errs = append(errs, e.dropUplinks())
	if e.pins != "" {
		errs = append(errs, os.RemoveAll(e.pins))
	}
	for _, one := range e.uplinks {
		errs = append(errs, e.netlink.unpace(one.index))
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
