package diff

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// Options says how much to compare.
type Options struct {
	// Cases is how many pods to judge, at least.
	Cases int
	Seed  uint64
	// Workers is how many cores to use; 0 means all.
	Workers int
	// Progress gets a line now and then; nil is silent.
	Progress io.Writer
}

// Report is what a run has found.
type Report struct {
	Options
	Coverage Coverage
	Volumes  VolumeReport
	Devices  DeviceReport
	// Failures has one failure of each kind, the earliest, made small; Counts is how many histories failed in each way.
	Failures []*Failure
	Counts   map[string]int
	Elapsed  time.Duration
}

// Run compares the schedulers on generated histories. Equal options give equal reports, apart from the time, on any number of cores.
func Run(ctx context.Context, o Options) (*Report, error) {
	if o.Workers <= 0 {
		o.Workers = runtime.GOMAXPROCS(0)
	}
	start := time.Now()
	r := &run{options: o, histories: uint64((o.Cases + JudgedPerCase - 1) / JudgedPerCase), first: make(map[string]*Failure), counts: make(map[string]int)}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var workers sync.WaitGroup
	for range o.Workers {
		workers.Go(func() {
			if err := r.work(ctx); err != nil {
				cancel(err)
			}
		})
	}
	stop := r.report(ctx)
	workers.Wait()
	volumes, claims := runVolumes(ctx, o), runDevices(ctx, o)
	stop()
	if err := context.Cause(ctx); err != nil {
		return nil, err
	}
	report := &Report{Options: o, Coverage: r.coverage, Volumes: volumes, Devices: claims, Counts: r.counts}
	for _, kind := range slices.Sorted(maps.Keys(r.first)) {
		report.Failures = append(report.Failures, Shrink(NewPlayer(), r.first[kind]))
	}
	slices.SortFunc(report.Failures, func(a, b *Failure) int { return cmp.Compare(a.Number, b.Number) })
	report.Elapsed = time.Since(start)
	return report, nil
}

// run is what the workers share.
type run struct {
	options   Options
	histories uint64
	next      atomic.Uint64
	judged    atomic.Uint64

	mutex    sync.Mutex
	coverage Coverage
	first    map[string]*Failure
	counts   map[string]int
}

func (r *run) work(ctx context.Context) error {
	var coverage Coverage
	p := NewPlayer()
	p.watch = func(u *upstream, pod *corev1.Pod, v *Verdict) { coverage.count(u, pod, v) }
	defer func() {
		r.mutex.Lock()
		defer r.mutex.Unlock()
		coverage.Contests = p.contests
		r.coverage.add(&coverage)
	}()
	for ctx.Err() == nil {
		number := r.next.Add(1) - 1
		if number >= r.histories {
			return nil
		}
		f, err := p.Play(draw(r.options.Seed, number))
		if err != nil {
			return fmt.Errorf("history %d of seed %d: %w", number, r.options.Seed, err)
		}
		r.judged.Add(JudgedPerCase)
		if f != nil {
			f.Number = number
			r.failed(f)
		}
	}
	return nil
}

func (r *run) failed(f *Failure) {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	r.counts[f.Kind()]++
	if old := r.first[f.Kind()]; old == nil || f.Number < old.Number {
		r.first[f.Kind()] = f
	}
}

// report prints the progress of the run until the returned function is called.
func (r *run) report(ctx context.Context) (stop func()) {
	if r.options.Progress == nil {
		return func() {}
	}
	done, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		ticker := time.NewTicker(10 * time.Second)
		defer ticker.Stop()
		for {
			select {
			case <-ticker.C:
				r.mutex.Lock()
				failures := 0
				for _, n := range r.counts {
					failures += n
				}
				r.mutex.Unlock()
				fmt.Fprintf(r.options.Progress, "%d of %d pods judged, %d histories failed\n", r.judged.Load(), r.options.Cases, failures)
			case <-done:
				return
			case <-ctx.Done():
				return
			}
		}
	}()
	return func() {
		close(done)
		<-ended
	}
}

// Write writes the report for people.
func (r *Report) Write(w io.Writer) error {
	for _, f := range r.Failures {
		text, err := f.YAML()
		if err != nil {
			return err
		}
		fmt.Fprintf(w, "---\n# history %d of seed %d; %d histories failed this way\n%s", f.Number, r.Seed, r.Counts[f.Kind()], text)
	}
	if err := r.Coverage.WriteTable(w); err != nil {
		return err
	}
	r.Volumes.write(w)
	r.Devices.write(w)
	pods := r.Coverage.Judged + r.Volumes.coverage.judged + r.Devices.coverage.judged
	fmt.Fprintf(w, "%d pods in %.1f s on %d cores: %.0f a second\n", pods, r.Elapsed.Seconds(), r.Workers, float64(pods)/r.Elapsed.Seconds())
	return nil
}

// Err is nil when no history failed.
func (r *Report) Err() error {
	failed := 0
	for _, n := range r.Counts {
		failed += n
	}
	if failed == 0 {
		return cmp.Or(r.Volumes.Failure, r.Devices.Failure)
	}
	return fmt.Errorf("the schedulers differ on %d histories, in %d ways", failed, len(r.Failures))
}

// YAML renders the case, with what differs as a comment.
func (f *Failure) YAML() ([]byte, error) {
	text, err := f.Case.YAML()
	if err != nil {
		return nil, err
	}
	var out strings.Builder
	for line := range strings.Lines(f.String() + "\n") {
		out.WriteString("# " + line)
	}
	out.Write(text)
	return []byte(out.String()), nil
}

// Keep writes the case into the directory, where it is a regression test from now on, and returns the file's name.
func (f *Failure) Keep(dir string) (string, error) {
	text, err := f.YAML()
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(text)
	name := filepath.Join(dir, hex.EncodeToString(sum[:6])+".yaml")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", fmt.Errorf("keep a case: %w", err)
	}
	if err := os.WriteFile(name, text, 0o644); err != nil {
		return "", fmt.Errorf("keep a case: %w", err)
	}
	return name, nil
}
