package gpu

import "testing"

func TestRevModels(t *testing.T) {
	t.Skip("issue 16: The node's promise holds when the agent, a disk or the hardware does not")
	for _, n := range []string{"NVIDIA RTX A4000", "NVIDIA RTX A2000 12GB", "NVIDIA A10G", "NVIDIA RTX A5000", "NVIDIA H100 NVL", "NVIDIA T400 4GB", "NVIDIA RTX 4090", "NVIDIA GB200"} {
		t.Log(n, multiprocessorsOf(n, nil))
	}
}
