package report

import (
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// syntheticMorning is a record of a morning that never was.
func syntheticMorning() *Colocation {
	half, most, longest := 6.0, 17.0, 80.0
	c := &Colocation{
		Tide: "a made-up morning", Nodes: 10, CPUs: 640, Seconds: 1800, Speed: 9.8, SlowestStep: 140, Lending: true,
		Hilbert:     Side{UsedPercent: 71.5, OnlinePercent: 32.25, OfflinePercent: 39.25, MissedPercent: 0.4, JobsDone: 210, OfflineHours: 80.5},
		Requests:    Side{UsedPercent: 39, OnlinePercent: 31, OfflinePercent: 8, JobsDone: 120, OfflineHours: 22.1},
		LentPercent: 44, AllocatedPercent: 89.06, Evictions: 3,
		Rush:   Rush{At: 1200, Seconds: 180, Factor: 1.5, Nodes: 10, CPUs: 164, Half: &half, Median: &most, Longest: &longest, Waited: 2, Evicted: 3, LentAt: 260, LentLess: 96},
		Queues: []QueueDone{{"analytics", 90, 80, 70, 1}, {"training", 180, 160, 140, 2}},
		Gang:   &Gang{Members: 4, Bound: 4, Racks: []string{"rack-1"}, Waited: 2}, Slice: &Slice{Milli: 300, Node: "gpu-0", GPU: "0:300"},
		Notes: []string{"The machines below the agents are a <model>."}, Day: &Day{Nodes: 4},
	}
	for at := 5; at <= c.Seconds; at += 5 {
		s := CoSample{At: at, Online: 20 + 20/(1+math.Exp(-float64(at-900)/200)), Waiting: 4}
		s.Lent = 85 - 1.3*s.Online
		if at > 1200 && at <= 1380 {
			s.Online, s.Lent, s.Evicted = s.Online*1.5, s.Lent/2, 3
		}
		s.Offline, s.Control = s.Lent*0.95, s.Online*0.95+8
		if at/60 == 20 {
			s.Missed = 12
		}
		c.Samples = append(c.Samples, s)
	}
	for i := range c.Nodes {
		n := CoNode{Name: fmt.Sprintf("node-%05d", i), Rack: fmt.Sprintf("rack-%d", i/5), CPUs: 64}
		for k, second := range []int{1200, 1380, 1800} {
			n.At = append(n.At, CoNodeUse{Second: second, Online: 22 + float64(i+10*(k%2)), Offline: 20 - 8*float64(k%2), Lent: 24 - 10*(k%2), Jobs: 5})
		}
		c.Map = append(c.Map, n)
	}
	for i := range 96 {
		tide := 25 - 12*math.Cos(2*math.Pi*float64(i)/96)
		c.Day.Hilbert, c.Day.Requests = append(c.Day.Hilbert, 40+tide), append(c.Day.Requests, 8+tide)
	}
	return c
}

func withMorning() *Run {
	r := synthetic(6, 60)
	r.Colocation = syntheticMorning()
	return r
}

func TestMorningOnThePage(t *testing.T) {
	page := render(t, withMorning())
	golden(t, "morning-outline.txt", outline(t, page))
	for name, words := range map[string]string{
		"with and without": "without: 39.0 %", "lent": "lent 58.7 %", "the moment": ">all want more<", "a node": "services use 22.0 of 64 CPUs, 5 jobs 20.0 of 24 lent",
		"the day says whose it is": "A day, simulated", "a note is escaped": "a &lt;model&gt;",
	} {
		if !strings.Contains(page, words) {
			t.Errorf("%s: the page does not say %q", name, words)
		}
	}
}

func TestMorningAsText(t *testing.T) {
	var text, figures strings.Builder
	s := Summarise(withMorning())
	if err := s.WriteText(&text); err != nil {
		t.Fatal(err)
	}
	if err := s.WriteJSON(&figures); err != nil {
		t.Fatal(err)
	}
	golden(t, "morning.txt", text.String())
	golden(t, "morning.json", figures.String())
}

// A morning that was interrupted at once, and one without lending, are pages too.
func TestPoorMornings(t *testing.T) {
	r := synthetic(1, 1)
	r.Colocation = &Colocation{Nodes: 5, CPUs: 320, Partial: "interrupted", Day: &Day{}, Map: []CoNode{{Name: "n", CPUs: 64}}}
	page := render(t, r)
	if !strings.Contains(page, "nothing was given back") || !strings.Contains(page, "interrupted") || strings.Contains(page, "NaN") {
		t.Error("it does not say that nothing was given back, or why it ended")
	}
}

// TestScreenshots takes pictures of the page, light, dark and narrow, in the directory that HILBERT_SCREENSHOTS names: of a demo's page, which
// HILBERT_DEMO_PAGE names, or of a made-up one.
func TestScreenshots(t *testing.T) {
	dir := os.Getenv("HILBERT_SCREENSHOTS")
	if dir == "" {
		t.Skip("it starts a browser: make screenshots")
	}
	chromium, err := exec.LookPath("chromium")
	if err != nil {
		t.Fatal("there is no chromium in the PATH (Debian's package of that name)")
	}
	page := os.Getenv("HILBERT_DEMO_PAGE")
	if page == "" {
		page = filepath.Join(t.TempDir(), "demo.html")
		if err := os.WriteFile(page, []byte(render(t, withMorning())), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, look := range []struct {
		name, scheme  string
		width, height int
	}{{"demo", "1", 1280, 1320}, {"demo-dark", "0", 1280, 1320}, {"demo-narrow", "1", 420, 2400}} {
		file := filepath.Join(dir, look.name+".png")
		said, err := exec.CommandContext(t.Context(), chromium, "--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--enable-logging=stderr",
			"--user-data-dir="+t.TempDir(), "--blink-settings=preferredColorScheme="+look.scheme, fmt.Sprintf("--window-size=%d,%d", look.width, look.height),
			"--screenshot="+file, "file://"+page).CombinedOutput()
		if err != nil {
			t.Fatalf("%s: %v: %s", look.name, err, said)
		}
		if strings.Contains(string(said), "CONSOLE") {
			t.Errorf("%s: %s", look.name, said)
		}
		if info, err := os.Stat(file); err != nil || info.Size() < 10_000 {
			t.Errorf("%s: %v: no picture, or an empty one", look.name, err)
		}
	}
}
