package command

import (
	"encoding/json"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"hilbert.dev/hilbert/internal/version"
	"hilbert.dev/hilbert/kube/standin"
)

// hilbert version names the build of each program that answers, through the API server and directly, in every format.
func TestVersion(t *testing.T) {
	c := startCluster(t)
	for _, at := range []struct {
		name       string
		flags      []string
		kubernetes string
	}{
		{"through the API server", c.through(), standin.Version},
		{"directly", c.hilbertd.Flags(), ""},
	} {
		for format, read := range map[string]func([]byte, any) error{
			"json": json.Unmarshal, "yaml": func(text []byte, v any) error { return yaml.Unmarshal(text, v) },
		} {
			out, err := run(t.Context(), t, append([]string{"version", "-o", format}, at.flags...)...)
			var got versionAnswer
			if err != nil || read([]byte(out), &got) != nil {
				t.Fatalf("%s, %s: %v\n%s", at.name, format, err, out)
			}
			if got.Client != version.Get() || got.Server.Hilbertd != version.Get().Version || got.Server.Kubernetes != at.kubernetes || got.Trouble != "" {
				t.Errorf("%s, %s: %s", at.name, format, out)
			}
		}
	}
	out, err := run(t.Context(), t, append([]string{"version"}, c.through()...)...)
	want := "hilbert     " + version.Get().String() + "\nhilbertd    " + version.Get().Version + "\nkubernetes  " + standin.Version + "\n"
	if err != nil || out != want {
		t.Errorf("got %q, %v; want %q", out, err, want)
	}
}

// Where no server answers, the client's build is printed all the same, and the error says what is missing.
func TestVersionWithoutAServer(t *testing.T) {
	c := startCluster(t)
	out, err := run(t.Context(), t, "version", "--kubeconfig", c.hilbertd.Kubeconfig) // which aggregates nothing
	if err == nil || !strings.Contains(err.Error(), "--client") || !strings.HasPrefix(out, "hilbert     v") || !strings.Contains(out, "kubernetes  "+standin.Version) {
		t.Errorf("%q, %v", out, err)
	}
	if out, err := run(t.Context(), t, "version", "--client", "-o", "yaml"); err != nil || !strings.HasPrefix(out, "client:\n") || strings.Contains(out, "server") {
		t.Errorf("%q, %v", out, err)
	}
	if _, err := run(t.Context(), t, "version", "--client", "-o", "xml"); err == nil || !strings.Contains(err.Error(), "yaml") {
		t.Errorf("-o xml: %v", err)
	}
}
