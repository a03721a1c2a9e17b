package report

import (
	"fmt"
	"html/template"
	"strconv"

	draw "hilbert.dev/hilbert/internal/report"
)

// morning is what the page shows of a Colocation.
type morning struct {
	Lead, Partial string
	Tiles         []tile
	Charts        []chart
	Moments       []moment
	Notes         []string
}

// moment is the nodes' CPUs at one moment.
type moment struct {
	Title, Detail string
	SVG           template.HTML
}

// newMorning is nil where there is nothing to show.
func newMorning(c *Colocation) *morning {
	if c == nil {
		return nil
	}
	m := &morning{
		Lead: fmt.Sprintf("%s with production agents on modelled machines: %s, played %.1f times as fast", plural(c.Nodes, "node"),
			formatSeconds(float64(c.Seconds)), c.Speed),
		Partial: clip(c.Partial), Tiles: c.tiles(), Charts: []chart{c.used(), c.missed()}, Moments: c.moments(),
	}
	if c.Day != nil {
		m.Charts = append(m.Charts, c.Day.chart())
	}
	if c.Day != nil {
		m.Notes = append(m.Notes, fmt.Sprintf("The curve of a whole day is the simulator's: the laws and the scheduler without agents, on %s and a made-up tide.", plural(c.Day.Nodes, "modelled machine")))
	}
	for _, note := range c.Notes[:min(len(c.Notes), maxRows)] {
		m.Notes = append(m.Notes, clip(note))
	}
	return m
}

func (c *Colocation) tiles() []tile {
	percent := func(x float64) string { return fmt.Sprintf("%.1f", x) }
	bar := func(t tile, s *Side) tile {
		t.Bar, t.Online, t.Offline = true, min(s.OnlinePercent, 100), min(s.OfflinePercent, 100-min(s.OnlinePercent, 100))
		return t
	}
	back := tile{Label: "Time to give back", Value: "–", Detail: "nothing was given back"}
	if r := &c.Rush; r.Half != nil && r.Median != nil {
		back = tile{
			Label: "Time to give back", Value: fmt.Sprintf("%.0f", *r.Half), Unit: "s for half",
			Detail: fmt.Sprintf("nine tenths of %d CPUs in %.0f s; services lacked CPUs for %d s", r.CPUs, *r.Median, r.Waited),
		}
	}
	return []tile{
		bar(tile{Label: "Used with Hilbert", Value: percent(c.Hilbert.UsedPercent), Unit: "% of all CPUs", Detail: percent(c.AllocatedPercent) + " % allocated by services"}, &c.Hilbert),
		bar(tile{Label: "Used without", Value: percent(c.Requests.UsedPercent), Unit: "% of all CPUs", Detail: "jobs get what services do not ask for"}, &c.Requests),
		{Label: "Lent", Value: percent(c.LentPercent), Unit: "% of all CPUs", Detail: percent(c.Hilbert.OfflineHours) + " CPU hours of jobs' work, " + percent(c.Requests.OfflineHours) + " without"},
		{Label: "Targets missed", Value: percent(c.Hilbert.MissedPercent), Unit: "%", Detail: percent(c.Requests.MissedPercent) + " % without, of services' minutes"},
		{Label: "Evictions", Value: count(c.Evictions), Detail: "of " + plural(c.started(), "job") + " that started"},
		back,
	}
}

// started is how many jobs did.
func (c *Colocation) started() (n int) {
	for _, q := range c.Queues {
		n += q.Started
	}
	return n
}

// used is what was used over time, with lending as areas and without as a line.
func (c *Colocation) used() chart {
	n := len(c.Samples)
	at, zero, online, total, lent, control := make([]float64, n), make([]float64, n), make([]float64, n), make([]float64, n), make([]float64, n), make([]float64, n)
	p := newPanel(timeScale(float64(c.Seconds)), percentScale(100))
	out := chart{ID: "co-used", Title: "Used", Figure: fmt.Sprintf("%.1f %%", c.Hilbert.UsedPercent), Detail: fmt.Sprintf("without: %.1f %%", c.Requests.UsedPercent)}
	for i, s := range c.Samples {
		at[i], online[i], total[i], lent[i], control[i] = float64(s.At), s.Online, s.Online+s.Offline, s.Lent, s.Control
		out.hover.add(p.x.at(at[i]), formatSeconds(at[i]), fmt.Sprintf("services %.1f %%", s.Online), fmt.Sprintf("jobs %.1f %%", s.Offline),
			fmt.Sprintf("lent %.1f %%", s.Lent), fmt.Sprintf("without Hilbert %.1f %%", s.Control))
	}
	p.band("offline", at, online, total)
	p.band("online", at, zero, online)
	p.curve("queueline", at, lent)
	p.curve("created", at, control)
	if c.Rush.Seconds > 0 {
		p.marker(float64(c.Rush.At), "all want more", 0)
	}
	out.SVG = p.svg(out.ID, fmt.Sprintf("Used over time, in percent of all CPUs: %s with Hilbert, %s.", out.Figure, out.Detail))
	return out
}

// missed is the share of services that missed their target in each minute.
func (c *Colocation) missed() chart {
	n := len(c.Samples)
	at, with, without := make([]float64, n), make([]float64, n), make([]float64, n)
	most := 1.0
	for i, s := range c.Samples {
		at[i], with[i], without[i] = float64(s.At), s.Missed, s.ControlMs
		most = max(most, s.Missed, s.ControlMs)
	}
	p := newPanel(timeScale(float64(c.Seconds)), percentScale(most))
	out := chart{ID: "co-missed", Title: "Missed their target", Figure: fmt.Sprintf("%.1f %%", c.Hilbert.MissedPercent), Detail: fmt.Sprintf("without: %.1f %%", c.Requests.MissedPercent)}
	for i, s := range c.Samples {
		out.hover.add(p.x.at(at[i]), formatSeconds(at[i]), fmt.Sprintf("with Hilbert %.1f %%", s.Missed), fmt.Sprintf("without %.1f %%", s.ControlMs),
			"evicted so far "+count(s.Evicted), "jobs waiting "+count(s.Waiting))
	}
	p.curve("queueline", at, with)
	p.curve("created", at, without)
	out.SVG = p.svg(out.ID, fmt.Sprintf("Services that missed their target in the last minute: %s with Hilbert, %s.", out.Figure, out.Detail))
	return out
}

// chart is the simulator's day.
func (d *Day) chart() chart {
	const quarter = 900
	p := newPanel(timeScale(float64(len(d.Hilbert)*quarter)), percentScale(100))
	out := chart{ID: "co-day", Title: "A day, simulated", Figure: fmt.Sprintf("%.1f %%", mean(d.Hilbert)), Detail: fmt.Sprintf("without: %.1f %%", mean(d.Requests))}
	n := min(len(d.Hilbert), len(d.Requests))
	at, zero := make([]float64, n), make([]float64, n)
	for i := range n {
		at[i] = float64(i * quarter)
		out.hover.add(p.x.at(at[i]), fmt.Sprintf("%02d:%02d", i/4, i%4*15), fmt.Sprintf("with Hilbert %.1f %%", d.Hilbert[i]), fmt.Sprintf("without %.1f %%", d.Requests[i]))
	}
	p.band("queue", at, zero, d.Hilbert[:n])
	p.curve("created", at, d.Requests[:n])
	out.SVG = p.svg(out.ID, fmt.Sprintf("Used over a whole day in the simulator, in percent of all CPUs: %s with Hilbert, %s.", out.Figure, out.Detail))
	return out
}

func mean(list []float64) float64 {
	sum := 0.0
	for _, x := range list {
		sum += x
	}
	return sum / float64(max(len(list), 1))
}

// maxBars bounds the nodes of the map.
const maxBars = 60

// moments are the nodes before the rush, at its end, and at the end of the morning.
func (c *Colocation) moments() (out []moment) {
	if len(c.Map) == 0 {
		return nil
	}
	titles := []string{"Before all want more", "While they do", "At the end"}
	nodes := c.Map[:min(len(c.Map), maxBars)]
	for i := range min(len(nodes[0].At), len(titles)) {
		const row, left, top = 9.0, 58.0, 4.0
		var d draw.Drawing
		lent, rack := 0, ""
		for k := range nodes {
			n := &nodes[k]
			use := &n.At[i]
			lent += use.Lent
			y := top + row*float64(k)
			if n.Rack != rack {
				rack = n.Rack
				d.Text(left-6, y+row-2, rack, draw.Class("tick"), draw.Anchor("end"))
			}
			cpus := func(x float64) float64 { return x / float64(n.CPUs) * (panelWidth - left - marginRight) }
			tip := draw.Tip(fmt.Sprintf("%s: services use %.1f of %d CPUs, %s %.1f of %d lent", n.Name, use.Online, n.CPUs, plural(use.Jobs, "job"), use.Offline, use.Lent))
			d.Rect(left, y, cpus(float64(n.CPUs)), row-2, draw.Class("track"), tip)
			d.Rect(left, y, cpus(use.Online), row-2, draw.Class("online"), tip)
			lentAt := left + cpus(float64(n.CPUs-use.Lent))
			d.Rect(lentAt, y, cpus(float64(use.Lent)), row-2, draw.Class("lentroom"), tip)
			d.Rect(lentAt, y, cpus(use.Offline), row-2, draw.Class("offline"), tip)
		}
		title := titles[i]
		out = append(out, moment{
			Title: title, Detail: fmt.Sprintf("at %s, %d CPUs lent", formatSeconds(float64(nodes[0].At[i].Second)), lent),
			SVG: d.SVG(panelWidth, top+row*float64(len(nodes))+top, title+": what the CPUs of "+strconv.Itoa(len(nodes))+" nodes do.", draw.Class("chart")),
		})
	}
	return out
}
