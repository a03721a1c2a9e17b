package report

import (
	"cmp"
	"fmt"
	"html/template"
	"math"
	"slices"
	"strings"
)

const (
	// maxCells bounds the cells of the map; larger clusters share cells among neighbours.
	maxCells = 6000
	// maxNameLetters bounds a node's name in the map.
	maxNameLetters = 63
	// levels is the number of colours for what is not empty.
	levels = 10
)

// nodeGroup is a zone of the map.
type nodeGroup struct {
	Name   string
	Detail string
	Cells  template.HTML
}

// nodeMap is the map and what its script needs to describe a cell.
type nodeMap struct {
	Groups   []nodeGroup
	Size     string // of a cell: "large", "middling", "small"
	Wide     bool   // groups stand one below the other
	PerCell  int
	AnyGPU   bool
	Shapes   [][]any `json:"shapes"` // machine, GPU model, millicores, MiB, GPU milli, pods
	Nodes    [][]any `json:"nodes"`  // name, shape, then twice (fullest, end): pods, online and offline millicores, MiB, GPU milli
	shapeIDs map[string]int
}

func newNodeMap(nodes []Node) *nodeMap {
	perCell := (len(nodes) + maxCells - 1) / maxCells
	m := &nodeMap{PerCell: max(perCell, 1), shapeIDs: make(map[string]int), Nodes: [][]any{}, Shapes: [][]any{}}
	groups := make(map[string][]Node)
	for _, n := range nodes {
		groups[n.Group] = append(groups[n.Group], n)
	}
	names := make([]string, 0, len(groups))
	for name := range groups {
		names = append(names, name)
	}
	slices.Sort(names)
	cells := 0
	for _, name := range names {
		group := groups[name]
		slices.SortStableFunc(group, byMachine)
		group = merge(group, m.PerCell)
		cells += len(group)
		m.addGroup(name, group)
	}
	m.Wide = uneven(groups)
	switch {
	case cells <= 120:
		m.Size = "large"
	case cells <= 2000:
		m.Size = "middling"
	default:
		m.Size = "small"
	}
	return m
}

// uneven says that groups side by side would leave much of the page empty.
func uneven(groups map[string][]Node) bool {
	least, most := math.MaxInt, 0
	for _, g := range groups {
		least, most = min(least, len(g)), max(most, len(g))
	}
	return len(groups) > 6 || most > 2*least
}

// byMachine puts like machines side by side: without GPUs first, small ones first, then by name.
func byMachine(a, b Node) int {
	return cmp.Or(
		cmp.Compare(a.Allocatable.GPU, b.Allocatable.GPU),
		cmp.Compare(a.GPUModel, b.GPUModel),
		cmp.Compare(a.Allocatable.CPU, b.Allocatable.CPU),
		cmp.Compare(a.Machine, b.Machine),
		cmp.Compare(a.Name, b.Name),
	)
}

// merge puts each k neighbours into one cell.
func merge(nodes []Node, k int) []Node {
	if k <= 1 {
		return nodes
	}
	var out []Node
	for chunk := range slices.Chunk(nodes, k) {
		cell := chunk[0]
		for _, n := range chunk[1:] {
			cell.Allocatable = cell.Allocatable.Plus(n.Allocatable)
			cell.MaxPods += n.MaxPods
			cell.Fullest, cell.Final = cell.Fullest.plus(n.Fullest), cell.Final.plus(n.Final)
		}
		if last := chunk[len(chunk)-1]; last.Name != cell.Name {
			cell.Name = fmt.Sprintf("%s … %s (%s)", shorten(cell.Name), shorten(last.Name), plural(len(chunk), "node"))
		}
		out = append(out, cell)
	}
	return out
}

func (u Use) plus(v Use) Use {
	return Use{Online: u.Online.Plus(v.Online), Offline: u.Offline.Plus(v.Offline), Pods: u.Pods + v.Pods}
}

func (m *nodeMap) addGroup(name string, nodes []Node) {
	var b strings.Builder
	var all, used Amount
	count := 0
	for _, n := range nodes {
		all, used = all.Plus(n.Allocatable), used.Plus(n.Fullest.Total())
		class := fmt.Sprintf("p%d f%d", level(n.Fullest, n.Allocatable), level(n.Final, n.Allocatable))
		if n.Allocatable.GPU > 0 {
			class += " g"
			m.AnyGPU = true
		}
		fmt.Fprintf(&b, `<i class="%s"></i>`, class)
		row := []any{shorten(n.Name), m.shape(n)}
		for _, u := range []Use{n.Fullest, n.Final} {
			total := u.Total()
			row = append(row, u.Pods, u.Online.CPU, u.Offline.CPU, total.Memory>>20, total.GPU)
		}
		m.Nodes = append(m.Nodes, row)
		count++
	}
	detail := plural(count, "node")
	if m.PerCell > 1 {
		detail = plural(count, "cell")
	}
	if all.CPU > 0 {
		detail += fmt.Sprintf(" · CPU %.0f %% at the fullest", 100*float64(used.CPU)/float64(all.CPU))
	}
	m.Groups = append(m.Groups, nodeGroup{Name: cmp.Or(name, "all nodes"), Detail: detail, Cells: template.HTML(b.String())})
}

// shape is the index of a node's machine among those of the map.
func (m *nodeMap) shape(n Node) int {
	row := []any{n.Machine, n.GPUModel, n.Allocatable.CPU, n.Allocatable.Memory >> 20, n.Allocatable.GPU, n.MaxPods}
	key := fmt.Sprint(row...)
	id, known := m.shapeIDs[key]
	if !known {
		id = len(m.Shapes)
		m.shapeIDs[key] = id
		m.Shapes = append(m.Shapes, row)
	}
	return id
}

// level is the colour of a cell: 0 for nothing, then one for each tenth.
func level(u Use, all Amount) int {
	used := u.Total().CPU
	if used <= 0 || all.CPU <= 0 {
		return 0
	}
	return min(max(int(math.Ceil(levels*float64(used)/float64(all.CPU)-1e-9)), 1), levels)
}

func shorten(name string) string {
	letters := []rune(name)
	if len(letters) <= maxNameLetters {
		return name
	}
	return string(letters[:maxNameLetters-1]) + "…"
}
