//go:build linux

package blkio

import (
	"bufio"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/node/enforce"
)

// The test of this file changes the settings of the machine's disk. It runs only where HILBERT_IN_GUEST says that it is a guest: lab/vm/probe
// brings it there.

const (
	role      = "HILBERT_BLKIO_ROLE" // set: this process reads the disk of that name
	hierarchy = "/sys/fs/cgroup"
	disk      = "vda"
	group     = "blkio"
	readers   = 16
	block     = 4096
	window    = 4 * time.Second
)

func TestMain(m *testing.M) {
	if name := os.Getenv(role); name != "" {
		read(name)
	}
	os.Exit(m.Run())
}

// read reads blocks of a disk at random, past the page cache, as fast as it may, and says how many whenever a line comes in.
func read(name string) {
	var blocks atomic.Int64
	for i := range readers {
		go func() {
			fd, err := unix.Open("/dev/"+name, unix.O_RDONLY|unix.O_DIRECT, 0)
			if err != nil {
				panic(err)
			}
			// O_DIRECT wants memory that is aligned.
			memory := make([]byte, 2*block)
			start := block - int(uintptr(unsafe.Pointer(&memory[0])))%block
			random := rand.New(rand.NewPCG(uint64(os.Getpid()), uint64(i)))
			for {
				if _, err := unix.Pread(fd, memory[start:start+block], random.Int64N(1<<30/block)*block); err != nil {
					panic(err)
				}
				blocks.Add(1)
			}
		}()
	}
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		fmt.Fprintln(os.Stdout, blocks.Load())
	}
	os.Exit(0)
}

type reader struct {
	in  io.Writer
	out *bufio.Scanner
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func startReader(t *testing.T, cgroup string) *reader {
	t.Helper()
	dir, err := os.Open(filepath.Join(hierarchy, cgroup))
	must(t, err)
	defer func() { _ = dir.Close() }()
	process := exec.Command(os.Args[0])
	process.Env, process.Stderr = append(os.Environ(), role+"="+disk), os.Stderr
	process.SysProcAttr = &syscall.SysProcAttr{UseCgroupFD: true, CgroupFD: int(dir.Fd())}
	in, err := process.StdinPipe()
	must(t, err)
	out, err := process.StdoutPipe()
	must(t, err)
	must(t, process.Start())
	t.Cleanup(func() {
		_ = process.Process.Kill()
		_ = process.Wait()
	})
	return &reader{in, bufio.NewScanner(out)}
}

func (r *reader) blocks(t *testing.T) (n float64) {
	t.Helper()
	_, err := fmt.Fprintln(r.in)
	must(t, err)
	if !r.out.Scan() {
		t.Fatal("a reader has ended")
	}
	_, err = fmt.Sscan(r.out.Text(), &n)
	must(t, err)
	return n
}

// windows is how often a rate is measured until it is as it should be: a machine that is busy has bad moments, and the kernel pays back debts.
const windows = 4

// shows measures the blocks per second of two readers until they are right.
func shows(t *testing.T, what string, x, y *reader, right func(x, y float64) bool) {
	t.Helper()
	for range windows {
		a, b := rates(t, x, y)
		t.Logf("%s: %.0f and %.0f blocks/s, %.1f:1", what, a, b, a/b)
		if right(a, b) {
			return
		}
	}
	t.Errorf("%s: the rates are not as they should be", what)
}

func rates(t *testing.T, x, y *reader) (float64, float64) {
	t.Helper()
	time.Sleep(time.Second)
	begin, x0, y0 := time.Now(), x.blocks(t), y.blocks(t)
	time.Sleep(window)
	x1, y1, seconds := x.blocks(t), y.blocks(t), time.Since(begin).Seconds()
	return (x1 - x0) / seconds, (y1 - y0) / seconds
}

// TestGuestWeights: with io.cost on, an online and a reclaimed pod share the disk by their weights; with it off they share it alike; a ceiling
// holds the reclaimed one down by itself.
func TestGuestWeights(t *testing.T) {
	if os.Getenv("HILBERT_IN_GUEST") == "" {
		t.Skip("it changes the machine's disk: run it by lab/vm/probe")
	}
	files, err := enforce.OpenFiles(hierarchy, "/proc")
	must(t, err)
	pods := []enforce.Pod{{Cgroup: group + "/burstable/online", Level: spec.QoSShared}, {Cgroup: group + "/besteffort/reclaimed", Level: spec.QoSReclaimed}}
	for _, pod := range pods {
		must(t, os.MkdirAll(filepath.Join(hierarchy, pod.Cgroup), 0o755))
	}
	if s := Detect(files, group); s.Weights || !s.Cost || len(s.Conditions) != 1 {
		t.Errorf("before the controller is handed on: %+v", s)
	}
	for _, dir := range []string{group, group + "/burstable", group + "/besteffort"} {
		must(t, files.Write(dir+"/cgroup.subtree_control", "+io"))
	}
	if s := Detect(files, group); !s.Weights || !s.Ceilings || !s.Cost || s.Conditions != nil {
		t.Fatalf("support: %+v", s)
	}
	disks, err := Disks(os.DirFS("/sys"))
	must(t, err)
	t.Logf("disks: %+v", disks)

	p := Params{Dedicated: 800, Shared: 800, Reclaimed: 100}
	// A model of some 200 blocks a second, at which the kernel keeps the disk whatever it could do.
	p.Devices = []Device{{
		Name:    disk,
		Model:   &Model{ReadBytes: 64 << 20, ReadSequential: 200, ReadRandom: 200, WriteBytes: 64 << 20, WriteSequential: 200, WriteRandom: 200},
		Quality: &Quality{Least: 100, Most: 100},
	}}
	must(t, p.Validate())
	cost := NewCost(files, p.Devices)
	table := enforce.NewTable()
	flush := func(p Params) {
		t.Helper()
		for _, w := range knobsOn(disks, pods, p) {
			must(t, table.Want("blkio", w.Knob, w.Value))
		}
		if o := table.Tick(files); o.Gone != 0 || o.Refused != nil {
			t.Fatalf("knobs: %+v", o)
		}
		if o := table.Tick(files); o.Written != 0 {
			t.Errorf("knobs are written again and again: %+v", o)
		}
	}
	flush(p)
	for range 2 {
		for _, c := range cost.Tick(disks) {
			if c.Reason != ReasonWeightsIdle || strings.Contains(c.Message, disk) {
				t.Errorf("condition %+v", c)
			}
		}
	}
	online, reclaimed := startReader(t, pods[0].Cgroup), startReader(t, pods[1].Cgroup)
	shows(t, "weights 800:100 with io.cost, want 8:1", online, reclaimed, func(x, y float64) bool { return y > 0 && x > 3*y })
	must(t, cost.Close())
	shows(t, "without io.cost, want 1:1", online, reclaimed, func(x, y float64) bool { return x < 2*y })
	if text, err := files.Read(costQuality); err != nil || strings.Contains(text, "enable=1") {
		t.Errorf("%s: %q, %v", costQuality, text, err)
	}
	p.Ceilings = []Ceiling{{Name: disk, ReadOperations: 20}}
	flush(p)
	shows(t, "with a ceiling of 20 reads", online, reclaimed, func(x, y float64) bool { return y > 0 && y < 30 && x > 3*y })
}
