package node

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	api "hilbert.dev/hilbert/api/nodeplugin/v1alpha1"
	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/node/plugin"
	"hilbert.dev/hilbert/node/plugin/plugintest"
	"hilbert.dev/hilbert/node/plugins"
	"hilbert.dev/hilbert/node/runtime"
)

const fpga = "example.com/fpga"

// pluginWorld is a node whose agent asks plugins, and one that serves.
func pluginWorld(t *testing.T) (*world, *plugintest.Plugin) {
	t.Helper()
	w := newWorld(t)
	w.plugins = &plugin.Directory{Path: plugintest.Directory(t), Node: "n1", Machine: w.hardware, Owner: uint32(os.Geteuid())}
	p := plugintest.New("fpga", fpga)
	p.Serve(t, w.plugins.Path)
	return w, p
}

// asks is a pod whose container main was promised an FPGA.
func asks(uid string, words ...string) runtime.Sandbox {
	s := sandbox(uid, 1, words...)
	s.Annotations[spec.AnnotationResources] = "main/" + fpga + "=1"
	return s
}

// resource is what the report says of the FPGAs.
func (w *world) resource() (out spec.NodeResource) {
	w.Helper()
	w.agent.Ask(time.Minute, func(a *Agent) {
		for _, r := range a.Status().Status.Resources {
			if r.Name == fpga {
				out = r
			}
		}
	})
	return out
}

func (w *world) serves(amount int64) {
	w.Helper()
	w.eventually(fmt.Sprintf("the plugin serves %d", amount), func() bool {
		r := w.resource()
		return r.Amount == amount && r.Message == ""
	})
}

// unmark has the runtime forget what the agent said of a pod's container.
func (w *world) unmark(s runtime.Sandbox) { w.running[s.UID].containers[0].Mark = "" }

func TestPluginServesPod(t *testing.T) {
	w, p := pluginWorld(t)
	w.start()
	w.serves(2)
	s := asks("a")
	got := w.mustRun(s).Resources
	if fmt.Sprint(got.Env) != "[TEST_DEVICE=fpga-0-0]" || len(got.Devices) != 1 || got.Devices[0].Path != "/dev/test0" {
		t.Errorf("the container gets %+v", got)
	}
	if r := w.resource(); fmt.Sprint(r.NUMANodes) != "[{0 1 1} {1 1 0}]" || r.Plugin != "fpga" {
		t.Errorf("the report says %+v", r)
	}
	if c := w.state().Plugins; c != (plugins.Counts{Allocated: 1}) {
		t.Errorf("counted: %+v", c)
	}
	if other := w.mustRun(sandbox("b", 1)).Resources; len(other.Env)+len(other.Devices) != 0 {
		t.Errorf("a pod that asks for nothing gets %+v", other)
	}
	calls := p.Count("Allocate")
	if _, err := w.agent.CreateContainer(t.Context(), s, runtime.Container{ID: "again", Sandbox: s.ID, Name: "main"}); err != nil {
		t.Errorf("the container made again: %v", err)
	}
	if p.Count("Allocate") != calls {
		t.Error("a container that is made again asks the plugin again")
	}
	w.end(s)
	w.eventually("it is released", func() bool { return len(p.Holders()) == 0 && w.resource().NUMANodes[0].Held == 0 })
}

// Whatever a plugin does, pods that ask for its resource are refused, others run, and afterwards all is well again.
func TestPluginHarmsItsOwnOnly(t *testing.T) {
	hang := func(method string) func(*plugintest.Plugin) {
		return func(p *plugintest.Plugin) {
			p.Before = func(ctx context.Context, m string) error {
				if m == method {
					<-ctx.Done()
				}
				return nil
			}
		}
	}
	allocates := func(change func(*api.AllocateResponse)) func(*plugintest.Plugin) {
		return func(p *plugintest.Plugin) {
			p.Give = func(_ *api.AllocateRequest, a *api.AllocateResponse) { change(a) }
		}
	}
	contributes := func(change func(*api.Contribution)) func(*plugintest.Plugin) {
		return allocates(func(a *api.AllocateResponse) { change(a.Containers["main"]) })
	}
	for name, c := range map[string]struct {
		spoil func(*plugintest.Plugin)
		want  string
	}{
		"hangs at hints":    {hang("Hints"), "Deadline"},
		"hangs at allocate": {hang("Allocate"), "Deadline"},
		"hint outside":      {func(p *plugintest.Plugin) { p.Hint = func(h *api.HintsResponse) { h.Hints[0].NumaNodes = []int32{7} } }, "which the machine does not have"},
		"hint of nothing":   {func(p *plugintest.Plugin) { p.Hint = func(h *api.HintsResponse) { h.Hints[0].NumaNodes = nil } }, "a hint of 0 NUMA nodes"},
		"too many hints":    {func(p *plugintest.Plugin) { p.Hint = func(h *api.HintsResponse) { h.Hints = make([]*api.Hint, 256) } }, "256 hints"},
		"gives more":        {allocates(func(a *api.AllocateResponse) { a.Amounts = []*api.Amount{{NumaNode: 0, Amount: 2}} }), "allocated 2, asked for were 1"},
		"gives elsewhere":   {allocates(func(a *api.AllocateResponse) { a.Amounts = []*api.Amount{{NumaNode: 1, Amount: 1}} }), "chosen were 00000001"},
		"gives outside":     {allocates(func(a *api.AllocateResponse) { a.Amounts = []*api.Amount{{NumaNode: 5, Amount: 1}} }), "no NUMA node 5"},
		"gives what is far": {allocates(func(a *api.AllocateResponse) { a.Amounts = []*api.Amount{{NumaNode: -1, Amount: 1}} }), "fewer than allocated"},
		"gives a negative":  {allocates(func(a *api.AllocateResponse) { a.Amounts = []*api.Amount{{NumaNode: 0, Amount: -1}} }), "amount -1"},
		"gives it to another": {allocates(func(a *api.AllocateResponse) {
			a.Containers["sidecar"] = a.Containers["main"]
			delete(a.Containers, "main")
		}), "has not asked"},
		"an id twice":         {allocates(func(a *api.AllocateResponse) { a.Ids = []string{"x", "x"} }), "each once"},
		"another's id":        {allocates(func(a *api.AllocateResponse) { a.Ids = []string{"fpga-1-0"} }), `"fpga-1-0" is held by`},
		"a huge answer":       {contributes(func(c *api.Contribution) { c.Env["A"] = strings.Repeat("x", 1<<20) }), "larger than max"},
		"a big variable":      {contributes(func(c *api.Contribution) { c.Env["A"] = strings.Repeat("x", 40000) }), "at most 64 of 32768"},
		"LD_PRELOAD":          {contributes(func(c *api.Contribution) { c.Env["LD_PRELOAD"] = "/x.so" }), "LD_PRELOAD"},
		"the kernel's memory": {contributes(func(c *api.Contribution) { c.Devices = []*api.Device{{Path: "/dev/x", Type: "c", Major: 1, Minor: 1}} }), "not one that a container may have"},
		"a device elsewhere":  {contributes(func(c *api.Contribution) { c.Devices[0].Path = "/dev/../etc/x" }), "not one that a container may have"},
		"a mount":             {contributes(func(c *api.Contribution) { c.Mounts = []*api.Mount{{HostPath: "/etc", ContainerPath: "/x"}} }), "node.plugins.mounts"},
		"our annotation":      {contributes(func(c *api.Contribution) { c.Annotations = map[string]string{"hilbert.dev/gpus": "0"} }), "begins with example.com/"},
	} {
		t.Run(name, func(t *testing.T) {
			w, p := pluginWorld(t)
			p.Said.GivesHints = true
			if strings.HasPrefix(name, "hangs") {
				w.pluginTimeout = spec.Duration(300 * time.Millisecond)
			}
			p.Capacity[1] = 2
			p.Hint = func(h *api.HintsResponse) { h.Hints = []*api.Hint{{NumaNodes: []int32{1}, Preferred: true}} }
			w.start()
			w.serves(3)
			// On NUMA node 1; NUMA node 0 is left, and one more of 1. A machine that is busy is slower than the shortest timeout, now and then.
			w.eventually("the first pod runs", func() bool { _, err := w.run(asks("first")); return err == nil })
			p.Lock()
			p.Hint = nil
			c.spoil(p)
			p.Unlock()
			_, err := w.run(asks("a"))
			if err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), spec.ReasonPluginFailed) {
				t.Fatalf("%v; want one with %q", err, c.want)
			}
			w.mustRun(sandbox("b", 1))
			p.Lock()
			p.Before, p.Hint, p.Give = nil, nil, nil
			p.Unlock()
			w.eventually("what was allocated is released", func() bool { return !slices.Contains(p.Holders(), "a") })
			if !slices.Contains(p.Holders(), "first") {
				t.Error("the pod that held it before has lost it")
			}
			w.eventually("the pod runs when the plugin is well again", func() bool { _, err := w.run(asks("a")); return err == nil })
		})
	}
}

// A plugin whose socket, directory or words are not right is not asked.
func TestPluginIsNotBelieved(t *testing.T) {
	for name, c := range map[string]struct {
		before func(*world, *plugintest.Plugin)
		want   string
	}{
		"protocol":        {func(_ *world, p *plugintest.Plugin) { p.Said.Protocol = 2 }, "protocol 2: the agent speaks 1"},
		"name":            {func(_ *world, p *plugintest.Plugin) { p.Said.Name = "other" }, `it calls itself "other"`},
		"our resource":    {func(_ *world, p *plugintest.Plugin) { p.Said.Resource = "hilbert.dev/gpu-core" }, "cannot bring"},
		"no resource":     {func(_ *world, p *plugintest.Plugin) { p.Said.Resource = "" }, "want a domain and a name"},
		"odd resource":    {func(_ *world, p *plugintest.Plugin) { p.Said.Resource = "cpu" }, "want a domain and a name"},
		"capacity below":  {func(_ *world, p *plugintest.Plugin) { p.Capacity[0] = -1 }, "amount -1"},
		"capacity beyond": {func(_ *world, p *plugintest.Plugin) { p.Capacity[9] = 1 }, "no NUMA node 9"},
		"mode":            {func(w *world, _ *plugintest.Plugin) { _ = os.Chmod(w.plugins.Path, 0o755) }, "want a directory of mode 0700"},
		"owner":           {func(w *world, _ *plugintest.Plugin) { w.plugins.Owner++ }, "it belongs to user"},
		"a file": {func(w *world, p *plugintest.Plugin) {
			_ = os.Remove(filepath.Join(w.plugins.Path, "fpga.sock"))
			_ = os.WriteFile(filepath.Join(w.plugins.Path, "fpga.sock"), nil, 0o600)
		}, "it is no socket"},
		"a link": {func(w *world, p *plugintest.Plugin) {
			path := filepath.Join(w.plugins.Path, "fpga.sock")
			_ = os.Rename(path, path+".real")
			_ = os.Symlink(path+".real", path)
		}, "it is no socket"},
		"a spelling": {func(w *world, p *plugintest.Plugin) {
			path := filepath.Join(w.plugins.Path, "fpga.sock")
			_ = os.Rename(path, filepath.Join(w.plugins.Path, "FPGA_1.sock"))
		}, "DNS label"},
	} {
		t.Run(name, func(t *testing.T) {
			w, p := pluginWorld(t)
			c.before(w, p)
			w.start()
			w.eventually("it is told why", func() bool { return strings.Contains(strings.Join(w.events(), "\n")+w.condition(), c.want) })
			if _, err := w.run(asks("a")); err == nil {
				t.Error("a pod runs with it")
			}
			w.mustRun(sandbox("b", 1))
		})
	}
}

// The first that registers a resource keeps it.
func TestPluginRegistersOnce(t *testing.T) {
	w, p := pluginWorld(t)
	w.start()
	w.serves(2)
	second := plugintest.New("second", fpga)
	second.Serve(t, w.plugins.Path)
	w.eventually("it is told", func() bool {
		return strings.Contains(strings.Join(w.events(), "\n"), "resource example.com/fpga is plugin fpga's already")
	})
	w.mustRun(asks("a"))
	if len(p.Holders()) != 1 || second.Count("Allocate")+second.Count("Reconcile") != 0 {
		t.Errorf("the first has %v, the second was asked: %v", p.Holders(), second.Calls)
	}
}

// Agent and plugin may end at any time; what pods hold stays theirs.
func TestPluginRestarts(t *testing.T) {
	w, p := pluginWorld(t)
	w.start()
	w.serves(2)
	s := asks("a")
	w.mustRun(s)
	p.Stop()
	w.eventually("it is seen that it has gone", func() bool { return strings.Contains(w.resource().Message, "no plugin serves it") })
	if r := w.resource(); r.Amount != 1 {
		t.Errorf("while the plugin is away the report offers %d; want what pods hold", r.Amount)
	}
	if _, err := w.run(asks("b")); err == nil || !strings.Contains(err.Error(), "no plugin serves") {
		t.Errorf("%v; want that no plugin serves it", err)
	}
	if _, err := w.agent.CreateContainer(t.Context(), s, runtime.Container{ID: "again", Sandbox: s.ID, Name: "main"}); err != nil {
		t.Errorf("a container of a pod that holds it is made again: %v", err)
	}
	fresh := plugintest.New("fpga", fpga) // it has forgotten all
	fresh.Serve(t, w.plugins.Path)
	w.serves(2)
	if got := fresh.Holders(); fmt.Sprint(got) != "[a]" {
		t.Errorf("after its restart the plugin knows of %v; want [a]", got)
	}
	w.stop() // the agent, with its file
	w.start()
	w.serves(2)
	w.ticks(3)
	if got := fresh.Holders(); fmt.Sprint(got) != "[a]" || fresh.Count("Release") != 0 {
		t.Errorf("after the agent's restart the plugin knows of %v; want [a]", got)
	}
	w.stop() // the agent, and its file is lost; the runtime keeps no marks either
	w.resources = &kept{}
	w.unmark(s)
	w.start()
	w.eventually("what the plugin says is taken over", func() bool { r := w.resource(); return len(r.NUMANodes) == 2 && r.NUMANodes[0].Held == 1 })
	got, err := w.agent.CreateContainer(t.Context(), s, runtime.Container{ID: "anew", Sandbox: s.ID, Name: "main"})
	if err != nil || len(got.Resources.Env) != 1 {
		t.Errorf("a container made after that: %+v, %v", got.Resources, err)
	}
	if fmt.Sprint(fresh.Holders()) != "[a]" || fresh.Count("Release") != 0 {
		t.Errorf("the plugin knows of %v", fresh.Holders())
	}
	w.running[s.UID].containers[0].Mark = got.Mark.String() // with the container's own ID below
	w.running[s.UID].containers[0].ID = "anew"
	w.stop() // all is lost but the mark of the container
	fresh.Stop()
	w.resources = &kept{}
	fresh = plugintest.New("fpga", fpga)
	fresh.Serve(t, w.plugins.Path)
	w.start()
	w.eventually("the plugin is told what the mark says", func() bool { return fmt.Sprint(fresh.Holders()) == "[a]" })
	w.running[s.UID].containers[0].ID = containerID(&s)
	w.end(s)
	w.eventually("it is released", func() bool { return len(fresh.Holders()) == 0 })
}

// What a plugin says that pods hold which are not here is released.
func TestPluginHoldsForNobody(t *testing.T) {
	w, p := pluginWorld(t)
	p.Held["gone"] = &api.Allocation{Pod: &api.Pod{Uid: "gone"}, Amounts: []*api.Amount{{NumaNode: 0, Amount: 1}}}
	w.start()
	w.eventually("it is released", func() bool { return len(p.Holders()) == 0 })
}

// A pod's CPUs go where the plugin's resource is if the pod has to be on one NUMA node, and stay where they were promised otherwise. So does the room of a bound pod that shares CPUs.
func TestPluginMovesCPUs(t *testing.T) {
	for _, level := range []spec.QoSLevel{spec.QoSDedicated, spec.QoSShared} {
		for policy, want := range map[string]string{"": "[0]", spec.NUMAPolicySingle: "[1]"} {
			t.Run(string(level)+policy, func(t *testing.T) {
				w, p := pluginWorld(t)
				delete(p.Capacity, 0)
				w.start()
				w.serves(1)
				s := asks("a", "qos="+string(level), "numa=bound", "numaNodes=0:1/64Mi")
				if policy != "" {
					s.Annotations[spec.AnnotationNUMAPolicy] = policy
				}
				got := w.mustRun(s)
				var sockets []int
				for cpu := range got.CPUs.All() {
					sockets = append(sockets, cpu/4)
				}
				if fmt.Sprint(slices.Compact(sockets)) != want {
					t.Errorf("its CPUs are %v, on NUMA nodes %v; want %s", got.CPUs, sockets, want)
				}
			})
		}
	}
}

// A pod whose admission was given up while the loop was busy can be admitted later, and its resource is not lost.
func TestPluginAdmissionGivenUp(t *testing.T) {
	w, _ := pluginWorld(t)
	w.pluginTimeout = spec.Duration(300 * time.Millisecond)
	w.start()
	w.serves(2)
	busy, s := make(chan struct{}), asks("a")
	w.agent.node.Loop.Post(func() { <-busy })
	_, err := w.agent.plugins.Prepare(t.Context(), &s)
	close(busy)
	if err == nil || !strings.Contains(err.Error(), "busy") {
		t.Fatalf("%v; want that the agent is busy", err)
	}
	w.eventually("the pod is admitted", func() bool { _, err := w.run(s); return err == nil })
}
