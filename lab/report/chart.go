package report

import (
	"fmt"
	"html/template"
	"math"
	"slices"
	"time"

	draw "hilbert.dev/hilbert/internal/report"
)

const (
	// maxPoints bounds the points of a curve.
	maxPoints = 320
	// maxBins bounds the bars of the binding rate.
	maxBins = 120
	// binsPerDecade is how finely waits are sorted.
	binsPerDecade = 8
)

// chart is one card of the page.
type chart struct {
	ID     string
	Title  string
	Figure string // the one number to remember, with its unit
	Detail string
	SVG    template.HTML
	hover  hover
}

// hover is what the page's script needs to point at a chart: positions along x and what to say at each.
type hover struct {
	X    []float64  `json:"x"`
	Says [][]string `json:"says"` // the first line is the place, the others "name value"
}

// thin returns at most n samples, evenly spread, with the first, the last and the peak of each resource among them.
func thin(samples []Sample, n int) []Sample {
	if len(samples) <= n {
		return samples
	}
	keep := []int{0, len(samples) - 1, peakSample(samples, cpuOf), peakSample(samples, memoryOf), peakSample(samples, gpuOf)}
	spread := n - len(keep)
	for i := range spread {
		keep = append(keep, i*len(samples)/spread)
	}
	slices.Sort(keep)
	keep = slices.Compact(keep)
	out := make([]Sample, len(keep))
	for i, k := range keep {
		out[i] = samples[k]
	}
	return out
}

func times(samples []Sample) []float64 {
	out := make([]float64, len(samples))
	for i, s := range samples {
		out[i] = s.At.Seconds()
	}
	return out
}

// utilisation is the share of one resource over time, online below, offline above.
func (v *view) utilisation(id, title string, of func(Amount) int64, share *Share, unit func(int64) string) chart {
	all := of(v.capacity)
	n := len(v.samples)
	zero, online, total := make([]float64, n), make([]float64, n), make([]float64, n)
	p := newPanel(timeScale(v.end), v.percent)
	c := chart{ID: id, Title: title}
	for i, s := range v.samples {
		online[i] = 100 * float64(of(s.Online)) / float64(all)
		total[i] = online[i] + 100*float64(of(s.Offline))/float64(all)
		c.hover.add(p.x.at(v.times[i]), formatSeconds(v.times[i]),
			fmt.Sprintf("online %s (%.1f %%)", unit(of(s.Online)), online[i]),
			fmt.Sprintf("offline %s (%.1f %%)", unit(of(s.Offline)), total[i]-online[i]),
			fmt.Sprintf("together %.1f %%", total[i]))
	}
	p.band("offline", v.times, online, total)
	p.band("online", v.times, zero, online)
	p.curve("edge", v.times, total)
	c.Figure, c.Detail = "–", "no samples"
	if n > 0 {
		peak := v.samples[peakSample(v.samples, of)]
		p.marker(peak.At.Seconds(), "peak", 0)
		c.Figure = fmt.Sprintf("%.1f %%", share.Peak)
		used := of(peak.Online.Plus(peak.Offline))
		c.Detail = fmt.Sprintf("%s of %s", unit(used), unit(all))
	}
	c.SVG = p.svg(id, fmt.Sprintf("%s over time: %s at the peak, %s.", title, c.Figure, c.Detail))
	return c
}

func (h *hover) add(x float64, says ...string) {
	h.X = append(h.X, round(x, 1))
	h.Says = append(h.Says, says)
}

// queue is the pods that wait for a node, over time.
func (v *view) queue() chart {
	n := len(v.samples)
	zero, pending := make([]float64, n), make([]float64, n)
	for i, s := range v.samples {
		pending[i] = float64(s.Pending)
	}
	p := newPanel(timeScale(v.end), countScale(float64(v.summary.MostPending)))
	c := chart{ID: "queue", Title: "Waiting for a node", Figure: count(v.summary.MostPending), Detail: "pods at most"}
	for i, s := range v.samples {
		c.hover.add(p.x.at(v.times[i]), formatSeconds(v.times[i]), "waiting "+count(s.Pending), "created "+count(s.Created), "bound "+count(s.Bound))
	}
	p.band("queue", v.times, zero, pending)
	p.curve("queueline", v.times, pending)
	c.SVG = p.svg(c.ID, fmt.Sprintf("Pods waiting for a node over time: %s at most, %s at the end.", c.Figure, count(v.summary.PodsPending)))
	return c
}

// rate is pods bound (bars) and created (line) per second, over time.
func (v *view) rate() chart {
	width := max(draw.Step(max(v.end, 1), maxBins), 1)
	bins := int(math.Ceil(max(v.end, 1)/width - 1e-9))
	edges, bound := make([]float64, bins+1), make([]float64, bins)
	for i := range edges {
		edges[i] = float64(i) * width
	}
	for _, at := range v.run.BoundAt {
		bound[min(max(int(at.Seconds()/width), 0), bins-1)] += 1 / width
	}
	created := v.createdRate(edges, width)
	most := 0.0
	for i := range bins {
		most = max(most, bound[i], created[i])
	}
	p := newPanel(timeScale(v.end), countScale(most))
	c := chart{ID: "rate", Title: "Bound per second", Figure: count(v.summary.BestPodsPerSecond), Detail: "in the best second"}
	middles := make([]float64, bins)
	for i := range bins {
		middles[i] = edges[i] + width/2
		c.hover.add(p.x.at(middles[i]), formatSeconds(edges[i])+" to "+formatSeconds(edges[i]+width),
			fmt.Sprintf("bound %.0f /s", bound[i]), fmt.Sprintf("created %.0f /s", created[i]))
	}
	p.bars("bound", edges, bound)
	p.curve("created", middles, created)
	c.SVG = p.svg(c.ID, fmt.Sprintf("Pods bound per second over time: %s %s.", c.Figure, c.Detail))
	return c
}

// createdRate differentiates the count of created pods over the bins.
func (v *view) createdRate(edges []float64, width float64) []float64 {
	at := func(second float64) float64 {
		i, found := slices.BinarySearch(v.allTimes, second)
		switch {
		case found:
			return float64(v.run.Samples[i].Created)
		case i == 0:
			return 0
		case i == len(v.allTimes):
			return float64(v.run.Samples[i-1].Created)
		}
		before, after := v.run.Samples[i-1], v.run.Samples[i]
		part := (second - v.allTimes[i-1]) / (v.allTimes[i] - v.allTimes[i-1])
		return float64(before.Created) + part*float64(after.Created-before.Created)
	}
	out := make([]float64, len(edges)-1)
	for i := range out {
		out[i] = (at(edges[i+1]) - at(edges[i])) / width
	}
	return out
}

// waits is the distribution of the time from creation to binding.
func (v *view) waits() chart {
	c := chart{ID: "waits", Title: "Creation to binding", Figure: "–", Detail: "nothing was bound"}
	q := v.summary.CreationToBinding
	if q == nil {
		c.SVG = newPanel(waitScale(1, 1000), countScale(0)).svg(c.ID, "No pod was bound.")
		return c
	}
	least := float64(slices.Min(v.run.Waits)) / float64(time.Millisecond)
	x := waitScale(least, q.Max)
	decades := math.Log10(x.max / x.min)
	bins := int(math.Round(decades * binsPerDecade))
	edges, pods := make([]float64, bins+1), make([]float64, bins)
	for i := range edges {
		edges[i] = x.min * math.Pow(10, float64(i)/binsPerDecade)
	}
	for _, wait := range v.run.Waits {
		ms := max(float64(wait)/float64(time.Millisecond), shortestWait)
		pods[min(max(int(math.Log10(ms/x.min)*binsPerDecade), 0), bins-1)]++
	}
	p := newPanel(x, countScale(slices.Max(pods)/.72)) // room for the markers' labels
	for i, n := range pods {
		c.hover.add(p.x.at(math.Sqrt(edges[i]*edges[i+1])), formatMillis(edges[i])+" to "+formatMillis(edges[i+1]), plural(int(n), "pod"))
	}
	p.bars("wait", edges, pods)
	p.marker(q.P50, "p50 "+formatMillis(q.P50), 0)
	p.marker(q.P90, "p90 "+formatMillis(q.P90), 1)
	p.marker(q.P99, "p99 "+formatMillis(q.P99), 2)
	c.Figure, c.Detail = formatMillis(q.P50), "median"
	c.SVG = p.svg(c.ID, fmt.Sprintf("Time from creation to binding of %s: p50 %s, p90 %s, p99 %s.",
		plural(len(v.run.Waits), "pod"), formatMillis(q.P50), formatMillis(q.P90), formatMillis(q.P99)))
	return c
}
