package node

import (
	"context"
	"fmt"
	"math"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	api "hilbert.dev/hilbert/api/nodeplugin/v1alpha1"
	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/node/evict"
	"hilbert.dev/hilbert/node/plugin"
	"hilbert.dev/hilbert/node/plugin/plugintest"
)

// detecting is a node whose agent asks a plugin that brings nothing and detects.
func detecting(t *testing.T, find func(*api.DetectRequest) *api.DetectResponse) (*world, *plugintest.Plugin) {
	t.Helper()
	w := newWorld(t)
	w.plugins = &plugin.Directory{Path: plugintest.Directory(t), Node: "n1", Machine: w.hardware, Owner: uint32(os.Geteuid())}
	p := plugintest.New("nic", "")
	p.Said.Detects, p.Find = true, find
	p.Serve(t, w.plugins.Path)
	return w, p
}

// finding is what the report says of what plugins find: "" where no plugin detects.
func (w *world) finding() (out string) {
	w.Helper()
	w.agent.Ask(time.Minute, func(a *Agent) {
		for _, c := range a.Status().Conditions {
			if c.Type == spec.ConditionPluginFinding {
				out = fmt.Sprint(c.True, " ", c.Reason, " ", c.Message)
			}
		}
	})
	return out
}

func (w *world) findings() (out []evict.Finding) {
	w.Helper()
	w.agent.Ask(time.Minute, func(a *Agent) { out = a.plugins.Findings(time.Now()) })
	return out
}

func saying(met bool, candidates ...*api.Candidate) func(*api.DetectRequest) *api.DetectResponse {
	return func(*api.DetectRequest) *api.DetectResponse {
		return &api.DetectResponse{Findings: []*api.Finding{{Condition: "UplinkFull", Met: met, Message: "97 %", Candidates: candidates}}}
	}
}

// A detector is told of the reclaimed pods alone, and what it finds is reported for as long as it is there to say so.
func TestPluginDetects(t *testing.T) {
	t.Parallel()
	var told string
	w, p := detecting(t, nil)
	p.Lock()
	p.Find = func(r *api.DetectRequest) *api.DetectResponse {
		told = ""
		for _, pod := range r.GetPods() {
			told += fmt.Sprintf("%s %s %d;", pod.GetPod().GetUid(), pod.GetCgroup(), pod.GetPriority())
		}
		if told == "" {
			return saying(false)(r)
		}
		return saying(true, &api.Candidate{Uid: "lent", Gain: 0.5})(r)
	}
	p.Unlock()
	w.start()
	w.eventually("it finds nothing", func() bool { return w.finding() == "false NothingFound " })
	w.mustRun(sandbox("web", 1))
	w.mustRun(sandbox("own", 2, "qos=dedicated_cores"))
	lent := sandbox("lent", 0, "qos=reclaimed_cores", "besteffort")
	lent.Annotations[spec.AnnotationPriority] = "-3"
	w.mustRun(lent)
	w.eventually("it finds something", func() bool { return w.finding() == "true Found nic/UplinkFull: 97 %" })
	if got := fmt.Sprintf("%+v", w.findings()); got != "[{Plugin:nic Condition:UplinkFull Stale:false Met:true Message:97 % Candidates:[{UID:lent Gain:0.5}]}]" {
		t.Error(got)
	}
	p.Lock()
	if told != "lent kubepods/besteffort/podlent -3;" {
		t.Errorf("it was told of %q", told)
	}
	p.Unlock()
	if n := p.Count("Reconcile"); n > 0 {
		t.Errorf("it was compared %d times", n)
	}
	p.Stop()
	w.eventually("the plugin has gone", func() bool { return w.finding() == "" && len(w.findings()) == 0 })
}

// A detector that lies, fails or hangs finds nothing, and the report says that it does not serve. Pods start as before.
func TestDetectorIsNotBelieved(t *testing.T) {
	t.Parallel()
	web := &api.Candidate{Uid: "web", Gain: 1}
	lent := func(gain float64) *api.Candidate { return &api.Candidate{Uid: "lent", Gain: gain} }
	named := func(conditions ...string) func(*api.DetectRequest) *api.DetectResponse {
		return func(*api.DetectRequest) *api.DetectResponse {
			out := &api.DetectResponse{}
			for _, c := range conditions {
				out.Findings = append(out.Findings, &api.Finding{Condition: c, Met: true})
			}
			return out
		}
	}
	var many []string
	for i := range plugin.MaxFindings + 1 {
		many = append(many, fmt.Sprint("C", i))
	}
	for _, c := range []struct {
		name string
		find func(*api.DetectRequest) *api.DetectResponse
		fail func(context.Context, string) error
		want string
	}{
		{"an online pod", saying(true, web), nil, "which is none that may be asked to go"},
		{"a pod that is not here", saying(true, &api.Candidate{Uid: "other"}), nil, "which is none that may be asked to go"},
		{"a pod twice", saying(true, lent(1), lent(1)), nil, "told of 1"},
		{"more than all", saying(true, lent(1.5)), nil, "want 0 to 1"},
		{"no number", saying(true, lent(math.NaN())), nil, "want 0 to 1"},
		{"no name", named("uplink full"), nil, "CamelCase"},
		{"a name twice", named("Full", "Full"), nil, "CamelCase"},
		{"too much", named(many...), nil, "findings: at most"},
		{"an error", nil, func(_ context.Context, method string) error {
			if method == "Detect" {
				return os.ErrInvalid
			}
			return nil
		}, "invalid argument"},
		{"silence", nil, func(ctx context.Context, method string) error {
			if method == "Detect" {
				<-ctx.Done()
			}
			return ctx.Err()
		}, "Deadline"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			w, p := detecting(t, c.find)
			p.Before = c.fail
			w.pluginTimeout = spec.Duration(200 * time.Millisecond)
			w.start()
			w.mustRun(sandbox("web", 1))
			w.mustRun(sandbox("lent", 0, "qos=reclaimed_cores", "besteffort"))
			w.eventually("it is not believed", func() bool {
				return slices.ContainsFunc(w.events(), func(told string) bool {
					return strings.HasPrefix(told, ": "+spec.ReasonPluginFailed) && strings.Contains(told, c.want)
				})
			})
			if found := w.findings(); len(found) > 0 {
				t.Errorf("it found %+v", found)
			}
			w.mustRun(sandbox("late", 1))
		})
	}
}

// What a plugin finds ends in a request for the pod that it names, in the report, and not for the one that it does not, though that is less important.
func TestFindingRequestsEviction(t *testing.T) {
	l, _, low, high := crowded(t)
	find := func(now time.Time) {
		l.agent.Ask(time.Minute, func(a *Agent) {
			a.eviction.findings = func(at time.Time) []evict.Finding {
				return []evict.Finding{{
					Plugin: "nic", Condition: "UplinkFull", Met: true, Message: "97 %", Candidates: []evict.Candidate{{UID: high.UID, Gain: 1}}, Stale: at.Sub(now) > 30*time.Second,
				}}
			}
		})
	}
	for range 20 {
		find(l.now)
		l.run(5)
	}
	find(l.now)
	out := l.run(1)
	if len(out.Evictions) != 1 || out.Evictions[0].UID != high.UID || out.Evictions[0].Urgent || out.Evictions[0].Reason != "Plugin" ||
		out.Evictions[0].Message != "plugin nic found UplinkFull: 97 %" {
		t.Errorf("requested are %+v, want %s alone", out.Evictions, high.Name)
	}
	if killed(l, &low) || killed(l, &high) {
		t.Error("a pod was stopped")
	}
	if out := l.run(60); len(out.Evictions) > 0 {
		t.Errorf("the plugin says nothing any more, and requested are %+v", out.Evictions)
	}
}
