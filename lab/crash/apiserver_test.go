package crash

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
	"time"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"hilbert.dev/hilbert/lab/apart"
	"hilbert.dev/hilbert/lab/controlplane"
	"hilbert.dev/hilbert/lab/link"
)

// asAPIServer in the environment makes this test binary a kube-apiserver; its value is apiServerOptions.
const asAPIServer = "HILBERT_CRASH_TEST_APISERVER"

type apiServerOptions struct {
	Dir, Etcd, Kubeconfig string
	Port                  int
}

func runAPIServer(text string) int {
	var o apiServerOptions
	err := json.Unmarshal([]byte(text), &o)
	if err == nil {
		var plane *controlplane.ControlPlane
		if plane, err = controlplane.Start(context.Background(), controlplane.Options{Dir: o.Dir, Etcd: o.Etcd, Port: o.Port}); err == nil {
			// Whoever reads the file of an earlier start meanwhile reads it whole.
			if err = plane.WriteKubeconfig(o.Kubeconfig + ".new"); err == nil {
				err = os.Rename(o.Kubeconfig+".new", o.Kubeconfig)
			}
			if err == nil {
				err = <-plane.Failed() // until it is killed
			}
		}
	}
	fmt.Fprintln(os.Stderr, err)
	return 1
}

// breakable is a control plane of which the API server is a process that can be killed, and the way to the store is a link.
type breakable struct {
	t       *testing.T
	dir     string
	options apiServerOptions
	process *hilbertd
	store   *link.Link
}

func newBreakable(t *testing.T) *breakable {
	t.Helper()
	// A Unix socket's path is short.
	sockets, err := os.MkdirTemp("", "hilbert-crash-") //nolint:usetesting // the test's own directory has a longer name
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(sockets) })
	etcd, err := controlplane.StartEtcd(t.Context(), controlplane.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = etcd.Stop() })
	b := &breakable{t: t, dir: t.TempDir()}
	b.store = link.New(t, "unix", filepath.Join(sockets, "s"), etcd.URL()[len("unix://"):])
	address, err := apart.FreeAddress()
	if err != nil {
		t.Fatal(err)
	}
	_, port, err := net.SplitHostPort(address)
	if err != nil {
		t.Fatal(err)
	}
	b.options = apiServerOptions{Dir: filepath.Join(b.dir, "plane"), Etcd: "unix://" + b.store.Address(), Kubeconfig: filepath.Join(b.dir, "kubeconfig")}
	if b.options.Port, err = strconv.Atoi(port); err != nil {
		t.Fatal(err)
	}
	if err := b.start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = b.process.kill() })
	if err := b.ready(); err != nil {
		t.Fatal(err)
	}
	return b
}

func (b *breakable) start() error {
	text, err := json.Marshal(b.options)
	if err != nil {
		return err
	}
	b.process, err = startProcess(b.dir, "kube-apiserver", asAPIServer+"="+string(text))
	return err
}

// ready waits until the API server answers.
func (b *breakable) ready() error {
	last := errors.New("it has not begun")
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(100 * time.Millisecond) {
		select {
		case <-b.process.ended:
			return b.process.endedEarly()
		default:
		}
		if _, err := os.Stat(b.options.Kubeconfig); errors.Is(err, fs.ErrNotExist) {
			continue
		}
		config, err := clientcmd.BuildConfigFromFlags("", b.options.Kubeconfig)
		if err != nil {
			return err
		}
		client, err := kubernetes.NewForConfig(config)
		if err != nil {
			return err
		}
		if last = client.Discovery().RESTClient().Get().AbsPath("/readyz").Do(b.t.Context()).Error(); last == nil {
			return nil
		}
	}
	return fmt.Errorf("the API server is not ready after %s: %w", patience, last)
}

// through returns a kubeconfig that reaches the API server by a link.
func (b *breakable) through(l *link.Link, name string) (string, error) {
	config, err := clientcmd.LoadFromFile(b.options.Kubeconfig)
	if err != nil {
		return "", err
	}
	for _, cluster := range config.Clusters {
		cluster.Server = "https://" + l.Address()
	}
	path := filepath.Join(b.dir, name+".kubeconfig")
	return path, clientcmd.WriteToFile(*config, path)
}

// address is host:port of the API server.
func (b *breakable) address() string {
	return net.JoinHostPort("127.0.0.1", strconv.Itoa(b.options.Port))
}

// kill ends the API server as a crash would, and starts it again.
func (b *breakable) kill() error {
	if err := b.process.signal(syscall.SIGKILL); err != nil {
		return err
	}
	<-b.process.ended
	return b.start()
}
