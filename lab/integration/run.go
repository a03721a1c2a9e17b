package integration

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"k8s.io/component-base/version"

	"hilbert.dev/hilbert/lab/controlplane"
	"hilbert.dev/hilbert/lab/suite"
)

// Hilbert and KubeScheduler are the schedulers that can be run.
const (
	Hilbert       = suite.Hilbert
	KubeScheduler = suite.KubeScheduler
)

const (
	// packageTimeout is when go test gives up on a package.
	packageTimeout = time.Hour
	// attempts is how often a test is tried that cannot be judged.
	attempts = 3
	// killAfter is how long it may take to end after it was interrupted.
	killAfter = 20 * time.Second
	// kubernetesModule is where the tests are.
	kubernetesModule = "k8s.io/kubernetes"
)

// Options says what is run.
type Options struct {
	Tests []Test
	// Schedulers are run one after the other; the first is the one that the line counts.
	Schedulers []string
	// Lab is the directory of the module of the lab, whose requirements the tests are built with.
	Lab string
	// Sources is a directory for the tests' sources. It is emptied first; the same one every time lets the compiler's cache help.
	Sources string
	// Program is this program's file: it runs hilbertd for a test.
	Program string
	// Parallel is how many packages run at once.
	Parallel int
	// Dir keeps logs: DIR/SCHEDULER/PACKAGE.log, and those of each test's hilbertd.
	Dir      string
	Progress io.Writer
}

func (o *Options) validate() error {
	if len(o.Tests) == 0 {
		return errors.New("no test is chosen")
	}
	if o.Parallel < 1 {
		return fmt.Errorf("--parallel is %d: give a number from 1", o.Parallel)
	}
	return suite.CheckSchedulers(o.Schedulers)
}

// Run runs the tests with each scheduler.
func Run(ctx context.Context, o Options) (_ *Result, err error) {
	if err := o.validate(); err != nil {
		return nil, err
	}
	for _, name := range []*string{&o.Sources, &o.Dir, &o.Program} {
		if *name, err = filepath.Abs(*name); err != nil {
			return nil, fmt.Errorf("directories: %w", err)
		}
	}
	list := exec.CommandContext(ctx, "go", "list", "-m", "-f", "{{.Dir}}", kubernetesModule)
	list.Dir = o.Lab
	kubernetes, err := list.Output()
	if err != nil {
		return nil, fmt.Errorf("find %s: %w: is %s the lab's directory?", kubernetesModule, err, o.Lab)
	}
	if err := WriteSources(ctx, strings.TrimSpace(string(kubernetes)), o.Lab, o.Sources); err != nil {
		return nil, err
	}
	etcd, err := startEtcd(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, etcd.stop()) }()
	ended := make(map[string]map[string]Ended)
	for _, scheduler := range o.Schedulers {
		start := time.Now()
		of, err := o.runWith(ctx, scheduler, etcd.url)
		if err != nil {
			return nil, fmt.Errorf("with %s: %w", scheduler, err)
		}
		fmt.Fprintf(o.Progress, "%s: done after %.0f s\n", scheduler, time.Since(start).Seconds())
		ended[scheduler] = of
	}
	r := compare(o.Schedulers, ended)
	r.Kubernetes = version.Get().GitVersion
	return r, nil
}

// packages are those of the tests, each with its own, in order.
func packages(tests []Test) (names []string, of map[string][]Test) {
	of = make(map[string][]Test)
	for _, t := range tests {
		if _, known := of[t.Package]; !known {
			names = append(names, t.Package)
		}
		of[t.Package] = append(of[t.Package], t)
	}
	return names, of
}

// runWith runs all packages with one scheduler.
func (o *Options) runWith(ctx context.Context, scheduler, etcd string) (map[string]Ended, error) {
	names, tests := packages(o.Tests)
	var mu sync.Mutex
	ended := make(map[string]Ended)
	var errs []error
	slots := make(chan struct{}, o.Parallel)
	var wait sync.WaitGroup
	for _, name := range names {
		slots <- struct{}{}
		wait.Go(func() {
			defer func() { <-slots }()
			start := time.Now()
			of, err := o.runPackage(ctx, scheduler, etcd, name, tests[name])
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				errs = append(errs, fmt.Errorf("package %s: %w", name, err))
				return
			}
			passed, failed := 0, 0
			for test, e := range of {
				ended[test] = e
				switch e.Outcome {
				case Passed:
					passed++
				case Failed:
					failed++
				}
			}
			fmt.Fprintf(o.Progress, "%s: %s: passed %d, failed %d, %.0f s\n", scheduler, name, passed, failed, time.Since(start).Seconds())
		})
	}
	wait.Wait()
	return ended, errors.Join(errs...)
}

// runPackage runs the tests of one package, and again those that could not be judged: their process died under them, or their API server did not start.
func (o *Options) runPackage(ctx context.Context, scheduler, etcd, name string, tests []Test) (map[string]Ended, error) {
	file := strings.ReplaceAll(name, "/", "-")
	if name == "." {
		file = "scheduler"
	}
	dir := filepath.Join(o.Dir, scheduler)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("directory for logs: %w", err)
	}
	log, err := os.Create(filepath.Join(dir, file+".log"))
	if err != nil {
		return nil, fmt.Errorf("log: %w", err)
	}
	defer func() { _ = log.Close() }()
	p := packageRun{sources: o.Sources, name: name, env: append(os.Environ(), "KUBE_INTEGRATION_ETCD_URL="+etcd), log: log, ended: make(map[string]Ended)}
	if scheduler == Hilbert {
		p.env = append(p.env, "HILBERT_OUTSIDE_SCHEDULER="+o.Program, "HILBERT_OUTSIDE_LOGS="+filepath.Join(dir, file))
	}
	again, ran := tests, error(nil)
	for range attempts {
		if ran, err = p.run(ctx, again); err != nil {
			return nil, err
		}
		if again = unjudged(tests, p.ended); len(again) == 0 {
			return p.ended, check(tests, scheduler, p.ended)
		}
		fmt.Fprintf(o.Progress, "%s: %s: %d again, because their process died or their API server did not start\n", scheduler, name,
			len(slices.DeleteFunc(slices.Clone(again), func(t Test) bool { return t.LeftOut != "" })))
	}
	return nil, fmt.Errorf("%v could not be judged in %d attempts (go test: %w), the log is %s", again, attempts, ran, log.Name())
}

// packageRun is one package while it is run.
type packageRun struct {
	sources, name string
	env           []string
	log           io.Writer
	ended         map[string]Ended
}

// run runs some of its tests and adds what they come to. That go test fails (ran) says no more than the tests' outcomes do.
func (p *packageRun) run(ctx context.Context, tests []Test) (ran, err error) {
	run, skip := patterns(tests)
	args := []string{"test", "-json", "-vet=off", "-count=1", "-timeout=" + packageTimeout.String(), "-run=" + run}
	if skip != "" {
		args = append(args, "-skip="+skip)
	}
	command := exec.CommandContext(ctx, "go", append(args, "./"+filepath.ToSlash(filepath.Join("tests", p.name)))...)
	command.Dir, command.Env, command.Stderr = p.sources, p.env, p.log
	command.Cancel = func() error { return command.Process.Signal(os.Interrupt) }
	command.WaitDelay = killAfter
	out, err := command.StdoutPipe()
	if err != nil {
		return nil, fmt.Errorf("go test: %w", err)
	}
	if err := command.Start(); err != nil {
		return nil, fmt.Errorf("go test: %w", err)
	}
	read := readEvents(out, p.name, p.log, p.ended)
	ran = command.Wait()
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	return ran, read
}

// unjudged are the tests, or subtests, that have to be run again, with what is left out of them.
func unjudged(tests []Test, ended map[string]Ended) (again []Test) {
	for _, t := range tests {
		switch e := ended[t.String()]; {
		case t.LeftOut != "":
			again = append(again, t)
		case e.Outcome == NotRun || e.broken:
			again = append(again, t)
		default:
			for name, e := range ended {
				if sub, found := strings.CutPrefix(name, t.String()+"/"); found && !e.parent && (e.broken || e.Outcome == NotRun) {
					again = append(again, Test{Package: t.Package, Name: t.Name + "/" + sub})
				}
			}
		}
	}
	if !slices.ContainsFunc(again, func(t Test) bool { return t.LeftOut == "" }) {
		return nil
	}
	return again
}

// check finds tests that were judged though they are left out, and ones that judged kube-scheduler's own code.
func check(tests []Test, scheduler string, ended map[string]Ended) error {
	for _, t := range tests {
		e, found := ended[t.String()]
		switch {
		case t.LeftOut != "" && found:
			return fmt.Errorf("%s was not left out", t)
		case t.LeftOut == "" && scheduler == Hilbert && e.Outcome == Passed && !e.outside:
			return fmt.Errorf("%s passed and started no scheduler: it judges kube-scheduler's own code", t)
		}
	}
	return nil
}

// etcdServer is an etcd with a TCP address, which is all that upstream's framework takes.
type etcdServer struct {
	url      string
	etcd     *controlplane.Etcd
	listener net.Listener
}

func startEtcd(ctx context.Context) (*etcdServer, error) {
	etcd, err := controlplane.StartEtcd(ctx, controlplane.Options{Benchmark: true, Log: io.Discard})
	if err != nil {
		return nil, fmt.Errorf("etcd: %w", err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, errors.Join(fmt.Errorf("port for etcd: %w", err), etcd.Stop())
	}
	s := &etcdServer{url: "http://" + listener.Addr().String(), etcd: etcd, listener: listener}
	go s.serve(strings.TrimPrefix(etcd.URL(), "unix://"))
	return s, nil
}

// serve passes connections on to the socket until the listener is closed.
func (s *etcdServer) serve(socket string) {
	for {
		client, err := s.listener.Accept()
		if err != nil {
			return
		}
		go func() {
			defer func() { _ = client.Close() }()
			server, err := net.Dial("unix", socket)
			if err != nil {
				return
			}
			defer func() { _ = server.Close() }()
			go func() {
				_, _ = io.Copy(server, client)
				_ = server.Close()
			}()
			_, _ = io.Copy(client, server)
		}()
	}
}

func (s *etcdServer) stop() error { return errors.Join(s.listener.Close(), s.etcd.Stop()) }
