package report

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"html/template"
	"io"
	"slices"
	"strings"
	"time"
)

var (
	//go:embed page.html
	pageHTML string
	//go:embed page.css
	pageCSS string
	//go:embed page.js
	pageJS string
)

const (
	// maxRows bounds each table of the page; the JSON has all rows.
	maxRows = 40
	// maxLetters bounds a text in a table or a note.
	maxLetters = 600
)

// view is what the page shows.
type view struct {
	run      *Run
	summary  *Summary
	capacity Amount
	samples  []Sample // thinned
	times    []float64
	allTimes []float64 // of all samples
	end      float64   // of the time axis, seconds
	percent  scale
}

func newView(r *Run) *view {
	v := &view{run: r, summary: Summarise(r), capacity: r.Capacity(), samples: thin(r.Samples, maxPoints), allTimes: times(r.Samples)}
	v.times = times(v.samples)
	v.end = r.Elapsed.Seconds()
	if len(v.times) > 0 {
		v.end = max(v.end, v.times[len(v.times)-1])
	}
	v.percent = percentScale(v.mostPercent())
	return v
}

// mostPercent is the highest of all utilisation curves: they share one axis, so that they can be compared.
func (v *view) mostPercent() float64 {
	most := 0.0
	for _, of := range []func(Amount) int64{cpuOf, memoryOf, gpuOf} {
		all := of(v.capacity)
		if all <= 0 {
			continue
		}
		for _, s := range v.samples {
			most = max(most, 100*float64(of(s.Online.Plus(s.Offline)))/float64(all))
		}
	}
	return most
}

// tile is one key figure on top of the page.
type tile struct {
	Label, Value, Unit, Detail string
	Bar                        bool
	Online, Offline            float64 // percent of the bar
}

func (v *view) tiles() []tile {
	s := v.summary
	out := []tile{{Label: "Pods bound", Value: count(s.PodsBound), Detail: "of " + count(s.PodsCreated) + " created"}}
	speed := tile{Label: "Binding rate", Value: "–", Detail: "nothing was bound"}
	if s.PodsPerSecond != nil {
		speed = tile{Label: "Binding rate", Value: fmt.Sprintf("%.0f", *s.PodsPerSecond), Unit: "pods/s", Detail: "best second " + count(s.BestPodsPerSecond)}
	}
	wait := tile{Label: "Creation to binding", Value: "–", Detail: "nothing was bound"}
	if q := s.CreationToBinding; q != nil {
		wait = tile{Label: "Creation to binding", Detail: "p99 " + formatMillis(q.P99)}
		wait.Value, wait.Unit, _ = strings.Cut(formatMillis(q.P50), " ")
		wait.Unit += " median"
	}
	out = append(out, speed, wait)
	for _, resource := range []struct {
		name  string
		share *Share
	}{{"CPU allocated", s.CPU}, {"Memory allocated", s.Memory}, {"GPU allocated", s.GPU}} {
		if share := resource.share; share != nil {
			out = append(out, tile{
				Label: resource.name, Value: fmt.Sprintf("%.1f", share.Peak), Unit: "% at the peak", Detail: fmt.Sprintf("%.1f %% at the end", share.Final),
				Bar: true, Online: min(share.Online, 100), Offline: min(share.Offline, 100-min(share.Online, 100)),
			})
		}
	}
	return out
}

func (v *view) charts() (utilisation, flow []chart) {
	s := v.summary
	cores := func(milli int64) string { return decimal(float64(milli)/1000) + " cores" }
	bytes := func(n int64) string { return decimal(float64(n)/(1<<30)) + " GiB" }
	gpus := func(milli int64) string { return decimal(float64(milli)/1000) + " GPUs" }
	if v.capacity.CPU > 0 {
		utilisation = append(utilisation, v.utilisation("cpu", "CPU", cpuOf, s.CPU, cores))
	}
	if v.capacity.Memory > 0 {
		utilisation = append(utilisation, v.utilisation("memory", "Memory", memoryOf, s.Memory, bytes))
	}
	if v.capacity.GPU > 0 {
		utilisation = append(utilisation, v.utilisation("gpu", "GPU", gpuOf, s.GPU, gpus))
	}
	return utilisation, []chart{v.queue(), v.rate(), v.waits()}
}

// decimal writes a large number whole and a small one with a digit after the point.
func decimal(x float64) string {
	if x >= 100 || x == float64(int64(x)) {
		return count(int(x + .5))
	}
	return fmt.Sprintf("%.1f", x)
}

// page is the argument of the template.
type page struct {
	Title, Lead, Partial string
	Facts, Notes         []string
	Morning              *morning // nil: none was played
	Tiles                []tile
	Utilisation, Flow    []chart
	Map                  *nodeMap
	FullestAt            string
	Workloads            []workloadRow
	MoreWorkloads        int
	Unplaced             []Unplaced
	MoreUnplaced         int
	CSS                  template.CSS
	JS                   template.JS
	Data                 template.JS // JSON, in a script element that is not run
}

// WriteHTML writes the page.
func WriteHTML(w io.Writer, r *Run) error {
	v := newView(r)
	p := page{
		Title: r.Title, Partial: clip(r.Partial), Tiles: v.tiles(), Map: newNodeMap(r.Nodes), FullestAt: formatSeconds(r.FullestAt.Seconds()),
		CSS: template.CSS(pageCSS), JS: template.JS(pageJS),
	}
	p.Lead = fmt.Sprintf("%s on %s in %s", plural(v.summary.PodsCreated, "pod"), plural(len(r.Nodes), "node"), formatSeconds(v.summary.Seconds))
	p.Facts = v.facts()
	p.Morning = newMorning(r.Colocation)
	for _, note := range r.Notes[:min(len(r.Notes), maxRows)] {
		p.Notes = append(p.Notes, clip(note))
	}
	p.Utilisation, p.Flow = v.charts()
	p.Workloads, p.MoreWorkloads = v.workloads()
	for _, u := range r.Unplaced[:min(len(r.Unplaced), maxRows)] {
		p.Unplaced = append(p.Unplaced, Unplaced{Reason: clip(u.reason()), Message: clip(u.message()), Pods: u.Pods, Example: clip(u.Example)})
	}
	p.MoreUnplaced = len(r.Unplaced) - len(p.Unplaced)
	data, err := pageData(&p)
	if err != nil {
		return err
	}
	p.Data = template.JS(data)
	t, err := template.New("page").Funcs(template.FuncMap{"count": count}).Parse(pageHTML)
	if err != nil {
		return fmt.Errorf("parse the page's template: %w", err)
	}
	if err := t.Execute(w, &p); err != nil {
		return fmt.Errorf("write the page: %w", err)
	}
	return nil
}

// pageData is what the script reads. encoding/json escapes <, > and &, so that it cannot end the script element.
func pageData(p *page) ([]byte, error) {
	charts := make(map[string]hover)
	shown := slices.Concat(p.Utilisation, p.Flow)
	if p.Morning != nil {
		shown = append(shown, p.Morning.Charts...)
	}
	for _, c := range shown {
		charts[c.ID] = c.hover
	}
	data, err := json.Marshal(map[string]any{"charts": charts, "shapes": p.Map.Shapes, "nodes": p.Map.Nodes})
	if err != nil {
		return nil, fmt.Errorf("encode the page's data: %w", err)
	}
	return data, nil
}

func (v *view) facts() []string {
	var out []string
	for _, fact := range []string{v.run.Source, v.run.Scheduler, v.run.Kubernetes} {
		if fact != "" {
			out = append(out, clip(fact))
		}
	}
	if !v.run.Started.IsZero() {
		out = append(out, v.run.Started.UTC().Format(time.DateTime)+" UTC")
	}
	return out
}

// workloadRow is a line of the table of workloads.
type workloadRow struct {
	Workload
	Kind, CPU, Memory, GPU string
	PriorityText           string
	Percent                float64 // of the created ones, bound
}

func (v *view) workloads() (rows []workloadRow, more int) {
	for _, w := range v.run.Workloads[:min(len(v.run.Workloads), maxRows)] {
		w.Name = clip(w.Name)
		row := workloadRow{Workload: w, Kind: "online", PriorityText: count(int(w.Priority)), CPU: decimal(float64(w.Each.CPU) / 1000), Memory: decimal(float64(w.Each.Memory) / (1 << 30)), GPU: "–"}
		if w.Offline {
			row.Kind = "offline"
		}
		if w.Each.GPU > 0 {
			row.GPU = fmt.Sprintf("%g", float64(w.Each.GPU)/1000)
		}
		if w.Varied {
			row.CPU, row.Memory, row.GPU = "varies", "varies", "varies"
		}
		if w.Created > 0 {
			row.Percent = 100 * float64(w.Bound) / float64(w.Created)
		}
		rows = append(rows, row)
	}
	return rows, len(v.run.Workloads) - len(rows)
}

func clip(s string) string {
	letters := []rune(s)
	if len(letters) <= maxLetters {
		return s
	}
	return string(letters[:maxLetters-1]) + "…"
}
