package controller

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/cluster"
	"hilbert.dev/hilbert/cluster/facts"
	"hilbert.dev/hilbert/control/budget"
	"hilbert.dev/hilbert/control/reschedule"
	"hilbert.dev/hilbert/kube/apiserver"
	"hilbert.dev/hilbert/kube/lease"
	"hilbert.dev/hilbert/kube/moves"
	"hilbert.dev/hilbert/resource"
	"hilbert.dev/hilbert/schedule"
	"hilbert.dev/hilbert/schedule/inspect"
)

// tideBed is an API server with TidePools and nodes, and a tider with the snapshot of a scheduler.
type tideBed struct {
	t         *testing.T
	pools     []string // in JSON
	nodes     []*corev1.Node
	scheduler *schedule.Scheduler
	spoil     func(*cluster.Dump)
	wrote     []string
	statuses  map[string]string
}

func newTideBed(t *testing.T) *tideBed {
	t.Helper()
	s, err := schedule.New(schedule.Options{Config: spec.Default().Scheduling})
	if err != nil {
		t.Fatal(err)
	}
	return &tideBed{t: t, scheduler: s, spoil: func(*cluster.Dump) {}, statuses: make(map[string]string)}
}

// pool adds a TidePool of the nodes of its name.
func (b *tideBed) pool(name, spec string) {
	b.pools = append(b.pools, fmt.Sprintf(`{"metadata":{"name":%q,"uid":%q,"resourceVersion":"1","creationTimestamp":"2026-01-0%dT00:00:00Z"},"spec":{"nodeSelector":{"matchLabels":{"pool":%q}},%s}}`,
		name, name, len(b.pools)+1, name, spec))
}

// node adds a node with a service on it, if it has any. The scheduler knows of it unless its watch is behind.
func (b *tideBed) node(name, pool, side string, serves, known bool) {
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, ResourceVersion: "1", Labels: map[string]string{"pool": pool, spec.LabelTide: side, spec.LabelTidePool: pool}}}
	b.nodes = append(b.nodes, n)
	if !known {
		return
	}
	b.scheduler.Apply(facts.NodeUpserted{Node: &facts.Node{
		Name: name, Labels: map[string]string{"pool": pool, facts.HostnameKey: name},
		Allocatable: []resource.Quantity{{Name: resource.NameCPU, Amount: 4000}, {Name: resource.NameMemory, Amount: 1 << 34}, {Name: resource.NamePods, Amount: 110}},
	}}, time.Now())
	if serves {
		b.scheduler.Apply(facts.PodUpserted{Pod: facts.Pod{
			UID: facts.UID(name), Namespace: "ns", Name: "on-" + name, Ours: true, Node: name, Consent: spec.ConsentUnsaid,
			Requirements: &facts.Requirements{Requests: []resource.Quantity{{Name: resource.NameCPU, Amount: 100}}, ScoreCPU: 100, ScoreMemory: 1},
		}}, time.Now())
	}
}

func (b *tideBed) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	body, _ := io.ReadAll(r.Body)
	name := r.URL.Path[strings.LastIndexByte(r.URL.Path, '/')+1:]
	switch {
	case strings.HasSuffix(r.URL.Path, "/status"):
		b.statuses[strings.Split(r.URL.Path, "/")[5]] = string(body)
		_, _ = io.WriteString(w, "{}")
	case r.Method != http.MethodGet:
		if name != "events" {
			b.wrote = append(b.wrote, name+" "+string(body))
		}
		_, _ = io.WriteString(w, "{}")
	case name == "tidepools":
		_, _ = io.WriteString(w, `{"metadata":{},"items":[`+strings.Join(b.pools, ",")+`]}`)
	case name == "nodes":
		list := corev1.NodeList{}
		for _, n := range b.nodes {
			list.Items = append(list.Items, *n)
		}
		_ = json.NewEncoder(w).Encode(list)
	case strings.Contains(r.URL.Path, "/nodes/"):
		_ = json.NewEncoder(w).Encode(b.nodes[slices.IndexFunc(b.nodes, func(n *corev1.Node) bool { return n.Name == name })])
	default: // the snapshot
		dump := inspect.Take(b.scheduler, "hilbert", time.Now())
		dump.Sort()
		b.spoil(dump.Ledger)
		var text bytes.Buffer
		if err := dump.Write(&text); err != nil {
			b.t.Error(err)
		}
		_, _ = w.Write(text.Bytes())
	}
}

// decide has a leader decide once.
func (b *tideBed) decide() error {
	b.t.Helper()
	now := time.Now()
	listening := httptest.NewServer(b)
	defer listening.Close()
	fence := lease.NewFence(time.Hour, time.Second)
	fence.Renewed(now)
	connection, log := &apiserver.Connection{Host: listening.URL}, slog.New(slog.DiscardHandler)
	client, err := moves.New(connection, fence, time.Minute, time.Hour, "hilbert-system")
	if err != nil {
		b.t.Fatal(err)
	}
	defer client.Close()
	c := spec.Default()
	c.Controller.Tides.Enabled = true
	t, err := newTider(c, connection, fence, log, newTideMeter())
	if err != nil {
		b.t.Fatal(err)
	}
	defer t.close()
	d := &disturbances{budget: budget.New(budget.Limits{PerHour: 60, Burst: 20}, now)}
	m := newMover(client, c.Rescheduling, t, log, newMoveMeter())
	m.disturbances, m.carrier = d, reschedule.NewCarrier(m.limits, m.config.MaxInFlight, d.budget, new(reschedule.History))
	return t.decide(b.t.Context(), m, now)
}

// A node that the scheduler does not know of yet stays as it is: it is not known whether it belongs to a pool. One that it knows, and that no pool selects, is given back.
func TestUnknownNodesAreNotReleased(t *testing.T) {
	t.Parallel()
	b := newTideBed(t)
	b.pool("a", `"reserve":{"online":1,"offline":1}`)
	b.node("a1", "a", spec.TideOnline, true, true)
	b.node("a2", "a", spec.TideOffline, false, true)
	b.node("late", "a", spec.TideOffline, false, false)
	b.node("lost", "gone", spec.TideOffline, false, true)
	if err := b.decide(); err != nil {
		t.Fatal(err)
	}
	if len(b.wrote) != 1 || !strings.HasPrefix(b.wrote[0], "lost ") || !strings.Contains(b.wrote[0], `"`+spec.LabelTide+`":null`) {
		t.Errorf("wrote %q, want that lost is given back", b.wrote)
	}
}

// A pool that cannot be rehearsed keeps its nodes and what its status remembers, and says why. Others get what they need all the same.
func TestOnePoolKeepsNoOther(t *testing.T) {
	t.Parallel()
	b := newTideBed(t)
	b.pool("a", `"hold":"0s","slack":0`) // has a node too many, with a service that would have to move
	b.pool("b", `"reserve":{"online":2}`)
	b.node("a1", "a", spec.TideOnline, true, true)
	b.node("a2", "a", spec.TideOnline, true, true)
	b.node("b1", "b", spec.TideOnline, true, true)
	b.node("b2", "b", spec.TideOffline, false, true)
	b.spoil = func(d *cluster.Dump) {
		d.Reservations = append(d.Reservations, cluster.ReservationRecord{Node: "nowhere", By: 1})
	}
	if err := b.decide(); err == nil || !strings.Contains(err.Error(), "TidePool a") {
		t.Errorf("the round says %v", err)
	}
	if len(b.wrote) != 1 || !strings.HasPrefix(b.wrote[0], "b2 ") || !strings.Contains(b.wrote[0], `"`+spec.LabelTide+`":"online"`) {
		t.Errorf("wrote %q, want that b2 is online's", b.wrote)
	}
	if a := b.statuses["a"]; !strings.Contains(a, spec.ReasonTideUnknown) || !strings.Contains(a, "rehearse") {
		t.Errorf("a says %s", a)
	}
	if other := b.statuses["b"]; !strings.Contains(other, `"online":2`) {
		t.Errorf("b says %s", other)
	}
}
