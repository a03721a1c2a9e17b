package node

import (
	"bytes"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"hilbert.dev/hilbert/api/spec"
)

// wanted is a configuration that a node is told.
func wanted(parameters string) *spec.WantedConfiguration {
	w := spec.WrittenParameters(parameters)
	return &spec.WantedConfiguration{Name: "web", Revision: "r", Hash: w.Hash(), Parameters: w}
}

// laws are the parameters that every law runs with.
func (w *world) laws() (out spec.Node) {
	w.Helper()
	w.agent.Ask(time.Minute, func(a *Agent) {
		out = spec.Default().Node
		out.Lending.TargetUtilization = int(a.lending.params.TargetUse * 100)
		out.CPU.Margin = a.lending.params.Margin
		out.Eviction, out.Memory = a.eviction.params.NodeEviction, a.memory.params
		if a.thresholds.Params != &a.eviction.params || a.sensor.eviction != &a.eviction.params {
			w.Error("a controller has parameters of before")
		}
	})
	return out
}

// applied is what the report says of the configuration.
func (w *world) applied() (out *spec.AppliedConfiguration) {
	w.Helper()
	w.agent.Ask(time.Minute, func(a *Agent) { out = a.Status().Status.Configuration })
	return out
}

// A node that is told parameters runs every law with them in the same agent, keeps the last good ones over a start without the API server, refuses what it cannot work with,
// and goes back to its file when it is told nothing.
func TestConfigurationIsSwapped(t *testing.T) {
	w := newWorld(t)
	w.seldom = true // else its file has an interval that no daemon would start with
	w.start()
	agent := w.agent
	if w.applied() != nil || w.laws().CPU.Margin != 1 {
		t.Fatalf("before anything was told: %+v", w.applied())
	}
	good := wanted(`{"lending":{"targetUtilization":60},"cpu":{"margin":0},"memory":{"reclaim":{"at":0.95}},"eviction":{"escalation":{"noticeGrace":"1m0s"}}}`)
	tell := func(c *spec.WantedConfiguration) {
		w.agent.Configure(c)
		w.agent.Ask(time.Minute, func(*Agent) {})
	}
	holds := func(when string) {
		t.Helper()
		if l := w.laws(); l.Lending.TargetUtilization != 60 || l.CPU.Margin != 0 || l.Memory.Reclaim.At != 0.95 || l.Eviction.Escalation.NoticeGrace.D() != time.Minute {
			t.Errorf("%s the laws run with targetUtilization %d, margin %v, reclaim.at %v, noticeGrace %v", when, l.Lending.TargetUtilization, l.CPU.Margin, l.Memory.Reclaim.At, l.Eviction.Escalation.NoticeGrace.D())
		}
	}
	tell(good)
	holds("after it was told")
	if a := w.applied(); a == nil || a.Name != "web" || a.Hash != good.Hash || a.InForce != good.Hash || a.Error != "" || a.Idle || w.agent != agent {
		t.Errorf("reported %+v", a)
	}
	for _, bad := range []struct {
		told  *spec.WantedConfiguration
		fault string
	}{
		{wanted(`{"lending":{"step":99}}`), "node.lending.step: 99"},
		{wanted(`{"lending":{"colour":"red"}}`), "node.lending.colour"},
		{&spec.WantedConfiguration{Name: "web", Hash: good.Hash, Parameters: []byte(`{"lending":{"targetUtilization":99}}`)}, ""},
		{&spec.WantedConfiguration{Name: "other", Hash: good.Hash, Parameters: []byte(`{"lending":{"targetUtilization":99}}`)}, "somebody has changed them"},
	} {
		tell(bad.told)
		holds("after a bad one")
		if a := w.applied(); a == nil || a.Hash != bad.told.Hash || a.InForce != good.Hash || !strings.Contains(a.Error, bad.fault) {
			t.Errorf("%s: reported %+v", bad.told.Parameters, a)
		}
		tell(good)
	}
	w.eventually("it is kept", func() bool { return w.configuration.has(good.Hash) })
	w.stop()
	w.start()
	holds("after a start, with nobody to tell,")
	if a := w.applied(); a == nil || a.InForce != good.Hash {
		t.Errorf("after a start: %+v", a)
	}
	tell(nil)
	if l := w.laws(); w.applied() != nil || l.Lending.TargetUtilization != 80 || l.CPU.Margin != 1 || l.Eviction != spec.DefaultNodeEviction() || l.Memory != spec.DefaultNodeMemory() {
		t.Errorf("nothing is told, and the laws run with targetUtilization %d, margin %v", l.Lending.TargetUtilization, l.CPU.Margin)
	}
	w.eventually("the file counts after a start too", func() bool { return !w.configuration.has(good.Hash) })
}

// What was kept and cannot be read is passed over.
func TestConfigurationThatCannotBeRead(t *testing.T) {
	w := newWorld(t)
	w.configuration.data = []byte("{")
	w.start()
	if w.applied() != nil || w.laws().CPU.Margin != 1 {
		t.Errorf("%+v", w.applied())
	}
}

// TestConfigurationWithoutEffect: what a node is told is judged together with its file; a field that does nothing there is logged with the field that it needs, and is in force all the same.
func TestConfigurationWithoutEffect(t *testing.T) {
	said := map[int]string{}
	for _, groups := range []int{0, 8} {
		var text bytes.Buffer
		w := newWorld(t)
		w.seldom, w.groups, w.log = true, groups, slog.NewTextHandler(&text, nil)
		w.start()
		w.agent.Configure(wanted(`{"memoryBandwidth":{"intensiveBytesPerSecond":5000000000}}`))
		w.agent.Ask(time.Minute, func(*Agent) { said[groups] = text.String() })
		if a := w.applied(); a == nil || a.Error != "" {
			t.Errorf("with %d groups: %+v", groups, a)
		}
	}
	const want = `field=node.memoryBandwidth.intensiveBytesPerSecond why="it has no effect while node.memoryBandwidth.groups is 0`
	if !strings.Contains(said[0], want) || strings.Contains(said[8], "no effect") {
		t.Errorf("without groups:\n%swith groups:\n%s", said[0], said[8])
	}
}

// Health is known once readings cover the window, and is of the window alone.
func TestHealth(t *testing.T) {
	h := &healthController{}
	at := time.Unix(1000, 0)
	for i := range 121 {
		if got := h.status(at); got != nil {
			t.Fatalf("after %d s: %+v", i, got)
		}
		h.readings = append(h.readings, healthReading{at: at.Add(time.Duration(i) * time.Second), delay: 0.25, known: true})
	}
	h.readings[3].evictions = 2
	if got := h.status(at.Add(2 * time.Minute)); got == nil || got.RunDelay != 250 || got.Evictions != 2 || got.WindowSeconds != 120 {
		t.Errorf("%+v", got)
	}
	if got := h.status(at.Add(3 * time.Minute)); got != nil {
		t.Errorf("of old readings: %+v", got)
	}
	unread := slices.Clone(h.readings)
	for i := range 70 {
		unread[i].known = false
	}
	if got := (&healthController{readings: unread}).status(at.Add(2 * time.Minute)); got != nil {
		t.Errorf("most readings failed: %+v", got)
	}
}

func (s *kept) has(text string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return strings.Contains(string(s.data), text)
}
