package enforce

import (
	"slices"
	"testing"
)

func TestQoSCgroups(t *testing.T) {
	plain := []string{"kubepods/burstable", "kubepods/besteffort"}
	slice := []string{"kubepods.slice/kubepods-burstable.slice", "kubepods.slice/kubepods-besteffort.slice"}
	for _, c := range []struct {
		pod  string
		want []string
	}{
		{"kubepods/pod1", plain},
		{"kubepods/burstable/pod1", plain},
		{"kubepods/besteffort/pod1", plain},
		{"kubepods.slice/kubepods-pod1.slice", slice},
		{"kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod1.slice", slice},
		{"kubepods.slice/kubepods-besteffort.slice/kubepods-besteffort-pod1.slice", slice},
		{"kubelet/kubepods/besteffort/pod1", []string{"kubelet/kubepods/burstable", "kubelet/kubepods/besteffort"}},
		{ // --cgroup-root=/a
			"a.slice/a-kubepods.slice/a-kubepods-burstable.slice/a-kubepods-burstable-pod1.slice",
			[]string{"a.slice/a-kubepods.slice/a-kubepods-burstable.slice", "a.slice/a-kubepods.slice/a-kubepods-besteffort.slice"},
		},
		{"system.slice/containerd.service", nil},
		{"burstable/pod1", nil},
		{"a-kubepods/pod1", nil},
		{"kubepods/other/pod1", nil},
		{"kubepods.slice/burstable/pod1", nil},
		{"kubepods/pod1/container", nil},
		{"kubepods", nil},
		{"pod1", nil},
		{"", nil},
	} {
		if got := QoSCgroups(c.pod); !slices.Equal(got, c.want) {
			t.Errorf("QoSCgroups(%q) = %q, want %q", c.pod, got, c.want)
		}
	}
}
