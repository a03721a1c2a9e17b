package bench

import (
	"encoding/json"
	"os"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
)

func TestParseStat(t *testing.T) {
	for name, test := range map[string]struct {
		stat string
		want time.Duration
		bad  bool
	}{
		"plain":                 {stat: "7 (etcd) S 1 7 7 0 -1 4 5 6 7 8 123 45 9 9 20 0 9", want: 1680 * time.Millisecond},
		"a name with anything":  {stat: "7 (a) S 9 ) S 1 7 7 0 -1 4 5 6 7 8 1 0 9 9 20 0 9", want: 10 * time.Millisecond},
		"too short":             {stat: "7 (etcd) S 1 7", bad: true},
		"no command":            {stat: "", bad: true},
		"times are not numbers": {stat: "7 (etcd) S 1 7 7 0 -1 4 5 6 7 8 x 45 9 9 20 0 9", bad: true},
	} {
		got, err := parseStat([]byte(test.stat))
		if (err != nil) != test.bad || got != test.want {
			t.Errorf("%s: got %s, %v; want %s, error %v", name, got, err, test.want, test.bad)
		}
	}
}

// TestOwnProcess holds the parsers against what the kernel says of this process.
func TestOwnProcess(t *testing.T) {
	stat, err := os.ReadFile("/proc/self/stat")
	if err != nil {
		t.Skip("no /proc")
	}
	before, err := parseStat(stat)
	if err != nil {
		t.Fatal(err)
	}
	for after := before; after < before+2*clockTick; {
		if stat, err = os.ReadFile("/proc/self/stat"); err != nil {
			t.Fatal(err)
		}
		if after, err = parseStat(stat); err != nil {
			t.Fatal(err)
		}
	}
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		t.Fatal(err)
	}
	if kib, err := parsePeak(string(status)); err != nil || kib < 1024 {
		t.Errorf("peak memory of this process: %d KiB, %v", kib, err)
	}
	if _, err := parsePeak("VmRSS: 5 kB\n"); err == nil {
		t.Error("a status without VmHWM has a peak")
	}
}

func TestChoose(t *testing.T) {
	all, err := choose(nil)
	if err != nil || len(all) != len(contestants) {
		t.Errorf("all: %d of %d, %v", len(all), len(contestants), err)
	}
	raw, err := choose([]string{"raw"})
	if err != nil || len(raw) != 3 {
		t.Errorf("raw: %v, %v; want its three concurrencies", raw, err)
	}
	if _, err := choose([]string{"volcano"}); err == nil || !strings.Contains(err.Error(), "kube-scheduler") {
		t.Errorf("unknown system: got %v, want the choices", err)
	}
}

func TestBadOptions(t *testing.T) {
	for name, test := range map[string]struct {
		options Options
		want    string
	}{
		"no nodes":        {Options{Pods: 10, Rounds: 1}, "--nodes"},
		"one pod":         {Options{Nodes: 1, Pods: 1, Rounds: 1}, "--pods"},
		"no rounds":       {Options{Nodes: 1, Pods: 2}, "--rounds"},
		"pods do not fit": {Options{Nodes: 2, Pods: 1000, Rounds: 1}, "more --nodes or fewer --pods"},
		"unknown system":  {Options{Nodes: 10, Pods: 10, Rounds: 1, Only: []string{"x"}}, "--only"},
	} {
		if _, err := Schedule(t.Context(), test.options); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: got %v, want an error about %s", name, err, test.want)
		}
	}
}

// TestMixed: every class is used, each selector finds nodes, and only what tolerates the taint may use the dedicated ones.
func TestMixed(t *testing.T) {
	w, err := newWorkload(Options{Nodes: 500, Pods: 160, Mixed: true})
	if err != nil {
		t.Fatal(err)
	}
	taints := 0
	for _, s := range w.shapes {
		taints += len(s.Taints)
	}
	if taints == 0 || taints > len(w.shapes)/10 {
		t.Errorf("%d of %d nodes are dedicated", taints, len(w.shapes))
	}
	used := map[string]int{}
	known := map[string]bool{"": true}
	for _, p := range priorities {
		known[p.Name] = true
	}
	for i := range 160 {
		pod := w.pod(i, podName(i), "x")
		used[pod.Labels["app"]]++
		if !known[pod.Spec.PriorityClassName] {
			t.Errorf("%s has priority %q, which does not exist", pod.Name, pod.Spec.PriorityClassName)
		}
		fits := 0
		for _, s := range w.shapes {
			if labels.SelectorFromSet(pod.Spec.NodeSelector).Matches(labels.Set(s.Labels)) {
				fits++
			}
		}
		if fits < 10 {
			t.Errorf("class %s fits on %d nodes only", pod.Labels["app"], fits)
		}
	}
	if len(used) != 16 {
		t.Errorf("%d classes are used, want 16", len(used))
	}
	pod := w.pod(0, "p", "me")
	if cpu := pod.Spec.Containers[0].Resources.Requests[corev1.ResourceCPU]; pod.Spec.SchedulerName != "me" || cpu.MilliValue() != mixed[0].milliCPU {
		t.Errorf("pod: %+v", pod.Spec)
	}
}

// TestResult: the raw rate is the best median, not the best round, and ratios are of medians.
func TestResult(t *testing.T) {
	rates := func(perSecond ...float64) (rounds []Round) {
		for _, r := range perSecond {
			rounds = append(rounds, Round{PodsPerSecond: r, SchedulerPeakBytes: int64(r)})
		}
		return rounds
	}
	chosen, err := choose(nil)
	if err != nil {
		t.Fatal(err)
	}
	r := newResult(Options{Nodes: 1, Pods: 2, Rounds: 3}, chosen, map[string][]Round{
		"raw-16": rates(100, 9000, 200), "raw-64": rates(1000, 2000, 3000), "raw-256": rates(1500, 1600, 1700),
		"kube-scheduler": rates(400, 500, 600), "hilbertd": rates(1800, 1000, 1900),
	})
	if r.Raw != "raw-64" {
		t.Errorf("raw: got %s, want raw-64", r.Raw)
	}
	h := r.Contestants[4]
	if h.Name != "hilbertd" || h.Median.PodsPerSecond != 1800 || h.Median.SchedulerPeakBytes != 1800 || *h.RatioToRaw != 0.9 || *h.RatioToKubeScheduler != 3.6 {
		t.Errorf("hilbertd: %+v, %v of raw, %v of kube-scheduler", h.Median, *h.RatioToRaw, *h.RatioToKubeScheduler)
	}
	if even := medians(rates(1, 2, 3, 10)); even.PodsPerSecond != 2.5 {
		t.Errorf("median of an even number: %v", even.PodsPerSecond)
	}
	alone := newResult(Options{}, chosen[4:], map[string][]Round{"hilbertd": rates(1)})
	if alone.Contestants[0].RatioToRaw != nil || alone.Contestants[0].RatioToKubeScheduler != nil {
		t.Error("a ratio to a system that did not run")
	}
	var text strings.Builder
	if err := r.WriteTable(&text); err != nil || !strings.Contains(text.String(), "hilbertd    1800  1000  1900") {
		t.Errorf("table: %v\n%s", err, text.String())
	}
	text.Reset()
	var back Result
	if err := WriteJSON(&text, r); err != nil || json.Unmarshal([]byte(text.String()), &back) != nil || back.Protocol.Order[4] != "hilbertd" {
		t.Errorf("JSON: %v\n%s", err, text.String())
	}
}
