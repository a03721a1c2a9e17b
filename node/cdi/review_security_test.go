package cdi

import "testing"

func TestSecMounts(t *testing.T) {
	t.Skip("issue 17: Hostile tenants, captured nodes: least privilege that is shown")
	for _, m := range []string{"/var/run/nvidia-container-devices/all", "/var/run//nvidia-container-devices/all", "/var/run/./nvidia-container-devices/all", "/var/lib/../run/nvidia-container-devices/all", "/var/run/nvidia-container-devicesall"} {
		e := Inject(&Node{Ours: true}, &Pod{}, &Container{Name: "c", Mounts: []string{m}})
		t.Logf("%-50s removed=%v", m, e.Without)
	}
	e := Inject(&Node{Ours: true}, &Pod{}, &Container{Name: "c", Env: []string{"NVIDIA_VISIBLE_DEVICES=all", "NVIDIA_VISIBLE_DEVICES=all"}})
	t.Log(e)
}
