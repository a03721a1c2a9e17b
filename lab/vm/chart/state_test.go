package chart

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"

	"hilbert.dev/hilbert/lab/vm/join"
	"hilbert.dev/hilbert/lab/vm/vmtest"
)

// knobs are all of them that are compared.
var knobs = vmtest.Knobs()

// steady are those that stay as they are while a dedicated pod runs: memory.low follows what the pod uses.
var steady = slices.DeleteFunc(vmtest.Knobs(), func(knob string) bool { return knob == "memory.low" })

// values is what the knobs of a pod's cgroups say, by path.
func (r *rig) values(ctx context.Context, p *corev1.Pod) (map[string]string, error) {
	cgroup, err := r.PodCgroup(ctx, p)
	if err != nil {
		return nil, err
	}
	id, err := join.ContainerID(p, "main")
	if err != nil {
		return nil, err
	}
	var globs []string
	for _, knob := range knobs {
		globs = append(globs, path.Join(cgroup, knob), path.Join(cgroup, id, knob))
	}
	files, err := r.Guest.ReadFiles(ctx, globs...)
	if err == nil && len(files) < len(knobs) {
		err = fmt.Errorf("%s has %d knobs only", cgroup, len(files))
	}
	for name, text := range files {
		delete(files, name)
		files[strings.TrimPrefix(name, cgroup+"/")] = strings.TrimSpace(text)
	}
	return files, err
}

// life tells one process of a pod's container from another that was started in its place.
func (r *rig) life(p *corev1.Pod) string {
	r.t.Helper()
	got, err := r.Client.CoreV1().Pods(p.Namespace).Get(r.t.Context(), p.Name, metav1.GetOptions{})
	r.must(err)
	s := got.Status.ContainerStatuses[0]
	pids, err := r.PIDs(r.t.Context(), got, "main")
	r.must(err)
	started := ""
	if s.State.Running != nil {
		started = s.State.Running.StartedAt.String()
	}
	return fmt.Sprintf("%s %s, %s since %s, processes %v, %d restarts", got.Name, got.UID, s.ContainerID, started, pids, s.RestartCount)
}

// watcher notes every value that knobs of pods take.
type watcher struct {
	cancel context.CancelFunc
	all    sync.WaitGroup

	mu    sync.Mutex
	seen  map[string]map[string]bool
	looks int
	errs  []error
}

// watch notes the values of knobs, of a pod's own cgroup and of its container's, until the end of the returned watcher.
func (r *rig) watch(pods map[*corev1.Pod][]string) *watcher {
	ctx, cancel := context.WithCancel(r.t.Context())
	w := &watcher{cancel: cancel, seen: map[string]map[string]bool{}}
	w.all.Go(func() {
		for ctx.Err() == nil {
			for p, names := range pods {
				values, err := r.values(ctx, p)
				if ctx.Err() == nil {
					w.note(p.Name, values, names, err)
				}
			}
			select {
			case <-ctx.Done():
			case <-time.After(time.Second):
			}
		}
	})
	return w
}

func (w *watcher) note(pod string, values map[string]string, names []string, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.looks++
	if err != nil {
		w.errs = append(w.errs, err)
	}
	for name, value := range values {
		if !slices.Contains(names, path.Base(name)) {
			continue
		}
		if name = pod + " " + name; w.seen[name] == nil {
			w.seen[name] = map[string]bool{}
		}
		w.seen[name][value] = true
	}
}

// end ends it, and fails the test where a knob has had more than one value.
func (w *watcher) end(t *testing.T, during string) {
	t.Helper()
	w.cancel()
	w.all.Wait()
	for _, name := range slices.Sorted(maps.Keys(w.seen)) {
		if values := slices.Sorted(maps.Keys(w.seen[name])); len(values) > 1 {
			t.Errorf("%s: %s had the values %q", during, name, values)
		}
	}
	if len(w.errs) > 0 || w.looks < 5 || len(w.seen) == 0 {
		t.Errorf("%s: %d looks at %d knobs, errors %v", during, w.looks, len(w.seen), errors.Join(w.errs...))
	}
	t.Logf("%s: %d looks at %d knobs", during, w.looks, len(w.seen))
}

// places are the directories of the node in which Hilbert has files.
const places = "/etc/cdi /var/run/cdi /var/lib/hilbert /run/hilbert /run/hilbert-watchdog"

// trace is all that Hilbert could leave on a node: what the cgroups of pods and of their parents come to, files, and what the Node says.
func (r *rig) trace() map[string]bool {
	r.t.Helper()
	names := "-name " + strings.Join(knobs, " -o -name ")
	text, err := r.Guest.Shell(r.t.Context(), "cd /sys/fs/cgroup && grep -H . $(find kubepods "+names+") io.cost.qos; find "+places+" -type f 2>/dev/null; true")
	r.must(err)
	out := map[string]bool{}
	for line := range strings.Lines(text) {
		out[strings.TrimSpace(line)] = true
	}
	node, err := r.Client.CoreV1().Nodes().Get(r.t.Context(), r.Name, metav1.GetOptions{})
	r.must(err)
	for key, value := range node.Labels {
		out["label "+key+"="+value] = true
	}
	for key, value := range node.Annotations {
		out["annotation "+key+"="+value] = true
	}
	for _, taint := range node.Spec.Taints {
		out["taint "+taint.ToString()] = true
	}
	for name, amount := range node.Status.Allocatable {
		out["allocatable "+string(name)+"="+amount.String()] = true
	}
	for _, condition := range node.Status.Conditions {
		out["condition "+string(condition.Type)+"="+string(condition.Status)] = true
	}
	if len(out) < 50 {
		r.t.Fatalf("there are %d lines only: %v", len(out), out)
	}
	return out
}

// passing are kinds whose objects come and go without us.
var passing = []string{"Event", "Lease", "EndpointSlice", "Endpoints", "ControllerRevision", "IPAddress", "LeaseCandidate", "StorageVersion"}

// left says what there is on the node and was not there before, or the reverse, but for pods' cgroups where pods have come meanwhile.
func (r *rig) left(before map[string]bool, cgroups bool) error {
	r.t.Helper()
	lines := vmtest.Changed(before, r.trace())
	if !cgroups {
		lines = slices.DeleteFunc(lines, func(line string) bool { return strings.HasPrefix(line[2:], "kubepods") })
	}
	if len(lines) > 0 {
		return fmt.Errorf("there differ:\n%s", strings.Join(lines, "\n"))
	}
	return nil
}

// objects are all objects of the API server, but for passing ones.
func (r *rig) objects() map[string]bool {
	r.t.Helper()
	config := r.Plane.AdminConfig()
	config.ContentType, config.AcceptContentTypes, config.QPS = "application/json", "application/json", -1
	client, err := dynamic.NewForConfig(config)
	r.must(err)
	ask, err := discovery.NewDiscoveryClientForConfig(config)
	r.must(err)
	groups, err := ask.ServerPreferredResources()
	r.must(err)
	out := map[string]bool{}
	for _, group := range groups {
		version, err := schema.ParseGroupVersion(group.GroupVersion)
		r.must(err)
		for i := range group.APIResources {
			resource := &group.APIResources[i]
			if !slices.Contains(resource.Verbs, "list") || slices.Contains(passing, resource.Kind) {
				continue
			}
			list, err := client.Resource(version.WithResource(resource.Name)).List(r.t.Context(), metav1.ListOptions{})
			r.must(err)
			for i := range list.Items {
				out[resource.Kind+" "+list.Items[i].GetNamespace()+"/"+list.Items[i].GetName()] = true
			}
		}
	}
	return out
}
