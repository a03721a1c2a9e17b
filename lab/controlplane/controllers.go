package controlplane

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/component-base/configz"
	"k8s.io/kubernetes/cmd/kube-controller-manager/app"
	"k8s.io/kubernetes/cmd/kube-controller-manager/app/options"
	"k8s.io/kubernetes/cmd/kube-controller-manager/names"
)

// workloadControllers are the controllers that turn workloads into pods and clean up after them. Those that judge nodes
// (lifecycle, taint eviction, IPAM, cloud) are left out: hollow nodes send no heartbeats unless told to, and would be tainted.
var workloadControllers = []string{
	names.ServiceAccountTokenController,
	names.ServiceAccountController,
	names.RootCACertificatePublisherController,
	names.ClusterRoleAggregationController,
	names.NamespaceController,
	names.GarbageCollectorController,
	names.PodGarbageCollectorController,
	names.ResourceQuotaController,
	names.DeploymentController,
	names.ReplicaSetController,
	names.ReplicationControllerController,
	names.StatefulSetController,
	names.DaemonSetController,
	names.JobController,
	names.CronJobController,
	names.TTLAfterFinishedController,
	names.DisruptionController,
	names.EndpointSliceController,
	names.PodGroupProtectionController,
}

// volumeControllers bind claims to volumes that are there, make the claims of ephemeral volumes and of devices, and keep what is in use. None of them makes a volume: that is
// for a provisioner.
var volumeControllers = []string{
	names.PersistentVolumeBinderController,
	names.PersistentVolumeClaimProtectionController,
	names.PersistentVolumeProtectionController,
	names.EphemeralVolumeController,
	names.ResourceClaimController,
}

// autoscalers scale workloads by metrics, which somebody has to serve.
var autoscalers = []string{names.HorizontalPodAutoscalerController}

// controllerManager is one kube-controller-manager in this process.
type controllerManager struct {
	cancel context.CancelFunc
	ended  chan struct{}
}

// controllerOptions is what the controller manager needs to know of the rest.
type controllerOptions struct {
	kubeconfig, tokenKey, rootCA string
	volumes, autoscaling         bool
	failed                       func(error)
}

func (o controllerOptions) flags() []string {
	controllers := workloadControllers
	if o.volumes {
		controllers = slices.Concat(controllers, volumeControllers)
	}
	if o.autoscaling {
		controllers = slices.Concat(controllers, autoscalers)
	}
	return []string{
		// Each second, and down at once: what would shrink a workload wrongly then does so while a test looks.
		"--horizontal-pod-autoscaler-sync-period=1s", "--horizontal-pod-autoscaler-downscale-stabilization=0s",
		"--kubeconfig=" + o.kubeconfig,
		"--controllers=" + strings.Join(controllers, ","),
		"--service-account-private-key-file=" + o.tokenKey,
		"--root-ca-file=" + o.rootCA,
		"--leader-elect=false",
		"--secure-port=0", // it is asked for nothing
		"--controller-start-interval=0",
		// A client rate that never is the limit: a Deployment of thousands should be created as fast as the server takes it.
		"--kube-api-qps=5000", "--kube-api-burst=5000",
		"--concurrent-job-syncs=20", "--concurrent-deployment-syncs=20", "--concurrent-replicaset-syncs=20",
		"--profiling=false",
	}
}

// startControllers starts the workload controllers against a ready API server.
func startControllers(o controllerOptions) (*controllerManager, error) {
	s, err := options.NewKubeControllerManagerOptions()
	if err != nil {
		return nil, fmt.Errorf("controller manager options: %w", err)
	}
	known, disabled, aliases := app.KnownControllers(), app.ControllersDisabledByDefault(), app.ControllerAliases()
	flags := pflag.NewFlagSet("kube-controller-manager", pflag.ContinueOnError)
	for _, named := range s.Flags(known, disabled, aliases).FlagSets {
		flags.AddFlagSet(named)
	}
	if err := flags.Parse(o.flags()); err != nil {
		return nil, fmt.Errorf("controller manager flags: %w", err)
	}
	if err := s.ComponentGlobalsRegistry.Set(); err != nil {
		return nil, fmt.Errorf("controller manager feature gates: %w", err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	config, err := s.Config(ctx, known, disabled, aliases)
	if err != nil {
		cancel()
		return nil, fmt.Errorf("configure the controller manager: %w", err)
	}
	m := &controllerManager{cancel: cancel, ended: make(chan struct{})}
	go func() {
		defer close(m.ended)
		// A registry of the whole process holds the running configuration; give the name back for the next start.
		defer configz.Delete(app.ConfigzName)
		if err := app.Run(ctx, config.Complete()); ctx.Err() == nil {
			o.failed(fmt.Errorf("the controller manager ended: %w", orUnknown(err)))
		}
	}()
	return m, nil
}

// stop asks the controllers to end and waits, at most until ctx ends.
func (m *controllerManager) stop(ctx context.Context) error {
	m.cancel()
	select {
	case <-m.ended:
		return nil
	case <-ctx.Done():
		return errors.Join(errors.New("stop the controller manager"), context.Cause(ctx))
	}
}

// waitControllers returns when the controllers act: the default namespace then has its default service account, without which
// no pod can be created in it.
func (c *ControlPlane) waitControllers(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, readyTimeout, fmt.Errorf("nothing after %s", readyTimeout))
	defer cancel()
	client, err := kubernetes.NewForConfig(c.AdminConfig())
	if err != nil {
		return fmt.Errorf("client for the API server: %w", err)
	}
	tick := time.NewTicker(readyPoll)
	defer tick.Stop()
	for {
		_, err := client.CoreV1().ServiceAccounts(metav1.NamespaceDefault).Get(ctx, "default", metav1.GetOptions{})
		if err == nil {
			return nil
		}
		select {
		case <-tick.C:
		case <-c.manager.ended:
			return errors.New("the controller manager ended while it started")
		case <-ctx.Done():
			return fmt.Errorf("wait for the controllers to make the default service account: %w (last answer: %w)", context.Cause(ctx), err)
		}
	}
}
