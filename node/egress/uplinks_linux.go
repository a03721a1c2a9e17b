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
)

// findUplinks finds the interfaces that are named, or those of the default routes. Those that are named and are not there are missing; at least one is there.
func (e *Egress) findUplinks() (out []iface, err error) {
	names, err := e.wantedUplinks()
	if err != nil {
		return nil, err
	}
	all, err := e.netlink.interfaces()
	if err != nil {
		return nil, err
	}
	e.missing = nil
	for _, name := range names {
		if i := slices.IndexFunc(all, func(one iface) bool { return one.name == name }); i >= 0 {
			out = append(out, all[i])
		} else {
			e.missing = append(e.missing, name)
		}
	}
	if len(out) == 0 {
		return nil, &Unsupported{ReasonNoUplink, "there is no interface " + strings.Join(e.missing, ", ")}
	}
	return out, nil
}

// wantedUplinks are the names of the uplinks, MaxUplinks at most.
func (e *Egress) wantedUplinks() (names []string, err error) {
	for _, one := range e.options.Uplinks {
		names = append(names, one.Name)
	}
	if len(names) == 0 {
		names, err = e.defaultUplinks()
	}
	return names[:min(len(names), MaxUplinks)], err
}

// takenUplink is one whose qdisc others chose. It has no ceiling, and why says which qdisc it is.
type takenUplink struct {
	iface
	why *Unsupported
}

// withoutTaken leaves out the uplinks whose qdiscs others chose: the others have their ceilings all the same. Where none is left, that is the error.
func withoutTaken(found []iface, look func(index int) (verdict, error)) (ours []iface, taken []takenUplink, err error) {
	for _, one := range found {
		_, err := look(one.index)
		why, unsupported := errors.AsType[*Unsupported](err)
		switch {
		case unsupported && why.Reason == ReasonQdiscTaken:
			taken = append(taken, takenUplink{one, why})
		case err != nil:
			return nil, nil, fmt.Errorf("uplink %s: %w", one.name, err)
		default:
			ours = append(ours, one)
		}
	}
	if len(ours) == 0 && len(taken) > 0 {
		return nil, taken, fmt.Errorf("uplink %s: %w", taken[0].name, taken[0].why)
	}
	return ours, taken, nil
}

// Taken are the uplinks without a ceiling, by name, because others chose their qdiscs; each with the reason in words.
func (e *Egress) Taken() map[string]string {
	out := make(map[string]string, len(e.taken))
	for _, one := range e.taken {
		out[one.name] = one.why.Message
	}
	return out
}

// CheckQdiscs returns ErrUplinksChanged where an uplink's qdisc no longer keeps packets until their time, and where one that was taken is free. It looks only; what it says is done
// by Close and Open, which leave the other uplinks' programs, counters and qdiscs as they are.
func (e *Egress) CheckQdiscs() error { return e.checkQdiscs(e.netlink.look) }

func (e *Egress) checkQdiscs(look func(index int) (verdict, error)) error {
	for _, one := range e.uplinks {
		if one.index == 0 {
			continue
		}
		what, err := look(one.index)
		if _, unsupported := errors.AsType[*Unsupported](err); err != nil && !unsupported {
			return fmt.Errorf("uplink %s: %w", one.name, err)
		}
		if what != keep {
			return fmt.Errorf("the qdisc of %s is another one: %w", one.name, ErrUplinksChanged)
		}
	}
	for _, one := range e.taken {
		if what, err := look(one.index); err == nil && what != taken {
			return fmt.Errorf("%s is free: %w", one.name, ErrUplinksChanged)
		}
	}
	return nil
}

// Missing are the uplinks that are named and are not there.
func (e *Egress) Missing() []string { return e.missing }

// seatUplinks gives each uplink a slot: the one that it had before, so that its counters go on, or a free one, whose counters begin anew.
func (e *Egress) seatUplinks(found []iface) error {
	e.uplinks = make([]iface, MaxUplinks)
	for slot := range e.uplinks {
		if err := e.maps["settings"].Lookup(uint32(slot), &e.set[slot]); err != nil {
			return fmt.Errorf("settings: %w", err)
		}
		if i := slices.IndexFunc(found, func(one iface) bool { return uint64(one.index) == e.set[slot].Index }); i >= 0 {
			e.uplinks[slot], found = found[i], slices.Delete(slices.Clone(found), i, i+1)
		}
	}
	for _, one := range found {
		slot := slices.IndexFunc(e.uplinks, func(has iface) bool { return has.index == 0 })
		e.uplinks[slot] = one
		if err := e.beginUplink(slot); err != nil {
			return err
		}
	}
	indices, slots := e.maps["uplinks"], make(map[uint32]uint32)
	for slot, one := range e.uplinks {
		if one.index != 0 {
			slots[uint32(one.index)] = uint32(slot)
		} else if e.set[slot] != (settings{}) {
			e.set[slot] = settings{}
			if err := e.writeSettings(slot); err != nil {
				return err
			}
		}
	}
	return assign(indices, slots)
}

// beginUplink makes a slot that of another uplink: what was counted there is of one that is no longer.
func (e *Egress) beginUplink(slot int) error {
	e.set[slot] = settings{Index: uint64(e.uplinks[slot].index), Level: e.level()}
	errs := []error{e.writeSettings(slot)}
	cpus, err := ebpf.PossibleCPU()
	if err != nil {
		return fmt.Errorf("counters: %w", err)
	}
	for class := range classes {
		errs = append(errs, e.maps["tally"].Put(uint32(slot*classes+class), make([]tally, cpus)))
	}
	for _, clock := range []string{"clock", "incoming"} {
		errs = append(errs, e.maps[clock].Put(uint32(slot), uint64(0)))
	}
	for pod := range maxSlots {
		errs = append(errs, e.maps["pods"].Put(uint32(slot*maxSlots+pod), podTally{}))
	}
	return errors.Join(errs...)
}

// level is that of the pods' cgroups, as it was set last.
func (e *Egress) level() uint64 {
	for slot := range e.set {
		if e.set[slot].Level != 0 {
			return e.set[slot].Level
		}
	}
	return 0
}

// followUplinks takes over new names of the uplinks, whose speed and counters are read by name; the programs stay where they are. An uplink that has gone, and one that was
// missing and has come, are an error: all is opened anew then.
func (e *Egress) followUplinks(all []iface) error {
	for _, one := range e.followed() {
		at := slices.IndexFunc(all, func(other iface) bool { return other.index == one.index })
		if at < 0 {
			return fmt.Errorf("%s has gone: %w", one.name, ErrUplinksChanged)
		}
		one.name = all[at].name
	}
	for _, name := range e.missing {
		if slices.ContainsFunc(all, func(one iface) bool { return one.name == name }) {
			return fmt.Errorf("%s has come: %w", name, ErrUplinksChanged)
		}
	}
	if len(e.options.Uplinks) > 0 {
		return nil
	}
	names, err := e.defaultUplinks()
	if err != nil {
		return nil //nolint:nilerr // for a moment there may be no default route; the uplinks are the same
	}
	for _, name := range names {
		if !slices.Contains(e.Uplinks(), name) && !slices.ContainsFunc(e.taken, func(one takenUplink) bool { return one.name == name }) {
			return fmt.Errorf("a default route leads by %s: %w", name, ErrUplinksChanged)
		}
	}
	return nil
}

// followed are the uplinks that are there, those too whose qdiscs others chose: one of these that was made anew under its name may be free.
func (e *Egress) followed() (list []*iface) {
	for slot := range e.uplinks {
		if e.uplinks[slot].index != 0 {
			list = append(list, &e.uplinks[slot])
		}
	}
	for i := range e.taken {
		list = append(list, &e.taken[i].iface)
	}
	return list
}

// Uplinks are the interfaces that have ceilings.
func (e *Egress) Uplinks() (names []string) {
	for _, one := range e.uplinks {
		if one.index != 0 {
			names = append(names, one.name)
		}
	}
	return names
}

// unassign takes away what a map of the kernel has beside these entries, or otherwise.
func unassign[K uint32 | uint64](table *ebpf.Map, want map[K]uint32) error {
	var errs []error
	for key, value := range entries[K](table) {
		if wanted, is := want[key]; !is || wanted != value {
			errs = append(errs, table.Delete(key))
		}
	}
	return errors.Join(errs...)
}

// assign makes a map of the kernel hold these entries alone.
func assign[K uint32 | uint64](table *ebpf.Map, want map[K]uint32) error {
	errs := []error{unassign(table, want)}
	has := entries[K](table)
	for key, value := range want {
		if _, is := has[key]; !is {
			errs = append(errs, table.Put(key, value))
		}
	}
	return errors.Join(errs...)
}

// entries are those of a map of the kernel.
func entries[K uint32 | uint64](table *ebpf.Map) map[K]uint32 {
	var (
		key   K
		value uint32
		out   = make(map[K]uint32)
	)
	for each := table.Iterate(); each.Next(&key, &value); {
		out[key] = value
	}
	return out
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
