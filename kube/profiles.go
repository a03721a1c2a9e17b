package kube

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"hilbert.dev/hilbert/api/node/v1alpha1"
	"hilbert.dev/hilbert/api/spec"
)

const (
	// profileSurvey is how often an agent asks whether the API server has ServiceProfiles: 20,000 agents together some 30 times a second.
	profileSurvey = 10 * time.Minute
	// profileBackoff bounds the pause before a watch that broke is made again.
	profileBackoff = time.Minute
	// maxProfiles bounds the ServiceProfiles that an agent keeps; the others are not followed.
	maxProfiles = 4096
)

// ProfileWatch keeps an agent told of the ServiceProfiles of all namespaces. An API server without them is like one that has none; it is looked
// for them again every ten minutes.
type ProfileWatch struct {
	surveyor *surveyor
	follower follower
	health   *health
	period   time.Duration
	stop     context.CancelFunc
	done     chan struct{}
}

// WatchProfiles begins to list and watch. changed is called from one goroutine with all profiles that can be followed, the oldest first: when the
// list has come, and after each change that matters. It may keep what it is given, and must not change it. An API server that
// cannot be reached is tried for ever; what was told stands meanwhile. It runs until Stop; ctx lends its values only.
func WatchProfiles(ctx context.Context, c *Connection, changed func([]spec.NamedProfile), log *slog.Logger) (*ProfileWatch, error) {
	w, err := newProfileWatch(c, changed, log)
	if err != nil {
		return nil, err
	}
	ctx, w.stop = context.WithCancel(silence(context.WithoutCancel(ctx)))
	go func() {
		defer close(w.done)
		w.run(ctx)
	}()
	return w, nil
}

func newProfileWatch(c *Connection, changed func([]spec.NamedProfile), log *slog.Logger) (*ProfileWatch, error) {
	own := purposed(c, "profiles", nil)
	shared, err := rest.HTTPClientFor(own)
	if err != nil {
		return nil, fmt.Errorf("make a client for ServiceProfiles: %w", err)
	}
	surveyor, err := newSurveyor(own, shared)
	if err != nil {
		return nil, fmt.Errorf("make a client for ServiceProfiles: %w", err)
	}
	note := func(what string) *health { return &health{log: log, what: "the API server (" + what + ")"} }
	sink := &profileSink{changed: changed, known: make(map[objectName]spec.NamedProfile), warner: warner{log: log}, log: log}
	name := v1alpha1.ServiceProfiles
	reflector := func(string) (*cache.Reflector, error) {
		client, err := ownClient[v1alpha1.ServiceProfile, v1alpha1.ServiceProfileList](own, shared, v1alpha1.GroupVersion, name)
		if err != nil {
			return nil, err
		}
		h := note(name)
		source := &cache.ListWatch{ // from the API server's cache: it need not be agreed
			ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
				list, err := client.List(ctx, o)
				h.note(err)
				return list, err
			},
			WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
				w, err := client.Watch(ctx, o)
				h.note(err)
				return w, err
			},
		}
		return cache.NewReflectorWithOptions(source, &v1alpha1.ServiceProfile{}, sink, cache.ReflectorOptions{
			Name: name,
			Backoff: &wait.Backoff{
				Duration: watchBackoffFirst, Cap: profileBackoff, Factor: watchBackoffFactor, Jitter: watchBackoffJitter, Steps: 16,
			},
		}), nil
	}
	return &ProfileWatch{
		surveyor: surveyor, health: note("discovery"), period: profileSurvey, done: make(chan struct{}),
		follower: follower{what: name + "." + v1alpha1.Group, log: log, reflector: reflector, absent: func() error { return sink.Replace(nil, "") }},
	}, nil
}

// Stop ends the watch and waits for it.
func (w *ProfileWatch) Stop() {
	w.stop()
	<-w.done
}

// run surveys for ever, sooner again when that fails.
func (w *ProfileWatch) run(ctx context.Context) {
	defer w.follower.end()
	look := func(ctx context.Context) error {
		version, err := w.survey(ctx)
		if err != nil {
			return err
		}
		return w.follower.follow(ctx, version)
	}
	repeat(ctx, w.period, profileBackoff, w.health, look)
}

func (w *ProfileWatch) survey(ctx context.Context) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, surveyTimeout)
	defer cancel()
	return w.surveyor.first(ctx, v1alpha1.Group, []string{v1alpha1.Version}, v1alpha1.ServiceProfiles)
}

// profileSink is what the reflector fills.
type profileSink struct {
	changed func([]spec.NamedProfile)
	known   map[objectName]spec.NamedProfile
	warner  warner
	log     *slog.Logger
	full    bool
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
	name := nameOf(p)
	before, known := s.known[name]
	parsed, err := parseProfile(p)
	if err != nil {
		s.warner.warn("serviceprofile "+p.Namespace+"/"+p.Name+" "+string(p.UID), "the ServiceProfile cannot be followed", "err", err)
		delete(s.known, name)
		return known
	}
	if !known && len(s.known) >= maxProfiles {
		if !s.full {
			s.full = true
			s.log.Warn("there are more ServiceProfiles than are followed", "followed", maxProfiles)
		}
		return false
	}
	s.known[name] = parsed
	return !known || !parsed.Equal(&before)
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
	if _, known := s.known[nameOf(p)]; !known {
		return nil
	}
	delete(s.known, nameOf(p))
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
