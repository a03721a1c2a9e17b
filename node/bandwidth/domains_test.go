package bandwidth

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"hilbert.dev/hilbert/node/rdt"
)

// said is what a reading says, in GB/s: "0: all 4 reclaimed 1" for each domain, with ? for what is not known.
func said(list []Traffic, err error) string {
	if err != nil {
		return "error: " + err.Error()
	}
	const giga = 1e9
	var out []string
	for _, t := range list {
		text := fmt.Sprintf("%d:", t.Domain)
		for _, s := range []struct {
			name  string
			known bool
			value float64
		}{{"all", t.Total.Known, t.Total.Value}, {"reclaimed", t.Reclaimed.Known, t.Reclaimed.Value}} {
			if s.known {
				text += fmt.Sprintf(" %s %.4g", s.name, s.value/giga)
			} else {
				text += " " + s.name + " ?"
			}
		}
		out = append(out, text)
	}
	return strings.Join(out, "; ")
}

// All control groups together are the machine, with what their monitoring groups count; others' groups are part of it. What is not counted is unknown, of everybody and of reclaimed pods by
// themselves.
func TestDomains(t *testing.T) {
	k := newKernel()
	k.in[1], k.in[2], k.in[3], k.in[4] = "", "batch", "hilbert-online/mon_groups/hilbert-pod-web", string(rdt.Reclaimed)
	k.dirs["batch"], k.dirs[string(rdt.Online)], k.dirs["hilbert-online/mon_groups/hilbert-pod-web"] = &fakeGroup{}, &fakeGroup{}, &fakeGroup{}
	d := &Domains{Tree: k}
	now := time.Duration(0)
	const pass = 10 * time.Second
	read := func() string {
		now += pass
		for thread := range 4 {
			if k.dirs[k.in[thread+1]] != nil {
				k.run(thread+1, 40e9) // 4 GB/s, a quarter of it in domain 1
			}
		}
		return said(d.Read(now))
	}
	none := "0: all ? reclaimed ?; 1: all ? reclaimed ?"
	for i, c := range []struct {
		before func()
		want   string
	}{
		{nil, none},
		{nil, "0: all 9 reclaimed ?; 1: all 3 reclaimed ?"}, // there is no group of reclaimed pods
		{func() { k.dirs[string(rdt.Reclaimed)] = &fakeGroup{} }, none},
		{nil, "0: all 12 reclaimed 3; 1: all 4 reclaimed 1"},
		{func() { k.said["batch/mon_data/mon_L3_01/mbm_total_bytes"] = "Unavailable\n" }, "0: all 12 reclaimed 3; 1: all ? reclaimed 1"},
		{func() { clear(k.said) }, "0: all 12 reclaimed 3; 1: all ? reclaimed 1"},
		{func() { k.said["hilbert-reclaimed/mon_data/mon_L3_00/mbm_total_bytes"] = "Unassigned\n" }, "0: all ? reclaimed ?; 1: all 4 reclaimed 1"},
		{func() { clear(k.said) }, "0: all ? reclaimed ?; 1: all 4 reclaimed 1"},
		{func() { _ = k.Remove("hilbert-online/mon_groups/hilbert-pod-web") }, none}, // its bytes are gone from the sum
		{nil, "0: all 12 reclaimed 3; 1: all 4 reclaimed 1"},
		{func() { _ = k.Mkdir("mon_groups/hilbert-pod-db") }, none},
		{func() { now += time.Minute }, none},
		{func() { now -= time.Hour }, none},
		{func() { k.dirs["batch"].total[0] = 0 }, "0: all ? reclaimed 3; 1: all 4 reclaimed 1"},
		{func() { k.features = "" }, "error: " + ErrAbsent.Error() + ": open mon_data: file does not exist"},
		{func() { k.features = "mbm_total_bytes\n" }, "0: all 12 reclaimed 3; 1: all 4 reclaimed 1"}, // of twice the time
	} {
		if c.before != nil {
			c.before()
		}
		if got := read(); got != c.want {
			t.Errorf("%d: %s, want %s", i, got, c.want)
		}
	}
	d = &Domains{Tree: rdt.Dir(t.TempDir())}
	if _, err := d.Read(0); !errors.Is(err, ErrAbsent) {
		t.Errorf("an empty directory: %v", err)
	}
}

// Whatever groups come and go, what is known is what was moved.
func TestDomainsProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		k := newKernel()
		d := &Domains{Tree: k}
		for i := range rapid.IntRange(1, 30).Draw(t, "readings") {
			groups := slices.Sorted(maps.Keys(k.dirs))
			switch rapid.IntRange(0, 8).Draw(t, "event") {
			case 0:
				_ = k.Mkdir(fmt.Sprint("g", i))
			case 1:
				if parent := rapid.SampledFrom(groups).Draw(t, "in"); !strings.Contains(parent, monDir) {
					_ = k.Mkdir(strings.TrimPrefix(fmt.Sprintf("%s/%s/m%d", parent, monDir, i), "/"))
				}
			case 2:
				if group := rapid.SampledFrom(groups).Draw(t, "gone"); group != "" {
					_ = k.Remove(group)
				}
			}
			moved := [2]float64{}
			for _, group := range slices.Sorted(maps.Keys(k.dirs)) {
				bytes := rapid.Uint64Range(0, 1e11).Draw(t, "bytes") / 4 * 4
				k.in[9] = group
				k.run(9, bytes)
				moved[0], moved[1] = moved[0]+float64(bytes)*3/4, moved[1]+float64(bytes)/4
			}
			list, err := d.Read(time.Duration(i) * 10 * time.Second)
			if err != nil || len(list) != 2 {
				t.Fatalf("%v, %v", list, err)
			}
			for _, tr := range list {
				if want := moved[tr.Domain] / 10; tr.Total.Known && math.Abs(tr.Total.Value-want) > 1 {
					t.Fatalf("domain %d: %v, and %v was moved", tr.Domain, tr.Total.Value, want)
				}
			}
		}
	})
}
