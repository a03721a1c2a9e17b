package suite

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"hilbert.dev/hilbert/lab/bench"
	"hilbert.dev/hilbert/lab/controlplane"
	"hilbert.dev/hilbert/lab/hollow"
)

const (
	stopTimeout = 30 * time.Second
	// leaseInterval keeps the nodes' leases fresh: some specs look at them.
	leaseInterval = 10 * time.Second
)

// agents are pods that upstream's check of a healthy node looks for on each node. It waits a minute for them before many a spec, and then goes on.
var agents = []string{"kube-proxy", "fluentd-elasticsearch", "node-problem-detector"}

// ServeLab runs a control plane with hollow nodes until ctx ends, writes the administrator's kubeconfig and says ready on out.
func ServeLab(ctx context.Context, nodes int, dir, kubeconfig string, out io.Writer) (err error) {
	plane, err := controlplane.Start(ctx, controlplane.Options{Dir: dir, Benchmark: true, Controllers: true, Volumes: true, Log: os.Stderr})
	if err != nil {
		return err
	}
	defer func() {
		stopping, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopTimeout)
		defer cancel()
		err = errors.Join(err, plane.Stop(stopping))
	}()
	if err := plane.InstallDefinitions(ctx); err != nil {
		return err
	}
	if err := plane.InstallPolicies(ctx, controlplane.AdminUser); err != nil {
		return err
	}
	fleet, err := hollow.Run(ctx, plane.AdminConfig(), shapes(nodes), hollow.Options{Strict: true, LeaseInterval: leaseInterval})
	if err != nil {
		return err
	}
	defer fleet.Stop()
	client, err := kubernetes.NewForConfig(plane.AdminConfig())
	if err != nil {
		return fmt.Errorf("client for the API server: %w", err)
	}
	if err := startAgents(ctx, client, nodes); err != nil {
		return err
	}
	if err := startProvisioner(ctx, client, os.Stderr); err != nil {
		return err
	}
	if err := plane.WriteKubeconfig(kubeconfig); err != nil {
		return err
	}
	if err := bench.Ready(out); err != nil {
		return fmt.Errorf("say ready: %w", err)
	}
	select {
	case <-ctx.Done():
		return nil
	case err := <-plane.Failed():
		return fmt.Errorf("the lab cannot go on: %w", err)
	}
}

// shapes are equal nodes in several zones, as upstream's specs expect them: a spec that fills the largest node must find all others as large.
func shapes(n int) []hollow.Shape {
	list := hollow.Shapes(n)
	for i := range list {
		list[i].Allocatable = list[0].Allocatable
		delete(list[i].Labels, hollow.LabelGPUModel)
	}
	return list
}

// startAgents puts the stand-ins of a node's agents on each node. They ask for nothing.
func startAgents(ctx context.Context, client kubernetes.Interface, nodes int) error {
	for _, shape := range shapes(nodes) {
		for _, agent := range agents {
			_, err := client.CoreV1().Pods(metav1.NamespaceSystem).Create(ctx, &corev1.Pod{
				ObjectMeta: metav1.ObjectMeta{Name: agent + "-" + shape.Name},
				Spec: corev1.PodSpec{
					NodeName: shape.Name, Containers: []corev1.Container{{Name: agent, Image: "hollow"}}, PriorityClassName: "system-node-critical",
					Tolerations: []corev1.Toleration{{Operator: corev1.TolerationOpExists}},
				},
			}, metav1.CreateOptions{})
			if err != nil && !apierrors.IsAlreadyExists(err) {
				return fmt.Errorf("stand-in of %s on node %q: %w", agent, shape.Name, err)
			}
		}
	}
	return nil
}
