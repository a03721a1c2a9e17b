package standin_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
)

const (
	requestsPath = "/apis/scheduling.hilbert.dev/v1alpha1/namespaces/" + namespace + "/resourcerequests"
	asked        = `"template":{"spec":{"containers":[{"name":"main","image":"none"}]}},"asks":[{"name":"map","count":2}]`
)

// custom plays one request about ResourceRequests: what is compared is the answer without what differs between servers. text may name the UID and the version that r has: UID, VERSION.
func custom(verb, path, kind, text string) step {
	return step{verb + " " + kind + " " + path + " " + text, func(ctx context.Context, p *player) (any, error) {
		body := text
		if strings.Contains(text, "UID") || strings.Contains(text, "VERSION") {
			known, err := ask(ctx, p, http.MethodGet, "/r", "", "")
			if err != nil {
				return nil, err
			}
			body = strings.NewReplacer("UID", string(known.GetUID()), "VERSION", known.GetResourceVersion()).Replace(text)
		}
		o, err := ask(ctx, p, verb, path, kind, body)
		if err != nil {
			return nil, err
		}
		return compared(o), nil
	}}
}

func ask(ctx context.Context, p *player, verb, path, kind, body string) (*unstructured.Unstructured, error) {
	r := p.CoreV1().RESTClient().Verb(verb).AbsPath(requestsPath+path).SetHeader("Accept", "application/json")
	if body != "" {
		r = r.SetHeader("Content-Type", kind).Body([]byte(body))
	}
	result := r.Do(ctx)
	if err := result.Error(); err != nil {
		return nil, err
	}
	text, err := result.Raw()
	o := &unstructured.Unstructured{}
	if err == nil {
		err = json.Unmarshal(text, &o.Object)
	}
	return o, err
}

// inRecord is what differs between the refusals of two servers.
var inRecord = regexp.MustCompile(`in record \(\d+\)`)

// compared is an object without what no two servers say alike.
func compared(o *unstructured.Unstructured) string {
	for _, field := range []string{"uid", "resourceVersion", "creationTimestamp", "managedFields"} {
		unstructured.RemoveNestedField(o.Object, "metadata", field)
	}
	if o.GetKind() == "Status" { // a deletion
		unstructured.RemoveNestedField(o.Object, "details", "uid")
	}
	text, _ := json.Marshal(o.Object)
	return string(text)
}

const plainJSON, mergePatch, jsonPatch = "application/json", string(types.MergePatchType), string(types.JSONPatchType)

// customScript is what masters and the controller of ResourceRequests ask.
var customScript = []step{
	custom(http.MethodPost, "", plainJSON, `{"apiVersion":"scheduling.hilbert.dev/v1alpha1","kind":"ResourceRequest","metadata":{"name":"r","labels":{"a":"b"}},"spec":{`+asked+`},"status":{"asked":7}}`),
	custom(http.MethodPost, "", plainJSON, `{"apiVersion":"scheduling.hilbert.dev/v1alpha1","kind":"ResourceRequest","metadata":{"name":"r"},"spec":{`+asked+`}}`),
	custom(http.MethodGet, "/missing", "", ""),
	{"watch ResourceRequests", func(ctx context.Context, p *player) (any, error) {
		list, err := ask(ctx, p, http.MethodGet, "", "", "")
		if err != nil {
			return nil, err
		}
		p.customStart = list.GetResourceVersion()
		items, _, err := unstructured.NestedSlice(list.Object, "items")
		return fmt.Sprint(list.GetKind(), " of ", len(items)), err
	}},
	custom(http.MethodPatch, "/r/status", jsonPatch, `[{"op":"test","path":"/metadata/uid","value":"UID"},{"op":"add","path":"/status","value":{"asked":2}}]`),
	custom(http.MethodPatch, "/r/status", jsonPatch, `[{"op":"test","path":"/metadata/uid","value":"another"},{"op":"add","path":"/status","value":{"asked":3}}]`),
	custom(http.MethodPatch, "/r/status", mergePatch, `{"spec":{"gang":true},"status":{"waiting":1}}`),
	custom(http.MethodPatch, "/r", mergePatch, `{"status":{"waiting":9},"metadata":{"annotations":{"c":"d"}}}`),
	custom(http.MethodPatch, "/r", mergePatch, `{"metadata":{"annotations":{"c":"d"}}}`),
	custom(http.MethodPatch, "/r", mergePatch, `{"metadata":{"resourceVersion":"1"},"spec":{"asks":[{"name":"map","count":3}]}}`),
	custom(http.MethodPatch, "/r", mergePatch, `{"spec":{"asks":[{"name":"map","count":3,"release":[0]}]}}`),
	custom(http.MethodPut, "/r", plainJSON, `{"apiVersion":"scheduling.hilbert.dev/v1alpha1","kind":"ResourceRequest","metadata":{"name":"r","resourceVersion":"1"},"spec":{`+asked+`}}`),
	custom(http.MethodPut, "/r", plainJSON, `{"apiVersion":"scheduling.hilbert.dev/v1alpha1","kind":"ResourceRequest","metadata":{"name":"r","resourceVersion":"VERSION"},"spec":{`+asked+`}}`),
	custom(http.MethodPut, "/r", plainJSON, `{"apiVersion":"scheduling.hilbert.dev/v1alpha1","kind":"ResourceRequest","metadata":{"name":"r"},"spec":{`+asked+`}}`),
	custom(http.MethodPut, "/r", plainJSON, `{"apiVersion":"scheduling.hilbert.dev/v1alpha1","kind":"ResourceRequest","metadata":{"name":"r","uid":"another","resourceVersion":"VERSION"},"spec":{`+asked+`}}`),
	custom(http.MethodPut, "/r", plainJSON, `{"apiVersion":"scheduling.hilbert.dev/v1alpha1","kind":"ResourceRequest","metadata":{"name":"other","resourceVersion":"VERSION"},"spec":{`+asked+`}}`),
	custom(http.MethodPut, "/missing", plainJSON, `{"apiVersion":"scheduling.hilbert.dev/v1alpha1","kind":"ResourceRequest","metadata":{"name":"missing","resourceVersion":"1"},"spec":{`+asked+`}}`),
	custom(http.MethodPatch, "/missing/status", mergePatch, `{"status":{"waiting":1}}`),
	// Of a status the API server passes over the UID of a merge patch: only a JSON patch can name its object.
	custom(http.MethodPatch, "/r/status", mergePatch, `{"metadata":{"uid":"another"},"status":{"waiting":1}}`),
	custom(http.MethodPut, "/r/status", plainJSON, `{"apiVersion":"scheduling.hilbert.dev/v1alpha1","kind":"ResourceRequest","metadata":{"name":"r","uid":"another","resourceVersion":"VERSION"},"status":{"waiting":2}}`),
	custom(http.MethodPost, "", plainJSON, `{"apiVersion":"scheduling.hilbert.dev/v1alpha1","kind":"ResourceRequest","metadata":{"namespace":"elsewhere","name":"s"},"spec":{`+asked+`}}`),
	custom(http.MethodPost, "", plainJSON, `{"apiVersion":"scheduling.hilbert.dev/v1alpha1","kind":"ResourceRequest","metadata":{"name":"s","resourceVersion":"1"},"spec":{`+asked+`}}`),
	custom(http.MethodDelete, "/r", plainJSON, `{"apiVersion":"v1","kind":"DeleteOptions","preconditions":{"uid":"another"}}`),
	custom(http.MethodGet, "/r", "", ""),
	{"only the metadata", func(ctx context.Context, p *player) (any, error) {
		text, err := p.CoreV1().RESTClient().Patch(types.MergePatchType).AbsPath(requestsPath+"/r/status").
			SetHeader("Accept", "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json").Body([]byte(`{"status":{"running":1}}`)).DoRaw(ctx)
		o := &unstructured.Unstructured{}
		if err == nil {
			err = json.Unmarshal(text, &o.Object)
		}
		return compared(o), err
	}},
	custom(http.MethodDelete, "/r", plainJSON, `{"apiVersion":"v1","kind":"DeleteOptions","preconditions":{"uid":"UID"}}`),
	custom(http.MethodDelete, "/r", "", ""),
	{"what a watch of ResourceRequests is told", func(ctx context.Context, p *player) (any, error) {
		stream, err := p.CoreV1().RESTClient().Get().AbsPath(requestsPath).Param("watch", "true").Param("resourceVersion", p.customStart).SetHeader("Accept", "application/json").Stream(ctx)
		if err != nil {
			return nil, err
		}
		defer func() { _ = stream.Close() }()
		var out []string
		for decoder := json.NewDecoder(stream); ; {
			var event struct {
				Type   string
				Object map[string]any
			}
			if err := decoder.Decode(&event); err != nil {
				return nil, err
			}
			out = append(out, event.Type+" "+compared(&unstructured.Unstructured{Object: event.Object}))
			if event.Type == "DELETED" {
				return strings.Join(out, "\n"), nil
			}
		}
	}},
	{"which resources there are", func(_ context.Context, p *player) (any, error) {
		var there []string
		for _, version := range []string{"scheduling.hilbert.dev/v1alpha1", "scheduling.k8s.io/v1beta1", "scheduling.x-k8s.io/v1alpha1"} {
			list, err := p.Discovery().ServerResourcesForGroupVersion(version)
			if apierrors.IsNotFound(err) {
				continue
			}
			if err != nil {
				return nil, err
			}
			for _, r := range list.APIResources {
				if !strings.Contains(r.Name, "/") && r.Name != "workloads" { // the stand-in names no subresources, and has no Workloads
					there = append(there, version+" "+r.Name)
				}
			}
		}
		slices.Sort(there)
		return there, nil
	}},
	{"a PodGroup", func(ctx context.Context, p *player) (any, error) {
		g := &schedulingv1beta1.PodGroup{ObjectMeta: metav1.ObjectMeta{Name: "g"}}
		g.Spec.SchedulingPolicy.Gang = &schedulingv1beta1.GangSchedulingPolicy{MinCount: 2}
		made, err := p.SchedulingV1beta1().PodGroups(namespace).Create(ctx, g, metav1.CreateOptions{})
		if err != nil {
			return nil, err
		}
		return made.Spec.SchedulingPolicy.Gang.MinCount, nil
	}},
	create("labelled", func(pod *corev1.Pod) { pod.Labels = map[string]string{"of": "r"} }),
	{"pods of a label", func(ctx context.Context, p *player) (any, error) {
		pods, err := p.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{LabelSelector: "of"})
		if err != nil {
			return nil, err
		}
		return len(pods.Items), nil
	}},
	{"delete a pod of another version", func(ctx context.Context, p *player) (any, error) {
		version := "1"
		err := p.CoreV1().Pods(namespace).Delete(ctx, "labelled", metav1.DeleteOptions{Preconditions: &metav1.Preconditions{ResourceVersion: &version}})
		if !apierrors.IsConflict(err) {
			return nil, fmt.Errorf("want a conflict, got %w", err)
		}
		return inRecord.ReplaceAllString(err.Error(), "VERSION"), nil
	}},
}
