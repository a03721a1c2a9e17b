package realnode

import (
	"cmp"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"hilbert.dev/hilbert/node/evict"
	"hilbert.dev/hilbert/node/storage"
	"hilbert.dev/hilbert/topology"
)

func TestKubeletThresholds(t *testing.T) {
	machine := &topology.Machine{NUMA: []topology.NUMANode{{Memory: 1 << 30}, {Memory: 3 << 30}}}
	for name, c := range map[string]struct {
		text string
		want []evict.Threshold
		err  string
	}{
		"none said": {"kind: KubeletConfiguration\n", []evict.Threshold{
			{Signal: "imagefs.available", Share: 0.15},
			{Signal: "imagefs.inodesFree", Share: 0.05},
			{Signal: "memory.available", Amount: 100 << 20, Total: 4 << 30},
			{Signal: "nodefs.available", Share: 0.1},
			{Signal: "nodefs.inodesFree", Share: 0.05},
		}, ""},
		"hard and soft": {"evictionHard: {memory.available: 5%}\nevictionSoft: {memory.available: 1Gi, pid.available: 10%}\n", []evict.Threshold{
			{Signal: "memory.available", Share: 0.05, Total: 4 << 30},
			{Signal: "memory.available", Soft: true, Amount: 1 << 30, Total: 4 << 30},
			{Signal: "pid.available", Soft: true, Share: 0.1},
		}, ""},
		"no amount":     {"evictionHard: {memory.available: much}\n", nil, "memory.available"},
		"no percentage": {"evictionHard: {nodefs.available: 120%}\n", nil, "0% to 100%"},
		"no YAML":       {"evictionHard: [\n", nil, "config.yaml"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			if err := os.WriteFile(filepath.Join(dir, "config.yaml"), []byte(c.text), 0o600); err != nil {
				t.Fatal(err)
			}
			got, err := fileThresholds(dir, machine)
			if c.err != "" {
				if err == nil || !strings.Contains(err.Error(), c.err) {
					t.Errorf("got %v, want an error with %q", err, c.err)
				}
				return
			}
			slices.SortFunc(got, func(x, y evict.Threshold) int {
				return cmp.Or(cmp.Compare(x.Signal, y.Signal), cmp.Compare(x.Amount, y.Amount))
			})
			if err != nil || !slices.Equal(got, c.want) {
				t.Errorf("got %+v, %v, want %+v", got, err, c.want)
			}
		})
	}
	// What the kubelet says counts, whatever its file says.
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "config.yaml"), []byte("evictionHard: {memory.available: 5%}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	said := &storage.KubeletConfiguration{Hard: map[string]string{"memory.available": "2Gi"}}
	if got, err := thresholds(said, "/configz", machine); err != nil || !slices.Equal(got, []evict.Threshold{{Signal: "memory.available", Amount: 2 << 30, Total: 4 << 30}}) {
		t.Errorf("a kubelet that runs with 2Gi: %+v, %v", got, err)
	}
	// Our marks lie above what a kubelet does by itself, and not above one that evicts earlier.
	params := evict.Defaults()
	if got, err := fileThresholds(t.TempDir(), machine); err == nil {
		t.Errorf("a directory that is not mounted counts as a kubelet without a file: %+v", got)
	}
	mounted := t.TempDir()
	if err := os.WriteFile(filepath.Join(mounted, CPUManagerState), []byte(`{"policyName":"none"}`), 0o600); err != nil {
		t.Fatal(err)
	}
	defaults, err := fileThresholds(mounted, machine)
	if err != nil || params.Check(defaults) != nil {
		t.Errorf("%v, %v", err, params.Check(defaults))
	}
	if err := params.Check([]evict.Threshold{{Signal: "memory.available", Share: 0.2, Total: 4 << 30}}); err == nil {
		t.Error("a kubelet that evicts at 20 % is accepted")
	}
}

// The kubelet is asked where the pod is told the node's address, and nobody else is.
func TestStorageReader(t *testing.T) {
	t.Setenv("NODE_ADDRESS", "")
	if r := Real().StorageReader("/var/lib/kubelet"); r != nil {
		t.Errorf("without an address %+v is asked", r)
	}
	t.Setenv("NODE_ADDRESS", "10.0.0.7")
	k, ok := Real().StorageReader("/var/lib/kubelet").(*storage.Kubelet)
	if !ok || k.Address != "10.0.0.7" || k.Certificates[0] != "/var/lib/kubelet/pki/kubelet-server-current.pem" {
		t.Errorf("got %+v", k)
	}
}
