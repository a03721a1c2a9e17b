package machine

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strconv"

	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/topology"
)

const cpuDir = "devices/system/cpu"

func cpuPath(cpu int, below string) string {
	return path.Join(cpuDir, "cpu"+strconv.Itoa(cpu), below)
}

// online is the CPUs that run something.
func (r *reader) online() (topology.CPUSet, error) {
	online, err := r.list(cpuDir + "/online")
	if errors.Is(err, fs.ErrNotExist) {
		online, err = r.onlineByDirectory()
	}
	if err == nil && online.IsEmpty() {
		err = errors.New("no CPU is online")
	}
	if err != nil {
		return online, fmt.Errorf("online CPUs: %w", err)
	}
	return online, nil
}

// onlineByDirectory asks each CPU. One that cannot go offline has no word on it.
func (r *reader) onlineByDirectory() (topology.CPUSet, error) {
	online, err := r.numbered(cpuDir, "cpu")
	if err != nil {
		return online, err
	}
	var offline topology.CPUSet
	for cpu := range online.All() {
		switch on, err := r.number(cpuPath(cpu, "online")); {
		case err == nil && on == 0:
			offline.Add(cpu)
		case err != nil && !errors.Is(err, fs.ErrNotExist):
			return online, err
		}
	}
	return online.Minus(offline), nil
}

// cpus tells each CPU's place.
func (r *reader) cpus(online topology.CPUSet, nodes []topology.NUMANode) ([]topology.CPU, error) {
	cores, err := partition(online, func(cpu int) (topology.CPUSet, error) {
		return r.list(cpuPath(cpu, "topology/core_cpus_list"), cpuPath(cpu, "topology/thread_siblings_list"))
	})
	if err != nil {
		return nil, fmt.Errorf("cores: %w", err)
	}
	sockets, err := r.sockets(online)
	if err != nil {
		return nil, fmt.Errorf("sockets: %w", err)
	}
	near := make(map[int]int, online.Len())
	for _, n := range nodes {
		for cpu := range n.CPUs.All() {
			near[cpu] = n.ID
		}
	}
	if a, b, ok := split(online, cores, sockets); ok {
		return nil, fmt.Errorf("CPUs %d and %d share a core, but are in different sockets", a, b)
	}
	if a, b, ok := split(online, cores, near); ok {
		return nil, fmt.Errorf("CPUs %d and %d share a core, but are in different NUMA nodes", a, b)
	}
	caches := r.caches(online, cores, sockets)
	var out []topology.CPU
	for cpu := range online.All() {
		out = append(out, topology.CPU{ID: cpu, Core: cores[cpu], L3: caches[cpu], Socket: sockets[cpu], NUMA: near[cpu]})
	}
	return out, nil
}

// sockets numbers them as their IDs are ordered: the IDs may have gaps. Some firmware gives no ID, but says which CPUs share a socket; and if not even
// that, there is one socket.
func (r *reader) sockets(online topology.CPUSet) (map[int]int, error) {
	ids := make(map[int]int, online.Len())
	for cpu := range online.All() {
		id, err := r.number(cpuPath(cpu, "topology/physical_package_id"))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
		if err == nil && id >= 0 {
			ids[cpu] = id
		}
	}
	if len(ids) == online.Len() {
		order := slices.Compact(slices.Sorted(maps.Values(ids)))
		for cpu, id := range ids {
			ids[cpu], _ = slices.BinarySearch(order, id)
		}
		return ids, nil
	}
	sockets, err := partition(online, func(cpu int) (topology.CPUSet, error) {
		return r.list(cpuPath(cpu, "topology/package_cpus_list"), cpuPath(cpu, "topology/core_siblings_list"))
	})
	if errors.Is(err, fs.ErrNotExist) {
		r.note(spec.ReasonTopologyIncomplete, "the kernel does not say which CPUs share a socket: they count as one")
		return partition(online, func(int) (topology.CPUSet, error) { return online, nil })
	}
	return sockets, err
}

// caches numbers the groups that share an L3 cache; -1 is a CPU that has none, or of whose caches the kernel says nothing. No promise rests on
// caches, so a contradiction costs the groups and not the node.
func (r *reader) caches(online topology.CPUSet, cores, sockets map[int]int) map[int]int {
	groups, err := r.cacheGroups(online, cores, sockets)
	if err != nil {
		r.note(spec.ReasonTopologyIncomplete, "L3 caches are not known: %v", err)
		for cpu := range online.All() {
			groups[cpu] = -1
		}
	}
	return groups
}

// cacheGroups is never nil.
func (r *reader) cacheGroups(online topology.CPUSet, cores, sockets map[int]int) (map[int]int, error) {
	var having topology.CPUSet
	shared := make(map[int]topology.CPUSet)
	for cpu := range online.All() {
		set, err := r.level3(cpu)
		if err != nil {
			return map[int]int{}, fmt.Errorf("CPU %d: %w", cpu, err)
		}
		if !set.IsEmpty() {
			having.Add(cpu)
			shared[cpu] = set
		}
	}
	groups, err := partition(having, func(cpu int) (topology.CPUSet, error) { return shared[cpu], nil })
	if err != nil {
		return map[int]int{}, err
	}
	if a, b, ok := split(having, groups, sockets); ok {
		return groups, fmt.Errorf("CPUs %d and %d share one, but are in different sockets", a, b)
	}
	for cpu := range online.Minus(having).All() {
		groups[cpu] = -1
	}
	if a, b, ok := split(online, cores, groups); ok {
		return groups, fmt.Errorf("CPUs %d and %d share a core, but no L3", a, b)
	}
	return groups, nil
}

// level3 is the CPUs that share one CPU's L3 cache; none if it has no L3 cache.
func (r *reader) level3(cpu int) (topology.CPUSet, error) {
	dir := cpuPath(cpu, "cache")
	indexes, err := r.numbered(dir, "index")
	if errors.Is(err, fs.ErrNotExist) {
		return topology.CPUSet{}, nil
	}
	if err != nil {
		return topology.CPUSet{}, err
	}
	for index := range indexes.All() {
		cache := path.Join(dir, "index"+strconv.Itoa(index))
		level, err := r.number(cache + "/level")
		if err != nil {
			return topology.CPUSet{}, err
		}
		if level == 3 {
			return r.list(cache + "/shared_cpu_list")
		}
	}
	return topology.CPUSet{}, nil
}

// partition numbers groups of CPUs from 0, in the order of their first members. Each CPU names those that it shares something with; IDs are not
// asked for, because a core's ID is unique only within its die. It fails unless the groups are whole and apart.
func partition(cpus topology.CPUSet, of func(cpu int) (topology.CPUSet, error)) (map[int]int, error) {
	group := make(map[int]int, cpus.Len())
	var sets []topology.CPUSet
	for cpu := range cpus.All() {
		set, err := of(cpu)
		if err != nil {
			return nil, fmt.Errorf("CPU %d: %w", cpu, err)
		}
		set = set.Intersection(cpus) // some lists may still have a CPU that is offline
		if !set.Has(cpu) {
			return nil, fmt.Errorf("CPU %d is not among those that it shares with, %q", cpu, set)
		}
		number, seen := group[cpu]
		if !seen {
			number = len(sets)
			sets = append(sets, set)
			for member := range set.All() {
				if _, taken := group[member]; taken {
					return nil, fmt.Errorf("CPU %d shares with %q, but CPU %d with %q", cpu, set, member, sets[group[member]])
				}
				group[member] = number
			}
		}
		if sets[number] != set {
			return nil, fmt.Errorf("CPU %d shares with %q, but others say %q", cpu, set, sets[number])
		}
	}
	return group, nil
}

// split finds two CPUs of one fine group that are in different coarse groups.
func split(cpus topology.CPUSet, fine, coarse map[int]int) (a, b int, found bool) {
	first := make(map[int]int)
	for cpu := range cpus.All() {
		group := fine[cpu]
		other, seen := first[group]
		if !seen {
			first[group] = cpu
			continue
		}
		if coarse[other] != coarse[cpu] {
			return other, cpu, true
		}
	}
	return 0, 0, false
}
