package controlplane

import (
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/rest"

	"hilbert.dev/hilbert/api/scheduling/v1alpha1"
)

// queueCase is a Queue's spec, and what the API server says of it; empty: it takes it.
var queueCases = []struct{ name, spec, refused string }{
	{"empty", `{}`, ""},
	{"full", `{parent: root-team, weight: 3, sortPolicy: FairHistory, historyHalfLife: 36h, borrowing: Never, reclaim: Never, reclaimMinRuntime: 90s, preemption: Never,
		guaranteed: {cpu: 100, memory: 2Ti, nvidia.com/gpu: 8, hilbert.dev/gpu-milli: "500"}, max: {cpu: "200", nvidia.com/gpu: 16},
		namespaceSelector: {matchLabels: {team: a}, matchExpressions: [{key: env, operator: In, values: [x]}]}}`, ""},
	{"as much as allowed", `{guaranteed: {cpu: "1500m"}, max: {cpu: "1.5"}}`, ""},
	{"a number with a point", `{max: {cpu: 1.5}}`, "spec.max.cpu"},
	{"limit only", `{max: {cpu: 1}}`, ""},
	{"no GPUs at all", `{max: {nvidia.com/gpu: 0}}`, ""},
	{"negative", `{guaranteed: {cpu: -1}}`, "spec.guaranteed: each amount must lie between 0 and 1E"},
	{"negative text", `{max: {memory: "-1Gi"}}`, "spec.max: each amount must lie between 0 and 1E"},
	{"absurd", `{max: {memory: 2E}}`, "spec.max: each amount must lie between 0 and 1E"},
	{"absurd exponent", `{guaranteed: {cpu: 1e99}}`, "spec.guaranteed"},
	{"no amount", `{max: {memory: much}}`, "spec.max.memory"},
	{"as in a quota", `{max: {requests.cpu: 1}}`, "write cpu, not requests.cpu"},
	{"guarantee over max", `{guaranteed: {cpu: 2, memory: 1Gi}, max: {cpu: 1999m}}`, "spec.guaranteed: more of a resource is guaranteed than spec.max allows"},
	{"own parent", `{parent: q}`, "spec.parent: a Queue cannot be its own parent"},
	{"parent no name", `{parent: Not A Name}`, "spec.parent"},
	{"half-life of others", `{sortPolicy: Fair, historyHalfLife: 1h}`, "spec.historyHalfLife: only the sort policy FairHistory"},
	{"half-life of none", `{historyHalfLife: 1h}`, "spec.historyHalfLife: only the sort policy FairHistory"},
	{"half-life too short", `{sortPolicy: FairHistory, historyHalfLife: 1ms}`, "spec.historyHalfLife: it must lie between 1s and 87600h"},
	{"half-life in days", `{sortPolicy: FairHistory, historyHalfLife: 7d}`, "spec.historyHalfLife"},
	{"no minimum runtime", `{reclaimMinRuntime: 0s}`, ""},
	{"a minimum runtime for ever", `{reclaimMinRuntime: 87601h}`, "spec.reclaimMinRuntime: it must be at most 87600h"},
	{"a minimum runtime in days", `{reclaimMinRuntime: 1d}`, "spec.reclaimMinRuntime"},
	{"weight of nobody", `{weight: -1}`, "spec.weight"},
	{"weight too large", `{weight: 1000001}`, "spec.weight"},
	{"unknown policy", `{sortPolicy: Random}`, "spec.sortPolicy"},
	{"unknown permission", `{borrowing: Sometimes}`, "spec.borrowing"},
	{"operator without values", `{namespaceSelector: {matchExpressions: [{key: a, operator: In}]}}`, "In and NotIn need values"},
	{"unknown operator", `{namespaceSelector: {matchExpressions: [{key: a, operator: Gt, values: ["1"]}]}}`, "operator"},
	{"unknown field", `{quota: 1}`, "quota"},
}

func queueClient(t *testing.T, c *ControlPlane) rest.Interface {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	config := c.AdminConfig()
	config.APIPath, config.GroupVersion = "/apis", &v1alpha1.GroupVersion
	config.NegotiatedSerializer = serializer.NewCodecFactory(scheme).WithoutConversion()
	config.ContentType, config.AcceptContentTypes = runtime.ContentTypeJSON, ""
	api, err := rest.RESTClientFor(config)
	if err != nil {
		t.Fatal(err)
	}
	return api
}

// TestQueueCRD: the definition of the Queue is served, takes what is right, and refuses what is wrong with a message that names the field.
func TestQueueCRD(t *testing.T) {
	c := start(t, Options{})
	for range 2 { // installing again changes nothing
		if err := c.InstallDefinitions(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	api := queueClient(t, c)
	create := func(name, spec string) (*v1alpha1.Queue, error) {
		body, err := yaml.ToJSON([]byte("apiVersion: scheduling.hilbert.dev/v1alpha1\nkind: Queue\nmetadata: {name: " + name + "}\nspec: " +
			strings.Join(strings.Fields(spec), " ")))
		if err != nil {
			t.Fatal(err)
		}
		queue := &v1alpha1.Queue{}
		err = api.Post().Resource(v1alpha1.Queues).Param("fieldValidation", "Strict").Body(body).Do(t.Context()).Into(queue)
		return queue, err
	}
	for _, queue := range queueCases {
		t.Run(queue.name, func(t *testing.T) {
			got, err := create("q", queue.spec)
			switch {
			case queue.refused == "" && err != nil:
				t.Fatal(err)
			case queue.refused == "":
				if got.Spec.Weight < 1 || got.Spec.Borrowing == "" || got.Spec.Reclaim == "" || got.Spec.Preemption == "" {
					t.Errorf("defaults: %+v", got.Spec)
				}
				if err := api.Delete().Resource(v1alpha1.Queues).Name("q").Do(t.Context()).Error(); err != nil {
					t.Fatal(err)
				}
			case err == nil || !strings.Contains(err.Error(), queue.refused) || !apierrors.IsInvalid(err) && !apierrors.IsBadRequest(err):
				t.Errorf("got %v, want %q", err, queue.refused)
			}
		})
	}
	if _, err := create(strings.Repeat("q", 64), `{}`); err == nil || !strings.Contains(err.Error(), "metadata.name: at most 63 characters") {
		t.Errorf("a long name: %v", err)
	}
}

// TestPodGroupsAreServed: the API server of the lab has gangs.
func TestPodGroupsAreServed(t *testing.T) {
	c := start(t, Options{})
	list, err := client(t, c.AdminConfig()).Discovery().ServerResourcesForGroupVersion("scheduling.k8s.io/v1beta1")
	if err != nil || len(list.APIResources) == 0 {
		t.Fatalf("%v: %v", list, err)
	}
}
