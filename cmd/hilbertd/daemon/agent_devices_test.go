package daemon

import (
	"log/slog"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"testing"

	"hilbert.dev/hilbert/kube"
	"hilbert.dev/hilbert/node/gpu"
	"hilbert.dev/hilbert/topology"
)

// What the API server says of who offers GPUs. What it does not say is not known, and a server without ResourceSlices has none.
func TestGPUOffers(t *testing.T) {
	const slices = "/apis/resource.k8s.io/v1/resourceslices"
	node := `{"status":{"capacity":{"cpu":"7910m","nvidia.com/gpu":"8"},"allocatable":{"nvidia.com/gpu":"0","nvidia.com/mig-1g.5gb":"2"}}}`
	for name, c := range map[string]struct {
		answers map[string]string // a path; else it is not there
		refuse  string            // a path that may not be asked for
		want    gpu.Evidence
	}{
		"no node":    {nil, "", gpu.Evidence{}},
		"forbidden":  {map[string]string{"/api/v1/nodes/n1": node}, slices, gpu.Evidence{NodeKnown: true}},
		"no slices":  {map[string]string{"/api/v1/nodes/n1": node}, "", gpu.Evidence{NodeKnown: true, SlicesKnown: true}},
		"DRA driver": {map[string]string{"/api/v1/nodes/n1": node, slices: `{"items":[{"spec":{"devices":[{},{}]}},{"spec":{"devices":[{}]}}]}`}, "", gpu.Evidence{NodeKnown: true, SlicesKnown: true, Slices: 3}},
		"older server": {
			map[string]string{"/api/v1/nodes/n1": node, "/apis/resource.k8s.io/v1beta1/resourceslices": `{"items":[{"spec":{"devices":[{}]}}]}`}, "",
			gpu.Evidence{NodeKnown: true, SlicesKnown: true, Slices: 1},
		},
	} {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			switch text := c.answers[r.URL.Path]; {
			case r.URL.Path == c.refuse:
				w.WriteHeader(http.StatusForbidden)
			case text == "":
				w.WriteHeader(http.StatusNotFound)
			default:
				_, _ = w.Write([]byte(text))
			}
		}))
		ask, err := gpuOffers(&kube.Connection{Host: s.URL}, "n1")
		if err != nil {
			t.Fatal(err)
		}
		got, err := ask(t.Context())
		if (err == nil) != c.want.SlicesKnown {
			t.Errorf("%s: %v", name, err)
		}
		if got.NodeKnown != c.want.NodeKnown || got.SlicesKnown != c.want.SlicesKnown || got.Slices != c.want.Slices {
			t.Errorf("%s: %+v", name, got)
		}
		if got.NodeKnown && (got.Offered["nvidia.com/gpu"] != 8 || got.Offered["nvidia.com/mig-1g.5gb"] != 2 || got.Offered["cpu"] == 0) {
			t.Errorf("%s: %v", name, got.Offered)
		}
		s.Close()
	}
}

// Without a driver there is nothing to own, and the cards are there all the same.
func TestEyesWithoutDriver(t *testing.T) {
	dir := t.TempDir()
	roots := nodeRoots{sys: filepath.Join(dir, "sys"), proc: filepath.Join(dir, "proc"), run: filepath.Join(dir, "run"), dev: filepath.Join(dir, "dev")}
	writeFile(t, filepath.Join(roots.sys, "class/net/eth0/speed"), "25000\n")
	writeFile(t, filepath.Join(roots.sys, "class/net/eth1/speed"), "-1\n")
	writeFile(t, filepath.Join(roots.proc, "sys/kernel/random/boot_id"), "first\n")
	m := &topology.Machine{Devices: []topology.Device{
		{Address: "a", Kind: topology.DeviceNIC, Names: []string{"eth0"}}, {Address: "b", Kind: topology.DeviceNIC, Names: []string{"eth1"}},
	}}
	l := newDeviceEyes(roots, m, nil, slog.New(slog.DiscardHandler)).Look(t.Context())
	if l.Loaded || l.Seen.Inventory != nil || !l.Seen.Gone || l.Seen.Boot != "first" || l.Offers.NodeKnown {
		t.Errorf("%+v", l)
	}
	if len(l.Bandwidth) != 1 || l.Bandwidth["a"] != 25000 {
		t.Errorf("bandwidth: %v", l.Bandwidth)
	}
	writeFile(t, filepath.Join(roots.proc, "driver/nvidia/version"), "NVRM version")
	writeFile(t, filepath.Join(roots.run, "hilbert/gpu/x"), "")
	e := newDeviceEyes(roots, m, nil, slog.New(slog.DiscardHandler))
	if l := e.Look(t.Context()); !l.Loaded || l.Seen.Inventory != nil || l.Seen.Why == "" {
		t.Errorf("a driver that says nothing: %+v", l)
	}
}
