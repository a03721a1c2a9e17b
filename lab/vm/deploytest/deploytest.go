// Package deploytest makes of a joined node what deploy/ makes of a cluster: the definitions, roles and policies, hilbertd's scheduler in this process, and
// hilbertd as an agent and as a watchdog in the guest, each with the account that deploy/ gives it.
//
// Tests read what comes of it from the guest's kernel. Nothing here waits for the agent to be ready.
package deploytest

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"

	authv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/clientcmd"

	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/cmd/hilbertd/daemon"
	"hilbert.dev/hilbert/deploy/policies"
	"hilbert.dev/hilbert/lab/vm"
	"hilbert.dev/hilbert/lab/vm/join"
	"hilbert.dev/hilbert/lab/vm/vmtest"
	"hilbert.dev/hilbert/lab/vm/wire"
)

const (
	// Namespace is where deploy/ puts Hilbert.
	Namespace = "hilbert-system"
	// WatchdogService is the watchdog's service and executable in the guest: of its own, so that a signal to the agent is not for both.
	WatchdogService = "hilbert-watchdog"
	// Agent and Watchdog are whose turn it can be.
	Agent    = "agent"
	Watchdog = "watchdog"

	// Controller is the account of deploy/controller.
	Controller = "system:serviceaccount:" + Namespace + ":hilbert-controller"

	watchdogPath          = "/usr/bin/" + WatchdogService
	watchdogConfig        = "/etc/hilbert/watchdog.yaml"
	watchdogConfiguration = `apiVersion: config.hilbert.dev/v1alpha1
kind: HilbertConfiguration
roles: [watchdog]
`
)

// Cluster is a node and what is deployed there. Root is the project's directory.
type Cluster struct {
	*join.Node
	Root string

	endScheduler func() error
}

// Install creates what deploy/ has of definitions, roles and policies, lets the default namespace use all QoS levels, and runs the scheduler.
func (c *Cluster) Install(ctx context.Context) error {
	if err := c.Plane.InstallDefinitions(ctx); err != nil {
		return err
	}
	if err := c.Plane.InstallAccess(ctx, c.manifest("00-namespace.yaml"), c.manifest("rbac.yaml"), c.manifest("agent.yaml")); err != nil {
		return err
	}
	if err := c.Plane.InstallPolicies(ctx); err != nil {
		return err
	}
	label := []byte(`{"metadata":{"labels":{"hilbert.dev/allow-dedicated-cores":"true","hilbert.dev/allow-system-cores":"true"}}}`)
	if _, err := c.Client.CoreV1().Namespaces().Patch(ctx, metav1.NamespaceDefault, types.MergePatchType, label, metav1.PatchOptions{}); err != nil {
		return err
	}
	return c.startScheduler(ctx)
}

// Ending runs tests, and then ends the scheduler of the cluster that they have made, if any, before vmtest.Run ends the node.
type Ending struct {
	Tests   vmtest.Runner
	Cluster **Cluster
}

// Run implements vmtest.Runner.
func (e Ending) Run() int {
	status := e.Tests.Run()
	if *e.Cluster == nil {
		return status
	}
	if err := (*e.Cluster).Close(); err != nil {
		fmt.Fprintln(os.Stderr, "scheduler:", err)
		return max(status, 1)
	}
	return status
}

// Close ends the scheduler. It is to be called before the node's control plane ends.
func (c *Cluster) Close() error {
	if c.endScheduler == nil {
		return nil
	}
	return c.endScheduler()
}

func (c *Cluster) manifest(name string) string { return filepath.Join(c.Root, "deploy", name) }

// startScheduler runs hilbertd in this process, as the account that deploy/ gives it.
func (c *Cluster) startScheduler(ctx context.Context) error {
	config := spec.Default()
	config.Server.BindAddress = "-"
	config.LeaderElection.Namespace = Namespace
	config.ClientConnection.Kubeconfig = filepath.Join(c.Plane.Dir(), "hilbertd.kubeconfig")
	if err := c.Plane.UserKubeconfig(config.ClientConnection.Kubeconfig, policies.Placer, "system:serviceaccounts"); err != nil {
		return err
	}
	running, cancel := context.WithCancel(context.WithoutCancel(ctx))
	synced, ended := make(chan struct{}), make(chan error, 1)
	go func() {
		ended <- daemon.Run(running, config, daemon.Options{
			Log:      slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn})),
			OnSynced: func() { close(synced) },
		})
	}()
	c.endScheduler = func() error {
		cancel()
		return <-ended
	}
	select {
	case <-synced:
		return nil
	case err := <-ended:
		ended <- err
		return fmt.Errorf("the scheduler: %w", err)
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// InstallController creates what deploy/controller has, but for its Deployment.
func (c *Cluster) InstallController(ctx context.Context) error {
	return c.Plane.InstallAccess(ctx, c.manifest("controller/controller.yaml"))
}

// StartController runs hilbertd's role controller in this process, as the account that deploy/ gives it, with some changes of its configuration, until stop.
func (c *Cluster) StartController(ctx context.Context, changes ...func(*spec.Configuration)) (stop func() error, err error) {
	config := spec.Default()
	config.Roles = []spec.Role{spec.RoleController}
	config.Server.BindAddress = "-"
	config.LeaderElection.Namespace, config.LeaderElection.Name = Namespace, "hilbert-controller"
	config.ClientConnection.Kubeconfig = filepath.Join(c.Plane.Dir(), "controller.kubeconfig")
	if err := c.Plane.UserKubeconfig(config.ClientConnection.Kubeconfig, Controller, "system:serviceaccounts"); err != nil {
		return nil, err
	}
	for _, change := range changes {
		change(config)
	}
	running, cancel := context.WithCancel(context.WithoutCancel(ctx))
	ended := make(chan error, 1)
	go func() {
		ended <- daemon.Run(running, config, daemon.Options{Log: slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))})
	}()
	return func() error {
		cancel()
		return <-ended
	}, nil
}

// StartAgent builds hilbertd, and runs it in the guest as a node's agent, as the account that deploy/ gives it.
func (c *Cluster) StartAgent(ctx context.Context, service, configuration string) error {
	kubeconfig, err := c.agentKubeconfig(ctx)
	if err != nil {
		return err
	}
	return c.Node.StartAgent(ctx, c.Root, service, kubeconfig, configuration)
}

// agentKubeconfig has a token of the agents' account that is bound to this Node, as a token of the agent's pod would be.
func (c *Cluster) agentKubeconfig(ctx context.Context) (string, error) {
	node, err := c.Client.CoreV1().Nodes().Get(ctx, c.Name, metav1.GetOptions{})
	if err != nil {
		return "", err
	}
	day := int64(24 * 60 * 60)
	request := &authv1.TokenRequest{Spec: authv1.TokenRequestSpec{
		BoundObjectRef:    &authv1.BoundObjectReference{APIVersion: "v1", Kind: "Node", Name: node.Name, UID: node.UID},
		ExpirationSeconds: &day,
	}}
	token, err := c.Client.CoreV1().ServiceAccounts(Namespace).CreateToken(ctx, "hilbert-agent", request, metav1.CreateOptions{})
	if err != nil {
		return "", err
	}
	text, err := c.Plane.KubeconfigAt(vm.HostAddress, "agent")
	if err != nil {
		return "", err
	}
	config, err := clientcmd.Load(text)
	if err != nil {
		return "", err
	}
	for _, user := range config.AuthInfos {
		user.ClientCertificateData, user.ClientKeyData, user.Token = nil, nil, token.Status.Token
	}
	text, err = clientcmd.Write(*config)
	return string(text), err
}

// StartWatchdog runs the watchdog in the guest, where StartAgent has brought hilbertd.
func (c *Cluster) StartWatchdog(ctx context.Context) (vm.Service, error) {
	if out, err := c.Guest.Shell(ctx, "cp /usr/bin/hilbertd "+watchdogPath); err != nil {
		return vm.Service{}, fmt.Errorf("%w: %s", err, out)
	}
	if err := c.Guest.WriteString(ctx, watchdogConfig, watchdogConfiguration); err != nil {
		return vm.Service{}, err
	}
	return c.Guest.Define(ctx, wire.ServiceSpec{Name: WatchdogService, Argv: []string{watchdogPath, "--config=" + watchdogConfig}})
}

// Turn is who may write the CPUs of pods, as agent and watchdog have it between them: "agent", "watchdog", or nothing.
func (c *Cluster) Turn(ctx context.Context) (string, error) {
	out, err := c.Guest.Shell(ctx, "ls /run/hilbert-watchdog")
	if err != nil {
		return "", err
	}
	for name := range strings.FieldsSeq(out) {
		if parts := strings.Split(name, "."); len(parts) == 3 && parts[0] == "turn" {
			return parts[2], nil
		}
	}
	return "", nil
}
