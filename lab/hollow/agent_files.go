package hollow

import (
	"fmt"
	"io/fs"
	"strconv"
	"strings"
	"syscall"

	"hilbert.dev/hilbert/node/observe"
	"hilbert.dev/hilbert/topology"
)

// workFiles are the files of a modelled kernel that package observe reads. Time passes there when /proc/stat is read, with which each reading
// begins: so the files of one reading tell of one moment. What the laws do not look at is not there.
type workFiles struct{ kernel *mapKernel }

const (
	hierarchy = "sys/fs/cgroup/"
	numaDir   = "sys/devices/system/node/"
	// firstThread is the number of the first pod's thread. Each container has one, that waits as many as its pod has waiting.
	firstThread = 1000
)

// nodeTexts are the files of the node.
var nodeTexts = map[string]func(*work) string{
	"proc/stat": (*work).stat, "proc/schedstat": (*work).schedstat, "proc/meminfo": (*work).meminfo, numaDir + "online": (*work).onlineNUMANodes,
	"proc/pressure/cpu": noPressure, "proc/pressure/memory": noPressure, "proc/pressure/io": noPressure,
}

// podTexts are the files of a pod's cgroup, and of its container's.
var podTexts = map[string]func(*work, *workPod) string{
	"cpu.stat": (*work).cpuStat, "cpu.pressure": (*work).cpuPressure, "memory.current": (*work).memoryCurrent, "memory.stat": (*work).memoryStat,
	"memory.numa_stat":      (*work).numaStat,
	"memory.pressure":       func(w *work, _ *workPod) string { return noPressure(w) },
	"memory.events":         func(*work, *workPod) string { return "low 0\nhigh 0\nmax 0\noom 0\noom_kill 0\n" },
	"cgroup.threads":        func(_ *work, p *workPod) string { return fmt.Sprintln(p.thread()) },
	"pids.current":          func(*work, *workPod) string { return "1\n" },
	"io.stat":               func(*work, *workPod) string { return "" },
	"io.pressure":           func(w *work, _ *workPod) string { return noPressure(w) },
	"cpuset.cpus.effective": func(_ *work, p *workPod) string { return p.cpus.String() + "\n" },
}

// Open implements observe.Files.
func (f workFiles) Open(name string) (observe.File, error) {
	f.kernel.mu.Lock()
	defer f.kernel.mu.Unlock()
	w := f.kernel.work
	if text, ok := nodeTexts[name]; ok {
		return &workFile{f.kernel, name, nil, func(w *work, _ *workPod) string { return text(w) }, ""}, nil
	}
	if numa, ok := strings.CutSuffix(strings.TrimPrefix(name, numaDir+"node"), "/meminfo"); ok {
		for i := range w.machine.NUMA {
			if strconv.Itoa(w.machine.NUMA[i].ID) == numa {
				return &workFile{f.kernel, name, nil, func(w *work, _ *workPod) string { return w.numaInfo(i) }, ""}, nil
			}
		}
	}
	for _, p := range w.pods {
		if name == fmt.Sprintf("proc/%d/schedstat", p.thread()) {
			return &workFile{f.kernel, name, p, (*work).threadStat, ""}, nil
		}
		for _, dir := range []string{p.cgroup, p.container} {
			if file, ok := strings.CutPrefix(name, hierarchy+dir+"/"); ok && podTexts[file] != nil {
				return &workFile{f.kernel, name, p, podTexts[file], ""}, nil
			}
		}
	}
	return nil, &fs.PathError{Op: "open", Path: name, Err: syscall.ENOENT}
}

// Identity implements observe.Files.
func (f workFiles) Identity(dir string) (uint64, error) {
	f.kernel.mu.Lock()
	defer f.kernel.mu.Unlock()
	for _, p := range f.kernel.work.pods {
		switch strings.TrimPrefix(dir, hierarchy) {
		case p.cgroup:
			return p.identity, nil
		case p.container:
			return p.identity + 1, nil
		}
	}
	return 0, &fs.PathError{Op: "stat", Path: dir, Err: syscall.ENOENT}
}

// workFile is an open file. What it said at its beginning it goes on saying to its end.
type workFile struct {
	kernel *mapKernel
	name   string
	pod    *workPod // nil: of the node
	render func(*work, *workPod) string
	text   string
}

// ReadAt implements observe.File.
func (f *workFile) ReadAt(p []byte, offset int64) (int, error) {
	f.kernel.mu.Lock()
	defer f.kernel.mu.Unlock()
	w := f.kernel.work
	switch {
	case w.blind:
		return 0, syscall.EIO
	case f.pod != nil && f.pod.gone:
		return 0, syscall.ENODEV
	}
	if offset == 0 {
		if f.name == "proc/stat" {
			w.pass(f.kernel.clock.Now(), f.kernel.files)
		}
		f.text = f.render(w, f.pod)
	}
	if offset >= int64(len(f.text)) {
		return 0, nil
	}
	return copy(p, f.text[offset:]), nil
}

// Close implements observe.File.
func (f *workFile) Close() error { return nil }

func (p *workPod) thread() uint64 { return firstThread + p.identity }

const (
	ticksPerSecond = 100
	micro          = 1e6
	nano           = 1e9
	kibi           = 1024
)

func (w *work) stat() string {
	var b strings.Builder
	total, all := w.at.Sub(w.began).Seconds(), 0.0
	for i := range w.cpus {
		all += w.cpus[i].busy
	}
	line := func(name string, busy, seconds float64) {
		fmt.Fprintf(&b, "%s %d 0 0 %d 0 0 0 0 0 0\n", name, int64(busy*ticksPerSecond), int64(max(0, seconds-busy)*ticksPerSecond))
	}
	line("cpu ", all, total*float64(len(w.cpus)))
	for i := range w.cpus {
		line("cpu"+strconv.Itoa(i), w.cpus[i].busy, total)
	}
	return b.String()
}

func (w *work) schedstat() string {
	var b strings.Builder
	b.WriteString("version 17\ntimestamp 1\n")
	for i := range w.cpus {
		fmt.Fprintf(&b, "cpu%d 0 0 0 0 0 0 %d %d 1\n", i, int64(w.cpus[i].busy*nano), int64(w.cpus[i].waited*nano))
	}
	return b.String()
}

func (w *work) meminfo() string {
	var total int64
	for i := range w.machine.NUMA {
		total += w.machine.NUMA[i].Memory
	}
	free := total - w.held()*int64(len(w.machine.NUMA))
	return fmt.Sprintf("MemTotal: %d kB\nMemFree: %d kB\nMemAvailable: %[2]d kB\nSwapTotal: 0 kB\nSwapFree: 0 kB\n", total/kibi, max(0, free)/kibi)
}

func (w *work) onlineNUMANodes() string {
	var set topology.CPUSet // the kernel lists nodes as it does CPUs
	for i := range w.machine.NUMA {
		set.Add(w.machine.NUMA[i].ID)
	}
	return set.String() + "\n"
}

func (w *work) numaInfo(numa int) string {
	n := &w.machine.NUMA[numa]
	held := w.held()
	return fmt.Sprintf("Node %[1]d MemTotal: %[2]d kB\nNode %[1]d MemFree: %[3]d kB\nNode %[1]d FilePages: 0 kB\nNode %[1]d AnonPages: %[4]d kB\n"+
		"Node %[1]d Slab: 0 kB\nNode %[1]d Inactive(file): 0 kB\n", n.ID, n.Memory/kibi, max(0, n.Memory-held)/kibi, held/kibi)
}

func noPressure(*work) string { return pressure(0) }

func pressure(seconds float64) string {
	const line = "%s avg10=0.00 avg60=0.00 avg300=0.00 total=%d\n"
	return fmt.Sprintf(line, "some", int64(seconds*micro)) + fmt.Sprintf(line, "full", 0)
}

func (w *work) cpuStat(p *workPod) string {
	return fmt.Sprintf("usage_usec %d\nuser_usec %[1]d\nsystem_usec 0\nnr_periods 0\nnr_throttled 0\nthrottled_usec 0\n", int64(p.used*micro))
}

func (w *work) cpuPressure(p *workPod) string { return pressure(p.stalled) }

func (w *work) memoryCurrent(p *workPod) string { return fmt.Sprintln(p.memory) }

func (w *work) memoryStat(p *workPod) string {
	return fmt.Sprintf("anon %d\nfile 0\nkernel 0\nshmem 0\nfile_dirty 0\ninactive_anon 0\ninactive_file 0\nactive_file 0\nslab 0\n"+
		"workingset_refault_anon 0\nworkingset_refault_file 0\npgscan 0\npgsteal 0\npgmajfault 0\n", p.memory)
}

func (w *work) numaStat(p *workPod) string {
	var anon, file strings.Builder
	for i := range w.machine.NUMA {
		fmt.Fprintf(&anon, " N%d=%d", w.machine.NUMA[i].ID, p.memory/int64(len(w.machine.NUMA)))
		fmt.Fprintf(&file, " N%d=0", w.machine.NUMA[i].ID)
	}
	return "anon" + anon.String() + "\nfile" + file.String() + "\n"
}

func (w *work) threadStat(p *workPod) string {
	return fmt.Sprintf("%d %d 1\n", int64(p.used*nano), int64(p.waited*nano))
}
