package agent

import (
	"errors"
	"strings"
	"testing"

	"hilbert.dev/hilbert/lab/vm/vmtest"
)

// tree is what the knobs of all pods' cgroups say, and io.cost, by line.
func (r *rig) tree() map[string]bool {
	r.t.Helper()
	names := "-name " + strings.Join(vmtest.Knobs(), " -o -name ")
	text, err := r.Guest.Shell(r.t.Context(), "cd /sys/fs/cgroup && grep -H . $(find "+strings.TrimPrefix(kubepods, "/sys/fs/cgroup/")+" "+names+") io.cost.qos")
	if err != nil {
		r.t.Fatal(err)
	}
	out := map[string]bool{}
	for line := range strings.Lines(text) {
		out[strings.TrimSpace(line)] = true
	}
	if len(out) < 50 {
		r.t.Fatalf("there are %d values only: %s", len(out), text)
	}
	return out
}

// TestCleanup: an agent that lends takes over a node with pods and goes. After the cleanup each file of each cgroup has the effect that it had before the agent came,
// and the agent's own files are gone.
func TestCleanup(t *testing.T) {
	long(t)
	r := newRig(t)
	agent := r.Guest.Service(agentName)
	cleanUp := func() {
		t.Helper()
		if err := agent.Stop(t.Context()); err != nil {
			t.Fatal(err)
		}
		if said, err := r.Guest.Shell(t.Context(), "/usr/bin/hilbertd --config=/etc/hilbert/agent.yaml --cleanup 2>&1"); err != nil {
			t.Fatalf("%v\n%s", err, said)
		}
	}
	cleanUp()
	r.run(r.pod("asks", requests("1")), r.pod("asks-nothing"), r.pod("limited", asks("500m", "64Mi")))
	before := r.tree()
	r.lend()
	r.eventually(patience, "the agent has set cpusets, weights and protection", func() error {
		changed := strings.Join(vmtest.Changed(before, r.tree()), "\n")
		for _, file := range []string{"cpuset.cpus.effective", "io.weight", "memory.low"} {
			if !strings.Contains(changed, file) {
				return errors.New("nothing but\n" + changed)
			}
		}
		return nil
	})
	set := vmtest.Changed(before, r.tree())
	cleanUp()
	if left := vmtest.Changed(before, r.tree()); len(left) > 0 {
		t.Errorf("the cleanup leaves:\n%s", strings.Join(left, "\n"))
	}
	if files, err := r.Guest.ReadDir(t.Context(), "/var/lib/hilbert"); err != nil || len(files) > 0 {
		t.Errorf("the state directory has %v (%v)", files, err)
	}
	t.Logf("the agent had changed %d values", len(set)/2)
}
