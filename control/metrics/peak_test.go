package metrics

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"hilbert.dev/hilbert/api/spec"
)

// tellPeaks has the node of a pod report peaks, as they come over the wire.
func tellPeaks(t rapid.TB, s *Store, p *Pod, now time.Time, peaks map[string]float64) {
	t.Helper()
	var c Collector
	for name, bytes := range peaks {
		c.SeePeak(spec.PodRef{Namespace: p.Namespace, Name: p.Name, UID: p.UID}, name, bytes, now)
	}
	text, err := json.Marshal(c.Take(now))
	if err != nil {
		t.Fatal(err)
	}
	r, err := ReadReport(text)
	if err != nil {
		t.Fatal(err)
	}
	s.Take(p.Node, r, now)
}

// TestPeaksOfContainers: each report's peak is answered for PeaksFor at least, and for twice that and a report at most; one that asks as often as PeaksFor sees them all. What is old is not known.
func TestPeaksOfContainers(t *testing.T) {
	t.Parallel()
	n := named(t, ContainerMemoryPeak)
	rapid.Check(t, func(t *rapid.T) {
		s, now := newStore(1), start
		const each = 15 * time.Second
		type report struct {
			at    time.Time
			bytes int64
		}
		var all []report
		for range rapid.IntRange(1, 40).Draw(t, "reports") {
			now = now.Add(each)
			if rapid.IntRange(0, 5).Draw(t, "lost") > 0 {
				r := report{now, rapid.Int64Range(0, 1000).Draw(t, "bytes")}
				all = append(all, r)
				tellPeaks(t, s, pod(0), now, map[string]float64{"app": float64(r.bytes)})
			}
			if rapid.IntRange(0, 9).Draw(t, "pod changes") == 0 {
				s.SetPod(pod(0)) // what is known stays
			}
			var least, most int64
			fresh := false
			for _, r := range all {
				age := now.Sub(r.at)
				fresh = fresh || age < s.params.StaleAfter
				if age < s.params.PeaksFor {
					least = max(least, r.bytes)
				}
				if age <= 2*s.params.PeaksFor+s.params.StaleAfter {
					most = max(most, r.bytes)
				}
			}
			got, err := s.Pods("shop", everything, n, now)
			switch {
			case fresh != (err == nil):
				t.Fatalf("%v, but fresh is %v", err, fresh)
			case fresh && (len(got) != 1 || got[0].Container != "app" || got[0].Pod != "web-0" || got[0].Amount < least || got[0].Amount > most):
				t.Fatalf("%+v; want %d to %d", got, least, most)
			}
		}
	})
}

// TestPeaksAreBounded: a pod with very many containers has peaks of some, and containers that come and go do not add up.
func TestPeaksAreBounded(t *testing.T) {
	t.Parallel()
	s, now := newStore(1), start
	for round := range 3 * MaxContainers {
		now = now.Add(15 * time.Second)
		peaks := map[string]float64{"app": 5}
		for i := range round {
			peaks[fmt.Sprintf("debug-%d-%d", round, i)] = 7
		}
		var c Collector
		c.SeePeak(spec.PodRef{UID: "web-0"}, "app", 5, now)
		for name, bytes := range peaks {
			c.SeePeak(spec.PodRef{UID: "web-0"}, name, bytes, now)
		}
		s.Take("n0", c.Take(now), now)
		if known := len(s.pods["web-0"].peaks); known > MaxContainers {
			t.Fatalf("%d containers are kept", known)
		}
	}
	now = now.Add(s.params.StaleAfter)
	tellPeaks(t, s, pod(0), now, map[string]float64{"app": 9})
	got, err := s.Pods("shop", everything, named(t, ContainerMemoryPeak), now)
	if err != nil || len(got) != 1 || got[0].Amount != 9 {
		t.Errorf("after the others are gone: %+v %v", got, err)
	}
}

func TestBadPeaks(t *testing.T) {
	t.Parallel()
	many := make(map[string]int64)
	for i := range MaxContainers + 1 {
		many[fmt.Sprint("c", i)] = 1
	}
	for _, peaks := range []map[string]int64{{"": 1}, {strings.Repeat("a", maxName+1): 1}, {"app": -1}, many} {
		text, err := json.Marshal(&Report{Pods: []PodReport{{PodRef: spec.PodRef{UID: "u"}, Peaks: peaks}}})
		if err != nil {
			t.Fatal(err)
		}
		if r, err := ReadReport(text); err == nil {
			t.Errorf("taken: %+v", r)
		}
	}
}
