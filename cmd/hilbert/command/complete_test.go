package command

import (
	"bytes"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"hilbert.dev/hilbert/cmd/hilbert/reporttest"
	"hilbert.dev/hilbert/cmd/hilbertd/daemon/daemontest"
	"hilbert.dev/hilbert/kube/standin"
)

// offers is what the shell is told: the words, and the directive.
func offers(t *testing.T, args ...string) string {
	t.Helper()
	var out bytes.Buffer
	root := New()
	root.SetArgs(append([]string{"__completeNoDesc"}, args...))
	root.SetOut(&out)
	root.SetErr(&bytes.Buffer{})
	if err := root.ExecuteContext(t.Context()); err != nil {
		t.Fatalf("%q: %v", args, err)
	}
	return strings.Join(strings.Fields(out.String()), " ")
}

// nothing is the directive alone: no words, and no names of files instead.
const nothing = ":4"

// The shell is offered what the cluster has now, in the namespace that the command would take.
func TestCompletion(t *testing.T) {
	c := startTenants(t)
	c.api.Set(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "night"}})
	late := apiPod("late", "1")
	late.Namespace = "night"
	c.api.SetPod(late)
	kubeconfig := []string{"--kubeconfig", c.hilbertd.Kubeconfig}
	for _, question := range []struct {
		args []string
		want string
	}{
		{[]string{"explain", ""}, "pod unit node queue reservation vpa resourcerequest tidepool nodeconfiguration :36"},
		{[]string{"explain", "pod", "t"}, "train-0 train-1 train-2 tune-0 tune-1 :4"},
		{[]string{"explain", "pod", "tu"}, "tune-0 tune-1 :4"},
		{[]string{"explain", "pod", "-n", "night", ""}, "late :4"},
		{[]string{"explain", "pod", "night/"}, "night/late :4"},
		{[]string{"explain", "unit", ""}, "train tune :4"},
		{[]string{"explain", "podgroup", "default/tr"}, "default/train :4"},
		{[]string{"explain", "node", ""}, "n1 n2 :4"},
		{[]string{"explain", "queue", "v"}, "vision :4"},
		{[]string{"explain", "pod", "web", ""}, nothing},
		{[]string{"explain", "disk", ""}, nothing},
		{[]string{"queue", ""}, "research vision :4"},
		{[]string{"queue", "vision", ""}, nothing},
		{[]string{"queue", "--from", "file", ""}, nothing},
		{[]string{"top", "nodes", "n1", ""}, "n2 :4"},
		{[]string{"top", "gpus", ""}, "n1 n2 :4"},
		{[]string{"top", "pods", "--node", ""}, "n1 n2 :4"},
		{[]string{"top", "pods", "-n", ""}, "default night :4"},
		{[]string{"queue", "-o", ""}, "text json yaml wide name jsonpath= :36"},
		{[]string{"doctor", "-o", ""}, "text json yaml jsonpath= :36"},
		{[]string{"queue", "--context", ""}, "x :4"},
		{[]string{"queue", "--cluster", ""}, "c :4"},
		{[]string{"queue", "--user", ""}, "u :4"},
	} {
		words := 1 // of the command; its flags come behind it
		if question.args[0] == "top" {
			words = 2
		}
		args := slices.Insert(slices.Clone(question.args), words, kubeconfig...)
		if slices.Contains(question.args, "--from") {
			args = question.args
		}
		if got := offers(t, args...); got != question.want {
			t.Errorf("%q: %s, want %s", question.args, got, question.want)
		}
	}
}

// A cluster that refuses, or is not there, offers nothing and says nothing.
func TestCompletionWithoutACluster(t *testing.T) {
	api := standin.New(t)
	p := daemontest.Start(t, api)
	api.Intercept(func(w http.ResponseWriter, _ *http.Request) bool {
		w.WriteHeader(http.StatusForbidden)
		return true
	})
	for _, kubeconfig := range []string{p.Kubeconfig, filepath.Join(t.TempDir(), "none")} {
		for _, kind := range []string{"pod", "unit", "node", "queue"} {
			if got := offers(t, "explain", "--kubeconfig", kubeconfig, kind, ""); got != nothing {
				t.Errorf("%s of %s: %s", kind, kubeconfig, got)
			}
		}
	}
}

// A name without a namespace is looked for in the context's.
func TestNamespaceOfTheContext(t *testing.T) {
	c := startTenants(t)
	late := apiPod("late", "100")
	late.Namespace = "night"
	c.api.SetPod(late)
	c.awaitQueue(t, "3 pods wait")
	text, err := os.ReadFile(c.hilbertd.Kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	night := filepath.Join(t.TempDir(), "kubeconfig")
	if err := os.WriteFile(night, bytes.ReplaceAll(text, []byte(`"user":"u"}`), []byte(`"user":"u","namespace":"night"}`)), 0o600); err != nil {
		t.Fatal(err)
	}
	c.through()
	for _, args := range [][]string{
		{"explain", "pod", "late", "--kubeconfig", night},
		{"explain", "pod/late", "--kubeconfig", night},
		{"explain", "pod", "late", "--kubeconfig", c.hilbertd.Kubeconfig, "-n", "night"},
		{"explain", "pods", "night/late", "--kubeconfig", c.hilbertd.Kubeconfig},
		{"explain", "pod", "night/late", "-n", "night", "--kubeconfig", c.hilbertd.Kubeconfig},
	} {
		if out, err := run(t.Context(), t, args...); err != nil || !strings.HasPrefix(out, "night/late waits") {
			t.Errorf("%q: %v\n%s", args, err, out)
		}
	}
	for _, args := range [][]string{
		{"explain", "pod", "late", "--kubeconfig", c.hilbertd.Kubeconfig},
		{"explain", "pod", "late", "--kubeconfig", night, "-n", "default"},
	} {
		if out, err := run(t.Context(), t, args...); err == nil || !strings.Contains(err.Error(), "no pod default/late") {
			t.Errorf("%q: %v\n%s", args, err, out)
		}
	}
	if out, err := run(t.Context(), t, "explain", "pod", "late", "--kubeconfig", night, "-o", "jsonpath={.namespace}/{.name}"); err != nil || out != "night/late" {
		t.Errorf("%q, %v", out, err)
	}
}

// Pods of the context's namespace are shown, or those of all.
func TestTopPodsOfANamespace(t *testing.T) {
	api := standin.New(t)
	api.Offer("customnoderesources.node.hilbert.dev", "v1alpha1")
	for _, u := range reporttest.Nodes(t) {
		api.Set(u)
	}
	p := daemontest.Start(t, api)
	for flags, want := range map[string]string{
		"":                "pod/pinned\n",
		"-n prod":         "pod/cache\npod/db\n",
		"-A":              "pod/pinned\npod/train\npod/cache\npod/db\n",
		"-A --node n2":    "pod/pinned\n",
		"-n no-such":      "",
		"-n ml --node n1": "pod/train\n",
	} {
		args := append([]string{"top", "pods", "-o", "name", "--kubeconfig", p.Kubeconfig}, strings.Fields(flags)...)
		if out, err := run(t.Context(), t, args...); err != nil || out != want {
			t.Errorf("%q: %q, %v, want %q", flags, out, err, want)
		}
	}
	if out, err := run(t.Context(), t, "top", "nodes", "-o", "name", "--kubeconfig", p.Kubeconfig); err != nil || out != "node/n1\nnode/n2\nnode/n3\nnode/n4\n" {
		t.Errorf("%q, %v", out, err)
	}
}
