package visibility

import (
	"bytes"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// TestQuestionRoundTrip: what a Question's URL says is read as that Question, for every name that an object can have.
func TestQuestionRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		at := rapid.IntRange(0, len(resources)-1).Draw(t, "resource")
		name := rapid.StringMatching(`[a-zA-Z0-9:._ ~+?#&=-]{1,20}`).Filter(func(s string) bool { return s != "." && s != ".." })
		q := Question{Resource: resources[at].Name, Name: name.Draw(t, "name")}
		if resources[at].Namespaced {
			q.Namespace = name.Draw(t, "namespace")
		}
		if q.Resource == QueueReports {
			q.Limit = rapid.IntRange(0, MaxLimit).Draw(t, "limit")
			if rapid.Bool().Draw(t, "all") {
				q.Name = ""
			}
		}
		got, err := readQuestion(httptest.NewRequest(http.MethodGet, "https://x"+q.Path()+"?"+q.Query().Encode(), http.NoBody))
		if err != nil || got != q {
			t.Fatalf("%+v is read as %+v, %v (%s)", q, got, err, q.Path())
		}
	})
}

func TestQuestionsThatAreNone(t *testing.T) {
	for path, want := range map[string]int32{
		"/podexplanations":                                http.StatusNotFound,
		"/podexplanations/x":                              http.StatusNotFound, // without a namespace
		"/namespaces/a/podexplanations":                   http.StatusMethodNotAllowed,
		"/namespaces/a/snapshots/current":                 http.StatusNotFound,
		"/namespaces/a/podexplanations/x/status":          http.StatusNotFound,
		"/namespaces/a/podexplanations/x%2F..%2Fy":        http.StatusNotFound,
		"/namespaces/a%2Fb/podexplanations/x":             http.StatusNotFound,
		"/namespaces//podexplanations/x":                  http.StatusNotFound,
		"/snapshots":                                      http.StatusMethodNotAllowed,
		"/queuereports/%2e%2e":                            http.StatusNotFound,
		"/queuereports/x?limit=-1":                        http.StatusBadRequest,
		"/queuereports/x?limit=100001":                    http.StatusBadRequest,
		"/queuereports?watch=true":                        http.StatusMethodNotAllowed,
		"/nodes/x":                                        http.StatusNotFound,
		"/":                                               http.StatusNotFound,
		"/namespaces/a":                                   http.StatusNotFound,
		"/namespaces/a/podexplanations/" + "x/y/z":        http.StatusNotFound,
		"/namespaces/a/namespaces/b/podexplanations/name": http.StatusNotFound,
	} {
		_, err := readQuestion(httptest.NewRequest(http.MethodGet, "https://x"+root()+path, http.NoBody))
		if f, ok := errors.AsType[*Failure](err); !ok || f.status.Code != want {
			t.Errorf("%s: %v, want %d", path, err, want)
		}
	}
	q := Question{Resource: QueueReports}
	for _, method := range []string{http.MethodPost, http.MethodDelete, http.MethodPut, http.MethodPatch} {
		if _, err := readQuestion(httptest.NewRequest(method, "https://x"+q.Path(), http.NoBody)); err == nil {
			t.Errorf("%s is answered", method)
		}
	}
}

// TestObjects: an answer has what every object has, and its report's fields beside it; it reads back as that report.
func TestObjects(t *testing.T) {
	type report struct {
		A map[string]int `json:"a,omitempty"`
	}
	for _, c := range []struct {
		q      Question
		report report
	}{
		{Question{Resource: PodExplanations, Namespace: "ns", Name: "p"}, report{map[string]int{"x": 1}}},
		{Question{Resource: QueueReports, Name: "q"}, report{}},
		{Question{Resource: QueueReports}, report{map[string]int{"y": 2}}},
		{Question{Resource: QueueReports}, report{}},
	} {
		var out bytes.Buffer
		if err := WriteObject(&out, &c.q, c.report); err != nil {
			t.Fatal(err)
		}
		var object struct {
			APIVersion, Kind string
			Metadata         metadata
		}
		if err := json.Unmarshal(out.Bytes(), &object); err != nil {
			t.Fatalf("%v in %s", err, out.String())
		}
		if object.APIVersion != "visibility.hilbert.dev/v1alpha1" || strings.HasSuffix(object.Kind, "List") != (c.q.Name == "") ||
			object.Metadata != (metadata{c.q.Name, c.q.Namespace}) {
			t.Errorf("%+v: %s", c.q, out.String())
		}
		var back report
		if err := ReadObject(&out, &c.q, &back); err != nil || len(back.A) != len(c.report.A) {
			t.Errorf("%+v: %v, %v", c.q, back, err)
		}
	}
}
