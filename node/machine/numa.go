package machine

import (
	"errors"
	"fmt"
	"io/fs"
	"math"
	"path"
	"slices"
	"strconv"
	"strings"

	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/topology"
)

const (
	nodeDir   = "devices/system/node"
	memoryDir = "devices/system/memory"
)

// numa reads the NUMA nodes. Those with neither CPUs nor memory, which some accelerators bring, are left out: nothing is to be had there.
func (r *reader) numa(online topology.CPUSet) ([]topology.NUMANode, error) {
	ids, err := r.list(nodeDir + "/online")
	if errors.Is(err, fs.ErrNotExist) {
		ids, err = r.numbered(nodeDir, "node")
	}
	if errors.Is(err, fs.ErrNotExist) || err == nil && ids.IsEmpty() {
		return r.oneNUMANode(online)
	}
	if err != nil {
		return nil, fmt.Errorf("NUMA nodes: %w", err)
	}
	var nodes []topology.NUMANode
	var seen topology.CPUSet
	for id := range ids.All() {
		n, err := r.numaNode(id, online)
		if err != nil {
			return nil, fmt.Errorf("NUMA node %d: %w", id, err)
		}
		if both := seen.Intersection(n.CPUs); !both.IsEmpty() {
			return nil, fmt.Errorf("NUMA node %d: another one has its CPUs %s too", id, both)
		}
		seen = seen.Union(n.CPUs)
		if !n.CPUs.IsEmpty() || n.Memory > 0 {
			nodes = append(nodes, n)
		}
	}
	if lost := online.Minus(seen); !lost.IsEmpty() {
		return nil, fmt.Errorf("CPUs %s are in no NUMA node", lost)
	}
	nodes = r.fewer(nodes)
	r.distances(nodes, ids)
	return nodes, nil
}

// fewer leaves out the last NUMA nodes without CPUs where there are more than Hilbert promises from: a GPU brings eight, and nothing is promised of them.
func (r *reader) fewer(nodes []topology.NUMANode) []topology.NUMANode {
	var left []string
	for i := len(nodes) - 1; i >= 0 && len(nodes) > topology.MaxNUMANodes; i-- {
		if nodes[i].CPUs.IsEmpty() {
			left = append(left, strconv.Itoa(nodes[i].ID))
			nodes = slices.Delete(nodes, i, i+1)
		}
	}
	if len(left) > 0 {
		slices.Reverse(left)
		r.note(spec.ReasonTopologyIncomplete, "NUMA nodes %s have no CPUs and are left out: no more than %d can be promised from", strings.Join(left, ","), topology.MaxNUMANodes)
	}
	return nodes
}

func (r *reader) numaNode(id int, online topology.CPUSet) (topology.NUMANode, error) {
	dir := path.Join(nodeDir, "node"+strconv.Itoa(id))
	cpus, err := r.list(dir + "/cpulist")
	if err != nil {
		return topology.NUMANode{}, err
	}
	memory, err := r.memTotal(dir + "/meminfo")
	if err != nil {
		return topology.NUMANode{}, err
	}
	return topology.NUMANode{ID: id, CPUs: cpus.Intersection(online), Memory: memory}, nil
}

// memTotal reads "Node 0 MemTotal:  13461708 kB", in bytes.
func (r *reader) memTotal(name string) (int64, error) {
	text, err := r.text(name)
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(text) {
		_, value, ok := strings.Cut(line, " MemTotal:")
		if !ok {
			continue
		}
		amount, unit, _ := strings.Cut(strings.TrimSpace(value), " ")
		kB, err := strconv.ParseInt(amount, 10, 64)
		if err != nil || kB < 0 || kB > math.MaxInt64/1024 || unit != "kB" {
			return 0, fmt.Errorf("%s: want a MemTotal in kB, got %q", name, shortened(strings.TrimSpace(value)))
		}
		return kB * 1024, nil
	}
	return 0, fmt.Errorf("%s: no MemTotal: the memory is not known", name)
}

// distances fills in how far each node is from each. They are known for all nodes or for none, so that a missing distance is never taken for a near one.
func (r *reader) distances(nodes []topology.NUMANode, ids topology.CPUSet) {
	rows := make([][]int, len(nodes))
	for i, n := range nodes {
		row, err := r.distanceRow(n.ID, nodes, ids)
		if err != nil {
			r.note(spec.ReasonTopologyIncomplete, "distances of NUMA nodes are not known: %v", err)
			return
		}
		rows[i] = row
	}
	for i := range nodes {
		nodes[i].Distances = rows[i]
	}
}

// distanceRow reads one number for each node of ids, and keeps those of nodes.
func (r *reader) distanceRow(id int, nodes []topology.NUMANode, ids topology.CPUSet) ([]int, error) {
	name := path.Join(nodeDir, "node"+strconv.Itoa(id), "distance")
	text, err := r.text(name)
	if err != nil {
		return nil, err
	}
	fields := strings.Fields(text)
	if len(fields) != ids.Len() {
		return nil, fmt.Errorf("%s: want %d numbers, got %q", name, ids.Len(), shortened(text))
	}
	var row []int
	i := 0
	for to := range ids.All() {
		distance, err := strconv.ParseUint(fields[i], 10, 16)
		if err != nil || distance == 0 {
			return nil, fmt.Errorf("%s: want numbers above 0, got %q", name, shortened(text))
		}
		if node(nodes, to) != nil {
			row = append(row, int(distance))
		}
		i++
	}
	return row, nil
}

// oneNUMANode is the whole machine as one node, where the kernel knows no NUMA.
func (r *reader) oneNUMANode(online topology.CPUSet) ([]topology.NUMANode, error) {
	memory, err := r.memoryBlocks()
	if err != nil {
		return nil, fmt.Errorf("no NUMA nodes, and the machine's memory is not known: %w", err)
	}
	r.note(spec.ReasonNoNUMAInformation,
		"no NUMA nodes: the machine counts as one NUMA node; its memory is the sum of its blocks, of which the kernel keeps some for itself")
	return []topology.NUMANode{{ID: 0, CPUs: online, Memory: memory, Distances: []int{10}}}, nil
}

// memoryBlocks sums up the blocks of memory that are online, in bytes.
func (r *reader) memoryBlocks() (int64, error) {
	text, err := r.text(memoryDir + "/block_size_bytes")
	if err != nil {
		return 0, err
	}
	size, err := strconv.ParseInt(text, 16, 64)
	if err != nil || size <= 0 {
		return 0, fmt.Errorf("%s/block_size_bytes: want a size, got %q", memoryDir, shortened(text))
	}
	entries, err := fs.ReadDir(r.sys, memoryDir)
	if err != nil {
		return 0, err
	}
	var online int64
	for _, entry := range entries {
		digits, ok := strings.CutPrefix(entry.Name(), "memory")
		if _, err := strconv.ParseUint(digits, 10, 63); !ok || err != nil {
			continue
		}
		state, err := r.text(path.Join(memoryDir, entry.Name(), "state"))
		if err != nil {
			return 0, err
		}
		if state != "offline" {
			online++
		}
	}
	if online == 0 || online > math.MaxInt64/size {
		return 0, fmt.Errorf("%s: %d blocks of %d bytes are online", memoryDir, online, size)
	}
	return online * size, nil
}
