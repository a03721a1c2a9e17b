package security

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/scheme"
)

// recorded are the accounts whose calls a test records and holds their roles to.
var recorded = map[string]string{
	"hilbertd": "TestHilbertdAsksForWhatItMay", "hilbert-agent": "TestAgentAsksForWhatItMay", "hilbert-removal": "TestRemovalAsksForWhatItMay",
}

// heldToItsCalls waits until an account has asked for all that its roles grant, and for nothing else. Then each verb more in a role has to be noticed, and each verb
// less.
func (b *bed) heldToItsCalls(t *testing.T, account string, calls func() (map[string]bool, error)) {
	t.Helper()
	var granted, asked map[string]bool
	if err := until(t.Context(), func() (err error) {
		if asked, err = calls(); err != nil {
			return err
		}
		if granted, err = b.grantedVerbs(t.Context(), account); err != nil {
			return err
		}
		return differ(asked, granted)
	}); err != nil {
		t.Errorf("%s: %v", account, err)
		return
	}
	if len(granted) == 0 {
		t.Errorf("%s is granted nothing", account)
	}
	for verb := range granted {
		less := maps.Clone(granted)
		delete(less, verb)
		// What is listed by watching is not seen to be listed.
		if err := differ(asked, less); asked[verb] && (err == nil || !strings.Contains(err.Error(), "asked for and not granted: "+verb)) {
			t.Errorf("%s: it is not noticed that %q is missing: %v", account, verb, err)
		}
	}
	for _, more := range []struct{ group, resource, verb string }{
		{"", "secrets", "get"}, {"", "nodes", "delete"}, {"", "nodes/proxy", "get"}, {"node.hilbert.dev", "customnoderesources/status", "delete"},
	} {
		subject := rbacv1.Subject{Kind: rbacv1.ServiceAccountKind, Namespace: system, Name: account}
		restore, err := b.granted(subject, more.group, more.resource, more.verb)(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		asked, err1 := calls()
		granted, err2 := b.grantedVerbs(t.Context(), account)
		if err := errors.Join(err1, err2, restore(t.Context())); err != nil {
			t.Fatal(err)
		}
		want := fmt.Sprintf("granted and never asked for: %s %s.%s", more.verb, more.resource, more.group)
		if err := differ(asked, granted); err == nil || err.Error() != want {
			t.Errorf("%s: want %q, got %v", account, want, err)
		}
	}
}

// differ says which verbs are granted and unused, or used and not granted.
func differ(asked, granted map[string]bool) error {
	var errs []error
	for _, verb := range slices.Sorted(maps.Keys(granted)) {
		// What is watched is listed by watching, and by lists where a server cannot do that.
		if what, list := strings.CutPrefix(verb, "list "); !asked[verb] && !(list && asked["watch "+what]) {
			errs = append(errs, fmt.Errorf("granted and never asked for: %s", verb))
		}
	}
	for _, verb := range slices.Sorted(maps.Keys(asked)) {
		if !granted[verb] {
			errs = append(errs, fmt.Errorf("asked for and not granted: %s", verb))
		}
	}
	return errors.Join(errs...)
}

// askedVerbs is what an account of hilbert-system has asked for, by the audit log: "verb resource.group". Where a pod is named, what others of the account asked
// for is left out.
func (b *bed) askedVerbs(account, pod string) (map[string]bool, error) {
	file, err := os.Open(b.auditLog)
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }() // it was only read
	out := make(map[string]bool)
	lines := bufio.NewReader(file)
	for {
		line, err := lines.ReadBytes('\n')
		if errors.Is(err, io.EOF) { // what is behind the last end of a line is being written
			return out, nil
		}
		if err != nil {
			return nil, err
		}
		var e struct {
			Verb string
			User struct {
				Username string
				Extra    map[string][]string
			}
			Ref *struct{ Resource, Subresource, APIGroup string } `json:"objectRef"`
		}
		if err := json.Unmarshal(line, &e); err != nil {
			return nil, fmt.Errorf("audit log: %w", err)
		}
		if e.User.Username != "system:serviceaccount:"+system+":"+account || e.Ref == nil || e.Ref.Resource == "" {
			continue // discovery is everybody's
		}
		if pod != "" && !slices.Equal(e.User.Extra["authentication.kubernetes.io/pod-name"], []string{pod}) {
			continue
		}
		name := e.Ref.Resource
		if e.Ref.Subresource != "" {
			name += "/" + e.Ref.Subresource
		}
		out[fmt.Sprintf("%s %s.%s", e.Verb, name, e.Ref.APIGroup)] = true
		if name == "resourceclaims/status" { // who writes allocations there needs this too, which no request names
			out[fmt.Sprintf("%s resourceclaims/binding.%s", e.Verb, e.Ref.APIGroup)] = true
		}
	}
}

// grantedVerbs is what all roles that are bound to an account of hilbert-system grant, in the same form.
func (b *bed) grantedVerbs(ctx context.Context, account string) (map[string]bool, error) {
	out := make(map[string]bool)
	add := func(rules []rbacv1.PolicyRule) {
		for _, r := range rules {
			for _, group := range r.APIGroups {
				for _, resource := range r.Resources {
					for _, verb := range r.Verbs {
						out[fmt.Sprintf("%s %s.%s", verb, resource, group)] = true
					}
				}
			}
		}
	}
	ours := func(subjects []rbacv1.Subject) bool {
		return slices.ContainsFunc(subjects, func(s rbacv1.Subject) bool { return s.Namespace == system && s.Name == account })
	}
	whole, err := b.admin.RbacV1().ClusterRoleBindings().List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	for i := range whole.Items {
		if binding := &whole.Items[i]; ours(binding.Subjects) {
			role, err := b.admin.RbacV1().ClusterRoles().Get(ctx, binding.RoleRef.Name, metav1.GetOptions{})
			if err != nil {
				return nil, err
			}
			add(role.Rules)
		}
	}
	local, err := b.admin.RbacV1().RoleBindings("").List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	for i := range local.Items {
		if binding := &local.Items[i]; ours(binding.Subjects) {
			role, err := b.admin.RbacV1().Roles(binding.Namespace).Get(ctx, binding.RoleRef.Name, metav1.GetOptions{})
			if err != nil {
				return nil, err
			}
			add(role.Rules)
			if role.Name == "extension-apiserver-authentication-reader" { // every cluster's, and not ours
				delete(out, "get configmaps.")
			}
		}
	}
	return out, nil
}

// TestEveryAccountIsRecorded: each account of deploy/ is one whose calls are recorded, roles are bound to no other, and pods have one of these or no credentials at all.
func TestEveryAccountIsRecorded(t *testing.T) {
	objects, err := manifests()
	if err != nil {
		t.Fatal(err)
	}
	if err := unrecorded(objects); err != nil {
		t.Error(err)
	}
	meta := metav1.ObjectMeta{Namespace: system, Name: "new"}
	none := corev1.PodTemplateSpec{}
	for want, more := range map[string]runtime.Object{
		"account new":                &corev1.ServiceAccount{ObjectMeta: meta},
		"binding new is of new":      &rbacv1.RoleBinding{ObjectMeta: meta, Subjects: []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Name: "new"}}},
		"cluster binding new is of":  &rbacv1.ClusterRoleBinding{ObjectMeta: meta, Subjects: []rbacv1.Subject{{Kind: rbacv1.GroupKind, Name: "system:authenticated"}}},
		"pods of the DaemonSet new":  &appsv1.DaemonSet{ObjectMeta: meta, Spec: appsv1.DaemonSetSpec{Template: none}},
		"pods of the Deployment new": &appsv1.Deployment{ObjectMeta: meta, Spec: appsv1.DeploymentSpec{Template: none}},
	} {
		if err := unrecorded(append(slices.Clone(objects), more)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("want it noticed: %s; got %v", want, err)
		}
	}
}

// manifests are all objects of deploy/ that have to do with accounts.
func manifests() (out []runtime.Object, err error) {
	for _, pattern := range []string{"../../deploy/*.yaml", "../../deploy/uninstall/*.yaml"} {
		files, err := filepath.Glob(pattern)
		if err != nil || len(files) == 0 {
			return nil, fmt.Errorf("%s: %v, %w", pattern, files, err)
		}
		for _, file := range files { // 00-namespace.yaml first
			text, err := os.ReadFile(file)
			if err != nil {
				return nil, err
			}
			objects, err := decode(string(text))
			if err != nil {
				return nil, fmt.Errorf("%s: %w", file, err)
			}
			out = append(out, objects...)
		}
	}
	// The chart alone has this. What it has of accounts, roles and pods does not depend on its values, whose lines are left out.
	const removal = "../../deploy/charts/hilbert/templates/removal.yaml"
	text, err := os.ReadFile(removal)
	if err != nil {
		return nil, err
	}
	var fixed strings.Builder
	for line := range strings.Lines(string(text)) {
		if !strings.Contains(line, "{{") {
			fixed.WriteString(line)
		}
	}
	objects, err := decode(fixed.String())
	if err != nil {
		return nil, fmt.Errorf("%s: %w", removal, err)
	}
	return append(out, objects...), nil
}

func decode(text string) (out []runtime.Object, err error) {
	for document := range strings.SplitSeq(text, "\n---\n") {
		object, _, err := scheme.Codecs.UniversalDeserializer().Decode([]byte(document), nil, nil)
		if err != nil {
			return nil, err
		}
		out = append(out, object)
	}
	return out, nil
}

// unrecorded says which accounts, bindings and pods have rights that nobody holds to what is asked for.
func unrecorded(objects []runtime.Object) error {
	var errs []error
	bound := func(what string, subjects []rbacv1.Subject) {
		for _, s := range subjects {
			if s.Kind != rbacv1.ServiceAccountKind || s.Namespace != system || recorded[s.Name] == "" {
				errs = append(errs, fmt.Errorf("the %s is of %s, whose calls nobody records", what, s.Name))
			}
		}
	}
	pods := func(what string, spec *corev1.PodSpec) {
		blind := spec.ServiceAccountName == "" && spec.AutomountServiceAccountToken != nil && !*spec.AutomountServiceAccountToken
		if !blind && recorded[spec.ServiceAccountName] == "" {
			errs = append(errs, fmt.Errorf("pods of the %s have the credentials of %q, whose calls nobody records", what, spec.ServiceAccountName))
		}
	}
	for _, object := range objects {
		switch o := object.(type) {
		case *corev1.ServiceAccount:
			if recorded[o.Name] == "" {
				errs = append(errs, fmt.Errorf("nobody records the calls of the account %s", o.Name))
			}
		case *rbacv1.ClusterRoleBinding:
			bound("cluster binding "+o.Name, o.Subjects)
		case *rbacv1.RoleBinding:
			bound("binding "+o.Name, o.Subjects)
		case *appsv1.Deployment:
			pods("Deployment "+o.Name, &o.Spec.Template.Spec)
		case *appsv1.DaemonSet:
			pods("DaemonSet "+o.Name, &o.Spec.Template.Spec)
		case *appsv1.StatefulSet:
			pods("StatefulSet "+o.Name, &o.Spec.Template.Spec)
		case *batchv1.Job:
			pods("Job "+o.Name, &o.Spec.Template.Spec)
		}
	}
	return errors.Join(errs...)
}
