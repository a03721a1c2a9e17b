package probe

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"hilbert.dev/hilbert/node/cdi"
	"hilbert.dev/hilbert/node/gpu"
	"hilbert.dev/hilbert/node/rdt"
	"hilbert.dev/hilbert/node/runqueue"
)

// Real is the machine that this program runs on. toolkit is the path of the configuration of NVIDIA's container toolkit.
func Real(now time.Time, toolkit string, write bool) *Machine {
	m := &Machine{
		Now: now, Root: os.DirFS("/"), CDI: cdi.Dirs(), Toolkit: toolkit, Write: write,
		Faults: func() ([]gpu.Xid, error) { return gpu.KernelLog("/dev/kmsg") }, Instructions: countInstructions,
		Threads: ownThreads, LoadMemory: loadMemory,
		RunQueues: runqueue.New(runqueue.Options{Tracing: "/sys/kernel/tracing"}).Check,
	}
	run := gpu.Spool(os.DirFS("/run/hilbert/gpu"), time.Minute, time.Now)
	if program, err := exec.LookPath("nvidia-smi"); err == nil {
		run = gpu.Command(program)
	}
	m.Driver = &gpu.SMI{Run: run, Proc: os.DirFS("/proc")}
	if _, err := os.Stat("/sys/fs/resctrl/info"); !errors.Is(err, os.ErrNotExist) {
		m.RDT = rdt.Dir("/sys/fs/resctrl")
	}
	return m
}

func ownThreads() (out []int, err error) {
	entries, err := os.ReadDir("/proc/self/task")
	for _, entry := range entries {
		if thread, err := strconv.Atoi(entry.Name()); err == nil {
			out = append(out, thread)
		}
	}
	return out, err
}

// loadMemory copies what no cache holds.
func loadMemory() (bytes float64, took time.Duration) {
	const half = 256 << 20
	from, to := make([]byte, half), make([]byte, half)
	for begun := time.Now(); took < time.Second; took = time.Since(begun) {
		bytes += 2 * float64(copy(to, from)) // read and written
		from, to = to, from
	}
	return bytes, took
}

// rounds of the loop that is counted: more instructions than a counter that was read wrongly would show.
const rounds = 1_000_000

func countInstructions() (instructions, cycles uint64, err error) {
	runtime.LockOSThread() // the counters are of this thread
	defer runtime.UnlockOSThread()
	var counters [2]int
	for i, event := range []uint64{unix.PERF_COUNT_HW_INSTRUCTIONS, unix.PERF_COUNT_HW_CPU_CYCLES} {
		attr := unix.PerfEventAttr{Type: unix.PERF_TYPE_HARDWARE, Size: uint32(unix.PERF_ATTR_SIZE_VER1), Config: event, Bits: unix.PerfBitExcludeKernel | unix.PerfBitExcludeHv}
		if counters[i], err = unix.PerfEventOpen(&attr, 0, -1, -1, unix.PERF_FLAG_FD_CLOEXEC); err != nil {
			return 0, 0, fmt.Errorf("count by perf_event_open: %w", err)
		}
		defer func() { _ = unix.Close(counters[i]) }()
	}
	sum := uint64(0)
	for i := range uint64(rounds) {
		sum += i ^ sum<<1
	}
	runtime.KeepAlive(sum)
	var read [2]uint64
	for i, counter := range counters {
		var text [8]byte
		if _, err := unix.Read(counter, text[:]); err != nil {
			return 0, 0, fmt.Errorf("read a counter of perf_event_open: %w", err)
		}
		read[i] = binary.NativeEndian.Uint64(text[:])
	}
	return read[0], read[1], nil
}
