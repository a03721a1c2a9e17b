package topology

import "strings"

// Bandwidth is how a pod gets on with others at the memory of a NUMA node. Pods that load it are kept off NUMA nodes with pods that suffer from that, and
// the other way round. It is what people say of their pods, and not an amount.
type Bandwidth uint8

// The bandwidths.
const (
	// BandwidthUnsaid: it gets on with all.
	BandwidthUnsaid Bandwidth = iota
	// BandwidthIntensive: the pod loads the memory, as a scan, a shuffle or a copy of a model does.
	BandwidthIntensive
	// BandwidthSensitive: the pod is slow where others load the memory.
	BandwidthSensitive
)

// String is the bandwidth as spec.AnnotationMemoryBandwidth spells it.
func (b Bandwidth) String() string { return [...]string{"", "intensive", "sensitive"}[b] }

// ParseBandwidth reads what String wrote. ok is false for anything else.
func ParseBandwidth(text string) (b Bandwidth, ok bool) {
	for b := range BandwidthSensitive + 1 {
		if b.String() == text {
			return b, true
		}
	}
	return BandwidthUnsaid, false
}

// cutBandwidth splits a grant's text into what is given by NUMA node and the bandwidth behind it.
func cutBandwidth(text string) (amounts string, b Bandwidth) {
	end := strings.LastIndexByte(text, ',')
	if end < 0 {
		return text, BandwidthUnsaid
	}
	if b, _ = ParseBandwidth(strings.TrimSpace(text[end+1:])); b == BandwidthUnsaid {
		return text, b
	}
	return text[:end], b
}
