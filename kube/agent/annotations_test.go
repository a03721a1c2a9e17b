package agent

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"

	"hilbert.dev/hilbert/kube/apiserver"
)

// An agent is told of the annotations that are Hilbert's, once for each change; what cannot be read changes nothing.
func TestAnnotationsOfTheNode(t *testing.T) {
	t.Parallel()
	answer, status := "", http.StatusOK
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/api/v1/nodes/n1" {
			t.Errorf("it asks for %s", r.URL)
		}
		w.WriteHeader(status)
		_, _ = w.Write([]byte(answer))
	}))
	defer s.Close()
	var told []string
	w, err := newAnnotationWatch(&apiserver.Connection{Host: s.URL}, "n1", func(a map[string]string) { told = append(told, fmt.Sprint(a)) })
	if err != nil {
		t.Fatal(err)
	}
	const none, one, other = `{"metadata":{}}`, `{"metadata":{"annotations":{"hilbert.dev/uplinks":"eth0","else":"x"}}}`, `{"metadata":{"annotations":{"hilbert.dev/uplinks":"eth1","else":"y"}}}`
	const sameOne = `{"metadata":{"annotations":{"hilbert.dev/uplinks":"eth0","else":"z"}}}`
	for i, c := range []struct {
		answer string
		status int
		fails  bool
		told   string // "": nothing
	}{
		{none, 200, false, "map[]"},
		{none, 200, false, ""},
		{one, 200, false, "map[hilbert.dev/uplinks:eth0]"},
		{sameOne, 200, false, ""},
		{"{}", 500, true, ""},
		{"no JSON", 200, true, ""},
		{other, 200, false, "map[hilbert.dev/uplinks:eth1]"},
		{none, 200, false, "map[]"},
	} {
		told, answer, status = nil, c.answer, c.status
		err := w.look(t.Context())
		if (err != nil) != c.fails || (c.told == "") != (len(told) == 0) || len(told) > 0 && told[0] != c.told {
			t.Errorf("%d: told %q, %v; want %q", i, told, err, c.told)
		}
	}
}
