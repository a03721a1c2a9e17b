package migrate

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"
	"go.yaml.in/yaml/v3"
	"pgregory.net/rapid"

	"hilbert.dev/hilbert/internal/reference"
)

// TestTranscripts rewrites the manifests of testdata/manifests.
func TestTranscripts(t *testing.T) {
	datadriven.Walk(t, "testdata/manifests", func(t *testing.T, path string) {
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			var o Options
			if d.HasArg("sigs") {
				o.PodGroups = SIGPodGroups
			}
			d.MaybeScanArgs(t, "gpu-memory", &o.GPUMemoryMiB)
			result, err := Run([]byte(d.Input), o)
			if result == nil {
				return err.Error() + "\n"
			}
			if errors.Is(err, ErrUnknownWords) != (result.Count(Unknown) > 0) || (err != nil) != (result.Manifest == nil) {
				t.Errorf("%s: %v, with %d unknown words and %d bytes", d.Pos, err, result.Count(Unknown), len(result.Manifest))
			}
			var out strings.Builder
			out.Write(result.Manifest)
			for _, f := range result.Findings {
				fmt.Fprintln(&out, f)
			}
			return out.String()
		})
	})
}

// TestNothingIsDroppedInSilence: a made-up word of each system is unknown, wherever it stands.
func TestNothingIsDroppedInSilence(t *testing.T) {
	isUnknown := func(system, manifest string) {
		result, err := Run([]byte(manifest), Options{})
		if !errors.Is(err, ErrUnknownWords) || result.Count(Unknown) != 1 {
			t.Errorf("%s: %v: %+v\n%s", system, err, result, manifest)
		}
	}
	for _, s := range systems() {
		for _, prefix := range s.prefixes {
			if !strings.HasSuffix(prefix, "/") || s.keeps(prefix+"x") {
				continue
			}
			for _, pod := range []string{
				`{metadata: {labels: {%sx: "1"}}, spec: {containers: [{name: a}]}}`,
				`{metadata: {annotations: {%sx: "1"}}, spec: {containers: [{name: a}]}}`,
				`{metadata: {name: x}, spec: {containers: [{name: a, resources: {limits: {%sx: "1"}}}]}}`,
				`{metadata: {name: x}, spec: {containers: [{name: a}], initContainers: [{name: b, resources: {requests: {%sx: "1"}}}]}}`,
			} {
				pod = fmt.Sprintf(pod, prefix)
				isUnknown(s.name, "{apiVersion: v1, kind: Pod, "+pod[1:])
				isUnknown(s.name, "{apiVersion: apps/v1, kind: Deployment, spec: {template: "+pod+"}}")
				isUnknown(s.name, "{apiVersion: batch/v1, kind: CronJob, spec: {jobTemplate: {spec: {template: "+pod+"}}}}")
			}
		}
		for _, group := range s.groups {
			isUnknown(s.name, "{apiVersion: "+group+"/v1, kind: MadeUp, metadata: {name: x}}")
		}
	}
}

// TestAnythingElseIsUntouched: a manifest without words of any system comes back as it was, and a second run changes nothing.
func TestAnythingElseIsUntouched(t *testing.T) {
	key := rapid.StringMatching(`(example\.com/)?[a-z][a-z-]{0,8}`)
	text := rapid.StringMatching(`[a-z0-9 :#'"{}-]{0,12}`)
	rapid.Check(t, func(t *rapid.T) {
		pod := map[string]any{
			"apiVersion": "v1", "kind": "Pod", "metadata": map[string]any{
				"name": "x", "labels": rapid.MapOf(key, text).Draw(t, "labels"),
				"annotations": rapid.MapOf(key, text).Draw(t, "annotations"),
			},
			"spec": map[string]any{"containers": []any{map[string]any{"name": "main", "env": rapid.SliceOf(text).Draw(t, "env")}}},
		}
		input, err := yaml.Marshal(pod)
		if err != nil {
			t.Fatal(err)
		}
		result, err := Run(input, Options{})
		if err != nil || len(result.Findings) > 0 {
			t.Fatalf("%v: %+v", err, result)
		}
		var before, after any
		if err := errors.Join(yaml.Unmarshal(input, &before), yaml.Unmarshal(result.Manifest, &after)); err != nil {
			t.Fatal(err)
		}
		prune(before)
		if fmt.Sprint(before) != fmt.Sprint(after) {
			t.Fatalf("\n%v\n%v", before, after)
		}
		again, err := Run(result.Manifest, Options{})
		if err != nil || string(again.Manifest) != string(result.Manifest) {
			t.Fatalf("%v\n%s\n%s", err, result.Manifest, again.Manifest)
		}
	})
}

// prune takes empty labels and annotations out, as Run does.
func prune(pod any) {
	meta, _ := pod.(map[string]any)["metadata"].(map[string]any)
	for _, key := range []string{"labels", "annotations"} {
		if m, ok := meta[key].(map[string]any); ok && len(m) == 0 {
			delete(meta, key)
		}
	}
}

func FuzzRun(f *testing.F) {
	f.Add([]byte("apiVersion: v1\nkind: Pod\nmetadata: {labels: {koordinator.sh/qosClass: BE}}\nspec: {containers: [{resources: {limits: {kubernetes.io/batch-cpu: 5}}}]}"))
	f.Add([]byte("apiVersion: batch.volcano.sh/v1alpha1\nkind: Job\nspec: {tasks: [{replicas: 2, template: {spec: {}}}]}"))
	f.Add([]byte("kind: List\nitems: [{apiVersion: v1, kind: Pod, metadata: &a {labels: {kai.scheduler/queue: q}}, spec: *a}]"))
	f.Fuzz(func(t *testing.T, input []byte) {
		result, err := Run(input, Options{})
		if err != nil {
			return
		}
		again, err := Run(result.Manifest, Options{})
		if err != nil || again.Count(Translated)+again.Count(Lost)+again.Count(Invented) > 0 {
			t.Fatalf("a second run: %v: %+v\n%s", err, again, result.Manifest)
		}
	})
}

// TestGuides rewrites what each page of docs/migrate shows first, and compares with what it shows next.
func TestGuides(t *testing.T) {
	pages, err := filepath.Glob(filepath.Join(reference.Root(t), "docs", "migrate", "*.md"))
	if err != nil {
		t.Fatal(err)
	}
	documented := make(map[string]bool)
	for _, path := range pages {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		blocks := strings.Split(string(text), "```yaml\n")[1:]
		if len(blocks)%2 != 0 {
			t.Errorf("%s: a manifest has no counterpart", path)
			continue
		}
		for i := 0; i < len(blocks); i += 2 {
			before, told, _ := strings.Cut(blocks[i], "```")
			after, _, _ := strings.Cut(blocks[i+1], "```")
			var o Options
			if _, text, ok := strings.Cut(told, "--gpu-memory "); ok {
				if _, err := fmt.Sscan(text, &o.GPUMemoryMiB); err != nil {
					t.Fatal(err)
				}
			}
			result, err := Run([]byte(before), o)
			if err != nil || string(result.Manifest) != after {
				t.Errorf("%s: %v\n%s\nwant\n%s", path, err, result.Manifest, after)
			}
			documented[strings.TrimSuffix(filepath.Base(path), ".md")] = true
		}
	}
	for _, s := range systems() {
		if !documented[s.name] {
			t.Errorf("docs/migrate has no page with an example for %s", s.name)
		}
	}
}
