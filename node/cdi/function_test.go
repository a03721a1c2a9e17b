package cdi

import (
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	library "tags.cncf.io/container-device-interface/pkg/cdi"
)

// sysfs is a small /sys: a card with two functions of RDMA, one that is handed through, one that only has an interface, and one that is broken.
func sysfs(t *testing.T) fs.FS {
	t.Helper()
	root := t.TempDir()
	devices := filepath.Join(root, "bus", "pci", "devices")
	for _, dir := range []string{
		"0000:3b:00.0/infiniband_verbs/uverbs0", "0000:3b:00.0/infiniband_mad/umad0", "0000:3b:00.0/infiniband_mad/issm0",
		"0000:3b:00.1/infiniband_verbs/uverbs10", "0000:3b:00.1/infiniband_verbs/uverbsx", "0000:3b:00.2", "0000:3b:00.3/net/eth0", "0000:3b:00.4",
	} {
		if err := os.MkdirAll(filepath.Join(devices, dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for link, target := range map[string]string{
		"0000:3b:00.2/driver": "../../drivers/vfio-pci", "0000:3b:00.2/iommu_group": "../../../kernel/iommu_groups/42",
		"0000:3b:00.3/driver": "../../drivers/mlx5_core", "0000:3b:00.4/driver": "../../drivers/vfio-pci",
	} {
		if err := os.Symlink(target, filepath.Join(devices, link)); err != nil {
			t.Fatal(err)
		}
	}
	return os.DirFS(root)
}

func TestFiles(t *testing.T) {
	sys := sysfs(t)
	for _, c := range []struct {
		address, want string
		wrong         bool
	}{
		{"0000:3b:00.0", "/dev/infiniband/rdma_cm /dev/infiniband/umad0 /dev/infiniband/uverbs0", false},
		{"0000:3b:00.1", "/dev/infiniband/rdma_cm /dev/infiniband/uverbs10", false},
		{"0000:3b:00.2", "/dev/vfio/42 /dev/vfio/vfio", false},
		{"0000:3b:00.3", "", false},
		{"0000:3b:00.4", "", true},
		{"0000:3b:00.5", "", true},
	} {
		got, err := FilesOf(sys, c.address)
		if strings.Join(got, " ") != c.want || (err != nil) != c.wrong {
			t.Errorf("%s: %s, %v", c.address, got, err)
		}
	}
}

func TestWrite(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "cdi")
	list := []Function{
		{"0000:3b:00.1", []string{"/dev/infiniband/rdma_cm", "/dev/infiniband/uverbs1"}},
		{"0000:3b:00.0", []string{"/dev/infiniband/rdma_cm", "/dev/infiniband/uverbs0"}},
		{"0000:3b:00.3", nil},
	}
	write := func(list []Function, want bool) {
		t.Helper()
		if changed, err := Write(dir, list); err != nil || changed != want {
			t.Fatalf("changed: %t, %v", changed, err)
		}
	}
	write(nil, false)
	write(list, true)
	slices.Reverse(list)
	write(list, false)
	cache, err := library.NewCache(library.WithSpecDirs(dir), library.WithAutoRefresh(false))
	if err != nil {
		t.Fatal(err)
	}
	if got := cache.ListDevices(); !slices.Equal(got, []string{list[1].Name(), list[2].Name()}) || len(cache.GetErrors()) != 0 {
		t.Fatalf("the runtime sees %q, and errors %v", got, cache.GetErrors())
	}
	var files []string
	for _, node := range cache.GetDevice("hilbert.dev/nic=0000:3b:00.1").ContainerEdits.DeviceNodes {
		files = append(files, node.Path)
	}
	if !slices.Equal(files, []string{"/dev/infiniband/rdma_cm", "/dev/infiniband/uverbs1"}) {
		t.Errorf("it opens %q", files)
	}
	write(list[:2], true)
	if err := os.WriteFile(filepath.Join(dir, "hilbert.dev-nic.json"), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	write(list, true)
	write(nil, true)
	write(nil, false)
	if entries, err := os.ReadDir(dir); err != nil || len(entries) != 0 {
		t.Errorf("left behind: %v, %v", entries, err)
	}
}
