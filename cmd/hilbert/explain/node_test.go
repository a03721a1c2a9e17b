package explain

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"hilbert.dev/hilbert/cmd/hilbert/reporttest"
)

// Whose the GPUs are, what is not promised for that, who has which, and what is not known.
func TestExplainNodeGPUs(t *testing.T) {
	said := make(map[string]string)
	for _, c := range reporttest.Devices(t) {
		var a nodeAnswer
		var b bytes.Buffer
		a.reported(c, time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC))
		if err := a.writeGPUs(&b); err != nil {
			t.Fatal(err)
		}
		said[c.Name] = b.String()
	}
	want := `GPUs: 4, owner kubelet: DevicePlugin: node.status offers nvidia.com/gpu 4.
The kubelet gives them out for a device plugin, whole and by number, and chooses which: no part of one, no PCIe switch and no NUMA node is promised.
Of the kubelet's devices: what the kubelet gave is not read: as of 2026-01-01T11:50:00Z: no answer.
Of the kubelet's devices: held, and not known which: ml/who nvidia.com/gpu "tegra".
ml/train has GPUs 2, given by the kubelet.
`
	if said["n7"] != want {
		t.Errorf("got\n%swant\n%s", said["n7"], want)
	}
	if got := said["n1"]; !strings.HasPrefix(got, "GPUs: 4, owner hilbert: -.\n") || !strings.Contains(got, "ml/serve-0 has GPUs 0:250/10240Mi/soft.\n") || strings.Contains(got, "kubelet") {
		t.Errorf("the agent's own: %s", got)
	}
	if said["n6"] != "" {
		t.Errorf("without GPUs: %s", said["n6"])
	}
}
