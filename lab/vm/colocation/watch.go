package colocation

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"os"
	"path"
	"slices"
	"strings"
	"time"
)

const (
	uptimeFile, statFile = "/proc/uptime", "/proc/stat"
	systemCgroup         = "/sys/fs/cgroup/system.slice"
	podsCgroup           = "/sys/fs/cgroup/kubepods"
	systemFile           = systemCgroup + "/cpu.stat"
	// hertz is what the times of /proc/stat are counted in.
	hertz = 100
)

// requests is the file of a server's answers, work that of a job's work, as the guest's first process sees them.
func (p *Pod) requests() string { return fmt.Sprintf("/proc/%d/root/dev/shm/requests", p.PID) }
func (p *Pod) work() string     { return fmt.Sprintf("/proc/%d/root/dev/shm/work", p.PID) }

// answer is one that a server gave: when it was asked, since boot, and how much later the answer was there.
type answer struct{ at, latency time.Duration }

func (a answer) ready() time.Duration { return a.at + a.latency }

func parseAnswers(text string) (out []answer, err error) {
	for line := range strings.Lines(text) {
		if !strings.HasSuffix(line, "\n") {
			break // it is just being written
		}
		var at, latency int64
		if _, err := fmt.Sscan(line, &at, &latency); err != nil {
			return nil, fmt.Errorf("answer %q: %w", line, err)
		}
		out = append(out, answer{time.Duration(at) * time.Microsecond, time.Duration(latency) * time.Microsecond})
	}
	return out, nil
}

// sample is what the kernel has counted since the boot.
type sample struct {
	at          float64            // seconds since the boot
	threads     map[string]turns   // of the online pod
	some        float64            // seconds in which some thread of the online pod waited for a CPU
	busy, total float64            // seconds of all CPUs
	offline     float64            // CPU seconds of the offline pods
	system      float64            // CPU seconds of the node's services
	work        map[string]float64 // by offline pod
}

// turns are the seconds that a thread ran and waited to run.
type turns struct{ ran, waited float64 }

// sample reads all at once, in one request.
func (b *Bed) sample(online *Pod) sample {
	b.T.Helper()
	pressure := online.Cgroup + "/cpu.pressure"
	names := []string{uptimeFile, statFile, systemFile, pressure, fmt.Sprintf("/proc/%d/task/*/schedstat", online.PID)}
	for _, p := range b.offline {
		names = append(names, p.Cgroup+"/cpu.stat", p.work())
	}
	files, err := b.Guest.ReadFiles(b.T.Context(), names...)
	b.Must(err)
	s := sample{threads: map[string]turns{}, work: map[string]float64{}}
	_, err = fmt.Sscan(files[uptimeFile], &s.at)
	b.Must(err)
	s.some, err = after(files[pressure], "total=")
	s.some /= 1e6
	b.Must(err)
	s.system, err = after(files[systemFile], "usage_usec ")
	s.system /= 1e6
	b.Must(err)
	for i, text := range strings.Fields(strings.TrimPrefix(strings.SplitN(files[statFile], "\n", 2)[0], "cpu ")) {
		var ticks float64
		_, err := fmt.Sscan(text, &ticks)
		b.Must(err)
		if i < 8 { // guests' time is counted in user's too
			s.total += ticks / hertz
			if i != 3 && i != 4 { // idle, and waiting for a disk
				s.busy += ticks / hertz
			}
		}
	}
	for name, text := range files {
		if path.Base(name) == "schedstat" {
			var t turns
			_, err := fmt.Sscan(text, &t.ran, &t.waited)
			b.Must(err)
			s.threads[name] = turns{t.ran / 1e9, t.waited / 1e9}
		}
	}
	for _, p := range b.offline {
		used, err := after(files[p.Cgroup+"/cpu.stat"], "usage_usec ")
		b.Must(err)
		s.offline += used / 1e6
		var pieces float64
		if _, err := fmt.Sscan(files[p.work()], &pieces); err != nil {
			b.T.Fatalf("%s of %s: %q: %v", p.work(), p.Name, files[p.work()], err)
		}
		s.work[p.Job] = pieces
	}
	return s
}

// after is the first number behind a key.
func after(text, key string) (value float64, err error) {
	_, rest, ok := strings.Cut(text, key)
	if !ok {
		return 0, fmt.Errorf("%q has no %s", text, key)
	}
	_, err = fmt.Sscan(rest, &value)
	return value, err
}

// Figures are of one window.
type Figures struct {
	// RunDelay is how long the online pod's threads could have run and did not, in milliseconds a second, all together; Had which part of the CPU
	// time that they wanted they got; CPU how many CPUs they used. Pressure is the share of time in which some of them waited, Busy that of the
	// guest's CPUs that was used.
	RunDelay float64 `json:"runDelayMsPerSecond"`
	Had      float64 `json:"hadOfWanted"`
	CPU      float64 `json:"onlineCPUs"`
	Pressure float64 `json:"cpuPressure"`
	Busy     float64 `json:"guestBusy"`
	// Answers are those of a second; P50 to Longest their latencies, in milliseconds from when each was asked. Gap is the longest time without
	// an answer, in milliseconds.
	Answers float64 `json:"answersPerSecond"`
	P50     float64 `json:"p50Ms"`
	P99     float64 `json:"p99Ms"`
	Longest float64 `json:"longestMs"`
	Gap     float64 `json:"longestGapMs"`
	// OfflineCPUs are what the offline pods used, Work what each of them did in a second, in its own pieces.
	OfflineCPUs float64            `json:"offlineCPUs"`
	Work        map[string]float64 `json:"offlineWorkPerSecond,omitempty"`
	// SystemCPUs are what containerd, the kubelet and the agent used.
	SystemCPUs float64 `json:"systemCPUs"`
	// Load is the host's load average of a minute at the end.
	Load float64 `json:"hostLoad"`
}

// Watch watches one window. What is done meanwhile may be nil.
func (b *Bed) Watch(online *Pod, window time.Duration, meanwhile func()) Figures {
	b.T.Helper()
	begin, before := time.Now(), b.sample(online)
	if meanwhile != nil {
		meanwhile()
	}
	time.Sleep(window - time.Since(begin))
	now := b.sample(online)
	f := between(before, now)
	f.Load = hostLoad()
	if online.serves() {
		text, err := b.Guest.ReadFile(b.T.Context(), online.requests())
		b.Must(err)
		answers, err := parseAnswers(text)
		b.Must(err)
		f.serve(answers, before.at, now.at)
	}
	return f
}

func between(then, now sample) Figures {
	f := Figures{Work: map[string]float64{}}
	elapsed := now.at - then.at
	var ran, waited float64
	for name, t := range now.threads {
		ran += t.ran - then.threads[name].ran
		waited += t.waited - then.threads[name].waited
	}
	f.CPU, f.RunDelay, f.Had = ran/elapsed, 1000*waited/elapsed, ran/max(ran+waited, 1e-9)
	f.Pressure = (now.some - then.some) / elapsed
	f.Busy = (now.busy - then.busy) / max(now.total-then.total, 1e-9)
	f.SystemCPUs = (now.system - then.system) / elapsed
	f.OfflineCPUs = (now.offline - then.offline) / elapsed
	for name, pieces := range now.work {
		f.Work[name] = (pieces - then.work[name]) / elapsed
	}
	return f
}

// serve adds what answers were ready between two times, in seconds since the boot.
func (f *Figures) serve(answers []answer, from, to float64) {
	begin, end := seconds(from), seconds(to)
	ready := slices.DeleteFunc(slices.Clone(answers), func(a answer) bool { return a.ready() < begin || a.ready() > end })
	slices.SortFunc(ready, func(a, b answer) int { return cmp.Compare(a.ready(), b.ready()) })
	last, gap := begin, time.Duration(0)
	latencies := make([]time.Duration, 0, len(ready))
	for _, a := range ready {
		gap, last = max(gap, a.ready()-last), a.ready()
		latencies = append(latencies, a.latency)
	}
	slices.Sort(latencies)
	f.Gap = milliseconds(max(gap, end-last))
	f.Answers = float64(len(ready)) / (to - from)
	if len(latencies) > 0 {
		f.P50, f.P99 = milliseconds(quantile(latencies, 0.5)), milliseconds(quantile(latencies, 0.99))
		f.Longest = milliseconds(latencies[len(latencies)-1])
	}
}

func seconds(s float64) time.Duration      { return time.Duration(s * float64(time.Second)) }
func milliseconds(d time.Duration) float64 { return d.Seconds() * 1000 }
func quantile[T any](sorted []T, q float64) T {
	return sorted[int(math.Round(q*float64(len(sorted)-1)))]
}

// hostLoad is 0 where it is not known.
func hostLoad() (load float64) {
	text, err := os.ReadFile("/proc/loadavg")
	if _, scanErr := fmt.Sscan(string(text), &load); errors.Join(err, scanErr) != nil {
		return 0
	}
	return load
}
