// Package controlplane runs a real Kubernetes control plane inside this process: etcd, kube-apiserver and, if asked, the
// workload controllers of kube-controller-manager.
//
// Everything listens on loopback or on Unix sockets in a directory of its owner. TLS and RBAC are on, signed by a CA of the lab's
// own; there are no anonymous requests. What is missing is what a lab has no use for: node lifecycle, cloud, volumes, DNS, pods'
// network. Nodes come from package hollow.
//
// Invariants: Start returns a control plane that answers /readyz, or an error and nothing left running. If a part
// dies later, Failed receives one error, and Stop still works. A data directory serves one control plane at a time.
//
// It is not for production, and upstream keeps process-wide registries: one control plane per process at a time, and one
// start with Controllers in the life of a process.
package controlplane

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"path/filepath"
	"sync"
	"time"

	"hilbert.dev/hilbert/lab/store"
)

// stopTimeout bounds the orderly stop of each part when the caller sets no limit of its own.
const stopTimeout = 20 * time.Second

// Options says what to start. The zero value is an API server on a free port over a temporary directory.
type Options struct {
	// Dir keeps etcd's data, the CA and the log over restarts; "" is a temporary directory, removed by Stop.
	Dir string
	// Port is the API server's on loopback; 0 picks a free one.
	Port int
	// Controllers also runs the workload controllers.
	Controllers bool
	// Volumes also runs the controllers that bind claims to volumes and protect both, beside Controllers.
	Volumes bool
	// Autoscaling also runs upstream's HorizontalPodAutoscaler controller, beside Controllers: it looks each second, and scales down at once.
	Autoscaling bool
	// Benchmark lifts the API server's own limits (priority and fairness, requests in flight) and lets etcd skip fsync.
	Benchmark bool
	// Log gets what the parts log; nil is controlplane.log in the data directory. It is set for the whole process, as klog is.
	Log io.Writer
	// EtcdQuotaBytes bounds etcd's database; 0 is 8 GiB.
	EtcdQuotaBytes int64
	// Etcd is the URL of an etcd that runs elsewhere (see StartEtcd); "" starts Store.
	Etcd string
	// Store is what keeps the objects; "" is what the environment says (store.Variable), as a rule an etcd in this process.
	Store store.Kind
	// NodeRestriction holds kubelets to their own nodes and pods, as clusters do whose kubelets have certificates.
	NodeRestriction bool
	// EvictionRequests has the API server serve EvictionRequests (lifecycle.k8s.io/v1alpha1). No controller acts on them: Kubernetes 1.37 has none. It holds for the whole process.
	EvictionRequests bool
	// AuditLog is the file to which the API server appends a line of JSON (audit.k8s.io/v1 Event) for each request that it has answered; "" keeps none.
	AuditLog string
	// Addresses are further addresses under which clients reach the API server, as a guest reaches its host: its certificate names them.
	Addresses []net.IP
	// PodNetwork has the API server reach the pods behind Services, and kubelets, by RoutePods and RouteKubelet: aggregated APIs and webhooks then may run in pods.
	PodNetwork bool
}

// ControlPlane is a running control plane.
type ControlPlane struct {
	dir       *dataDir
	log       *partLog
	etcd      *etcdServer
	store     *store.Server // instead of etcd
	authority *authority
	token     string // the administrator's
	server    *apiServer
	routes    routes
	podProxy  *podProxy
	manager   *controllerManager

	failed   chan error
	stopOnce sync.Once
	stopErr  error
}

// Start brings a control plane up and returns when its API server is ready. ctx bounds the start only; Stop ends what was started.
func Start(ctx context.Context, o Options) (_ *ControlPlane, err error) {
	listener, err := listen(o.Port)
	if err != nil {
		return nil, err
	}
	c := &ControlPlane{failed: make(chan error, 1)}
	defer func() {
		if err != nil {
			_ = listener.Close()
			stopping, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopTimeout)
			defer cancel()
			_ = c.Stop(stopping) // err says why; an error of this stop would only hide it
		}
	}()
	if c.dir, err = openDataDir(o.Dir); err != nil {
		return nil, err
	}
	if c.log, err = startLog(o.Log, c.dir.logFile()); err != nil {
		return nil, err
	}
	if c.authority, err = openAuthority(c.dir.certificates()); err != nil {
		return nil, err
	}
	etcdURL := o.Etcd
	if etcdURL == "" {
		if etcdURL, err = c.startStore(ctx, o); err != nil {
			return nil, err
		}
	} else if err = awaitEtcd(ctx, etcdURL); err != nil {
		return nil, err
	}
	if err := c.startServer(ctx, listener, etcdURL, o); err != nil {
		return nil, err
	}
	if o.Controllers {
		if err := c.startControllers(ctx, o); err != nil {
			return nil, err
		}
	}
	return c, nil
}

// startStore starts what keeps the objects, and returns its URL.
func (c *ControlPlane) startStore(ctx context.Context, o Options) (url string, err error) {
	kind := o.Store
	if kind == "" {
		if kind, err = store.Chosen(); err != nil {
			return "", err
		}
	}
	if kind == store.Etcd {
		if c.etcd, err = startEtcd(ctx, c.etcdOptions(o)); err != nil {
			return "", err
		}
		return c.etcd.url, nil
	}
	c.store, err = store.Start(ctx, kind, store.Options{Dir: c.dir.etcd(), Sockets: c.dir.sockets, Log: c.log, Failed: c.fail})
	if err != nil {
		return "", err
	}
	return c.store.URL(), nil
}

func (c *ControlPlane) etcdOptions(o Options) etcdOptions {
	quota := o.EtcdQuotaBytes
	if quota == 0 {
		quota = defaultEtcdQuotaBytes
	}
	return etcdOptions{
		dir: c.dir.etcd(), sockets: c.dir.sockets, quotaBytes: quota,
		// What is thrown away at the end need not survive a power cut.
		noFsync: o.Benchmark || c.dir.temporary,
		log:     c.log, failed: c.fail,
	}
}

func (c *ControlPlane) startServer(ctx context.Context, listener net.Listener, etcdURL string, o Options) error {
	pki := c.dir.certificates()
	pair, err := c.authority.server(
		[]string{"localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc"},
		append([]net.IP{net.ParseIP(loopback), net.ParseIP(ServiceAddress)}, o.Addresses...)...,
	)
	if err != nil {
		return err
	}
	var serving keyPairFiles
	if serving.certificate, serving.key, err = pair.keep(pki, "kube-apiserver"); err != nil {
		return err
	}
	kubeletClient, err := c.authority.keepKubeletClient(pki)
	if err != nil {
		return err
	}
	proxyClient, proxyCA, err := keepProxyClient(pki)
	if err != nil {
		return err
	}
	tokenKey, err := signingKey(pki)
	if err != nil {
		return err
	}
	var tokens string
	if c.token, tokens, err = adminToken(pki); err != nil {
		return err
	}
	var egress string
	if o.PodNetwork {
		if c.podProxy, err = startPodProxy(filepath.Join(c.dir.sockets, "pods.sock"), c.routes.dial); err != nil {
			return err
		}
		if egress, err = c.podProxy.configuration(pki); err != nil {
			return err
		}
	}
	c.server, err = startAPIServer(listener, apiServerOptions{
		etcdURL: etcdURL, serving: serving, clientCA: filepath.Join(pki, "ca.crt"), tokens: tokens, tokenKey: tokenKey,
		serviceAccounts: o.Controllers, benchmark: o.Benchmark, failed: c.fail,
		kubeletClient: kubeletClient, dialKubelet: c.routes.dial, nodeRestriction: o.NodeRestriction, evictionRequests: o.EvictionRequests, auditLog: o.AuditLog, auditPolicy: filepath.Join(pki, "audit-policy.yaml"),
		proxyClient: proxyClient, proxyCA: proxyCA, egress: egress,
	})
	if err != nil {
		return err
	}
	return c.orFailure(c.server.waitReady(ctx, c.AdminConfig()))
}

func (c *ControlPlane) startControllers(ctx context.Context, o Options) error {
	pki := c.dir.certificates()
	kubeconfig := filepath.Join(pki, "controller-manager.kubeconfig")
	if err := c.WriteKubeconfig(kubeconfig); err != nil {
		return err
	}
	var err error
	c.manager, err = startControllers(controllerOptions{
		kubeconfig: kubeconfig, tokenKey: filepath.Join(pki, "service-account.key"), rootCA: filepath.Join(pki, "ca.crt"), volumes: o.Volumes, autoscaling: o.Autoscaling, failed: c.fail,
	})
	if err != nil {
		return err
	}
	return c.orFailure(c.waitControllers(ctx))
}

// Failed receives one error when a part dies; stop the control plane then. It receives nothing after a Stop.
func (c *ControlPlane) Failed() <-chan error { return c.failed }

func (c *ControlPlane) fail(err error) {
	select {
	case c.failed <- err:
	default: // the first failure is the cause, those that follow are its consequences
	}
}

// orFailure prefers the failure of a part over err, which it probably caused.
func (c *ControlPlane) orFailure(err error) error {
	if err == nil {
		return nil
	}
	select {
	case cause := <-c.failed:
		return fmt.Errorf("%w (meanwhile: %w)", cause, err)
	default:
		return err
	}
}

// Stop ends all parts in order, those that write before those that store, and removes a temporary data directory. It may be
// called more than once. ctx bounds the wait; a part that did not end by then is named in the error.
func (c *ControlPlane) Stop(ctx context.Context) error {
	c.stopOnce.Do(func() {
		errs := []error{c.stopClients(ctx)}
		if c.etcd != nil {
			c.etcd.close()
		}
		if c.store != nil {
			errs = append(errs, c.store.Stop())
		}
		if c.log != nil {
			errs = append(errs, c.log.close())
		}
		if c.dir != nil {
			errs = append(errs, c.dir.close())
		}
		c.stopErr = errors.Join(errs...)
	})
	return c.stopErr
}

// stopClients ends those that need the store. Without it they cannot end in order: they are given a moment, and then left to the end of the
// process.
func (c *ControlPlane) stopClients(ctx context.Context) error {
	broken := c.etcd != nil && c.etcd.fatal.fired() || c.store != nil && c.store.Broken()
	if broken {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, brokenStopTimeout)
		defer cancel()
	}
	var errs []error
	if c.manager != nil {
		errs = append(errs, c.manager.stop(ctx))
	}
	if c.server != nil {
		errs = append(errs, c.server.stop(ctx))
	}
	if c.podProxy != nil {
		c.podProxy.close()
	}
	if broken {
		return nil
	}
	return errors.Join(errs...)
}

// LogFile is where the parts log, "" where Options.Log took it.
func (c *ControlPlane) LogFile() string { return c.log.path() }

// Dir is the data directory.
func (c *ControlPlane) Dir() string { return c.dir.path }
