// Package cditest makes real containers with what package cdi gives them, on a machine that has NVIDIA's driver: the specification is the one that NVIDIA's toolkit
// writes for the driver that runs, the CDI library that container runtimes use carries it out, and runc makes the container.
//
// Data flow: New asks the driver and the toolkit, and makes a file system of CUDA's client; Run makes a container of it with some cdi.Edits, waits until it ends
// and returns what it printed. Invariants: no setting of the GPU is changed; a container has process and IPC namespaces of its own, as a pod's has, and no device
// that its edits do not bring.
//
//	cditest.Require(t)
//	host := cditest.New(t, cditest.Client("../mps/testdata/client.cu"))
//	said, err := host.Run(t, cditest.Container{Edits: edits}, "/bin/client", "memory")
//
// It is no container runtime: it knows no images, no network and no NRI. No product package imports it.
package cditest

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"testing"

	specs "github.com/opencontainers/runtime-spec/specs-go"
	library "tags.cncf.io/container-device-interface/pkg/cdi"

	"hilbert.dev/hilbert/node/cdi"
	"hilbert.dev/hilbert/node/gpu"
)

// driverVariable says that this machine has a GPU without MIG that nobody uses, NVIDIA's driver, MPS and container toolkit, CUDA's compiler and runc, and that the test is root.
const driverVariable = "HILBERT_GPU"

// Require skips a test where this is no such machine.
func Require(t *testing.T) {
	t.Helper()
	if os.Getenv(driverVariable) == "" {
		t.Skipf("it needs a GPU that nobody uses: make gpu-test, or %s=1", driverVariable)
	}
}

// Client is the source of the CUDA program that tests run: a file of the tree, or where HILBERT_GPU_CLIENT says it is, for a test program that is carried to such a machine without the tree.
func Client(file string) string { return cmp.Or(os.Getenv("HILBERT_GPU_CLIENT"), file) }

// Smuggled is a place in each container's file system where the GPU's device file lies, which no specification brought there.
const Smuggled = "/smuggled"

// Host is a machine with a driver.
type Host struct {
	GPU     gpu.GPU // the first that the driver tells of
	Driver  string  // its version
	Catalog *cdi.Catalog
	Name    string // the CDI device of the GPU

	dir   string // its directory "cdi" holds the specification, "root" is the containers' file system
	count int    // containers so far
}

// Container is one to be made.
type Container struct {
	Edits cdi.Edits
	User  uint32
	// Within is a command that runs runc elsewhere, such as in another mount namespace; nil: here.
	Within []string
}

// New has NVIDIA's toolkit write its specification, and compiles a CUDA program with nvcc. It fails the test if the specification does not name the GPU.
func New(t *testing.T, client string) *Host {
	t.Helper()
	h := &Host{dir: t.TempDir()}
	spec := filepath.Join(h.dir, "cdi", "nvidia.yaml")
	command(t, "nvidia-ctk", "cdi", "generate", "--device-name-strategy=uuid", "--output="+spec) // as docs/how-to/share-gpus.md says it
	inventory, err := (&gpu.SMI{Run: gpu.Command("nvidia-smi"), Proc: os.DirFS("/proc")}).Inventory(t.Context())
	if err != nil || len(inventory.GPUs) == 0 {
		t.Fatalf("the driver's inventory: %+v, %v", inventory, err)
	}
	h.GPU, h.Driver = inventory.GPUs[0], inventory.Version
	if h.Catalog, err = cdi.ReadCatalog(filepath.Dir(spec)); err != nil || len(h.Catalog.Troubles) > 0 {
		t.Fatalf("NVIDIA's specification: %v, %v", h.Catalog.Troubles, err)
	}
	if h.Name, err = h.Catalog.GPU(cdi.GPU{UUID: h.GPU.UUID, Node: h.GPU.Node, Driver: h.Driver}); err != nil {
		t.Fatal(err)
	}
	h.fill(t, client)
	return h
}

// fill makes the containers' file system: the client, cat, and what both and the driver's library are linked with, as every image has it.
func (h *Host) fill(t *testing.T, source string) {
	t.Helper()
	client := filepath.Join(h.dir, "client")
	command(t, "nvcc", "-arch=native", "-O2", "-o", client, source)
	cat, err := exec.LookPath("cat")
	if err != nil {
		t.Fatal(err)
	}
	root := h.root()
	for _, dir := range []string{"proc", "dev", "sys", "etc", "tmp", "bin"} {
		if err := os.MkdirAll(filepath.Join(root, dir), 0o755); err != nil { //nolint:gosec // a container's file system
			t.Fatal(err)
		}
	}
	command(t, "cp", client, cat, filepath.Join(root, "bin"))
	driver := h.libcuda(t)
	for _, file := range regexp.MustCompile(`/\S+\.so\S*`).FindAllString(command(t, "ldd", client, cat, driver), -1) {
		if file != driver+":" { // its own headline
			command(t, "cp", "--dereference", "--parents", file, root)
		}
	}
	command(t, "cp", "--archive", h.GPU.Node, root+Smuggled)
	for _, dir := range []string{h.dir, filepath.Dir(h.dir)} {
		if err := os.Chmod(dir, 0o755); err != nil { //nolint:gosec // containers are other users
			t.Fatal(err)
		}
	}
}

func (h *Host) root() string { return filepath.Join(h.dir, "root") }

// libcuda is the driver's library on this machine, as the specification brings it.
func (h *Host) libcuda(t *testing.T) string {
	t.Helper()
	for _, m := range h.cache(t).GetDevice(h.Name).GetSpec().ContainerEdits.Mounts {
		if filepath.Base(m.HostPath) == "libcuda.so."+h.Driver {
			return m.HostPath
		}
	}
	t.Fatal("NVIDIA's specification has no libcuda")
	return ""
}

// cache is the specification as container runtimes read it.
func (h *Host) cache(t *testing.T) *library.Cache {
	t.Helper()
	cache, err := library.NewCache(library.WithSpecDirs(filepath.Join(h.dir, "cdi")), library.WithAutoRefresh(false))
	if err != nil {
		t.Fatal(err)
	}
	return cache
}

// Run runs a program in a container until it ends, and returns what it printed. The error is that of a program that ended with another code than 0.
func (h *Host) Run(t *testing.T, c Container, arguments ...string) (string, error) {
	t.Helper()
	text, err := json.Marshal(h.spec(t, &c, arguments))
	if err != nil {
		t.Fatal(err)
	}
	h.count++
	bundle := filepath.Join(h.dir, fmt.Sprint("container", h.count))
	if err := os.Mkdir(bundle, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(bundle, "config.json"), text, 0o600); err != nil {
		t.Fatal(err)
	}
	line := append(slices.Clone(c.Within),
		"runc", "--root", filepath.Join(h.dir, "runc"), "run", "--bundle", bundle, fmt.Sprintf("hilbert-%d-%d", os.Getpid(), h.count))
	cmd := exec.CommandContext(t.Context(), line[0], line[1:]...)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	err = cmd.Run()
	return out.String(), err
}

func (h *Host) spec(t *testing.T, c *Container, arguments []string) *specs.Spec {
	spec := &specs.Spec{
		Version: specs.Version,
		Root:    &specs.Root{Path: h.root()},
		Process: &specs.Process{Args: arguments, Env: append([]string{"PATH=/bin"}, c.Edits.Env...), Cwd: "/", User: specs.User{UID: c.User, GID: c.User}},
		Mounts: []specs.Mount{
			{Destination: "/proc", Type: "proc", Source: "proc"},
			{Destination: "/dev", Type: "tmpfs", Source: "tmpfs", Options: []string{"nosuid", "mode=755"}},
		},
		Linux: &specs.Linux{
			Namespaces: []specs.LinuxNamespace{{Type: specs.PIDNamespace}, {Type: specs.MountNamespace}, {Type: specs.IPCNamespace}},
			Resources:  &specs.LinuxResources{Devices: []specs.LinuxDeviceCgroup{{Allow: false, Access: "rwm"}}}, // as container runtimes begin
		},
	}
	if len(c.Edits.Devices) > 0 {
		if _, err := h.cache(t).InjectDevices(spec, c.Edits.Devices...); err != nil {
			t.Fatal(err)
		}
	}
	for _, m := range c.Edits.Mounts {
		spec.Mounts = append(spec.Mounts, specs.Mount{Destination: m.Place, Type: "bind", Source: m.Source, Options: append([]string{"bind"}, m.Options...)})
	}
	return spec
}

// command runs a program of the machine, and returns what it printed.
func command(t *testing.T, name string, arguments ...string) string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), name, arguments...).CombinedOutput()
	if err != nil {
		t.Fatalf("%s %v: %v\n%s", name, arguments, err, out)
	}
	return string(out)
}
