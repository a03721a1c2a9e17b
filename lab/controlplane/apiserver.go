package controlplane

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/pflag"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/apiserver/pkg/server/egressselector"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/kubernetes/cmd/kube-apiserver/app"
	"k8s.io/kubernetes/cmd/kube-apiserver/app/options"
)

const (
	// loopback is the only address that a lab listens on.
	loopback = "127.0.0.1"
	// serviceRange is where Services get their cluster addresses.
	serviceRange = "10.96.0.0/16"
	// ServiceAddress, the first of them, is the API server's own.
	ServiceAddress = "10.96.0.1"
	// readyTimeout bounds how long the API server may take to answer /readyz with ok.
	readyTimeout = 90 * time.Second
	// readyPoll is how often /readyz is asked.
	readyPoll = 50 * time.Millisecond
)

// apiServer is one kube-apiserver in this process.
type apiServer struct {
	address string // host:port
	cancel  context.CancelFunc
	name    *cache.InformerName
	ended   chan struct{} // closed when the server has returned; err is set before
	err     error
}

// apiServerOptions is what tells one API server of ours from another.
type apiServerOptions struct {
	etcdURL          string
	serving          keyPairFiles
	clientCA         string
	tokens           string // file of bearer tokens
	tokenKey         string
	serviceAccounts  bool
	benchmark        bool
	kubeletClient    keyPairFiles
	proxyClient      keyPairFiles
	proxyCA          string // the authority of proxyClient, and of nobody else
	dialKubelet      func(ctx context.Context, network, address string) (net.Conn, error)
	nodeRestriction  bool
	evictionRequests bool
	auditLog         string // "": none
	auditPolicy      string // a file that startAPIServer writes
	egress           string // a file that says how pods are reached; "": directly
	failed           func(error)
}

// auditPolicy: who asked for what, once it is answered, or begins to be as a watch does; no bodies.
const auditPolicy = `apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules: [{level: Metadata}]
`

// keyPairFiles are the paths of a certificate and its key.
type keyPairFiles struct{ certificate, key string }

// listen opens the API server's port first, so that a port in use is an error before anything else starts.
func listen(port int) (net.Listener, error) {
	address := net.JoinHostPort(loopback, strconv.Itoa(port))
	l, err := net.Listen("tcp", address)
	if errors.Is(err, syscall.EADDRINUSE) {
		return nil, fmt.Errorf("port %d of %s is in use: stop what listens there, or choose another port (0 picks a free one)", port, loopback)
	}
	if err != nil {
		return nil, fmt.Errorf("listen on %s: %w", address, err)
	}
	return l, nil
}

// flags are the command line that a kube-apiserver of its own would get.
func (o apiServerOptions) flags() []string {
	// Nothing here runs the node lifecycle controller, which alone would take the not-ready taint off a new node.
	disabled := []string{"TaintNodesByCondition"}
	if !o.serviceAccounts {
		// Without the service account controller no namespace has a default account, and every pod would be refused.
		disabled = append(disabled, "ServiceAccount")
	}
	flags := []string{
		"--etcd-servers=" + o.etcdURL,
		"--bind-address=" + loopback,
		"--tls-cert-file=" + o.serving.certificate,
		"--tls-private-key-file=" + o.serving.key,
		"--client-ca-file=" + o.clientCA,
		"--token-auth-file=" + o.tokens,
		"--authorization-mode=Node,RBAC",
		"--anonymous-auth=false",
		"--service-account-issuer=https://kubernetes.default.svc",
		"--service-account-key-file=" + o.tokenKey,
		"--service-account-signing-key-file=" + o.tokenKey,
		"--service-cluster-ip-range=" + serviceRange,
		"--endpoint-reconciler-type=none",
		"--disable-admission-plugins=" + strings.Join(disabled, ","),
		"--allow-privileged=true",
		"--kubelet-client-certificate=" + o.kubeletClient.certificate,
		"--kubelet-client-key=" + o.kubeletClient.key,
		"--proxy-client-cert-file=" + o.proxyClient.certificate,
		"--proxy-client-key-file=" + o.proxyClient.key,
		"--requestheader-client-ca-file=" + o.proxyCA,
		"--requestheader-allowed-names=" + proxyName,
		"--requestheader-username-headers=X-Remote-User",
		"--requestheader-group-headers=X-Remote-Group",
		"--requestheader-extra-headers-prefix=X-Remote-Extra-",
		// A node's name is no name that this machine could look up.
		"--kubelet-preferred-address-types=InternalIP,ExternalIP",
		"--profiling=false",
		// Gangs: PodGroup and Workload as v1beta1, with topology constraints.
		"--feature-gates=GenericWorkload=true,TopologyAwareWorkloadScheduling=true",
		"--runtime-config=scheduling.k8s.io/v1beta1=true",
	}
	if o.evictionRequests {
		flags = append(flags, "--feature-gates=EvictionRequestAPI=true", "--runtime-config=lifecycle.k8s.io/v1alpha1=true")
	}
	if o.nodeRestriction {
		flags = append(flags, "--enable-admission-plugins=NodeRestriction")
	}
	if o.auditLog != "" {
		flags = append(flags, "--audit-policy-file="+o.auditPolicy, "--audit-log-path="+o.auditLog, "--audit-log-mode=blocking")
	}
	if o.egress != "" {
		// There is nothing at a Service's own address here: the pods behind it are asked.
		flags = append(flags, "--egress-selector-config-file="+o.egress, "--enable-aggregator-routing=true")
	}
	if o.benchmark {
		flags = append(flags,
			"--enable-priority-and-fairness=false",
			"--max-requests-inflight=0",
			"--max-mutating-requests-inflight=0",
		)
	}
	return flags
}

// startAPIServer starts serving on l, which it takes over, and returns at once; ready says when it can be used.
func startAPIServer(l net.Listener, o apiServerOptions) (*apiServer, error) {
	if o.auditLog != "" {
		if err := os.WriteFile(o.auditPolicy, []byte(auditPolicy), 0o600); err != nil {
			return nil, fmt.Errorf("audit policy: %w", err)
		}
	}
	s := options.NewServerRunOptions()
	flags := pflag.NewFlagSet("kube-apiserver", pflag.ContinueOnError)
	for _, named := range s.Flags().FlagSets {
		flags.AddFlagSet(named)
	}
	if err := flags.Parse(o.flags()); err != nil {
		return nil, fmt.Errorf("API server flags: %w", err)
	}
	s.SecureServing.Listener = l
	s.SecureServing.BindPort = l.Addr().(*net.TCPAddr).Port
	s.SecureServing.ExternalAddress = net.ParseIP(loopback)
	s.KubeletConfig.Lookup = func(egressselector.NetworkContext) (utilnet.DialFunc, error) { return o.dialKubelet, nil }

	ctx, cancel := context.WithCancel(context.Background())
	server := &apiServer{address: l.Addr().String(), cancel: cancel, ended: make(chan struct{})}
	prepared, err := server.prepare(ctx, s)
	if err != nil {
		cancel()
		server.name.Release()
		return nil, fmt.Errorf("configure the API server: %w", err)
	}
	go func() {
		defer close(server.ended)
		defer server.name.Release()
		err := prepared(ctx)
		if ctx.Err() == nil {
			server.err = fmt.Errorf("the API server ended: %w", orUnknown(err))
			o.failed(server.err)
		}
	}()
	return server, nil
}

// prepare builds the chain of API servers and returns the function that runs it.
func (a *apiServer) prepare(ctx context.Context, s *options.ServerRunOptions) (func(context.Context) error, error) {
	if err := s.GenericServerRunOptions.ComponentGlobalsRegistry.Set(); err != nil {
		return nil, fmt.Errorf("feature gates: %w", err)
	}
	var err error
	if a.name, err = cache.NewInformerName("kube-apiserver"); err != nil {
		return nil, fmt.Errorf("a process can hold one control plane at a time: %w", err)
	}
	s.InformerName = a.name
	completed, err := s.Complete(ctx)
	if err != nil {
		return nil, fmt.Errorf("complete options: %w", err)
	}
	if errs := completed.Validate(); len(errs) > 0 {
		return nil, fmt.Errorf("validate options: %w", utilerrors.NewAggregate(errs))
	}
	config, err := app.NewConfig(completed)
	if err != nil {
		return nil, fmt.Errorf("build the configuration: %w", err)
	}
	full, err := config.Complete()
	if err != nil {
		return nil, fmt.Errorf("complete the configuration: %w", err)
	}
	chain, err := app.CreateServerChain(full)
	if err != nil {
		return nil, fmt.Errorf("create the server chain: %w", err)
	}
	prepared, err := chain.PrepareRun()
	if err != nil {
		return nil, fmt.Errorf("prepare the server: %w", err)
	}
	return prepared.Run, nil
}

// waitReady returns when /readyz says ok, or with what it said last.
func (a *apiServer) waitReady(ctx context.Context, admin *rest.Config) error {
	ctx, cancel := context.WithTimeoutCause(ctx, readyTimeout, fmt.Errorf("still not ready after %s", readyTimeout))
	defer cancel()
	client, err := kubernetes.NewForConfig(admin)
	if err != nil {
		return fmt.Errorf("client for the API server: %w", err)
	}
	tick := time.NewTicker(readyPoll)
	defer tick.Stop()
	last := errors.New("never asked")
	for {
		body, err := client.Discovery().RESTClient().Get().AbsPath("/readyz").Param("verbose", "").DoRaw(ctx)
		if err == nil {
			return nil
		}
		if ctx.Err() == nil {
			last = notReady(body, err)
		}
		select {
		case <-tick.C:
		case <-a.ended:
			return a.err
		case <-ctx.Done():
			return fmt.Errorf("API server on %s: %w; /readyz said last: %w", a.address, context.Cause(ctx), last)
		}
	}
}

// notReady keeps of a verbose /readyz answer the checks that failed.
func notReady(body []byte, err error) error {
	var failing []string
	for line := range strings.Lines(string(body)) {
		if strings.HasPrefix(line, "[-]") {
			failing = append(failing, strings.TrimSpace(line))
		}
	}
	if len(failing) == 0 {
		return err
	}
	return fmt.Errorf("%s", strings.Join(failing, "; "))
}

// stop asks the server to end and waits, at most until ctx ends.
func (a *apiServer) stop(ctx context.Context) error {
	a.cancel()
	select {
	case <-a.ended:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("stop the API server: %w", context.Cause(ctx))
	}
}

func orUnknown(err error) error {
	if err == nil {
		return errors.New("without saying why")
	}
	return err
}
