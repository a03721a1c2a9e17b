package agent

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/containerd/nri/pkg/adaptation"
	"github.com/containerd/nri/pkg/api"
	nrilog "github.com/containerd/nri/pkg/log"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/cmd/hilbertd/endpoints/endpointstest"
	"hilbert.dev/hilbert/cmd/hilbertd/realnode"
	"hilbert.dev/hilbert/cmd/hilbertd/realnode/realnodetest"
	"hilbert.dev/hilbert/kube/standin"
	"hilbert.dev/hilbert/node/egress"
	"hilbert.dev/hilbert/node/observe"
	"hilbert.dev/hilbert/topology"
)

// host is a machine as the lab's guest is: 8 CPUs, 2 NUMA nodes.
type host struct {
	roots   realnode.Roots
	cgroups *realnodetest.Cgroups
	config  *spec.Configuration
	nri     *adaptation.Adaptation

	mu         sync.Mutex
	pods       map[string]*api.PodSandbox
	containers map[string]*api.Container
	updates    []*api.ContainerUpdate // as the agent last asked for

	uncapped []egress.Options // what the agent took back, and how that went
	uncapErr error
}

// uncap is egress.Remove of a kernel without BPF.
func (h *host) uncap(o egress.Options) error {
	h.uncapped = append(h.uncapped, o)
	return h.uncapErr
}

func newHost(t *testing.T) *host {
	t.Helper()
	dir := t.TempDir()
	fixture, err := os.ReadFile("../../../node/machine/testdata/sysfs/guest")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(fixture)) {
		name, content, ok := strings.Cut(line, " =")
		if ok && strings.Contains(name, "devices/system") {
			writeFile(t, filepath.Join(dir, "sys", name), strings.TrimPrefix(content, " "))
		}
	}
	writeFile(t, filepath.Join(dir, "proc/pressure/cpu"), "")
	h := &host{
		cgroups:    realnodetest.NewCgroups(),
		config:     spec.Default(),
		pods:       make(map[string]*api.PodSandbox),
		containers: make(map[string]*api.Container),
	}
	h.roots = realnode.Roots{Sys: filepath.Join(dir, "sys"), Proc: filepath.Join(dir, "proc"), Run: filepath.Join(dir, "run"), Dev: filepath.Join(dir, "dev"), CDI: []string{filepath.Join(dir, "cdi")}, Observed: observe.Root(dir), Kernel: func() (realnode.KernelFiles, error) { return h.cgroups, nil }, Uncap: h.uncap}
	h.config.Roles, h.config.Server.BindAddress = []spec.Role{spec.RoleAgent}, "127.0.0.1:0"
	n := &h.config.Node
	n.Name, n.StateDirectory, n.KubeletDirectory, n.NRISocket = "n1", filepath.Join(dir, "state"), filepath.Join(dir, "kubelet"), filepath.Join(dir, "nri.sock")
	n.TickInterval, n.WriteInterval = spec.Duration(50*time.Millisecond), spec.Duration(10*time.Millisecond)
	return h
}

func writeFile(t *testing.T, path, text string) {
	t.Helper()
	if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, []byte(text), 0o600)); err != nil {
		t.Fatal(err)
	}
}

// startRuntime starts the runtime's side of NRI.
func (h *host) startRuntime(t *testing.T) {
	t.Helper()
	var err error
	h.nri, err = adaptation.New("containerd", "2.4.2", func(ctx context.Context, sync adaptation.SyncCB) error {
		h.mu.Lock()
		var pods []*api.PodSandbox
		var containers []*api.Container
		for _, p := range h.pods {
			pods = append(pods, p)
		}
		for _, c := range h.containers {
			containers = append(containers, c)
		}
		h.mu.Unlock()
		_, err := sync(ctx, pods, containers)
		return err
	}, func(_ context.Context, updates []*api.ContainerUpdate) ([]*api.ContainerUpdate, error) {
		h.mu.Lock()
		defer h.mu.Unlock()
		h.updates = updates
		return nil, nil
	},
		adaptation.WithSocketPath(h.config.Node.NRISocket), adaptation.WithPluginPath(t.TempDir()), adaptation.WithPluginConfigPath(t.TempDir()))
	if err == nil {
		err = h.nri.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(h.nri.Stop)
}

// TestMain sets the log of NRI, of which a process has one, before any runtime reads it.
func TestMain(m *testing.M) {
	nrilog.Set(noLog{})
	os.Exit(m.Run())
}

type noLog struct{}

func (noLog) Debugf(context.Context, string, ...any) {}
func (noLog) Infof(context.Context, string, ...any)  {}
func (noLog) Warnf(context.Context, string, ...any)  {}
func (noLog) Errorf(context.Context, string, ...any) {}

// startAgent runs an agent, with an API server or without.
func (h *host) startAgent(t *testing.T, s *standin.Server) *process {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	p := &process{endpointstest.Process{Cancel: cancel, Ended: make(chan error, 1)}}
	listening := make(chan string, 1)
	o := Options{Log: slog.New(slog.DiscardHandler), Roots: h.roots, OnListen: func(address string) { listening <- address }}
	if s != nil {
		o.Connection = s.Connection()
	}
	go func() { p.Ended <- Run(ctx, h.config, o) }()
	t.Cleanup(cancel)
	select {
	case p.Address = <-listening:
	case err := <-p.Ended:
		t.Fatalf("did not start: %v", err)
	}
	return p
}

// run runs a pod of one container as the runtime would, and returns its CPUs.
func (h *host) run(t *testing.T, uid string, shares uint64, labels, annotations map[string]string) topology.CPUSet {
	t.Helper()
	defer h.nri.BlockPluginSync().Unblock() // as containerd does: a plugin is either told of it later, or asked now
	pod := &api.PodSandbox{
		Id: "s-" + uid, Uid: uid, Namespace: "default", Name: uid, Labels: labels, Annotations: annotations,
		Linux: &api.LinuxPodSandbox{
			CgroupParent: "/kubepods/burstable/pod" + uid, PodResources: &api.LinuxResources{Cpu: &api.LinuxCPU{Shares: api.UInt64(shares)}},
		},
	}
	container := &api.Container{
		Id: "c-" + uid, PodSandboxId: pod.GetId(), Name: "main", State: api.ContainerState_CONTAINER_CREATED,
		Linux: &api.LinuxContainer{CgroupsPath: "/kubepods/burstable/pod" + uid + "/c-" + uid, Resources: &api.LinuxResources{Cpu: &api.LinuxCPU{}}},
	}
	if err := h.nri.RunPodSandbox(t.Context(), &api.RunPodSandboxRequest{Pod: pod}); err != nil {
		t.Fatal(err)
	}
	created, err := h.nri.CreateContainer(t.Context(), &api.CreateContainerRequest{Pod: pod, Container: container})
	if err != nil {
		t.Fatal(err)
	}
	cpu := created.GetAdjust().GetLinux().GetResources().GetCpu()
	h.cgroups.Lock()
	for _, dir := range []string{"kubepods/burstable/pod" + uid, "kubepods/burstable/pod" + uid + "/c-" + uid} {
		h.cgroups.Files[dir+"/cpuset.cpus"], h.cgroups.Files[dir+"/cpuset.mems"] = "", ""
	}
	h.cgroups.Unlock()
	container.Linux.Resources.Cpu.Cpus = cpu.GetCpus()
	container.State = api.ContainerState_CONTAINER_RUNNING
	h.mu.Lock()
	h.pods[uid], h.containers[uid] = pod, container
	h.mu.Unlock()
	if err := h.nri.PostCreateContainer(t.Context(), &api.PostCreateContainerRequest{Pod: pod, Container: container}); err != nil {
		t.Fatal(err)
	}
	set, err := topology.ParseCPUSet(cpu.GetCpus())
	if err != nil {
		t.Fatal(err)
	}
	return set
}

// process is an agent in this process.
type process struct{ endpointstest.Process }

func (p *process) ready(t *testing.T) {
	t.Helper()
	endpointstest.Eventually(t, "the agent is ready", func() bool {
		code, _ := p.Fetch(t, "/readyz", "")
		return code == http.StatusOK
	})
}

// held is what /v1/node says that a pod holds.
func (p *process) held(t *testing.T, uid string) (cpus string) {
	t.Helper()
	code, body := p.Fetch(t, "/v1/node", "viewer")
	var status spec.NodeStatus
	if err := json.Unmarshal([]byte(body), &status); code != http.StatusOK || err != nil {
		t.Fatalf("%d %s: %v", code, body, err)
	}
	for _, socket := range status.Topology {
		for _, numa := range socket.Children {
			for _, a := range numa.Allocations {
				if a.UID == uid {
					cpus += a.CPUSet
				}
			}
		}
	}
	return cpus
}

// The whole agent, without an API server: it places pods through the real runtime protocol, says what it did, and remembers it.
func TestAgentAlone(t *testing.T) {
	h := newHost(t)
	h.startRuntime(t)
	p := h.startAgent(t, nil)
	p.ready(t)
	dedicated := map[string]string{spec.LabelQoS: string(spec.QoSDedicated)}
	own := h.run(t, "own", 2048, dedicated, map[string]string{spec.AnnotationNUMA: spec.NUMABound, spec.AnnotationNUMANodes: "1:2/64Mi"})
	shared := h.run(t, "shared", 1024, nil, nil)
	if own.Len() != 2 || shared.IsEmpty() || !own.Intersection(shared).IsEmpty() {
		t.Errorf("own %v, shared %v", own, shared)
	}
	if got := p.held(t, "own"); got != own.String() {
		t.Errorf("/v1/node says %q, it has %v", got, own)
	}
	endpointstest.Eventually(t, "the kernel has everything", func() bool {
		h.cgroups.Lock()
		defer h.cgroups.Unlock()
		return h.cgroups.Files["kubepods/burstable/podown/c-own/cpuset.cpus"] == own.String() &&
			!slices.Contains(slices.Collect(maps.Values(h.cgroups.Files)), "")
	})
	_, metrics := p.Fetch(t, "/metrics", "")
	for _, want := range []string{
		`hilbert_agent_promises_total{outcome="kept"} 1`, "hilbert_agent_runtime_connected 1", "hilbert_agent_pods 2", "hilbert_agent_ready 1", "hilbert_build_info{",
	} {
		if !strings.Contains(metrics, want) {
			t.Errorf("no %s in the metrics", want)
		}
	}
	endpointstest.Eventually(t, "it observes", func() bool {
		code, body := p.Fetch(t, "/v1/observation", "")
		return code == http.StatusOK && strings.Contains(body, "c-own")
	})
	p.Stop(t)
	before := maps.Clone(h.cgroups.Files)
	p = h.startAgent(t, nil)
	p.ready(t)
	if got := p.held(t, "own"); got != own.String() {
		t.Errorf("after a restart it has %q, before %v", got, own)
	}
	endpointstest.Eventually(t, "it has ticked", func() bool {
		_, metrics := p.Fetch(t, "/metrics", "")
		return !strings.Contains(metrics, "hilbert_agent_ticks_total 0\n")
	})
	h.cgroups.Lock()
	if !maps.Equal(before, h.cgroups.Files) {
		t.Errorf("a restart changes what runs: %v, before %v", h.cgroups.Files, before)
	}
	h.cgroups.Unlock()
	p.Stop(t)
}

// Without a runtime the agent runs, is alive and says that it is not ready.
func TestAgentWithoutRuntime(t *testing.T) {
	h := newHost(t)
	p := h.startAgent(t, nil)
	endpointstest.Eventually(t, "it says why it is not ready", func() bool {
		code, body := p.Fetch(t, "/readyz", "")
		return code == http.StatusServiceUnavailable && strings.Contains(body, "is the runtime running, and NRI enabled")
	})
	if code, _ := p.Fetch(t, "/livez", ""); code != http.StatusOK {
		t.Errorf("livez: %d", code)
	}
	_, body := p.Fetch(t, "/v1/node", "")
	if !strings.Contains(body, spec.ReasonRuntimeLost) {
		t.Errorf("no condition in %s", body)
	}
	p.Stop(t)
}

// With an API server what a pod holds is told there: the node's confirmation of what the Binding promised. A pod whose promise is broken
// is evicted, and an event says why.
func TestAgentWithAPIServer(t *testing.T) {
	s := standin.New(t)
	const reports = "customnoderesources.node.hilbert.dev"
	s.Offer(reports, "v1alpha1")
	s.SetNode(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1"}})
	h := newHost(t)
	h.startRuntime(t)
	p := h.startAgent(t, s)
	p.ready(t)
	dedicated := map[string]string{spec.LabelQoS: string(spec.QoSDedicated)}
	own := h.run(t, "own", 4096, dedicated, map[string]string{spec.AnnotationNUMANodes: "1:4"})
	if own.String() != "4-7" {
		t.Errorf("it has %v", own)
	}
	told := func(text string) func() bool {
		return func() bool {
			o := s.Stored(reports, "", "n1")
			data, err := json.Marshal(o)
			return o != nil && err == nil && strings.Contains(string(data), text)
		}
	}
	endpointstest.Eventually(t, "the allocation is told", told(`"uid":"own"`))
	s.SetPod(&corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "broken", UID: "uid-broken"},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "c"}}},
	})
	pod := &api.PodSandbox{
		Id: "s-broken", Uid: "uid-broken", Namespace: "default", Name: "broken", Labels: dedicated, Annotations: map[string]string{spec.AnnotationNUMANodes: "1:4"},
		Linux: &api.LinuxPodSandbox{CgroupParent: "/kubepods/podbroken", PodResources: &api.LinuxResources{Cpu: &api.LinuxCPU{Shares: api.UInt64(4096)}}},
	}
	if err := h.nri.RunPodSandbox(t.Context(), &api.RunPodSandboxRequest{Pod: pod}); err == nil || !strings.Contains(err.Error(), spec.ReasonPromiseBroken) {
		t.Errorf("the promise of a NUMA node that is taken: %v", err)
	}
	endpointstest.Eventually(t, "the report names it", told(`"brokenPromises":[{"message":"`))
	endpointstest.Eventually(t, "the NUMA node is closed", told(`"closed":true`))
	endpointstest.Eventually(t, "the report says why", told(`"reason":"PromiseBroken"`))
	p.Stop(t)
}

// Where a promise could not be kept by any means the agent does not begin.
func TestAgentRefusesToStart(t *testing.T) {
	for name, c := range map[string]struct {
		break_ func(*host)
		want   string
	}{
		"no cpuset": {func(h *host) { h.cgroups.Enabled = []string{"cpu", "memory"} }, "no controller cpuset"},
		"cgroup v1": {func(h *host) {
			h.roots.Kernel = func() (realnode.KernelFiles, error) { return nil, errors.New("no cgroup v2") }
		}, "no cgroup v2"},
		"no CPUs": {func(h *host) { h.roots.Sys = filepath.Join(h.roots.Sys, "fs") }, "read the machine"},
	} {
		h := newHost(t)
		c.break_(h)
		err := Run(t.Context(), h.config, Options{Log: slog.New(slog.DiscardHandler), Roots: h.roots})
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// Two agents of one node never run at once.
func TestAgentWaitsForTheOther(t *testing.T) {
	h := newHost(t)
	first := h.startAgent(t, nil)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		ended <- Run(ctx, h.config, Options{Log: slog.New(slog.DiscardHandler), Roots: h.roots, OnListen: func(string) { t.Error("both run") }})
	}()
	select {
	case err := <-ended:
		t.Errorf("it gave up: %v", err)
	case <-time.After(200 * time.Millisecond):
	}
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	first.Stop(t)
	h.startAgent(t, nil).Stop(t)
}

func TestNodeMode(t *testing.T) {
	for name, c := range map[string]struct {
		configured  string
		cpu, memory string
		want        string
	}{
		"no files":      {spec.ModeAuto, "", "", spec.ModeAgent},
		"off":           {spec.ModeAuto, `{"policyName":"none","defaultCpuSet":"","checksum":1}`, `{"policyName":"None","checksum":1}`, spec.ModeAgent},
		"CPUs":          {spec.ModeAuto, `{"policyName":"static","defaultCpuSet":"0-7"}`, "", spec.ModeKubelet},
		"memory":        {spec.ModeAuto, `{"policyName":"none"}`, `{"policyName":"Static"}`, spec.ModeKubelet},
		"half a file":   {spec.ModeAuto, `{"policyNa`, "", spec.ModeKubelet},
		"no policy":     {spec.ModeAuto, `{}`, "", spec.ModeKubelet},
		"said":          {spec.ModeAgent, `{"policyName":"static"}`, "", spec.ModeAgent},
		"said, kubelet": {spec.ModeKubelet, "", "", spec.ModeKubelet},
	} {
		dir := t.TempDir()
		if c.cpu != "" {
			writeFile(t, filepath.Join(dir, realnode.CPUManagerState), c.cpu)
		}
		if c.memory != "" {
			writeFile(t, filepath.Join(dir, realnode.MemoryManagerState), c.memory)
		}
		mode, why, known := realnode.Roots{}.Mode(t.Context(), &spec.Node{Mode: c.configured, KubeletDirectory: dir})
		if mode != c.want || why == "" || !known {
			t.Errorf("%s: %s (%v), because %q", name, mode, known, why)
		}
	}
}
