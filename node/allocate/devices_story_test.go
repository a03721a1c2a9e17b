package allocate

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"

	"hilbert.dev/hilbert/topology"
)

// devices says what there is, and prints what is left: a line for each GPU and card, "gpu zone=0 memory=40960 [soft] [closed] [instances=2]" or "nic
// zone=0 bandwidth=25000 [rdma] [closed]"; owner=… and close=… (GPU indices to be closed by us), open=….
func (s *story) devices(t *testing.T, d *datadriven.TestData) string {
	out := &topology.Devices{Owner: topology.OwnerHilbert}
	for line := range strings.Lines(d.Input) {
		words := strings.Fields(line)
		value := func(key string) (n uint32) {
			for _, w := range words {
				if text, ok := strings.CutPrefix(w, key+"="); ok {
					_, _ = fmt.Sscan(text, &n)
				}
			}
			return n
		}
		zone, closed := uint8(value("zone")), slices.Contains(words, "closed")
		if words[0] == "nic" {
			if closed {
				out.ClosedNICs |= 1 << len(out.NIC)
			}
			out.NIC = append(out.NIC, topology.NIC{
				Address: fmt.Sprint("n", len(out.NIC)), Bandwidth: value("bandwidth"), Functions: 8, RDMA: slices.Contains(words, "rdma"),
				Switch: zone, Zone: zone, Socket: zone / 2,
			})
			continue
		}
		if closed {
			out.ClosedGPUs |= 1 << len(out.GPU)
		}
		g := topology.GPU{
			Address: fmt.Sprint("g", len(out.GPU)), UUID: fmt.Sprint("GPU-", len(out.GPU)), Memory: value("memory"), Grain: 10, Clients: 24,
			Strengths: topology.StrengthsOf(topology.Accounting), Switch: zone, Zone: zone, Socket: zone / 2,
		}
		if slices.Contains(words, "soft") {
			g.Strengths = topology.StrengthsOf(topology.Accounting, topology.Soft)
		}
		for range value("instances") {
			g.Strengths = topology.StrengthsOf(topology.Hard)
			g.Instances = append(g.Instances, topology.Instance{Name: "half", Milli: 500, Memory: g.Memory / 2})
		}
		out.GPU = append(out.GPU, g)
	}
	if owner, ok := topology.ParseOwner(word(d, "owner")); ok {
		out.Owner = owner
	}
	if d.Input != "" {
		s.m.SetDevices(out)
	}
	s.m.CloseDevices(uint16(number(d, "close", 0)), 0)
	s.m.OpenDevices(uint16(number(d, "open", 0)), 0)
	return s.heldDevices(t)
}

func (s *story) heldDevices(t *testing.T) string {
	t.Helper()
	var b strings.Builder
	for _, h := range s.m.HeldDevices() {
		fmt.Fprintf(&b, "%s holds %s", h.Name, deviceText(&h.Grant))
		if h.Moved {
			b.WriteString(", moved")
		}
		b.WriteByte('\n')
	}
	c := s.m.counts
	fmt.Fprintf(&b, "devices kept=%d moved=%d broken=%d\n", c.DevicesKept, c.DevicesMoved, c.DevicesBroken)
	return b.String()
}
