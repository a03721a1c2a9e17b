package egress

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
	"golang.org/x/sys/unix"

	"hilbert.dev/hilbert/node/advise"
	"hilbert.dev/hilbert/node/observe"
)

// depthMost is how deep below a pod's cgroup its processes are looked for: containers, and what systemd makes in them.
const depthMost = 3

// processesMost bounds the processes of one cgroup that are asked for their network.
const processesMost = 16

// SetPods implements Kernel. Pods that are marked already cost one look at their cgroup. What cannot be marked (yet: it has no process)
// is in the error, and tried again by the next call; it counts as online until then.
func (e *Egress) SetPods(pods []Pod) error {
	all, err := e.netlink.interfaces()
	if err != nil {
		return err
	}
	there := make(map[int]bool, len(all))
	for _, one := range all {
		there[one.index] = true
	}
	if err := e.followUplinks(all); err != nil {
		return err
	}
	var errs []error
	wanted := make(map[string]bool, len(pods))
	for i := range pods {
		cgroup := pods[i].Cgroup
		wanted[cgroup] = true
		if err := e.want(pods[i], all, there); err != nil {
			errs = append(errs, fmt.Errorf("egress of %s: %w", cgroup, err))
			e.forget(cgroup)
		}
	}
	for cgroup := range e.pods {
		if !wanted[cgroup] {
			e.forget(cgroup)
		}
	}
	return errors.Join(append(errs, e.apply())...)
}

// forget lets a pod's slot go.
func (e *Egress) forget(cgroup string) {
	delete(e.pods, cgroup)
	e.slots.free(cgroup)
}

// want finds out how a pod is to be marked, unless that is known and still so.
func (e *Egress) want(p Pod, all []iface, there map[int]bool) error {
	cgroup := p.Cgroup
	dir := filepath.Join(e.options.Cgroups, cgroup)
	inode, err := observe.Root(e.options.Cgroups).Identity(cgroup)
	if err != nil {
		return err
	}
	isThere := func(index int) bool { return there[index] }
	if known, ok := e.pods[cgroup]; ok && known.inode == inode && (known.host || !slices.ContainsFunc(known.veths, func(i int) bool { return !isThere(i) })) {
		known.Pod = p
		e.pods[cgroup] = known
		return nil
	}
	processes, err := processesIn(dir, depthMost)
	if err != nil {
		return err
	}
	err = fmt.Errorf("%s has no process: %w", filepath.Base(dir), fs.ErrNotExist)
	for _, process := range processes {
		found := pod{Pod: p, inode: inode, slot: noSlot}
		if found.host, found.veths, err = e.networkOf(process, all); err == nil {
			e.pods[cgroup] = found
			return nil
		}
	}
	return err
}

// networkOf finds the network of a process: the host's, or the host's ends of the veths that lead to it. A process may have made itself a network to which nothing leads, so that
// another one of its pod must be asked.
func (e *Egress) networkOf(process string, all []iface) (host bool, veths []int, err error) {
	namespace, err := os.Open(filepath.Join(e.options.Proc, process, "ns/net"))
	if err != nil {
		return false, nil, err
	}
	defer func() { _ = namespace.Close() }()
	if host, err = e.isHost(namespace); host || err != nil {
		return host, nil, err
	}
	number, err := e.netlink.namespace(namespace)
	if err != nil {
		return false, nil, err
	}
	for _, one := range all {
		if number >= 0 && one.peer == number {
			veths = append(veths, one.index)
		}
	}
	if len(veths) == 0 {
		return false, nil, errors.New("no interface of the host leads to its network: its traffic cannot be told from others'")
	}
	return false, veths, nil
}

// Sent implements Kernel.
func (e *Egress) Sent() map[string]map[string]advise.Sample {
	out := make(map[string]map[string]advise.Sample, len(e.pods))
	for cgroup, p := range e.pods {
		if p.slot == noSlot || p.slot == restSlot {
			continue
		}
		out[cgroup] = make(map[string]advise.Sample)
		for uplink, one := range e.uplinks {
			if one.index == 0 {
				continue
			}
			var sent podTally
			err := e.maps["pods"].Lookup(uint32(uplink*maxSlots+p.slot), &sent)
			out[cgroup][one.name] = advise.Sample{Value: float64(sent.Bytes), Known: err == nil}
		}
	}
	return out
}

// Crowded is how many pods have no slot of their own, so that it is not known what they send.
func (e *Egress) Crowded() int { return e.crowded }

// isHost reports whether a network namespace is our own.
func (e *Egress) isHost(namespace *os.File) (bool, error) {
	theirs, err := namespace.Stat()
	if err != nil {
		return false, err
	}
	ours, err := os.Stat(filepath.Join(e.options.Proc, "self/ns/net"))
	return err == nil && os.SameFile(ours, theirs), err
}

// apply brings the marks to what the pods need: first what the programs look up, then the programs.
func (e *Egress) apply() error {
	n, err := e.needs()
	// A slot may have come to another pod: nobody is looked up by what the slot's pod of before was.
	errs := []error{err, unassign(e.maps["veths"], n.veths), unassign(e.maps["cgroups"], n.hosts), e.applySlots(), assign(e.maps["veths"], n.veths), assign(e.maps["cgroups"], n.hosts)}
	for slot := range e.uplinks {
		if e.uplinks[slot].index != 0 && n.level != e.set[slot].Level {
			e.set[slot].Level = n.level
			errs = append(errs, e.writeSettings(slot))
		}
	}
	for name, attach := range n.links {
		if e.links[name] != nil {
			continue
		}
		attached, err := attach()
		if err != nil {
			errs = append(errs, err)
			continue
		}
		e.links[name] = attached
	}
	for name, attached := range e.links {
		if n.links[name] == nil && !strings.HasPrefix(name, "uplink-") {
			errs = append(errs, gone(attached.Detach()), attached.Close())
			delete(e.links, name)
		}
	}
	return errors.Join(append(errs, e.unpinPods())...)
}

// needs are what the pods need.
type needs struct {
	veths map[uint32]uint32 // slots by interface
	hosts map[uint64]uint32 // slots by cgroup
	level uint64            // of these cgroups
	links map[string]func() (link.Link, error)
}

// needs seats the pods, and says which veths and cgroups are to be marked. The program looks at one level of the hierarchy; a pod elsewhere has no slot.
func (e *Egress) needs() (n needs, err error) {
	n = needs{veths: map[uint32]uint32{}, hosts: map[uint64]uint32{}, level: e.hostLevel(), links: map[string]func() (link.Link, error){}}
	e.crowded = 0
	for _, cgroup := range slices.Sorted(maps.Keys(e.pods)) {
		one := e.pods[cgroup]
		var failed error
		if one.host && depthOf(cgroup) != n.level {
			e.slots.free(cgroup)
			one.slot, failed = noSlot, fmt.Errorf("egress of %s: it is in the host's network, and not at the level of the others there, %d", cgroup, n.level)
		} else {
			failed = e.seat(&one)
		}
		e.pods[cgroup] = one
		if err = errors.Join(err, failed); one.slot == noSlot {
			continue
		}
		if one.slot == restSlot {
			if e.crowded++; !one.Reclaimed {
				continue // without a mark it is as any other
			}
		}
		for _, index := range one.veths {
			n.veths[uint32(index)] = uint32(one.slot)
			n.links["veth-"+strconv.Itoa(index)] = func() (link.Link, error) {
				return e.attach("veth-"+strconv.Itoa(index), index, e.mark, ebpf.AttachTCXIngress)
			}
			if e.police != nil && one.Reclaimed {
				name := "police-" + strconv.Itoa(index)
				n.links[name] = func() (link.Link, error) { return e.attach(name, index, e.police, ebpf.AttachTCXEgress) }
			}
		}
		if !one.host {
			continue
		}
		n.hosts[one.inode] = uint32(one.slot)
		if e.hosts != nil && one.Reclaimed {
			name := "host-" + strconv.FormatUint(one.inode, 10)
			n.links[name] = func() (link.Link, error) { return e.attachHost(name, cgroup) }
		}
	}
	return n, err
}

// depthOf is how deep a cgroup is below the root.
func depthOf(cgroup string) uint64 { return uint64(strings.Count(cgroup, "/") + 1) }

// hostLevel is the level of the pods in the host's network: that of reclaimed ones, if there are any, so that no online pod costs them their ceiling. 0: there are none.
func (e *Egress) hostLevel() (level uint64) {
	for _, cgroup := range slices.Sorted(maps.Keys(e.pods)) {
		switch one := e.pods[cgroup]; {
		case one.host && one.Reclaimed:
			return depthOf(cgroup)
		case one.host && level == 0:
			level = depthOf(cgroup)
		}
	}
	return level
}

// seat gives a pod a slot: its own, or preferably the one that it had under an agent before this one, so that its counters go on. With an error it may have none.
func (e *Egress) seat(p *pod) error {
	if p.slot = e.slots.of(p.Cgroup); p.slot != noSlot {
		return nil
	}
	before := uint32(maxSlots)
	var err error
	switch {
	case p.host:
		err = e.maps["cgroups"].Lookup(p.inode, &before)
	case len(p.veths) > 0:
		err = e.maps["veths"].Lookup(uint32(p.veths[0]), &before)
	}
	if err != nil && !errors.Is(err, ebpf.ErrKeyNotExist) {
		return fmt.Errorf("slots: %w", err)
	}
	fresh := false
	if p.slot, fresh = e.slots.take(p.Cgroup, int(before)); !fresh || uint32(p.slot) == before {
		return nil
	}
	var errs []error
	for uplink := range e.uplinks {
		errs = append(errs, e.maps["pods"].Put(uint32(uplink*maxSlots+p.slot), podTally{}))
	}
	return errors.Join(errs...)
}

// applySlots says of each slot what its pod is.
func (e *Egress) applySlots() error {
	want := [maxSlots]uint32{restSlot: flagReclaimed}
	for _, p := range e.pods {
		if p.slot == noSlot || p.slot == restSlot {
			continue
		}
		want[p.slot] = 0
		if p.Reclaimed {
			want[p.slot] |= flagReclaimed
		}
		if p.Background {
			want[p.slot] |= flagBackground
		}
	}
	var errs []error
	for slot, flags := range want {
		if e.told && e.flags[slot] == flags {
			continue
		}
		errs = append(errs, e.maps["slots"].Put(uint32(slot), flags))
	}
	err := errors.Join(errs...)
	e.flags, e.told = want, err == nil
	return err
}

// unpinPods removes the pins of veths and cgroups that no pod has: of pods that went while the agent was away, and of what is gone.
func (e *Egress) unpinPods() error {
	if e.pins == "" {
		return nil
	}
	entries, err := os.ReadDir(e.pins)
	if err != nil {
		return fmt.Errorf("pins: %w", err)
	}
	var errs []error
	for _, entry := range entries {
		kind, _, _ := strings.Cut(entry.Name(), "-")
		if (kind == "veth" || kind == "police" || kind == "host") && e.links[entry.Name()] == nil {
			errs = append(errs, os.Remove(filepath.Join(e.pins, entry.Name())))
		}
	}
	return errors.Join(errs...)
}

// processesIn lists processes of a cgroup and of those below it, processesMost of each at most: the first of a container is its own choice, and what the runtime keeps beside the
// containers is in a cgroup of its own.
func processesIn(dir string, depth int) (out []string, err error) {
	list, err := os.ReadFile(filepath.Join(dir, "cgroup.procs"))
	if err != nil && !errors.Is(err, unix.EOPNOTSUPP) { // so in a threaded cgroup
		return nil, err
	}
	for process := range strings.FieldsSeq(string(list)) {
		if process != "0" && len(out) < processesMost { // 0: not in our PID namespace
			out = append(out, process)
		}
	}
	if depth == 0 {
		return out, nil
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	for _, entry := range entries {
		if !entry.IsDir() {
			continue
		}
		if below, err := processesIn(filepath.Join(dir, entry.Name()), depth-1); err == nil { // else it has just gone
			out = append(out, below...)
		}
	}
	return out, nil
}
