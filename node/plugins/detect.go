package plugins

import (
	"context"
	"maps"
	"slices"
	"strings"
	"time"

	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/node/evict"
	"hilbert.dev/hilbert/node/plugin"
	"hilbert.dev/hilbert/node/pods"
	"hilbert.dev/hilbert/node/report"
)

// ask asks a plugin that is connected what it has to say.
func (c *Controller) ask(p *pluginState) {
	if p.client.Info.Resource != "" {
		c.compare(p)
		return
	}
	c.detect(p)
}

// detect asks a plugin what it has found out. An answer that cannot be is a failure like any other: what the plugin brings is asked for no more until it has been compared.
//
// A pod that goes while the plugin is asked, or becomes another's, may be in the answer: package evict looks again at what it is.
func (c *Controller) detect(p *pluginState) {
	client, told := p.client, c.candidates()
	c.call(func(ctx context.Context) func() {
		found, err := client.Detect(ctx, told)
		return func() {
			if c.answered(p, client, err) {
				p.found, p.detected = found, c.node.Now()
			}
		}
	})
}

// candidates are the pods that plugins may name: reclaimed ones. Beyond plugin.MaxCandidates, which is more than nodes run, those with the highest priority are left out.
func (c *Controller) candidates() (out []plugin.Candidate) {
	for _, p := range c.node.Pods.Sorted() {
		if asked, pool, known := c.node.Manager.Pod(p.Ref.UID); known && pods.LevelOf(&asked, pool) == spec.QoSReclaimed {
			out = append(out, plugin.Candidate{Pod: p.Ref, Cgroup: p.Cgroup, Priority: p.PriorityOrZero()})
		}
	}
	if len(out) > plugin.MaxCandidates {
		slices.SortStableFunc(out, func(a, b plugin.Candidate) int { return int(min(max(int64(a.Priority)-int64(b.Priority), -1), 1)) })
		out = out[:plugin.MaxCandidates]
	}
	return out
}

// Findings are what plugins say now, by plugin. What a plugin said that has not answered for three intervals, and half a minute, is stale; what one said that has gone is over.
func (c *Controller) Findings(now time.Time) (out []evict.Finding) {
	stale := max(staleIntervals*c.node.Config.Plugins.Interval.D(), leastStale)
	for _, name := range slices.Sorted(maps.Keys(c.plugins)) {
		p := c.plugins[name]
		for _, f := range p.found {
			f.Stale = now.Sub(p.detected) > stale
			out = append(out, f)
		}
	}
	return out
}

const (
	staleIntervals = 3
	leastStale     = 30 * time.Second
)

// Condition is what the report says of what plugins have found: nil where none detects.
func (c *Controller) Condition(now time.Time) *spec.NodeCondition {
	detects := false
	for _, p := range c.plugins {
		detects = detects || p.client != nil && p.client.Info.Detects
	}
	out := spec.NodeCondition{Type: spec.ConditionPluginFinding, Reason: spec.ReasonNothingFound}
	var words []string
	for _, f := range c.Findings(now) {
		if f.Met && !f.Stale {
			words = append(words, f.Name()+": "+f.Message)
		}
	}
	if len(words) > 0 {
		out.True, out.Reason, out.Message = true, spec.ReasonPluginFound, report.Message(strings.Join(words, "; "))
	} else if !detects {
		return nil
	}
	return &out
}
