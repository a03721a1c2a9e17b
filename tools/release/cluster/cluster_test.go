package cluster

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"helm.sh/helm/v4/pkg/action"
	"helm.sh/helm/v4/pkg/chart/common"
	"helm.sh/helm/v4/pkg/cli"
	"helm.sh/helm/v4/pkg/kube"
	"helm.sh/helm/v4/pkg/release/v1/util"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"hilbert.dev/hilbert/deploy/crds"
	"hilbert.dev/hilbert/tools/release/charttest"
)

// The groups of operators that the lab has not.
var foreign = []string{"cert-manager.io", "monitoring.coreos.com"}

// TestDryRun has the API server judge every manifest, rendered and plain: admission, defaults, validation and unknown fields.
func TestDryRun(t *testing.T) {
	l := start(t)
	seen, skipped := 0, 0
	for _, text := range []string{
		"{namespace: {create: true}, agent: {enabled: true, lending: {enabled: true}}, mps: {enabled: true}, priorityQuota: {enabled: true}, schedulers: {replicas: 2}}",
		"{agent: {enabled: true, cleanup: true}, serving: {certificate: certManager}, schedulers: {replicas: 2, certificate: certManager}, monitoring: {serviceMonitor: {enabled: true}, prometheusRule: {enabled: true}, dashboard: {enabled: true}}}",
	} {
		for _, name := range []string{"hilbert-crds", "hilbert"} {
			var values map[string]any
			if err := yaml.Unmarshal([]byte(text), &values); err != nil {
				t.Fatal(err)
			}
			if name == "hilbert-crds" {
				values = nil
			}
			c, err := charttest.Load(root, name, "v0.1.0")
			if err != nil {
				t.Fatal(err)
			}
			rendered, err := charttest.Render(c, charttest.Namespace, values, "v1.37.0")
			if err != nil {
				t.Fatal(err)
			}
			objects, err := charttest.Objects(rendered)
			if err != nil {
				t.Fatal(err)
			}
			for _, o := range objects {
				if slices.Contains(foreign, o.GroupVersionKind().Group) {
					skipped++
					continue
				}
				seen++
				l.dryRun(t, o)
			}
		}
	}
	for _, pattern := range []string{"*.yaml", "*/*.yaml"} {
		files, err := filepath.Glob(filepath.Join(root, "deploy", pattern))
		if err != nil || len(files) == 0 {
			t.Fatal(files, err)
		}
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			objects, err := charttest.Parse(string(text))
			if err != nil {
				t.Fatal(err)
			}
			for _, o := range objects {
				seen++
				l.dryRun(t, o)
			}
		}
	}
	if seen < 100 || skipped != 10 {
		t.Errorf("%d manifests were judged, %d were not, because the lab has no such operator", seen, skipped)
	}
}

// dryRun applies an object without storing it.
func (l *lab) dryRun(t *testing.T, o *unstructured.Unstructured) {
	t.Helper()
	mapping, err := l.mapper.RESTMapping(o.GroupVersionKind().GroupKind(), o.GroupVersionKind().Version)
	if err != nil {
		t.Errorf("%s %s: %v", o.GetKind(), o.GetName(), err)
		return
	}
	client := l.dynamic.Resource(mapping.Resource)
	data, err := o.MarshalJSON()
	if err != nil {
		t.Fatal(err)
	}
	force := true
	options := metav1.PatchOptions{DryRun: []string{metav1.DryRunAll}, FieldManager: "test", FieldValidation: metav1.FieldValidationStrict, Force: &force}
	if mapping.Scope.Name() == meta.RESTScopeNameNamespace {
		_, err = client.Namespace(o.GetNamespace()).Patch(t.Context(), o.GetName(), "application/apply-patch+yaml", data, options)
	} else {
		_, err = client.Patch(t.Context(), o.GetName(), "application/apply-patch+yaml", data, options)
	}
	if err != nil {
		t.Errorf("%s %s: %v", o.GetKind(), o.GetName(), err)
	}
}

// helm is helm against a lab, in this process.
func (l *lab) helm(t *testing.T) *action.Configuration {
	t.Helper()
	settings := cli.New()
	settings.KubeConfig = l.kubeconfig
	settings.SetNamespace(charttest.Namespace)
	c := action.NewConfiguration()
	if err := c.Init(settings.RESTClientGetter(), charttest.Namespace, "secret"); err != nil {
		t.Fatal(err)
	}
	return c
}

func (l *lab) install(t *testing.T, name, version string, values map[string]any) {
	t.Helper()
	c, err := charttest.Load(root, name, version)
	if err != nil {
		t.Fatal(err)
	}
	install := action.NewInstall(l.helm(t))
	install.ReleaseName, install.Namespace, install.WaitStrategy, install.Timeout = name, charttest.Namespace, kube.HookOnlyStrategy, patience
	if _, err := install.RunWithContext(t.Context(), c, values); err != nil {
		t.Fatalf("install %s: %v", name, err)
	}
}

func (l *lab) uninstall(t *testing.T, name string) {
	t.Helper()
	uninstall := action.NewUninstall(l.helm(t))
	uninstall.WaitStrategy, uninstall.Timeout = kube.HookOnlyStrategy, patience
	if _, err := uninstall.Run(name); err != nil {
		t.Fatalf("uninstall %s: %v", name, err)
	}
}

// state is what an upgrade changes, and what it must not change.
type state struct {
	replicas        int64
	version         string
	certificate     string
	agent, watchdog string // their images' versions
}

func (l *lab) state(t *testing.T) state {
	t.Helper()
	d, s := l.get(t, deployments, "hilbertd"), l.get(t, secrets, "hilbertd-serving")
	replicas, _, _ := unstructured.NestedInt64(d.Object, "spec", "replicas")
	certificate, _, _ := unstructured.NestedString(s.Object, "data", "tls.crt")
	return state{
		replicas: replicas, version: d.GetLabels()["app.kubernetes.io/version"], certificate: certificate,
		agent: l.imageOf(t, "hilbert-agent"), watchdog: l.imageOf(t, "hilbert-watchdog"),
	}
}

// imageOf is the version of the image of a DaemonSet.
func (l *lab) imageOf(t *testing.T, name string) string {
	t.Helper()
	containers, _, _ := unstructured.NestedSlice(l.get(t, daemonSets, name).Object, "spec", "template", "spec", "containers")
	if len(containers) != 1 {
		t.Fatalf("%s: containers %v", name, containers)
	}
	return strings.TrimPrefix(fmt.Sprint(containers[0].(map[string]any)["image"]), "registry.hilbert.dev/hilbert/hilbertd:")
}

// upgrade upgrades the release, as docs/how-to/operate.md says, with the values that people gave and some more.
func (l *lab) upgrade(t *testing.T, version string, values map[string]any) error {
	t.Helper()
	next, err := charttest.Load(root, "hilbert", version)
	if err != nil {
		t.Fatal(err)
	}
	upgrade := action.NewUpgrade(l.helm(t))
	upgrade.Namespace, upgrade.WaitStrategy, upgrade.Timeout, upgrade.ResetThenReuseValues = charttest.Namespace, kube.HookOnlyStrategy, patience, true
	_, err = upgrade.RunWithContext(t.Context(), "hilbert", next, values)
	return err
}

// rollback goes back to a revision.
func (l *lab) rollback(t *testing.T, revision int) error {
	t.Helper()
	rollback := action.NewRollback(l.helm(t))
	rollback.Version, rollback.WaitStrategy, rollback.Timeout, rollback.ServerSideApply = revision, kube.HookOnlyStrategy, patience, "auto"
	return rollback.Run("hilbert")
}

// installOlder installs a chart that has not all values of this one: it knows no controller.
func (l *lab) installOlder(t *testing.T, version string, values map[string]any) {
	t.Helper()
	c, err := charttest.Load(root, "hilbert", version)
	if err != nil {
		t.Fatal(err)
	}
	delete(c.Values, "controller")
	c.Templates = slices.DeleteFunc(c.Templates, func(f *common.File) bool { return strings.HasSuffix(f.Name, "/controller.yaml") })
	install := action.NewInstall(l.helm(t))
	install.ReleaseName, install.Namespace, install.WaitStrategy, install.Timeout = "hilbert", charttest.Namespace, kube.HookOnlyStrategy, patience
	if _, err := install.RunWithContext(t.Context(), c, values); err != nil {
		t.Fatal(err)
	}
}

// TestLife installs both charts, upgrades to the next version with a changed value, rolls back, and uninstalls. The certificate outlives upgrade and rollback.
// In the end the API server has what it had before, and the definitions, which are kept on purpose.
func TestLife(t *testing.T) {
	l := start(t)
	before, err := l.everything(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	l.install(t, "hilbert-crds", "v0.1.0", nil)
	agents := map[string]any{"agent": map[string]any{"enabled": true}}
	l.installOlder(t, "v0.1.0", agents)
	installed := l.state(t)
	if installed.replicas != 2 || installed.version != "v0.1.0" || installed.certificate == "" || installed.watchdog != "v0.1.0" {
		t.Errorf("installed: %+v", installed)
	}
	if !slices.Contains(l.names(t, services), "v1alpha1.visibility.hilbert.dev") || len(l.names(t, definitions)) != countDefinitions(t) || len(l.names(t, policies)) < 6 || len(l.names(t, mutating)) != 3 {
		t.Errorf("%v %v %v %v", l.names(t, services), l.names(t, definitions), l.names(t, policies), l.names(t, mutating))
	}
	if err := l.upgrade(t, "v0.2.0", map[string]any{"scheduler": map[string]any{"replicas": 3}}); err != nil {
		t.Fatal(err)
	}
	// The watchdog's pods are replaced by hand: an upgrade that touched its template would never be complete for helm --wait.
	if got, want := l.state(t), (state{3, "v0.2.0", installed.certificate, "v0.2.0", "v0.1.0"}); got != want {
		t.Errorf("upgraded: %+v, want %+v", got, want)
	}
	for _, c := range []struct{ values, want string }{
		{"{watchdog: {image: {tag: v0.1.9}}}", "v0.1.9"},
		{"{watchdog: {image: {tag: ''}}}", "v0.1.9"},
		{"{image: {registry: r:5000/x}}", "r:5000/x/hilbertd:v0.2.0"},
		{"{image: {tag: v0.2.1}}", "r:5000/x/hilbertd:v0.2.0"},
	} {
		var values map[string]any
		if err := yaml.Unmarshal([]byte(c.values), &values); err != nil {
			t.Fatal(err)
		}
		if err := l.upgrade(t, "v0.2.0", values); err != nil {
			t.Fatal(err)
		}
		if got := l.imageOf(t, "hilbert-watchdog"); got != c.want {
			t.Errorf("with %s the watchdog has %s, want %s", c.values, got, c.want)
		}
	}
	if err := l.rollback(t, 1); err != nil {
		t.Fatal(err)
	}
	if got := l.state(t); got != installed {
		t.Errorf("rolled back: %+v, want %+v", got, installed)
	}
	l.serveRemoval(t)
	l.uninstall(t, "hilbert")
	if slices.Contains(l.names(t, services), "v1alpha1.visibility.hilbert.dev") {
		t.Error("the APIService outlives what answers for it: no namespace could be deleted")
	}
	l.uninstall(t, "hilbert-crds")
	l.mapper.Reset()
	eventually(t, "nothing is left", func() error { return l.left(t, before) })
	if got := l.names(t, definitions); len(got) != countDefinitions(t) {
		t.Errorf("definitions are not kept: %v", got)
	}
	l.removeByCommand(t, before, agents)
}

// countDefinitions is how many definitions deploy/crds has.
func countDefinitions(t *testing.T) int {
	t.Helper()
	files, err := fs.Glob(crds.Files, "*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	return len(files)
}

// removeByCommand installs again and has hilbert say what is there and remove it, the definitions too.
func (l *lab) removeByCommand(t *testing.T, before []string, agents map[string]any) {
	t.Helper()
	program := filepath.Join(t.TempDir(), "hilbert")
	if out, err := exec.CommandContext(t.Context(), "go", "-C", root, "build", "-o", program, "./cmd/hilbert").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	run := func(code int, args ...string) string {
		t.Helper()
		command := exec.CommandContext(t.Context(), program, append(args, "--kubeconfig", l.kubeconfig)...)
		out, err := command.CombinedOutput()
		if got := command.ProcessState.ExitCode(); got != code {
			t.Errorf("hilbert %v ends with %d (%v), want %d: %s", args, got, err, code, out)
		}
		return string(out)
	}
	const negative = 7
	out := run(negative, "doctor")
	for _, want := range []string{fmt.Sprintf("definitions: all %d are served", countDefinitions(t)), "error    leader: nobody has held the Lease", "error    admission policies", "warning  APIService: there is none"} {
		if !strings.Contains(out, want) {
			t.Errorf("doctor, with nothing but definitions, does not say %q:\n%s", want, out)
		}
	}
	l.install(t, "hilbert-crds", "v0.1.0", nil)
	l.install(t, "hilbert", "v0.1.0", agents)
	l.mapper.Reset()
	out = run(negative, "doctor")
	for _, want := range []string{fmt.Sprintf("ok       admission policies: %d are in force", len(l.names(t, policies))+len(l.names(t, mutating))), "installed by hilbert-0.1.0", "error    workload hilbertd: 0 of 2 pods are ready", "APIService: v1alpha1.visibility.hilbert.dev is not available", "this cluster serves all"} {
		if !strings.Contains(out, want) {
			t.Errorf("doctor, with no hilbertd running, does not say %q:\n%s", want, out)
		}
	}
	plan := run(0, "uninstall", "--dry-run", "--definitions")
	if again := run(0, "uninstall", "--dry-run", "--definitions"); again != plan {
		t.Errorf("a dry run has changed something: %s\nthen: %s", plan, again)
	}
	if apiService, await := strings.Index(plan, "APIService v1alpha1"), strings.Index(plan, "await cleanup"); apiService < 0 || await < apiService {
		t.Errorf("the plan: %s", plan)
	}
	run(0, "uninstall", "--yes", "--definitions")
	l.mapper.Reset()
	eventually(t, "nothing is left", func() error {
		if got := l.names(t, definitions); len(got) > 0 {
			return fmt.Errorf("%v are left", got)
		}
		return l.left(t, before)
	})
	if out := run(0, "uninstall", "--dry-run"); !strings.Contains(out, "nothing of Hilbert is there") {
		t.Error(out)
	}
}

// left says what there is beyond what there was, but for definitions.
func (l *lab) left(t *testing.T, before []string) error {
	now, err := l.everything(t.Context())
	if err != nil {
		return err
	}
	var errs []error
	for _, key := range now {
		if !slices.Contains(before, key) && !strings.HasPrefix(key, "CustomResourceDefinition ") {
			errs = append(errs, fmt.Errorf("%s is left", key))
		}
	}
	for _, key := range before {
		if !slices.Contains(now, key) {
			errs = append(errs, fmt.Errorf("%s is gone", key))
		}
	}
	return errors.Join(errs...)
}

// helm deletes an APIService before the Deployment and the Service that answer for it.
func TestUninstallOrder(t *testing.T) {
	at := func(kind string) int { return slices.Index(util.UninstallOrder, kind) }
	if at("APIService") < 0 || at("APIService") > at("Deployment") || at("APIService") > at("Service") {
		t.Errorf("helm's order has changed: %v", util.UninstallOrder)
	}
}
