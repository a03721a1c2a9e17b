package cdi

import "testing"

func TestDrops(t *testing.T) {
	for runtime, want := range map[string]bool{
		"containerd v2.0.0": true, "containerd 2.0.7+unknown": true, "containerd v1.7.29": true, "containerd v1.6.40": true, "containerd v2.0": true,
		"containerd v2.1.0": false, "containerd 2.1.0-rc.1": false, "containerd v2.4.2": false, "containerd v1.7.30": false, "containerd v3.0.0": false,
		"containerd": false, "containerd unknown": false, "cri-o 1.34.0": false, "": false,
	} {
		if why := Drops(runtime); (why != "") != want {
			t.Errorf("%q: %q", runtime, why)
		}
	}
}
