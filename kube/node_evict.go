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
	body, err := evictionBody(namespace, name, uid)
	if err != nil {
		return err
	}
	c := &call{method: http.MethodPost, contentType: contentJSON, accept: contentJSON, body: body}
	c.about(namespace, name, "eviction")
	a := e.api.do(ctx, c, e.timeout)
	switch {
	case a.err == nil && a.code == http.StatusNotFound,
		a.err == nil && a.code == http.StatusConflict && strings.Contains(a.status.Message, "UID"):
		return nil
	case a.err == nil && a.code == http.StatusTooManyRequests:
		return fmt.Errorf("evict %s/%s: %w: %s", namespace, name, ErrEvictionWaits, a.status.Message)
	}
	return a.failure(fmt.Sprintf("evict %s/%s", namespace, name))
}

// evictionBody encodes an eviction of the pod with that UID and no other.
func evictionBody(namespace, name, uid string) ([]byte, error) {
	id := types.UID(uid)
	body, err := json.Marshal(&policyv1.Eviction{
		TypeMeta:      metav1.TypeMeta{APIVersion: policyv1.SchemeGroupVersion.String(), Kind: "Eviction"},
		ObjectMeta:    metav1.ObjectMeta{Namespace: namespace, Name: name},
		DeleteOptions: &metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &id}},
	})
	if err != nil {
		return nil, fmt.Errorf("encode the eviction of %s/%s: %w", namespace, name, err)
	}
	return body, nil
}
