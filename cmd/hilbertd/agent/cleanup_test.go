package agent

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/containerd/nri/pkg/api"

	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/cmd/hilbertd/endpoints/endpointstest"
	"hilbert.dev/hilbert/node"
	"hilbert.dev/hilbert/node/cleanup"
	"hilbert.dev/hilbert/node/store"
	"hilbert.dev/hilbert/node/watchdog"
	"hilbert.dev/hilbert/topology"
)

// cleanUp runs a cleanup of the host.
func (h *host) cleanUp(ctx context.Context) error {
	return cleanUp(ctx, h.config, slog.New(slog.DiscardHandler), h.roots)
}

// pod1 is a pod's UID, as the kubelet makes them.
const pod1 = "0e1f2a3b-0000-4000-8000-000000000001"

// withCgroups gives the host's hierarchy what all pods may use, and directories for its files.
func (h *host) withCgroups(t *testing.T) {
	t.Helper()
	h.cgroups.Lock()
	defer h.cgroups.Unlock()
	h.cgroups.Files["kubepods/cpuset.cpus.effective"], h.cgroups.Files["kubepods/cpuset.mems.effective"] = "0-7", "0-1"
	for name := range h.cgroups.Files {
		if err := os.MkdirAll(filepath.Join(h.roots.Cgroups(), filepath.Dir(name)), 0o700); err != nil {
			t.Fatal(err)
		}
	}
}

// An agent runs a pod and goes; the cleanup gives its CPUs back, in the kernel and in the runtime's records, and leaves no file.
func TestCleanup(t *testing.T) {
	h := newHost(t)
	h.startRuntime(t)
	h.config.Node.QuietCPUs = spec.QuietCPUs{Interrupts: true, Services: true}
	interrupt := filepath.Join(h.roots.Proc, "irq", "24", "smp_affinity_list")
	writeFile(t, interrupt, "0-7\n")
	h.cgroups.Files["system.slice/cpuset.cpus"], h.cgroups.Files["cpuset.cpus.effective"] = "2-7", "0-7"
	p := h.startAgent(t, nil)
	p.ready(t)
	dedicated := map[string]string{spec.LabelQoS: string(spec.QoSDedicated)}
	h.run(t, pod1, 2048, dedicated, map[string]string{spec.AnnotationNUMA: spec.NUMABound, spec.AnnotationNUMANodes: "1:2/64Mi"})
	set := "kubepods/burstable/pod" + pod1 + "/c-" + pod1 + "/cpuset.cpus"
	endpointstest.Eventually(t, "the container has its CPUs", func() bool {
		value, _ := h.cgroups.Read(set)
		return value != ""
	})
	quiets := func() [2]string {
		text, err := os.ReadFile(interrupt)
		if err != nil {
			t.Fatal(err)
		}
		services, _ := h.cgroups.Read("system.slice/cpuset.cpus")
		return [2]string{strings.TrimSpace(string(text)), strings.TrimSpace(services)}
	}
	held, _ := h.cgroups.Read(set)
	var own topology.CPUSet
	endpointstest.Eventually(t, "interrupts and services leave its CPUs", func() bool {
		own, _ = topology.ParseCPUSet(held)
		all, _ := topology.ParseCPUSet("0-7")
		most, _ := topology.ParseCPUSet("2-7")
		return quiets() == [2]string{all.Minus(own).String(), most.Minus(own).String()}
	})
	h.withCgroups(t)

	ctx, cancel := context.WithTimeoutCause(t.Context(), 100*time.Millisecond, errors.New("no time"))
	defer cancel()
	if err := h.cleanUp(ctx); err == nil {
		t.Fatal("it cleaned up under a running agent")
	}
	p.Stop(t)
	shared := watchdog.Directory(watchdogPath(h.roots))
	if plan, err := shared.Plan(); err != nil || plan == nil {
		t.Fatalf("the agent has left no plan for its absence: %v", err)
	}
	pods, foreign := filepath.Join(h.roots.Sys, "fs/resctrl/mon_groups/hilbert-pod-web"), filepath.Join(h.roots.Sys, "fs/resctrl/mon_groups/telegraf")
	for _, dir := range []string{filepath.Join(h.roots.Sys, "fs/resctrl/hilbert-online"), pods, foreign, h.roots.CDI[0]} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	writeFile(t, filepath.Join(h.roots.CDI[0], "hilbert.dev-nic.json"), "{}")
	h.uncapped = nil
	if err := h.cleanUp(t.Context()); err != nil {
		t.Fatal(err)
	}
	if value, _ := h.cgroups.Read(set); value != "0-7" {
		t.Errorf("the container has the CPUs %q", value)
	}
	if got := quiets(); got != [2]string{"0-7", "2-7"} {
		t.Errorf("interrupts and services have %q", got)
	}
	updated := h.lastUpdate()
	if len(updated) != 1 || updated[0].GetContainerId() != "c-"+pod1 || updated[0].GetLinux().GetResources().GetCpu().GetCpus() != "0-7" || updated[0].GetLinux().GetResources().GetCpu().GetMems() != "0-1" {
		t.Errorf("the runtime was told %v", updated)
	}
	left, _ := filepath.Glob(filepath.Join(h.config.Node.StateDirectory, "*"))
	plans, _ := filepath.Glob(filepath.Join(string(shared), "*"))
	left = append(left, plans...)
	if _, err := os.Stat(foreign); err != nil {
		t.Errorf("somebody else's group: %v", err)
	}
	for _, name := range []string{filepath.Join(h.roots.Sys, "fs/resctrl/hilbert-online"), pods, filepath.Join(h.roots.CDI[0], "hilbert.dev-nic.json")} {
		if _, err := os.Stat(name); err == nil {
			left = append(left, name)
		}
	}
	if len(left) > 0 || len(h.uncapped) != 1 {
		t.Errorf("left: %v; the egress ceiling was taken back %d times", left, len(h.uncapped))
	}
	// A DaemonSet runs it again and again.
	if err := h.cleanUp(t.Context()); err != nil {
		t.Errorf("the second time: %v", err)
	}
}

// Without the runtime the kernel's files are given back all the same; the cleanup says that it is not complete, and keeps the record for another try.
func TestCleanupWithoutRuntime(t *testing.T) {
	h := newHost(t)
	h.cgroups.Files["kubepods/burstable/pod"+pod1+"/cpuset.cpus"] = "0-1"
	h.cgroups.Files["kubepods/burstable/pod"+pod1+"/memory.low"] = "4096"
	h.withCgroups(t)
	record := store.File(filepath.Join(h.config.Node.StateDirectory, setFile))
	if err := cleanup.Save(record, []cleanup.Part{cleanup.CPU}); err != nil {
		t.Fatal(err)
	}
	err := h.cleanUp(t.Context())
	if err == nil || !strings.Contains(err.Error(), "no NRI at") {
		t.Errorf("the error is %v", err)
	}
	files := h.cgroups.Files
	if set, low := strings.TrimSpace(files["kubepods/burstable/pod"+pod1+"/cpuset.cpus"]), files["kubepods/burstable/pod"+pod1+"/memory.low"]; set != "" || low != "4096" {
		t.Errorf("cpuset.cpus is %q, memory.low, which the agent never set, %q", set, low)
	}
	if parts, err := cleanup.Load(record); err != nil || !slices.Equal(parts, []cleanup.Part{cleanup.CPU}) {
		t.Errorf("recorded: %v (%v)", parts, err)
	}
}

// When lending is switched off, the next agent takes back what lending had set, once, and nothing that no agent had set.
func TestLendingSwitchedOff(t *testing.T) {
	stale := map[string]string{"memory.high": "4096", "memory.low": "4096", "io.weight": "default 800"}
	clean := map[string]string{"memory.high": "max", "memory.low": "0", "io.weight": "default 100"}
	pod := "kubepods/burstable/pod" + pod1
	for name, c := range map[string]struct {
		lent, lends bool
		want        map[string]string
	}{
		"switched off": {lent: true, want: clean},
		"still on":     {lent: true, lends: true, want: stale},
		"never on":     {want: stale}, // somebody else's
	} {
		t.Run(name, func(t *testing.T) {
			h := newHost(t)
			lending := c.lent
			h.config.Node.Lending.Enabled = &lending
			h.startAgent(t, nil).Stop(t)
			for file, value := range stale {
				h.cgroups.Files[pod+"/"+file] = value
			}
			h.withCgroups(t)
			lending = c.lends
			h.startAgent(t, nil).Stop(t)
			got := map[string]string{}
			for file := range stale {
				got[file] = h.cgroups.Files[pod+"/"+file]
			}
			if !maps.Equal(got, c.want) {
				t.Errorf("the pod has %v, want %v", got, c.want)
			}
			record := store.File(filepath.Join(h.config.Node.StateDirectory, setFile))
			want := []cleanup.Part{cleanup.CPU}
			if c.lends {
				want = cleanup.Parts()
			}
			if parts, err := cleanup.Load(record); err != nil || !slices.Equal(parts, want) {
				t.Errorf("recorded: %v (%v), want %v", parts, err, want)
			}
		})
	}
}

// An agent that leaves CPUs to the kubelet gives back what one before it has moved.
func TestQuietModeChanged(t *testing.T) {
	h := newHost(t)
	interrupt := filepath.Join(h.roots.Proc, "irq", "24", "smp_affinity_list")
	writeFile(t, interrupt, "0-3\n")
	h.cgroups.Files["cpuset.cpus.effective"] = "0-7"
	writeFile(t, filepath.Join(h.config.Node.StateDirectory, quietFile), `{"irq/24":{"before":"0-7","wrote":"0-3"}}`)
	resetUnset(h.config, spec.ModeKubelet, h.roots, h.cgroups, slog.New(slog.DiscardHandler))
	if text, err := os.ReadFile(interrupt); err != nil || strings.TrimSpace(string(text)) != "0-7" {
		t.Errorf("the interrupt has %q (%v)", text, err)
	}
}

// The cleanup knows every file that the agent keeps.
func TestCleanupKnowsStateFiles(t *testing.T) {
	var ports node.Ports
	keepIn("/state", &ports)
	kept := reflect.ValueOf(ports)
	for i := range kept.NumField() {
		if kept.Type().Field(i).Type != reflect.TypeFor[store.Store]() {
			continue
		}
		file, ok := reflect.TypeAssert[store.File](kept.Field(i))
		if !ok || !slices.Contains(stateFiles, filepath.Base(string(file))) {
			t.Errorf("%s, %v, is not removed", kept.Type().Field(i).Name, file)
		}
	}
}

// lastUpdate is what the runtime was last asked to change.
func (h *host) lastUpdate() []*api.ContainerUpdate {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.updates
}
