package security

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"time"

	"hilbert.dev/hilbert/cmd/hilbertd/removal"
	"hilbert.dev/hilbert/kube/reach"
)

// TestRemovalAsksForWhatItMay runs what helm uninstall runs, with its account's token, while the only report is of a node that is no more: so there is nothing to wait for, and
// all to ask for.
func TestRemovalAsksForWhatItMay(t *testing.T) {
	b := &cluster
	ctx := t.Context()
	reports := []string{"n1", "n2"}
	var errs []error
	for _, name := range reports {
		errs = append(errs, send(ctx, b.admin, "DELETE", nodesPath+"/"+name, ""))
	}
	t.Cleanup(func() {
		for _, name := range reports {
			if err := send(context.WithoutCancel(ctx), b.admin, "POST", nodesPath, report(name)); err != nil {
				t.Error(err)
			}
		}
	})
	errs = append(errs, send(ctx, b.admin, "POST", nodesPath, report("n9")))
	user, err := b.tokenOf(ctx, system, "hilbert-removal", "")
	if err := errors.Join(append(errs, err)...); err != nil {
		t.Fatal(err)
	}
	kubeconfig := filepath.Join(t.TempDir(), "kubeconfig")
	text := fmt.Sprintf(`{"apiVersion":"v1","kind":"Config","current-context":"x","clusters":[{"name":"c","cluster":{"server":%q,"certificate-authority-data":%q}}],`+
		`"users":[{"name":"u","user":{"token":%q}}],"contexts":[{"name":"x","context":{"cluster":"c","user":"u"}}]}`,
		user.Host, base64.StdEncoding.EncodeToString(user.CAData), user.BearerToken)
	if err := os.WriteFile(kubeconfig, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := until(ctx, func() error {
		return removal.Run(ctx, removal.Options{
			Target: reach.Target{Kubeconfig: kubeconfig}, Namespace: system, Every: 10 * time.Millisecond, Log: slog.New(slog.DiscardHandler),
		})
	}); err != nil {
		t.Fatal(err)
	}
	b.heldToItsCalls(t, "hilbert-removal", func() (map[string]bool, error) { return b.askedVerbs("hilbert-removal", "") })
}
