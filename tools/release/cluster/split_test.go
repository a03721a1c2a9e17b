package cluster

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"hilbert.dev/hilbert/tools/release/charttest"
)

// ofSchedulers are the objects that are there for schedulers in processes of their own.
var ofSchedulers = []string{
	"ConfigMap hilbert-scheduler", "Deployment hilbert-scheduler", "NetworkPolicy hilbert-scheduler", "PodDisruptionBudget hilbert-scheduler",
	"Secret hilbert-dispatcher", "Secret hilbert-scheduler", "Service hilbert-dispatchers", "ServiceAccount hilbert-scheduler",
}

// schedulersThere lists those that are there now.
func (l *lab) schedulersThere(t *testing.T) (list []string) {
	t.Helper()
	all, err := l.everything(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, key := range all {
		kind, name, _ := strings.Cut(key, " "+charttest.Namespace+"/")
		if kind == "Pod" || kind == "ReplicaSet" {
			continue // which follow
		}
		if strings.HasPrefix(name, "hilbert-scheduler") || strings.HasPrefix(name, "hilbert-dispatcher") {
			list = append(list, kind+" "+name)
		}
	}
	return list
}

// leads says whether the configuration of the Deployment hilbertd has it lead schedulers, whether its pods have the certificate for that, and which one that is.
func (l *lab) leads(t *testing.T) (leads, mounts bool, certificate string) {
	t.Helper()
	text, _, _ := unstructured.NestedString(l.get(t, configMaps, "hilbertd").Object, "data", "hilbertd.yaml")
	var c struct{ Roles []string }
	if err := yaml.Unmarshal([]byte(text), &c); err != nil {
		t.Fatal(err)
	}
	volumes, _, _ := unstructured.NestedSlice(l.get(t, deployments, "hilbertd").Object, "spec", "template", "spec", "volumes")
	for _, v := range volumes {
		name, _, _ := unstructured.NestedString(v.(map[string]any), "secret", "secretName")
		mounts = mounts || name == "hilbert-dispatcher"
	}
	if mounts {
		certificate = fmt.Sprint(l.get(t, secrets, "hilbert-dispatcher").Object["data"], l.get(t, secrets, "hilbert-scheduler").Object["data"])
	}
	return slices.Equal(c.Roles, []string{"dispatcher", "binder"}), mounts, certificate
}

// TestSplit switches schedulers in processes of their own on by an upgrade; keeps their certificates through another; makes them anew when one is lost; switches
// them off, and comes back by a rollback. What is there is complete or gone. Schedulers have no rights.
func TestSplit(t *testing.T) {
	l := start(t)
	l.install(t, "hilbert-crds", "v0.1.0", nil)
	// Without an APIService, which nobody answers for here: all kinds can be listed.
	l.install(t, "hilbert", "v0.1.0", map[string]any{"serving": map[string]any{"certificate": "existing"}})
	upgrade := func(version string, replicas int) {
		t.Helper()
		if err := l.upgrade(t, version, map[string]any{"schedulers": map[string]any{"replicas": replicas}}); err != nil {
			t.Fatal(err)
		}
	}
	check := func(when string, on bool) (certificate string) {
		t.Helper()
		var want []string
		if on {
			want = ofSchedulers
		}
		if got := l.schedulersThere(t); !slices.Equal(got, want) {
			t.Errorf("%s: %v, want %v", when, got, want)
		}
		leads, mounts, certificate := l.leads(t)
		if leads != on || mounts != on {
			t.Errorf("%s: hilbertd leads schedulers: %t, and has the certificate for them: %t", when, leads, mounts)
		}
		return certificate
	}
	check("installed", false)
	upgrade("v0.2.0", 2)
	first := check("on", true)
	upgrade("v0.2.0", 3)
	if check("one more", true) != first {
		t.Error("an upgrade has made other certificates: until both sides have them, nobody is let in")
	}
	if replicas, _, _ := unstructured.NestedInt64(l.get(t, deployments, "hilbert-scheduler").Object, "spec", "replicas"); replicas != 3 {
		t.Errorf("%d schedulers", replicas)
	}
	const account = "system:serviceaccount:hilbert-system:hilbert-scheduler"
	for _, what := range [][3]string{{"list", "", "pods"}, {"get", "", "nodes"}, {"get", "", "secrets"}, {"get", "coordination.k8s.io", "leases"}, {"create", "authentication.k8s.io", "tokenreviews"}} {
		if l.may(t, account, what[0], what[1], what[2], charttest.Namespace) {
			t.Errorf("schedulers may %s %s", what[0], what[2])
		}
	}
	if err := l.dynamic.Resource(secrets).Namespace(charttest.Namespace).Delete(t.Context(), "hilbert-scheduler", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	upgrade("v0.2.0", 3)
	data := func(name string) map[string]any {
		m, _, _ := unstructured.NestedMap(l.get(t, secrets, name).Object, "data")
		return m
	}
	if again := check("after one Secret was lost", true); again == first || data("hilbert-dispatcher")["ca.crt"] != data("hilbert-scheduler")["ca.crt"] {
		t.Errorf("the Secrets do not believe each other: %v and %v", slices.Sorted(maps.Keys(data("hilbert-dispatcher"))), slices.Sorted(maps.Keys(data("hilbert-scheduler"))))
	}
	upgrade("v0.3.0", 0)
	check("off", false)
	l.serveRemoval(t) // every rollback asks whether there are agents to remove
	if err := l.rollback(t, 2); err != nil {
		t.Fatal(err)
	}
	if check("rolled back to where they were on", true) != first {
		t.Error("a rollback has other certificates than that revision")
	}
	if err := l.rollback(t, 1); err != nil {
		t.Fatal(err)
	}
	check("rolled back to where they were off", false)
}
