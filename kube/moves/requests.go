package moves

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"

	lifecyclev1alpha1 "k8s.io/api/lifecycle/v1alpha1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"hilbert.dev/hilbert/api/scheduling/v1alpha1"
	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/control/reschedule"
	"hilbert.dev/hilbert/kube/apiserver"
)

// RequestPermissions are what the role controller needs beside Permissions to ask for evictions.
var RequestPermissions = []apiserver.Permission{
	{Group: lifecyclev1alpha1.GroupName, Resource: evictionRequests, Verbs: []string{"get", "create", "delete"}},
}

const (
	evictionRequests = "evictionrequests"
	// requester names us in EvictionRequests.
	requester = v1alpha1.Group + "/moves"
)

// UseRequests has evictions asked for by EvictionRequests, if use says so and the API server serves them. Those that a leader before has made are looked for and withdrawn in any case:
// else they could have a pod evicted long after its move has ended. It may be called again: an upgrade may have changed what is served.
func (c *Client) UseRequests(ctx context.Context, use bool) (used bool, err error) {
	var list metav1.APIResourceList
	const did = "the kinds of lifecycle.k8s.io/v1alpha1"
	there, err := c.read(ctx, "/apis/"+lifecyclev1alpha1.SchemeGroupVersion.String(), did, &list)
	if err != nil {
		return false, err
	}
	c.served = there && slices.ContainsFunc(list.APIResources, func(r metav1.APIResource) bool { return r.Name == evictionRequests })
	c.requests = use && c.served
	return c.requests, nil
}

func requestPath(namespace, name string) string {
	path := "/apis/" + lifecyclev1alpha1.SchemeGroupVersion.String() + "/namespaces/" + namespace + "/" + evictionRequests
	return strings.TrimSuffix(path+"/"+name, "/")
}

// request asks for the eviction of a move's pod. A request that is there is as good; See says whether it is ours.
func (c *Client) request(ctx context.Context, m *reschedule.Carried) error {
	did := "ask for the eviction of " + m.Namespace + "/" + m.Name
	r := lifecyclev1alpha1.EvictionRequest{
		TypeMeta:   metav1.TypeMeta{APIVersion: lifecyclev1alpha1.SchemeGroupVersion.String(), Kind: "EvictionRequest"},
		ObjectMeta: metav1.ObjectMeta{Namespace: m.Namespace, Name: nameOf(m.Wanted.Pod), Labels: map[string]string{spec.LabelMove: ""}}, // by which people find them
		Spec: lifecyclev1alpha1.EvictionRequestSpec{
			Target:    lifecyclev1alpha1.EvictionRequestTarget{Pod: &lifecyclev1alpha1.EvictionRequestPodReference{Name: m.Name, UID: types.UID(m.Wanted.Pod)}},
			Requester: requester, Intent: lifecyclev1alpha1.EvictionRequestIntentEviction,
		},
	}
	body, err := json.Marshal(&r)
	if err != nil {
		return fmt.Errorf("%s: %w", did, err)
	}
	a := c.write(ctx, &apiserver.Call{
		Method: http.MethodPost, Path: requestPath(m.Namespace, ""), ContentType: apiserver.ContentJSON, Accept: apiserver.AcceptMetadataJSON, Body: body,
	}, did)
	if a.Err == nil && a.Code == http.StatusConflict {
		return nil
	}
	return a.Failure(did)
}

// Withdraw deletes the EvictionRequest of a move, which withdraws it. A gang has none.
func (c *Client) Withdraw(ctx context.Context, m *reschedule.Carried) error {
	if !c.served || m.Gang != nil {
		return nil
	}
	did := "withdraw the EvictionRequest of " + m.Namespace + "/" + m.Name
	a := c.write(ctx, &apiserver.Call{
		Method: http.MethodDelete, Path: requestPath(m.Namespace, nameOf(m.Wanted.Pod)), ContentType: apiserver.ContentJSON, Accept: apiserver.AcceptMetadataJSON,
	}, did)
	if a.Err == nil && (a.Code == http.StatusNotFound || c.maySkip(a.Code)) {
		return nil
	}
	return a.Failure(did)
}

// maySkip reports whether an answer means that we have nothing to do with EvictionRequests: who is not to use them need not be allowed to.
func (c *Client) maySkip(code int) bool { return !c.requests && code == http.StatusForbidden }

// seeRequest looks at the EvictionRequest of a move. One of its name that asks for something else vetoes the move: whoever may write it may refuse it as well.
func (c *Client) seeRequest(ctx context.Context, m *reschedule.Carried, seen *reschedule.Seen) error {
	if !c.served {
		return nil
	}
	var r lifecyclev1alpha1.EvictionRequest
	there, err := c.readUnless(ctx, requestPath(m.Namespace, nameOf(m.Wanted.Pod)), "the EvictionRequest of "+m.Namespace+"/"+m.Name, &r, c.maySkip)
	if err != nil || !there || r.DeletionTimestamp != nil { // to delete it is to withdraw it
		return err
	}
	if pod := r.Spec.Target.Pod; r.Spec.Requester != requester || pod == nil || string(pod.UID) != m.Wanted.Pod || r.Spec.Intent != lifecyclev1alpha1.EvictionRequestIntentEviction {
		seen.Vetoed = "there is an EvictionRequest " + r.Name + " of somebody else"
		return nil
	}
	seen.Requested = true
	for i := range r.Status.Conditions {
		if condition := &r.Status.Conditions[i]; condition.Type == string(lifecyclev1alpha1.EvictionConditionFailed) && condition.Status == metav1.ConditionTrue {
			seen.Failed = condition.Reason + ": " + condition.Message
		}
	}
	return nil
}
