package gpu_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/cockroachdb/datadriven"

	"hilbert.dev/hilbert/node/gpu"
)

// The files in testdata/smi have the form of what nvidia-smi 510 and 590 print, as published; names and numbers are made up. Those whose name begins with
// "recorded" are what a driver said to us.
func fixture(t testing.TB, name string) []byte {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("testdata", "smi", name))
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// smi is nvidia-smi with answers by its arguments. What has none is an error of the run.
type smi struct {
	answers map[string]gpu.Output
	asked   []string
	err     error
}

func (s *smi) run(_ context.Context, arguments ...string) (gpu.Output, error) {
	question := strings.Join(arguments, " ")
	s.asked = append(s.asked, question)
	if s.err != nil {
		return gpu.Output{}, s.err
	}
	out, ok := s.answers[question]
	if !ok {
		return gpu.Output{}, errors.New("no answer")
	}
	return out, nil
}

// TestInventory reads what nvidia-smi says. Commands: answer NAME [code=N] ARGUMENTS..., silence ARGUMENTS..., kernel ADDRESS... (the module knows
// them; none: it is not loaded), ask.
func TestInventory(t *testing.T) {
	datadriven.Walk(t, "testdata/inventory", func(t *testing.T, path string) {
		s := &smi{answers: map[string]gpu.Output{}}
		proc := fstest.MapFS{}
		driver := &gpu.SMI{Run: s.run, Proc: proc}
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			t.Helper()
			switch d.Cmd {
			case "answer":
				var out gpu.Output
				d.MaybeScanArgs(t, "code", &out.Code)
				name := d.CmdArgs[0].Key
				if d.Input != "" {
					out.Stdout = []byte(d.Input)
				} else {
					out.Stdout = fixture(t, name)
				}
				s.answers[question(d.CmdArgs[1:])] = out
			case "silence":
				delete(s.answers, question(d.CmdArgs))
			case "kernel":
				clear(proc)
				for _, a := range d.CmdArgs {
					proc["driver/nvidia/gpus/"+a.Key+"/information"] = &fstest.MapFile{}
				}
			case "ask":
				s.asked = nil
				inv, err := driver.Inventory(t.Context())
				return fmt.Sprintf("asked %s\n", strings.Join(s.asked, "; ")) + tell(inv, err)
			default:
				d.Fatalf(t, "unknown command %s", d.Cmd)
			}
			return ""
		})
	})
}

func question(args []datadriven.CmdArg) string {
	var words []string
	for _, a := range args {
		if a.Key != "code" {
			words = append(words, a.Key)
		}
	}
	return strings.Join(words, " ")
}

func tell(inv *gpu.Inventory, err error) string {
	if err != nil {
		return fmt.Sprintf("no driver: %t: %v\n", errors.Is(err, gpu.ErrNoDriver), err)
	}
	var b strings.Builder
	fmt.Fprintf(&b, "driver %s links %d\n", inv.Version, inv.Links)
	for _, g := range inv.GPUs {
		fmt.Fprintf(&b, "%s %q %q %q %s %d MiB compute %q mig %d health %+v %s\n", g.Address, g.UUID, g.Model, g.Architecture, g.Node, g.Memory,
			g.Compute, g.MIG, g.Health, g.Lost)
		for _, in := range g.Instances {
			fmt.Fprintf(&b, "  %+v\n", in)
		}
		for _, p := range g.Processes {
			fmt.Fprintf(&b, "  %+v\n", p)
		}
	}
	return b.String()
}

func TestSpool(t *testing.T) {
	now := time.Unix(1_000_000, 0)
	dir := fstest.MapFS{
		"query.xml": {Data: []byte("<x/>")}, "query.xml.code": {Data: []byte("6\n"), ModTime: now.Add(-30 * time.Second)},
		"list.txt": {Data: []byte("GPU 0")}, "list.txt.code": {Data: []byte("0"), ModTime: now.Add(-2 * time.Minute)},
		"query-0000:3b:00.0.xml": {Data: []byte("<y/>")}, "query-0000:3b:00.0.xml.code": {Data: []byte("0"), ModTime: now},
		"topology.txt.code": {Data: []byte("soon"), ModTime: now},
	}
	run := gpu.Spool(dir, time.Minute, func() time.Time { return now })
	if out, err := run(t.Context(), "-q", "-x"); err != nil || out.Code != 6 || string(out.Stdout) != "<x/>" {
		t.Errorf("%+v, %v", out, err)
	}
	if out, err := run(t.Context(), "-q", "-x", "-i", "0000:3b:00.0"); err != nil || string(out.Stdout) != "<y/>" {
		t.Errorf("one GPU: %+v, %v", out, err)
	}
	if _, err := run(t.Context(), "-L"); err == nil || !strings.Contains(err.Error(), "2m0s old") {
		t.Errorf("an old answer: %v", err)
	}
	if _, err := run(t.Context(), "topo", "-m"); err == nil {
		t.Error("a code that is none")
	}
	if _, err := run(t.Context(), "-q", "-x", "-i", "0000:3c:00.0"); !errors.Is(err, fs.ErrNotExist) || errors.Is(err, gpu.ErrNoDriver) {
		t.Errorf("no answer: %v", err)
	}
	if _, err := run(t.Context(), "-pm", "1"); err == nil {
		t.Error("somebody answers what changes a setting")
	}
}

func TestCommand(t *testing.T) {
	script := filepath.Join(t.TempDir(), "smi")
	if err := os.WriteFile(script, []byte("#!/bin/sh\necho \"$@\"; echo trouble >&2; exit 6\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	out, err := gpu.Command(script, "--before")(t.Context(), "-q", "-x")
	if err != nil || string(out.Stdout) != "--before -q -x\n" || out.Stderr != "trouble\n" || out.Code != 6 {
		t.Errorf("%+v, %v", out, err)
	}
	if _, err := gpu.Command(filepath.Join(t.TempDir(), "none"))(t.Context()); !errors.Is(err, gpu.ErrNoDriver) {
		t.Errorf("nothing to run: %v", err)
	}
	slow := gpu.Command("sleep")
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := slow(ctx, "60"); err == nil || errors.Is(err, gpu.ErrNoDriver) {
		t.Errorf("one that hangs: %v", err)
	}
}

func TestXids(t *testing.T) {
	records := `6,100,1000000,-;NVRM: loading NVIDIA UNIX x86_64 Kernel Module  590.44.01
4,101,2500000,-;NVRM: Xid (PCI:0000:3B:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus.
4,102,2600000,c;NVRM: Xid (PCI:0001:86:00): 13, pid=4711, name=python3, Graphics SM Warp Exception
 SUBSYSTEM=pci
4,103,zzz,-;NVRM: Xid (PCI:0000:3b:00): 79, pid=1
4,104,2700000,-;user text NVRM: Xid (PCI:0000:3b:00): 48
`
	got := gpu.ParseXids(records)
	want := []gpu.Xid{{Address: "0000:3b:00.0", Code: 79, At: 2500 * time.Millisecond}, {Address: "0001:86:00.0", Code: 13, At: 2600 * time.Millisecond}}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("%v", got)
	}
}

// FuzzParse: whatever the driver prints, nobody panics, and what is read is sorted and of one address each.
func FuzzParse(f *testing.F) {
	for _, name := range []string{"a100-mig.xml", "h200.xml"} {
		f.Add(fixture(f, name), fixture(f, "a100-mig.list"), fixture(f, "h200.topology"))
	}
	f.Fuzz(func(t *testing.T, query, list, topology []byte) {
		inv, err := gpu.ParseQuery(query)
		if err != nil {
			return
		}
		inv.AddList(list)
		inv.AddTopology(topology)
		for i := 1; i < len(inv.GPUs); i++ {
			if inv.GPUs[i-1].Address >= inv.GPUs[i].Address {
				t.Errorf("%s before %s", inv.GPUs[i-1].Address, inv.GPUs[i].Address)
			}
		}
		if n := len(inv.Links); n != 0 && n != len(inv.GPUs)*len(inv.GPUs) {
			t.Errorf("%d links of %d GPUs", n, len(inv.GPUs))
		}
	})
}
