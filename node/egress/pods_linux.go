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
	"syscall"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	"hilbert.dev/hilbert/node/advise"
)

// depthMost is how deep below a pod's cgroup its processes are looked for: containers, and what systemd makes in them.
const depthMost = 3

// SetReclaimed implements Kernel. Pods that are marked already cost one look at their cgroup. What cannot be marked (yet: it has no process)
// is in the error, and tried again by the next call; it counts as online until then.
func (e *Egress) SetReclaimed(cgroups []string) error {
	e.sent = nil // what was read before says nothing of now
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
	wanted := make(map[string]bool, len(cgroups))
	for _, cgroup := range cgroups {
		wanted[cgroup] = true
		if err := e.want(cgroup, all, there); err != nil {
			errs = append(errs, fmt.Errorf("egress of %s: %w", cgroup, err))
			delete(e.pods, cgroup)
		}
	}
	maps.DeleteFunc(e.pods, func(cgroup string, _ pod) bool { return !wanted[cgroup] })
	e.sent = sentBy(e.pods, all)
	return errors.Join(append(errs, e.apply())...)
}

// want finds out how a pod is to be marked, unless that is known and still so.
func (e *Egress) want(cgroup string, all []iface, there map[int]bool) error {
	dir := filepath.Join(e.options.Cgroups, cgroup)
	inode, err := inodeOf(dir)
	if err != nil {
		return err
	}
	isThere := func(index int) bool { return there[index] }
	if known, ok := e.pods[cgroup]; ok && known.inode == inode && (known.host || !slices.ContainsFunc(known.veths, func(i int) bool { return !isThere(i) })) {
		return nil
	}
	process, err := processIn(dir, depthMost)
	if err != nil {
		return err
	}
	namespace, err := os.Open(filepath.Join(e.options.Proc, process, "ns/net"))
	if err != nil {
		return err
	}
	defer func() { _ = namespace.Close() }()
	found := pod{inode: inode}
	if found.host, err = e.isHost(namespace); err != nil {
		return err
	}
	if !found.host {
		number, err := e.netlink.namespace(namespace)
		if err != nil {
			return err
		}
		for _, one := range all {
			if number >= 0 && one.peer == number {
				found.veths = append(found.veths, one.index)
			}
		}
		if len(found.veths) == 0 {
			return errors.New("no interface of the host leads to its network: its traffic cannot be told from others'")
		}
	}
	e.pods[cgroup] = found
	return nil
}

// Sent implements Kernel. It is as of the last SetReclaimed.
func (e *Egress) Sent() map[string]advise.Sample { return e.sent }

// sentBy is what pods have sent, by what came in at the host's ends of their veths.
func sentBy(pods map[string]pod, all []iface) map[string]advise.Sample {
	received := make(map[int]advise.Sample, len(all))
	for _, one := range all {
		received[one.index] = one.received
	}
	out := make(map[string]advise.Sample, len(pods))
	for cgroup, p := range pods {
		sum := advise.Sample{Known: !p.host}
		for _, index := range p.veths {
			one := received[index]
			sum.Value, sum.Known = sum.Value+one.Value, sum.Known && one.Known
		}
		out[cgroup] = sum
	}
	return out
}

// isHost reports whether a network namespace is our own.
func (e *Egress) isHost(namespace *os.File) (bool, error) {
	theirs, err := namespace.Stat()
	if err != nil {
		return false, err
	}
	ours, err := os.Stat(filepath.Join(e.options.Proc, "self/ns/net"))
	return err == nil && os.SameFile(ours, theirs), err
}

// apply brings the marks to what the pods need.
func (e *Egress) apply() error {
	veths, hosts, level, err := e.needs()
	errs := []error{err}
	for index := range veths {
		if e.veths[index] != nil {
			continue
		}
		attached, err := e.attach("veth-"+strconv.Itoa(index), index, e.mark, ebpf.AttachTCXIngress)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		e.veths[index] = attached
	}
	for index, attached := range e.veths {
		if !veths[index] {
			errs = append(errs, gone(attached.Detach()), attached.Close())
			delete(e.veths, index)
		}
	}
	errs = append(errs, e.unpinVeths(), e.applyHosts(hosts))
	if level != e.set.Level {
		e.set.Level = level
		errs = append(errs, e.writeSettings())
	}
	return errors.Join(errs...)
}

// needs are the veths and the cgroups to be marked. The program looks at one level of the hierarchy.
func (e *Egress) needs() (veths map[int]bool, hosts map[uint64]bool, level uint64, err error) {
	veths, hosts = map[int]bool{}, map[uint64]bool{}
	for _, cgroup := range slices.Sorted(maps.Keys(e.pods)) {
		one := e.pods[cgroup]
		for _, index := range one.veths {
			veths[index] = true
		}
		if !one.host {
			continue
		}
		depth := uint64(strings.Count(cgroup, "/") + 1)
		if level != 0 && depth != level {
			err = fmt.Errorf("egress of %s: it is in the host's network, and not at the level of the others there, %d", cgroup, level)
			continue
		}
		level = depth
		hosts[one.inode] = true
	}
	return veths, hosts, level, err
}

// unpinVeths removes the pins of veths that no pod has: of pods that went while the agent was away, and of veths that are gone.
func (e *Egress) unpinVeths() error {
	if e.pins == "" {
		return nil
	}
	entries, err := os.ReadDir(e.pins)
	if err != nil {
		return fmt.Errorf("pins: %w", err)
	}
	var errs []error
	for _, entry := range entries {
		number, isVeth := strings.CutPrefix(entry.Name(), "veth-")
		if index, err := strconv.Atoi(number); isVeth && err == nil && e.veths[index] == nil {
			errs = append(errs, os.Remove(filepath.Join(e.pins, entry.Name())))
		}
	}
	return errors.Join(errs...)
}

// applyHosts brings the map of cgroups to those of the pods in the host's network.
func (e *Egress) applyHosts(hosts map[uint64]bool) error {
	var (
		errs []error
		key  uint64
		one  uint32
		left []uint64
	)
	table := e.maps["cgroups"]
	for entries := table.Iterate(); entries.Next(&key, &one); {
		if !hosts[key] {
			left = append(left, key)
		}
		delete(hosts, key)
	}
	for _, key := range left {
		errs = append(errs, table.Delete(key))
	}
	for key := range hosts {
		errs = append(errs, table.Put(key, uint32(1)))
	}
	return errors.Join(errs...)
}

// inodeOf is a cgroup's number, which the kernel's programs know it by.
func inodeOf(dir string) (uint64, error) {
	info, err := os.Stat(dir)
	if err != nil {
		return 0, err
	}
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return 0, errors.New("a directory has no number")
	}
	return stat.Ino, nil
}

// processIn finds a process of a cgroup, or of one below it.
func processIn(dir string, depth int) (string, error) {
	list, err := os.ReadFile(filepath.Join(dir, "cgroup.procs"))
	if err != nil && !errors.Is(err, unix.EOPNOTSUPP) { // so in a threaded cgroup
		return "", err
	}
	for process := range strings.FieldsSeq(string(list)) {
		if process != "0" { // 0: not in our PID namespace
			return process, nil
		}
	}
	if depth > 0 {
		entries, err := os.ReadDir(dir)
		if err != nil {
			return "", err
		}
		for _, entry := range entries {
			if !entry.IsDir() {
				continue
			}
			if process, err := processIn(filepath.Join(dir, entry.Name()), depth-1); err == nil {
				return process, nil
			}
		}
	}
	return "", fmt.Errorf("%s has no process: %w", filepath.Base(dir), fs.ErrNotExist)
}
