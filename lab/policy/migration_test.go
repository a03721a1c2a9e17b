package policy

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"

	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/cmd/hilbert/migrate"
	"hilbert.dev/hilbert/lab/controlplane"
)

// transcripts have a file for each system: a line is a pod, as podOf reads it, the next one what comes of it. A pod with alone before it comes out otherwise than hilbert migrate would have it,
// and docs/migrate/live.md says why.
const transcripts, alone = "testdata/migration", "alone "

var rewrite = flag.Bool("rewrite", false, "write the transcripts of testdata/migration instead of comparing them")

// heard collects the warnings of an API server.
type heard struct {
	mu       sync.Mutex
	warnings []string
}

func (h *heard) HandleWarningHeader(_ int, _, text string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.warnings = append(h.warnings, text)
}

// take returns the warnings since the last time.
func (h *heard) take() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	defer func() { h.warnings = nil }()
	return h.warnings
}

// migrator creates pods, dry, while the policies of deploy/migration are in force.
type migrator struct {
	client kubernetes.Interface
	heard  heard
}

// startMigrator installs the policies of all systems until the test ends.
func startMigrator(t *testing.T) *migrator {
	t.Helper()
	m := &migrator{}
	config := plane.AdminConfig()
	config.Impersonate = rest.ImpersonationConfig{UserName: "ann", Groups: []string{"system:authenticated"}}
	config.WarningHandler = &m.heard
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	m.client = client
	for _, class := range []string{"koord-batch", "koord-free"} {
		_, err := admin.SchedulingV1().PriorityClasses().Create(t.Context(), &schedulingv1.PriorityClass{ObjectMeta: metav1.ObjectMeta{Name: class}, Value: 5000}, metav1.CreateOptions{})
		if err != nil && !apierrors.IsAlreadyExists(err) {
			t.Fatal(err)
		}
	}
	for _, system := range migrate.LiveSystems() {
		for _, document := range migrationDocuments(t, system) {
			if err := controlplane.ApplyPolicy(t.Context(), admin.Discovery().RESTClient(), document); err != nil {
				t.Fatal(err)
			}
		}
	}
	t.Cleanup(func() { m.remove(t) })
	m.await(t)
	return m
}

// remove takes the policies away, and waits until that is felt, for other tests have pods with words of other systems.
func (m *migrator) remove(t *testing.T) {
	t.Helper()
	ctx := context.Background()
	api := admin.AdmissionregistrationV1()
	var errs []error
	for _, system := range migrate.LiveSystems() {
		for _, document := range migrationDocuments(t, system) {
			o := object(t, document)
			name := o["metadata"].(map[string]any)["name"].(string)
			switch o["kind"] {
			case "MutatingAdmissionPolicy":
				errs = append(errs, api.MutatingAdmissionPolicies().Delete(ctx, name, metav1.DeleteOptions{}))
			case "MutatingAdmissionPolicyBinding":
				errs = append(errs, api.MutatingAdmissionPolicyBindings().Delete(ctx, name, metav1.DeleteOptions{}))
			case "ValidatingAdmissionPolicy":
				errs = append(errs, api.ValidatingAdmissionPolicies().Delete(ctx, name, metav1.DeleteOptions{}))
			case "ValidatingAdmissionPolicyBinding":
				errs = append(errs, api.ValidatingAdmissionPolicyBindings().Delete(ctx, name, metav1.DeleteOptions{}))
			}
		}
	}
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
	if err := poll(ctx, patience, func() error {
		for system, line := range probes {
			if got := m.create(ctx, podOf(t, line[0])).told; !strings.HasPrefix(got, "unchanged") && !strings.HasPrefix(got, "says") {
				return fmt.Errorf("%s: %s", system, got)
			}
		}
		return firstWrong(ctx, requests())
	}); err != nil {
		t.Fatal(err)
	}
}

// probes are for each system a pod that is rewritten, one that is refused and one that is warned of.
var probes = map[string][3]string{
	"koordinator": {"s:koord-scheduler", "a:koordinator.sh/x=1", "a:koordinator.sh/priority=1"},
	"katalyst":    {"s:katalyst-scheduler", "a:katalyst.kubewharf.io/x=1", "a:katalyst.kubewharf.io/pod_eviction_priority=1"},
	"volcano":     {"s:volcano", "a:volcano.sh/x=1", "a:volcano.sh/preemptable=true"},
	"kueue":       {"l:kueue.x-k8s.io/queue-name=q"},
	"hami":        {"s:hami-scheduler", "a:hami.io/x=1", "a:hami.io/gpu-scheduler-policy=spread"},
	"yunikorn":    {"s:yunikorn", "a:yunikorn.apache.org/x=1", "a:yunikorn.apache.org/user.info=ann"},
	"kai":         {"s:kai-scheduler", "a:kai.scheduler/x=1", "a:kai.scheduler/topology=t"},
}

// await waits until each policy is felt.
func (m *migrator) await(t *testing.T) {
	t.Helper()
	want := []string{"scheduler hilbert; from", "refused", "warned"}
	if err := poll(t.Context(), patience, func() error {
		for system, lines := range probes {
			for i, line := range lines {
				if got := m.create(t.Context(), podOf(t, line)); line != "" && !strings.Contains(got.told, want[i]) {
					return fmt.Errorf("%s: %s: %s, want %s", system, line, got.told, want[i])
				}
			}
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
}

// migrationDocuments are the policies of a system as JSON.
func migrationDocuments(t *testing.T, system string) (out [][]byte) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("../../deploy/migration", system+".yaml"))
	if err != nil {
		t.Fatal(err)
	}
	for document := range strings.SplitSeq(string(text), "\n---\n") {
		body, err := yaml.YAMLToJSON([]byte(document))
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, body)
	}
	return out
}

// podOf reads a pod: l: and a: labels and annotations, r: limits of its container, q: requests, i: limits of an init container, s: its scheduler, p: its priority class, n: its node.
func podOf(t *testing.T, line string) *corev1.Pod {
	t.Helper()
	p := pod("new")
	amount := func(list *corev1.ResourceList, key, value string) {
		if *list == nil {
			*list = corev1.ResourceList{}
		}
		(*list)[corev1.ResourceName(key)] = resource.MustParse(value)
	}
	for word := range strings.FieldsSeq(strings.TrimPrefix(line, alone)) {
		kind, rest, _ := strings.Cut(word, ":")
		key, value, _ := strings.Cut(rest, "=")
		main := &p.Spec.Containers[0].Resources
		switch kind {
		case "l":
			set(&p.Labels, key, value)
		case "a":
			set(&p.Annotations, key, value)
		case "r":
			amount(&main.Limits, key, value)
		case "q":
			amount(&main.Requests, key, value)
		case "i":
			if p.Spec.InitContainers == nil {
				p.Spec.InitContainers = []corev1.Container{{Name: "first", Image: "x"}}
			}
			amount(&p.Spec.InitContainers[0].Resources.Limits, key, value)
		case "s":
			p.Spec.SchedulerName = rest
		case "p":
			p.Spec.PriorityClassName = rest
		case "n":
			p.Spec.NodeName = rest
		default:
			t.Fatalf("%q: %q is no kind of word", line, kind)
		}
	}
	return p
}

// created is what came of a pod.
type created struct {
	told    string // for people
	ours    string // what it says in Hilbert's words, "" where it was refused
	refused string
	warned  bool
}

func (m *migrator) create(ctx context.Context, p *corev1.Pod) created {
	m.heard.take()
	got, err := m.client.CoreV1().Pods(both).Create(ctx, p, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
	warnings := m.heard.take()
	if err != nil {
		text := err.Error()
		if _, after, ok := strings.Cut(text, "denied request: "); ok {
			text = after
		}
		return created{told: "refused: " + text, refused: text}
	}
	ours := inOurWords(got)
	out := created{ours: ours}
	if amounts := stored(got); amounts != "" {
		out.ours += "\n" + amounts
	}
	out.told = strings.ReplaceAll(out.ours, "\n", "; ")
	if from := got.Annotations[spec.AnnotationMigratedFrom]; from != "" {
		out.told += "; from " + from
	}
	for _, w := range warnings {
		if _, after, ok := strings.Cut(w, "Validation failed for ValidatingAdmissionPolicy "); ok {
			_, after, _ = strings.Cut(after, "-lost' with binding ")
			_, after, _ = strings.Cut(after, "': ")
			out.told, out.warned = out.told+"; warned: "+after, true
		}
	}
	return out
}

// inOurWords is what a pod says in Hilbert's labels and annotations, and its scheduler.
func inOurWords(p *corev1.Pod) string {
	var out []string
	for _, m := range []map[string]string{p.Labels, p.Annotations} {
		for _, key := range slices.Sorted(maps.Keys(m)) {
			if (strings.Contains(key, "hilbert.dev/") || key == spec.LabelPodGroup) && key != spec.AnnotationMigratedFrom {
				out = append(out, key+"="+m[key])
			}
		}
	}
	if p.Spec.SchedulerName == corev1.DefaultSchedulerName && len(out) == 0 {
		return "unchanged"
	}
	return "says " + strings.Join(append(out, "scheduler "+p.Spec.SchedulerName), " ")
}

// rewritten is what becomes of a pod that hilbert migrate has rewritten before.
func (m *migrator) rewritten(ctx context.Context, p *corev1.Pod) (out created, findings []migrate.Finding, err error) {
	p = p.DeepCopy()
	p.APIVersion, p.Kind = "v1", "Pod"
	text, err := yaml.Marshal(p)
	if err != nil {
		return out, nil, err
	}
	result, err := migrate.Run(text, migrate.Options{PodGroups: migrate.SIGPodGroups})
	if errors.Is(err, migrate.ErrUnknownWords) {
		return created{refused: "unknown words"}, result.Findings, nil
	}
	if err != nil {
		return out, nil, err
	}
	document, _, _ := strings.Cut(string(result.Manifest), "\n---\n")
	q := &corev1.Pod{}
	if err := yaml.UnmarshalStrict([]byte(document), q); err != nil {
		return out, nil, err
	}
	return m.create(ctx, q), result.Findings, nil
}

// TestMigration: a pod in the words of another system is created as it would be if hilbert migrate had rewritten it before; or is refused, where hilbert migrate would refuse it or an admission
// policy cannot do it, which it says then; and what is lost, invented or left to a person is warned of.
func TestMigration(t *testing.T) {
	m := startMigrator(t)
	for _, system := range migrate.LiveSystems() {
		t.Run(system, func(t *testing.T) {
			lines := transcript(t, system)
			for i, l := range lines {
				got := m.create(t.Context(), podOf(t, l[0]))
				if !strings.HasPrefix(l[0], alone) {
					m.compare(t, l[0], got)
				}
				if got.told != l[1] && !*rewrite {
					t.Errorf("%s: %s; want %s", l[0], got.told, l[1])
				}
				lines[i][1] = got.told
			}
			if *rewrite {
				writeTranscript(t, system, lines)
			}
		})
	}
}

// compare compares what came of a pod with what hilbert migrate makes of it.
func (m *migrator) compare(t *testing.T, line string, got created) {
	t.Helper()
	want, findings, err := m.rewritten(t.Context(), podOf(t, line))
	if err != nil {
		t.Fatalf("%s: %v", line, err)
	}
	warn := slices.ContainsFunc(findings, func(f migrate.Finding) bool {
		return (f.Outcome == migrate.Lost || f.Outcome == migrate.Invented || f.Outcome == migrate.Manual) &&
			!strings.HasPrefix(f.Message, "allow the level") && !strings.HasPrefix(f.Word, "priorityClassName")
	})
	switch {
	case want.refused != "" && got.refused == "":
		t.Errorf("%s: hilbert migrate refuses it, and the policy does not: %s; %v", line, got.told, findings)
	case want.refused != "":
	case got.refused != "" && !strings.Contains(got.refused, "hilbert migrate"):
		t.Errorf("%s: %s; hilbert migrate writes %s", line, got.told, want.told)
	case got.refused != "":
	case got.ours != want.ours:
		t.Errorf("%s: it is\n%s; hilbert migrate writes\n%s", line, got.ours, want.ours)
	case warn && !got.warned:
		t.Errorf("%s: no warning: %v", line, findings)
	}
}

// tableRow is a row of the tables in the policies' variables.
var tableRow = regexp.MustCompile(`\['(?:[^'\\]|\\.)*'(?:, '(?:[^'\\]|\\.)*')*\]`)

// TestEachRuleOfMigrationIsNeeded takes out each row of the tables, validation, mutation, and condition; each time a line of a transcript must come out otherwise. Meanwhile the policies that are
// always in force mutate nothing: in which order the API server calls policies it does not say, so those of migration have to do without the others.
func TestEachRuleOfMigrationIsNeeded(t *testing.T) {
	if testing.Short() {
		t.Skip("seconds for each rule")
	}
	m := startMigrator(t)
	alone := withoutCoreMutations(t)
	for _, system := range migrate.LiveSystems() {
		lines := transcript(t, system)
		if err := poll(t.Context(), patience, func() error { _, err := m.firstOther(t, lines); return errors.Join(err, alone()) }); err != nil {
			t.Fatalf("%s, without the mutations that are always in force: %v", system, err)
		}
		for _, document := range migrationDocuments(t, system) {
			for _, mutant := range append(mutants(t, document), withoutRows(t, document)...) {
				t.Run(mutant.name, func(t *testing.T) { m.needs(t, &mutant, lines) })
			}
		}
	}
}

// firstOther is the first line that comes out otherwise.
func (m *migrator) firstOther(t *testing.T, lines [][2]string) (at int, err error) {
	t.Helper()
	for i, l := range lines {
		if got := m.create(t.Context(), podOf(t, l[0])).told; got != l[1] {
			return i, fmt.Errorf("%s: %s; want %s", l[0], got, l[1])
		}
	}
	return -1, nil
}

// needs changes a policy, and puts it back when a line has come out otherwise.
func (m *migrator) needs(t *testing.T, mutant *mutant, lines [][2]string) {
	t.Helper()
	api := admin.Discovery().RESTClient()
	if err := controlplane.ApplyPolicy(t.Context(), api, mutant.changed); err != nil {
		t.Fatal(err)
	}
	noticed := 0
	missed := poll(t.Context(), survival, func() error {
		at, err := m.firstOther(t, lines)
		if err == nil {
			return errors.New("no line of the transcript needs it")
		}
		t.Log(err)
		noticed = at
		return nil
	})
	if err := controlplane.ApplyPolicy(t.Context(), api, mutant.correct); err != nil {
		t.Fatal(err)
	}
	if err := poll(t.Context(), patience, func() error { _, err := m.firstOther(t, lines[noticed:noticed+1]); return err }); err != nil {
		t.Fatalf("after it was put back: %v", err)
	}
	if missed != nil {
		t.Error(missed)
	}
}

// withoutCoreMutations has the policies of deploy/policies mutate nothing until the test ends. What it returns is an error until that is felt.
func withoutCoreMutations(t *testing.T) func() error {
	t.Helper()
	api := admin.Discovery().RESTClient()
	for _, name := range []string{"hilbert-required-plugin", "hilbert-reclaimed"} {
		off := mutants(t, mutation(t, name))[0]
		if err := controlplane.ApplyPolicy(t.Context(), api, off.changed); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := controlplane.ApplyPolicy(context.Background(), api, off.correct); err != nil {
				t.Fatal(err)
			}
		})
	}
	return func() error {
		for _, parts := range [][]part{{scheduler(spec.DefaultSchedulerName), gpus("1")}, {label(spec.LabelQoS, string(spec.QoSReclaimed)), main("cpu=1")}} {
			if err := creates(owner, both, parts...)(t.Context()); err == nil {
				return errors.New("a policy that is always in force mutates still")
			}
		}
		return nil
	}
}

// transcript is the pods of a system and what comes of them, as the file has them.
func transcript(t *testing.T, system string) (lines [][2]string) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(transcripts, system))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSuffix(line, "\n")
		if told, ok := strings.CutPrefix(line, "\t"); ok && len(lines) > 0 {
			lines[len(lines)-1][1] = told
		} else {
			lines = append(lines, [2]string{line, ""})
		}
	}
	return lines
}

func writeTranscript(t *testing.T, system string, lines [][2]string) {
	t.Helper()
	var out strings.Builder
	for _, l := range lines {
		fmt.Fprintf(&out, "%s\n\t%s\n", l[0], l[1])
	}
	if err := os.WriteFile(filepath.Join(transcripts, system), []byte(out.String()), 0o644); err != nil {
		t.Fatal(err)
	}
}

// withoutRows are a policy without one row of its tables, and without one of its mutations.
func withoutRows(t *testing.T, document []byte) (out []mutant) {
	t.Helper()
	o := object(t, document)
	rules := o["spec"].(map[string]any)
	name := o["metadata"].(map[string]any)["name"].(string)
	variables, _ := rules["variables"].([]any)
	for i, v := range variables {
		variable := v.(map[string]any)
		if !slices.Contains([]string{"rows", "accepted", "messages", "renames"}, variable["name"].(string)) {
			continue
		}
		expression := variable["expression"].(string)
		for _, at := range tableRow.FindAllStringIndex(expression, -1) {
			rest := strings.TrimPrefix(strings.TrimLeft(expression[at[1]:], " "), ",")
			before := expression[:at[0]]
			if strings.TrimSpace(rest) == "]" {
				before = strings.TrimSuffix(strings.TrimRight(before, " "), ",")
			}
			fresh := object(t, document)
			fresh["spec"].(map[string]any)["variables"].([]any)[i].(map[string]any)["expression"] = before + rest
			out = append(out, asMutant(t, fmt.Sprintf("%s %s without %s of %s", o["kind"], name, expression[at[0]:at[1]], variable["name"]), fresh, document))
		}
	}
	mutations, _ := rules["mutations"].([]any)
	for i := range mutations {
		if len(mutations) == 1 {
			break
		}
		fresh := object(t, document)
		list := fresh["spec"].(map[string]any)
		list["mutations"] = slices.Delete(list["mutations"].([]any), i, i+1)
		out = append(out, asMutant(t, fmt.Sprintf("%s %s without mutation %d", o["kind"], name, i), fresh, document))
	}
	return out
}
