package agent

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"hilbert.dev/hilbert/kube/apiserver"
)

const (
	// annotationPeriod is how often an agent reads its Node: 20,000 agents together some 70 times a second, from the API servers' caches. A watch would need the right to see all nodes.
	annotationPeriod = 5 * time.Minute
	// annotationBackoff bounds the pause before a read that failed is made again.
	annotationBackoff = time.Minute
	// annotationTimeout bounds a read.
	annotationTimeout = 10 * time.Second
	// ourPrefix is that of the annotations that are told.
	ourPrefix = "hilbert.dev/"
)

// AnnotationWatch keeps an agent told of the annotations of its Node that are Hilbert's. It reads the one object now and then.
type AnnotationWatch struct {
	api     *apiserver.Requester
	node    string
	changed func(map[string]string)
	told    map[string]string // nil: nothing was told yet
	stop    context.CancelFunc
	done    chan struct{}
}

// WatchAnnotations begins to read. changed is called from one goroutine with the annotations below hilbert.dev/: with the first, and when they have changed. It may keep what it is
// given, and must not change it. While the API server cannot be reached what was told stands. It runs until Stop; ctx lends its values only.
func WatchAnnotations(ctx context.Context, c *apiserver.Connection, node string, changed func(map[string]string), log *slog.Logger) (*AnnotationWatch, error) {
	w, err := newAnnotationWatch(c, node, changed)
	if err != nil {
		return nil, err
	}
	ctx, w.stop = context.WithCancel(apiserver.Silence(context.WithoutCancel(ctx)))
	health := &apiserver.Health{Log: log, What: "the API server (annotations of the Node)"}
	go func() {
		defer close(w.done)
		apiserver.Repeat(ctx, annotationPeriod, annotationBackoff, health, w.look)
	}()
	return w, nil
}

func newAnnotationWatch(c *apiserver.Connection, node string, changed func(map[string]string)) (*AnnotationWatch, error) {
	api, err := agentRequester(c, annotationTimeout)
	if err != nil {
		return nil, err
	}
	return &AnnotationWatch{api: api, node: node, changed: changed, done: make(chan struct{})}, nil
}

// Stop ends the reading and waits for it.
func (w *AnnotationWatch) Stop() {
	w.stop()
	<-w.done
	w.api.CloseIdle()
}

// look reads once.
func (w *AnnotationWatch) look(ctx context.Context) error {
	what := "read the annotations of the Node " + w.node
	answer := w.api.Do(ctx, &apiserver.Call{
		Method: http.MethodGet, Path: "/api/v1/nodes/" + w.node, Query: "resourceVersion=0",
		Accept: "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1," + apiserver.ContentJSON, Reads: true,
	}, annotationTimeout)
	if err := answer.Failure(what); err != nil {
		return err
	}
	var object metav1.PartialObjectMetadata
	if err := json.Unmarshal(answer.Body, &object); err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	ours := make(map[string]string)
	for key, value := range object.Annotations {
		if strings.HasPrefix(key, ourPrefix) {
			ours[key] = value
		}
	}
	if w.told == nil || !maps.Equal(w.told, ours) {
		w.told = ours
		w.changed(ours)
	}
	return nil
}
