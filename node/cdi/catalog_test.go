package cdi

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// specification has the form of what nvidia-ctk writes; %DRIVER% is the driver's version.
const specification = `---
cdiVersion: 0.5.0
kind: nvidia.com/gpu
devices:
    - name: "0"
      containerEdits:
        deviceNodes:
            - path: /dev/nvidia0
            - path: /dev/dri/card1
    - name: GPU-a
      containerEdits:
        deviceNodes:
            - path: /dev/nvidia0
              hostPath: /run/nvidia/driver/dev/nvidia0
            - path: /dev/dri/card1
    - name: "1"
      containerEdits:
        deviceNodes:
            - path: /dev/nvidia1
    - name: "2:0"
      containerEdits:
        deviceNodes:
            - path: /dev/nvidia2
            - path: /dev/nvidia-caps/nvidia-cap21
            - path: /dev/nvidia-caps/nvidia-cap22
    - name: MIG-c
      containerEdits:
        deviceNodes:
            - path: /dev/nvidia2
            - path: /dev/nvidia-caps/nvidia-cap21
            - path: /dev/nvidia-caps/nvidia-cap22
    - name: all
      containerEdits:
        deviceNodes:
            - path: /dev/nvidia0
            - path: /dev/nvidia1
            - path: /dev/nvidia2
containerEdits:
    env:
        - NVIDIA_VISIBLE_DEVICES=void
    deviceNodes:
        - path: /dev/nvidiactl
        - path: /dev/nvidia-uvm
    mounts:
        - hostPath: /usr/lib/x86_64-linux-gnu/libcuda.so.590.44.01
          containerPath: /usr/lib/x86_64-linux-gnu/libcuda.so.590.44.01
          options: [ro, nosuid, nodev, bind]
        - hostPath: /usr/lib/x86_64-linux-gnu/libnvidia-ml.so.590.44.01
          containerPath: /usr/lib/x86_64-linux-gnu/libnvidia-ml.so.590.44.01
          options: [ro, nosuid, nodev, bind]
`

// catalog reads files by name, "etc/a.yaml" of the weaker directory and "run/a.yaml" of the stronger.
func catalog(t *testing.T, files map[string]string) *Catalog {
	t.Helper()
	dir := t.TempDir()
	for _, sub := range []string{"etc", "run"} {
		if err := os.Mkdir(filepath.Join(dir, sub), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	c, err := ReadCatalog(filepath.Join(dir, "etc"), filepath.Join(dir, "run"), filepath.Join(dir, "none"))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestNames(t *testing.T) {
	whole := map[string]string{"run/nvidia.yaml": specification}
	const driver = "590.44.01"
	for _, c := range []struct {
		what     string
		files    map[string]string
		gpu      GPU
		instance string
		want     string // a name, or a part of why there is none
	}{
		{"by its UUID", whole, GPU{"GPU-a", "/dev/nvidia0", driver}, "", "nvidia.com/gpu=GPU-a"},
		{"with nothing else known", whole, GPU{UUID: "GPU-a"}, "", "nvidia.com/gpu=GPU-a"},
		{"by its file", whole, GPU{"GPU-b", "/dev/nvidia1", driver}, "", "nvidia.com/gpu=1"},
		{"a divided one is not whole", whole, GPU{"GPU-c", "/dev/nvidia2", driver}, "", "older than it, or names others"},
		{"not in it", whole, GPU{"GPU-d", "/dev/nvidia3", driver}, "", "older than it, or names others"},
		{"an instance", whole, GPU{"GPU-c", "/dev/nvidia2", driver}, "MIG-c", "nvidia.com/gpu=MIG-c"},
		{"an instance of another GPU", whole, GPU{"GPU-a", "/dev/nvidia0", driver}, "MIG-c", "opens /dev/nvidia2, and the driver has that GPU at /dev/nvidia0"},
		{"an instance not in it", whole, GPU{"GPU-c", "/dev/nvidia2", driver}, "MIG-d", "older than it"},
		{"an instance without a name", whole, GPU{"GPU-c", "/dev/nvidia2", driver}, " ", "no UUID"},
		{"no UUID", whole, GPU{"", "/dev/nvidia0", driver}, "", "no UUID"},
		{"files were numbered anew", whole, GPU{"GPU-a", "/dev/nvidia1", driver}, "", "GPU-a opens /dev/nvidia0, and the driver has that GPU at /dev/nvidia1"},
		{"another driver runs", whole, GPU{"GPU-a", "/dev/nvidia0", "595.1"}, "", "of driver 590.44.01, and 595.1 runs"},
		{"another driver runs, by file", whole, GPU{"GPU-b", "/dev/nvidia1", "595.1"}, "", "of driver 590.44.01, and 595.1 runs"},
		{"without libraries nothing is said of the driver", map[string]string{"run/n.yaml": strings.ReplaceAll(specification, "libcuda", "libother")}, GPU{"GPU-a", "/dev/nvidia0", "595.1"}, "", "nvidia.com/gpu=GPU-a"},
		{"no specification", nil, GPU{"GPU-a", "/dev/nvidia0", driver}, "", "nvidia-ctk cdi generate"},
		{"one that cannot be read", map[string]string{"etc/n.yaml": "kind: nvidia.com/gpu\n"}, GPU{"GPU-a", "/dev/nvidia0", driver}, "", "n.yaml"},
		{"one of another vendor", map[string]string{"etc/n.yaml": strings.ReplaceAll(specification, "nvidia.com", "amd.com")}, GPU{"GPU-a", "/dev/nvidia0", driver}, "", "nvidia-ctk cdi generate"},
		{"the same twice", map[string]string{"run/a.yaml": specification, "run/b.yaml": specification}, GPU{"GPU-a", "/dev/nvidia0", driver}, "", "conflicting device"},
		{"a stronger one", map[string]string{"etc/a.yaml": strings.ReplaceAll(specification, "/dev/nvidia0", "/dev/nvidia9"), "run/b.yaml": specification}, GPU{"GPU-a", "/dev/nvidia0", driver}, "", "nvidia.com/gpu=GPU-a"},
		{"one that is all of them", map[string]string{"run/a.yaml": strings.ReplaceAll(specification, "name: all", "name: GPU-x")}, GPU{"GPU-x", "/dev/nvidia0", driver}, "", "opens /dev/nvidia0, /dev/nvidia1, /dev/nvidia2 at once"},
	} {
		cat := catalog(t, c.files)
		var got string
		var err error
		if c.instance == "" {
			got, err = cat.GPU(c.gpu)
		} else {
			got, err = cat.Instance(c.gpu, strings.TrimSpace(c.instance))
		}
		named := strings.HasPrefix(c.want, Kind+"=")
		if named && (err != nil || got != c.want) || !named && (!errors.Is(err, ErrNoDevice) || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: %q, %v", c.what, got, err)
		}
	}
	if got := catalog(t, whole).All(); got != "nvidia.com/gpu=all" {
		t.Errorf("all is %q", got)
	}
	var empty Catalog
	if _, err := empty.GPU(GPU{UUID: "GPU-a"}); !errors.Is(err, ErrNoDevice) || empty.All() != "" {
		t.Errorf("an empty catalog: %v", err)
	}
}
