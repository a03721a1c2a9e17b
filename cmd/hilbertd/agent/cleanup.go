package agent

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"time"

	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/cmd/hilbertd/realnode"
	"hilbert.dev/hilbert/node/bandwidth"
	"hilbert.dev/hilbert/node/cdi"
	"hilbert.dev/hilbert/node/cleanup"
	"hilbert.dev/hilbert/node/enforce"
	"hilbert.dev/hilbert/node/nri"
	"hilbert.dev/hilbert/node/quiet"
	"hilbert.dev/hilbert/node/rdt"
	"hilbert.dev/hilbert/node/runtime"
	"hilbert.dev/hilbert/node/store"
	"hilbert.dev/hilbert/topology"
)

const (
	// lockTimeout is how long a cleanup waits for an agent that ends.
	lockTimeout = 2 * time.Minute
	// freeTimeout bounds what a cleanup asks of the container runtime.
	freeTimeout = 30 * time.Second
	// setFile, in the state directory, says what the agent has set.
	setFile = "set.json"
)

// stateFiles are what the agent keeps in its state directory.
var stateFiles = []string{"checkpoint.json", "law-state.json", "configuration.json", "uplinks.json", "devices.json", "resources.json", quietFile, podsWeightFile, setFile}

// quietFile, in the state directory, says what interrupts and services had before the agent moved them.
const quietFile = "quiet.json"

// podsWeightFile, in the state directory, says whether the agent has given all pods together a weight on disks.
const podsWeightFile = "pods-weight"

// quietKeeper keeps interrupts and services off CPUs, or gives back what an agent before this one has moved.
func quietKeeper(config *spec.Configuration, roots realnode.Roots, kernel enforce.Kernel) *quiet.Keeper {
	directory := filepath.Join(roots.Run, "hilbert-irq") // the runtime lets no pod write its own /proc/irq
	if _, err := os.Stat(directory); err != nil {
		directory = filepath.Join(roots.Proc, "irq")
	}
	return quiet.NewKeeper(quiet.Machine{Directory: directory, Cgroups: kernel}, store.File(filepath.Join(config.Node.StateDirectory, quietFile)))
}

// giveBackQuiet gives interrupts and the host's services the CPUs that they had before any agent.
func giveBackQuiet(config *spec.Configuration, roots realnode.Roots, kernel enforce.Kernel) error {
	if _, err := os.Stat(filepath.Join(config.Node.StateDirectory, quietFile)); errors.Is(err, fs.ErrNotExist) {
		return nil // nothing was ever moved
	}
	text, err := kernel.Read("cpuset.cpus.effective")
	if err != nil {
		return fmt.Errorf("the machine's CPUs: %w", err)
	}
	all, err := topology.ParseCPUSet(text)
	if err != nil {
		return fmt.Errorf("the machine's CPUs: %w", err)
	}
	return quietKeeper(config, roots, kernel).GiveBack(all)
}

// setParts are what this agent sets on the node, by its configuration.
func setParts(config *spec.Configuration, mode string) (out []cleanup.Part) {
	if mode == spec.ModeAgent {
		out = append(out, cleanup.CPU)
		if *config.Node.Lending.Enabled {
			out = append(out, cleanup.Memory, cleanup.IO)
		}
	}
	return out
}

// resetUnset gives back what an agent before this one has set and this one does not, and records what it sets. Else limits would stay for ever when lending is
// switched off. CPUs are not given back here: the kubelet takes them over by itself. What goes wrong does not keep the agent from starting.
func resetUnset(config *spec.Configuration, mode string, roots realnode.Roots, kernel enforce.Kernel, log *slog.Logger) {
	record := store.File(filepath.Join(config.Node.StateDirectory, setFile))
	before, err := cleanup.Load(record)
	if err != nil {
		log.Warn("it is not known what an agent before this one has set; all is taken back that this one does not set", "err", err)
		before = cleanup.Parts()
	}
	sets := setParts(config, mode)
	if mode != spec.ModeAgent { // else the agent itself gives back what it does not want
		if err := giveBackQuiet(config, roots, kernel); err != nil {
			log.Warn("interrupts or services stay off CPUs; the next start tries again", "err", err)
		}
	}
	unset := slices.DeleteFunc(slices.Clone(before), func(p cleanup.Part) bool { return p == cleanup.CPU || slices.Contains(sets, p) })
	keep := slices.Clone(sets)
	if slices.Contains(before, cleanup.CPU) && !slices.Contains(keep, cleanup.CPU) {
		keep = append(keep, cleanup.CPU)
	}
	if len(unset) > 0 {
		written, err := cleanup.Reset(kernel, os.DirFS(roots.Cgroups()), podsTop(kernel), unset)
		log.Info("what an agent before this one has set is taken back", "parts", unset, "written", written)
		if err != nil {
			log.Warn("not all could be taken back; the next start tries again", "err", err)
			keep = append(keep, unset...)
		}
	}
	if err := cleanup.Save(record, keep); err != nil {
		log.Warn("a later agent will not know what to take back", "err", err)
	}
}

// Cleanup gives back all that an agent has set on this node, and removes what it keeps: after it the node is as if it had never had one. It fails while an agent
// runs here. What can be given back is, also where something else cannot. The node's CustomNodeResource stays: it goes with the Node or with the CRD.
func Cleanup(ctx context.Context, config *spec.Configuration, log *slog.Logger) error {
	return cleanUp(ctx, config, log, realnode.Real())
}

func cleanUp(ctx context.Context, config *spec.Configuration, log *slog.Logger, roots realnode.Roots) (err error) {
	kernel, err := realnode.OpenKernel(roots)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, kernel.Close()) }()
	waiting, cancel := context.WithTimeoutCause(ctx, lockTimeout, errors.New("this node's agent still runs; delete its DaemonSet first"))
	defer cancel()
	state := config.Node.StateDirectory
	unlock, err := lock(waiting, filepath.Join(state, "lock"), log)
	if err != nil {
		return err
	}
	defer unlock()
	parts, err := cleanup.Load(store.File(filepath.Join(state, setFile)))
	if err != nil || parts == nil {
		parts = cleanup.Parts() // they are not known
	}
	errs := []error{dismissWatchdog(roots)}
	top := podsTop(kernel)
	if slices.Contains(parts, cleanup.CPU) {
		errs = append(errs, freeContainers(ctx, config.Node.NRISocket, top, kernel, log))
	}
	written, err := cleanup.Reset(kernel, os.DirFS(roots.Cgroups()), top, parts)
	log.Info("the kernel's files are as without an agent", "parts", parts, "written", written)
	errs = append(errs, err, giveBackQuiet(config, roots, kernel), roots.Uncap(egressOptions(&config.Node.Lending.Network, roots)), removeFiles(roots))
	if err := errors.Join(errs...); err != nil {
		return err // and the record stays, for another try
	}
	for _, name := range append(slices.Clone(stateFiles), "lock") {
		errs = append(errs, removeFile(filepath.Join(state, name)))
	}
	return errors.Join(errs...)
}

// removeFiles removes the groups of resctrl and the specification of CDI.
func removeFiles(roots realnode.Roots) error {
	errs := []error{bandwidth.Remove(resctrl(roots))}
	for _, group := range []rdt.Group{rdt.Online, rdt.Reclaimed} {
		errs = append(errs, removeFile(filepath.Join(string(resctrl(roots)), string(group))))
	}
	if n := len(roots.CDI); n > 0 { // the last one is written
		errs = append(errs, removeFile(filepath.Join(roots.CDI[n-1], cdi.FileName)))
	}
	return errors.Join(errs...)
}

// dismissWatchdog removes what agent and watchdog share, before anything is given back: without a plan, a watchdog that still runs writes nothing. The directory
// itself may be mounted, and is left.
func dismissWatchdog(roots realnode.Roots) error {
	entries, err := os.ReadDir(watchdogPath(roots))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	errs := []error{err}
	for _, entry := range entries {
		errs = append(errs, removeFile(filepath.Join(watchdogPath(roots), entry.Name())))
	}
	return errors.Join(errs...)
}

func removeFile(path string) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove what the agent has left: %w", err)
	}
	return nil
}

// freeContainers has the runtime give all containers all CPUs and memory nodes of the pods. The runtime, and systemd where that makes the cgroups, would else write
// the old sets again some day.
func freeContainers(ctx context.Context, socket, top string, kernel enforce.Kernel, log *slog.Logger) error {
	var all runtime.Update
	for file, set := range map[string]*topology.CPUSet{"cpuset.cpus.effective": &all.CPUs, "cpuset.mems.effective": &all.Mems} {
		text, err := kernel.Read(top + "/" + file)
		if errors.Is(err, fs.ErrNotExist) {
			return nil // no pod has ever run here
		}
		if err == nil {
			*set, err = topology.ParseCPUSet(text)
		}
		if err != nil {
			return fmt.Errorf("what the pods may use: %w", err)
		}
	}
	ctx, cancel := context.WithTimeout(ctx, freeTimeout)
	defer cancel()
	f := &freeing{running: make(chan []runtime.Container, 1), lost: make(chan error, 1)}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		nri.Run(ctx, socket, f, log)
	}()
	defer func() { cancel(); <-ended }()
	var containers []runtime.Container
	select {
	case containers = <-f.running:
	case err := <-f.lost:
		return fmt.Errorf("the containers keep their CPUs in the runtime's records: %w", err)
	case <-ctx.Done():
		return errors.New("the containers keep their CPUs in the runtime's records: it has not said what runs")
	}
	updates := make([]runtime.Update, len(containers))
	for i, c := range containers {
		updates[i] = runtime.Update{Container: c.ID, CPUs: all.CPUs, Mems: all.Mems}
	}
	failed, err := f.updater.Update(updates)
	if err != nil {
		return fmt.Errorf("give the CPUs of %d containers back: %w", len(updates), err)
	}
	if len(failed) > 0 {
		return fmt.Errorf("the runtime gave the CPUs of %d of %d containers not back, the first is %s", len(failed), len(updates), failed[0])
	}
	return nil
}

// freeing is the runtime's agent while a cleanup runs: it adjusts nothing.
type freeing struct {
	updater runtime.Updater
	running chan []runtime.Container
	lost    chan error
}

func (f *freeing) Connected(_ context.Context, _ string, u runtime.Updater) { f.updater = u }

func (f *freeing) Disconnected(why error) {
	select {
	case f.lost <- why:
	default: // told before
	}
}

func (f *freeing) Synchronize(_ context.Context, _ []runtime.Sandbox, containers []runtime.Container) error {
	select {
	case f.running <- containers:
	default: // told before
	}
	return nil
}

// Whatever starts or ends meanwhile goes on as it is.

func (*freeing) RunSandbox(context.Context, runtime.Sandbox) error { return nil }

func (*freeing) ResizeSandbox(context.Context, runtime.Sandbox, runtime.Amounts) error { return nil }

func (*freeing) StopSandbox(context.Context, string) error { return nil }

func (*freeing) CreateContainer(context.Context, runtime.Sandbox, runtime.Container) (a runtime.Adjustment, err error) {
	return a, nil
}

func (*freeing) StartContainer(context.Context, runtime.Sandbox, runtime.Container) error { return nil }

func (*freeing) ContainerCreated(context.Context, string) error { return nil }

func (*freeing) UpdateContainer(context.Context, string) (u runtime.Update, err error) {
	return u, nil
}
func (*freeing) Updated(context.Context, string) error       { return nil }
func (*freeing) StopContainer(context.Context, string) error { return nil }
