package egress

import (
	"bytes"
	"encoding/binary"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"golang.org/x/sys/unix"
)

// TestAtomicsAreEncoded: each atomic operation says in its immediate which one it is. The library's own constructor does not do it.
func TestAtomicsAreEncoded(t *testing.T) {
	for name, c := range map[string]struct {
		op   asm.AtomicOp
		want uint32
	}{"add": {asm.AddAtomic, 0}, "fetch and add": {asm.FetchAdd, 0x01}, "compare and exchange": {asm.CmpXchg, 0xf1}} {
		var code bytes.Buffer
		if _, err := atomic(c.op, asm.R1, asm.R2, 8).Marshal(&code, binary.LittleEndian); err != nil {
			t.Fatal(err)
		}
		if got := binary.LittleEndian.Uint32(code.Bytes()[4:]); got != c.want {
			t.Errorf("%s: immediate %#x, want %#x", name, got, c.want)
		}
	}
}

// benchUplink is not the first, so that what is kept of each is told apart.
const benchUplink = 2

// bench runs the uplink's program in the kernel on packets that are sent nowhere.
type bench struct {
	t        *testing.T
	maps     map[string]*ebpf.Map
	pace     *ebpf.Program
	priority uint32 // of the packet that was sent last
}

// contextBytes is the size of struct __sk_buff.
const contextBytes = 192

func newBench(t *testing.T, slot int, flags uint32, s settings) *bench {
	t.Helper()
	b := &bench{t: t, maps: map[string]*ebpf.Map{}}
	for name, spec := range mapSpecs() {
		m, err := ebpf.NewMap(spec)
		if err != nil {
			t.Skip("programs cannot be loaded here; lab/vm/probe runs them: ", err)
		}
		t.Cleanup(func() { _ = m.Close() })
		b.maps[name] = m
	}
	spec := paceSpec(b.maps, benchUplink)
	if slot >= 0 { // a packet that is made for the run cannot be given a mark but by a program
		spec.Instructions = append(asm.Instructions{
			asm.Mov.Imm(asm.R2, mark+int32(slot)), asm.StoreMem(asm.R1, skbQueueMapping, asm.R2, asm.Word),
		}, spec.Instructions...)
		if err := b.maps["slots"].Put(uint32(slot), flags); err != nil {
			t.Fatal(err)
		}
	}
	var err error
	if b.pace, err = ebpf.NewProgram(spec); err != nil {
		t.Fatalf("the kernel refuses the program: %+v", err)
	}
	t.Cleanup(func() { _ = b.pace.Close() })
	b.put("settings", s)
	return b
}

func (b *bench) put(name string, value any) {
	b.t.Helper()
	if err := b.maps[name].Put(uint32(benchUplink), value); err != nil {
		b.t.Fatal(err)
	}
}

func (b *bench) clock() (next uint64) {
	b.t.Helper()
	if err := b.maps["clock"].Lookup(uint32(benchUplink), &next); err != nil {
		b.t.Fatal(err)
	}
	return next
}

// send runs the program on a packet of a length on the wire that wants to leave at a time; it returns the verdict and when it will leave.
func (b *bench) send(length uint32, wants uint64) (verdict int32, leaves uint64) {
	b.t.Helper()
	in, out := make([]byte, contextBytes), make([]byte, contextBytes)
	binary.NativeEndian.PutUint64(in[skbTimestamp:], wants)
	binary.NativeEndian.PutUint32(in[skbWireLength:], length)
	got, err := b.pace.Run(&ebpf.RunOptions{Data: make([]byte, 1000), Context: in, ContextOut: out})
	if err != nil {
		b.t.Fatal(err)
	}
	if queue := binary.NativeEndian.Uint32(out[skbQueueMapping:]); queue != 0 {
		b.t.Errorf("the packet leaves with queue mapping %#x", queue)
	}
	b.priority = binary.NativeEndian.Uint32(out[skbPriority:])
	return int32(got), binary.NativeEndian.Uint64(out[skbTimestamp:])
}

func (b *bench) counted(class uint32, want Class) {
	b.t.Helper()
	e := Egress{maps: b.maps, uplinks: []iface{{name: "a", index: 1}, {name: "b", index: 2}, {name: "c", index: 3}}}
	all, err := e.Counts()
	if err != nil {
		b.t.Fatal(err)
	}
	got := all["c"]
	if each := [classes]Class{got.Online, got.Reclaimed, got.Incoming}; each[class] != want || each[(class+1)%classes] != (Class{}) || each[(class+2)%classes] != (Class{}) {
		b.t.Errorf("counts %+v, want %+v of class %d alone", got, want, class)
	}
	if all["a"] != (Counts{}) || all["b"] != (Counts{}) {
		b.t.Errorf("counts %+v of other uplinks", all)
	}
}

func now(t *testing.T) uint64 {
	t.Helper()
	var at unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &at); err != nil {
		t.Fatal(err)
	}
	return uint64(at.Nano())
}

// Reclaimed packets leave one after the other at the rate; what would wait beyond the horizon is dropped and takes no time.
func TestPace(t *testing.T) {
	const rate, length, horizon = 1_000, 50_000, 45 * time.Minute // 50 s each: what the test takes does not matter
	const each = uint64(50 * time.Second)
	b := newBench(t, 7, flagReclaimed, settings{Rate: rate, Horizon: uint64(horizon)})
	before := now(t)
	if verdict, leaves := b.send(length, 0); verdict != tcxNext || leaves != 0 {
		t.Fatalf("first: verdict %d, leaves %d, want at once", verdict, leaves)
	}
	next := b.clock()
	if next < before+each || next > now(t)+each {
		t.Fatalf("clock %d, want 50 s after %d", next, before)
	}
	for i := range uint64(3) {
		if verdict, leaves := b.send(length, 0); verdict != tcxNext || leaves != next+i*each {
			t.Errorf("packet %d: verdict %d, leaves %d, want %d", i, verdict, leaves, next+i*each)
		}
	}
	ahead := now(t) + uint64(time.Hour)
	b.put("clock", ahead)
	if verdict, _ := b.send(length, 0); verdict != tcxDrop || b.clock() != ahead {
		t.Errorf("beyond the horizon: verdict %d, clock %d, want it dropped and the clock %d", verdict, b.clock(), ahead)
	}
	b.counted(classReclaimed, Class{Packets: 4, Bytes: 4 * length, Delayed: 3, Dropped: 1})
}

// From a sixteenth of the horizon on, packets are dropped the more often the longer they would wait.
func TestPaceDropsEarly(t *testing.T) {
	const horizon, packets = 4 * time.Second, 400
	b := newBench(t, 7, flagReclaimed, settings{Rate: 1 << 30, Horizon: uint64(horizon)})
	for _, c := range []struct {
		wait        time.Duration
		least, most int
	}{{200 * time.Millisecond, 0, 0}, {1250 * time.Millisecond, packets / 8, packets * 3 / 8}, {3250 * time.Millisecond, packets * 5 / 8, packets * 7 / 8}} {
		dropped := 0
		for range packets {
			b.put("clock", now(t)+uint64(c.wait))
			if verdict, _ := b.send(1000, 0); verdict == tcxDrop {
				dropped++
			}
		}
		if dropped < c.least || dropped > c.most {
			t.Errorf("waiting %s of %s: %d of %d dropped, want %d to %d", c.wait, horizon, dropped, packets, c.least, c.most)
		}
	}
}

// A time that the sender wants is kept where it is later.
func TestPaceKeepsLaterTimes(t *testing.T) {
	b := newBench(t, 7, flagReclaimed, settings{Rate: 1_000_000, Horizon: uint64(time.Hour)})
	b.put("clock", now(t)+uint64(time.Minute))
	wants := now(t) + uint64(time.Hour)
	if _, leaves := b.send(1000, wants); leaves != wants {
		t.Errorf("leaves %d, want %d", leaves, wants)
	}
}

// Whatever the clock says: who is not reclaimed is only counted, and so is everybody where there is no ceiling.
func TestPaceLeavesOthersAlone(t *testing.T) {
	for name, c := range map[string]struct {
		slot  int
		flags uint32
		class uint32
		set   settings
	}{
		"online":                      {noSlot, 0, classOnline, settings{Rate: 1}},
		"online, by cgroup looked at": {noSlot, 0, classOnline, settings{Rate: 1, Level: 3}},
		"online, with a slot":         {9, flagBackground, classOnline, settings{Rate: 1}},
		"no ceiling":                  {9, flagReclaimed, classReclaimed, settings{}},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, c.slot, c.flags, c.set)
			ahead := now(t) + uint64(time.Hour)
			b.put("clock", ahead)
			if verdict, leaves := b.send(40_000, 7); verdict != tcxNext || leaves != 7 || b.clock() != ahead {
				t.Errorf("verdict %d, leaves %d, clock %d", verdict, leaves, b.clock())
			}
			b.counted(c.class, Class{Packets: 1, Bytes: 40_000})
		})
	}
}

// left is what the pod in a slot has sent by an uplink.
func (b *bench) left(uplink, slot int) (t podTally) {
	b.t.Helper()
	if err := b.maps["pods"].Lookup(uint32(uplink*maxSlots+slot), &t); err != nil {
		b.t.Fatal(err)
	}
	return t
}

// What leaves is counted for its pod and its uplink alone; what is dropped is not, and of a pod without a slot nothing is.
func TestPaceCountsPods(t *testing.T) {
	b := newBench(t, 7, flagReclaimed, settings{Rate: 1 << 30, Horizon: uint64(time.Second)})
	b.send(1000, 0)
	b.send(2000, 0)
	b.put("clock", now(t)+uint64(time.Hour))
	if verdict, _ := b.send(4000, 0); verdict != tcxDrop {
		t.Fatalf("verdict %d, want it dropped", verdict)
	}
	for uplink := range MaxUplinks {
		for slot := range maxSlots {
			want := podTally{}
			if uplink == benchUplink && slot == 7 {
				want = podTally{Packets: 2, Bytes: 3000}
			}
			if got := b.left(uplink, slot); got != want {
				t.Errorf("uplink %d, slot %d: %+v, want %+v", uplink, slot, got, want)
			}
		}
	}
	other := newBench(t, noSlot, 0, settings{})
	other.send(1000, 0)
	for slot := range maxSlots {
		if got := other.left(benchUplink, slot); got != (podTally{}) {
			t.Errorf("slot %d: %+v of a packet without a mark", slot, got)
		}
	}
}

// A background pod's packets are dropped at waits at which others are not, and have the lowest priority; an online one's are never dropped.
func TestPaceBackground(t *testing.T) {
	const horizon = 8 * time.Second
	for name, c := range map[string]struct {
		flags    uint32
		drops    bool
		priority uint32
	}{
		"reclaimed":             {flagReclaimed, false, 0},
		"reclaimed, background": {flagReclaimed | flagBackground, true, priorityBackground},
		"online, background":    {flagBackground, false, priorityBackground},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, 7, c.flags, settings{Rate: 1 << 30, Horizon: uint64(horizon)})
			dropped := 0
			for range 100 {
				b.put("clock", now(t)+uint64(horizon>>backgroundShift)+uint64(200*time.Millisecond))
				if verdict, _ := b.send(1000, 0); verdict == tcxDrop {
					dropped++
				}
			}
			if most := 40; c.drops && dropped != 100 || !c.drops && dropped > most { // a twelfth or so of the others
				t.Errorf("%d of 100 dropped", dropped)
			}
			b.put("clock", uint64(0))
			if b.send(1000, 0); b.priority != c.priority {
				t.Errorf("priority %d, want %d", b.priority, c.priority)
			}
		})
	}
}

// The mark says in which slot the pod is whose veth it is, and nothing of others.
func TestMark(t *testing.T) {
	b := newBench(t, noSlot, 0, settings{})
	spec := markSpec(b.maps)
	whole, err := ebpf.NewProgram(spec)
	if err != nil {
		t.Fatalf("the kernel refuses the program: %+v", err)
	}
	defer func() { _ = whole.Close() }()
	spec = markSpec(b.maps) // which is to return the mark: a run does not tell it
	spec.Instructions = append(spec.Instructions[:len(spec.Instructions)-2], asm.LoadMem(asm.R0, asm.R6, skbQueueMapping, asm.Word).WithSymbol("next"), asm.Return())
	program, err := ebpf.NewProgram(spec)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = program.Close() }()
	for _, c := range []struct{ slot, want uint32 }{{maxSlots, 0}, {0, mark}, {restSlot, mark + restSlot}, {maxSlots + 1, 0}} {
		if c.slot != maxSlots {
			if err := b.maps["veths"].Put(uint32(loopback), c.slot); err != nil {
				t.Fatal(err)
			}
		}
		in := make([]byte, contextBytes)
		binary.NativeEndian.PutUint32(in[skbIfindex:], loopback)
		got, err := program.Run(&ebpf.RunOptions{Data: make([]byte, 1000), Context: in})
		if err != nil {
			t.Fatal(err)
		}
		if got != c.want {
			t.Errorf("slot %d: queue mapping %#x, want %#x", c.slot, got, c.want)
		}
	}
}

// loopback is an interface that every network has.
const loopback = 1

// comes has a packet come by an interface, and reports whether the program lets it pass.
func comes(t *testing.T, program *ebpf.Program, by, length uint32) (passed bool) {
	t.Helper()
	in := make([]byte, contextBytes)
	binary.NativeEndian.PutUint32(in[skbIfindex:], loopback)
	binary.NativeEndian.PutUint32(in[skbIngressIfindex:], by)
	binary.NativeEndian.PutUint32(in[skbWireLength:], length)
	got, err := program.Run(&ebpf.RunOptions{Data: make([]byte, 1000), Context: in})
	if err != nil {
		t.Fatal(err)
	}
	return int32(got) != tcxDrop
}

// What comes in by the uplink for a reclaimed pod is let through up to the burst, and then dropped; nobody else's is, nor what did not come by an uplink.
func TestPolice(t *testing.T) {
	const rate, length = 1_000, 50_000 // 50 s each
	const each = uint64(50 * time.Second)
	for name, c := range map[string]struct {
		flags           uint32
		came            uint32
		rate            uint64
		passed, dropped int
	}{
		"reclaimed":             {flagReclaimed, loopback, rate, 3, 2},
		"reclaimed, background": {flagReclaimed | flagBackground, loopback, rate, 3, 2},
		"online":                {flagBackground, loopback, rate, 5, 0},
		"from a pod":            {flagReclaimed, loopback + 1, rate, 5, 0},
		"no ceiling":            {flagReclaimed, loopback, 0, 5, 0},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, noSlot, 0, settings{Incoming: c.rate, Burst: 2*each + uint64(time.Second)})
			program, err := ebpf.NewProgram(policeSpec(b.maps, &atVeth))
			if err != nil {
				t.Fatalf("the kernel refuses the program: %+v", err)
			}
			t.Cleanup(func() { _ = program.Close() })
			for table, value := range map[string]uint32{"veths": 7, "uplinks": benchUplink} {
				if err := b.maps[table].Put(uint32(loopback), value); err != nil {
					t.Fatal(err)
				}
			}
			if err := b.maps["slots"].Put(uint32(7), c.flags); err != nil {
				t.Fatal(err)
			}
			passed, dropped := 0, 0
			for range 5 {
				if comes(t, program, c.came, length) {
					passed++
				} else {
					dropped++
				}
			}
			if passed != c.passed || dropped != c.dropped {
				t.Errorf("%d passed and %d dropped, want %d and %d", passed, dropped, c.passed, c.dropped)
			}
			want := Class{Packets: uint64(passed), Bytes: uint64(passed) * length, Dropped: uint64(dropped), Refused: uint64(dropped) * length}
			if c.flags&flagReclaimed == 0 || c.came != loopback {
				want = Class{}
			}
			b.counted(classIncoming, want)
		})
	}
}

// The kernel takes the program of pods in the host's network, too.
func TestPoliceOfTheHost(t *testing.T) {
	host, err := ebpf.NewProgram(policeSpec(newBench(t, noSlot, 0, settings{}).maps, &atHost))
	if err != nil {
		t.Fatalf("the kernel refuses the program of pods in the host's network: %+v", err)
	}
	_ = host.Close()
}
