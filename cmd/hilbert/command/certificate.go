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
	"hilbert.dev/hilbert/deploy/metrics"
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
	of                         string
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
else. Before the certificate expires, replace it with hilbert certificate rotate.

With --for metrics it is the certificate of the role metrics, with the APIServices of custom.metrics.k8s.io and external.metrics.k8s.io. Create these: to apply them would
take a group away from whoever serves it, such as KEDA or prometheus-adapter.`,
		Example: `  hilbert certificate | kubectl apply -f -
  hilbert certificate --for metrics | kubectl create -f -`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return f.write(cmd.OutOrStdout(), time.Now()) },
	}
	cmd.AddCommand(newRotate(&f))
	flags := cmd.PersistentFlags()
	flags.StringVar(&f.of, "for", forVisibility, "whose it is: "+forVisibility+" (the scheduler's answers) or "+forMetrics+" (the role metrics)")
	flags.StringVarP(&f.namespace, "namespace", "n", "hilbert-system", "hilbertd's namespace")
	flags.StringVar(&f.service, "service", visibilityService, "hilbertd's Service; with --for metrics: hilbert-metrics")
	flags.StringVar(&f.secret, "secret", visibilitySecret, "the Secret's name; with --for metrics: hilbert-metrics-serving")
	flags.DurationVar(&f.life, "valid-for", certificateLife, "how long the certificate is valid")
	return cmd
}

// The values of --for.
const (
	forVisibility = "visibility"
	forMetrics    = "metrics"
	// What the flags say by default.
	visibilityService, visibilitySecret = "hilbertd", "hilbertd-serving"
)

func newRotate(f *certificateFlags) *cobra.Command {
	return &cobra.Command{
		Use:   "rotate",
		Short: "Replace the certificate of the aggregated API without a gap, in three steps",
		Long: `Read the Secret that hilbertd mounts from standard input, take the next step of a rotation, and print the Secret and the APIService. Run it three times, and wait three
minutes after each, until the kubelets have given hilbertd the Secret: the new certificate is trusted, then shown, and then the old one is trusted no more. In between all
questions are answered. What step it is follows from the Secret, and is said on standard error. Keep the order: the APIService and the Secret of one step belong together.`,
		Example: `  kubectl -n hilbert-system get secret hilbertd-serving -o yaml | hilbert certificate rotate | kubectl apply -f -`,
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return f.rotate(cmd.InOrStdin(), cmd.OutOrStdout(), cmd.ErrOrStderr(), time.Now())
		},
	}
}

// maxSecret is more than the API server stores of one object.
const maxSecret = 2 << 20

func (f *certificateFlags) rotate(r io.Reader, w, told io.Writer, now time.Time) error {
	if err := f.check(); err != nil {
		return err
	}
	text, err := io.ReadAll(io.LimitReader(r, maxSecret))
	if err != nil {
		return fmt.Errorf("certificate rotate: read the Secret: %w", err)
	}
	var secret struct {
		Kind string            `json:"kind"`
		Data map[string][]byte `json:"data"`
	}
	if err := yaml.Unmarshal(text, &secret); err != nil {
		return fmt.Errorf("certificate rotate: standard input is no Secret: %w", err)
	}
	if secret.Kind != "Secret" {
		return fmt.Errorf("certificate rotate: standard input is of the kind %q, and no Secret", secret.Kind)
	}
	s := visibility.Serving{Certificates: secret.Data[certificateField], Key: secret.Data[keyField], NextKey: secret.Data[nextKeyField]}
	next, does, err := visibility.Rotate(&s, f.host(), now, f.life)
	if err != nil {
		return fmt.Errorf("certificate rotate: %w", err)
	}
	if _, err := fmt.Fprintln(told, "step "+does); err != nil {
		return fmt.Errorf("certificate rotate: %w", err)
	}
	return f.print(w, &next)
}

// The fields of the Secret.
const (
	certificateField = "tls.crt"
	keyField         = "tls.key"
	nextKeyField     = "next.key" // amid a rotation
)

// host is the name that kube-apiserver asks for.
func (f *certificateFlags) host() string { return f.service + "." + f.namespace + ".svc" }

// check checks the flags, and fills in what follows from --for.
func (f *certificateFlags) check() error {
	switch f.of {
	case forVisibility:
	case forMetrics:
		if f.service == visibilityService {
			f.service = "hilbert-metrics"
		}
		if f.secret == visibilitySecret {
			f.secret = "hilbert-metrics-serving"
		}
	default:
		return exitcode.Usagef("certificate: --for %q: want %s or %s", f.of, forVisibility, forMetrics)
	}
	if f.life < time.Hour || f.life > maxCertificateLife {
		return exitcode.Usagef("certificate: --valid-for %s: want 1h to %dh", f.life, int(maxCertificateLife.Hours()))
	}
	for flag, name := range map[string]string{"namespace": f.namespace, "service": f.service, "secret": f.secret} {
		if name == "" || strings.ContainsAny(name, "/ .\n") {
			return exitcode.Usagef("certificate: --%s %q is no name", flag, name)
		}
	}
	return nil
}

func (f *certificateFlags) write(w io.Writer, now time.Time) error {
	if err := f.check(); err != nil {
		return err
	}
	certificate, key, err := visibility.MakeCertificate(f.host(), now, f.life)
	if err != nil {
		return fmt.Errorf("certificate: %w", err)
	}
	return f.print(w, &visibility.Serving{Certificates: certificate, Key: key})
}

// routes are the APIServices, whose caBundle are the Secret's certificates.
func (f *certificateFlags) routes(s *visibility.Serving) (out []map[string]any, err error) {
	text := manifest.APIService
	if f.of == forMetrics {
		text = metrics.APIServices
	}
	for document := range strings.SplitSeq(string(text), "\n---\n") {
		var route map[string]any
		if err := yaml.Unmarshal([]byte(document), &route); err != nil {
			return nil, fmt.Errorf("certificate: the APIService: %w", err)
		}
		spec, ok := route["spec"].(map[string]any)
		service, isMap := spec["service"].(map[string]any)
		if !ok || !isMap {
			return nil, errors.New("certificate: the APIService has no Service")
		}
		service["namespace"], service["name"] = f.namespace, f.service
		spec["caBundle"] = base64.StdEncoding.EncodeToString(s.Certificates)
		out = append(out, route)
	}
	return out, nil
}

// print prints the Secret, and the APIServices.
func (f *certificateFlags) print(w io.Writer, s *visibility.Serving) error {
	routes, err := f.routes(s)
	if err != nil {
		return err
	}
	data := map[string]any{certificateField: s.Certificates, keyField: s.Key}
	if len(s.NextKey) > 0 {
		data[nextKeyField] = s.NextKey
	}
	secret := map[string]any{
		"apiVersion": "v1", "kind": "Secret", "type": "kubernetes.io/tls", "metadata": map[string]any{"namespace": f.namespace, "name": f.secret},
		"data": data,
	}
	for _, object := range append([]map[string]any{secret}, routes...) {
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
