package docs

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/client-go/kubernetes"
	kubectl "k8s.io/kubectl/pkg/cmd"
	cmdutil "k8s.io/kubectl/pkg/cmd/util"
	"sigs.k8s.io/yaml"

	"hilbert.dev/hilbert/internal/doctest"
	"hilbert.dev/hilbert/internal/reference"
	"hilbert.dev/hilbert/lab/controlplane"
)

// limit bounds the start of the control plane and its stop.
const limit = time.Minute

// server is a control plane with Hilbert's definitions and policies.
type server struct {
	admin      kubernetes.Interface
	kubeconfig string
	namespaces map[string]bool
}

func TestPages(t *testing.T) {
	root := reference.Root(t)
	pages := doctest.Pages(t, root)
	s := start(t)
	t.Chdir(doctest.Workspace(t, root))
	t.Run("wrong", s.findsWrong)
	t.Run("examples", func(t *testing.T) {
		if err := s.command(t, []string{"apply", "-f", "examples"}); err != nil {
			t.Error(err)
		}
	})
	for _, page := range pages {
		t.Run(page.Name, func(t *testing.T) {
			for _, block := range page.Blocks {
				if block.File != "" {
					if err := os.WriteFile(block.File, []byte(block.Text), 0o600); err != nil {
						t.Fatal(err)
					}
				}
				if block.NotRun == "" {
					s.block(t, block)
				}
			}
		})
	}
}

// findsWrong tries what must not pass, or the test proves nothing.
func (s *server) findsWrong(t *testing.T) {
	const pod = "apiVersion: v1\nkind: Pod\nmetadata: {name: p%s}\nspec: {schedulerName: hilbert, containers: [{name: main, image: x}]}"
	for text, want := range map[string]string{
		"": "", ", labels: {hilbert.dev/qos-level: dedicated}": "hilbert.dev/qos-level", ", nmespace: x": "unknown field",
	} {
		if err := s.manifest(t, fmt.Sprintf(pod, text)); (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("a pod with %q: %v", text, err)
		}
	}
	for _, args := range [][]string{{"get", "pods", "--no-such-flag"}, {"get", "quues"}, {"apply", "-f", "no-such-file.yaml"}, {"label", "namespace", "default", "=="}} {
		if err := s.command(t, args); err == nil {
			t.Errorf("kubectl %q passes", args)
		}
	}
}

func (s *server) block(t *testing.T, block *doctest.Block) {
	t.Helper()
	switch block.Language {
	case "yaml":
		for i, text := range doctest.Documents(block.Text) {
			if err := s.manifest(t, text); err != nil {
				t.Errorf("%s: object %d: %v", block.At(), i+1, err)
			}
		}
	case "console":
		commands, err := block.Commands()
		if err != nil {
			t.Errorf("%s: %v", block.At(), err)
		}
		for _, c := range commands {
			if c.Program() != "kubectl" {
				continue
			}
			if err := s.command(t, c.Args()); err != nil {
				t.Errorf("%s:%d: $ %s: %v", block.Page, c.Line, c, err)
			}
		}
	}
}

// manifest applies one object as a dry run.
func (s *server) manifest(t *testing.T, text string) error {
	t.Helper()
	var object map[string]any
	if err := yaml.Unmarshal([]byte(text), &object); err != nil {
		return err
	}
	doctest.Complete(object)
	if object["kind"] == "HilbertConfiguration" {
		return nil // no object of the API server
	}
	body, err := json.Marshal(object)
	if err != nil {
		return err
	}
	file := filepath.Join(t.TempDir(), "object.json")
	if err := os.WriteFile(file, body, 0o600); err != nil {
		return err
	}
	return s.command(t, []string{"apply", "-f", file})
}

// dryRuns are kubectl's commands that can be asked what they would do.
var dryRuns = []string{"apply", "create", "label", "annotate", "delete", "patch", "drain", "cordon"}

// command runs kubectl.
func (s *server) command(t *testing.T, args []string) error {
	t.Helper()
	args = slices.Clone(args)
	for i, arg := range args[:len(args)-1] {
		switch arg {
		case "-f", "--filename":
			if folder, err := os.Stat(args[i+1]); err == nil && folder.IsDir() {
				args[i+1] = strings.TrimSuffix(args[i+1], "/") + "/" // or kubectl would not follow the link to the tree
			}
			if err := s.makeNamespaces(t.Context(), args[i+1]); err != nil {
				return err
			}
		case "-n", "--namespace":
			if err := s.makeNamespace(t.Context(), args[i+1]); err != nil {
				return err
			}
		}
	}
	if slices.ContainsFunc(args, func(arg string) bool { return slices.Contains(dryRuns, arg) }) {
		args = append(args, "--dry-run=server")
	}
	out, err := s.kubectl(args)
	if err != nil && absent(err) {
		return nil // the command is right; this cluster has no such object
	}
	if err != nil {
		return fmt.Errorf("%w\n%s", err, out)
	}
	return nil
}

// absent says that one object is not there, not that its kind is unknown.
func absent(err error) bool {
	return strings.Contains(err.Error(), "(NotFound)") && !strings.Contains(err.Error(), "namespaces")
}

// fatal is what kubectl panics with where it would exit.
type fatal string

// kubectl runs kubectl in this process.
func (s *server) kubectl(args []string) (out string, err error) {
	var buffer bytes.Buffer
	cmdutil.BehaviorOnFatal(func(message string, _ int) { panic(fatal(message)) })
	defer cmdutil.DefaultBehaviorOnFatal()
	defer func() {
		out = buffer.String()
		switch reason := recover().(type) {
		case nil:
		case fatal:
			err = errors.New(string(reason))
		default:
			panic(reason)
		}
	}()
	args = append(slices.Clone(args), "--kubeconfig", s.kubeconfig)
	command := kubectl.NewDefaultKubectlCommandWithArgs(kubectl.KubectlOptions{
		Arguments: append([]string{"kubectl"}, args...), IOStreams: genericiooptions.IOStreams{In: strings.NewReader(""), Out: &buffer, ErrOut: &buffer},
	})
	command.SetArgs(args)
	command.SetOut(&buffer)
	command.SetErr(&buffer)
	return "", command.Execute()
}

// makeNamespaces creates the namespaces that a file or the files of a folder name or create: a dry run leaves none.
func (s *server) makeNamespaces(ctx context.Context, path string) error {
	files := []string{path}
	if folder, err := os.Stat(path); err == nil && folder.IsDir() {
		if files, err = filepath.Glob(filepath.Join(path, "*.yaml")); err != nil {
			return err
		}
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		for _, document := range doctest.Documents(string(text)) {
			var o metav1.PartialObjectMetadata
			if err := yaml.Unmarshal([]byte(document), &o); err != nil {
				return fmt.Errorf("%s: %w", file, err)
			}
			if o.Kind == "Namespace" {
				err = s.makeNamespaceOf(ctx, &o)
			} else {
				err = s.makeNamespace(ctx, o.Namespace)
			}
			if err != nil {
				return err
			}
		}
	}
	return nil
}

func (s *server) makeNamespace(ctx context.Context, name string) error {
	o := &metav1.PartialObjectMetadata{}
	o.Name = name
	return s.makeNamespaceOf(ctx, o)
}

func (s *server) makeNamespaceOf(ctx context.Context, o *metav1.PartialObjectMetadata) error {
	if o.Name == "" || s.namespaces[o.Name] {
		return nil
	}
	s.namespaces[o.Name] = true
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: o.Name, Labels: o.Labels}}
	if _, err := s.admin.CoreV1().Namespaces().Create(ctx, namespace, metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
		return err
	}
	// No controllers run, so that nobody else makes the account that pods get.
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "default"}}
	if _, err := s.admin.CoreV1().ServiceAccounts(o.Name).Create(ctx, account, metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
		return err
	}
	return nil
}

func start(t *testing.T) *server {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	plane, err := controlplane.Start(ctx, controlplane.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		stopping, cancel := context.WithTimeout(context.Background(), limit)
		defer cancel()
		if err := plane.Stop(stopping); err != nil {
			t.Error(err)
		}
	})
	if err := errors.Join(plane.InstallDefinitions(ctx), plane.InstallPolicies(ctx)); err != nil {
		t.Fatal(err)
	}
	s := &server{kubeconfig: filepath.Join(t.TempDir(), "kubeconfig"), namespaces: map[string]bool{}}
	if err := plane.WriteKubeconfig(s.kubeconfig); err != nil {
		t.Fatal(err)
	}
	if s.admin, err = kubernetes.NewForConfig(plane.AdminConfig()); err != nil {
		t.Fatal(err)
	}
	if err := s.makeNamespace(ctx, "default"); err != nil {
		t.Fatal(err)
	}
	s.awaitPolicies(t)
	return s
}

// awaitPolicies waits until a pod that forges a placement is refused.
func (s *server) awaitPolicies(t *testing.T) {
	t.Helper()
	forged := `{apiVersion: v1, kind: Pod, metadata: {name: forged, annotations: {hilbert.dev/gpus: "0"}}, spec: {schedulerName: hilbert, containers: [{name: main, image: x}]}}`
	for deadline := time.Now().Add(limit); time.Now().Before(deadline); time.Sleep(50 * time.Millisecond) {
		if err := s.manifest(t, forged); err != nil && strings.Contains(err.Error(), "AdmissionPolicy") {
			return
		}
	}
	t.Fatal("the admission policies do not act")
}
