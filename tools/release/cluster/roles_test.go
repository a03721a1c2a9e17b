package cluster

import (
	"fmt"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

var (
	reviews             = schema.GroupVersionResource{Group: "authorization.k8s.io", Version: "v1", Resource: "subjectaccessreviews"}
	roleBindings        = schema.GroupVersionResource{Group: "rbac.authorization.k8s.io", Version: "v1", Resource: "rolebindings"}
	clusterRoleBindings = schema.GroupVersionResource{Group: "rbac.authorization.k8s.io", Version: "v1", Resource: "clusterrolebindings"}
)

// bind gives a user a ClusterRole, in the namespace default or in the whole cluster.
func (l *lab) bind(t *testing.T, user, role string, inCluster bool) {
	t.Helper()
	kind, client := "RoleBinding", l.dynamic.Resource(roleBindings).Namespace("default")
	u := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "rbac.authorization.k8s.io/v1", "metadata": map[string]any{"name": user},
		"roleRef":  map[string]any{"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role},
		"subjects": []any{map[string]any{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": user}},
	}}
	var err error
	if inCluster {
		u.SetKind("ClusterRoleBinding")
		_, err = l.dynamic.Resource(clusterRoleBindings).Create(t.Context(), u, metav1.CreateOptions{})
	} else {
		u.SetKind(kind)
		_, err = client.Create(t.Context(), u, metav1.CreateOptions{})
	}
	if err != nil {
		t.Fatal(err)
	}
}

// may asks the API server whether a user may do something.
func (l *lab) may(t *testing.T, user, verb, group, resource, namespace string) bool {
	t.Helper()
	u := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview",
		"spec": map[string]any{"user": user, "resourceAttributes": map[string]any{"verb": verb, "group": group, "resource": resource, "namespace": namespace}},
	}}
	got, err := l.dynamic.Resource(reviews).Create(t.Context(), u, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	allowed, _, _ := unstructured.NestedBool(got.Object, "status", "allowed")
	return allowed
}

// TestPeoplesRoles: view, edit and admin include Hilbert's kinds as far as they are a namespace's; quotas and reports are the cluster's.
func TestPeoplesRoles(t *testing.T) {
	l := start(t)
	l.install(t, "hilbert-crds", "v0.1.0", nil)
	l.install(t, "hilbert", "v0.1.0", nil)
	for _, role := range []string{"view", "edit", "admin"} {
		l.bind(t, "red-"+role, role, false)
		l.bind(t, "all-"+role, role, true)
	}
	l.bind(t, "divider", "hilbert-queue-editor", true)
	const node, scheduling, answers = "node.hilbert.dev", "scheduling.hilbert.dev", "visibility.hilbert.dev"
	eventually(t, "the roles are aggregated", func() error {
		if !l.may(t, "red-admin", "create", node, "serviceprofiles", "default") || !l.may(t, "red-view", "get", answers, "podexplanations", "default") {
			return fmt.Errorf("admin may not write ServiceProfiles, or view may not ask")
		}
		return nil
	})
	for _, c := range []struct {
		verb, group, resource, namespace string
		who                              string // of red- and all-, v, e, a and V, E, A; d: the divider
	}{
		{"get", answers, "podexplanations", "default", "veaVEA"},
		{"get", answers, "podexplanations", "kube-system", "VEA"},
		{"get", answers, "snapshots", "", ""},
		{"list", answers, "queuereports", "", ""},
		{"list", node, "serviceprofiles", "default", "veaVEA"},
		{"watch", node, "serviceprofiles", "kube-system", "VEA"},
		{"create", node, "serviceprofiles", "default", "eaEA"},
		{"patch", node, "serviceprofiles", "default", "eaEA"},
		{"delete", node, "serviceprofiles", "kube-system", "EA"},
		{"list", node, "customnoderesources", "", "VEA"},
		{"update", node, "customnoderesources", "", ""},
		{"update", node, "customnoderesources/status", "", ""},
		{"list", scheduling, "reservations", "default", "veaVEA"},
		{"create", scheduling, "reservations", "default", "eaEA"},
		{"delete", scheduling, "reservations", "kube-system", "EA"},
		{"patch", scheduling, "reservations/status", "default", ""},
		{"list", scheduling, "resourcerequests", "default", "veaVEA"},
		{"create", scheduling, "resourcerequests", "default", "eaEA"},
		{"patch", scheduling, "resourcerequests/status", "default", ""},
		{"get", scheduling, "queues", "", "VEAd"},
		{"create", scheduling, "queues", "", "d"},
		{"patch", scheduling, "queues", "", "d"},
		{"patch", scheduling, "queues/status", "", ""},
		{"list", scheduling, "tidepools", "", "VEAd"},
		{"create", scheduling, "tidepools", "", "d"},
		{"update", scheduling, "tidepools/status", "", ""},
	} {
		for mark, user := range map[rune]string{'v': "red-view", 'e': "red-edit", 'a': "red-admin", 'V': "all-view", 'E': "all-edit", 'A': "all-admin", 'd': "divider"} {
			want := false
			for _, m := range c.who {
				want = want || m == mark
			}
			if got := l.may(t, user, c.verb, c.group, c.resource, c.namespace); got != want {
				t.Errorf("%s may %s %s in %q: %t, want %t", user, c.verb, c.resource, c.namespace, got, want)
			}
		}
	}
}
