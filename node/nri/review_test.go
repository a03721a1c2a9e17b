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
	nrilog "github.com/containerd/nri/pkg/log"
	validator "github.com/containerd/nri/plugins/default-validator/builtin"

	"hilbert.dev/hilbert/node"
)

type slowAgent struct {
	agent
	wait chan struct{}
}

// As node.Agent.CreateContainer does when the loop is busy: it waits for the loop, as long as its context.
func (a *slowAgent) CreateContainer(ctx context.Context, s node.Sandbox, c node.Container) (node.Adjustment, error) {
	select {
	case <-a.wait:
	case <-ctx.Done():
		return node.Adjustment{}, ctx.Err()
	}
	return a.agent.CreateContainer(ctx, s, c)
}

func TestRevRequiredPluginTimesOut(t *testing.T) {
	t.Skip("issue 16: The node's promise holds when the agent, a disk or the hardware does not")
	socket := filepath.Join(t.TempDir(), "nri.sock")
	nrilog.Set(logger{slog.New(slog.DiscardHandler)})
	adaptation.SetPluginRequestTimeout(300 * time.Millisecond)
	defer adaptation.SetPluginRequestTimeout(adaptation.DefaultPluginRequestTimeout)
	r, err := adaptation.New("containerd", "2.4.2", func(ctx context.Context, sync adaptation.SyncCB) error {
		_, err := sync(ctx, nil, nil)
		return err
	}, func(context.Context, []*api.ContainerUpdate) ([]*api.ContainerUpdate, error) { return nil, nil },
		adaptation.WithSocketPath(socket), adaptation.WithPluginPath(t.TempDir()), adaptation.WithPluginConfigPath(t.TempDir()),
		adaptation.WithDefaultValidator(&validator.DefaultValidatorConfig{Enable: true}))
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Start(); err != nil {
		t.Fatal(err)
	}
	defer r.Stop()
	pod := &api.PodSandbox{Id: "s1", Uid: "u1", Annotations: map[string]string{"required-plugins.noderesource.dev": `["hilbert"]`}}
	c := &api.Container{Id: "c1", PodSandboxId: "s1", Name: "main", Env: []string{"NVIDIA_VISIBLE_DEVICES=all"}}
	out, err := r.CreateContainer(t.Context(), &api.CreateContainerRequest{Pod: pod, Container: c})
	t.Logf("no agent: adjust %v err %v", out.GetAdjust(), err)
	a := &slowAgent{wait: make(chan struct{})}
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	go Run(ctx, socket, a, slog.New(slog.DiscardHandler))
	eventually(t, "synchronized", func() bool { return strings.Contains(a.take(), "0 pods") })
	time.Sleep(200 * time.Millisecond)
	out, err = r.CreateContainer(t.Context(), &api.CreateContainerRequest{Pod: pod, Container: c})
	t.Logf("agent connected, loop busy: adjust %v err %v", out.GetAdjust(), err)
	close(a.wait)
	out, err = r.CreateContainer(t.Context(), &api.CreateContainerRequest{Pod: pod, Container: c})
	t.Logf("agent answers: adjust %v err %v", out.GetAdjust(), err)
}
