package agent

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"hilbert.dev/hilbert/api/node/v1alpha1"
	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/lab/vm/join"
	"hilbert.dev/hilbert/lab/vm/wire"
)

const (
	pluginName = "device-plugin"
	pluginPath = "/usr/bin/device-plugin"
	// stranger is a device that the plugin offers and the driver does not know.
	stranger = "GPU-of-nobody"
)

// TestGivenByAKubelet: a device plugin offers three devices, two of them GPUs that a driver knows. The kubelet chooses, and the agent says which pod has which, as
// the containers were told; that one of them is not known; and the same after it, and after the kubelet, has started again.
func TestGivenByAKubelet(t *testing.T) {
	long(t)
	r := newRig(t)
	gpus := r.standIns()
	slices.SortFunc(gpus[:], func(x, y standIn) int { return strings.Compare(x.address, y.address) }) // as the agent numbers them
	var uuids []string
	for i := range gpus {
		uuids = append(uuids, gpus[i].uuid)
	}
	r.startPlugin(append(slices.Clone(uuids), stranger)...)
	r.driver(gpus)
	r.reported("the GPUs are the kubelet's", func(o *v1alpha1.CustomNodeResource) error {
		if d := o.Status.Devices; d == nil || d.Owner != spec.OwnerKubelet || len(d.GPUs) != len(uuids) {
			return fmt.Errorf("devices %+v", d)
		}
		return nil
	})
	pods := r.run(r.pod("one", wholeGPU), r.pod("two", wholeGPU), r.pod("three", wholeGPU))
	r.givenAsTold(pods, uuids)
	t.Logf("hilbert top gpus\n%s", r.hilbert("top", "gpus"))

	for _, service := range []string{agentName, join.Kubelet} {
		if err := r.Guest.Service(service).Restart(t.Context()); err != nil {
			t.Fatal(err)
		}
		r.ready()
		r.givenAsTold(pods, uuids)
	}
	r.remove(pods[:1]...)
	r.reported("it has nothing any more", func(o *v1alpha1.CustomNodeResource) error {
		if said := saysGiven(o, pods[0]); said != "" {
			return fmt.Errorf("it has %q", said)
		}
		return nil
	})
	r.givenAsTold(pods[1:], uuids)
}

// wholeGPU asks for one.
func wholeGPU(p *corev1.Pod) {
	one := corev1.ResourceList{spec.ResourceNvidiaGPU: resource.MustParse("1")}
	p.Spec.Containers[0].Resources = corev1.ResourceRequirements{Requests: one, Limits: one}
}

// givenAsTold fails the test unless the report says of each pod the GPU that its container was told by the plugin.
func (r *rig) givenAsTold(pods []*corev1.Pod, uuids []string) {
	r.t.Helper()
	want := make([]string, len(pods))
	for i, p := range pods {
		pids, err := r.PIDs(r.t.Context(), p, container)
		if err != nil || len(pids) == 0 {
			r.t.Fatalf("pod %s: processes %v, %v", p.Name, pids, err)
		}
		environ, err := r.Guest.Shell(r.t.Context(), fmt.Sprintf("tr '\\0' '\\n' < /proc/%d/environ", pids[0]))
		if err != nil {
			r.t.Fatal(err)
		}
		for line := range strings.Lines(environ) {
			if id, ok := strings.CutPrefix(strings.TrimSpace(line), "PLUGIN_DEVICES="); ok {
				want[i] = id
			}
		}
		if want[i] == "" {
			r.t.Fatalf("the container of %s was told of no device: %q", p.Name, environ)
		}
	}
	r.reported("who has which", func(o *v1alpha1.CustomNodeResource) error {
		var errs []error
		for i, p := range pods {
			known := ""
			if at := slices.Index(uuids, want[i]); at >= 0 {
				known = fmt.Sprint(at)
			} else {
				known = "? " + want[i]
			}
			if said := saysGiven(o, p); said != known {
				errs = append(errs, fmt.Errorf("%s has %s: %q is said, want %q", p.Name, want[i], said, known))
			}
		}
		return errors.Join(errs...)
	})
}

// saysGiven is what a report says that the kubelet gave a pod: an index, "? ID" for what is not known, nothing for nothing.
func saysGiven(o *v1alpha1.CustomNodeResource, p *corev1.Pod) string {
	d := o.Status.Devices
	if d == nil {
		return ""
	}
	for _, a := range d.Allocations {
		if a.UID == string(p.UID) && a.Owner == spec.OwnerKubelet {
			return a.GPUs
		}
	}
	if d.Kubelet != nil {
		for _, other := range d.Kubelet.Others {
			if other.Name == p.Name && other.GPU == nil {
				return "? " + other.ID
			}
		}
	}
	return ""
}

// startPlugin runs the device plugin, and returns when the Node has what it offers.
func (r *rig) startPlugin(ids ...string) {
	r.t.Helper()
	ctx := r.t.Context()
	binary := filepath.Join(r.t.TempDir(), "plugin")
	build := exec.CommandContext(ctx, "go", "build", "-ldflags", "-s -w", "-o", binary, "./plugin")
	if out, err := build.CombinedOutput(); err != nil {
		r.t.Fatalf("build the device plugin: %v\n%s", err, out)
	}
	data, err := os.ReadFile(binary)
	if err == nil {
		err = r.Guest.WriteFile(ctx, pluginPath, bytes.NewReader(data), 0o755)
	}
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(r.forgetPlugin)
	if _, err := r.Guest.Define(ctx, wire.ServiceSpec{Name: pluginName, Argv: append([]string{pluginPath, spec.ResourceNvidiaGPU}, ids...)}); err != nil {
		r.t.Fatal(err)
	}
	r.eventually(patience, "the Node has the devices", func() error {
		n, err := r.Client.CoreV1().Nodes().Get(ctx, r.Name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		if got := n.Status.Allocatable[spec.ResourceNvidiaGPU]; got.Value() != int64(len(ids)) {
			return fmt.Errorf("it has %s, want %d", got.String(), len(ids))
		}
		return nil
	})
}

// forgetPlugin leaves a node that never had one: the kubelet would remember it.
func (r *rig) forgetPlugin() {
	ctx := context.WithoutCancel(r.t.Context())
	kubelet := r.Guest.Service(join.Kubelet)
	_, err := r.Guest.Shell(ctx, "rm -f /var/lib/kubelet/device-plugins/plugin.sock")
	err = errors.Join(err, r.Guest.Service(pluginName).Stop(ctx), kubelet.Stop(ctx))
	_, shell := r.Guest.Shell(ctx, "rm -f /var/lib/kubelet/device-plugins/kubelet_internal_checkpoint")
	patch, _ := json.Marshal(map[string]any{"status": map[string]any{
		"capacity": map[string]any{spec.ResourceNvidiaGPU: nil}, "allocatable": map[string]any{spec.ResourceNvidiaGPU: nil},
	}})
	_, patched := r.Client.CoreV1().Nodes().Patch(ctx, r.Name, types.MergePatchType, patch, metav1.PatchOptions{}, "status")
	if err := errors.Join(err, shell, patched, kubelet.Start(ctx), r.Guest.Service(agentName).Restart(ctx)); err != nil {
		r.t.Error(err)
	}
}
