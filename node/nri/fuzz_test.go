package nri

import (
	"io/fs"
	"testing"
	"unicode/utf8"

	"github.com/containerd/nri/pkg/api"
)

// FuzzMessages: whatever the runtime says of a pod and its container, the agent reads it without harm, and a cgroup that it takes from it leads nowhere but to itself.
func FuzzMessages(f *testing.F) {
	box := &api.PodSandbox{
		Id: "s", Uid: "u", Namespace: "ns", Name: "p", Labels: map[string]string{"hilbert.dev/qos-level": "dedicated_cores"},
		Linux: &api.LinuxPodSandbox{CgroupParent: "/kubepods/podu", PodResources: &api.LinuxResources{Cpu: &api.LinuxCPU{Shares: api.UInt64(1024)}}},
	}
	c := &api.Container{
		Id: "c", PodSandboxId: "s", Env: []string{"NVIDIA_VISIBLE_DEVICES=all", "x"}, Mounts: []*api.Mount{{Destination: "/dev/shm"}, nil}, User: &api.User{Uid: 7},
		Linux: &api.LinuxContainer{CgroupsPath: "kubepods-podu.slice:cri-containerd:c", OomScoreAdj: api.Int(900), Resources: &api.LinuxResources{Cpu: &api.LinuxCPU{Cpus: "0-3", Quota: api.Int64(-1)}}},
	}
	outside := &api.Container{Id: "c", PodSandboxId: "s", Linux: &api.LinuxContainer{CgroupsPath: "/kubepods/podu/../../system.slice"}}
	for _, m := range []interface{ MarshalVT() ([]byte, error) }{box, c, outside, &api.PodSandbox{}, &api.Container{}} {
		text, err := m.MarshalVT()
		if err != nil {
			f.Fatal(err)
		}
		f.Add(text, text)
	}
	f.Fuzz(func(t *testing.T, pod, container []byte) {
		var p api.PodSandbox
		var c api.Container
		if p.UnmarshalVT(pod) != nil || c.UnmarshalVT(container) != nil {
			t.Skip()
		}
		sandbox, made := sandboxOf(&p), containerOf(&c)
		for _, dir := range []string{sandbox.Cgroup, made.Cgroup} {
			if dir != "" && (dir == "." || !fs.ValidPath(dir) && utf8.ValidString(dir)) {
				t.Errorf("the cgroup %q is none below the root", dir)
			}
		}
		if made.CPUs.Len() < 0 || made.Trouble == "" && made.Cgroup == "" {
			t.Errorf("%+v is no trouble", made)
		}
	})
}
