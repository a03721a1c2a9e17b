package tides

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/control/tide"
	"hilbert.dev/hilbert/kube/lease"
)

// server has a node and pools, and keeps what is sent.
type server struct {
	node  *corev1.Node
	pools string
	sent  []string
}

func (s *server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	body, _ := io.ReadAll(r.Body)
	switch {
	case r.Method != http.MethodGet:
		s.sent = append(s.sent, r.Method+" "+r.URL.Path+" "+string(body))
		_, _ = io.WriteString(w, "{}")
	case strings.HasSuffix(r.URL.Path, "/tidepools"):
		_, _ = io.WriteString(w, s.pools)
	case r.URL.Path == "/api/v1/nodes":
		_ = json.NewEncoder(w).Encode(corev1.NodeList{Items: []corev1.Node{*s.node}})
	case s.node != nil:
		_ = json.NewEncoder(w).Encode(s.node)
	default:
		w.WriteHeader(http.StatusNotFound)
		_ = json.NewEncoder(w).Encode(metav1.Status{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}, Status: metav1.StatusFailure, Code: http.StatusNotFound})
	}
}

func start(t *testing.T, s *server) (*Client, *lease.Fence) {
	t.Helper()
	listening := httptest.NewServer(s)
	t.Cleanup(listening.Close)
	fence := lease.NewFence(time.Hour, time.Minute)
	fence.Renewed(time.Now())
	c, err := New(&rest.Config{Host: listening.URL}, fence, time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c, fence
}

// A node of offline has label, taint and time beside the taints of others; one of online has no taint; one that is released has nothing. A deposed leader writes nothing.
func TestMarks(t *testing.T) {
	since := time.Date(2026, 11, 26, 8, 0, 0, 0, time.UTC)
	s := &server{node: &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n", ResourceVersion: "7", UID: "u"}, Spec: corev1.NodeSpec{Taints: []corev1.Taint{
		{Key: "dedicated", Effect: corev1.TaintEffectNoSchedule}, {Key: spec.LabelTide, Value: "old", Effect: corev1.TaintEffectNoSchedule},
	}}}}
	c, fence := start(t, s)
	for _, step := range []struct {
		do   func() error
		want []string
		not  string
	}{
		{func() error { return c.Hand(t.Context(), "n", "p", tide.Offline, since) }, []string{
			`"hilbert.dev/tide":"offline"`, `"hilbert.dev/tide-pool":"p"`, `"hilbert.dev/tide-since":"2026-11-26T08:00:00Z"`, `"key":"dedicated"`, `"value":"offline"`, `"resourceVersion":"7"`,
		}, `"old"`},
		{func() error { return c.Hand(t.Context(), "n", "p", tide.Online, time.Time{}) }, []string{`"hilbert.dev/tide":"online"`, `"hilbert.dev/tide-since":null`, `"key":"dedicated"`}, `"key":"hilbert.dev/tide"`},
		{func() error { return c.Release(t.Context(), "n") }, []string{`"hilbert.dev/tide":null`, `"hilbert.dev/tide-pool":null`, `"key":"dedicated"`}, `"key":"hilbert.dev/tide"`},
	} {
		if err := step.do(); err != nil {
			t.Fatal(err)
		}
		sent := s.sent[len(s.sent)-1]
		for _, want := range step.want {
			if !strings.Contains(sent, want) {
				t.Errorf("%s lacks %s", sent, want)
			}
		}
		if strings.Contains(sent, step.not) {
			t.Errorf("%s has %s", sent, step.not)
		}
	}
	node := s.node
	s.node = nil
	if err := c.Release(t.Context(), "gone"); err != nil {
		t.Errorf("a node that is gone: %v", err)
	}
	s.node = node
	before := len(s.sent)
	fence.Shut()
	if err := c.Hand(t.Context(), "n", "p", tide.Offline, since); err == nil || len(s.sent) != before {
		t.Errorf("a deposed leader has sent %v", s.sent[before:])
	}
}

// Nodes say whose they are; what cannot be read is nobody's.
func TestNodes(t *testing.T) {
	s := &server{node: &corev1.Node{ObjectMeta: metav1.ObjectMeta{
		Name: "n", Labels: map[string]string{spec.LabelTide: spec.TideOffline, spec.LabelTidePool: "p"}, Annotations: map[string]string{spec.AnnotationTideSince: "2026-11-26T08:00:00Z"},
	}}}
	c, _ := start(t, s)
	list, err := c.Nodes(t.Context())
	if n := list["n"]; err != nil || n.Side != tide.Offline || n.Pool != "p" || n.Since.Hour() != 8 {
		t.Errorf("%+v, %v", list, err)
	}
	s.node.Labels[spec.LabelTide], s.node.Annotations[spec.AnnotationTideSince] = "mine", "noon"
	if list, err = c.Nodes(t.Context()); err != nil || list["n"].Side != tide.Unassigned || !list["n"].Since.IsZero() {
		t.Errorf("%+v, %v", list, err)
	}
}

// A pool with a mistake is there with the reason, hides no other one, and selects no node. The oldest is the first.
func TestPools(t *testing.T) {
	const selector = `"nodeSelector":{"matchLabels":{"pool":"tide"}}`
	long := strings.Repeat("n", 64) // no label has such a value
	s := &server{pools: `{"metadata":{},"items":[
		{"metadata":{"name":"young","creationTimestamp":"2026-02-01T00:00:00Z"},"spec":{` + selector + `,"schedule":[{"name":"d","cron":"0 8 * * *","timeZone":"Europe/Berlin","duration":"1h","online":3}]}},
		{"metadata":{"name":"old","creationTimestamp":"2026-01-01T00:00:00Z"},"spec":{` + selector + `}},
		{"metadata":{"name":"unread","creationTimestamp":"2026-03-01T00:00:00Z"},"spec":{"reserve":7}},
		{"metadata":{"name":"zone","creationTimestamp":"2026-03-02T00:00:00Z"},"spec":{` + selector + `,"schedule":[{"name":"d","cron":"0 8 * * *","timeZone":"Mars","duration":"1h","online":3}]}},
		{"metadata":{"name":"all","creationTimestamp":"2026-03-03T00:00:00Z"},"spec":{"nodeSelector":{}}},
		{"metadata":{"name":"` + long + `","creationTimestamp":"2026-03-04T00:00:00Z"},"spec":{` + selector + `}}]}`}
	c, _ := start(t, s)
	list, err := c.Pools(t.Context())
	if err != nil || len(list) != 6 {
		t.Fatalf("%+v, %v", list, err)
	}
	for i, want := range []struct{ name, invalid string }{{"old", ""}, {"young", ""}, {"unread", "reserve"}, {"zone", "schedule[0]"}, {"all", "nodeSelector"}, {long, "metadata.name"}} {
		p := &list[i]
		if p.Object.Name != want.name || want.invalid == "" && p.Invalid != "" || !strings.Contains(p.Invalid, want.invalid) {
			t.Errorf("%d: %s, %q; want %+v", i, p.Object.Name, p.Invalid, want)
		}
		if got := p.Selects(map[string]string{"pool": "tide"}); got != (want.invalid == "") {
			t.Errorf("%s selects: %v", want.name, got)
		}
	}
	if w := list[1].Windows; len(w) != 1 || w[0].Online != 3 || w[0].Begins.Next(time.Date(2026, 7, 1, 0, 0, 0, 0, time.UTC)).UTC().Hour() != 6 {
		t.Errorf("%+v", w)
	}
	now := time.Date(2026, 11, 26, 8, 0, 0, 0, time.UTC)
	status := spec.TidePoolStatus{Nodes: 3}
	conditions := []spec.NodeCondition{{Type: spec.ConditionTideValid, True: true, Reason: spec.ReasonTideValid}}
	if written, err := c.Status(t.Context(), &list[0], &status, conditions, now); err != nil || !written || !strings.Contains(s.sent[0], `"nodes":3`) || !strings.HasPrefix(s.sent[0], "PUT ") {
		t.Errorf("%v, %v, %v", written, err, s.sent)
	}
	list[0].Object.Status.TidePoolStatus = status
	list[0].Object.Status.Conditions = []metav1.Condition{{Type: spec.ConditionTideValid, Status: metav1.ConditionTrue, Reason: spec.ReasonTideValid, LastTransitionTime: metav1.NewTime(now)}}
	if written, err := c.Status(t.Context(), &list[0], &status, conditions, now.Add(time.Hour)); err != nil || written {
		t.Errorf("what is as it was is written: %v, %v", written, err)
	}
}

// A pool that cannot be read keeps what its status remembers: hand-overs of the last hour, and weeks of the forecast's history. A status that cannot be read is written over.
func TestUnreadablePoolsKeepTheirStatus(t *testing.T) {
	const status = `"status":{"nodes":9,"online":4,"offline":5,"wanted":4,"forecastHistory":"YWJj","lowMost":4,"handOvers":[{"at":"2026-11-26T07:50:00Z","nodes":3}]}`
	for name, c := range map[string]struct {
		pool  string
		keeps bool
	}{
		"no duration":            {`"spec":{"hold":"15 minutes"},` + status, true},
		"no number":              {`"spec":{"slack":"one"},` + status, true},
		"a status that is wrong": {`"spec":{},"status":{"nodes":"nine","forecastHistory":"YWJj"}`, false},
	} {
		s := &server{pools: `{"metadata":{},"items":[{"metadata":{"name":"p","uid":"u","resourceVersion":"7"},` + c.pool + `}]}`}
		client, _ := start(t, s)
		list, err := client.Pools(t.Context())
		if err != nil || len(list) != 1 || list[0].Invalid == "" {
			t.Fatalf("%s: %+v, %v", name, list, err)
		}
		p := &list[0]
		next := p.Object.Status.TidePoolStatus // as the role controller has it
		written, err := client.Status(t.Context(), p, &next, []spec.NodeCondition{{Type: spec.ConditionTideValid, Reason: spec.ReasonTideInvalid, Message: p.Invalid}}, time.Now())
		if err != nil || !written {
			t.Fatalf("%s: written %v, %v", name, written, err)
		}
		if !strings.Contains(s.sent[0], `"resourceVersion":"7"`) || !strings.Contains(s.sent[0], `"uid":"u"`) {
			t.Errorf("%s: it is written over whatever there is: %s", name, s.sent[0])
		}
		for _, part := range []string{`"forecastHistory":"YWJj"`, `"handOvers":[{"at":"2026-11-26T07:50:00Z","nodes":3}]`, `"lowMost":4`, `"nodes":9`} {
			if strings.Contains(s.sent[0], part) != c.keeps {
				t.Errorf("%s: %s is in what is written: %v, want %v: %s", name, part, !c.keeps, c.keeps, s.sent[0])
			}
		}
	}
}
