package cdi_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"hilbert.dev/hilbert/node/cdi"
	"hilbert.dev/hilbert/node/cdi/cditest"
)

// TestOnDriver makes containers with what Inject gives them. Every other test of this package has composed specifications.
func TestOnDriver(t *testing.T) {
	cditest.Require(t)
	h := cditest.New(t, cditest.Client("../mps/testdata/client.cu"))
	t.Logf("%s, driver %s: %s opens %v", h.GPU.Model, h.Driver, h.Name, h.Catalog.Files(h.Name))
	if h.Catalog.All() == "" || !slices.Contains(h.Catalog.Files(h.Name), h.GPU.Node) {
		t.Errorf("all GPUs are %q, and the GPU is at %s", h.Catalog.All(), h.GPU.Node)
	}
	if _, err := h.Catalog.GPU(cdi.GPU{UUID: h.GPU.UUID, Node: h.GPU.Node, Driver: h.Driver + ".1"}); !errors.Is(err, cdi.ErrNoDevice) {
		t.Errorf("with another driver than the specification's: %v", err)
	}
	node := &cdi.Node{Ours: true, All: h.Catalog.All()}
	// The image asks for all GPUs, as CUDA's images do.
	ask := &cdi.Container{Name: "main", Env: []string{"NVIDIA_VISIBLE_DEVICES=all"}}
	for _, c := range []struct {
		name string
		pod  cdi.Pod
		sees bool
	}{
		{name: "Grant", pod: cdi.Pod{Grant: &cdi.Grant{GPUs: []string{h.Name}}}, sees: true},
		{name: "NoGrant"},
		{name: "OtherContainersGrant", pod: cdi.Pod{Grant: &cdi.Grant{GPUs: []string{h.Name}}, Asking: []string{"another"}}},
		{name: "Observer", pod: cdi.Pod{Observer: true}, sees: true},
	} {
		t.Run(c.name, func(t *testing.T) {
			edits, err := cdi.Inject(node, &c.pod, ask)
			if err != nil {
				t.Fatal(err)
			}
			sees(t, h, edits, c.sees)
		})
	}
}

// sees runs CUDA in a container with some edits, and opens the GPU's device file under a name that no specification has.
func sees(t *testing.T, h *cditest.Host, e cdi.Edits, want bool) {
	t.Helper()
	said, err := h.Run(t, cditest.Container{Edits: e}, "/bin/client", "memory")
	switch total := fmt.Sprintf("total %d\n", h.GPU.Memory); {
	case want && (err != nil || !strings.Contains(said, total)):
		t.Errorf("with %+v the container says %q, %v, and not %q", e, said, err, total)
	case !want && (err == nil || !strings.Contains(said, "error cudaError")):
		t.Errorf("with %+v the container says %q, %v: CUDA should refuse", e, said, err)
	}
	said, err = h.Run(t, cditest.Container{Edits: e}, "/bin/cat", cditest.Smuggled)
	if err == nil || strings.Contains(said, "Operation not permitted") == want {
		t.Errorf("with %+v the device file says %q, %v", e, said, err)
	}
	t.Logf("devices %v: %s", e.Devices, strings.TrimSpace(said))
}
