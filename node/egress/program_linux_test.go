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

// bench runs the uplink's program in the kernel on packets that are sent nowhere.
type bench struct {
	t    *testing.T
	maps map[string]*ebpf.Map
	pace *ebpf.Program
}

func newBench(t *testing.T, marked bool, s settings) *bench {
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
	spec := paceSpec(b.maps)
	if marked { // a packet that is made for the run cannot be given a mark but by a program
		spec.Instructions = append(asm.Instructions{
			asm.Mov.Imm(asm.R2, mark), asm.StoreMem(asm.R1, skbQueueMapping, asm.R2, asm.Word),
		}, spec.Instructions...)
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
	if err := b.maps[name].Put(uint32(0), value); err != nil {
		b.t.Fatal(err)
	}
}

func (b *bench) clock() (next uint64) {
	b.t.Helper()
	if err := b.maps["clock"].Lookup(uint32(0), &next); err != nil {
		b.t.Fatal(err)
	}
	return next
}

// send runs the program on a packet of a length on the wire that wants to leave at a time; it returns the verdict and when it will leave.
func (b *bench) send(length uint32, wants uint64) (verdict int32, leaves uint64) {
	b.t.Helper()
	const size = 192
	in, out := make([]byte, size), make([]byte, size)
	binary.NativeEndian.PutUint64(in[skbTimestamp:], wants)
	binary.NativeEndian.PutUint32(in[skbWireLength:], length)
	got, err := b.pace.Run(&ebpf.RunOptions{Data: make([]byte, 1000), Context: in, ContextOut: out})
	if err != nil {
		b.t.Fatal(err)
	}
	if queue := binary.NativeEndian.Uint32(out[skbQueueMapping:]); queue != 0 {
		b.t.Errorf("the packet leaves with queue mapping %#x", queue)
	}
	return int32(got), binary.NativeEndian.Uint64(out[skbTimestamp:])
}

func (b *bench) counted(class uint32, want Class) {
	b.t.Helper()
	e := Egress{maps: b.maps}
	got, err := e.Counts()
	if err != nil {
		b.t.Fatal(err)
	}
	if each := [classes]Class{got.Online, got.Reclaimed}; each[class] != want || each[1-class] != (Class{}) {
		b.t.Errorf("counts %+v, want %+v of class %d alone", got, want, class)
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
	b := newBench(t, true, settings{Rate: rate, Horizon: uint64(horizon)})
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
	b := newBench(t, true, settings{Rate: 1 << 30, Horizon: uint64(horizon)})
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
	b := newBench(t, true, settings{Rate: 1_000_000, Horizon: uint64(time.Hour)})
	b.put("clock", now(t)+uint64(time.Minute))
	wants := now(t) + uint64(time.Hour)
	if _, leaves := b.send(1000, wants); leaves != wants {
		t.Errorf("leaves %d, want %d", leaves, wants)
	}
}

// Whatever the clock says: who is not reclaimed is only counted, and so is everybody where there is no ceiling.
func TestPaceLeavesOthersAlone(t *testing.T) {
	for name, c := range map[string]struct {
		marked bool
		class  uint32
		set    settings
	}{
		"online":                      {false, classOnline, settings{Rate: 1}},
		"online, by cgroup looked at": {false, classOnline, settings{Rate: 1, Level: 3}},
		"no ceiling":                  {true, classReclaimed, settings{}},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, c.marked, c.set)
			ahead := now(t) + uint64(time.Hour)
			b.put("clock", ahead)
			if verdict, leaves := b.send(40_000, 7); verdict != tcxNext || leaves != 7 || b.clock() != ahead {
				t.Errorf("verdict %d, leaves %d, clock %d", verdict, leaves, b.clock())
			}
			b.counted(c.class, Class{Packets: 1, Bytes: 40_000})
		})
	}
}
