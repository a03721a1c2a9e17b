package command

import (
	"fmt"
	"html/template"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"hilbert.dev/hilbert/topology"
)

// Sizes of a node's picture in pixels: boxes in boxes, and in the innermost a line for each device with its bars.
const (
	pictureWidth = 920
	headHeight   = 40
	lineHeight   = 22
	podHeight    = 16
	drawnHeight  = 14 // of a bar
	letterWidth  = 6.3

	numaAt, switchAt, deviceAt, computeAt, memoryAt, restAt = 4, 64, 130, 262, 506, 660
	computeWidth, memoryWidth                               = 232, 142
	deviceLetters, restLetters, podLetters, headLetters     = 20, 40, 60, 130
)

// maxPods is how many of those who hold something are named below a node's devices.
const maxPods = 16

// colours are those of pods in a node's picture, one after the other.
func colours() [8]string {
	return [...]string{"#1b6ca8", "#c8852b", "#3a8f5c", "#a8435a", "#6d5ba8", "#2f8f9d", "#8a6d1f", "#5b6770"}
}

const freeColour, closedColour, lineColour = "#f4f4f4", "#d0d0d0", "#bbb"

// nodePicture is one in the making.
type nodePicture struct {
	strings.Builder

	pods []string            // in the order in which they are met
	held map[string][]string // by pod
}

// draw is a node: its NUMA nodes, the switches in them, and of each device who holds how much.
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
	head := []string{"owner " + orDash(n.Owner), "seen " + n.text()}
	if note := n.note(); note != "" {
		head = append(head, note)
	}
	var b strings.Builder
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" role="img" aria-label="%s" font-family="system-ui,sans-serif" font-size="11" fill="#555">`,
		pictureWidth, bottom+6, escaped("GPUs and network cards of "+n.Name, headLetters))
	fmt.Fprintf(&b, `<text x="%d" y="16"><tspan style="font-weight:bold;font-size:13px;fill:#222">%s</tspan> %s</text>`,
		numaAt, escaped(n.Name, podLetters), escaped(strings.Join(head, " · "), headLetters))
	if len(devices) > 0 {
		fmt.Fprintf(&b, `<text x="%d" y="34">compute, or bandwidth</text><text x="%d" y="34">memory</text><text x="%d" y="34">free</text>`, computeAt, memoryAt, restAt)
	}
	return template.HTML(b.String() + p.String() + "</svg>") //nolint:gosec // what stands in it is escaped above
}

// countFirst is how many of the first devices are so.
func countFirst(devices []deviceRow, so func(*deviceRow) bool) (n int) {
	for n < len(devices) && so(&devices[n]) {
		n++
	}
	return n
}

func (p *nodePicture) box(x, y, lines int, fill, name string) {
	fmt.Fprintf(p, `<rect x="%d" y="%d" width="%d" height="%d" rx="3" fill="%s" stroke="%s"/><text x="%d" y="%d">%s</text>`,
		x, y+1, pictureWidth-numaAt-x, lines*lineHeight-2, fill, lineColour, x+6, y+15, name)
}

// device is a line: a name, the bars, and what is left.
func (p *nodePicture) device(d *deviceRow, y int) {
	cells := d.cells()
	fmt.Fprintf(p, `<text x="%d" y="%d">%s</text>`, deviceAt, y+15, escaped(cells[0], deviceLetters))
	var name, left, closed string
	var holders []deviceHolder
	if d.gpu != nil {
		name, closed, holders, left = "GPU "+strconv.Itoa(d.gpu.Index), d.gpu.Closed, d.gpu.Holders, percent(d.gpu.FreeMilli)+", "+memory(d.gpu.FreeMemoryMiB)
		p.bar(slicesBar{name, computeAt, computeWidth, y + 4, topology.FullGPU, closed != ""}, holders, func(h *deviceHolder) int64 { return int64(h.Milli) })
		p.bar(slicesBar{name, memoryAt, memoryWidth, y + 4, d.gpu.MemoryMiB, closed != ""}, holders, func(h *deviceHolder) int64 { return h.MemoryMiB })
	} else {
		name, closed, holders, left = "NIC "+strconv.Itoa(d.nic.Index), d.nic.Closed, d.nic.Holders, bandwidth(d.nic.FreeBandwidthMbit)
		p.bar(slicesBar{name, computeAt, computeWidth, y + 4, d.nic.BandwidthMbit, closed != ""}, holders, func(h *deviceHolder) int64 { return h.BandwidthMbit })
	}
	if note := cells[len(cells)-1]; note != "" {
		left += "; " + note
	}
	fmt.Fprintf(p, `<text x="%d" y="%d">%s</text>`, restAt, y+15, escaped(left, restLetters))
	for i := range holders {
		pod := holders[i].pod()
		p.held[pod] = append(p.held[pod], name+holders[i].share())
	}
}

// slicesBar is where a bar stands, and of what it is.
type slicesBar struct {
	device      string
	x, width, y int
	all         int64
	closed      bool
}

// bar is who holds how much of a device, each in the colour of the pod, and what is free.
func (p *nodePicture) bar(at slicesBar, holders []deviceHolder, amount func(*deviceHolder) int64) {
	free := freeColour
	if at.closed {
		free = closedColour
	}
	fmt.Fprintf(p, `<rect x="%d" y="%d" width="%d" height="%d" fill="%s" stroke="%s"/>`, at.x, at.y, at.width, drawnHeight, free, lineColour)
	sum := int64(0)
	for i := range holders {
		h := &holders[i]
		colour, part := p.colour(h.pod()), min(amount(h), at.all-sum)
		if part <= 0 {
			continue
		}
		from, wide := float64(at.x)+float64(at.width)*float64(sum)/float64(at.all), float64(at.width)*float64(part)/float64(at.all)
		sum += part
		fmt.Fprintf(p, `<rect x="%.1f" y="%d" width="%.1f" height="%d" fill="%s" stroke="#fff" stroke-width=".5"><title>%s</title></rect>`,
			from, at.y, wide, drawnHeight, colour, escaped(at.device+": "+h.pod()+h.share(), headLetters))
		if letters := int((wide - 6) / letterWidth); letters >= min(utf8.RuneCountInString(h.Name), 6) {
			fmt.Fprintf(p, `<text x="%.1f" y="%d" style="fill:#fff">%s</text>`, from+3, at.y+11, escaped(h.Name, letters))
		}
	}
}

// colour is a pod's.
func (p *nodePicture) colour(pod string) string {
	at := slices.Index(p.pods, pod)
	if at < 0 {
		at = len(p.pods)
		p.pods = append(p.pods, pod)
	}
	list := colours()
	return list[at%len(list)]
}

// legend lists who holds what, from y on, and returns its height.
func (p *nodePicture) legend(y int) int {
	named := p.pods[:min(len(p.pods), maxPods)]
	for i, pod := range named {
		fmt.Fprintf(p, `<rect x="%d" y="%d" width="10" height="10" rx="2" fill="%s"/><text x="%d" y="%d"><tspan style="fill:#222">%s</tspan> %s</text>`,
			numaAt, y+i*podHeight+5, p.colour(pod), numaAt+16, y+i*podHeight+14, escaped(pod, podLetters), escaped(strings.Join(p.held[pod], ", "), podLetters))
	}
	lines := len(named)
	if more := len(p.pods) - lines; more > 0 {
		fmt.Fprintf(p, `<text x="%d" y="%d">and %d more pods</text>`, numaAt+16, y+lines*podHeight+14, more)
		lines++
	}
	return lines * podHeight
}

// drawCounts is how many GPUs of each model are in which state.
func drawCounts(models []gpuModel) template.HTML {
	states := [...]struct{ name, colour string }{
		{"idle", "#cfe3cf"}, {"shared", "#c8852b"}, {"divided", "#6d5ba8"}, {"held", "#1b6ca8"}, {"closed", closedColour},
	}
	const nameWidth, width = 190, pictureWidth - 200
	var b strings.Builder
	fmt.Fprintf(&b, `<figure><svg viewBox="0 0 %d %d" role="img" aria-label="GPUs of each model by state">`, pictureWidth, len(models)*lineHeight)
	for i := range models {
		m, x := &models[i], float64(nameWidth)
		fmt.Fprintf(&b, `<text class="left" x="%d" y="%d">%s</text>`, nameWidth-8, i*lineHeight+15, escaped(fmt.Sprintf("%s: %d", orDash(m.Model), m.GPUs), deviceLetters))
		for k, count := range []int{m.Idle, m.Shared, m.Divided, m.Held, m.Closed} {
			wide := width * float64(count) / float64(max(m.GPUs, 1))
			if count > 0 {
				fmt.Fprintf(&b, `<rect x="%.1f" y="%d" width="%.1f" height="%d" fill="%s" stroke="#fff"><title>%d %s</title></rect>`,
					x, i*lineHeight+4, wide, drawnHeight, states[k].colour, count, states[k].name)
			}
			x += wide
		}
	}
	b.WriteString("</svg><figcaption>")
	for _, s := range states {
		fmt.Fprintf(&b, `<span><i style="background:%s"></i>%s</span>`, s.colour, s.name)
	}
	b.WriteString("</figcaption></figure>")
	return template.HTML(b.String()) //nolint:gosec // what stands in it is escaped above
}

// escaped is a text as it may stand in a picture, cut to so many letters.
func escaped(text string, letters int) string {
	if runes := []rune(text); len(runes) > letters {
		text = string(runes[:max(letters-1, 0)]) + "…"
	}
	return template.HTMLEscapeString(text)
}
