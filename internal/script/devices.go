package script

import (
	"fmt"
	"math/bits"
	"strconv"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"

	"hilbert.dev/hilbert/cluster"
	"hilbert.dev/hilbert/cluster/facts"
	"hilbert.dev/hilbert/topology"
)

// deviceArg reads an argument of a report that is about devices. Where a device hangs is its switch, NUMA node and socket; memory is in GiB, bandwidth
// in Mbit/s; *n makes n of them. What pods hold stands as in the Binding's annotations, GPUs before network cards, a plus in place of commas.
//
//	report n1 owner=hilbert gpus=(80@0.0.0*2,80@1.0.0) clients=7 grain=10 isolates=(accounting,soft) mig=(2:1g:125:10)
//	report n1 owner=hilbert nics=(100000@0.0.0:rdma:8) closedgpus=0 closednics=0 holds=(p1@2:250/10240Mi|0:25000)
func deviceArg(t testing.TB, d *datadriven.TestData, r *facts.NodeReport, arg datadriven.CmdArg) bool {
	t.Helper()
	if r.Devices == nil && arg.Key != "owner" {
		return false
	}
	for _, value := range arg.Vals {
		switch arg.Key {
		case "owner":
			owner, ok := topology.ParseOwner(value)
			if !ok {
				d.Fatalf(t, "report: owner=%s", value)
			}
			r.Devices = &topology.Devices{Owner: owner}
		case "gpus":
			memory, place, count := device(t, d, value)
			gpu := topology.GPU{Model: "m", Memory: uint32(memory << 10), Strengths: topology.StrengthsOf(topology.Accounting)}
			gpu.Switch, gpu.NUMANode, gpu.Socket = place[0], place[1], place[2]
			for range count {
				r.Devices.GPU = append(r.Devices.GPU, gpu)
			}
		case "nics":
			bandwidth, place, count := device(t, d, value)
			nic := topology.NIC{Bandwidth: uint32(bandwidth), Switch: place[0], NUMANode: place[1], Socket: place[2]}
			for _, word := range strings.Split(strings.TrimRight(strings.SplitN(value, "*", 2)[0], "*"), ":")[1:] {
				if word == "rdma" {
					nic.RDMA = true
				} else {
					nic.Functions = uint16(scaled(t, d, word, 1))
				}
			}
			for range count {
				r.Devices.NIC = append(r.Devices.NIC, nic)
			}
		case "closedgpus":
			r.Devices.ClosedGPUs |= 1 << scaled(t, d, value, 1)
		case "closednics":
			r.Devices.ClosedNICs |= 1 << scaled(t, d, value, 1)
		case "holds":
			uid, text, _ := strings.Cut(value, "@")
			r.HeldDevices = append(r.HeldDevices, facts.HeldDevices{UID: facts.UID(uid), Grant: deviceGrant(t, d, text).For(topology.TenantOf("default"))})
		default:
			return ofAll(t, d, r.Devices.GPU, arg)
		}
	}
	return true
}

// ofAll reads an argument that is about all GPUs.
func ofAll(t testing.TB, d *datadriven.TestData, gpus []topology.GPU, arg datadriven.CmdArg) bool {
	t.Helper()
	for _, value := range arg.Vals {
		for i := range gpus {
			g := &gpus[i]
			switch arg.Key {
			case "clients":
				g.Clients = uint8(scaled(t, d, value, 1))
			case "grain":
				g.Grain = uint16(scaled(t, d, value, 1))
			case "least":
				g.Least = uint16(scaled(t, d, value, 1))
			case "isolates":
				isolation, ok := topology.ParseIsolation(value)
				if !ok {
					d.Fatalf(t, "report: isolates=%s", value)
				}
				g.Strengths |= topology.StrengthsOf(isolation)
			case "mig":
				words := strings.Split(value, ":")
				if words[0] == strconv.Itoa(i) {
					milli, memory := scaled(t, d, words[2], 1), scaled(t, d, words[3], 1024)
					g.Instances = append(g.Instances, topology.Instance{Name: words[1], Milli: uint16(milli), Memory: uint32(memory)})
				}
			default:
				return false
			}
		}
	}
	return true
}

// device reads an amount, a place and a count: 80@0.0.0*2.
func device(t testing.TB, d *datadriven.TestData, text string) (amount int64, place [3]uint8, count int) {
	t.Helper()
	text, times, many := strings.Cut(text, "*")
	first, rest, _ := strings.Cut(text, "@")
	where, _, _ := strings.Cut(rest, ":")
	count = 1
	if many {
		count = int(scaled(t, d, times, 1))
	}
	for i, word := range strings.SplitN(where, ".", 3) {
		place[i] = uint8(scaled(t, d, word, 1))
	}
	return scaled(t, d, first, 1), place, count
}

// deviceGrant reads GPUs, and after a stroke network cards.
func deviceGrant(t testing.TB, d *datadriven.TestData, text string) (g topology.Grant) {
	t.Helper()
	gpus, cards, _ := strings.Cut(strings.ReplaceAll(text, "+", ","), "|")
	if gpus != "" {
		if err := g.ParseGPUs(gpus, nil); err != nil {
			d.Fatalf(t, "%v", err)
		}
	}
	if cards != "" {
		if err := g.ParseNICs(cards, nil); err != nil {
			d.Fatalf(t, "%v", err)
		}
	}
	return g
}

// askDevices reads what a pod asks of devices.
func askDevices(t testing.TB, d *datadriven.TestData, r *topology.Request, arg datadriven.CmdArg) bool {
	t.Helper()
	value, ok := first(arg.Vals), true
	switch arg.Key {
	case "gpumem":
		r.Memory = uint32(scaled(t, d, value, 1024))
	case "isolation":
		r.Isolation, ok = topology.ParseIsolation(value)
	case "near":
		r.Near.Level, ok = topology.ParseLevel(value)
	case "required":
		r.Near.Required = true
	case "nics":
		r.NIC.Count = uint8(scaled(t, d, value, 1))
	case "rdma":
		r.NIC.RDMA = true
	case "nicbw":
		r.NIC.Bandwidth = uint32(scaled(t, d, value, 1))
	case "vf":
		r.NIC.Function = true
	default:
		return false
	}
	if !ok {
		d.Fatalf(t, "pod: %s", arg)
	}
	return true
}

// recordedDevices reads what the annotations of a pod's Binding say.
func recordedDevices(t testing.TB, d *datadriven.TestData, pod *facts.Pod, arg datadriven.CmdArg) {
	t.Helper()
	var err error
	text := strings.ReplaceAll(strings.Join(arg.Vals, ","), "+", ",")
	switch arg.Key {
	case "gpus":
		err = pod.Grant.ParseGPUs(text, &pod.Requirements.GPU)
	case "cards":
		err = pod.Grant.ParseNICs(text, &pod.Requirements.GPU.NIC)
	}
	if err != nil {
		d.Fatalf(t, "pod: %v", err)
	}
}

// devices renders what is left of a node's devices: of each GPU compute and memory, the slices on it and the MIG instances that are held, and of each
// network card bandwidth and functions.
func devices(s *cluster.State, slot cluster.Slot) string {
	v := s.View(slot)
	d, f := v.Shape.Devices, v.Devices
	var b strings.Builder
	fmt.Fprintf(&b, " gpus(%s) free=", d.Owner)
	for i := range d.GPU {
		fmt.Fprintf(&b, "[%d/%dMi", v.Free[i], f.Memory[i])
		if n := int(d.GPU[i].Clients) - int(f.Clients[i]); n > 0 && v.Free[i] > 0 {
			fmt.Fprintf(&b, " %d of %d slices", n, d.GPU[i].Clients)
		}
		if f.Soft[i] != 0 {
			b.WriteString(" soft")
		}
		for k := range d.GPU[i].Instances {
			if n := f.Holders[i] >> (4 * k) & 15; n > 0 {
				fmt.Fprintf(&b, " mig-%d*%d", k, n)
			}
		}
		closed(&b, d.ClosedGPUs, i)
	}
	if len(d.NIC) > 0 {
		b.WriteString(" nics free=")
	}
	for i := range d.NIC {
		fmt.Fprintf(&b, "[%d/%dvf", f.Bandwidth[i], f.Functions[i])
		closed(&b, d.ClosedNICs, i)
	}
	return b.String()
}

func closed(b *strings.Builder, set uint16, i int) {
	if bits.OnesCount16(set&(1<<i)) > 0 {
		b.WriteString(" closed")
	}
	b.WriteString("]")
}
