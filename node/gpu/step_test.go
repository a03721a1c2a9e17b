package gpu_test

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"

	"hilbert.dev/hilbert/node/gpu"
	"hilbert.dev/hilbert/node/gpu/gputest"
	"hilbert.dev/hilbert/topology"
)

// world is an agent's side of a node's GPUs.
type world struct {
	driver *gputest.Driver
	params gpu.Params
	memory gpu.State
	view   gpu.View
	held   gpu.Held
	cannot map[string]string
	others map[string]string
	soft   []string
}

// TestStep tells stories of GPUs. Commands: do (lines of gputest), hold and drop (INDEX or INDEX:INSTANCE), uninjectable and foreign (ADDRESS
// [why]), soft UUID..., restart (the agent comes back with its checkpoint), look (n=times), devices.
func TestStep(t *testing.T) {
	datadriven.Walk(t, "testdata/step", func(t *testing.T, path string) {
		w := &world{driver: gputest.New(t), params: gpu.Defaults(), cannot: map[string]string{}, others: map[string]string{}}
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string { return w.command(t, d) })
	})
}

func (w *world) command(t *testing.T, d *datadriven.TestData) string {
	t.Helper()
	var first, rest string
	if len(d.CmdArgs) > 0 {
		first = d.CmdArgs[0].Key
		for _, a := range d.CmdArgs[1:] {
			rest += " " + a.Key
		}
	}
	switch d.Cmd {
	case "do":
		for line := range strings.Lines(d.Input) {
			w.driver.Do(line)
		}
		return ""
	case "hold", "drop":
		w.hold(t, d)
		return ""
	case "uninjectable", "foreign":
		m := map[string]map[string]string{"uninjectable": w.cannot, "foreign": w.others}[d.Cmd]
		m[first] = strings.TrimSpace(rest)
		return ""
	case "soft":
		w.soft = append(w.soft, first)
		return ""
	case "restart":
		data, err := w.memory.Save()
		if err != nil {
			d.Fatalf(t, "%v", err)
		}
		if w.memory, err = gpu.Load(data); err != nil {
			d.Fatalf(t, "%v", err)
		}
		return ""
	case "look":
		times := 1
		d.MaybeScanArgs(t, "n", &times)
		for range times {
			w.look()
		}
		return render(&w.view)
	case "devices":
		return w.devices(t)
	}
	d.Fatalf(t, "unknown command %s", d.Cmd)
	return ""
}

func (w *world) hold(t *testing.T, d *datadriven.TestData) {
	t.Helper()
	for _, arg := range d.CmdArgs {
		index, instance, divided := strings.Cut(arg.Key, ":")
		i, err := strconv.Atoi(index)
		if err != nil {
			d.Fatalf(t, "%v", err)
		}
		k := 0
		if divided {
			if k, err = strconv.Atoi(instance); err != nil {
				d.Fatalf(t, "%v", err)
			}
		}
		w.held.GPUs &^= 1 << i
		w.held.Instances[i] &^= 1 << k
		if d.Cmd == "hold" {
			w.held.GPUs |= 1 << i
			if divided {
				w.held.Instances[i] |= 1 << k
			}
		}
	}
}

func (w *world) look() {
	o := w.driver.Observation()
	o.Held, o.Uninjectable, o.Foreign = w.held, w.cannot, w.others
	w.memory, w.view = gpu.Step(&w.params, w.memory, &o)
}

func render(v *gpu.View) string {
	var b strings.Builder
	fmt.Fprintf(&b, "driver %s, %d of %d open\n", v.Version, v.Open(), len(v.Slots))
	for i, s := range v.Slots {
		fmt.Fprintf(&b, "%d %s %s %d MiB", i, s.Address, s.GPU.UUID, s.GPU.Memory)
		if s.Closed != "" {
			fmt.Fprintf(&b, " %s: %s", s.Closed, s.Why)
		}
		b.WriteByte('\n')
		for k, in := range s.Instances {
			fmt.Fprintf(&b, "  %d %s %s", k, in.Profile, in.UUID)
			if in.Gone {
				b.WriteString(" gone")
			}
			b.WriteByte('\n')
		}
	}
	for _, note := range v.Notes {
		b.WriteString("note: " + note + "\n")
	}
	return b.String()
}

func (w *world) devices(t *testing.T) string {
	t.Helper()
	// What sysfs says: two GPUs below one switch, another elsewhere, in its own order.
	machine := &topology.Devices{
		GPU: []topology.GPU{
			{Address: "0000:3b:00.0", Switch: 0, NUMANode: 0, Socket: 0, Memory: 1},
			{Address: "0000:3c:00.0", Switch: 0, NUMANode: 0, Socket: 0},
			{Address: "0000:86:00.0", Switch: topology.NoPlace, NUMANode: 1, Socket: 1},
		},
		NIC: []topology.NIC{{Address: "0000:05:00.0", Name: "eth0"}},
	}
	d := w.view.Devices(&w.params, machine, topology.OwnerHilbert, func(uuid string) bool { return slices.Contains(w.soft, uuid) })
	if err := d.Check(); err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	fmt.Fprintf(&b, "closed %b, %d NICs, links %d\n", d.ClosedGPUs, len(d.NIC), d.Links)
	for i, g := range d.GPU {
		fmt.Fprintf(&b, "%d %s %q %d MiB grain %d least %d clients %d", i, g.Address, g.UUID, g.Memory, g.Grain, g.Least, g.Clients)
		for _, s := range []topology.Isolation{topology.Accounting, topology.Soft, topology.Hard} {
			if g.Strengths.Has(s) {
				b.WriteString(" " + s.String())
			}
		}
		fmt.Fprintf(&b, " at %d/%d/%d\n", g.Switch, g.NUMANode, g.Socket)
		for _, in := range g.Instances {
			fmt.Fprintf(&b, "  %s %d milli %d MiB\n", in.Name, in.Milli, in.Memory)
		}
	}
	return b.String()
}

func TestLoad(t *testing.T) {
	for _, text := range []string{`{`, `{"slots":[{"address":"a"},{"address":"a"}]}`, `{"slots":[` + strings.Repeat(`{},`, 16) + `{}]}`} {
		if _, err := gpu.Load([]byte(text)); err == nil {
			t.Errorf("%s is taken for a checkpoint", text)
		}
	}
	if m, err := gpu.Load(nil); err != nil || len(m.Slots) != 0 {
		t.Errorf("no checkpoint: %v, %v", m, err)
	}
}
