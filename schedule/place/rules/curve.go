package rules

import "math"

// CurveKey orders open nodes so that those near each other are alike: by machine shape, then by their GPUs, then along a Hilbert curve over the free
// shares of cpu and memory, then by tie.
func (d *Dense) CurveKey(tie uint32) uint64 {
	key := shapeBits(d)<<7 | uint64(uint8(d.packing))&0x7f
	var at [2]uint32
	for i, all := range d.allocatable {
		if all > 0 {
			at[i] = uint32(min(max(float64(all-d.scored[i])/float64(all), 0), 1) * (curveSide - 1))
		}
	}
	return (key<<(2*curveBits)|uint64(hilbertDistance(at[0], at[1])))<<21 | uint64(tie>>11)
}

// The curve passes through a square of so many cells a side.
const (
	curveBits = 12
	curveSide = 1 << curveBits
)

// shapeBits is 12 bits of what a machine has: four steps an octave of cpu and of memory, so that a page has machines of nearly one size.
func shapeBits(d *Dense) uint64 {
	cpu, memory := uint64(stepsPerOctave*math.Log2(float64(max(d.allocatable[0], 1)))), uint64(stepsPerOctave*math.Log2(float64(max(d.allocatable[1], 1))))
	return (cpu&0x3f)<<6 | memory&0x3f
}

// stepsPerOctave is how finely machines are told apart.
const stepsPerOctave = 1

// hilbertDistance is how far along the curve a cell is.
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
		if up == 0 { // the quarter is turned
			if right == 1 {
				x, y = curveSide-1-x, curveSide-1-y
			}
			x, y = y, x
		}
	}
	return d
}
