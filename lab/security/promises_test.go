package security

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/kube"
)

// guarding are the policies without which promises could be forged.
var guarding = []string{"hilbert-binding", "hilbert-pod-create", "hilbert-pod-update", "hilbert-cnr-own-node", "hilbert-reclaimed", "hilbert-reclaimed-node"}

// missing is what hilbertd, with its account's rights, finds to be missing of the policies when it starts.
func (b *bed) missing(ctx context.Context) (string, error) {
	found := make(chan string, 16)
	w, err := kube.StartWatch(ctx, b.hilbertd, kube.WatchOptions{SchedulerName: spec.DefaultSchedulerName, PoliciesMissing: func(what string) { found <- what }}, slog.New(slog.DiscardHandler))
	if err != nil {
		return "", err
	}
	defer w.Stop()
	select {
	case what := <-found:
		return what, nil
	case <-ctx.Done():
		return "", context.Cause(ctx)
	case <-time.After(time.Minute):
		return "", errors.New("it is not found out within a minute")
	}
}

// TestPoliciesGuardPromises: hilbertd sees on a real API server, which fills in defaults, that all policies are in force, and which one is not, when its binding
// or the policy itself is taken away, or it may not look.
func TestPoliciesGuardPromises(t *testing.T) {
	b := &cluster
	expect := func(what string, ok func(missing string) bool) {
		t.Helper()
		if err := until(t.Context(), func() error {
			missing, err := b.missing(t.Context())
			if err == nil && !ok(missing) {
				return fmt.Errorf("%s: missing is %q", what, missing)
			}
			return err
		}); err != nil {
			t.Error(err)
		}
	}
	none := func(missing string) bool { return missing == "" }
	expect("all are there", none)
	for _, name := range guarding {
		names := func(kind string) func(string) bool {
			return func(missing string) bool {
				return strings.HasPrefix(missing, kind+" "+name+" ") && !strings.Contains(missing, ";")
			}
		}
		restore, err := b.withoutPolicies(name)(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		expect("without the binding of "+name, names("ValidatingAdmissionPolicyBinding"))
		if err := restore(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := b.admin.AdmissionregistrationV1().ValidatingAdmissionPolicies().Delete(t.Context(), name, metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		expect("without "+name, names("ValidatingAdmissionPolicy"))
		if err := restore(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	expect("all are there again", none)
}
