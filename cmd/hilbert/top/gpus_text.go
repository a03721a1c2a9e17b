package top

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/cmd/hilbert/output"
	"hilbert.dev/hilbert/cmd/hilbert/render"
	"hilbert.dev/hilbert/topology"
)

const (
	// barWidth is the letters of a bar of a device: a tenth each.
	barWidth = 10
)

// deviceRow is a device of either kind, and where it hangs.
type deviceRow struct {
	place spec.DevicePlace
	gpu   *gpuRow // nil: it is a network card
	nic   *nicRow
}

func (d *deviceRow) cells() []string {
	if d.gpu != nil {
		return d.gpu.cells()
	}
	return d.nic.cells()
}

// WriteText draws a line for each device, under its node's first, by NUMA node and switch, and then a line for each model.
func (v *gpusView) WriteText(w io.Writer) error {
	lines := [][]string{{"NODE", "OWNER", "OBSERVED", "NUMA", "SWITCH", "DEVICE", "COMPUTE", "FREE", "MEMORY", "FREE", "OF", "HELD BY", "NOTE"}}
	for i := range v.Nodes {
		lines = append(lines, v.Nodes[i].lines()...)
	}
	if len(v.Nodes) > 0 {
		if err := output.Rows(w, lines); err != nil {
			return err
		}
	}
	if v.More > 0 {
		if _, err := fmt.Fprintf(w, "and %d more nodes, which are counted below: name some, or raise --limit.\n", v.More); err != nil {
			return err
		}
	}
	if v.Unread > 0 {
		if _, err := fmt.Fprintf(w, "Not counted, because what they say of their devices cannot be read: %d nodes.\n", v.Unread); err != nil {
			return err
		}
	}
	if len(v.Models) == 0 {
		_, err := fmt.Fprintln(w, "No agent reports such GPUs.")
		return err
	}
	if len(v.Nodes)+v.More > 0 {
		if _, err := fmt.Fprintln(w); err != nil {
			return err
		}
	}
	return v.writeModels(w)
}

// devices are a node's by NUMA node and switch. At one place GPUs stay before cards, both by index.
func (n *gpuNode) devices() (list []deviceRow) {
	for i := range n.GPUs {
		list = append(list, deviceRow{place: n.GPUs[i].DevicePlace, gpu: &n.GPUs[i]})
	}
	for i := range n.NICs {
		list = append(list, deviceRow{place: n.NICs[i].DevicePlace, nic: &n.NICs[i]})
	}
	slices.SortStableFunc(list, func(a, b deviceRow) int {
		return cmp.Or(comparePlaces(a.place.NUMA, b.place.NUMA), comparePlaces(a.place.Switch, b.place.Switch))
	})
	return list
}

// lines draws a node.
func (n *gpuNode) lines() [][]string {
	devices := n.devices()
	head := []string{n.Name, output.OrDash(n.Owner), n.text()}
	if len(devices) == 0 {
		return [][]string{append(head, "-", "-", "-", "", "", "", "", "", "", n.note())}
	}
	var out [][]string
	for i := range devices {
		d := &devices[i]
		numa, bridge := number(d.place.NUMA), number(d.place.Switch)
		if i > 0 {
			head = []string{"", "", ""}
			if comparePlaces(d.place.NUMA, devices[i-1].place.NUMA) == 0 {
				if numa = ""; comparePlaces(d.place.Switch, devices[i-1].place.Switch) == 0 {
					bridge = ""
				}
			}
		}
		line := append(append(head, numa, bridge), d.cells()...)
		if note := n.note(); i == 0 && note != "" {
			line[len(line)-1] = strings.TrimSuffix(note+"; "+line[len(line)-1], "; ")
		}
		out = append(out, line)
	}
	return out
}

// note is what is to be said of the node as a whole.
func (n *gpuNode) note() string {
	switch {
	case n.Problem != "":
		return n.Problem
	case n.Owner != spec.OwnerHilbert && n.Reason != "":
		return strings.Join(append([]string{n.Reason}, render.KubeletNotes(n.Kubelet)...), "; ")
	}
	return strings.Join(render.KubeletNotes(n.Kubelet), "; ")
}

// comparePlaces puts what is not known last.
func comparePlaces(a, b *int) int {
	switch {
	case a == nil && b == nil:
		return 0
	case a == nil:
		return 1
	case b == nil:
		return -1
	}
	return cmp.Compare(*a, *b)
}

func number(place *int) string {
	if place == nil {
		return "-"
	}
	return strconv.Itoa(*place)
}

func (g *gpuRow) cells() []string {
	var compute, memoryHeld []int64
	var letters []byte
	var names []string
	for i := range g.Holders {
		h := &g.Holders[i]
		compute, memoryHeld, letters = append(compute, int64(h.Milli)), append(memoryHeld, h.MemoryMiB), append(letters, letterOf(i, h))
		names = append(names, h.ofGPU(letters[i]))
	}
	var notes []string
	if g.Closed != "" {
		notes = append(notes, "closed: "+g.Closed)
	}
	if g.Instances > 0 {
		notes = append(notes, fmt.Sprintf("%d of %d instances free", g.FreeInstances, g.Instances))
	}
	return []string{
		fmt.Sprintf("GPU %d %s", g.Index, g.Model),
		sliced(topology.FullGPU, compute, letters), percent(g.FreeMilli),
		sliced(g.MemoryMiB, memoryHeld, letters), output.Memory(g.FreeMemoryMiB), output.Memory(g.MemoryMiB), render.Named(names), strings.Join(notes, ", "),
	}
}

func (n *nicRow) cells() []string {
	var held []int64
	var letters []byte
	var names []string
	for i := range n.Holders {
		h := &n.Holders[i]
		held, letters = append(held, h.BandwidthMbit), append(letters, 'a'+byte(i%26))
		names = append(names, h.ofNIC(letters[i]))
	}
	var notes []string
	if n.Closed != "" {
		notes = append(notes, "closed: "+n.Closed)
	}
	if n.RDMA {
		notes = append(notes, "RDMA")
	}
	if n.Functions > 0 {
		notes = append(notes, fmt.Sprintf("%d of %d functions free", n.FreeFunctions, n.Functions))
	}
	return []string{
		strings.TrimSpace(fmt.Sprintf("NIC %d %s", n.Index, n.Name)), sliced(n.BandwidthMbit, held, letters), bandwidth(n.FreeBandwidthMbit),
		"", "", bandwidth(n.BandwidthMbit), render.Named(names), strings.Join(notes, ", "),
	}
}

// letterOf stands for a holder in bars: # for one who has all of a GPU.
func letterOf(i int, h *deviceHolder) byte {
	if h.Isolation == "" {
		return '#'
	}
	return 'a' + byte(i%26)
}

func (h *deviceHolder) ofGPU(letter byte) string {
	if letter == '#' {
		return h.pod() + h.share()
	}
	return fmt.Sprintf("%c %s%s", letter, h.pod(), h.share())
}

func (h *deviceHolder) pod() string { return h.Namespace + "/" + h.Name }

// share is what it holds of a device, empty for all of it.
func (h *deviceHolder) share() (text string) {
	if h.Device != "" {
		return " " + h.Device
	}
	if h.Isolation != "" {
		text = fmt.Sprintf(" %s %s %s", percent(int32(h.Milli)), output.Memory(h.MemoryMiB), h.Isolation)
	}
	if h.Instance != "" {
		text += " " + h.Instance
	}
	if h.BandwidthMbit > 0 {
		text += " " + bandwidth(h.BandwidthMbit)
	}
	if h.Function {
		text += " vf"
	}
	if h.Moved {
		text += " MOVED"
	}
	return text
}

func (h *deviceHolder) ofNIC(letter byte) string {
	return fmt.Sprintf("%c %s%s", letter, h.pod(), h.share())
}

// sliced draws who holds how much of a device. Whoever holds anything has a letter, as long as there are letters left.
func sliced(all int64, held []int64, letters []byte) string {
	drawn := make([]byte, 0, barWidth)
	sum := int64(0)
	for i, amount := range held {
		if amount <= 0 || all <= 0 {
			continue
		}
		sum += amount
		end := min(max(int((sum*barWidth+all/2)/all), len(drawn)+1), barWidth)
		for len(drawn) < end {
			drawn = append(drawn, letters[i])
		}
	}
	return string(drawn) + strings.Repeat(".", barWidth-len(drawn))
}

// percent writes thousandths: "25%", "12.5%".
func percent(milli int32) string {
	const permille = 10
	return strconv.FormatFloat(float64(milli)/permille, 'f', -1, 64) + "%"
}

// bandwidth writes Mbit/s as people do.
func bandwidth(mbit int64) string {
	const giga = 1000
	if mbit < giga {
		return strconv.FormatInt(mbit, 10) + "Mbit/s"
	}
	return strconv.FormatFloat(float64(mbit)/giga, 'f', -1, 64) + "Gbit/s"
}

// writeModels draws a line for each model.
func (v *gpusView) writeModels(w io.Writer) error {
	head := []string{"MODEL", "GPUS", "IDLE", "SHARED", "DIVIDED", "HELD", "CLOSED", "FREE"}
	for _, s := range v.Models[0].Sizes {
		head = append(head, "PODS OF "+gpus(int64(s.Milli)))
	}
	lines := [][]string{head}
	for i := range v.Models {
		m := &v.Models[i]
		line := []string{output.OrDash(m.Model)}
		for _, n := range []int{m.GPUs, m.Idle, m.Shared, m.Divided, m.Held, m.Closed} {
			line = append(line, strconv.Itoa(n))
		}
		line = append(line, gpus(m.FreeMilli))
		for _, s := range m.Sizes {
			cell := strconv.FormatInt(s.Fits, 10)
			if s.Fragmentation != nil {
				cell += fmt.Sprintf(" (%.0f%%)", 100**s.Fragmentation)
			}
			line = append(line, cell)
		}
		lines = append(lines, line)
	}
	if err := output.Rows(w, lines); err != nil {
		return err
	}
	_, err := fmt.Fprintln(w, "\nPODS OF a size in GPUs: how many the free GPUs would hold, and (%) which share of what is free they could not use: the fragmentation.")
	return err
}

// gpus writes thousandths of GPUs in GPUs.
func gpus(milli int64) string {
	return strconv.FormatFloat(float64(milli)/topology.FullGPU, 'f', -1, 64)
}
