package nri

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/containerd/nri/pkg/adaptation"
	"github.com/containerd/nri/pkg/api"
	nrilog "github.com/containerd/nri/pkg/log"

	"hilbert.dev/hilbert/node/runtime"
	"hilbert.dev/hilbert/topology"
)

// TestMain sets the log of NRI, of which a process has one, before any runtime reads it.
func TestMain(m *testing.M) {
	nrilog.Set(logger{slog.New(slog.DiscardHandler)})
	os.Exit(m.Run())
}

// agent notes what it is told, and answers what a test wants.
type agent struct {
	mu      sync.Mutex
	calls   []string
	refuse  error
	updater runtime.Updater
	lost    int
}

func (a *agent) said(format string, args ...any) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.calls = append(a.calls, fmt.Sprintf(format, args...))
	return a.refuse
}

func (a *agent) take() string {
	a.mu.Lock()
	defer a.mu.Unlock()
	out := strings.Join(a.calls, "; ")
	a.calls = nil
	return out
}

func (a *agent) Connected(_ context.Context, name string, u runtime.Updater) {
	_ = a.said("connected to %s", name)
	a.mu.Lock()
	defer a.mu.Unlock()
	a.updater = u
}

func (a *agent) Disconnected(error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.lost++
}

func (a *agent) losses() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.lost
}

func (a *agent) Synchronize(_ context.Context, sandboxes []runtime.Sandbox, containers []runtime.Container) error {
	return a.said("%d pods and %d containers", len(sandboxes), len(containers))
}

func (a *agent) RunSandbox(_ context.Context, s runtime.Sandbox) error { return a.said("run %s", s.ID) }

func (a *agent) ResizeSandbox(_ context.Context, s runtime.Sandbox, to runtime.Amounts) error {
	return a.said("resize %s to %d", s.ID, to.MilliCPU)
}
func (a *agent) StopSandbox(_ context.Context, id string) error { return a.said("stop %s", id) }
func (a *agent) CreateContainer(_ context.Context, s runtime.Sandbox, c runtime.Container) (runtime.Adjustment, error) {
	return runtime.Adjustment{CPUs: topology.CPUs(2, 3), Mems: topology.CPUs(1)}, a.said("create %s in %s", c.ID, s.ID)
}

func (a *agent) ContainerCreated(_ context.Context, id string) error { return a.said("created %s", id) }

func (a *agent) StartContainer(_ context.Context, s runtime.Sandbox, c runtime.Container) error {
	return a.said("start %s in %s", c.ID, s.ID)
}

func (a *agent) UpdateContainer(_ context.Context, id string) (runtime.Update, error) {
	return runtime.Update{Container: id, CPUs: topology.CPUs(2, 3)}, a.said("update %s", id)
}

func (a *agent) Updated(_ context.Context, id string) error       { return a.said("updated %s", id) }
func (a *agent) StopContainer(_ context.Context, id string) error { return a.said("end %s", id) }

// daemon is a container runtime's side of NRI, the real one, without containers.
type daemon struct {
	*adaptation.Adaptation
	mu      sync.Mutex
	updates []string
}

func startRuntime(t *testing.T, socket string) *daemon {
	t.Helper()
	r := &daemon{}
	var err error
	r.Adaptation, err = adaptation.New("containerd", "2.4.2", func(ctx context.Context, sync adaptation.SyncCB) error {
		_, err := sync(ctx, []*api.PodSandbox{{Id: "s0"}}, []*api.Container{{Id: "c0", PodSandboxId: "s0"}})
		return err
	}, func(_ context.Context, updates []*api.ContainerUpdate) ([]*api.ContainerUpdate, error) {
		r.mu.Lock()
		defer r.mu.Unlock()
		for _, u := range updates {
			r.updates = append(r.updates, u.GetContainerId()+"="+u.GetLinux().GetResources().GetCpu().GetCpus())
		}
		return updates[1:], nil
	}, adaptation.WithSocketPath(socket), adaptation.WithPluginPath(t.TempDir()), adaptation.WithPluginConfigPath(t.TempDir()))
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Start(); err != nil {
		t.Fatal(err)
	}
	return r
}

func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		if holds() {
			return
		}
	}
	t.Fatal("not so: " + what)
}

func startSession(t *testing.T, socket string) *agent {
	t.Helper()
	a := &agent{}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		Run(ctx, socket, a, slog.New(slog.DiscardHandler))
	}()
	t.Cleanup(func() {
		stop()
		<-ended
	})
	return a
}

// A whole life of a pod over the real protocol.
func TestSession(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "nri.sock")
	r := startRuntime(t, socket)
	defer r.Stop()
	a := startSession(t, socket)
	eventually(t, "it is synchronized", func() bool { return strings.Contains(a.take(), "1 pods and 1 containers") })
	pod, container := &api.PodSandbox{Id: "s1", Uid: "u1"}, &api.Container{Id: "c1", PodSandboxId: "s1"}
	ctx := t.Context()
	// The runtime takes a plugin in only after its synchronization has been answered.
	eventually(t, "it is asked", func() bool {
		if err := r.RunPodSandbox(ctx, &api.RunPodSandboxRequest{Pod: pod}); err != nil {
			t.Fatal(err)
		}
		return a.take() == "run s1"
	})
	created, err := r.CreateContainer(ctx, &api.CreateContainerRequest{Pod: pod, Container: container})
	if cpu := created.GetAdjust().GetLinux().GetResources().GetCpu(); err != nil || cpu.GetCpus() != "2-3" || cpu.GetMems() != "1" {
		t.Errorf("%v, %v", created, err)
	}
	kubelets := &api.LinuxResources{Cpu: &api.LinuxCPU{Shares: api.UInt64(512), Cpus: "0-7"}}
	updated, err := r.UpdateContainer(ctx, &api.UpdateContainerRequest{Pod: pod, Container: container, LinuxResources: kubelets})
	if err != nil || len(updated.GetUpdate()) != 1 {
		t.Fatalf("%v, %v", updated, err)
	}
	if cpu := updated.GetUpdate()[0].GetLinux().GetResources().GetCpu(); cpu.GetCpus() != "2-3" || cpu.GetShares().GetValue() != 512 {
		t.Errorf("our CPUs and the kubelet's shares, not %v", cpu)
	}
	for _, err := range []error{
		r.PostCreateContainer(ctx, &api.PostCreateContainerRequest{Pod: pod, Container: container}),
		r.StartContainer(ctx, &api.StartContainerRequest{Pod: pod, Container: container}),
		r.PostUpdateContainer(ctx, &api.PostUpdateContainerRequest{Pod: pod, Container: container}),
		r.PostUpdatePodSandbox(ctx, &api.PostUpdatePodSandboxRequest{Pod: pod}),
		r.RemoveContainer(ctx, &api.RemoveContainerRequest{Pod: pod, Container: container}),
		r.StopPodSandbox(ctx, &api.StopPodSandboxRequest{Pod: pod}),
		r.RemovePodSandbox(ctx, &api.RemovePodSandboxRequest{Pod: pod}),
	} {
		if err != nil {
			t.Error(err)
		}
	}
	if _, err := r.UpdatePodSandbox(ctx, &api.UpdatePodSandboxRequest{Pod: pod, LinuxResources: cpu(2048, 0, 0)}); err != nil {
		t.Error(err)
	}
	if _, err := r.StopContainer(ctx, &api.StopContainerRequest{Pod: pod, Container: container}); err != nil {
		t.Error(err)
	}
	want := "create c1 in s1; update c1; created c1; start c1 in s1; updated s1; updated s1; end c1; stop s1; stop s1; resize s1 to 2000; end c1"
	if got := a.take(); got != want {
		t.Errorf("the agent heard\n%s\nwant\n%s", got, want)
	}
}

// A refusal fails what the runtime does, with the reason, and leaves the connection.
func TestRefusal(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "nri.sock")
	r := startRuntime(t, socket)
	defer r.Stop()
	a := startSession(t, socket)
	pod := &api.PodSandbox{Id: "s1"}
	eventually(t, "it is asked", func() bool {
		return r.RunPodSandbox(t.Context(), &api.RunPodSandboxRequest{Pod: pod}) == nil && strings.Contains(a.take(), "run s1")
	})
	a.mu.Lock()
	a.refuse = errors.New("PromiseBroken: no NUMA node")
	a.mu.Unlock()
	if err := r.RunPodSandbox(t.Context(), &api.RunPodSandboxRequest{Pod: pod}); err == nil || !strings.Contains(err.Error(), "PromiseBroken: no NUMA node") {
		t.Errorf("run: %v", err)
	}
	if _, err := r.CreateContainer(t.Context(), &api.CreateContainerRequest{Pod: pod, Container: &api.Container{Id: "c1"}}); err == nil {
		t.Error("create: no error")
	}
	if a.losses() != 0 {
		t.Error("the connection is lost")
	}
}

func TestUnsolicited(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "nri.sock")
	r := startRuntime(t, socket)
	defer r.Stop()
	a := startSession(t, socket)
	eventually(t, "it is synchronized", func() bool { return strings.Contains(a.take(), "pods") })
	failed, err := a.updater.Update([]runtime.Update{{Container: "c1", CPUs: topology.CPUs(1)}, {Container: "c2", CPUs: topology.CPUs(2)}})
	if err != nil || !slices.Equal(failed, []string{"c2"}) || !slices.Equal(r.updates, []string{"c1=1", "c2=2"}) {
		t.Errorf("failed %v, %v, updates %v", failed, err, r.updates)
	}
}

// line is a socket whose connections a test can cut, as the end of the runtime's process does.
type line struct {
	mu    sync.Mutex
	conns []net.Conn
}

func (l *line) serve(t *testing.T, socket, to string) (cut func()) {
	t.Helper()
	listener, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		for {
			near, err := listener.Accept()
			if err != nil {
				return
			}
			far, err := net.Dial("unix", to)
			if err != nil {
				_ = near.Close()
				continue
			}
			l.mu.Lock()
			l.conns = append(l.conns, near, far)
			l.mu.Unlock()
			go func() { _, _ = io.Copy(near, far) }()
			go func() { _, _ = io.Copy(far, near) }()
		}
	}()
	return func() {
		_ = listener.Close()
		l.mu.Lock()
		defer l.mu.Unlock()
		for _, c := range l.conns {
			_ = c.Close()
		}
		l.conns = nil
	}
}

// A runtime that is not there, has NRI disabled, or is restarted is waited for.
func TestReconnects(t *testing.T) {
	dir := t.TempDir()
	socket := filepath.Join(dir, "nri.sock")
	a := startSession(t, socket)
	eventually(t, "it says that nobody is there", func() bool { return a.losses() > 0 })
	for i := range 2 {
		inner := filepath.Join(dir, strconv.Itoa(i))
		r := startRuntime(t, inner)
		defer r.Stop()
		cut := (&line{}).serve(t, socket, inner)
		eventually(t, "it is synchronized", func() bool { return strings.Contains(a.take(), "pods") })
		before := a.losses()
		cut()
		eventually(t, "the loss is told", func() bool { return a.losses() > before })
		if _, err := a.updater.Update([]runtime.Update{{Container: "c1"}}); err == nil {
			t.Error("an update without a runtime succeeds")
		}
	}
}

// A runtime that takes the connection and then dies, before it has said anything, is no reason to wait for ever.
func TestDumbRuntime(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "nri.sock")
	listener, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	a := startSession(t, socket)
	conn, err := listener.Accept()
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(conn.Close(), listener.Close()); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the loss is told", func() bool { return a.losses() > 0 })
}
