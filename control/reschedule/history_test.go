package reschedule

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"hilbert.dev/hilbert/control/budget"
)

// Each rule of who is kept where it is by what was before, and by what is not known of it: of a pod that was made four hours ago.
func TestHistoryKeepsPods(t *testing.T) {
	made := start.Add(-4 * time.Hour)
	for name, c := range map[string]struct {
		history func() *History
		age     time.Duration // of the pod
		why     string        // "": it is moved
	}{
		"nobody was ever moved":                   {func() *History { return new(History) }, 4 * time.Hour, ""},
		"no History":                              {func() *History { return nil }, 4 * time.Hour, "nothing is known of moves"},
		"no History, and a pod older than that":   {func() *History { return nil }, 25 * time.Hour, "just moved"},
		"known since after it was made":           {func() *History { return UnknownHistory(start.Add(-2 * time.Hour)) }, 4 * time.Hour, "may have been moved when it was made"},
		"known since before it was made":          {func() *History { return UnknownHistory(made.Add(-time.Hour)) }, 4 * time.Hour, ""},
		"known since just now":                    {func() *History { return UnknownHistory(start) }, 25 * time.Hour, "just moved"},
		"it came for one that was moved":          {func() *History { return after("w0", "ns/p0") }, 4 * time.Hour, "it was moved"},
		"another came for one that was":           {func() *History { return after("w0", "ns/p7") }, 4 * time.Hour, ""},
		"nobody saw who came":                     {func() *History { return after("w0", "") }, 4 * time.Hour, "may be that one's replacement"},
		"nobody saw who came, it was there":       {func() *History { return after("w0", "") }, 6 * time.Hour, ""},
		"nobody saw who came of another workload": {func() *History { return after("w1", "") }, 4 * time.Hour, ""},
	} {
		p := Defaults()
		v := small()
		v.History, v.Pods[0].Namespace, v.Pods[0].Created, v.Pods[0].Began = c.history(), "ns", start.Add(-c.age), start.Add(-c.age)
		v.Pods[0].Broken = "NUMA node 1 is gone"
		d := &decision{v: v, p: &p, now: start, workloads: make(map[string]int)}
		if why := d.refusal(&v.Pods[0], false); (why == "") != (c.why == "") || !strings.Contains(why, c.why) {
			t.Errorf("%s: %q, want %q", name, why, c.why)
		}
		if why := d.refusal(&v.Pods[0], true); why != "" {
			t.Errorf("%s, and its node is to be emptied: %q", name, why)
		}
	}
}

// after is a History of one move, which began five hours ago and ended three hours ago.
func after(workload, replacement string) *History {
	h := new(History)
	h.moved(workload, replacement, start.Add(-5*time.Hour), start.Add(-3*time.Hour))
	return h
}

// A leader that reads what the one before wrote is at least as careful, whoever was moved, whatever of it is too much to be kept, and however often leaders change.
func TestNoLeaderIsLessCareful(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		const minute = int64(time.Minute)
		h, now := new(History), start
		type move struct {
			workload  string
			pod       Pod
			began, at time.Time
		}
		var all []move
		long := strings.Repeat("x", rapid.SampledFrom([]int{0, 20_000}).Draw(t, "length of names")) // of these a record has fewer than are moved
		for i := range rapid.IntRange(1, 40).Draw(t, "moves") {
			began := now.Add(time.Duration(rapid.Int64Range(0, 60*minute).Draw(t, "pause")))
			made := began.Add(time.Duration(rapid.Int64Range(0, 10*minute).Draw(t, "until it is replaced")))
			now = made.Add(time.Duration(rapid.Int64Range(0, 10*minute).Draw(t, "until that ends")))
			m := move{fmt.Sprint("w", rapid.IntRange(0, 9).Draw(t, "workload"), long), Pod{Namespace: "ns", Name: fmt.Sprint("p", i, long), Created: made.Truncate(time.Second)}, began, now}
			m.pod.Workload = m.workload
			seen := m.pod.Namespace + "/" + m.pod.Name
			if rapid.IntRange(0, 3).Draw(t, "nobody saw it") == 0 {
				seen = ""
			}
			h.moved(m.workload, seen, began, now)
			all = append(all, m)
			if rapid.IntRange(0, 2).Draw(t, "the next leader") == 0 {
				h = handedOn(t, h)
			}
		}
		for i := range all {
			m := &all[i]
			if at, known := h.workload(m.workload, now); !known || at.Before(m.at) {
				t.Fatalf("%.4s was moved at %v; known %v: %v", m.workload, m.at, known, at)
			}
			if at, why := h.pod(&m.pod); why == "" || at.Before(m.pod.Created) {
				t.Fatalf("%.8s replaced one that was moved at %v: %v %s", m.pod.Name, m.at, at, why)
			}
		}
	})
}

// handedOn is a History as the next leader reads it.
func handedOn(t *rapid.T, h *History) *History {
	text, err := h.Record()
	if err != nil {
		t.Fatal(err)
	}
	if len(text) > 1<<20 || h.Size() > maxHistory {
		t.Fatalf("%d bytes, counted as %d", len(text), h.Size())
	}
	next, err := ReadHistory(text)
	if err != nil {
		t.Fatal(err)
	}
	return next
}

// What is too old counts no more, and is forgotten without a trace; what makes no sense is refused.
func TestHistoryForgets(t *testing.T) {
	h := after("old", "ns/old")
	h.moved("new", "ns/new", start, start.Add(KeptFor))
	if h.Size() != len("new")+len("ns/new")+2*historyOverhead || !h.KnownSince().IsZero() {
		t.Errorf("%+v", h)
	}
	for _, text := range []string{"{", `{"workloads":7}`, `{"pods":{"a":"b"}}`} {
		if _, err := ReadHistory([]byte(text)); err == nil {
			t.Errorf("%s is believed", text)
		}
	}
	if h, err := ReadHistory(nil); err != nil || !h.KnownSince().IsZero() {
		t.Errorf("%+v, %v", h, err)
	}
	text, err := UnknownHistory(start.Add(time.Millisecond)).Record()
	if h, wrong := ReadHistory(text); err != nil || wrong != nil || !h.KnownSince().Equal(start.Add(time.Second)) {
		t.Errorf("%s %+v, %v, %v", text, h, err, wrong)
	}
}

// A move notes who came for the pod; one that has to be written down before its target is given back says so.
func TestCarrierNotes(t *testing.T) {
	now := time.Unix(1000, 0)
	for name, c := range map[string]struct {
		last  Seen
		noted bool
		pod   string // whom it kept
		later bool   // pods that are made now are kept too
	}{
		"the replacement has the target":  {Seen{Known: true, Gone: true, Place: Consumed, Replacement: "q"}, true, "q", false},
		"it has another place":            {Seen{Known: true, Gone: true, Place: Lost, Served: true, Replacement: "q"}, true, "q", false},
		"nobody knows the replacement":    {Seen{Known: true, Gone: true, Place: Absent}, true, "", true},
		"the pod was given up beforehand": {Seen{Known: true, Running: true, Place: Lost}, false, "", false},
	} {
		carrier := NewCarrier(DefaultTimeouts(), 9, budget.New(budget.Limits{Burst: 1}, now), new(History))
		carrier.Begin([]Wanted{wanted("p", "web", ReasonFragmentation, "y")}, now)
		noted := false
		for i, seen := range []Seen{{Known: true, Running: true}, {Known: true, Running: true, Place: Reserved}, c.last} {
			_, _, noted = carrier.Advance("p", &seen, now.Add(time.Duration(i)*time.Minute))
		}
		_, kept := carrier.History().pod(&Pod{Namespace: "ns", Name: c.pod, Workload: "web"})
		_, made := carrier.History().pod(&Pod{Namespace: "ns", Name: "z", Workload: "web", Created: now.Add(3 * time.Minute)})
		if noted != c.noted || (kept != "") != (c.pod != "") || (made != "") != c.later || len(carrier.Moves()) > 0 {
			t.Errorf("%s: noted %v, %q %q", name, noted, kept, made)
		}
	}
}
