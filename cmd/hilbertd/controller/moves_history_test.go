package controller

import (
	"encoding/json"
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

	"hilbert.dev/hilbert/api/scheduling/v1alpha1"
	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/control/budget"
	"hilbert.dev/hilbert/kube/apiserver"
	"hilbert.dev/hilbert/kube/lease"
	"hilbert.dev/hilbert/kube/moves"
)

// historyBed is an API server with the record of who was moved, and one move whose replacement has its target.
type historyBed struct {
	record  *corev1.ConfigMap // nil: there is none
	refuses int               // how many writes of the record fail
	target  *v1alpha1.Reservation
	wrote   []string
}

func newHistoryBed() *historyBed {
	r := &v1alpha1.Reservation{ObjectMeta: metav1.ObjectMeta{
		Namespace: "ns", Name: v1alpha1.MovePrefix + "u", Labels: map[string]string{spec.LabelMove: ""}, CreationTimestamp: metav1.Now(),
		Annotations: map[string]string{spec.AnnotationMove: `{"uid":"u","name":"web-0","workload":"ns/web","from":"a","to":"b"}`},
	}}
	r.Spec.Count = 1
	r.Status.Places = []v1alpha1.ReservedPlace{{State: "Consumed", Pod: "web-1"}}
	return &historyBed{record: &corev1.ConfigMap{}, target: r}
}

func (b *historyBed) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	body, _ := io.ReadAll(r.Body)
	is := func(text string) bool { return strings.Contains(r.URL.Path, text) }
	switch {
	case is("/configmaps/") && r.Method == http.MethodGet && b.record != nil:
		_ = json.NewEncoder(w).Encode(b.record)
	case is("/configmaps/") && r.Method != http.MethodGet && b.refuses > 0:
		b.refuses--
		w.WriteHeader(http.StatusInternalServerError)
	case is("/configmaps/") && r.Method != http.MethodGet:
		b.wrote = append(b.wrote, "record")
		_ = json.Unmarshal(body, b.record)
		_, _ = io.WriteString(w, "{}")
	case r.Method == http.MethodDelete:
		b.wrote = append(b.wrote, "delete")
		b.target = nil
		_, _ = io.WriteString(w, "{}")
	case strings.HasSuffix(r.URL.Path, "/reservations"):
		list := &v1alpha1.ReservationList{}
		if b.target != nil {
			list.Items = append(list.Items, *b.target)
		}
		_ = json.NewEncoder(w).Encode(list)
	case is("/reservations/") && b.target != nil:
		_ = json.NewEncoder(w).Encode(b.target)
	default:
		w.WriteHeader(http.StatusNotFound)
	}
}

// leader is one that begins.
func (b *historyBed) leader(t *testing.T) *mover {
	t.Helper()
	listening := httptest.NewServer(b)
	t.Cleanup(listening.Close)
	fence := lease.NewFence(time.Hour, time.Minute)
	fence.Renewed(time.Now())
	client, err := moves.New(&apiserver.Connection{Host: listening.URL}, fence, time.Minute, time.Hour, "hilbert-system")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	config := spec.Default().Rescheduling
	config.Mode = spec.ReschedulingAuto
	m := newMover(client, config, nil, slog.New(slog.DiscardHandler), newMoveMeter())
	m.disturbances = beginDisturbing(budget.Limits{PerHour: 60, Burst: 10}, lease.Released, time.Now())
	m.planAt = time.Now().Add(time.Hour)
	return m
}

func (m *mover) knows(t *testing.T, text string) bool {
	t.Helper()
	record, err := m.carrier.History().Record()
	if err != nil {
		t.Fatal(err)
	}
	return strings.Contains(string(record), text)
}

// Who was moved is written down before the target is given back, so that at each moment a new leader finds one of them.
func TestNextLeaderKnowsWhoWasMoved(t *testing.T) {
	t.Parallel()
	b := newHistoryBed()
	b.refuses = 1
	first := b.leader(t)
	first.round(t.Context(), time.Now())
	if len(b.wrote) > 0 || len(first.ending) != 1 || b.target == nil {
		t.Fatalf("the record could not be written: wrote %q, %d moves end", b.wrote, len(first.ending))
	}
	second := b.leader(t)
	second.round(t.Context(), time.Now())
	if !slices.Equal(b.wrote, []string{"record", "delete"}) || len(second.ending) > 0 || !second.knows(t, `"ns/web-1"`) {
		t.Errorf("wrote %q, %d moves end", b.wrote, len(second.ending))
	}
	third := b.leader(t)
	third.round(t.Context(), time.Now())
	if len(b.wrote) > 2 || !third.knows(t, `"ns/web-1"`) || !third.knows(t, `"ns/web"`) || !third.carrier.History().KnownSince().IsZero() {
		t.Errorf("the third leader knows %+v", third.carrier.History())
	}
}

// A leader that cannot read who was moved moves nobody. One that finds what makes no sense says since when it knows, in the record too.
func TestUnknownMoves(t *testing.T) {
	t.Parallel()
	b := newHistoryBed()
	b.record = nil
	m := b.leader(t)
	m.round(t.Context(), time.Now())
	if m.adopted || m.carrier != nil {
		t.Error("there is no record, and it goes on")
	}
	b.record = &corev1.ConfigMap{Data: map[string]string{"moves.json": "{"}}
	m = b.leader(t)
	m.round(t.Context(), time.Now())
	if !m.adopted || m.carrier.History().KnownSince().IsZero() || !strings.Contains(b.record.Data["moves.json"], "knownSince") {
		t.Errorf("a damaged record is believed: %+v", m.carrier)
	}
	if next := b.leader(t); next.adopt(t.Context()) != nil || next.carrier.History().KnownSince().IsZero() {
		t.Error("the next leader does not know that not all is known")
	}
}

// A leader has no budget saved up, for the one before may have spent all of it just now; the first one has.
func TestLeadersBeginWithoutBudget(t *testing.T) {
	t.Parallel()
	now := time.Now()
	for takeover, want := range map[lease.Takeover]int{lease.Absent: 10, lease.Released: 0, lease.Expired: 0, 0: 0} {
		d := beginDisturbing(budget.Limits{PerHour: 60, Burst: 10}, takeover, now)
		if left, then := d.budget.Left(now), d.budget.Left(now.Add(time.Minute)); left != want || then != min(want+1, 10) {
			t.Errorf("%v: %d are left, and %d in a minute", takeover, left, then)
		}
	}
}

// Who moves nobody reads no record, and asks no cooldowns.
func TestAdviceAsksNoCooldowns(t *testing.T) {
	t.Parallel()
	m := newHistoryBed().leader(t)
	if p := m.params(); p.PodCooldown != 24*time.Hour || p.WorkloadCooldown != time.Hour {
		t.Errorf("Auto: %+v", p)
	}
	m.config.Mode = spec.ReschedulingAdvise
	if p := m.params(); p.PodCooldown != 0 || p.WorkloadCooldown != 0 {
		t.Errorf("Advise: %+v", p)
	}
}
