package dashboard

import (
	"bytes"
	"context"
	"fmt"
	"image/png"
	"math/rand/v2"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/cluster/facts"
	"hilbert.dev/hilbert/resource"
	"hilbert.dev/hilbert/schedule"
	"hilbert.dev/hilbert/schedule/inspect"
	"hilbert.dev/hilbert/topology"
)

// TestBrowser opens pages in a browser, light, dark and narrow: each is drawn on the ground of its scheme, and the console stays empty. The pictures are kept in the
// directory that HILBERT_SCREENSHOTS names.
func TestBrowser(t *testing.T) {
	dir := os.Getenv("HILBERT_SCREENSHOTS")
	if dir == "" {
		t.Skip("it starts a browser twelve times: make screenshots")
	}
	chromium, err := exec.LookPath("chromium")
	if err != nil {
		t.Fatal("there is no chromium in the PATH (Debian's package of that name)")
	}
	source := &fake{dump: busy(t, 600, noon)}
	source.Source = File("a made-up cluster", source.dump)
	s := New(source, Options{Now: func() time.Time { return source.dump.Taken.Add(4 * time.Second) }})
	for i := range 60 { // a history
		source.dump = busy(t, 600, noon.Add(time.Duration(i)*10*time.Second))
		s.Ask(t.Context())
	}
	web := httptest.NewServer(s)
	t.Cleanup(web.Close)
	for _, look := range []struct {
		name, scheme  string
		width, height int
	}{{"light", "1", 1040, 1150}, {"dark", "0", 1040, 1150}, {"narrow", "1", 420, 1500}} {
		for _, page := range []string{"", "nodes", "nodes/n0000", "waiting"} {
			name := strings.Trim(fmt.Sprintf("dashboard-%s-%s.png", strings.ReplaceAll(page, "/", "-"), look.name), "-")
			if page == "" {
				name = "dashboard-" + look.name + ".png"
			}
			file := filepath.Join(dir, name)
			address := strings.Replace(s.Address(strings.TrimPrefix(web.URL, "http://")), "/?", "/"+page+"?", 1)
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			cmd := exec.CommandContext(ctx, chromium, "--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--enable-logging=stderr", "--timeout=2000",
				"--user-data-dir="+t.TempDir(), "--blink-settings=preferredColorScheme="+look.scheme, fmt.Sprintf("--window-size=%d,%d", look.width, look.height),
				"--screenshot="+file, address)
			said, err := cmd.CombinedOutput()
			cancel()
			if err != nil {
				t.Fatalf("%s: %v: %s", name, err, said)
			}
			for line := range strings.Lines(string(said)) {
				if strings.Contains(line, "CONSOLE") {
					t.Errorf("%s: %s", name, line)
				}
			}
			holdDrawn(t, file, look.scheme == "0")
		}
	}
}

// holdDrawn fails the test if a picture is empty, or not of the ground that its scheme has.
func holdDrawn(t *testing.T, file string, dark bool) {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	picture, err := png.Decode(bytes.NewReader(text))
	if err != nil {
		t.Fatalf("%s: %v", file, err)
	}
	colours := make(map[[3]uint32]int)
	bounds := picture.Bounds()
	for y := bounds.Min.Y; y < bounds.Max.Y; y += 3 {
		for x := bounds.Min.X; x < bounds.Max.X; x += 3 {
			r, g, b, _ := picture.At(x, y).RGBA()
			colours[[3]uint32{r, g, b}]++
		}
	}
	ground, most := [3]uint32{}, 0
	for colour, n := range colours {
		if n > most {
			ground, most = colour, n
		}
	}
	if len(colours) < 10 || (ground[0] < 0x8000) != dark {
		t.Errorf("%s has %d colours on a ground of %x", file, len(colours), ground)
	}
}

// busy is a cluster whose services follow a tide, and whose reclaimed pods take what is left; the same for a time.
func busy(t testing.TB, nodes int, at time.Time) *inspect.Dump {
	t.Helper()
	s, err := schedule.New(schedule.Options{Config: spec.Default().Scheduling})
	if err != nil {
		t.Fatal(err)
	}
	rng := rand.New(rand.NewPCG(5, 6))
	tide := float64(at.Sub(noon)) / float64(10*time.Minute)
	put := func(uid, namespace, node, level string, cpu, memory int64, gpus int8) {
		r := &facts.Requirements{Requests: []resource.Quantity{{Name: resource.NameCPU, Amount: cpu}, {Name: resource.NameMemory, Amount: memory}}}
		if level == string(spec.QoSReclaimed) {
			r = &facts.Requirements{Reclaimed: true, Requests: []resource.Quantity{{Name: spec.ResourceReclaimedCPU, Amount: cpu}, {Name: spec.ResourceReclaimedMemory, Amount: memory}}}
		}
		r.GPU = topology.Request{Whole: gpus}
		s.Apply(facts.PodUpserted{Pod: facts.Pod{
			UID: facts.UID(uid), Namespace: namespace, Name: uid, Ours: true, Node: node, Requirements: r, Created: at.Add(-time.Hour).UnixNano(),
			Labels: []facts.Label{{Key: spec.LabelQoS, Value: level}},
		}}, at)
	}
	for i := range nodes {
		name := fmt.Sprintf("n%04d", i)
		cpus := int64(32_000) << rng.IntN(3)
		node := &facts.Node{Name: name, Unschedulable: i%97 == 5, Allocatable: []resource.Quantity{
			{Name: resource.NameCPU, Amount: cpus}, {Name: resource.NameMemory, Amount: cpus / 1000 * 4 * gib}, {Name: resource.NamePods, Amount: 110},
		}}
		if i%5 == 0 {
			node.GPU = topology.Shape{GPUs: 8, Model: "A100", Shareable: true}
		}
		s.Apply(facts.NodeUpserted{Node: node}, at)
		asked := int64(float64(cpus) * (0.4 + 0.55*rng.Float64()))
		used := int64(float64(asked) * (0.2 + 0.3*tide + 0.1*rng.Float64()))
		put(fmt.Sprintf("web-%d", i), "shop", name, string(spec.QoSShared), asked/2, asked/2/1000*3*gib, 0)
		put(fmt.Sprintf("search-%d", i), "search", name, string(spec.QoSDedicated), asked/2/1000*1000, asked/2/1000*2*gib, 0)
		if i%5 == 0 {
			put(fmt.Sprintf("train-%d", i), "ml", name, string(spec.QoSShared), 1000, 4*gib, int8(1+rng.IntN(7)))
		}
		report := &facts.NodeReport{
			Headroom: facts.Headroom{State: facts.HeadroomOpen, MilliCPU: (cpus - used) / 2, Memory: cpus / 1000 * gib},
			Usage:    facts.Usage{MilliCPU: used, Memory: asked / 1000 * 2 * gib, Since: 1},
		}
		if i%40 == 7 {
			report.Evictions = []facts.EvictionRequest{{UID: facts.UID(fmt.Sprintf("batch-%d", i)), Namespace: "ml", Name: fmt.Sprintf("batch-%d", i), Reason: "MemoryPressure", Message: "6 % of memory is left"}}
		}
		if i%60 == 11 {
			report = &facts.NodeReport{Headroom: facts.Headroom{State: facts.HeadroomClosed, Note: "a pod was evicted 2 minutes ago"}}
		}
		s.Apply(facts.NodeReported{Node: name, Report: report}, at)
		put(fmt.Sprintf("batch-%d", i), "ml", name, string(spec.QoSReclaimed), int64(float64(cpus-used)*0.4), cpus/1000*gib/2, 0)
	}
	for i := range 30 {
		put(fmt.Sprintf("wide-%d", i), "ml", "", string(spec.QoSShared), 200_000, gib, 0)
	}
	s.Step(at, 1000)
	return inspect.Take(s, "hilbert", at)
}
