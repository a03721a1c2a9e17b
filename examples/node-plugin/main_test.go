package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"testing"
	"time"

	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/node/plugin"
	"hilbert.dev/hilbert/node/plugin/plugintest"
	"hilbert.dev/hilbert/topology"
)

// asPlugin, if set, makes the test's program the plugin itself, with this directory.
const asPlugin = "HILBERT_TEST_NODE_PLUGIN"

func TestMain(m *testing.M) {
	if directory := os.Getenv(asPlugin); directory != "" {
		if err := run(context.Background(), directory, "example.com/fpga", "0,0,1", directory+"/hot"); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

// start starts the plugin as a process of its own, and connects to it. kill ends it as a crash does.
func start(t *testing.T, d *plugin.Directory) (c *plugin.Client, kill func()) {
	t.Helper()
	process := exec.CommandContext(t.Context(), os.Args[0])
	process.Env, process.Stderr = append(os.Environ(), asPlugin+"="+d.Path), os.Stderr
	if err := process.Start(); err != nil {
		t.Fatal(err)
	}
	ended := false
	kill = func() {
		if !ended {
			ended = true
			_ = process.Process.Kill()
			_ = process.Wait()
		}
	}
	t.Cleanup(kill)
	for end := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) {
		sockets, _, err := d.List()
		if err == nil && len(sockets) == 1 {
			if c, err = d.Connect(t.Context(), sockets[0]); err == nil {
				t.Cleanup(c.Close)
				return c, kill
			}
		}
		if time.Now().After(end) {
			t.Fatalf("the plugin is not there: %v, %v", sockets, err)
		}
	}
}

// The example survives kill -9: the agent's book has what it gave.
func TestPluginCrashes(t *testing.T) {
	machine := &topology.Machine{NUMA: []topology.NUMANode{{ID: 0}, {ID: 1}}}
	d := &plugin.Directory{Path: plugintest.Directory(t), Node: "n1", Machine: machine, Owner: uint32(os.Geteuid())}
	c, kill := start(t, d)
	book := plugin.NewBook()
	give := func(uid string, set uint8) *plugin.Holding {
		t.Helper()
		capacity, _, err := c.Reconcile(t.Context(), book.Of("example.com/fpga"))
		if err != nil {
			t.Fatal(err)
		}
		book.Offer("example.com/fpga", capacity)
		r := &plugin.Request{Pod: spec.PodRef{UID: uid}, Resource: "example.com/fpga", Amount: 1, Containers: []spec.ContainerAmount{{Container: "main", Amount: 1}}}
		hints, err := c.Hints(t.Context(), r)
		if err == nil {
			_, err = book.Judge(r, hints)
		}
		if err != nil {
			t.Fatal(err)
		}
		h, err := c.Allocate(t.Context(), r, set)
		if err == nil {
			err = book.Take(r, set, h)
		}
		if err != nil {
			t.Fatal(err)
		}
		return h
	}
	if h := give("a", 1); fmt.Sprint(h.IDs, h.Containers["main"].Env) != "[card-0] [FPGA_CARDS=card-0]" {
		t.Errorf("pod a has %+v", h)
	}
	kill()
	if _, err := c.Hints(t.Context(), &plugin.Request{Amount: 1}); err == nil {
		t.Error("a plugin that was killed answers")
	}
	c, _ = start(t, d)
	if h := give("b", 1); fmt.Sprint(h.IDs) != "[card-1]" {
		t.Errorf("after the crash pod b has %v; want card-1, for card-0 is pod a's", h.IDs)
	}
	if h := give("c", 2); h.Amounts.NUMA != [8]int64{1: 1} {
		t.Errorf("pod c has %+v; want one of NUMA node 1", h.Amounts)
	}
	if err := c.Release(t.Context(), spec.PodRef{UID: "a"}); err != nil {
		t.Fatal(err)
	}
	book.Drop("a", "example.com/fpga")
	if h := give("d", 1); fmt.Sprint(h.IDs) != "[card-0]" {
		t.Errorf("pod d has %v; want card-0, which was released", h.IDs)
	}
}

// The example says that a card runs hot, and names the pod that holds it if that may be asked to go.
func TestPluginDetects(t *testing.T) {
	machine := &topology.Machine{NUMA: []topology.NUMANode{{ID: 0}, {ID: 1}}}
	d := &plugin.Directory{Path: plugintest.Directory(t), Node: "n1", Machine: machine, Owner: uint32(os.Geteuid())}
	c, _ := start(t, d)
	if !c.Info.Detects {
		t.Fatal("it does not detect")
	}
	pod := spec.PodRef{UID: "a"}
	_, err := c.Allocate(t.Context(), &plugin.Request{Pod: pod, Resource: "example.com/fpga", Amount: 1, Containers: []spec.ContainerAmount{{Container: "main", Amount: 1}}}, 1)
	if err != nil {
		t.Fatal(err)
	}
	found := func(of ...plugin.Candidate) string {
		t.Helper()
		f, err := c.Detect(t.Context(), of)
		if err != nil || len(f) != 1 {
			t.Fatalf("%+v: %v", f, err)
		}
		return fmt.Sprintf("%s %v %v", f[0].Condition, f[0].Met, f[0].Candidates)
	}
	if got := found(plugin.Candidate{Pod: pod}); got != "CardHot false [{a 1}]" {
		t.Error(got)
	}
	if err := os.WriteFile(d.Path+"/hot", nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if got := found(plugin.Candidate{Pod: spec.PodRef{UID: "b"}}); got != "CardHot true []" {
		t.Error(got)
	}
}
