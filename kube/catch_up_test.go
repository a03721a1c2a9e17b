package kube

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
	"pgregory.net/rapid"
)

// modelHistory is what happened to one resource of an API server, and a reflector that has been told a part of it.
type modelHistory struct {
	changes []int64 // resource versions of changes, rising; others' changes lie between
	now     int64   // the newest resource version of all
	told    int     // the reflector has delivered so many changes
	listed  int64   // the version of the reflector's list
	// draw decides what the model is free to do.
	draw   func(name string, most int) int
	broken error // answers every watch
	probes int
}

// happen adds changes of this resource and of others.
func (m *modelHistory) happen() {
	for range m.draw("changes", 3) {
		m.now += int64(1 + m.draw("others before", 2))
		m.changes = append(m.changes, m.now)
	}
	m.now += int64(m.draw("others after", 3))
}

// seen is how far the reflector is; it comes further with each question. It is told no bookmarks.
func (m *modelHistory) seen() string {
	m.told = min(m.told+m.draw("told", 2), len(m.changes))
	version := m.listed
	if m.told > 0 {
		version = max(version, m.changes[m.told-1])
	}
	return strconv.FormatInt(version, 10)
}

func (m *modelHistory) list(context.Context, metav1.ListOptions) (runtime.Object, error) {
	version := m.now
	defer m.happen()
	return &corev1.PodList{ListMeta: metav1.ListMeta{ResourceVersion: strconv.FormatInt(version, 10)}}, nil
}

// watch tells what was after a version, and ends with a bookmark; or ends early, or with a bookmark of a cache that lags.
func (m *modelHistory) watch(_ context.Context, o metav1.ListOptions) (watch.Interface, error) {
	m.probes++
	m.happen()
	if m.broken != nil {
		return nil, m.broken
	}
	from, err := strconv.ParseInt(o.ResourceVersion, 10, 64)
	if err != nil || !o.AllowWatchBookmarks || o.TimeoutSeconds == nil {
		return nil, errors.New("no short watch with bookmarks from a version")
	}
	var events []watch.Event
	add := func(kind watch.EventType, version int64) {
		events = append(events, watch.Event{Type: kind, Object: &corev1.Pod{ObjectMeta: metav1.ObjectMeta{ResourceVersion: strconv.FormatInt(version, 10)}}})
	}
	until := m.now - int64(m.draw("cache lags", 4))
	for _, change := range m.changes {
		if change > from && change <= until {
			add([]watch.EventType{watch.Added, watch.Modified, watch.Deleted}[m.draw("kind", 2)], change)
		}
	}
	if until >= from && m.draw("bookmark", 3) > 0 {
		add(watch.Bookmark, until)
	}
	if m.draw("cut", 5) == 0 && len(events) > 0 {
		events = events[:len(events)-1]
	}
	result := make(chan watch.Event, len(events))
	for _, e := range events {
		result <- e
	}
	close(result)
	return watch.NewProxyWatcher(result), nil
}

func (m *modelHistory) reflector() *trackedWatch {
	return &trackedWatch{"pods", &cache.ListWatch{ListWithContextFunc: m.list, WatchFuncWithContext: m.watch}, m.seen}
}

// TestCatchUp: whoever has caught up has been told every change that was agreed on before it asked, however the API server and the own watch go on meanwhile.
func TestCatchUp(t *testing.T) {
	waited := 0
	rapid.Check(t, func(t *rapid.T) {
		m := &modelHistory{now: 100, listed: 100, draw: func(name string, most int) int { return rapid.IntRange(0, most).Draw(t, name) }}
		for range m.draw("history", 5) {
			m.happen()
		}
		before := len(m.changes)
		told := m.told
		if err := m.reflector().catchUp(t.Context()); err != nil {
			t.Fatal(err)
		}
		if m.told < before {
			t.Fatalf("caught up with %d of %d changes", m.told, before)
		}
		if told < before {
			waited++
		}
	})
	if waited == 0 {
		t.Error("in no case was there anything to wait for")
	}
}

// TestCatchUpSaysWhyNot: where it cannot be found out, there is a reason, so that everything is listed.
func TestCatchUpSaysWhyNot(t *testing.T) {
	model := func() *modelHistory {
		return &modelHistory{now: 100, listed: 90, changes: []int64{95}, draw: func(string, int) int { return 0 }}
	}
	ended, cancel := context.WithCancelCause(t.Context())
	cancel(errors.New("enough"))
	for name, c := range map[string]struct {
		ctx   context.Context
		model func(*modelHistory) *trackedWatch
		want  string
	}{
		"too old": {t.Context(), func(m *modelHistory) *trackedWatch {
			m.broken = apierrors.NewResourceExpired("too old")
			return m.reflector()
		}, "look for changes of pods after 90: too old"},
		"no list yet": {t.Context(), func(m *modelHistory) *trackedWatch {
			r := m.reflector()
			r.seen = func() string { return "" }
			return r
		}, "pods: no list is complete yet"},
		"no bookmark": {ended, (*modelHistory).reflector, "enough"},
		"versions that are no numbers": {t.Context(), func(m *modelHistory) *trackedWatch {
			r := m.reflector()
			r.seen = func() string { return "abc" }
			return r
		}, "abc"},
	} {
		t.Run(name, func(t *testing.T) {
			err := c.model(model()).catchUp(c.ctx)
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %q", err, c.want)
			}
		})
	}
}
