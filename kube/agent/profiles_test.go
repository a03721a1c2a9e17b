package agent

import (
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/cache"

	"hilbert.dev/hilbert/api/node/v1alpha1"
	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/kube/apiserver"
	"hilbert.dev/hilbert/kube/standin"
)

const (
	allProfiles = "serviceprofiles.node.hilbert.dev"
	profileText = `{apiVersion: node.hilbert.dev/v1alpha1, kind: ServiceProfile, metadata: {namespace: shop, name: web, uid: u, creationTimestamp: "2026-11-21T00:00:00Z"},
  spec: {selector: {matchLabels: {app: web}}, indicators: [{type: RunDelay, target: 0.05}], bounds: {minCPUs: 2}}}`
)

var silent = slog.New(slog.DiscardHandler)

// profileRig is a watch on a stand-in.
type profileRig struct {
	server *standin.Server
	told   chan string
}

func newProfileRig(t *testing.T, offered bool) *profileRig {
	t.Helper()
	r := &profileRig{server: standin.New(t), told: make(chan string, 100)}
	if offered {
		r.server.Offer(allProfiles, "v1alpha1")
	}
	return r
}

func (r *profileRig) start(t *testing.T) {
	t.Helper()
	w, err := newProfileWatch(r.server.Connection(), func(list []spec.NamedProfile) {
		var words []string
		for i := range list {
			p := &list[i]
			words = append(words, fmt.Sprintf("%v %v least %d each %v", p, p.Indicators[0].Target, p.Bounds.MinCPUs, p.Period.D()))
		}
		r.told <- strings.Join(words, "; ")
	}, silent)
	if err != nil {
		t.Fatal(err)
	}
	w.period = 20 * time.Millisecond
	ctx := apiserver.Silence(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		w.run(ctx)
	}()
	t.Cleanup(func() { <-done })
}

func (r *profileRig) expect(t *testing.T, want string) {
	t.Helper()
	select {
	case got := <-r.told:
		if got != want {
			t.Fatalf("got %q, want %q", got, want)
		}
	case <-time.After(time.Minute):
		t.Fatalf("nothing is told, want %q", want)
	}
}

// What is created, changed and deleted is told, the oldest first; what changes nothing, or cannot be followed, is not.
func TestProfilesAreTold(t *testing.T) {
	r := newProfileRig(t, true)
	web := standin.FromYAML(t, profileText)
	r.server.Set(web)
	r.start(t)
	r.expect(t, "shop/web 0.05 least 2 each 10s")
	r.server.Set(standin.With(web, map[string]any{"a": "b"}, "metadata", "annotations")) // nothing
	web = standin.With(web, int64(3), "spec", "bounds", "minCPUs")
	r.server.Set(web)
	r.expect(t, "shop/web 0.05 least 3 each 10s")

	older := standin.With(standin.With(standin.With(web, "old", "metadata", "name"), "2025-11-21T00:00:00Z", "metadata", "creationTimestamp"), "30s", "spec", "period")
	r.server.Set(older)
	r.expect(t, "shop/old 0.05 least 3 each 30s; shop/web 0.05 least 3 each 10s")
	bad := standin.With(standin.With(web, "bad", "metadata", "name"), "1s", "spec", "period")
	r.server.Set(bad)
	r.server.Delete(bad)
	r.server.Set(standin.With(web, "1s", "spec", "period")) // it could be followed before
	r.expect(t, "shop/old 0.05 least 3 each 30s")
	r.server.Delete(older)
	r.expect(t, "")

	r.server.Set(web)
	r.expect(t, "shop/web 0.05 least 3 each 10s")
	r.server.Expire() // and a new list
	r.server.BreakWatches()
	r.expect(t, "shop/web 0.05 least 3 each 10s")

	if got := r.server.Asked(); !slices.Equal(got, []string{"list node.hilbert.dev/serviceprofiles", "watch node.hilbert.dev/serviceprofiles"}) {
		t.Errorf("asked %v", got)
	}
}

// An API server without profiles has none, until it has.
func TestProfilesComeAndGo(t *testing.T) {
	r := newProfileRig(t, false)
	r.start(t)
	r.expect(t, "")
	r.server.Set(standin.FromYAML(t, profileText))
	r.server.Offer(allProfiles, "v1alpha1")
	r.expect(t, "shop/web 0.05 least 2 each 10s")
	r.server.Offer(allProfiles, "")
	r.expect(t, "")
}

// No more profiles are kept than may be.
func TestProfilesAreBounded(t *testing.T) {
	told := 0
	s := &profileSink{changed: func(list []spec.NamedProfile) { told = len(list) }, known: make(map[cache.ObjectName]spec.NamedProfile), log: silent, left: new(atomic.Int64)}
	p := profileOf(t, standin.FromYAML(t, profileText))
	for i := range maxProfiles + 2 {
		p.Name = fmt.Sprint(i)
		s.take(p)
	}
	if err := s.tell(); err != nil || told != maxProfiles || !s.full {
		t.Errorf("%d are told, %v", told, err)
	}
	if n := s.left.Load(); n != 2 {
		t.Errorf("%d were left out", n)
	}
	p.Namespace = "other"
	for i := range 3 { // a namespace that has none gets its places
		p.Name = fmt.Sprint(i)
		if !s.take(p) {
			t.Errorf("%d of another namespace is left out", i)
		}
	}
	if len(s.known) != maxProfiles {
		t.Errorf("%d are kept", len(s.known))
	}
	if s.Add(&unstructured.Unstructured{}) == nil || s.Delete(1) == nil || s.Replace([]any{1}, "") == nil {
		t.Error("strangers are taken")
	}
}

func profileOf(t *testing.T, u *unstructured.Unstructured) *v1alpha1.ServiceProfile {
	t.Helper()
	p := &v1alpha1.ServiceProfile{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, p); err != nil {
		t.Fatal(err)
	}
	return p
}
