package allocate

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"

	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/topology"
	"hilbert.dev/hilbert/topology/topologytest"
)

// TestTranscripts runs the stories in testdata/stories. Run with -rewrite to accept new output.
//
//	machine numaNodes=2 cores=4 threads=2 l3=2 memory=4096 reserved=1 floor=1 mode=agent
//	admit UID [level=dedicated|shared] [numa=bound] [bandwidth=intensive|sensitive] [pool=ads] [cpus=4] [memory=1024] [promise=0:4] [milli=500] [besteffort] [unsaid] [fixed=0-3] …
//	confirm UID, resize UID milli=…, release UID, close numaNode=…, open numaNode=…, want cores=2,2
//	pools, pod UID, dump, measured UID…, unseparated
//	checkpoint, restore [damage=sum|version] [differs] [machine arguments]
func TestTranscripts(t *testing.T) {
	datadriven.Walk(t, "testdata/stories", func(t *testing.T, path string) {
		s := &story{}
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			out := s.run(t, d)
			if s.m != nil {
				if err := s.m.Verify(); err != nil {
					d.Fatalf(t, "%v", err)
				}
			}
			return out
		})
	})
}

type story struct {
	m     *Manager
	saved []byte
}

func (s *story) run(t *testing.T, d *datadriven.TestData) string {
	uid := ""
	if len(d.CmdArgs) > 0 {
		uid = d.CmdArgs[0].Key
	}
	switch d.Cmd {
	case "machine":
		return s.start(d)
	case "admit":
		return s.verdict(s.m.Admit(podOf(t, d)))
	case "devices":
		return s.devices(t, d)
	case "given":
		return s.given(t, d)
	case "confirm":
		return s.verdict(s.m.Confirm(uid))
	case "resize":
		return s.verdict(s.m.Resize(uid, int64(number(d, "milli", 0))))
	case "release":
		return fmt.Sprintln(s.m.Release(uid))
	case "pod":
		p, ok := s.m.Placement(uid)
		if !ok {
			return "unknown\n"
		}
		return place(p) + "\n"
	case "close":
		s.m.CloseNUMANode(number(d, "numaNode", 0), Note{spec.ReasonPromiseBroken, "said so"})
		return ""
	case "open":
		s.m.OpenNUMANode(number(d, "numaNode", 0))
		return ""
	case "want":
		var cores [topology.MaxNUMANodes]int
		for z, text := range strings.Split(word(d, "cores"), "+") {
			cores[z], _ = strconv.Atoi(text)
		}
		s.m.Pools.SetReclaimed(cores)
		return s.pools()
	case "demand":
		s.m.Pools.SetDemands(map[string]int64{uid: int64(number(d, "milli", 0))})
		return s.pools()
	case "suppress":
		s.m.Pools.Suppress(word(d, "off") == "")
		return ""
	case "numaNodes":
		var b strings.Builder
		for z, p := range s.m.Pools.NUMANodes() {
			fmt.Fprintf(&b, "NUMA node %d: shared %v, reclaimed %v\n", z, p.Shared, p.Reclaimed)
		}
		return b.String() + fmt.Sprintf("requested of shared pools: %v\n", s.m.Pools.Demand())
	case "pools":
		return s.pools()
	case "measured": // these pods, and no others, were measured to load the memory
		var uids []string
		for _, a := range d.CmdArgs {
			uids = append(uids, a.Key)
		}
		return fmt.Sprintf("changed %t\n", s.m.Pools.SetMeasured(uids))
	case "unseparated":
		return fmt.Sprintln(s.m.Report().Unseparated)
	case "dump":
		return s.dump()
	case "checkpoint":
		s.saved, _ = json.MarshalIndent(s.m.Checkpoint(), "", " ")
		if slices.ContainsFunc(d.CmdArgs, func(a datadriven.CmdArg) bool { return a.Key == "show" }) {
			return string(s.saved) + "\n"
		}
		return ""
	case "restore":
		return s.restore(d)
	}
	d.Fatalf(t, "unknown command")
	return ""
}

func (s *story) start(d *datadriven.TestData) string {
	m := topologytest.Machine(number(d, "numaNodes", 2), number(d, "cores", 4), number(d, "threads", 2), number(d, "l3", 4), int64(number(d, "memory", 4096)))
	for step, i := number(d, "step", 1), 0; i < len(m.NUMA); i++ { // NUMA nodes need not be numbered without gaps
		m.NUMA[i].ID *= step
	}
	for i := range m.CPUs {
		m.CPUs[i].NUMA *= number(d, "step", 1)
	}
	mode := word(d, "mode")
	if mode == "" {
		mode = spec.ModeAgent
	}
	var err error
	s.m, err = New(m, Params{
		ReservedCores: number(d, "reserved", 1), ReservedMemoryMiB: number(d, "keep", 0), ReclaimedCores: number(d, "floor", 1), Mode: mode,
	})
	if err != nil {
		s.m = nil
		return err.Error() + "\n"
	}
	return s.pools()
}

func (s *story) restore(d *datadriven.TestData) string {
	if out := s.start(d); s.m == nil {
		return out
	}
	c := &Checkpoint{}
	if err := json.Unmarshal(s.saved, c); err != nil {
		return err.Error()
	}
	switch word(d, "damage") {
	case "sum":
		c.Counts.Kept++
	case "version":
		c.Version++
	}
	if notes := s.m.Restore(c); len(notes) > 0 {
		out := ""
		for _, n := range notes {
			out += fmt.Sprintf("%s: %s\n", n.Reason, n.Message)
		}
		return out
	}
	again, _ := json.MarshalIndent(s.m.Checkpoint(), "", " ")
	switch {
	case bytes.Equal(again, s.saved):
		return "its checkpoint is the same\n"
	case slices.ContainsFunc(d.CmdArgs, func(a datadriven.CmdArg) bool { return a.Key == "differs" }):
		return "its checkpoint differs\n"
	}
	return "its checkpoint is now\n" + string(again) + "\n"
}

func podOf(t *testing.T, d *datadriven.TestData) Pod {
	p := Pod{UID: d.CmdArgs[0].Key, Namespace: "default", Name: d.CmdArgs[0].Key, QoS: spec.QoS{Level: spec.QoSShared, Pool: spec.PoolShare, Said: true}}
	for _, a := range d.CmdArgs[1:] {
		value := ""
		if len(a.Vals) > 0 {
			value = strings.Join(a.Vals, ",")
		}
		n, _ := strconv.Atoi(value)
		var err error
		switch a.Key {
		case "amounts":
			p.Reclaimed, _ = spec.ParseReclaimed(a.Vals[0])
		case "level":
			p.QoS.Level = spec.QoSLevel(value + "_cores")
		case "numa":
			p.Request.Binding = map[string]topology.Binding{"bound": topology.Bound, "exclusive": topology.Exclusive}[value]
		case "namespace":
			p.Namespace = value
		case "pool":
			p.QoS.Pool = value
		case "bandwidth":
			p.QoS.Bandwidth = value
		case "cpus":
			p.Request.CPUs = uint16(n)
		case "memory":
			p.Request.Memory = uint32(n)
		case "promise":
			p.Promise, err = topology.ParseNUMAGrant(value)
		case "forged":
			p.Forged = "NUMA nodes cannot be read"
		case "invalid":
			p.Invalid = "no such level"
		case "milli":
			p.MilliCPU = int64(n)
		case "besteffort":
			p.BestEffort = true
		case "unsaid":
			p.QoS.Said = false
		case "gpus":
			err = p.Devices.ParseGPUs(value, nil)
		case "nics":
			err = p.Devices.ParseNICs(value, nil)
		case "near":
			p.Near.Level, _ = topology.ParseLevel(value)
			p.Near.Required = true
		case "running":
			p.Running = true
		case "fixed":
			p.Fixed, err = topology.ParseCPUSet(value)
		default:
			d.Fatalf(t, "unknown argument %s", a.Key)
		}
		if err != nil {
			d.Fatalf(t, "%v", err)
		}
	}
	if p.QoS.Level == spec.QoSShared && p.Request.Binding == topology.Bound { // of its milli CPU, as the agent reads it
		p.QoS.NUMA, p.Request.Binding, p.Request.CPUs = spec.NUMABound, topology.BoundShared, uint16((p.MilliCPU+999)/1000)
	}
	if p.Request.CPUs > 0 {
		p.Request.Bandwidth, _ = topology.ParseBandwidth(p.QoS.Bandwidth)
	}
	return p
}

func number(d *datadriven.TestData, key string, otherwise int) int {
	if text := word(d, key); text != "" {
		otherwise, _ = strconv.Atoi(text)
	}
	return otherwise
}

func word(d *datadriven.TestData, key string) string {
	for _, a := range d.CmdArgs {
		if a.Key == key && len(a.Vals) > 0 {
			return a.Vals[0]
		}
	}
	return ""
}

func (s *story) verdict(v Verdict) string {
	var b strings.Builder
	for _, n := range v.Notes {
		fmt.Fprintf(&b, "note %s: %s\n", n.Reason, n.Message)
	}
	if v.Refused != nil {
		fmt.Fprintf(&b, "refused %s: %s\n", v.Refused.Reason, v.Refused.Message)
		return b.String()
	}
	b.WriteString(place(v.Placement))
	if v.Moved {
		b.WriteString(" moved")
	}
	return b.String() + "\n"
}

func place(p Placement) string {
	text := fmt.Sprintf("cpus=%v mems=%v", p.CPUs, p.Mems)
	if p.Pool != "" {
		text += " pool=" + p.Pool
	}
	if gpus := p.Devices.GPUText(); gpus != "" {
		text += " gpus=" + gpus
	}
	if nics := p.Devices.NICText(); nics != "" {
		text += " nics=" + nics
	}
	if p.Idle {
		text += " idle"
	}
	if p.Weight > 0 {
		text += fmt.Sprintf(" weight=%d", p.Weight)
	}
	if p.MemoryMax > 0 {
		text += fmt.Sprintf(" memory=%d", p.MemoryMax)
	}
	return text
}

func (s *story) pools() string {
	var b strings.Builder
	for _, p := range s.m.Report().Pools {
		fmt.Fprintf(&b, "%s: %v (%d pods)\n", p.Name, p.CPUs, p.Pods)
	}
	return b.String()
}

func (s *story) dump() string {
	r := s.m.Report()
	var b strings.Builder
	fmt.Fprintf(&b, "mode %s ruler %v reserved %v\n", r.Mode, r.Shape.Ruler, r.Reserved)
	for z := range int(r.Shape.NUMANodes) {
		fmt.Fprintf(&b, "NUMA node %d: %d of %d CPUs, %d of %d MiB, %d claims", z, r.Free[z].CPUs, r.Shape.NUMANode[z].CPUs, r.Free[z].Memory, r.Shape.NUMANode[z].Memory, r.Free[z].Claims)
		for _, c := range r.Closed {
			if c.NUMANode == z {
				fmt.Fprintf(&b, ", closed (%s: %s)", c.Why.Reason, c.Why.Message)
			}
		}
		b.WriteByte('\n')
	}
	for _, h := range r.Held {
		fmt.Fprintf(&b, "%s/%s: %v for %d CPUs %v", h.Namespace, h.Name, h.Grant, h.Request.CPUs, h.Request.Binding)
		if !h.CPUs.IsEmpty() {
			fmt.Fprintf(&b, ", on %v", h.CPUs)
		}
		if h.Moved {
			b.WriteString(", moved")
		}
		b.WriteByte('\n')
	}
	b.WriteString(s.pools())
	if len(r.Unlabelled) > 0 {
		fmt.Fprintf(&b, "unlabelled: %s\n", strings.Join(r.Unlabelled, " "))
	}
	counts := map[string]uint64{
		"kept": r.Counts.Kept, "moved": r.Counts.Moved, "broken": r.Counts.Broken, "forged": r.Counts.Forged,
		"foreign": r.Counts.Foreign, "refused": r.Counts.Refused,
	}
	for _, name := range slices.Sorted(maps.Keys(counts)) {
		if counts[name] > 0 {
			fmt.Fprintf(&b, "%s=%d ", name, counts[name])
		}
	}
	return strings.TrimSpace(b.String()) + "\n"
}
