package reach

import (
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"hilbert.dev/hilbert/api/node/v1alpha1"
	"hilbert.dev/hilbert/kube/standin"
)

// All pages are read, one after the other, and an error of whoever looks ends it.
func TestEachNodeReportReadsAllPages(t *testing.T) {
	s := standin.New(t)
	s.Intercept(func(w http.ResponseWriter, r *http.Request) bool {
		if r.URL.Query().Get("limit") != "500" {
			t.Errorf("asked %s", r.URL)
		}
		page, next := r.URL.Query().Get("continue"), ""
		if len(page) < 2 {
			next = page + "x"
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = fmt.Fprintf(w, `{"kind":"CustomNodeResourceList","apiVersion":"node.hilbert.dev/v1alpha1","metadata":{"continue":%q},"items":[{"metadata":{"name":"n%s"}}]}`, next, page)
		return true
	})
	file := filepath.Join(t.TempDir(), "kubeconfig")
	text := `{"apiVersion":"v1","kind":"Config","current-context":"x","clusters":[{"name":"c","cluster":{"server":"` + s.Connection().Host +
		`","insecure-skip-tls-verify":true}}],"contexts":[{"name":"x","context":{"cluster":"c"}}]}`
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	var names []string
	visit := func(c *v1alpha1.CustomNodeResource) error {
		names = append(names, c.Name)
		if len(names) > 3 {
			return errors.New("enough")
		}
		return nil
	}
	target := Target{Kubeconfig: file, Server: "https://elsewhere"}
	if err := EachNodeReport(t.Context(), target, nil, visit); err != nil || strings.Join(names, " ") != "n nx nxx" {
		t.Errorf("%v, %v", names, err)
	}
	if err := EachNodeReport(t.Context(), target, nil, visit); err == nil || err.Error() != "enough" {
		t.Errorf("err %v", err)
	}
}
