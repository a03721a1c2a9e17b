package report

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/html"
)

var rewrite = flag.Bool("rewrite", false, "write the golden files anew")

func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *rewrite {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("%s differs (go test -rewrite, then review the diff); got:\n%s", path, got)
	}
}

func render(t *testing.T, r *Run) string {
	t.Helper()
	var b bytes.Buffer
	if err := WriteHTML(&b, r); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func TestText(t *testing.T) {
	for name, run := range map[string]*Run{"full.txt": synthetic(50, 500), "empty.txt": {Title: "Demo"}, "partial.txt": partialRun()} {
		t.Run(name, func(t *testing.T) {
			var b strings.Builder
			if err := Summarise(run).WriteText(&b); err != nil {
				t.Fatal(err)
			}
			golden(t, name, b.String())
		})
	}
}

func TestJSON(t *testing.T) {
	for name, run := range map[string]*Run{"full.json": synthetic(50, 500), "empty.json": {Title: "Demo"}} {
		t.Run(name, func(t *testing.T) {
			var b strings.Builder
			if err := Summarise(run).WriteJSON(&b); err != nil {
				t.Fatal(err)
			}
			golden(t, name, b.String())
		})
	}
}

// partialRun ended early, with one pod that the scheduler said nothing about.
func partialRun() *Run {
	r := synthetic(1, 1)
	r.Partial = "the control plane died: no space left on device"
	r.Elapsed = 3 * time.Second
	r.Samples = []Sample{{At: time.Second, Created: 2, Bound: 1, Pending: 1, Running: 1, Online: Amount{CPU: 500}}}
	r.BoundAt, r.Waits = []time.Duration{time.Second}, []time.Duration{12 * time.Millisecond}
	r.Unplaced = []Unplaced{{Pods: 1, Example: "default/quiet"}}
	return r
}

// outline is a page's elements and texts, one a line, without the geometry of the drawings and the cells of the map.
func outline(t *testing.T, page string) string {
	t.Helper()
	root, err := html.Parse(strings.NewReader(page))
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	var walk func(n *html.Node, depth int)
	walk = func(n *html.Node, depth int) {
		switch {
		case n.Type == html.TextNode && strings.TrimSpace(n.Data) != "":
			b.WriteString(strings.Repeat(" ", depth) + "“" + strings.Join(strings.Fields(n.Data), " ") + "”\n")
			return
		case n.Type == html.ElementNode:
			b.WriteString(strings.Repeat(" ", depth) + n.Data)
			for _, a := range n.Attr {
				switch a.Key {
				case "id", "class", "role", "aria-label":
					b.WriteString(" " + a.Key + "=" + a.Val)
				}
			}
			b.WriteByte('\n')
			if n.Data == "style" || n.Data == "script" || n.Data == "svg" {
				return
			}
		}
		for c := n.FirstChild; c != nil; c = c.NextSibling {
			walk(c, depth+1)
		}
	}
	walk(root, -1)
	return b.String()
}

func TestPageStructure(t *testing.T) {
	golden(t, "outline.txt", outline(t, render(t, synthetic(6, 60))))
}

func TestPageLoadsNothing(t *testing.T) {
	page := render(t, synthetic(50, 500))
	for _, reference := range []string{`\bsrc\s*=`, `\bhref\s*=`, `url\(`, `@import`, `https?:`, `//[a-z]+\.`, `\bfetch\b`, `XMLHttp`, `\bimport\b`} {
		if at := regexp.MustCompile(reference).FindString(page); at != "" {
			t.Errorf("the page holds %q: it must load nothing", at)
		}
	}
}

func TestPageSizeIsBounded(t *testing.T) {
	const limit = 1_500_000
	for _, nodes := range []int{5000, 40_000} {
		r := synthetic(nodes, 20_000)
		for i := range r.Nodes {
			r.Nodes[i].Name = strings.Repeat("n", 40) + r.Nodes[i].Name
		}
		for len(r.Samples) < 20_000 {
			r.Samples = append(r.Samples, r.Samples[:400]...)
		}
		if size := len(render(t, r)); size > limit {
			t.Errorf("%d nodes: the page has %d bytes, want at most %d", nodes, size, limit)
		}
	}
}

func TestEveryNodeHasItsCell(t *testing.T) {
	cell := regexp.MustCompile(`<i class="p\d+ f\d+( g)?">`)
	r := synthetic(1000, 100)
	cells := cell.FindAllStringSubmatch(render(t, r), -1)
	gpus, want := 0, 0
	for _, c := range cells {
		if c[1] != "" {
			gpus++
		}
	}
	for _, n := range r.Nodes {
		if n.GPUModel != "" {
			want++
		}
	}
	if len(cells) != 1000 || gpus != want {
		t.Errorf("%d cells, %d of them with GPUs; want 1000 and %d", len(cells), gpus, want)
	}
	if !strings.Contains(render(t, r), r.Nodes[17].Name) {
		t.Errorf("no mention of %s", r.Nodes[17].Name)
	}
}

func TestHostileTextIsHarmless(t *testing.T) {
	const bad = `</script><script>alert(1)</script>"><img onerror=x>`
	r := synthetic(3, 30)
	r.Title, r.Source, r.Partial, r.Notes = bad, bad, bad, []string{bad}
	r.Nodes[0].Name, r.Nodes[0].Group, r.Nodes[0].Machine, r.Nodes[0].GPUModel = bad, bad, bad, bad
	r.Workloads[0].Name = bad
	r.Unplaced[0] = Unplaced{Reason: bad, Message: bad, Example: bad, Pods: 1}
	page := render(t, r)
	if n := strings.Count(page, "<script"); n != 2 {
		t.Errorf("%d script elements, want the page's own 2", n)
	}
	if strings.Contains(page, "<img") {
		t.Error("an element of a name became an element of the page")
	}
}

// FuzzPage feeds figures that no cluster has: the page must come out whole all the same.
func FuzzPage(f *testing.F) {
	f.Add(0, 0, int64(0), int64(0), int64(0))
	f.Add(1, 1, int64(1e9), int64(4000), int64(9000))
	f.Add(3, 5000, int64(-1e9), int64(-1), int64(1<<62))
	f.Fuzz(func(t *testing.T, nodes, samples int, at, offered, used int64) {
		r := &Run{Title: "Demo", Elapsed: time.Duration(at)}
		for range min(max(nodes, 0), 40) {
			n := Node{Name: "n", Allocatable: Amount{CPU: offered, Memory: offered, GPU: offered}}
			n.Fullest.Offline, n.Final.Online = Amount{CPU: used, GPU: -used}, Amount{CPU: -used}
			r.Nodes = append(r.Nodes, n)
		}
		for i := range min(max(samples, 0), 900) {
			amount := Amount{CPU: used, Memory: used / 2, GPU: -used}
			r.Samples = append(r.Samples, Sample{At: time.Duration(at / int64(i+1)), Created: int(used), Pending: int(-used), Online: amount, Offline: amount})
			r.Waits, r.BoundAt = append(r.Waits, time.Duration(used)), append(r.BoundAt, time.Duration(at))
		}
		page := render(t, r)
		if !strings.HasSuffix(strings.TrimSpace(page), "</html>") {
			t.Error("the page is not whole")
		}
		if at := regexp.MustCompile(`\bNaN\b|[+-]Inf`).FindString(page); at != "" {
			t.Errorf("the page holds %s", at)
		}
		if _, err := html.Parse(strings.NewReader(page)); err != nil {
			t.Error(err)
		}
	})
}
