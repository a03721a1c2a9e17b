package spec

import (
	"strings"
	"testing"
	"time"
)

// Feedback is off by default, and each mistake names its field.
func TestRDTFeedback(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*LendingRDT)
		fault  string // empty: there is none
	}{
		"the defaults":          {func(*LendingRDT) {}, ""},
		"it is on":              {func(r *LendingRDT) { r.Feedback.DomainBytesPerSecond = 100e9 }, ""},
		"GB/s for bytes":        {func(r *LendingRDT) { r.Feedback.DomainBytesPerSecond = 100 }, "feedback.domainBytesPerSecond: 100: want 0, or 1000000000 (1 GB/s)"},
		"below nothing":         {func(r *LendingRDT) { r.Feedback.DomainBytesPerSecond = -1 }, "feedback.domainBytesPerSecond"},
		"more than any":         {func(r *LendingRDT) { r.Feedback.DomainBytesPerSecond = 1e15 }, "feedback.domainBytesPerSecond"},
		"low is high":           {func(r *LendingRDT) { r.Feedback.LowPercent = 90 }, "feedback.lowPercent: 90 is not below"},
		"no low":                {func(r *LendingRDT) { r.Feedback.LowPercent = 0 }, "feedback.lowPercent: 0: want 1 to 100"},
		"high beyond all":       {func(r *LendingRDT) { r.Feedback.HighPercent = 101 }, "feedback.highPercent: 101"},
		"no least":              {func(r *LendingRDT) { r.Feedback.LeastPercent = 0 }, "feedback.leastPercent: 0: want 1 to 100"},
		"hardly a hold":         {func(r *LendingRDT) { r.Feedback.Hold = Duration(time.Second) }, "feedback.hold: 1s: want 10s to 1h"},
		"a hold of a day":       {func(r *LendingRDT) { r.Feedback.Hold = Duration(24 * time.Hour) }, "feedback.hold"},
		"nothing to lower":      {func(r *LendingRDT) { r.BandwidthPercent, r.Feedback.DomainBytesPerSecond = 5, 100e9 }, "feedback.leastPercent: 10 is above node.lending.rdt.bandwidthPercent (5)"},
		"little, and it is off": {func(r *LendingRDT) { r.BandwidthPercent = 5 }, ""},
		"no cache":              {func(r *LendingRDT) { r.CachePercent = 0 }, "rdt.cachePercent: 0: want 1 to 100"},
	} {
		n := Default().Node
		if n.Lending.RDT.Enabled || n.Lending.RDT.Feedback.DomainBytesPerSecond != 0 {
			t.Fatal("it is on by default")
		}
		c.change(&n.Lending.RDT)
		switch err := CheckNode(&n); {
		case c.fault == "" && err != nil:
			t.Errorf("%s: %v", name, err)
		case c.fault != "" && (err == nil || !strings.Contains(err.Error(), "node.lending.rdt."+strings.TrimPrefix(c.fault, "rdt."))):
			t.Errorf("%s: %v, want %s", name, err, c.fault)
		}
	}
}
