package rules

import "math"

// CurveKey orders open nodes so that neighbours in the order are alike: by machine size, then by GPUs, then along a Hilbert curve over the free shares of
// cpu and memory, then by tie. Nodes whose GPUs have prices are in the order of the GPUs' state, then of free cpu, because nothing else counts there.
func (d *Dense) CurveKey(tie uint32) uint64 {
	if d.state >= firstGPUState {
		cpu := uint64(min(max(d.free[0], 0), 1<<(2*curveBits)-1))
		return (uint64(1<<18|d.state)<<(2*curveBits)|cpu)<<21 | uint64(tie>>11)
	}
	key := sizeBits(d)<<7 | uint64(uint8(d.packing))&0x7f
	var at [2]uint32
	for i, all := range d.allocatable {
		if all > 0 {
			at[i] = uint32(min(max(float64(all-d.scored[i])/float64(all), 0), 1) * (curveSide - 1))
		}
	}
	return (key<<(2*curveBits)|uint64(hilbertDistance(at[0], at[1])))<<21 | uint64(tie>>11)
}

// The curve runs through a square of curveSide by curveSide cells.
const (
	curveBits = 12
	curveSide = 1 << curveBits
)

// sizeBits is 12 bits for the size of a machine, the binary logarithms of its cpu and memory: the machines of a page differ little in size.
func sizeBits(d *Dense) uint64 {
	cpu, memory := uint64(math.Log2(float64(max(d.allocatable[0], 1)))), uint64(math.Log2(float64(max(d.allocatable[1], 1))))
	return (cpu&0x3f)<<6 | memory&0x3f
}

// hilbertDistance is the number of cells on the curve before a cell.
func hilbertDistance(x, y uint32) (d uint32) {
	for side := uint32(curveSide / 2); side > 0; side /= 2 {
		var right, up uint32
		if x&side != 0 {
			right = 1
		}
		if y&side != 0 {
			up = 1
		}
		d += side * side * (3*right ^ up)
		if up == 0 { // in this quarter the curve is rotated
			if right == 1 {
				x, y = curveSide-1-x, curveSide-1-y
			}
			x, y = y, x
		}
	}
	return d
}
