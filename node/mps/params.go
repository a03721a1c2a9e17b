package mps

import (
	"path"
	"time"
)

// Params are the settings of soft slices.
type Params struct {
	// Root is where the daemons' directories lie, the same on the node and for deploy/mps.yaml.
	Root string
	// MaxAge is how old what a daemon said may be.
	MaxAge time.Duration
	// SeveralUsers: the driver's server, run by root, serves processes of several users at once. Otherwise those of another user than the first
	// wait without a word until he has gone.
	SeveralUsers bool
	// SeveralNamespaces: the clients of one GPU, and the memory that they share, may be of several namespaces.
	SeveralNamespaces bool
}

// Defaults are the settings where nothing else is said.
func Defaults() Params { return Params{Root: "/run/hilbert/mps", MaxAge: time.Minute} }

// The places below Root.
const (
	pipeDir   = "pipe"  // of one GPU: sockets of its control daemon
	stateFile = "state" // of one GPU: what its daemon says
)

func (p *Params) pipe(uuid string) string { return path.Join(p.Root, uuid, pipeDir) }

const (
	limitBefore = 48
	limitNow    = 60
	limitSince  = 590
)

// ClientLimit is how many processes one server takes on a GPU with a driver of some version, "590.44.01": 60 since 590, 48 before, and where the
// version is not understood. GPUs from before Volta take 16; they are given no soft slices.
func ClientLimit(driver string) int {
	major := 0
	for _, c := range driver {
		if c < '0' || c > '9' {
			break
		}
		major = min(major*10+int(c-'0'), 1<<20)
	}
	if major >= limitSince {
		return limitNow
	}
	return limitBefore
}
