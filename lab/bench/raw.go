package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	listers "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
)

const (
	// rawConnections is how many TCP connections the raw writer spreads its requests over.
	rawConnections = 4
	// The raw writer's election, as kube-scheduler's by default.
	leaseDuration, renewDeadline, retryPeriod = 15 * time.Second, 10 * time.Second, 2 * time.Second
)

// RunRawWriter writes Bindings as fast as the API server takes them, deciding nothing: the i-th pod goes to the i-th node. It keeps
// the watches of a scheduler, says ready on out when they are synced, and starts when it holds the Lease. It is the yardstick: no
// scheduler that writes one Binding per pod can be faster.
func RunRawWriter(ctx context.Context, config *rest.Config, inFlight int, out io.Writer) error {
	if inFlight < 1 {
		return fmt.Errorf("--in-flight is %d: give a number from 1", inFlight)
	}
	clients, err := rawClients(config)
	if err != nil {
		return err
	}
	factory := informers.NewSharedInformerFactory(clients[0], 0)
	pods, nodes := factory.Core().V1().Pods(), factory.Core().V1().Nodes()
	podLister, nodeLister := pods.Lister(), nodes.Lister()
	factory.Start(ctx.Done())
	defer factory.Shutdown()
	for kind, synced := range factory.WaitForCacheSync(ctx.Done()) {
		if !synced {
			return fmt.Errorf("the watch of %v did not sync: %w", kind, context.Cause(ctx))
		}
	}
	if err := Ready(out); err != nil {
		return err
	}
	var failed error
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	elector, err := leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
		Lock: &resourcelock.LeaseLock{
			LeaseMeta:  metav1.ObjectMeta{Namespace: metav1.NamespaceSystem, Name: rawLease},
			Client:     clients[0].CoordinationV1(),
			LockConfig: resourcelock.ResourceLockConfig{Identity: fmt.Sprintf("raw-%d", os.Getpid())},
		},
		LeaseDuration: leaseDuration, RenewDeadline: renewDeadline, RetryPeriod: retryPeriod,
		Callbacks: leaderelection.LeaderCallbacks{
			OnStartedLeading: func(ctx context.Context) {
				if failed = bindAll(ctx, clients, podLister, nodeLister, inFlight); failed != nil {
					cancel()
				}
			},
			OnStoppedLeading: func() {},
		},
	})
	if err != nil {
		return fmt.Errorf("elector: %w", err)
	}
	elector.Run(ctx)
	return failed
}

// rawClients are clients that do not share a connection.
func rawClients(config *rest.Config) ([]kubernetes.Interface, error) {
	clients := make([]kubernetes.Interface, rawConnections)
	for i := range clients {
		own := rest.CopyConfig(config)
		own.QPS = -1
		// Transports are shared between equal configurations; a dialer of its own makes this one different.
		own.Dial = (&net.Dialer{Timeout: 10 * time.Second}).DialContext
		client, err := kubernetes.NewForConfig(own)
		if err != nil {
			return nil, fmt.Errorf("client of the raw writer: %w", err)
		}
		clients[i] = client
	}
	return clients, nil
}

func bindAll(ctx context.Context, clients []kubernetes.Interface, pods listers.PodLister, nodes listers.NodeLister, inFlight int) error {
	allPods, err := pods.List(labels.Everything())
	if err != nil {
		return fmt.Errorf("list pods: %w", err)
	}
	allNodes, err := nodes.List(labels.Everything())
	if err != nil {
		return fmt.Errorf("list nodes: %w", err)
	}
	if len(allNodes) == 0 {
		return errors.New("no nodes to bind to")
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	next := make(chan int)
	var writers sync.WaitGroup
	for w := range inFlight {
		client := clients[w%len(clients)]
		writers.Go(func() {
			for i := range next {
				if err := bind(ctx, client, allPods[i], allNodes[i%len(allNodes)].Name); err != nil {
					cancel(err)
					return
				}
			}
		})
	}
feed:
	for i, pod := range allPods {
		if pod.Spec.NodeName != "" {
			continue
		}
		select {
		case next <- i:
		case <-ctx.Done():
			break feed
		}
	}
	close(next)
	writers.Wait()
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return nil
}

func bind(ctx context.Context, client kubernetes.Interface, pod *corev1.Pod, node string) error {
	err := client.CoreV1().Pods(pod.Namespace).Bind(ctx, &corev1.Binding{
		ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID},
		Target:     corev1.ObjectReference{Kind: "Node", Name: node},
	}, metav1.CreateOptions{})
	if err != nil {
		return fmt.Errorf("bind %s to %s: %w", pod.Name, node, err)
	}
	return nil
}
