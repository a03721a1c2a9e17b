package allocate

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"

	"hilbert.dev/hilbert/topology"
)

// devices says what there is, and prints what is left: a line for each GPU and card, "gpu numaNode=0 memory=40960 [soft] [closed] [instances=2]" or "nic
// numaNode=0 bandwidth=25000 [rdma] [closed]"; owner=…, unknown (whose they are), and close=… (GPU indices to be closed by us), open=…;
// several-namespaces shares GPUs between them.
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
		numa, closed := uint8(value("numaNode")), slices.Contains(words, "closed")
		if words[0] == "nic" {
			if closed {
				out.ClosedNICs |= 1 << len(out.NIC)
			}
			out.NIC = append(out.NIC, topology.NIC{
				Address: fmt.Sprint("n", len(out.NIC)), Bandwidth: value("bandwidth"), Functions: 8, RDMA: slices.Contains(words, "rdma"),
				Switch: numa, NUMANode: numa, Socket: numa / 2,
			})
			continue
		}
		if closed {
			out.ClosedGPUs |= 1 << len(out.GPU)
		}
		g := topology.GPU{
			Address: fmt.Sprint("g", len(out.GPU)), UUID: fmt.Sprint("GPU-", len(out.GPU)), Memory: value("memory"), Grain: 10, Clients: 24,
			Strengths: topology.StrengthsOf(topology.Accounting), Switch: numa, NUMANode: numa, Socket: numa / 2,
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
	out.SeveralNamespaces = slices.ContainsFunc(d.CmdArgs, func(a datadriven.CmdArg) bool { return a.Key == "several-namespaces" })
	if d.Input != "" {
		s.m.Devices.Set(out, !slices.ContainsFunc(d.CmdArgs, func(a datadriven.CmdArg) bool { return a.Key == "unknown" }))
	}
	s.m.Devices.Close(uint16(number(d, "close", 0)), 0)
	s.m.Devices.Open(uint16(number(d, "open", 0)), 0)
	return s.heldDevices(t)
}

// given says what the kubelet gave: a line for each pod that it lists, "a" for nothing, "a 0,1", "a 1:mig-0", "a ?" for what is not known which.
func (s *story) given(t *testing.T, d *datadriven.TestData) string {
	t.Helper()
	given := make(map[string]KubeletDevices)
	for line := range strings.Lines(d.Input) {
		uid, text, some := strings.Cut(strings.TrimSpace(line), " ")
		var g topology.Grant
		if some && text != "?" {
			if err := g.ParseGPUs(text, nil); err != nil {
				d.Fatalf(t, "%v", err)
			}
		}
		given[uid] = KubeletDevices{Any: some, Grant: g}
	}
	s.m.Devices.SetKubelet(given)
	return s.heldDevices(t)
}

func (s *story) heldDevices(t *testing.T) string {
	t.Helper()
	var b strings.Builder
	for _, h := range s.m.Devices.Held() {
		var held []string
		if h.Grant.GPUs|h.Grant.NICs != 0 {
			held = append(held, deviceText(&h.Grant))
		}
		if h.Given.GPUs != 0 {
			held = append(held, "of the kubelet GPUs "+h.Given.GPUText())
		}
		b.WriteString(h.Name + " holds " + strings.Join(held, " and "))
		if h.Moved {
			b.WriteString(", moved")
		}
		b.WriteByte('\n')
	}
	c := s.m.counts
	fmt.Fprintf(&b, "devices kept=%d moved=%d broken=%d\n", c.DevicesKept, c.DevicesMoved, c.DevicesBroken)
	return b.String()
}
