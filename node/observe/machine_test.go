package observe

import (
	"os"
	"runtime"
	"strings"
	"testing"
	"time"
)

// TestThisMachine reads the machine that the test runs on: whatever its kernel has, we understand it.
func TestThisMachine(t *testing.T) {
	if _, err := os.Stat("/proc/stat"); err != nil {
		t.Skip("no procfs:", err)
	}
	var root string
	for _, dir := range []string{"sys/fs/cgroup", "sys/fs/cgroup/unified"} {
		if _, err := os.Stat("/" + dir + "/cgroup.controllers"); err == nil {
			root = dir
		}
	}
	r := New(Root("/"), Params{CgroupRoot: root, SlowEvery: 1})
	defer r.Close()
	cgroups := []Cgroup{{ID: "root", Dir: "/"}}
	r.Read(0, cgroups)
	deadline := time.Now().Add(150 * time.Millisecond)
	for time.Now().Before(deadline) { // so that there is something to see
		runtime.Gosched()
	}
	o := r.Read(150*time.Millisecond, cgroups)
	for _, why := range []Reason{Malformed, Truncated, TooLarge, BadPath} {
		if n := o.Counts.Faults[why]; n > 0 {
			t.Errorf("%d files were %v", n, why)
		}
	}
	if n, ok := o.Node.Memory.Total.Get(); !ok || n <= 0 {
		t.Errorf("memory: %v", cell(o.Node.Memory.Total, amounts))
	}
	if busy, ok := o.Node.CPU.Busy.Get(); !ok || busy <= 0 {
		t.Errorf("busy: %v", cell(o.Node.CPU.Busy, cores))
	}
	if _, ok := o.Node.Load1.Get(); !ok || !strings.Contains(o.Render(), "CGROUP") {
		t.Errorf("load: %v", cell(o.Node.Load1, cores))
	}
	if root == "" {
		return
	}
	if usage, ok := o.Cgroups[0].CPU.Usage.Get(); !ok || usage <= 0 {
		t.Errorf("usage of the root cgroup: %v", cell(o.Cgroups[0].CPU.Usage, cores))
	}
}

// TestThisThread understands what the kernel says of a thread of this process.
func TestThisThread(t *testing.T) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	file, err := Root("/").Open("proc/thread-self/schedstat")
	if err != nil {
		t.Skip("the kernel keeps no such counts:", err)
	}
	data, err := readInto(file, make([]byte, 256), record)
	if err != nil {
		t.Fatal(err)
	}
	if _, why := parseThreadDelay(data); why != fine && why != Unsupported {
		t.Errorf("%q: %v", data, why)
	}
	if err := file.Close(); err != nil {
		t.Error(err)
	}
}
