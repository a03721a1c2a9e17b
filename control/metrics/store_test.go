package metrics

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/control/forecast"
)

var (
	start = time.Date(2026, 11, 26, 12, 0, 0, 0, time.UTC)
	web   = Workload{"shop", "Deployment", "web"}
)

func named(t rapid.TB, name string) *Name {
	t.Helper()
	n, ok := Find(name)
	if !ok {
		t.Fatalf("there is no metric %s", name)
	}
	return &n
}

func pod(i int) *Pod {
	name := fmt.Sprintf("web-%d", i)
	return &Pod{UID: name, Namespace: "shop", Name: name, Node: fmt.Sprintf("n%d", i%3), Workload: web, Running: start.Add(-time.Hour)}
}

func everything(*Pod) bool { return true }

// tell has the node of a pod report what it uses, in cores, bytes or seconds per second.
func tell(s *Store, p *Pod, m Metric, now time.Time, values ...float64) Taken {
	var c Collector
	for i, v := range values {
		c.See(spec.PodRef{Namespace: p.Namespace, Name: p.Name, UID: p.UID}, m, v, now.Add(-time.Duration(len(values)-1-i)*time.Second))
	}
	return s.Take(p.Node, c.Take(now), now)
}

func newStore(pods int) *Store {
	params := DefaultParams()
	s := NewStore(&params)
	for i := range pods {
		s.SetPod(pod(i))
	}
	return s
}

func TestAnswers(t *testing.T) {
	s, now := newStore(4), start
	for i := range 4 {
		tell(s, pod(i), CPUUse, now, 1, 2, 3) // 2 on average
		tell(s, pod(i), RunDelay, now, 0.1, 0.2, float64(i))
		tell(s, pod(i), Memory, now, 100, float64(1000*i))
	}
	for name, want := range map[string]int64{
		"hilbert_cpu_use": 8 * Micro, "hilbert_memory_peak": 3000, "hilbert_run_delay": (0.3/3*4 + 6.0/3) / 4 * Micro, "hilbert_cpu_use_forecast": 8 * Micro,
	} {
		if v, err := s.Workload(web, named(t, name), now); err != nil || v.Amount < want-1 || v.Amount > want || v.Pods != 4 || v.Missing != 0 {
			t.Errorf("%s: %+v %v, want %d", name, v, err, want)
		}
	}
	if v, err := s.Workload(web, named(t, "hilbert_run_delay_p95"), now); err != nil || v.Amount < 3*Micro || v.Amount > 3*Micro*17/16 {
		t.Errorf("the 95th percentile: %+v %v", v, err)
	}
	list, err := s.Pods("shop", func(p *Pod) bool { return p.Name != "web-2" }, named(t, "hilbert_memory_peak"), now)
	if err != nil || len(list) != 3 || list[2].Pod != "web-3" || list[2].Amount != 3000 || list[0].Amount != 100 {
		t.Errorf("pods: %+v %v", list, err)
	}
}

// wantNoData checks that there is no answer, and that the error has these words.
func wantNoData(t *testing.T, err error, words string) {
	t.Helper()
	if _, ok := errors.AsType[*NoData](err); !ok || !strings.Contains(err.Error(), words) {
		t.Errorf("error %v, want one with %q", err, words)
	}
}

func TestWhatIsMissingIsNeverZero(t *testing.T) {
	s, use := newStore(10), named(t, "hilbert_cpu_use")
	_, err := s.Workload(web, use, start)
	wantNoData(t, err, "no agent has reported it yet")
	_, err = s.Pods("shop", everything, use, start)
	wantNoData(t, err, "not known of any of 10 pods")
	_, err = s.Workload(Workload{"shop", "Deployment", "nobody"}, use, start)
	wantNoData(t, err, "has no pods that run")
	for i := range 7 {
		tell(s, pod(i), CPUUse, start, 1)
	}
	_, err = s.Workload(web, use, start)
	wantNoData(t, err, "known of 7 of 10 pods")
	tell(s, pod(7), CPUUse, start, 1)
	v, err := s.Workload(web, use, start) // two silent pods count as the others do
	if err != nil || v.Amount != 10*Micro || v.Missing != 2 {
		t.Errorf("8 of 10 pods: %+v %v", v, err)
	}
	_, err = s.Workload(web, named(t, "hilbert_memory_peak"), start) // another metric of the same pods
	wantNoData(t, err, "no agent has reported it yet")
	_, err = s.Workload(web, named(t, "hilbert_cpu_use_forecast"), start.Add(time.Minute))
	wantNoData(t, err, "the last report is of 1m0s ago")
	_, err = s.Workload(web, named(t, "hilbert_planned_load"), start)
	wantNoData(t, err, "no peak is planned")
}

// TestPodsThatBegin: a new pod of which nothing is known is neither added to a sum nor does it keep the workload from being answered for.
func TestPodsThatBegin(t *testing.T) {
	s, use := newStore(2), named(t, "hilbert_cpu_use")
	for i := range 2 {
		tell(s, pod(i), CPUUse, start, 1)
	}
	for i := 2; i < 10; i++ {
		p := pod(i)
		p.Running = start.Add(-10 * time.Second)
		s.SetPod(p)
	}
	if v, err := s.Workload(web, use, start); err != nil || v.Amount != 2*Micro || v.Missing != 8 {
		t.Errorf("%+v %v", v, err)
	}
	later := start.Add(55 * time.Second)
	_, err := s.Workload(web, use, later)
	wantNoData(t, err, "known of 2 of 10 pods")
}

func TestNodesSpeakOfTheirOwnPods(t *testing.T) {
	s, use := newStore(2), named(t, "hilbert_cpu_use")
	p := pod(1)
	p.Node = "n0" // it says so
	if got := tell(s, p, CPUUse, start, 1000); got.Foreign != 1 || got.Taken != 0 {
		t.Errorf("a report about another node's pod: %+v", got)
	}
	if got := tell(s, &Pod{UID: "unheard", Node: "n0"}, CPUUse, start, 1000); got.Unknown != 1 {
		t.Errorf("a report about a pod that is not: %+v", got)
	}
	late := pod(0)
	late.Node = "" // the watch has not told yet that it was bound
	s.SetPod(late)
	if got := tell(s, pod(0), CPUUse, start, 1000); got.Unknown != 1 || got.Foreign != 0 {
		t.Errorf("a report about a pod that is not known to be bound: %+v", got)
	}
	_, err := s.Workload(web, use, start)
	wantNoData(t, err, "no agent has reported it yet")
}

// TestGreatNumbersStayGreat: whatever nodes say that pods use, a sum is not negative.
func TestGreatNumbersStayGreat(t *testing.T) {
	s, most := newStore(10), Distribution{}
	most.Add(math.MaxInt64)
	for i := range 9 { // of ten: what the last uses is guessed
		p := pod(i)
		s.Take(p.Node, &Report{Pods: podReports{{PodRef: spec.PodRef{UID: p.UID}, Values: map[string]Distribution{CPUUse.String(): most}}}}, start)
	}
	if v, err := s.Workload(web, named(t, "hilbert_cpu_use"), start); err != nil || v.Amount < math.MaxInt64/2 {
		t.Errorf("ten pods use %d: %v", v.Amount, err)
	}
}

// TestStore does anything in any order: what is answered is never old, never zero, and never of a pod that is gone.
func TestStore(t *testing.T) {
	const pods = 6
	rapid.Check(t, func(t *rapid.T) {
		s, now := newStore(0), start
		told, there := map[string]time.Time{}, map[string]bool{}
		t.Repeat(map[string]func(*rapid.T){
			"pod": func(t *rapid.T) { p := pod(rapid.IntRange(0, pods-1).Draw(t, "pod")); s.SetPod(p); there[p.UID] = true },
			"gone": func(t *rapid.T) {
				p := pod(rapid.IntRange(0, pods-1).Draw(t, "pod"))
				s.DeletePod(p.UID)
				delete(there, p.UID)
				delete(told, p.UID)
			},
			"report": func(t *rapid.T) {
				p := pod(rapid.IntRange(0, pods-1).Draw(t, "pod"))
				if got := tell(s, p, CPUUse, now, rapid.Float64Range(0.01, 64).Draw(t, "cores")); (got.Taken == 1) != there[p.UID] {
					t.Fatalf("%s, there %v: %+v", p.UID, there[p.UID], got)
				}
				if there[p.UID] {
					told[p.UID] = now
				}
			},
			"time": func(t *rapid.T) {
				now = now.Add(time.Duration(rapid.IntRange(0, 40).Draw(t, "seconds")) * time.Second)
				s.Tick(now)
			},
			"": func(t *rapid.T) { agrees(t, s, told, there, now) },
		})
	})
}

// agrees checks all answers against when each pod was told of last.
func agrees(t *rapid.T, s *Store, told map[string]time.Time, there map[string]bool, now time.Time) {
	t.Helper()
	fresh := 0
	for uid := range there {
		if at, ok := told[uid]; ok && now.Sub(at) < time.Minute {
			fresh++
		}
	}
	list, err := s.Pods("shop", everything, named(t, "hilbert_cpu_use"), now)
	if (err == nil) != (fresh > 0) || len(list) != fresh {
		t.Fatalf("%d answers (%v) of %d fresh", len(list), err, fresh)
	}
	for _, v := range list {
		if now.Sub(v.At) >= time.Minute || v.Amount == 0 || !there[v.Pod] {
			t.Fatalf("at %s: %+v", now, v)
		}
	}
	for _, name := range []string{"hilbert_cpu_use", "hilbert_cpu_use_forecast"} {
		v, err := s.Workload(web, named(t, name), now)
		if whole := fresh > 0 && float64(fresh) >= 0.8*float64(len(there)); (err == nil) != whole || whole && (v.Amount == 0 || now.Sub(v.At) >= time.Minute) {
			t.Fatalf("%s of %d fresh of %d: %+v %v", name, fresh, len(there), v, err)
		}
	}
	if known, _ := s.Counts(now); known != len(there) || s.Profiles() > 1 || len(s.workloads) > 1 {
		t.Fatalf("%d pods, %d profiles, want %d", known, s.Profiles(), len(there))
	}
}

func TestProfilesAreBounded(t *testing.T) {
	params := DefaultParams()
	params.MaxProfiles = 2
	s := NewStore(&params)
	for i := range 3 {
		p := pod(i)
		p.Workload.Name = p.Name
		s.SetPod(p)
		tell(s, p, CPUUse, start, 1)
		v, err := s.Workload(p.Workload, named(t, "hilbert_cpu_use_forecast"), start)
		if full := strings.Contains(v.Why, "as many forecasts"); err != nil || v.Amount != Micro || full != (i == 2) {
			t.Errorf("workload %d: %+v %v", i, v, err)
		}
	}
	s.Tick(start.Add(8 * 24 * time.Hour))
	if s.Profiles() != 0 {
		t.Errorf("%d profiles that nobody asks for are kept", s.Profiles())
	}
}

// day is what a workload uses at a time: two cores by night, eight by day.
func day(at time.Time) float64 {
	if h := at.Hour(); h >= 8 && h < 20 {
		return 8
	}
	return 2
}

// TestForecast: after days with a tide, the forecast is above the live load before the rise; and a checkpoint keeps that.
func TestForecast(t *testing.T) {
	s, p, ask := newStore(1), pod(0), named(t, "hilbert_cpu_use_forecast")
	now := time.Date(2026, 11, 20, 0, 0, 0, 0, time.UTC)
	see := func(s *Store) {
		tell(s, p, CPUUse, now, day(now))
		s.Tick(now)
	}
	tell(s, p, CPUUse, now, day(now))
	if _, err := s.Workload(web, ask, now); err != nil { // from now on it is profiled
		t.Fatal(err)
	}
	for end := time.Date(2026, 11, 25, 7, 50, 0, 0, time.UTC); now.Before(end); now = now.Add(150 * time.Second) {
		see(s)
	}
	see(s)
	v, err := s.Workload(web, ask, now)
	if err != nil || v.Amount != 8*Micro || v.Why != "the forecast" {
		t.Fatalf("before the rise: %+v %v", v, err)
	}
	text, err := s.Checkpoint(now)
	if err != nil {
		t.Fatal(err)
	}
	other := newStore(1)
	if n, err := other.Restore(text, now); err != nil || n != 1 {
		t.Fatalf("restored %d: %v", n, err)
	}
	_, err = other.Workload(web, ask, now)
	wantNoData(t, err, "no agent has reported it yet") // a forecast alone is none
	see(other)
	if again, err := other.Workload(web, ask, now); err != nil || again.Amount != v.Amount || again.Why != v.Why {
		t.Fatalf("from the checkpoint: %+v %v, want %+v", again, err, v)
	}
	if _, err := other.Restore([]byte(strings.Replace(string(text), `"version":1`, `"version":2`, 1)), now); err == nil {
		t.Error("another version is read")
	}
}

// TestHistory: what a Prometheus knows of the days before makes the forecast, at once.
func TestHistory(t *testing.T) {
	s, p, ask := newStore(1), pod(0), named(t, "hilbert_cpu_use_forecast")
	now := time.Date(2026, 11, 25, 7, 50, 0, 0, time.UTC)
	tell(s, p, CPUUse, now, day(now))
	if v, err := s.Workload(web, ask, now); err != nil || v.Amount != 2*Micro || !strings.Contains(v.Why, "less than two periods") {
		t.Fatalf("without history: %+v %v", v, err)
	}
	var history []Load
	for at := now.Add(-5 * 24 * time.Hour); at.Before(now); at = at.Add(5 * time.Minute) {
		history = append(history, Load{at, day(at)})
	}
	if got, ok := s.Unfilled(web); !ok || got != web {
		t.Fatalf("unfilled: %v %t", got, ok)
	}
	s.Tick(now)
	s.Fill(web, history)
	if v, err := s.Workload(web, ask, now); err != nil || v.Amount != 8*Micro {
		t.Fatalf("with history: %+v %v", v, err)
	}
	if got, ok := s.Unfilled(Workload{}); ok {
		t.Fatalf("unfilled once it is filled: %v", got)
	}
}

type daily int // begins at this hour

func (d daily) Next(after time.Time) time.Time {
	at := time.Date(after.Year(), after.Month(), after.Day(), int(d), 0, 0, 0, time.UTC)
	if !at.After(after) {
		at = at.Add(24 * time.Hour)
	}
	return at
}

func TestPlanned(t *testing.T) {
	s, ask := newStore(0), named(t, "hilbert_planned_load")
	s.SetPeaks(map[Workload][]forecast.Peak{web: {{Name: "sale", Begins: daily(10), Duration: 2 * time.Hour, Load: 40}}})
	for at, want := range map[string]int64{"09:40": 0, "09:45": 40, "11:59": 40, "12:01": 0} {
		now, err := time.Parse(time.RFC3339, "2026-11-26T"+at+":00Z")
		if err != nil {
			t.Fatal(err)
		}
		if v, err := s.Workload(web, ask, now); err != nil || v.Amount != want*Micro {
			t.Errorf("at %s: %+v %v, want %d", at, v, err, want)
		}
	}
}

func TestReportsAreChecked(t *testing.T) {
	for _, text := range []string{
		`{`, `{"pods":[{"uid":""}]}`, `{"pods":[{"uid":"a","ageMS":-1}]}`, `{"pods":[{"uid":"a","windowMS":99999999}]}`,
		`{"pods":[` + strings.Repeat(`{"uid":"a"},`, MaxPods) + `{"uid":"a"}]}`,
	} {
		if _, err := ReadReport([]byte(text)); err == nil {
			t.Errorf("%.80s is taken", text)
		}
	}
	if _, err := ReadReport([]byte(`{"pods":[` + strings.Repeat(`{},`, MaxPods) + `{},`)); err == nil || !strings.Contains(err.Error(), "unexpected end") {
		t.Errorf("half a report: %v", err)
	}
	if r, err := ReadReport([]byte(`{"pods":null}`)); err != nil || len(r.Pods) != 0 {
		t.Errorf("a report of nothing: %v %v", r, err)
	}
	if r, err := ReadReport([]byte(`{"pods":[{"uid":"a","values":{"later":{"n":1,"sum":5,"most":5,"buckets":[[5,1]]}}}],"more":1}`)); err != nil || len(r.Pods) != 1 {
		t.Errorf("a report of a later version: %v %v", r, err)
	}
}
