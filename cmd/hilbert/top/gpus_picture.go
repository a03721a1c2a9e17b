package top

import (
	"fmt"
	"html/template"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"hilbert.dev/hilbert/cmd/hilbert/output"
	"hilbert.dev/hilbert/internal/report"
	"hilbert.dev/hilbert/topology"
)

// Sizes of a node's picture in pixels: boxes in boxes, and in the innermost a line for each device with its bars.
const (
	pictureWidth = 920
	headHeight   = 40
	headBase     = 34 // the base line of the columns' names
	lineHeight   = 22
	podHeight    = 16
	drawnHeight  = 14 // of a bar
	letterWidth  = 6.3

	numaAt, switchAt, deviceAt, computeAt, memoryAt, restAt = 4, 64, 130, 262, 506, 660
	computeWidth, memoryWidth                               = 232, 142
	deviceLetters, restLetters, podLetters, headLetters     = 20, 40, 60, 130
)

// maxPods is how many of the pods that hold something are named below a node's devices.
const maxPods = 16

// colours are those of pods in a node's picture, one after the other.
func colours() [8]string {
	return [...]string{"#1b6ca8", "#c8852b", "#3a8f5c", "#a8435a", "#6d5ba8", "#2f8f9d", "#8a6d1f", "#5b6770"}
}

const freeColour, closedColour, lineColour = "#f4f4f4", "#d0d0d0", "#bbb"

// nodePicture is the picture of one node in the making.
type nodePicture struct {
	drawing report.Drawing

	pods []string            // in the order in which they are met
	held map[string][]string // by pod
}

// draw draws a node: its NUMA nodes, the switches in them, and for each device which pods hold how much.
func (n *gpuNode) draw() template.HTML {
	devices := n.devices()
	p := &nodePicture{held: make(map[string][]string)}
	for i := range devices {
		d, y := &devices[i], headHeight+i*lineHeight
		sameNUMA := func(o *deviceRow) bool { return comparePlaces(d.place.NUMA, o.place.NUMA) == 0 }
		sameSwitch := func(o *deviceRow) bool { return sameNUMA(o) && comparePlaces(d.place.Switch, o.place.Switch) == 0 }
		if i == 0 || !sameNUMA(&devices[i-1]) {
			p.box(numaAt, y, countFirst(devices[i:], sameNUMA), "#fafafa", "NUMA "+number(d.place.NUMA))
		}
		if i == 0 || !sameSwitch(&devices[i-1]) {
			p.box(switchAt, y, countFirst(devices[i:], sameSwitch), "#fff", "switch "+number(d.place.Switch))
		}
		p.device(d, y)
	}
	bottom := headHeight + len(devices)*lineHeight
	bottom += p.legend(bottom)
	head := []string{"owner " + output.OrDash(n.Owner), "seen " + n.text()}
	if note := n.note(); note != "" {
		head = append(head, note)
	}
	p.drawing.Heading(numaAt, 16, cut(n.Name, podLetters), "font-weight:bold;font-size:13px;fill:#222", cut(strings.Join(head, " · "), headLetters))
	if len(devices) > 0 {
		p.drawing.Text(computeAt, headBase, "compute, or bandwidth")
		p.drawing.Text(memoryAt, headBase, "memory")
		p.drawing.Text(restAt, headBase, "free")
	}
	return p.drawing.SVG(pictureWidth, float64(bottom+6), cut("GPUs and network cards of "+n.Name, headLetters), report.Attr("xmlns", "http://www.w3.org/2000/svg"),
		report.Attr("font-family", "system-ui,sans-serif"), report.FontSize(11), report.Fill("#555"))
}

// countFirst is how many of the first devices are so.
func countFirst(devices []deviceRow, so func(*deviceRow) bool) (n int) {
	for n < len(devices) && so(&devices[n]) {
		n++
	}
	return n
}

func (p *nodePicture) box(x, y, lines int, fill, name string) {
	p.drawing.Rect(float64(x), float64(y+1), float64(pictureWidth-numaAt-x), float64(lines*lineHeight-2), report.Attr("rx", "3"), report.Fill(fill), report.Stroke(lineColour))
	p.drawing.Text(float64(x+6), float64(y+15), name)
}

// device is a line: a name, the bars, and what is left.
func (p *nodePicture) device(d *deviceRow, y int) {
	cells := d.cells()
	p.drawing.Text(deviceAt, float64(y+15), cut(cells[0], deviceLetters))
	var name, left, closed string
	var holders []deviceHolder
	if d.gpu != nil {
		name, closed, holders, left = "GPU "+strconv.Itoa(d.gpu.Index), d.gpu.Closed, d.gpu.Holders, percent(d.gpu.FreeMilli)+", "+output.Memory(d.gpu.FreeMemoryMiB)
		p.bar(slicesBar{name, computeAt, computeWidth, y + 4, topology.FullGPU, closed != ""}, holders, func(h *deviceHolder) int64 { return int64(h.Milli) })
		p.bar(slicesBar{name, memoryAt, memoryWidth, y + 4, d.gpu.MemoryMiB, closed != ""}, holders, func(h *deviceHolder) int64 { return h.MemoryMiB })
	} else {
		name, closed, holders, left = "NIC "+strconv.Itoa(d.nic.Index), d.nic.Closed, d.nic.Holders, bandwidth(d.nic.FreeBandwidthMbit)
		p.bar(slicesBar{name, computeAt, computeWidth, y + 4, d.nic.BandwidthMbit, closed != ""}, holders, func(h *deviceHolder) int64 { return h.BandwidthMbit })
	}
	if note := cells[len(cells)-1]; note != "" {
		left += "; " + note
	}
	p.drawing.Text(restAt, float64(y+15), cut(left, restLetters))
	for i := range holders {
		pod := holders[i].pod()
		p.held[pod] = append(p.held[pod], name+holders[i].share())
	}
}

// slicesBar is the place of a bar, and the device that it shows.
type slicesBar struct {
	device      string
	x, width, y int
	all         int64
	closed      bool
}

// bar draws how much of a device each pod holds, in the colour of the pod, and what is free.
func (p *nodePicture) bar(at slicesBar, holders []deviceHolder, amount func(*deviceHolder) int64) {
	free := freeColour
	if at.closed {
		free = closedColour
	}
	y := float64(at.y)
	p.drawing.Rect(float64(at.x), y, float64(at.width), drawnHeight, report.Fill(free), report.Stroke(lineColour))
	sum := int64(0)
	for i := range holders {
		h := &holders[i]
		colour, part := p.colour(h.pod()), min(amount(h), at.all-sum)
		if part <= 0 {
			continue
		}
		from, wide := float64(at.x)+float64(at.width)*float64(sum)/float64(at.all), float64(at.width)*float64(part)/float64(at.all)
		sum += part
		p.drawing.Rect(from, y, wide, drawnHeight, report.Fill(colour), report.Stroke("#fff"), report.StrokeWidth(.5),
			report.Tip(cut(at.device+": "+h.pod()+h.share(), headLetters)))
		if letters := int((wide - 6) / letterWidth); letters >= min(utf8.RuneCountInString(h.Name), 6) {
			p.drawing.Text(from+3, y+11, cut(h.Name, letters), report.Attr("style", "fill:#fff"))
		}
	}
}

// colour is the colour of a pod.
func (p *nodePicture) colour(pod string) string {
	at := slices.Index(p.pods, pod)
	if at < 0 {
		at = len(p.pods)
		p.pods = append(p.pods, pod)
	}
	list := colours()
	return list[at%len(list)]
}

// legend lists which pods hold what, from y on, and returns its height.
func (p *nodePicture) legend(y int) int {
	named := p.pods[:min(len(p.pods), maxPods)]
	for i, pod := range named {
		line := float64(y + i*podHeight)
		p.drawing.Rect(numaAt, line+5, 10, 10, report.Attr("rx", "2"), report.Fill(p.colour(pod)))
		p.drawing.Heading(numaAt+16, line+14, cut(pod, podLetters), "fill:#222", cut(strings.Join(p.held[pod], ", "), podLetters))
	}
	lines := len(named)
	if more := len(p.pods) - lines; more > 0 {
		p.drawing.Text(numaAt+16, float64(y+lines*podHeight+14), fmt.Sprintf("and %d more pods", more))
		lines++
	}
	return lines * podHeight
}

// drawCounts draws how many GPUs of each model are in which state.
func drawCounts(models []gpuModel) template.HTML {
	states := [...]struct{ name, colour string }{
		{"idle", "#cfe3cf"}, {"shared", "#c8852b"}, {"divided", "#6d5ba8"}, {"held", "#1b6ca8"}, {"closed", closedColour},
	}
	const nameWidth, width = 190, pictureWidth - 200
	f := report.NewFigure("GPUs of each model by state", pictureWidth, len(models)*lineHeight)
	for i := range models {
		m, x, y := &models[i], float64(nameWidth), i*lineHeight
		f.Left(nameWidth-8, y+15, cut(fmt.Sprintf("%s: %d", output.OrDash(m.Model), m.GPUs), deviceLetters))
		for k, count := range []int{m.Idle, m.Shared, m.Divided, m.Held, m.Closed} {
			wide := width * float64(count) / float64(max(m.GPUs, 1))
			if count > 0 {
				f.Bar(states[k].colour, report.Point{X: x, Y: float64(y + 4)}, wide, drawnHeight, report.Stroke("#fff"), report.Tip(fmt.Sprintf("%d %s", count, states[k].name)))
			}
			x += wide
		}
	}
	for _, s := range states {
		f.Legend(s.colour, s.name)
	}
	return f.HTML("")
}

// cut is a text of at most this many letters.
func cut(text string, letters int) string {
	if runes := []rune(text); len(runes) > letters {
		text = string(runes[:max(letters-1, 0)]) + "…"
	}
	return text
}
