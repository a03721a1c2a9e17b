package agent

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync/atomic"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"hilbert.dev/hilbert/api/node/v1alpha1"
	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/internal/fairshare"
	"hilbert.dev/hilbert/kube/apiserver"
	"hilbert.dev/hilbert/kube/parse"
)

const (
	// profileSurvey is how often an agent asks whether the API server has ServiceProfiles: 20,000 agents together some 30 times a second.
	profileSurvey = 10 * time.Minute
	// profileBackoff bounds the pause before a watch that broke is made again.
	profileBackoff = time.Minute
	// maxProfiles bounds the ServiceProfiles that an agent keeps; the others are not followed.
	maxProfiles = 4096
)

// profileScheme knows ServiceProfiles.
var profileScheme = newProfileScheme()

func newProfileScheme() *runtime.Scheme {
	s := runtime.NewScheme()
	if err := v1alpha1.AddToScheme(s); err != nil {
		panic(err) // a mistake of ours, which every test finds
	}
	return s
}

// ProfileWatch keeps an agent told of the ServiceProfiles of all namespaces. An API server without them is like one that has none; it is looked
// for them again every ten minutes.
type ProfileWatch struct {
	surveyor *apiserver.Surveyor
	follower apiserver.Follower
	health   *apiserver.Health
	period   time.Duration
	stop     context.CancelFunc
	done     chan struct{}
	left     *atomic.Int64
}

// WatchProfiles begins to list and watch. changed is called from one goroutine with all profiles that can be followed, the oldest first: when the
// list has come, and after each change that matters. It may keep what it is given, and must not change it. An API server that
// cannot be reached is tried for ever; what was told stands meanwhile. It runs until Stop; ctx lends its values only.
func WatchProfiles(ctx context.Context, c *apiserver.Connection, changed func([]spec.NamedProfile), log *slog.Logger) (*ProfileWatch, error) {
	w, err := newProfileWatch(c, changed, log)
	if err != nil {
		return nil, err
	}
	ctx, w.stop = context.WithCancel(apiserver.Silence(context.WithoutCancel(ctx)))
	go func() {
		defer close(w.done)
		w.run(ctx)
	}()
	return w, nil
}

func newProfileWatch(c *apiserver.Connection, changed func([]spec.NamedProfile), log *slog.Logger) (*ProfileWatch, error) {
	own := apiserver.ForPurpose(c, "profiles", nil)
	shared, err := rest.HTTPClientFor(own)
	if err != nil {
		return nil, fmt.Errorf("make a client for ServiceProfiles: %w", err)
	}
	surveyor, err := apiserver.NewSurveyor(own, shared)
	if err != nil {
		return nil, fmt.Errorf("make a client for ServiceProfiles: %w", err)
	}
	note := func(what string) *apiserver.Health {
		return &apiserver.Health{Log: log, What: "the API server (" + what + ")"}
	}
	sink := &profileSink{changed: changed, known: make(map[cache.ObjectName]spec.NamedProfile), warner: parse.Warner{Log: log}, log: log, left: new(atomic.Int64)}
	name := v1alpha1.ServiceProfiles
	reflector := func(string) (*cache.Reflector, error) {
		client, err := apiserver.NewObjectClient[v1alpha1.ServiceProfile, v1alpha1.ServiceProfileList](profileScheme, own, shared, v1alpha1.GroupVersion, name)
		if err != nil {
			return nil, err
		}
		h := note(name)
		source := &cache.ListWatch{ // from the API server's cache: it need not be agreed
			ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
				list, err := client.List(ctx, o)
				h.Note(err)
				return list, err
			},
			WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
				w, err := client.Watch(ctx, o)
				h.Note(err)
				return w, err
			},
		}
		pause := apiserver.Backoff(profileBackoff)
		return cache.NewReflectorWithOptions(source, &v1alpha1.ServiceProfile{}, sink, cache.ReflectorOptions{Name: name, Backoff: &pause}), nil
	}
	return &ProfileWatch{
		left: sink.left, surveyor: surveyor, health: note("discovery"), period: profileSurvey, done: make(chan struct{}),
		follower: apiserver.Follower{What: name + "." + v1alpha1.Group, Log: log, Reflector: reflector, Absent: func() error { return sink.Replace(nil, "") }},
	}, nil
}

// LeftOut is how often a profile was left out since the start, because there were maxProfiles.
func (w *ProfileWatch) LeftOut() int64 { return w.left.Load() }

// Stop ends the watch and waits for it.
func (w *ProfileWatch) Stop() {
	w.stop()
	<-w.done
}

// run surveys for ever, sooner again when that fails.
func (w *ProfileWatch) run(ctx context.Context) {
	defer w.follower.End()
	look := func(ctx context.Context) error {
		version, err := w.survey(ctx)
		if err != nil {
			return err
		}
		return w.follower.Follow(ctx, version)
	}
	apiserver.Repeat(ctx, w.period, profileBackoff, w.health, look)
}

func (w *ProfileWatch) survey(ctx context.Context) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, apiserver.SurveyTimeout)
	defer cancel()
	return w.surveyor.First(ctx, v1alpha1.Group, []string{v1alpha1.Version}, v1alpha1.ServiceProfiles)
}

// profileSink is what the reflector fills.
type profileSink struct {
	changed func([]spec.NamedProfile)
	known   map[cache.ObjectName]spec.NamedProfile
	warner  parse.Warner
	log     *slog.Logger
	full    bool
	left    *atomic.Int64 // profiles that were left out
}

// parseProfile reads a profile. The error says why it cannot be followed.
func parseProfile(p *v1alpha1.ServiceProfile) (spec.NamedProfile, error) {
	if err := spec.ValidateProfile(&p.Spec); err != nil {
		return spec.NamedProfile{}, err
	}
	out := spec.NamedProfile{Namespace: p.Namespace, Name: p.Name, Created: p.CreationTimestamp.Time, ServiceProfile: p.DeepCopy().Spec}
	if out.Period == 0 {
		out.Period = spec.DefaultProfilePeriod
	}
	return out, nil
}

// take notes a profile, and reports whether something has changed.
func (s *profileSink) take(p *v1alpha1.ServiceProfile) bool {
	name := cache.MetaObjectToName(p)
	before, known := s.known[name]
	parsed, err := parseProfile(p)
	if err != nil {
		s.warner.Warn("serviceprofile "+p.Namespace+"/"+p.Name+" "+string(p.UID), "the ServiceProfile cannot be followed", "err", err)
		delete(s.known, name)
		return known
	}
	if !known && len(s.known) >= maxProfiles {
		s.left.Add(1)
		if !s.full {
			s.full = true
			s.log.Warn("there are more ServiceProfiles than are followed; namespaces share them", "followed", maxProfiles)
		}
		if !s.makeRoom(p.Namespace) {
			return false
		}
	}
	s.known[name] = parsed
	return !known || !parsed.Equal(&before)
}

// makeRoom leaves out a profile of the namespace that has most, the last by name, for one of a namespace that has fewer. False: there is none.
func (s *profileSink) makeRoom(namespace string) bool {
	held := make(map[string]int)
	for name := range s.known {
		held[name.Namespace]++
	}
	from, ok := fairshare.Yields(held, namespace)
	if !ok {
		return false
	}
	var last cache.ObjectName
	for name := range s.known {
		if name.Namespace == from && name.Name >= last.Name {
			last = name
		}
	}
	delete(s.known, last)
	return true
}

func (s *profileSink) tell() error {
	list := make([]spec.NamedProfile, 0, len(s.known))
	for _, p := range s.known {
		list = append(list, p)
	}
	slices.SortFunc(list, func(a, b spec.NamedProfile) int { return a.Compare(&b) })
	s.changed(list)
	return nil
}

func (s *profileSink) upsert(object any) error {
	p, ok := object.(*v1alpha1.ServiceProfile)
	if !ok {
		return fmt.Errorf("%s: the watch delivered a %T", v1alpha1.ServiceProfiles, object)
	}
	if s.take(p) {
		return s.tell()
	}
	return nil
}

// Add takes in a profile that was created.
func (s *profileSink) Add(object any) error { return s.upsert(object) }

// Update takes in a profile that was changed.
func (s *profileSink) Update(object any) error { return s.upsert(object) }

// Delete takes in a profile that is gone.
func (s *profileSink) Delete(object any) error {
	p, ok := object.(*v1alpha1.ServiceProfile)
	if !ok {
		return fmt.Errorf("%s: the watch delivered a %T", v1alpha1.ServiceProfiles, object)
	}
	if _, known := s.known[cache.MetaObjectToName(p)]; !known {
		return nil
	}
	delete(s.known, cache.MetaObjectToName(p))
	return s.tell()
}

// Replace takes in a whole list.
func (s *profileSink) Replace(objects []any, _ string) error {
	clear(s.known)
	s.full = false
	for _, object := range objects {
		p, ok := object.(*v1alpha1.ServiceProfile)
		if !ok {
			return fmt.Errorf("%s: the list has a %T", v1alpha1.ServiceProfiles, object)
		}
		s.take(p)
	}
	return s.tell()
}

// Resync does nothing: what is kept is what was told.
func (s *profileSink) Resync() error { return nil }
