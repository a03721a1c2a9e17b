package apiserver

import (
	"context"
	"log/slog"
	"net/http"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/gentype"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
)

const (
	// surveyJitter is the part of a period by which it may be longer.
	surveyJitter = 0.1
	// goneAfter surveys in a row must miss an API before what it told is forgotten: queues that vanish for a moment would lift every limit.
	goneAfter = 2
)

// Backoff is how long to wait before a watch that cannot be made or broke is made again: 200 ms at first, twice as long each time, at most most.
func Backoff(most time.Duration) wait.Backoff {
	return wait.Backoff{
		Duration: 200 * time.Millisecond, Factor: 2, Jitter: 0.5, Cap: most,
		Steps: 16, // more than it takes to reach Cap
	}
}

// Follower watches one API under the version that it is served under.
type Follower struct {
	What string
	Log  *slog.Logger
	// Reflector makes what lists and watches a version; it is started once for each.
	Reflector func(version string) (*cache.Reflector, error)
	// Absent tells that there are no objects.
	Absent func() error

	told    bool
	version string // empty: nothing runs
	missed  int    // surveys in a row
	stop    func()
}

// Follow makes the follower watch a version, or none.
func (f *Follower) Follow(ctx context.Context, version string) error {
	if version == "" && f.version != "" {
		if f.missed++; f.missed < goneAfter {
			return nil
		}
	}
	f.missed = 0
	if f.told && version == f.version {
		return nil
	}
	if f.told {
		f.Log.Info("the API server offers something else now", "api", f.What, "before", f.version, "now", version)
	}
	f.End()
	if version == "" {
		f.told = true
		return f.Absent()
	}
	reflector, err := f.Reflector(version)
	if err != nil {
		return err
	}
	f.told, f.version = true, version
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		reflector.RunWithContext(ctx)
	}()
	f.stop = func() {
		cancel()
		<-done
	}
	return nil
}

// End stops what runs and waits for it.
func (f *Follower) End() {
	if f.stop != nil {
		f.stop()
	}
	f.stop, f.version = nil, ""
}

// Repeat looks for ever: after each period, a little longer each time so that processes spread out, and sooner again while that fails, after at most
// most.
func Repeat(ctx context.Context, period, most time.Duration, h *Health, look func(context.Context) error) {
	failing := Backoff(most)
	for ctx.Err() == nil {
		err := look(ctx)
		h.Note(err)
		pause := wait.Jitter(period, surveyJitter)
		if err != nil {
			pause = failing.Step()
		} else {
			failing = Backoff(most)
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
		}
	}
}

// objectPointer is a pointer to a T that the machinery can carry.
type objectPointer[T any] interface {
	*T
	runtime.Object
	metav1.Object
}

// listPointer is a pointer to a list of them.
type listPointer[L any] interface {
	*L
	runtime.Object
}

// NewObjectClient reads objects of types that client-go does not know but the scheme does, in JSON.
func NewObjectClient[T, L any, O objectPointer[T], P listPointer[L]](scheme *runtime.Scheme, c *Connection, shared *http.Client, gv schema.GroupVersion, resource string) (*gentype.ClientWithList[O, P], error) {
	return NewNamespacedClient[T, L, O, P](scheme, c, shared, gv.WithResource(resource), metav1.NamespaceAll)
}

// NewNamespacedClient is NewObjectClient for the objects of one namespace.
func NewNamespacedClient[T, L any, O objectPointer[T], P listPointer[L]](
	scheme *runtime.Scheme, c *Connection, shared *http.Client, of schema.GroupVersionResource, namespace string,
) (*gentype.ClientWithList[O, P], error) {
	gv := of.GroupVersion()
	own := rest.CopyConfig(c)
	own.APIPath, own.GroupVersion = "/apis", &gv
	own.ContentType, own.AcceptContentTypes = runtime.ContentTypeJSON, runtime.ContentTypeJSON
	own.NegotiatedSerializer = serializer.NewCodecFactory(scheme).WithoutConversion()
	client, err := rest.RESTClientForConfigAndClient(own, shared)
	if err != nil {
		return nil, err
	}
	return gentype.NewClientWithList[O, P](of.Resource, client, runtime.NewParameterCodec(scheme), namespace,
		func() O { return new(T) }, func() P { return new(L) }), nil
}
