package charttest

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	chartv2 "helm.sh/helm/v4/pkg/chart/v2"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/cmd/hilbertd/configfile"
)

const root = "../../.."

var rewrite = flag.Bool("rewrite", false, "write the golden texts instead of comparing them")

// newest and oldest are the versions of Kubernetes that are supported.
const newest, oldest = "v1.37.0", "v1.35.0"

func load(t *testing.T, name string) *chartv2.Chart {
	t.Helper()
	c, err := Load(root, name, "v0.0.0")
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// values reads values as YAML.
func values(t *testing.T, text string) map[string]any {
	t.Helper()
	var out map[string]any
	if err := yaml.UnmarshalStrict([]byte(text), &out); err != nil {
		t.Fatal(err)
	}
	return out
}

func render(t *testing.T, text, kubernetes string) map[string]string {
	t.Helper()
	out, err := Render(load(t, "hilbert"), Namespace, values(t, text), kubernetes)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func objects(t *testing.T, rendered map[string]string) []*unstructured.Unstructured {
	t.Helper()
	out, err := Objects(rendered)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// everything are values that switch on all that a chart can render on a cluster without other operators.
const everything = `
metrics: {enabled: true, certificate: existing}
controller: {enabled: true, rescheduling: {mode: Auto, evictionRequestTimeout: 30m, maxLoadPercent: 80}, config: {recommendation: {enabled: true, changePods: true}, requests: {enabled: true}, tides: {enabled: true}}}
namespace: {create: true}
agent: {enabled: true, lending: {enabled: true}, config: {node: {lending: {network: {enabled: true, incoming: true}}, quietCPUs: {interrupts: true}, plugins: {enabled: true, directory: /run/fpga/plugins}, memory: {logs: {bytesPerSecond: 67108864}}}}}
mps: {enabled: true}
priorityQuota: {enabled: true}
migration: {systems: [koordinator, katalyst, volcano, kueue, hami, yunikorn, kai]}
serving: {certificate: existing}
`

// monitored switches on what needs operators of others.
const monitored = `
scheduler: {podLabels: {hilbert.dev/qos-level: system_cores}}
agent: {enabled: true}
serving: {certificate: certManager}
monitoring: {serviceMonitor: {enabled: true}, prometheusRule: {enabled: true}, dashboard: {enabled: true}}
`

// split has schedulers in processes of their own.
const split = `
serving: {certificate: existing}
schedulers: {replicas: 3, certificate: certManager}
monitoring: {serviceMonitor: {enabled: true}}
`

// Evictions are granted to the controller in the mode Auto alone, and snapshots with Advise too.
func TestMovesAreGrantedByMode(t *testing.T) {
	for mode, want := range map[string][2]bool{"Off": {}, "Advise": {true, false}, "Auto": {true, true}} {
		text := render(t, "{controller: {enabled: true, rescheduling: {mode: \""+mode+"\"}}, serving: {certificate: existing}}", newest)["controller.yaml"]
		if got := [2]bool{strings.Contains(text, "resources: [snapshots]"), strings.Contains(text, "pods/eviction")}; got != want || !strings.Contains(text, "mode: \""+mode+"\"") {
			t.Errorf("%s: reads snapshots, evicts: %v, want %v in\n%s", mode, got, want, text)
		}
	}
}

// TestGolden holds what helm template prints, for the values that people start with. After a change run it with -args -rewrite and read the difference.
func TestGolden(t *testing.T) {
	for name, text := range map[string]string{
		"default": "serving: {certificate: existing}", "everything": everything, "monitored": monitored,
		"split":   split,
		"cleanup": "{agent: {enabled: true, cleanup: true, config: {node: {quietCPUs: {interrupts: true}}}}, serving: {certificate: existing}}",
	} {
		var out strings.Builder
		rendered := render(t, text, newest)
		for _, o := range objects(t, rendered) { // literal files have their own tests; here they count by their names
			if isLiteral(o) {
				fmt.Fprintf(&out, "# %s %s: as deploy/ has it\n---\n", o.GetKind(), o.GetName())
				continue
			}
			data, err := yaml.Marshal(o)
			if err != nil {
				t.Fatal(err)
			}
			out.Write(data)
			out.WriteString("---\n")
		}
		out.WriteString(rendered["NOTES.txt"])
		golden(t, filepath.Join("testdata", name+".txt"), out.String())
	}
}

func golden(t *testing.T, file, got string) {
	t.Helper()
	if *rewrite {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(file)
	if err != nil || string(want) != got {
		t.Errorf("%s is not what the chart renders (%v): go test ./charttest -args -rewrite, and read the difference. It renders\n%s", file, err, got)
	}
}

// isLiteral says whether an object's text is a file of deploy/, which the chart takes in as it is.
func isLiteral(o *unstructured.Unstructured) bool {
	return strings.HasSuffix(o.GetKind(), "Policy") && o.GetKind() != "NetworkPolicy" || strings.HasSuffix(o.GetKind(), "PolicyBinding") || o.GetName() == "hilbert-mps" ||
		strings.Contains(o.GetKind(), "Role") && o.GetName() != "hilbert-agent" && o.GetName() != "hilbert-removal"
}

// What the chart adds to an object of the plain manifests.
var chartOnly = []string{"app.kubernetes.io/part-of", "app.kubernetes.io/version", "app.kubernetes.io/managed-by", "helm.sh/chart", "hilbert.dev/config"}

// plain takes away from an object what only the chart has.
func plain(o *unstructured.Unstructured) *unstructured.Unstructured {
	o = o.DeepCopy()
	for _, at := range [][]string{{"metadata", "labels"}, {"spec", "template", "metadata", "annotations"}} {
		all, found, _ := unstructured.NestedStringMap(o.Object, at...)
		for _, key := range chartOnly {
			delete(all, key)
		}
		if len(all) > 0 {
			_ = unstructured.SetNestedStringMap(o.Object, all, at...)
		} else if found {
			unstructured.RemoveNestedField(o.Object, at...)
		}
	}
	for _, list := range []string{"containers", "initContainers"} {
		containers, found, _ := unstructured.NestedSlice(o.Object, "spec", "template", "spec", list)
		for i := range containers {
			delete(containers[i].(map[string]any), "imagePullPolicy")
		}
		if found {
			_ = unstructured.SetNestedSlice(o.Object, containers, "spec", "template", "spec", list)
		}
	}
	return o
}

// key names an object.
func key(o *unstructured.Unstructured) string { return o.GetKind() + " " + o.GetName() }

// canonical is an object as text; a configuration inside is read too, so that its layout does not count.
func canonical(t *testing.T, o *unstructured.Unstructured) string {
	t.Helper()
	if data, _, _ := unstructured.NestedStringMap(o.Object, "data"); o.GetKind() == "ConfigMap" {
		for name, text := range data {
			if c, err := configfile.Parse([]byte(text)); err == nil {
				for _, w := range spec.NoEffect(c) {
					t.Errorf("%s: %v", key(o), w) // whoever installs the chart would be warned
				}
				parsed, err := json.Marshal(c)
				if err != nil {
					t.Fatal(err)
				}
				data[name] = string(parsed)
			}
		}
		o = o.DeepCopy()
		_ = unstructured.SetNestedStringMap(o.Object, data, "data")
	}
	out, err := yaml.Marshal(o)
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}

// TestChangesRestart: pods that read their configuration at their start are made anew when it changes.
func TestChangesRestart(t *testing.T) {
	hash := func(text, kind, name string) string {
		t.Helper()
		h, _, _ := unstructured.NestedString(find(t, objects(t, render(t, text, newest)), kind, name).Object, "spec", "template", "metadata", "annotations", "hilbert.dev/config")
		if h == "" {
			t.Errorf("%s has no hash of its configuration", name)
		}
		return h
	}
	for _, c := range []struct{ kind, name, before, after string }{
		{"DaemonSet", "hilbert-agent", "{agent: {enabled: true}}", "{agent: {enabled: true}, metrics: {enabled: true}}"},
		{"Deployment", "hilbert-metrics", "{agent: {enabled: true}, metrics: {enabled: true}}", "{agent: {enabled: true}, metrics: {enabled: true, config: {metrics: {staleAfter: 2m}}}}"},
		{"Deployment", "hilbert-controller", "{controller: {enabled: true}}", "{controller: {enabled: true, config: {recommendation: {enabled: true}}}}"},
		{"Deployment", "hilbert-controller", "{controller: {enabled: true}}", "{controller: {enabled: true, rescheduling: {mode: Advise}}}"},
	} {
		if hash(c.before, c.kind, c.name) == hash(c.after, c.kind, c.name) {
			t.Errorf("%s: with %s pods go on that have read %s", c.name, c.after, c.before)
		}
	}
}

// TestPlainManifests holds deploy/ and the chart to each other: with these values the chart renders the objects of the plain manifests, and no others. Who
// changes one of them changes both.
func TestPlainManifests(t *testing.T) {
	rendered := make(map[string]string)
	for _, cleanup := range []string{"false", "true"} {
		text := "{namespace: {create: true}, image: {registry: '', tag: latest}, mps: {enabled: true}, serving: {certificate: existing}, " +
			"agent: {enabled: true, everyNode: true, lending: {enabled: null}, cleanup: " + cleanup + "}, " +
			"migration: {systems: [koordinator, katalyst, volcano, kueue, hami, yunikorn, kai]}}"
		for _, o := range objects(t, render(t, text, newest)) {
			if o.GetAnnotations()["helm.sh/hook"] == "" { // what helm uninstall makes, hilbert uninstall and people do
				rendered[key(o)] = canonical(t, plain(o))
			}
		}
	}
	seen := make(map[string]bool)
	for _, pattern := range []string{"*.yaml", "uninstall/*.yaml", "policies/*.yaml", "migration/*.yaml"} {
		files, err := filepath.Glob(filepath.Join(root, "deploy", pattern))
		if err != nil || len(files) == 0 {
			t.Fatalf("%s: %v %v", pattern, files, err)
		}
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			list, err := Parse(string(text))
			if err != nil {
				t.Fatalf("%s: %v", file, err)
			}
			for _, o := range list {
				seen[key(o)] = true
				if want, got := canonical(t, o), rendered[key(o)]; got != want {
					t.Errorf("%s: %s is not what the chart renders. The file:\n%s\nThe chart:\n%s", file, key(o), want, got)
				}
			}
		}
	}
	for name := range rendered {
		if !seen[name] {
			t.Errorf("the chart renders %s, which deploy/ has not", name)
		}
	}
}

// Before helm uninstall deletes anything, it makes all that cleans the nodes, the Job last, where there are agents; what is made by hand is not made twice. A release without agents
// has the same, for a rollback to it from one with agents; for an upgrade only a cluster says whether there are agents, see package cluster.
func TestRemoval(t *testing.T) {
	const all = "-10 ClusterRole, -10 Role, -10 ServiceAccount, -5 DaemonSet, -9 ClusterRoleBinding, -9 RoleBinding, 0 Job"
	for text, want := range map[string][2]string{
		"":                         {"pre-rollback", all},
		"{agent: {cleanup: true}}": {"pre-rollback", all},
		"{agent: {enabled: true}}": {"pre-delete", all},
		"{agent: {enabled: true, cleanup: true}}": {"pre-delete", "-10 ClusterRole, -10 Role, -10 ServiceAccount, -9 ClusterRoleBinding, -9 RoleBinding, 0 Job"},
	} {
		var got []string
		for _, o := range objects(t, render(t, text, newest)) {
			a := o.GetAnnotations()
			if a["helm.sh/hook"] == "" {
				continue
			}
			if a["helm.sh/hook"] != want[0] || a["helm.sh/hook-delete-policy"] != "before-hook-creation,hook-succeeded" {
				t.Errorf("%s: %v", key(o), a)
			}
			got = append(got, a["helm.sh/hook-weight"]+" "+o.GetKind())
		}
		slices.Sort(got)
		if list := strings.Join(got, ", "); list != want[1] {
			t.Errorf("%s: %s, want %s", text, list, want[1])
		}
	}
}

// The definitions are those of deploy/crds, and an uninstall keeps them.
func TestDefinitions(t *testing.T) {
	rendered, err := Render(load(t, "hilbert-crds"), Namespace, nil, newest)
	if err != nil {
		t.Fatal(err)
	}
	got := objects(t, rendered)
	files, err := filepath.Glob(filepath.Join(root, "deploy", "crds", "*.yaml"))
	if err != nil || len(got) != len(files) || len(files) < 3 {
		t.Fatalf("%d objects of %d files: %v", len(got), len(files), err)
	}
	for i, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		want, err := Parse(string(text))
		if err != nil {
			t.Fatal(err)
		}
		if got[i].GetAnnotations()["helm.sh/resource-policy"] != "keep" {
			t.Errorf("helm uninstall would delete %s, and all its objects", got[i].GetName())
		}
		annotations := got[i].GetAnnotations()
		delete(annotations, "helm.sh/resource-policy")
		got[i].SetAnnotations(annotations)
		if len(annotations) == 0 {
			unstructured.RemoveNestedField(got[i].Object, "metadata", "annotations")
		}
		if canonical(t, got[i]) != canonical(t, want[0]) {
			t.Errorf("%s is not what the chart renders", file)
		}
	}
}

// Every configuration that the chart renders is one that hilbertd takes, and a value reaches the field that it names.
func TestConfigurationIsStrict(t *testing.T) {
	read := func(text, name, file string) (*spec.Configuration, error) {
		for _, o := range objects(t, render(t, text, newest)) {
			if o.GetKind() == "ConfigMap" && o.GetName() == name {
				data, _, _ := unstructured.NestedString(o.Object, "data", file)
				return configfile.Parse([]byte(data))
			}
		}
		return nil, fmt.Errorf("no ConfigMap %s", name)
	}
	c, err := read("{scheduler: {config: {scheduling: {binding: {maxInFlight: 9}}, logging: {level: debug}}}}", "hilbertd", "hilbertd.yaml")
	if err != nil || c.Scheduling.Binding.MaxInFlight != 9 || c.Logging.Level != "debug" || c.Logging.Format != "json" || c.Server.TLSCertFile == "" {
		t.Errorf("%+v, %v", c, err)
	}
	if _, err := read("{scheduler: {config: {scheduling: {binding: {maxInFligth: 9}}}}}", "hilbertd", "hilbertd.yaml"); err == nil || !strings.Contains(err.Error(), "maxInFligth") {
		t.Errorf("a field that is not known: %v", err)
	}
	for text, lends := range map[string]bool{
		"{agent: {enabled: true}}":                                                             false,
		"{agent: {enabled: true, lending: {enabled: true}}}":                                   true,
		"{agent: {enabled: true, config: {node: {lending: {enabled: true}}}}}":                 true,
		"{agent: {enabled: true, config: {node: {reservedCores: 2}}}}":                         false,
		"{agent: {enabled: true, lending: {enabled: null}}}":                                   *spec.Default().Node.Lending.Enabled,
		"{agent: {enabled: true, lending: {enabled: true}, config: {logging: {level: warn}}}}": true,
	} {
		c, err := read(text, "hilbert-agent", "agent.yaml")
		if err != nil || *c.Node.Lending.Enabled != lends || !slices.Equal(c.Roles, []spec.Role{spec.RoleAgent}) {
			t.Errorf("%s: %+v, %v", text, c, err)
		}
	}
}

// By default nothing runs on the nodes, and nothing is lent.
func TestDefaultsAreCareful(t *testing.T) {
	for _, o := range objects(t, render(t, "", newest)) {
		if (o.GetKind() == "DaemonSet" || o.GetName() == "hilbert-agent") && o.GetAnnotations()["helm.sh/hook"] != "pre-rollback" {
			t.Errorf("%s", key(o))
		}
	}
	for _, o := range objects(t, render(t, "{agent: {enabled: true}}", newest)) {
		if o.GetKind() != "DaemonSet" {
			continue
		}
		if selector, _, _ := unstructured.NestedStringMap(o.Object, "spec", "template", "spec", "nodeSelector"); selector["hilbert.dev/agent"] != "true" {
			t.Errorf("%s runs on nodes that have not opted in: %v", key(o), selector)
		}
	}
}

// Values that the chart cannot honour are refused, with the field.
// Plugins' sockets are seen wherever they are: the directory above them is mounted where the agent has no other way to it.
func TestPluginsAreSeen(t *testing.T) {
	for directory, parent := range map[string]string{"/run/hilbert/plugins": "", "/run/fpga/plugins": "/run/fpga", "/var/lib/fpga/plugins/": "/var/lib/fpga"} {
		for name, text := range render(t, "agent: {enabled: true, config: {node: {plugins: {enabled: true, directory: "+directory+"}}}}", newest) {
			if !strings.HasSuffix(name, "/agent.yaml") {
				continue
			}
			mounted := strings.Contains(text, "mountPath: "+parent+"\n              readOnly: true") && strings.Contains(text, "path: "+parent+"\n            type: DirectoryOrCreate")
			if volumes := strings.Count(text, "- name: plugins\n"); parent == "" && volumes > 0 || parent != "" && (!mounted || volumes != 2) {
				t.Errorf("%s: %d mentions of the volume", directory, volumes)
			}
		}
	}
}

func TestBadValues(t *testing.T) {
	c := load(t, "hilbert")
	for text, want := range map[string]string{
		"{agnet: {enabled: true}}":                             "agnet",
		"{scheduler: {replicas: 0}}":                           "replicas",
		"{scheduler: {replicas: two}}":                         "replicas",
		"{scheduler: {config: {server: {bindAddress: ':1'}}}}": "server",
		"{agent: {config: {roles: [scheduler]}}}":              "roles",
		"{agent: {lending: {enabled: maybe}}}":                 "lending",
		"{agent: {enabled: true, config: {node: {plugins: {enabled: true, directory: /var/lib/plugins}}}}}": "plugins.directory", // else all of /var/lib would be mounted
		"{image: {digest: latest}}":                                                             "digest",
		"{image: {pullPolicy: Sometimes}}":                                                      "pullPolicy",
		"{serving: {certificate: none}}":                                                        "certificate",
		"{migration: {systems: [slurm]}}":                                                       "systems",
		"{agent: {enabled: true}, policies: {enabled: false}}":                                  "policies.enabled",
		"{monitoring: {serviceMonitor: {enabled: 1}}}":                                          "serviceMonitor",
		"{schedulers: {replicas: 64}}":                                                          "replicas", // the leader takes 64, and a rollout has one more
		"{schedulers: {replicas: 2, certificate: none}}":                                        "certificate",
		"{schedulers: {replicas: 2, config: {scheduling: {}}}}":                                 "scheduling",
		"{schedulers: {replicas: 2}, scheduler: {enabled: false}}":                              "scheduler.enabled",
		"{schedulers: {replicas: 2}, scheduler: {config: {scheduling: {schedulers: 2}}}}":       "scheduler.config.scheduling.schedulers",
		"{schedulers: {replicas: 2, names: [spiffe://x/y]}}":                                    "schedulers.names",
		"{schedulers: {replicas: 2, certificate: certManager, leaderName: leader.example.org}}": "schedulers.leaderName",
	} {
		if _, err := Render(c, Namespace, values(t, text), newest); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", text, err)
		}
	}
	if _, err := Render(c, "default", nil, newest); err == nil || !strings.Contains(err.Error(), "--namespace hilbert-system") {
		t.Errorf("another namespace: %v", err)
	}
}

// A cluster without mutating policies in v1 gets the others, and the notes say what is lost.
func TestOlderKubernetes(t *testing.T) {
	rendered := render(t, "serving: {certificate: existing}", oldest)
	kinds := make(map[string]int)
	for _, o := range objects(t, rendered) {
		kinds[o.GetKind()]++
	}
	if kinds["MutatingAdmissionPolicy"] != 0 || kinds["ValidatingAdmissionPolicy"] < 6 {
		t.Errorf("kinds %v", kinds)
	}
	if !strings.Contains(rendered["NOTES.txt"], "three policies are left out") {
		t.Errorf("the notes do not say what is lost: %s", rendered["NOTES.txt"])
	}
	if notes := render(t, "", newest)["NOTES.txt"]; strings.Contains(notes, "policies are left out") {
		t.Errorf("the notes complain of the newest version: %s", notes)
	}
	if _, err := Render(load(t, "hilbert"), Namespace, values(t, "{migration: {systems: [kueue]}}"), oldest); err == nil || !strings.Contains(err.Error(), "migration.systems: kueue: it needs MutatingAdmissionPolicies") {
		t.Errorf("live migration there: %v", err)
	}
}

// A digest wins over a tag, and the watchdog can have an image of its own.
func TestImages(t *testing.T) {
	digest := "sha256:" + strings.Repeat("ab", 32)
	for text, want := range map[string][2]string{
		"{agent: {enabled: true}}": {"registry.hilbert.dev/hilbert/hilbertd:v0.0.0", "registry.hilbert.dev/hilbert/hilbertd:v0.0.0"},
		"{agent: {enabled: true}, image: {registry: r:5000/x, tag: v1}, watchdog: {image: {tag: v0}}}":           {"r:5000/x/hilbertd:v1", "r:5000/x/hilbertd:v0"},
		"{agent: {enabled: true}, image: {registry: r, digest: '" + digest + "'}}":                               {"r/hilbertd@" + digest, "r/hilbertd@" + digest},
		"{agent: {enabled: true}, image: {registry: r, digest: '" + digest + "'}, watchdog: {image: {tag: v0}}}": {"r/hilbertd@" + digest, "r/hilbertd:v0"},
	} {
		for _, o := range objects(t, render(t, text, newest)) {
			containers, _, _ := unstructured.NestedSlice(o.Object, "spec", "template", "spec", "containers")
			if len(containers) == 0 {
				continue
			}
			wanted := want[0]
			if o.GetName() == "hilbert-watchdog" {
				wanted = want[1]
			}
			if got := containers[0].(map[string]any)["image"]; got != wanted {
				t.Errorf("%s: %s has %v, want %s", text, key(o), got, wanted)
			}
		}
	}
}

var metric = regexp.MustCompile(`\bhilbert_[a-z_]+`)

// Alerts and the dashboard name metrics that there are.
func TestMetricsExist(t *testing.T) {
	page, err := os.ReadFile(filepath.Join(root, "docs", "reference", "metrics.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range []string{"alerts.yaml", "dashboard.json"} {
		text, err := os.ReadFile(filepath.Join(root, "deploy", "charts", "hilbert", "files", file))
		if err != nil {
			t.Fatal(err)
		}
		names := metric.FindAllString(string(text), -1)
		if len(names) < 10 {
			t.Errorf("%s names %v", file, names)
		}
		for _, name := range names {
			if !strings.Contains(string(page), "`"+strings.TrimSuffix(name, "_bucket")+"`") {
				t.Errorf("%s: there is no metric %s", file, name)
			}
		}
		if file == "dashboard.json" && !json.Valid(text) {
			t.Errorf("%s is no JSON", file)
		}
	}
}

var alert = regexp.MustCompile(`- alert: (\w+)`)

// Each alert names its section of the page that says what to do, and the page has a section for no other.
func TestAlertsHaveRunbooks(t *testing.T) {
	read := func(name ...string) string {
		text, err := os.ReadFile(filepath.Join(append([]string{root}, name...)...))
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	rules, page := read("deploy", "charts", "hilbert", "files", "alerts.yaml"), read("docs", "how-to", "alerts.md")
	names := alert.FindAllStringSubmatch(rules, -1)
	for _, m := range names {
		if !strings.Contains(page, "\n## "+m[1]+"\n") {
			t.Errorf("docs/how-to/alerts.md has no section %s", m[1])
		}
		if !strings.Contains(rules, "runbook: docs/how-to/alerts.md#"+strings.ToLower(m[1])+"\n") {
			t.Errorf("%s does not name its section", m[1])
		}
	}
	if sections := strings.Count(page, "\n## "); sections != len(names) {
		t.Errorf("%d sections for %d alerts", sections, len(names))
	}
}
