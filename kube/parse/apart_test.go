package parse

import (
	"slices"
	"testing"
	"time"

	nodev1alpha1 "hilbert.dev/hilbert/api/node/v1alpha1"
	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/cluster/facts"
)

// What an agent would rather have apart is read, but for what names nobody or lasts beyond all numbers, and no more than a report may have.
func TestPodsToKeepApart(t *testing.T) {
	pair := func(victim, culprit string, until time.Time) spec.ApartHint {
		return spec.ApartHint{Victim: spec.PodRef{UID: victim}, Culprit: spec.PodRef{UID: culprit}, Until: until}
	}
	at := time.Unix(5000, 0)
	r := &nodev1alpha1.CustomNodeResource{}
	r.Status.Mode, r.Status.ThreadsPerCore = spec.ModeKubelet, 1
	r.Status.Interference = &spec.Interference{Apart: []spec.ApartHint{
		pair("web", "hog", at), pair("", "hog", at), pair("web", "", at), pair("web", "late", time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC)),
	}}
	p := NewParser("x", nil)
	if got, want := p.NodeReport(r).Apart, []facts.Apart{{Victim: "web", Culprit: "hog", Until: at.UnixNano()}}; !slices.Equal(got, want) {
		t.Errorf("%+v, want %+v", got, want)
	}
	for range 100 {
		r.Status.Interference.Apart = append(r.Status.Interference.Apart, pair("web", "hog", at))
	}
	if got := p.NodeReport(r).Apart; len(got) > spec.MaxApartHints {
		t.Errorf("%d pairs", len(got))
	}
}
