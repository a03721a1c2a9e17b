package bench

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"

	"hilbert.dev/hilbert/lab/apart"
)

// SplitOptions says which schedulers to measure, on what.
type SplitOptions struct {
	Nodes, Pods int
	// Mixed schedules sixteen classes of pods instead of one.
	Mixed bool
	// Apart are numbers of scheduler processes beside a leader; 0 is one process that does everything.
	Apart []int
	// Inside are numbers of schedulers in that one process.
	Inside []int
	// APIServer is StandinAPIServer or RealAPIServer.
	APIServer string
	// Rounds is how often each is measured.
	Rounds int
	// Dir keeps the logs; "" is a temporary directory, removed unless the run fails.
	Dir string
	// Progress gets a line for each step.
	Progress io.Writer
}

// The API servers to measure against.
const (
	StandinAPIServer = "standin"
	RealAPIServer    = "kube-apiserver"
)

// maxApart bounds the schedulers: a leader lets in no more.
const maxApart = 64

// arrangement is how many schedulers there are, and where.
type arrangement struct{ apart, inside int }

func (a arrangement) String() string {
	switch {
	case a.apart > 0:
		return fmt.Sprintf("a leader and %d scheduler processes", a.apart)
	case a.inside > 1:
		return fmt.Sprintf("one process with %d schedulers", a.inside)
	}
	return "one process"
}

func (o *SplitOptions) validate() error {
	if err := (Options{Nodes: o.Nodes, Pods: o.Pods, Rounds: o.Rounds}).validate(); err != nil {
		return err
	}
	if o.APIServer != StandinAPIServer && o.APIServer != RealAPIServer {
		return fmt.Errorf("--api-server is %q: choose %s or %s", o.APIServer, StandinAPIServer, RealAPIServer)
	}
	if len(o.Apart) == 0 {
		return errors.New("--schedulers is empty: give numbers of scheduler processes, 0 for one process that does everything")
	}
	for _, n := range o.Apart {
		if n < 0 || n > maxApart {
			return fmt.Errorf("--schedulers has %d: give 0 (one process) to %d", n, maxApart)
		}
	}
	if slices.Contains(o.Apart, 0) && len(o.Inside) == 0 {
		return errors.New("--inside is empty: give the number of schedulers in one process, or no 0 to --schedulers")
	}
	for _, n := range o.Inside {
		if n < 1 || n > maxApart {
			return fmt.Errorf("--inside has %d: give 1 to %d", n, maxApart)
		}
	}
	return nil
}

func (o *SplitOptions) arrangements() (list []arrangement) {
	for _, n := range o.Apart {
		if n > 0 {
			list = append(list, arrangement{n, 1})
			continue
		}
		for _, inside := range o.Inside {
			list = append(list, arrangement{0, inside})
		}
	}
	return list
}

// Split measures hilbertd in one process and over several, from the creation of pods to their Bindings.
func Split(ctx context.Context, o SplitOptions) (_ *SplitResult, err error) {
	if err := o.validate(); err != nil {
		return nil, err
	}
	options := Options{Nodes: o.Nodes, Pods: o.Pods, Mixed: o.Mixed, Rounds: o.Rounds, Progress: o.Progress}
	work, err := newWorkload(options)
	if err != nil {
		return nil, err
	}
	dir, finish, err := openLogs(o.Dir)
	if err != nil {
		return nil, err
	}
	defer func() { err = finish(err) }()
	files, err := apart.WriteFiles(dir)
	if err != nil {
		return nil, err
	}
	h := &harness{options: options, work: work, dir: dir}
	if o.APIServer == RealAPIServer {
		defer func() { h.stop() }()
		if err := h.start(ctx, nil); err != nil {
			return nil, err
		}
	}
	result := &SplitResult{Protocol: newSplitProtocol(&o, len(work.classes))}
	list := o.arrangements()
	rounds := make([][]SplitRound, len(list))
	for i := range o.Rounds {
		for j, a := range list {
			h.progress("round %d of %d: %s", i+1, o.Rounds, a)
			round, err := h.splitRound(ctx, o.APIServer, files, a)
			if err != nil {
				return nil, fmt.Errorf("round %d of %s: %w", i+1, a, err)
			}
			h.progress("  %.0f pods/s, %.1f µs of CPU a pod in all hilbertds, %d of %d Plans rejected", round.PodsPerSecond, round.HilbertCPUMicrosPerPod, round.Rejected, round.HandedOut)
			rounds[j] = append(rounds[j], round)
		}
	}
	for j, a := range list {
		result.Arrangements = append(result.Arrangements, newSplitArrangement(a, rounds[j]))
	}
	return result, nil
}

// splitRound measures once, with hilbertds of its own, and with a stand-in of its own where that is the API server.
func (h *harness) splitRound(ctx context.Context, apiServer string, files apart.Files, a arrangement) (r SplitRound, err error) {
	if apiServer == StandinAPIServer {
		defer h.stop()
		if err := h.startStandin(ctx); err != nil {
			return r, err
		}
	}
	create, err := newCreator(h.config)
	if err != nil {
		return r, err
	}
	defer create.close()
	daemons, err := h.startSplit(ctx, files, a)
	stopAll := func() {
		for _, d := range slices.Backward(daemons) {
			d.stop()
		}
		daemons = nil
	}
	defer stopAll()
	if err != nil {
		return r, err
	}
	others := append(slices.Clone(daemons[1:]), h.server)
	if h.etcd != nil {
		others = append(others, h.etcd)
	}
	own, err := OwnCPU()
	if err != nil {
		return r, err
	}
	t, err := h.timeCreation(ctx, create, daemons[0], others...)
	if err != nil {
		return r, err
	}
	now, err := OwnCPU()
	if err != nil {
		return r, err
	}
	pods := float64(h.options.Pods)
	r = SplitRound{Seconds: t.seconds, CreatedSeconds: t.created, PodsPerSecond: pods / t.seconds, HarnessCPUMicrosPerPod: float64((now - own).Microseconds()) / pods}
	for i, d := range daemons {
		peak, err := d.peak()
		if err != nil {
			return r, err
		}
		r.Processes = append(r.Processes, SplitProcess{Name: d.name, CPUMicrosPerPod: t.cpuMicros[i], Cores: t.cpuMicros[i] * pods / 1e6 / t.seconds, PeakBytes: peak})
		r.HilbertCPUMicrosPerPod += t.cpuMicros[i]
	}
	for _, micros := range t.cpuMicros[len(daemons):] {
		r.APIServerCPUMicrosPerPod += micros
	}
	stopAll() // they write their counts
	if err := h.readCounts(&r); err != nil {
		return r, err
	}
	if apiServer == RealAPIServer {
		err = errors.Join(h.deletePods(ctx), h.compact(ctx), h.awaitRest(ctx))
	}
	return r, err
}

// startSplit starts the process that leads, and then the schedulers that decide for it. It returns when each knows all nodes; also what it has started before an error.
func (h *harness) startSplit(ctx context.Context, files apart.Files, a arrangement) (daemons []*process, err error) {
	config := "apiVersion: config.hilbert.dev/v1alpha1\nkind: HilbertConfiguration\n"
	address := ""
	if a.apart > 0 {
		if address, err = apart.FreeAddress(); err != nil {
			return nil, err
		}
		config += files.Dispatcher(address)
	} else {
		config += fmt.Sprintf("scheduling: {schedulers: %d}\n", a.inside)
	}
	start := func(name, config string, args ...string) error {
		file := filepath.Join(h.dir, name+".yaml")
		if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
			return fmt.Errorf("configuration of %s: %w", name, err)
		}
		if err := os.RemoveAll(h.countsOf(name)); err != nil {
			return fmt.Errorf("remove old counts of %s: %w", name, err)
		}
		d, err := spawn(ctx, h.dir, name, append([]string{systemHilbert, "--dir=" + h.dir, "--config=" + file, "--counts=" + h.countsOf(name)}, args...)...)
		if err == nil {
			daemons = append(daemons, d)
		}
		return err
	}
	if err := start(systemHilbert, config, "--kubeconfig="+h.kubeconfig); err != nil {
		return daemons, err
	}
	if err := h.awaitLeader(ctx, hilbertLease); err != nil {
		return daemons, err
	}
	for i := range a.apart {
		if err := start(fmt.Sprintf("scheduler-%d", i), files.Scheduler(address)); err != nil {
			return daemons, err
		}
	}
	return daemons, nil
}

// countsOf is the file in which a hilbertd leaves its counts.
func (h *harness) countsOf(name string) string { return filepath.Join(h.dir, name+".counts") }

// readCounts takes over what each hilbertd has counted.
func (h *harness) readCounts(r *SplitRound) error {
	for i := range r.Processes {
		p := &r.Processes[i]
		text, err := os.ReadFile(h.countsOf(p.Name))
		if err != nil {
			return fmt.Errorf("counts of %s: %w", p.Name, err)
		}
		counts := make(map[string]float64)
		if err := json.Unmarshal(text, &counts); err != nil {
			return fmt.Errorf("counts of %s: %w", p.Name, err)
		}
		p.HeapBytes = int64(counts[heapInUse])
		if i > 0 {
			continue
		}
		of := func(result string) int { return int(counts["hilbert_units_handed_out_total{"+result+"}"]) }
		r.Committed, r.Rejected, r.Elsewhere = of("committed"), of("rejected"), of("elsewhere")
		r.HandedOut = r.Committed + r.Rejected + r.Elsewhere + of("parked") + of("gone")
		r.Messages, r.Shed = int(counts["hilbert_scheduler_messages_total"]), int(counts["hilbert_schedulers_gone_total{shed}"])
	}
	return nil
}
