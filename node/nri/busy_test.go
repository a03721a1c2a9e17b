package nri

import (
	"context"
	"fmt"
	"log/slog"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/containerd/nri/pkg/adaptation"
	"github.com/containerd/nri/pkg/api"
	validator "github.com/containerd/nri/plugins/default-validator/builtin"

	"hilbert.dev/hilbert/node/runtime"
)

type slowAgent struct {
	agent
	wait chan struct{}
}

// As node.Agent.CreateContainer does when the loop is busy: it waits for the loop, as long as its context.
func (a *slowAgent) CreateContainer(ctx context.Context, s runtime.Sandbox, c runtime.Container) (runtime.Adjustment, error) {
	select {
	case <-a.wait:
	case <-ctx.Done():
		return runtime.Adjustment{}, context.Cause(ctx)
	}
	return a.agent.CreateContainer(ctx, s, c)
}

// A container is not created while the agent is busy: the runtime gets an error before its own timeout, after which it would go on without the agent. It has
// its adjustment when the agent answers again.
func TestBusyAgentFailsCreation(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "nri.sock")
	adaptation.SetPluginRequestTimeout(time.Second)
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
	a := &slowAgent{wait: make(chan struct{})}
	close(a.wait)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	go Run(ctx, socket, a, slog.New(slog.DiscardHandler))
	adjusted := func(pod *api.PodSandbox, c *api.Container) error {
		out, err := r.CreateContainer(t.Context(), &api.CreateContainerRequest{Pod: pod, Container: c})
		if got := out.GetAdjust().GetLinux().GetResources().GetCpu().GetCpus(); err == nil && got != "2-3" {
			err = fmt.Errorf("it gets CPUs %q", got)
		}
		return err
	}
	// The runtime has a plugin only some time after it has told it what runs.
	eventually(t, "the plugin is there", func() bool {
		return adjusted(&api.PodSandbox{Id: "s0", Uid: "u0"}, &api.Container{Id: "c0", PodSandboxId: "s0"}) == nil
	})
	// The agent was told a second, and answers within a part of it; the runtime waits for longer, so that a busy machine has the time between the two.
	if adaptation.SetPluginRequestTimeout(time.Minute); answerWithin > 0.8 {
		t.Errorf("an answer may take %g of the runtime's time", answerWithin)
	}
	for _, required := range []string{"", `["hilbert"]`} {
		pod := &api.PodSandbox{Id: "s1", Uid: "u1", Annotations: map[string]string{"required-plugins.noderesource.dev": required}}
		c := &api.Container{Id: "c1", PodSandboxId: "s1", Name: "main", Env: []string{"NVIDIA_VISIBLE_DEVICES=all"}}
		a.wait = make(chan struct{})
		for range 2 { // again and again, without being thrown out
			if out, err := r.CreateContainer(t.Context(), &api.CreateContainerRequest{Pod: pod, Container: c}); err == nil || !strings.Contains(err.Error(), "no answer in time") {
				t.Fatalf("required %q: while the agent is busy: %v, %v", required, out.GetAdjust(), err)
			}
		}
		close(a.wait)
		eventually(t, fmt.Sprintf("required %q: it is adjusted when the agent answers", required), func() bool { return adjusted(pod, c) == nil })
	}
}
