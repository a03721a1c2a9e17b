package kube

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// ErrEvictionWaits is returned when a disruption budget, or the API server's flow control, wants the eviction later.
var ErrEvictionWaits = errors.New("the eviction has to wait")

// Evictor evicts pods through the Eviction API, which honours their disruption budgets.
type Evictor struct {
	api     *requester
	timeout time.Duration
}

// NewEvictor makes an Evictor. timeout bounds one eviction.
func NewEvictor(c *Connection, timeout time.Duration) (*Evictor, error) {
	api, err := agentRequester(c, timeout)
	if err != nil {
		return nil, err
	}
	return &Evictor{api: api, timeout: timeout}, nil
}

// Close gives the connections back.
func (e *Evictor) Close() { e.api.closeIdle() }

// Evict asks once for a pod to go. A pod that is gone already, or is another one by now, is no error. ErrEvictionWaits: ask again later.
func (e *Evictor) Evict(ctx context.Context, namespace, name, uid string) error {
	a, err := e.ask(ctx, namespace, name, uid, false)
	switch {
	case err != nil:
		return err
	case gone(&a):
		return nil
	case a.err == nil && a.code == http.StatusTooManyRequests:
		return fmt.Errorf("evict %s/%s: %w: %s", namespace, name, ErrEvictionWaits, a.status.Message)
	}
	return a.failure(fmt.Sprintf("evict %s/%s", namespace, name))
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
	case a.err == nil && namesBudget(&a.status):
		return true, nil
	}
	return false, a.failure(fmt.Sprintf("ask whether %s/%s may be evicted", namespace, name))
}

func (e *Evictor) ask(ctx context.Context, namespace, name, uid string, dryRun bool) (answer, error) {
	body, err := evictionBody(namespace, name, uid, dryRun)
	if err != nil {
		return answer{}, err
	}
	c := &call{method: http.MethodPost, contentType: contentJSON, accept: contentJSON, body: body, dryRun: dryRun}
	c.about(namespace, name, "eviction")
	return e.api.do(ctx, c, e.timeout), nil
}

// gone reports whether the pod of the eviction is not there any more, or another one of the name is.
func gone(a *answer) bool {
	return a.err == nil && (a.code == http.StatusNotFound || a.code == http.StatusConflict && strings.Contains(a.status.Message, "UID"))
}

// evictionBody encodes an eviction of the pod with that UID and no other.
func evictionBody(namespace, name, uid string, dryRun bool) ([]byte, error) {
	id := types.UID(uid)
	options := &metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &id}}
	if dryRun { // in the query too: whoever reads only one of them evicts nobody
		options.DryRun = []string{metav1.DryRunAll}
	}
	body, err := json.Marshal(&policyv1.Eviction{
		TypeMeta:      metav1.TypeMeta{APIVersion: policyv1.SchemeGroupVersion.String(), Kind: "Eviction"},
		ObjectMeta:    metav1.ObjectMeta{Namespace: namespace, Name: name},
		DeleteOptions: options,
	})
	if err != nil {
		return nil, fmt.Errorf("encode the eviction of %s/%s: %w", namespace, name, err)
	}
	return body, nil
}
