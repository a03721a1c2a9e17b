package topology

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// String renders the machine as an indented tree: sockets, their NUMA nodes, and in each its L3 groups and the devices near it. Cores are
// written by their logical CPUs: "0-7+64-71" are eight cores, the first of which is CPUs 0 and 64. Memory is in MiB.
func (m *Machine) String() string {
	t := machineText{m: m, sockets: make(map[int]CPUSet), spread: make(map[int]CPUSet)}
	for _, c := range m.CPUs {
		sockets, spread := t.sockets[c.NUMA], t.spread[c.L3]
		sockets.Add(c.Socket)
		spread.Add(c.NUMA)
		t.sockets[c.NUMA], t.spread[c.L3] = sockets, spread
	}
	var order []CPUSet
	for _, n := range m.NUMA {
		if s := t.sockets[n.ID]; !slices.Contains(order, s) {
			order = append(order, s)
		}
	}
	for _, s := range order {
		t.line(0, "%s", t.heading(s))
		for _, n := range m.NUMA {
			if t.sockets[n.ID] == s {
				t.node(n)
			}
		}
	}
	if slices.ContainsFunc(m.Devices, func(d Device) bool { return d.Parent == "" && d.NUMA < 0 }) {
		t.line(0, "near no NUMA node that is known")
		t.devices(-1, "", 1)
	}
	return t.b.String()
}

// machineText is a machine on its way to text.
type machineText struct {
	m       *Machine
	sockets map[int]CPUSet // that a NUMA node has CPUs of
	spread  map[int]CPUSet // NUMA nodes that an L3 group has CPUs in
	b       strings.Builder
}

func (t *machineText) line(depth int, format string, args ...any) {
	t.b.WriteString(strings.Repeat("  ", depth))
	fmt.Fprintf(&t.b, format, args...)
	t.b.WriteByte('\n')
}

func (t *machineText) heading(sockets CPUSet) string {
	switch sockets.Len() {
	case 0:
		return "no socket"
	case 1:
		return "socket " + sockets.String()
	}
	return "sockets " + sockets.String()
}

func (t *machineText) node(n NUMANode) {
	text := fmt.Sprintf("NUMA %d: %d MiB", n.ID, n.Memory/Mebibyte)
	if len(n.Distances) > 0 {
		text += ", distances " + strings.Trim(fmt.Sprint(n.Distances), "[]")
	}
	cores, order := t.cores(n.ID)
	if len(order) == 0 {
		t.line(1, "%s, no CPUs", text)
	} else {
		t.line(1, "%s, CPUs %s", text, n.CPUs)
	}
	for _, l3 := range order {
		name := "L3 " + strconv.Itoa(l3)
		if l3 < 0 {
			name = "no L3 known"
		} else if t.spread[l3].Len() > 1 {
			name += " of NUMA " + t.spread[l3].String()
		}
		t.line(2, "%s: %s", name, coreText(cores[l3]))
	}
	t.devices(n.ID, "", 2)
}

// cores is the CPUs of each core of a NUMA node by L3 group, and the groups in order.
func (t *machineText) cores(numa int) (map[int][][]int, []int) {
	type place struct{ core, index int }
	at := make(map[int]place)
	groups := make(map[int][][]int)
	var order []int
	for _, c := range t.m.CPUs {
		if c.NUMA != numa {
			continue
		}
		if !slices.Contains(order, c.L3) {
			order = append(order, c.L3)
		}
		p, seen := at[c.Core]
		if !seen {
			p = place{core: c.L3, index: len(groups[c.L3])}
			at[c.Core] = p
			groups[c.L3] = append(groups[c.L3], nil)
		}
		groups[p.core][p.index] = append(groups[p.core][p.index], c.ID)
	}
	slices.Sort(order)
	return groups, order
}

// coreText writes runs of cores whose CPUs go up together as one.
func coreText(cores [][]int) string {
	var b strings.Builder
	for i := 0; i < len(cores); {
		n := 1
		for i+n < len(cores) && follows(cores[i+n-1], cores[i+n]) {
			n++
		}
		if i > 0 {
			b.WriteByte(' ')
		}
		for thread, cpu := range cores[i] {
			if thread > 0 {
				b.WriteByte('+')
			}
			b.WriteString(strconv.Itoa(cpu))
			if n > 1 {
				b.WriteByte('-')
				b.WriteString(strconv.Itoa(cpu + n - 1))
			}
		}
		i += n
	}
	return b.String()
}

func follows(a, b []int) bool {
	return slices.EqualFunc(a, b, func(x, y int) bool { return y == x+1 })
}

// devices writes the devices below a parent. At the root only those near a NUMA node; further down one says its node where its parent has another.
func (t *machineText) devices(numa int, parent string, depth int) {
	for _, d := range t.m.Devices {
		if d.Parent != parent || d.Address == parent || parent == "" && d.NUMA != numa {
			continue
		}
		text := deviceText(d)
		if d.NUMA != numa {
			text += ", NUMA " + strconv.Itoa(d.NUMA)
		}
		t.line(depth, "%s", text)
		t.devices(d.NUMA, d.Address, depth+1)
	}
}

func deviceText(d Device) string {
	words := []string{d.Address, string(d.Kind), strings.TrimPrefix(d.Vendor, "0x") + ":" + strings.TrimPrefix(d.Model, "0x")}
	words = append(words, d.Names...)
	text := strings.Join(words, " ")
	if len(d.RDMA) > 0 {
		text += ", RDMA " + strings.Join(d.RDMA, " ")
	}
	if d.PhysicalFunction != "" {
		text += ", function of " + d.PhysicalFunction
	}
	if d.MaxVirtualFunctions > 0 {
		text += fmt.Sprintf(", up to %d virtual functions", d.MaxVirtualFunctions)
	}
	return text
}
