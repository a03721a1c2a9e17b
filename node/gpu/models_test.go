package gpu

import "testing"

// A model that is not in the table has no known grain, however much its name looks like one that is: with a wrong one the slices of a GPU would not add up.
func TestModels(t *testing.T) {
	for name, want := range map[string]uint16{
		"NVIDIA A100-SXM4-40GB": 108, "NVIDIA A100 80GB PCIe": 108, "NVIDIA H100 80GB HBM3": 132, "NVIDIA H100 PCIe": 114, "NVIDIA H100 NVL": 132,
		"NVIDIA GH200 480GB": 132, "NVIDIA L40S": 142, "NVIDIA L4": 58, "Tesla T4": 40, "Tesla V100-SXM2-32GB": 80, "NVIDIA A2": 10,
		"NVIDIA RTX A4000": 0, "NVIDIA RTX A2000 12GB": 0, "NVIDIA A10G": 0, "NVIDIA RTX A5000": 0, "NVIDIA T400 4GB": 0, "NVIDIA RTX 4090": 0, "NVIDIA GB200": 0,
		"NVIDIA A1000": 0, "": 0,
	} {
		if got := multiprocessorsOf(name, nil); got != want {
			t.Errorf("%q has %d multiprocessors, want %d", name, got, want)
		}
	}
	if got := multiprocessorsOf("NVIDIA A10G", map[string]uint16{"NVIDIA A10G": 80}); got != 80 {
		t.Errorf("the settings say 80, and it has %d", got)
	}
}
