package schedule_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"

	"hilbert.dev/hilbert/cmd/hilbert/render"
	"hilbert.dev/hilbert/schedule/inspect"
	"hilbert.dev/hilbert/schedule/inspect/dumptest"
)

// explain prints what people are told about a pod, from the scheduler and from a file; both must be the same.
func (h *harness) explain(t *testing.T, d *datadriven.TestData) string {
	t.Helper()
	dump := inspect.Take(h.s, "hilbert", h.now)
	namespace, name := names(d)
	live, from := text(dump.Explain(namespace, name)), text(dumptest.RoundTrip(t, dump).Explain(namespace, name))
	if live != from {
		d.Fatalf(t, "live:\n%s\nfrom a file:\n%s", live, from)
	}
	return live
}

// explainNode prints what people are told about a node, from the scheduler and from a file; both must be the same.
func (h *harness) explainNode(t *testing.T, d *datadriven.TestData) string {
	t.Helper()
	answer := func(dump *inspect.Dump) string {
		a, err := dump.ExplainNode(d.CmdArgs[0].Key)
		if err != nil {
			return err.Error() + "\n"
		}
		var b strings.Builder
		if err := render.Node(&b, a); err != nil {
			t.Fatal(err)
		}
		return b.String()
	}
	dump := inspect.Take(h.s, "hilbert", h.now)
	live, from := answer(dump), answer(dumptest.RoundTrip(t, dump))
	if live != from {
		d.Fatalf(t, "live:\n%s\nfrom a file:\n%s", live, from)
	}
	return live
}

// names reads NAMESPACE/NAME; without a namespace it is default.
func names(d *datadriven.TestData) (namespace, name string) {
	namespace, name, ok := strings.Cut(d.CmdArgs[0].Key, "/")
	if !ok {
		return "default", namespace
	}
	return namespace, name
}

func text(a *inspect.Answer, err error) string {
	if err != nil {
		return err.Error() + "\n"
	}
	var b strings.Builder
	if err := render.Pod(&b, a); err != nil {
		return err.Error()
	}
	return b.String()
}

func (h *harness) queue(t *testing.T) string {
	t.Helper()
	dump := dumptest.RoundTrip(t, inspect.Take(h.s, "hilbert", h.now))
	var b strings.Builder
	for _, w := range dump.Queue {
		fmt.Fprintf(&b, "%s %s", w.Name, w.State)
		if w.Attempts > 0 {
			fmt.Fprintf(&b, " attempts=%d", w.Attempts)
		}
		if !w.Until.IsZero() {
			fmt.Fprintf(&b, " until=%v", w.Until.Sub(time.Unix(0, 0)))
		}
		fmt.Fprintln(&b, "", w.Node, w.Why)
	}
	h.compareCounts(t, dump)
	return b.String()
}

// compareCounts holds the counts of a dump against those that the scheduler tells.
func (h *harness) compareCounts(t *testing.T, dump *inspect.Dump) {
	t.Helper()
	counts := dump.Counts()
	for state, want := range inspect.PendingPods(h.s) {
		if counts[state] != want {
			t.Errorf("%d pods are %s, the scheduler says %d", counts[state], state, want)
		}
	}
}

// view prints the queues and who waits, from the scheduler and from a file; both must be the same.
func (h *harness) view(t *testing.T, d *datadriven.TestData) string {
	t.Helper()
	o, text := inspect.ViewOptions{Limit: 100}, render.Options{}
	d.MaybeScanArgs(t, "queue", &o.Queue)
	d.MaybeScanArgs(t, "limit", &o.Limit)
	d.MaybeScanArgs(t, "resource", &text.Resource)
	text.Resource, text.Plain = render.ParseResource(text.Resource), d.HasArg("plain")
	dump := inspect.Take(h.s, "hilbert", h.now)
	say := func(d *inspect.Dump) string {
		v, err := d.View(o)
		if err != nil {
			return err.Error() + "\n"
		}
		v = roundTrip(t, v)
		var b strings.Builder
		if err := render.Queues(&b, v, text); err != nil {
			return err.Error()
		}
		return b.String()
	}
	live, from := say(dump), say(dumptest.RoundTrip(t, dump))
	if live != from {
		d.Fatalf(t, "live:\n%s\nfrom a file:\n%s", live, from)
	}
	h.compareCounts(t, dump)
	return live
}

// roundTrip sends an answer through JSON, as the daemon does.
func roundTrip[T any](t *testing.T, v *T) *T {
	t.Helper()
	data, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	read := new(T)
	if err := json.Unmarshal(data, read); err != nil {
		t.Fatalf("%v in %s", err, data)
	}
	if again, err := json.Marshal(read); err != nil || !bytes.Equal(again, data) {
		t.Fatalf("%v, read and written again:\n%s\nfirst:\n%s", err, again, data)
	}
	return read
}

// explainUnit prints what people are told about a gang, from the scheduler and from a file; both must be the same.
func (h *harness) explainUnit(t *testing.T, d *datadriven.TestData) string {
	t.Helper()
	namespace, name := names(d)
	dump := inspect.Take(h.s, "hilbert", h.now)
	say := func(d *inspect.Dump) string {
		a, err := d.ExplainUnit(namespace, name)
		if err != nil {
			return err.Error() + "\n"
		}
		var b strings.Builder
		if err := render.Unit(&b, roundTrip(t, a)); err != nil {
			return err.Error()
		}
		return b.String()
	}
	live, from := say(dump), say(dumptest.RoundTrip(t, dump))
	if live != from {
		d.Fatalf(t, "live:\n%s\nfrom a file:\n%s", live, from)
	}
	return live
}
