package bench

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/component-base/version"

	"hilbert.dev/hilbert/lab/hollow"
)

// KubernetesVersion is what kube-apiserver and kube-scheduler in this binary report.
var KubernetesVersion = version.Get().GitVersion

// harness owns the control plane's processes and the pods of a run.
type harness struct {
	options    Options
	work       workload
	dir        string // logs
	data       string // the control plane's, removed at the end
	kubeconfig string
	// definitions: the API server has Hilbert's custom resources.
	definitions bool

	etcd, server *process
	store        *clientv3.Client
	config       *rest.Config
	client       kubernetes.Interface
}

func (h *harness) progress(format string, args ...any) {
	if h.options.Progress != nil {
		fmt.Fprintf(h.options.Progress, format+"\n", args...)
	}
}

// openLogs makes the directory for logs. The "" is a temporary one, which finish removes unless the run failed with err; then it adds to err where the logs are.
func openLogs(wanted string) (dir string, finish func(err error) error, err error) {
	if wanted != "" {
		if err := os.MkdirAll(wanted, 0o700); err != nil {
			return "", nil, fmt.Errorf("directory for logs: %w", err)
		}
		return wanted, func(err error) error { return err }, nil
	}
	if dir, err = os.MkdirTemp("", "hilbert-bench-"); err != nil {
		return "", nil, fmt.Errorf("directory for logs: %w", err)
	}
	return dir, func(err error) error {
		if err != nil {
			return fmt.Errorf("%w\nlogs are kept in %s", err, dir)
		}
		_ = os.RemoveAll(dir)
		return nil
	}, nil
}

// start brings up etcd and the API server, the nodes, and holds the contestants' Leases.
func (h *harness) start(ctx context.Context, chosen []contestant) error {
	h.progress("starting etcd and kube-apiserver ...")
	h.kubeconfig = filepath.Join(h.dir, "kubeconfig")
	var err error
	// Not in dir, which may be too long a path for a Unix socket.
	if h.data, err = os.MkdirTemp("", "hilbert-bench-data-"); err != nil {
		return fmt.Errorf("directory for data: %w", err)
	}
	etcdDir := filepath.Join(h.data, "etcd")
	url := "unix://" + filepath.Join(etcdDir, "etcd.sock")
	if h.etcd, err = spawn(ctx, h.dir, "etcd", "etcd", "--dir="+etcdDir); err != nil {
		return err
	}
	h.server, err = spawn(ctx, h.dir, "kube-apiserver", h.withDefinitions("kube-apiserver",
		"--dir="+filepath.Join(h.data, "apiserver"), "--etcd="+url, "--kubeconfig="+h.kubeconfig)...)
	if err != nil {
		return err
	}
	if h.store, err = clientv3.New(clientv3.Config{Endpoints: []string{url}}); err != nil {
		return fmt.Errorf("client of etcd: %w", err)
	}
	if err := h.connect(); err != nil {
		return err
	}
	h.progress("creating %d nodes ...", h.options.Nodes)
	fleet, err := hollow.Run(ctx, h.config, h.work.shapes, hollow.Options{Frozen: true})
	if err != nil {
		return err
	}
	fleet.Stop() // frozen, it has nothing more to do
	if err := h.prepare(ctx); err != nil {
		return err
	}
	for _, c := range chosen {
		if err := h.holdLease(ctx, c.lease); err != nil {
			return err
		}
	}
	return nil
}

// withDefinitions are the arguments of an API server, with the custom resources where they are wanted.
func (h *harness) withDefinitions(args ...string) []string {
	if h.definitions {
		args = append(args, "--custom-resources")
	}
	return args
}

func (h *harness) connect() error {
	config, err := clientcmd.BuildConfigFromFlags("", h.kubeconfig)
	if err != nil {
		return fmt.Errorf("kubeconfig of the API server: %w", err)
	}
	config.QPS = -1
	config.ContentType = runtime.ContentTypeProtobuf
	config.AcceptContentTypes = runtime.ContentTypeProtobuf + "," + runtime.ContentTypeJSON
	h.config = config
	if h.client, err = kubernetes.NewForConfig(config); err != nil {
		return fmt.Errorf("client of the API server: %w", err)
	}
	return nil
}

func (h *harness) prepare(ctx context.Context) error {
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}
	if _, err := h.client.CoreV1().Namespaces().Create(ctx, ns, metav1.CreateOptions{}); err != nil {
		return fmt.Errorf("create namespace %s: %w", namespace, err)
	}
	for i := range priorities {
		if _, err := h.client.SchedulingV1().PriorityClasses().Create(ctx, &priorities[i], metav1.CreateOptions{}); err != nil {
			return fmt.Errorf("create priority class %s: %w", priorities[i].Name, err)
		}
	}
	return nil
}

// stop ends the control plane and removes its data.
func (h *harness) stop() {
	if h.store != nil {
		_ = h.store.Close()
	}
	for _, p := range []*process{h.server, h.etcd} {
		if p != nil {
			p.stop()
		}
	}
	if h.data != "" {
		_ = os.RemoveAll(h.data) // what is left there does no harm
	}
}

// createPods creates all pods of a round.
func (h *harness) createPods(ctx context.Context, scheduler string) error {
	return each(ctx, h.options.Pods, func(ctx context.Context, i int) error {
		pod := h.work.pod(i, podName(i), scheduler)
		_, err := h.client.CoreV1().Pods(namespace).Create(ctx, pod, metav1.CreateOptions{})
		return err
	})
}

func podName(i int) string { return fmt.Sprintf("pod-%06d", i) }

// deletePods removes all pods of a round at once.
func (h *harness) deletePods(ctx context.Context) error {
	now := int64(0)
	err := each(ctx, h.options.Pods, func(ctx context.Context, i int) error {
		err := h.client.CoreV1().Pods(namespace).Delete(ctx, podName(i), metav1.DeleteOptions{GracePeriodSeconds: &now})
		if apierrors.IsNotFound(err) {
			return nil
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("delete the pods: %w", err)
	}
	left, err := h.client.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{Limit: 1})
	if err != nil {
		return fmt.Errorf("look for pods left over: %w", err)
	}
	if len(left.Items) > 0 {
		return fmt.Errorf("pod %s is still there after all were deleted", left.Items[0].Name)
	}
	return nil
}

// compact drops etcd's history, so that every round starts with the same store.
func (h *harness) compact(ctx context.Context) error {
	answer, err := h.store.Get(ctx, "compact")
	if err != nil {
		return fmt.Errorf("ask etcd for its revision: %w", err)
	}
	if _, err := h.store.Compact(ctx, answer.Header.Revision, clientv3.WithCompactPhysical()); err != nil {
		return fmt.Errorf("compact etcd: %w", err)
	}
	return nil
}

// awaitRest returns when etcd and the API server use next to no CPU.
func (h *harness) awaitRest(ctx context.Context) error {
	end := time.Now().Add(restTimeout)
	for {
		before, err := cpuOf(h.etcd, h.server)
		if err != nil {
			return err
		}
		select {
		case <-time.After(restWindow):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		after, err := cpuOf(h.etcd, h.server)
		if err != nil {
			return err
		}
		used := time.Duration(0)
		for i := range after {
			used += after[i] - before[i]
		}
		if used.Seconds() <= restCPU*restWindow.Seconds() {
			return nil
		}
		if time.Now().After(end) {
			return fmt.Errorf("the control plane did not come to rest within %s: it used %s of CPU in the last %s", restTimeout, used, restWindow)
		}
	}
}

// cpuOf reads the CPU time of each process.
func cpuOf(processes ...*process) ([]time.Duration, error) {
	used := make([]time.Duration, len(processes))
	for i, p := range processes {
		var err error
		if used[i], err = p.cpu(); err != nil {
			select {
			case <-p.ended:
				return nil, p.died()
			default:
				return nil, err
			}
		}
	}
	return used, nil
}

// each calls do for 0 to n-1, several at a time, and ends with the first error.
func each(ctx context.Context, n int, do func(context.Context, int) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	next := make(chan int)
	var workers sync.WaitGroup
	for range creators {
		workers.Go(func() {
			for i := range next {
				if err := do(ctx, i); err != nil {
					cancel(err)
					return
				}
			}
		})
	}
feed:
	for i := range n {
		select {
		case next <- i:
		case <-ctx.Done():
			break feed
		}
	}
	close(next)
	workers.Wait()
	if err := context.Cause(ctx); err != nil && !errors.Is(err, context.Canceled) {
		return err
	}
	return ctx.Err()
}
