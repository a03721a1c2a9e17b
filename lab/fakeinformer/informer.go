// Package fakeinformer has an informer that is filled by hand, for parts of kube-scheduler that run in this process without an API server.
//
// Nothing is listed or watched, and no goroutine runs: Set and Remove change the store and call every handler before they return, as the watch of a real informer
// would soon after. So what kube-scheduler keeps beside its informers, such as its caches of assumed claims, is what it would be.
package fakeinformer

import (
	"fmt"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
)

// Informer is an informer that is never started.
type Informer struct {
	cache.SharedIndexInformer

	mu       sync.Mutex // one change at a time, as from one watch
	handlers []cache.ResourceEventHandler
}

// Replace puts an Informer in the place of a factory's for objects like this one. It must come before anybody asks the factory for theirs.
func Replace(factory informers.SharedInformerFactory, object runtime.Object) *Informer {
	made := &Informer{SharedIndexInformer: cache.NewSharedIndexInformer(&cache.ListWatch{}, object, 0, cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc})}
	if got := factory.InformerFor(object, func(kubernetes.Interface, time.Duration) cache.SharedIndexInformer { return made }); got != made {
		panic(fmt.Sprintf("the factory has an informer for %T already", object)) // a mistake of the program
	}
	return made
}

// AddEventHandler keeps the handler.
func (i *Informer) AddEventHandler(handler cache.ResourceEventHandler) (cache.ResourceEventHandlerRegistration, error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.handlers = append(i.handlers, handler)
	return registered{}, nil
}

// AddEventHandlerWithResyncPeriod keeps the handler. Nothing is told twice.
func (i *Informer) AddEventHandlerWithResyncPeriod(handler cache.ResourceEventHandler, _ time.Duration) (cache.ResourceEventHandlerRegistration, error) {
	return i.AddEventHandler(handler)
}

// AddEventHandlerWithOptions keeps the handler.
func (i *Informer) AddEventHandlerWithOptions(handler cache.ResourceEventHandler, _ cache.HandlerOptions) (cache.ResourceEventHandlerRegistration, error) {
	return i.AddEventHandler(handler)
}

// Set tells of an object as it is now.
func (i *Informer) Set(object runtime.Object) error {
	i.mu.Lock()
	defer i.mu.Unlock()
	old, known, err := i.GetIndexer().Get(object)
	if err == nil {
		err = i.GetIndexer().Update(object)
	}
	if err != nil {
		return fmt.Errorf("tell of a %T: %w", object, err)
	}
	for _, h := range i.handlers {
		if known {
			h.OnUpdate(old, object)
		} else {
			h.OnAdd(object, false)
		}
	}
	return nil
}

// Remove tells that an object is gone.
func (i *Informer) Remove(object runtime.Object) error {
	i.mu.Lock()
	defer i.mu.Unlock()
	if err := i.GetIndexer().Delete(object); err != nil {
		return fmt.Errorf("tell that a %T is gone: %w", object, err)
	}
	for _, h := range i.handlers {
		h.OnDelete(object)
	}
	return nil
}

// registered is the registration of a handler that has nothing to wait for.
type registered struct{}

func (registered) HasSynced() bool                     { return true }
func (registered) HasSyncedChecker() cache.DoneChecker { return registered{} }
func (registered) Name() string                        { return "by hand" }

func (registered) Done() <-chan struct{} {
	done := make(chan struct{})
	close(done)
	return done
}
