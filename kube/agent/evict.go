package agent

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"hilbert.dev/hilbert/kube/apiserver"
)

// ErrEvictionWaits is returned when a disruption budget, or the API server's flow control, wants the eviction later.
var ErrEvictionWaits = errors.New("the eviction has to wait")

// Evictor evicts pods through the Eviction API, which honours their disruption budgets.
type Evictor struct {
	api     *apiserver.Requester
	timeout time.Duration
}

// NewEvictor makes an Evictor. timeout bounds one eviction.
func NewEvictor(c *apiserver.Connection, timeout time.Duration) (*Evictor, error) {
	api, err := agentRequester(c, timeout)
	if err != nil {
		return nil, err
	}
	return &Evictor{api: api, timeout: timeout}, nil
}

// Close gives the connections back.
func (e *Evictor) Close() { e.api.CloseIdle() }

// Evict asks once for a pod to go. A pod that is gone already, or is another one by now, is no error. ErrEvictionWaits: ask again later.
func (e *Evictor) Evict(ctx context.Context, namespace, name, uid string) error {
	a, err := e.ask(ctx, namespace, name, uid, false)
	switch {
	case err != nil:
		return err
	case gone(&a):
		return nil
	case a.Err == nil && a.Code == http.StatusTooManyRequests:
		return fmt.Errorf("evict %s/%s: %w: %s", namespace, name, ErrEvictionWaits, a.Status.Message)
	}
	return a.Failure(fmt.Sprintf("evict %s/%s", namespace, name))
}

// Refused reports whether a disruption budget would refuse the eviction now, by asking for it as a dry run: nobody is evicted, and nothing written. The
// budget of a pod that is gone refuses nothing.
func (e *Evictor) Refused(ctx context.Context, namespace, name, uid string) (bool, error) {
	a, err := e.ask(ctx, namespace, name, uid, true)
	switch {
	case err != nil:
		return false, err
	case gone(&a):
		return false, nil
	case a.Err == nil && apiserver.NamesBudget(&a.Status):
		return true, nil
	}
	return false, a.Failure(fmt.Sprintf("ask whether %s/%s may be evicted", namespace, name))
}

func (e *Evictor) ask(ctx context.Context, namespace, name, uid string, dryRun bool) (apiserver.Answer, error) {
	body, err := apiserver.EvictionBody(namespace, name, uid, dryRun)
	if err != nil {
		return apiserver.Answer{}, err
	}
	c := &apiserver.Call{Method: http.MethodPost, ContentType: apiserver.ContentJSON, Accept: apiserver.ContentJSON, Body: body, DryRun: dryRun}
	c.About(namespace, name, "eviction")
	return e.api.Do(ctx, c, e.timeout), nil
}

// gone reports whether the pod of the eviction is not there any more, or another one of the name is.
func gone(a *apiserver.Answer) bool {
	return a.Err == nil && (a.Code == http.StatusNotFound || a.Code == http.StatusConflict && strings.Contains(a.Status.Message, "UID"))
}
