package evict

import (
	"fmt"
	"testing"
	"time"

	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/node/advise"
)

// A pod that requested 1000 MiB is named from 1164 MiB on, when that has lasted a minute, until it holds no more than 1082; what is not known, and what was not requested, is no overuse.
func TestOnlineOveruse(t *testing.T) {
	t.Parallel()
	known := func(mib float64) advise.Sample { return advise.Known(mib * mebibyte) }
	p, m := Defaults().Online, OnlineState{}
	at := time.Duration(0)
	for i, c := range []struct {
		during time.Duration
		holds  advise.Sample
		asked  advise.Sample
		named  bool
	}{
		{59, known(1165), known(1000), false},
		{1, known(1160), known(1000), false},  // it has to last
		{60, known(1165), known(1000), false}, // up to now, and then
		{30, known(1165), known(1000), true},
		{30, known(1083), known(1000), true},
		{1, known(1082), known(1000), false},
		{60, known(5000), known(1000), false},
		{1, known(5000), known(1000), true},
		{1, advise.Sample{}, known(1000), false},
		{600, known(5000), advise.Sample{}, false},
		{600, known(5000), known(0), false},
	} {
		for range c.during {
			found := StepOnline(at, []OnlinePod{{PodRef: spec.PodRef{UID: "a"}, RSS: c.holds, Requested: c.asked}}, &p, &m)
			if (len(found) == 1) != c.named {
				t.Fatalf("step %d at %v: %+v", i, at, found)
			}
			at += time.Second
		}
	}
	p.Mode = spec.OnlineOff
	for range 200 {
		if found := StepOnline(at, []OnlinePod{{RSS: known(9), Requested: known(1)}}, &p, &m); len(found) > 0 || len(m.over) > 0 {
			t.Fatalf("nobody is to look: %+v", found)
		}
		at += time.Second
	}
}

// What is remembered is of pods that are here, and a clock that is set back begins anew.
func TestOnlineOveruseForgets(t *testing.T) {
	t.Parallel()
	p, m := Defaults().Online, OnlineState{}
	var pods []OnlinePod
	for i := range 100 {
		pods = append(pods, OnlinePod{spec.PodRef{UID: fmt.Sprint(i)}, advise.Known(gibibyte), advise.Known(mebibyte)})
	}
	StepOnline(time.Hour, pods, &p, &m)
	if found := StepOnline(time.Minute, pods, &p, &m); len(found) > 0 || len(m.over) != 100 {
		t.Errorf("%d are named, %d remembered", len(found), len(m.over))
	}
	if found := StepOnline(2*time.Minute, pods, &p, &m); len(found) != 100 {
		t.Errorf("%d are named", len(found))
	}
	StepOnline(3*time.Minute, nil, &p, &m)
	if len(m.over) > 0 {
		t.Errorf("%d are remembered", len(m.over))
	}
}
