// Package join makes a Kubernetes node of a guest: containerd and an unmodified kubelet in it, joined to the lab's API server in this
// process.
//
// The kubelet reaches the API server through the guest's way to the host's loopback, with a certificate for its own node; the API server
// reaches the kubelet through a forwarded port, so that kubectl logs and exec work. There is no scheduler: a pod names its node, or a
// test binds it. No controller judges the node.
//
// Options.Pods makes the node one on which Hilbert itself runs as pods: they reach the API server by its Service, as client-go in a pod expects, and the API server reaches pods
// behind Services. What the address of the Service leads to is a relay in the guest, not kube-proxy: other Services have no address that works in the guest.
//
// Invariants: Up returns a node that is Ready, with the test bed's images in its store and containerd's NRI socket open, or an error and
// nothing left running. Settings of the kubelet that Options do not name are the same at every start.
package join

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/url"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"hilbert.dev/hilbert/lab/controlplane"
	"hilbert.dev/hilbert/lab/vm"
	"hilbert.dev/hilbert/lab/vm/parts"
	"hilbert.dev/hilbert/lab/vm/wire"
)

const (
	// kubeletPort is where the kubelet serves logs and exec.
	kubeletPort = 10250
	// containerdSocket, and the kubelet's files, in the guest.
	containerdSocket  = "/run/containerd/containerd.sock"
	kubeletConfig     = "/etc/kubernetes/kubelet.json"
	kubeletState      = "/var/lib/kubelet/*_manager_state"
	kubeletKubeconfig = "/etc/kubernetes/kubelet.kubeconfig"
	clientCA          = "/etc/kubernetes/ca.crt"
	// NRISocket is where containerd awaits plugins.
	NRISocket = "/var/run/nri/nri.sock"
	// StaticPods is where the kubelet looks for manifests of pods of its own.
	StaticPods = "/etc/kubernetes/manifests"
	// stopTimeout bounds the end of the control plane.
	stopTimeout = 30 * time.Second
	// poll is how often the guest is asked while something starts.
	poll = 200 * time.Millisecond
	// containerdTimeout is what containerd gets to serve: it takes nine seconds on a quiet machine. askTimeout is for one question about it.
	containerdTimeout, askTimeout = 2 * time.Minute, 20 * time.Second
	// guests is how many guests are tried for one whose containerd serves: one in some hundred answers but gets nothing from its disk.
	guests = 3
)

// The services of the guest that make it a node; each has a vm.Service of that name.
const (
	Containerd = "containerd"
	Kubelet    = "kubelet"
)

// Options says what node to make. The zero value is a node called vm, of a control plane of its own.
type Options struct {
	// Guest says what to boot. Options that the join needs are added to it.
	Guest vm.Options
	// Name is the node's; "" is vm.
	Name string
	// Plane is what to join; nil starts one without controllers and ends it with the node. One that is given must have been started with
	// PlaneOptions, or with those addresses.
	Plane *controlplane.ControlPlane
	// Kubelet are settings of its configuration file (KubeletConfiguration, v1beta1) that add to ours or replace them.
	Kubelet map[string]any
	// Containerd, if set, is a TOML file that adds to containerd's settings.
	Containerd string
	// Pods has the workload controllers run, pods reach the API server, and the API server reach pods.
	Pods bool
	// ReadyTimeout bounds the way from a booted guest to a Ready node; 0 is five minutes.
	ReadyTimeout time.Duration
}

// Node is a guest that has joined.
type Node struct {
	Guest  *vm.Guest
	Plane  *controlplane.ControlPlane
	Client kubernetes.Interface // the administrator's
	Name   string

	ownPlane bool
	options  Options
}

// PlaneOptions are what a control plane needs for guests to reach it.
func PlaneOptions() controlplane.Options {
	return controlplane.Options{Addresses: []net.IP{net.ParseIP(vm.HostAddress)}}
}

// Up boots a guest, starts what it joins, and returns when its node is Ready. ctx bounds the start only; Close ends the node.
func Up(ctx context.Context, o Options) (_ *Node, err error) {
	if o.Name == "" {
		o.Name = "vm"
	}
	if o.ReadyTimeout == 0 {
		o.ReadyTimeout = 5 * time.Minute
	}
	if o.Guest.Log == nil {
		o.Guest.Log = func(string, ...any) {}
	}
	o.Guest.Forward = append([]int{kubeletPort}, o.Guest.Forward...)
	n := &Node{Name: o.Name, Plane: o.Plane, options: o}
	defer func() {
		if err != nil {
			err = errors.Join(err, n.Close())
		}
	}()
	if err := n.bootBoth(ctx); err != nil {
		return nil, err
	}
	if n.Client, err = kubernetes.NewForConfig(n.Plane.AdminConfig()); err != nil {
		return nil, fmt.Errorf("client for the API server: %w", err)
	}
	if err := n.awaitSoundGuest(ctx); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, o.ReadyTimeout, fmt.Errorf("not done after %s", o.ReadyTimeout))
	defer cancel()
	if err := n.join(ctx); err != nil {
		return nil, fmt.Errorf("join the guest: %w%s", err, n.lastWords(ctx))
	}
	return n, nil
}

// bootBoth starts the control plane while the guest boots.
func (n *Node) bootBoth(ctx context.Context) error {
	type booted struct {
		guest *vm.Guest
		err   error
	}
	guests := make(chan booted, 1)
	go func() {
		guest, err := vm.Boot(ctx, n.options.Guest)
		guests <- booted{guest, err}
	}()
	var planeErr error
	if n.Plane == nil {
		o := PlaneOptions()
		o.Controllers, o.NodeRestriction, o.PodNetwork = n.options.Pods, n.options.Pods, n.options.Pods
		n.Plane, planeErr = controlplane.Start(ctx, o)
		n.ownPlane = planeErr == nil
	}
	guest := <-guests
	n.Guest = guest.guest
	return errors.Join(planeErr, guest.err)
}

// awaitSoundGuest starts containerd, and boots another guest in place of one where that does not come to serve.
func (n *Node) awaitSoundGuest(ctx context.Context) error {
	var errs []error
	for {
		err := n.startContainerd(ctx)
		if err == nil {
			return nil
		}
		errs = append(errs, fmt.Errorf("%w%s", err, n.lastWords(ctx)))
		if ctx.Err() != nil || len(errs) == guests {
			return fmt.Errorf("no sound guest: %w", errors.Join(errs...))
		}
		n.options.Guest.Log("vm: another guest, for in this one: %v", errs[len(errs)-1])
		if err := n.Guest.Close(); err != nil {
			return err
		}
		if n.Guest, err = vm.Boot(ctx, n.options.Guest); err != nil {
			return err
		}
	}
}

func (n *Node) join(ctx context.Context) error {
	begin := time.Now()
	step := func(what string) { n.options.Guest.Log("vm: %s after %.1f s", what, time.Since(begin).Seconds()) }
	// The kubelet takes its time to start; the images are there before it asks for one.
	imported := make(chan error, 1)
	go func() {
		_, err := n.Guest.Shell(ctx, "ctr --address "+containerdSocket+" --namespace k8s.io images import --local /images.tar")
		imported <- err
	}()
	err := n.startKubelet(ctx)
	if err == nil && n.options.Pods {
		err = n.connectPods(ctx)
	}
	if err == nil {
		err = n.awaitReady(ctx)
		step("the node is Ready")
	}
	if importErr := <-imported; importErr != nil {
		return errors.Join(err, fmt.Errorf("import the images: %w", importErr))
	}
	step("the images are there")
	return err
}

func (n *Node) startContainerd(ctx context.Context) error {
	begin := time.Now()
	ctx, cancel := context.WithTimeoutCause(ctx, containerdTimeout, fmt.Errorf("not so after %s", containerdTimeout))
	defer cancel()
	if n.options.Containerd != "" {
		if err := n.Guest.WriteString(ctx, "/etc/containerd/conf.d/options.toml", n.options.Containerd); err != nil {
			return err
		}
	}
	_, err := n.Guest.Define(ctx, wire.ServiceSpec{Name: Containerd, Argv: []string{"/usr/bin/containerd", "--config", "/etc/containerd/config.toml"}})
	if err != nil {
		return err
	}
	if err := n.AwaitContainerd(ctx); err != nil {
		return err
	}
	n.options.Guest.Log("vm: containerd serves after %.1f s", time.Since(begin).Seconds())
	return nil
}

// AwaitContainerd returns when containerd serves, as after a restart.
func (n *Node) AwaitContainerd(ctx context.Context) error {
	return until(ctx, "containerd serves", func(ctx context.Context) error {
		ctx, cancel := context.WithTimeoutCause(ctx, askTimeout, fmt.Errorf("no answer within %s", askTimeout))
		defer cancel()
		got, err := n.Guest.Exec(ctx, "/bin/grep", "-q", containerdSocket+"$", "/proc/net/unix")
		if err != nil {
			return err
		}
		if got.Status != 0 {
			return errors.New("it has no socket yet")
		}
		return nil
	})
}

func (n *Node) startKubelet(ctx context.Context) error {
	user := "system:node:" + n.Name
	kubeconfig, err := n.Plane.KubeconfigAt(vm.HostAddress, user, "system:nodes")
	if err != nil {
		return err
	}
	for path, text := range map[string]string{kubeletKubeconfig: string(kubeconfig), clientCA: string(n.Plane.CA())} {
		if err := n.Guest.WriteString(ctx, path, text); err != nil {
			return err
		}
	}
	if _, err := n.Guest.Shell(ctx, "mkdir -p "+StaticPods); err != nil {
		return err
	}
	if err := n.configureKubelet(ctx, nil); err != nil {
		return err
	}
	n.Plane.RouteKubelet(fmt.Sprintf("%s:%d", vm.Address, kubeletPort), n.Guest.Forwarded(kubeletPort))
	return n.defineKubelet(ctx)
}

// connectPods gives the guest the address of the API server's Service, with a relay to the API server, and leads the API server to the guest's pods.
func (n *Node) connectPods(ctx context.Context) error {
	if _, err := n.Guest.Shell(ctx, "ip address add "+controlplane.ServiceAddress+"/32 dev lo"); err != nil {
		return fmt.Errorf("the address of the API server's Service: %w", err)
	}
	server, err := url.Parse(n.Plane.AdminConfig().Host)
	if err != nil {
		return err
	}
	n.Plane.RoutePods(n.Guest.Dial)
	_, err = n.Guest.Define(ctx, wire.ServiceSpec{Name: "services", Argv: []string{
		"/sbin/hilbert-vm-init", "relay", net.JoinHostPort(controlplane.ServiceAddress, "443"), net.JoinHostPort(vm.HostAddress, server.Port()),
	}})
	return err
}

func (n *Node) defineKubelet(ctx context.Context) error {
	_, err := n.Guest.Define(ctx, wire.ServiceSpec{Name: Kubelet, Argv: []string{
		"/usr/bin/kubelet", "--config=" + kubeletConfig, "--kubeconfig=" + kubeletKubeconfig,
		"--hostname-override=" + n.Name, "--node-ip=" + vm.Address, "--v=2",
	}})
	return err
}

// Reboot has the guest lose its power and start again, and returns when the kubelet and containerd have been started. Services that a test has defined are gone;
// what the node's Pods say is of before, until the kubelet says more.
func (n *Node) Reboot(ctx context.Context) error {
	if _, err := n.Guest.Shell(ctx, "sync"); err != nil {
		return err
	}
	if err := n.Guest.Reset(ctx); err != nil {
		return err
	}
	if err := n.startContainerd(ctx); err != nil {
		return err
	}
	return n.defineKubelet(ctx)
}

// ReconfigureKubelet starts the kubelet again with settings that add to those of Options, and without what its managers of CPUs and
// memory remember: it refuses to start with another policy than they had. nil undoes it. Pods run on meanwhile.
func (n *Node) ReconfigureKubelet(ctx context.Context, more map[string]any) error {
	kubelet := n.Guest.Service(Kubelet)
	if err := kubelet.Stop(ctx); err != nil {
		return err
	}
	if _, err := n.Guest.Shell(ctx, "rm -f "+kubeletState); err != nil {
		return err
	}
	return errors.Join(n.configureKubelet(ctx, more), kubelet.Start(ctx))
}

func (n *Node) configureKubelet(ctx context.Context, more map[string]any) error {
	config, err := json.MarshalIndent(n.kubeletConfiguration(more), "", "  ")
	if err != nil {
		return fmt.Errorf("kubelet configuration: %w", err)
	}
	return n.Guest.WriteString(ctx, kubeletConfig, string(config))
}

// kubeletConfiguration is an unmodified kubelet's, but for patience and for what the guest has not (swap, iptables, disks to fill).
func (n *Node) kubeletConfiguration(more map[string]any) map[string]any {
	config := map[string]any{
		"apiVersion": "kubelet.config.k8s.io/v1beta1", "kind": "KubeletConfiguration",
		"authentication": map[string]any{
			"anonymous": map[string]any{"enabled": false},
			"webhook":   map[string]any{"enabled": true},
			"x509":      map[string]any{"clientCAFile": clientCA},
		},
		"authorization":             map[string]any{"mode": "Webhook"},
		"cgroupDriver":              "cgroupfs",
		"containerRuntimeEndpoint":  "unix://" + containerdSocket,
		"evictionHard":              map[string]any{"memory.available": "100Mi", "nodefs.available": "1%", "imagefs.available": "1%"},
		"failSwapOn":                false,
		"makeIPTablesUtilChains":    false,
		"runtimeRequestTimeout":     "5m",
		"nodeStatusUpdateFrequency": "5s",
		"resolvConf":                "/etc/resolv.conf",
		"volumeStatsAggPeriod":      "-1s",
		"imageMinimumGCAge":         "24h",
		"staticPodPath":             StaticPods,
		"fileCheckFrequency":        "2s",
	}
	if n.options.Guest.Systemd {
		config["cgroupDriver"] = "systemd"
	}
	maps.Copy(config, n.options.Kubelet)
	maps.Copy(config, more)
	return config
}

// awaitReady returns when the kubelet has said that the node is Ready.
func (n *Node) awaitReady(ctx context.Context) error {
	return until(ctx, "node "+n.Name+" is Ready", func(ctx context.Context) error {
		node, err := n.Client.CoreV1().Nodes().Get(ctx, n.Name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		for _, c := range node.Status.Conditions {
			if c.Type == corev1.NodeReady {
				if c.Status == corev1.ConditionTrue {
					return nil
				}
				return fmt.Errorf("%s: %s", c.Reason, c.Message)
			}
		}
		return errors.New("it says nothing yet")
	})
}

// until asks again and again until there is no error, or ctx ends: then with what was said last.
func until(ctx context.Context, what string, check func(context.Context) error) error {
	tick := time.NewTicker(poll)
	defer tick.Stop()
	last := errors.New("never asked")
	for {
		err := check(ctx)
		if err == nil {
			return nil
		}
		if ctx.Err() == nil {
			last = err
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return fmt.Errorf("wait until %s: %w; last: %w", what, context.Cause(ctx), last)
		}
	}
}

// lastWords are the ends of the services' logs and of the kernel's, with the tasks that wait for a device, for the error of a join that
// failed.
func (n *Node) lastWords(ctx context.Context) string {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
	defer cancel()
	var b strings.Builder
	for _, name := range []string{Containerd, Kubelet} {
		log, err := n.Guest.Service(name).Log(ctx)
		if err != nil {
			log = err.Error()
		}
		const most = 3000
		fmt.Fprintf(&b, "\n%s said last:\n%s", name, log[max(0, len(log)-most):])
	}
	for _, say := range [][2]string{{"/proc/sys/kernel/printk", "7"}, {"/proc/sysrq-trigger", "w"}} {
		if err := n.Guest.WriteString(ctx, say[0], say[1]); err != nil {
			fmt.Fprintf(&b, "\nwhich tasks wait: %v", err)
		}
	}
	time.Sleep(time.Second) // the console is slow
	fmt.Fprintf(&b, "\nthe kernel said last:\n%s", n.Guest.ConsoleEnd())
	return b.String()
}

// Close ends the guest, and the control plane if it is the node's own. It may be called more than once.
func (n *Node) Close() error {
	var errs []error
	if n.Guest != nil {
		errs = append(errs, n.Guest.Close())
	}
	if n.ownPlane {
		ctx, cancel := context.WithTimeout(context.Background(), stopTimeout)
		defer cancel()
		errs = append(errs, n.Plane.Stop(ctx))
	}
	return errors.Join(errs...)
}

// Images of the guest's store, for pods' containers.
const (
	PauseImage = parts.PauseImage
	BusyImage  = parts.BusyImage
)
