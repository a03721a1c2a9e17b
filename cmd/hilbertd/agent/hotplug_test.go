package agent

import (
	"context"
	"log/slog"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/cmd/hilbertd/endpoints/endpointstest"
	"hilbert.dev/hilbert/topology"
)

// A CPU that a pod has for itself goes offline: the agent begins anew without it, gives the pod another, takes the CPU out of every cgroup, and says so. When the
// CPU comes back, it may be given again.
func TestHotplug(t *testing.T) {
	h := newHost(t)
	h.startRuntime(t)
	uevents := make(chan struct{})
	h.roots.Uevents = func(ctx context.Context, _ *slog.Logger, happened func()) {
		for {
			select {
			case <-ctx.Done():
				return
			case <-uevents:
				happened()
			}
		}
	}
	addresses := make(chan string, 8)
	ctx, cancel := context.WithCancel(t.Context())
	p := &process{endpointstest.Process{Cancel: cancel, Ended: make(chan error, 1)}}
	go func() {
		p.Ended <- Run(ctx, h.config, Options{Log: slog.New(slog.DiscardHandler), Roots: h.roots, OnListen: func(address string) { addresses <- address }})
	}()
	p.Address = <-addresses
	p.ready(t)
	dedicated := map[string]string{spec.LabelQoS: string(spec.QoSDedicated)}
	own := h.run(t, "own", 2048, dedicated, map[string]string{spec.AnnotationNUMA: spec.NUMABound, spec.AnnotationNUMANodes: "1:2/64Mi"})
	h.run(t, "shared", 1024, nil, nil)
	lost := own.Next(0)
	hotplug := func(online, second string) {
		writeFile(t, filepath.Join(h.roots.Sys, "devices/system/cpu/online"), online+"\n")
		writeFile(t, filepath.Join(h.roots.Sys, "devices/system/node/node1/cpulist"), second+"\n")
		uevents <- struct{}{}
		p.Address = <-addresses
		p.ready(t)
	}
	all := topology.CPUs(0, 1, 2, 3, 4, 5, 6, 7)
	near := topology.CPUs(4, 5, 6, 7)
	gone := topology.CPUs(lost)
	hotplug(all.Minus(gone).String(), near.Minus(gone).String())
	code, node := p.Fetch(t, "/v1/node", "viewer")
	if code != http.StatusOK || strings.Contains(node, `"cpuset": "4-7"`) {
		t.Errorf("%d %s", code, node)
	}
	endpointstest.Eventually(t, "the pod has two CPUs that are online", func() bool {
		cpus, err := topology.ParseCPUSet(p.held(t, "own"))
		return err == nil && cpus.Len() == 2 && !cpus.Has(lost)
	})
	endpointstest.Eventually(t, "no cgroup has the CPU that is offline", func() bool {
		h.cgroups.Lock()
		defer h.cgroups.Unlock()
		for name, value := range h.cgroups.Files {
			if cpus, err := topology.ParseCPUSet(value); strings.HasSuffix(name, "cpuset.cpus") && (err != nil || cpus.Has(lost)) {
				return false
			}
		}
		return true
	})
	if _, metrics := p.Fetch(t, "/metrics", ""); !strings.Contains(metrics, `reason="MachineChanged"`) {
		t.Error("nothing is said of it in the metrics")
	}
	hotplug(all.String(), near.String())
	if code, node := p.Fetch(t, "/v1/node", "viewer"); code != http.StatusOK || !strings.Contains(node, `"cpuset": "4-7"`) {
		t.Errorf("after the CPU came back: %d %s", code, node)
	}
	p.Stop(t)
}
