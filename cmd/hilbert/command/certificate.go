package command

import (
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"sigs.k8s.io/yaml"

	"hilbert.dev/hilbert/cmd/exitcode"
	manifest "hilbert.dev/hilbert/deploy/visibility"
	"hilbert.dev/hilbert/kube/visibility"
)

// certificateLife is how long a certificate is valid by default, and maxCertificateLife at most.
const (
	certificateLife    = 365 * 24 * time.Hour
	maxCertificateLife = 10 * certificateLife
)

// certificateFlags are the flags of hilbert certificate.
type certificateFlags struct {
	namespace, service, secret string
	life                       time.Duration
}

func newCertificate() *cobra.Command {
	f := certificateFlags{}
	cmd := &cobra.Command{
		Use:   "certificate | kubectl apply -f -",
		Short: "Make the certificate of the aggregated API: a Secret for hilbertd and an APIService that trusts it",
		Long: `Make a key and a certificate by which the API server knows hilbertd, and hilbertd's replicas know each other, and print them as YAML: a Secret that
hilbertd mounts, and the APIService of visibility.hilbert.dev with the certificate as its caBundle. The command asks no cluster, and writes the key nowhere
else. Run it again before the certificate expires: for up to two minutes, until the kubelets have the new Secret, hilbert explain then fails.`,
		Example: `  hilbert certificate | kubectl apply -f -`,
		Args:    cobra.NoArgs,
		RunE:    func(cmd *cobra.Command, _ []string) error { return f.write(cmd.OutOrStdout(), time.Now()) },
	}
	flags := cmd.Flags()
	flags.StringVarP(&f.namespace, "namespace", "n", "hilbert-system", "hilbertd's namespace")
	flags.StringVar(&f.service, "service", "hilbertd", "hilbertd's Service")
	flags.StringVar(&f.secret, "secret", "hilbertd-serving", "the Secret's name")
	flags.DurationVar(&f.life, "valid-for", certificateLife, "how long the certificate is valid")
	return cmd
}

func (f *certificateFlags) write(w io.Writer, now time.Time) error {
	if f.life < time.Hour || f.life > maxCertificateLife {
		return exitcode.Usagef("certificate: --valid-for %s: want 1h to %dh", f.life, int(maxCertificateLife.Hours()))
	}
	for flag, name := range map[string]string{"namespace": f.namespace, "service": f.service, "secret": f.secret} {
		if name == "" || strings.ContainsAny(name, "/ .\n") {
			return exitcode.Usagef("certificate: --%s %q is no name", flag, name)
		}
	}
	certificate, key, err := visibility.MakeCertificate(f.service+"."+f.namespace+".svc", now, f.life)
	if err != nil {
		return fmt.Errorf("certificate: %w", err)
	}
	var route map[string]any
	if err := yaml.Unmarshal(manifest.APIService, &route); err != nil {
		return fmt.Errorf("certificate: the APIService: %w", err)
	}
	spec, ok := route["spec"].(map[string]any)
	service, isMap := spec["service"].(map[string]any)
	if !ok || !isMap {
		return errors.New("certificate: the APIService has no Service")
	}
	service["namespace"], service["name"] = f.namespace, f.service
	spec["caBundle"] = base64.StdEncoding.EncodeToString(certificate)
	secret := map[string]any{
		"apiVersion": "v1", "kind": "Secret", "type": "kubernetes.io/tls", "metadata": map[string]any{"namespace": f.namespace, "name": f.secret},
		"data": map[string]any{"tls.crt": base64.StdEncoding.EncodeToString(certificate), "tls.key": base64.StdEncoding.EncodeToString(key)},
	}
	for _, object := range []map[string]any{secret, route} {
		text, err := yaml.Marshal(object)
		if err != nil {
			return fmt.Errorf("certificate: %w", err)
		}
		if _, err := fmt.Fprintf(w, "---\n%s", text); err != nil {
			return fmt.Errorf("certificate: %w", err)
		}
	}
	return nil
}
