package gpu

import (
	"fmt"
	"math/bits"
	"path"

	"hilbert.dev/hilbert/topology"
)

// Add notes that a pod holds a grant.
func (h *Held) Add(g *topology.Grant) {
	h.GPUs |= g.GPUs
	for set := g.GPUs; set != 0 && g.Instance > 0; set &= set - 1 {
		h.Instances[bits.TrailingZeros16(set)] |= 1 << (g.Instance - 1)
	}
}

// mpsServer is the process that computes for the clients of MPS.
const mpsServer = "nvidia-cuda-mps-server"

// Strangers are the GPUs on which a process computes that may not, by address, with who it is: of a pod that does not hold the GPU, or of no pod at
// all. mayUse says of a process whether it may; it is asked for those that compute, the MPS server apart. What the driver does not tell of, as
// clients of MPS with some drivers, is not seen.
func Strangers(inv *Inventory, mayUse func(pid int, address string) bool) map[string]string {
	out := make(map[string]string)
	for i := range inv.GPUs {
		g := &inv.GPUs[i]
		for _, p := range g.Processes {
			if p.Graphics || path.Base(p.Name) == mpsServer || mayUse(p.PID, g.Address) {
				continue
			}
			out[g.Address] = fmt.Sprintf("process %d (%s) uses it, and it was not given to it", p.PID, path.Base(p.Name))
			break
		}
	}
	return out
}
