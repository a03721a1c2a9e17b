package agent

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"

	"hilbert.dev/hilbert/api/node/v1alpha1"
	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/kube/apiserver"
)

const (
	// configurationBackoff bounds the pause before a watch that broke is made again, configurationPause the one after a watch that ended well: API servers end each
	// after some minutes, and 20,000 agents that begin anew must not all do so at once.
	configurationBackoff = time.Minute
	configurationPause   = time.Second
)

// ConfigurationWatch keeps an agent told of what the spec of its node's own CustomNodeResource says of configuration. It watches this one object, so an API server sends it
// nothing of other nodes.
type ConfigurationWatch struct {
	open    func(context.Context) (watch.Interface, error)
	changed func(*spec.WantedConfiguration)
	health  *apiserver.Health
	stop    context.CancelFunc
	done    chan struct{}
}

// WatchConfiguration begins to watch. changed is called from one goroutine with what the object says: when the watch begins, and after each change of the object; nil: it
// says nothing of configuration. It may keep what it is given, and must not change it. While the API server cannot be reached, or the object does not exist, changed is not
// called, and what was told stands. It runs until Stop; ctx lends its values only.
func WatchConfiguration(ctx context.Context, c *apiserver.Connection, node string, changed func(*spec.WantedConfiguration), log *slog.Logger) (*ConfigurationWatch, error) {
	own := apiserver.ForPurpose(c, "configuration", nil)
	shared, err := rest.HTTPClientFor(own)
	if err != nil {
		return nil, fmt.Errorf("make a client for the node's configuration: %w", err)
	}
	client, err := apiserver.NewObjectClient[v1alpha1.CustomNodeResource, v1alpha1.CustomNodeResourceList](profileScheme, own, shared, v1alpha1.GroupVersion, v1alpha1.CustomNodeResources)
	if err != nil {
		return nil, fmt.Errorf("make a client for the node's configuration: %w", err)
	}
	w := &ConfigurationWatch{
		// Without a version the first event is the object as it is agreed now; from a cache an older configuration could come back for a moment.
		open: func(ctx context.Context) (watch.Interface, error) {
			return client.Watch(ctx, metav1.ListOptions{FieldSelector: fields.OneTermEqualSelector(metav1.ObjectNameField, node).String()})
		},
		changed: changed, health: &apiserver.Health{Log: log, What: "the API server (configuration)"}, done: make(chan struct{}),
	}
	ctx, w.stop = context.WithCancel(apiserver.Silence(context.WithoutCancel(ctx)))
	go func() {
		defer close(w.done)
		w.run(ctx)
	}()
	return w, nil
}

// Stop ends the watch and waits for it.
func (w *ConfigurationWatch) Stop() {
	w.stop()
	<-w.done
}

func (w *ConfigurationWatch) run(ctx context.Context) {
	apiserver.Repeat(ctx, configurationPause, configurationBackoff, w.health, w.follow)
}

// follow takes events until the watch ends.
func (w *ConfigurationWatch) follow(ctx context.Context) error {
	i, err := w.open(ctx)
	if err != nil {
		return err
	}
	defer i.Stop()
	w.health.Succeeded()
	for event := range i.ResultChan() {
		switch object := event.Object.(type) {
		case *v1alpha1.CustomNodeResource:
			if event.Type == watch.Added || event.Type == watch.Modified { // one that is deleted is made again; what was told stands until then
				w.changed(object.Spec.Configuration)
			}
		case *metav1.Status:
			return fmt.Errorf("watch the CustomNodeResource: %s", object.Message)
		}
	}
	return nil
}
