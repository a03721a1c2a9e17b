package mps

import (
	"errors"
	"fmt"
	"path"
	"regexp"
	"strconv"

	"hilbert.dev/hilbert/node/cdi"
	"hilbert.dev/hilbert/topology"
)

const (
	threadsVariable = "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE"
	memoryVariable  = "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT"
	pipeVariable    = "CUDA_MPS_PIPE_DIRECTORY"
	// defaultPipe is where CUDA looks for a daemon if nothing is said: a process that clears its environment still finds ours.
	defaultPipe = "/tmp/nvidia-mps"
	sharedPlace = "/dev/shm"
)

// Slice is a soft slice, as it was charged.
type Slice struct {
	UUID   string // of the GPU
	Milli  int16  // thousandths of its compute, 1 to 999
	Memory uint32 // MiB
}

// ErrSlice is a slice that MPS cannot limit.
var ErrSlice = errors.New("no soft slice")

// uuid is what may be part of a path.
var uuid = regexp.MustCompile(`^GPU-[0-9A-Za-z-]+$`)

// Edits are what each container of a slice's pod gets. shared names the memory that the GPU's daemon shares with its clients.
func (p *Params) Edits(s Slice, shared string) (cdi.Edits, error) {
	switch {
	case !uuid.MatchString(s.UUID):
		return cdi.Edits{}, fmt.Errorf("%w: %q is no GPU's UUID", ErrSlice, s.UUID)
	case s.Milli < 1 || s.Milli >= topology.FullGPU:
		return cdi.Edits{}, fmt.Errorf("%w: %d thousandths of a GPU, want 1 to %d", ErrSlice, s.Milli, topology.FullGPU-1)
	case s.Memory == 0: // no limit at all, to MPS
		return cdi.Edits{}, fmt.Errorf("%w: no memory", ErrSlice)
	case !sharedName.MatchString(shared):
		return cdi.Edits{}, fmt.Errorf("%w: %q names no memory that a daemon shares", ErrSlice, shared)
	}
	e := p.Whole(s.UUID, shared)
	e.Env = append(e.Env,
		threadsVariable+"="+percentage(s.Milli),
		// The daemon knows one GPU, which is the first to its clients.
		memoryVariable+"=0="+strconv.FormatUint(uint64(s.Memory), 10)+"M")
	return e, nil
}

// Whole connects a pod to the daemon of a GPU that it has to itself. It is needed where the GPU's compute mode admits one process alone, which is
// the server: there no process computes without it.
func (p *Params) Whole(uuid, shared string) cdi.Edits {
	return cdi.Edits{
		Env: []string{pipeVariable + "=" + defaultPipe},
		Mounts: []cdi.Mount{
			// Whoever could make or remove files there could take the daemon's place before other pods. Its sockets and pipes work all the same: a
			// read-only mount forbids changes of files and directories, not talking to who listens.
			{Source: p.pipe(uuid), Place: defaultPipe, Options: mountOptions("ro")},
			// In place of the pod's own: the server and its clients meet there, and what a client can pin of the host's memory is bounded by its size. It is of
			// this GPU alone, and of one namespace (Owners).
			{Source: path.Join(p.Root, uuid, shared), Place: sharedPlace, Options: mountOptions("rw")},
		},
	}
}

// mountOptions are those of a bind mount that is "ro" or "rw".
func mountOptions(access string) []string {
	return []string{"bind", access, "nosuid", "nodev", "noexec"}
}

// percentage is thousandths as MPS reads them, rounded down to what every version understands: whole percents from 1. A driver that reads a fraction is
// told one.
func percentage(milli int16) string {
	if milli < topology.FullGPU/100 {
		return "1" // less might be read as 0, which limits nothing
	}
	whole, tenth := milli/10, milli%10
	if tenth == 0 {
		return strconv.Itoa(int(whole))
	}
	return strconv.Itoa(int(whole)) + "." + strconv.Itoa(int(tenth))
}
