package nri

import (
	"context"
	"log/slog"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/containerd/nri/pkg/adaptation"
	"github.com/containerd/nri/pkg/api"

	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/node/runtime"
)

// markingAgent adjusts containers, as node.Agent does.
type markingAgent struct{ agent }

func (a *markingAgent) CreateContainer(_ context.Context, _ runtime.Sandbox, c runtime.Container) (runtime.Adjustment, error) {
	return runtime.Adjustment{Mark: runtime.Mark{Container: c.ID}}, nil
}

// A container that needs the agent is refused where the agent's plugin is gone, and where it has adjusted another container; it is created with the agent.
func TestGuard(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "nri.sock")
	synced := make(chan struct{}, 8)
	r, err := adaptation.New("containerd", "2.4.2", func(ctx context.Context, sync adaptation.SyncCB) error {
		_, err := sync(ctx, nil, nil)
		synced <- struct{}{}
		return err
	}, func(context.Context, []*api.ContainerUpdate) ([]*api.ContainerUpdate, error) { return nil, nil },
		adaptation.WithSocketPath(socket), adaptation.WithPluginPath(t.TempDir()), adaptation.WithPluginConfigPath(t.TempDir()))
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Start(); err != nil {
		t.Fatal(err)
	}
	defer r.Stop()
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	status := &GuardStatus{}
	go Guard(ctx, socket, func() bool { return true }, status, slog.New(slog.DiscardHandler))
	<-synced
	own := &api.PodSandbox{Id: "s1", Uid: "u1", Labels: map[string]string{spec.LabelQoS: string(spec.QoSDedicated)}}
	shared := &api.PodSandbox{Id: "s2", Uid: "u2"}
	system := &api.PodSandbox{Id: "s3", Uid: "u3", Labels: map[string]string{spec.LabelQoS: string(spec.QoSSystem)}}
	create := func(pod *api.PodSandbox, c *api.Container) error {
		c.Id, c.PodSandboxId = "c-"+pod.Id, pod.Id
		_, err := r.CreateContainer(t.Context(), &api.CreateContainerRequest{Pod: pod, Container: c})
		return err
	}
	refused := func(what string, err error) {
		t.Helper()
		if err == nil || !strings.Contains(err.Error(), "needs Hilbert's agent") {
			t.Errorf("%s: %v", what, err)
		}
	}
	eventually(t, "the plugin is there", func() bool { return create(own, &api.Container{Name: "main"}) != nil })
	refused("a dedicated pod", create(own, &api.Container{Name: "main"}))
	refused("a mark of another container", create(own, &api.Container{Name: "main", Annotations: map[string]string{spec.AnnotationAdjusted: runtime.Mark{Container: "x"}.String()}}))
	refused("a container that asks for GPUs", create(shared, &api.Container{Name: "main", Env: []string{"NVIDIA_VISIBLE_DEVICES=all"}}))
	refused("a start", r.StartContainer(t.Context(), &api.StartContainerRequest{Pod: own, Container: &api.Container{Id: "c-s1", PodSandboxId: "s1"}}))
	if got := status.Refused(); got < 5 || !status.Connected() {
		t.Errorf("%d refusals are counted, connected %t", got, status.Connected())
	}
	counted := status.Refused()
	for _, pod := range []*api.PodSandbox{shared, system} {
		if err := create(pod, &api.Container{Name: "main"}); err != nil {
			t.Errorf("a pod that needs nobody: %v", err)
		}
	}
	if got := status.Refused(); got != counted {
		t.Errorf("%d refusals are counted of pods that need nobody", got-counted)
	}
	go Run(ctx, socket, &markingAgent{}, slog.New(slog.DiscardHandler))
	select {
	case <-synced:
	case <-time.After(time.Minute):
		t.Fatal("the agent is not connected")
	}
	eventually(t, "it is created with the agent", func() bool { return create(own, &api.Container{Name: "main"}) == nil })
}

// A runtime that does not tell marks at the start is asked at the creation alone: else nothing that needs the agent would start there.
func TestGuardOfASilentRuntime(t *testing.T) {
	own, box := &api.PodSandbox{Id: "s1", Uid: "u1", Labels: map[string]string{spec.LabelQoS: string(spec.QoSDedicated)}}, &api.Container{Id: "c1", PodSandboxId: "s1", Name: "main"}
	for runtime, silent := range map[string]bool{"containerd": false, "cri-o": true} {
		g := &guard{ours: func() bool { return true }, log: slog.New(slog.DiscardHandler), status: &GuardStatus{}}
		if _, err := g.Configure(t.Context(), "", runtime, "1"); err != nil {
			t.Fatal(err)
		}
		if _, _, err := g.CreateContainer(t.Context(), own, box); err == nil {
			t.Errorf("%s: it is created without the agent", runtime)
		}
		if err := g.StartContainer(t.Context(), own, box); (err == nil) != silent {
			t.Errorf("%s: at the start %v", runtime, err)
		}
	}
}
