package daemon

import (
	"log/slog"
	"path/filepath"
	"testing"

	"hilbert.dev/hilbert/topology"
)

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
