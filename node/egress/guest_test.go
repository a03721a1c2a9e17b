//go:build linux

package egress

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	syncatomic "sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/link"
	"golang.org/x/sys/unix"
)

// The tests of this file change the network of the machine that they run on. They run only where HILBERT_IN_GUEST says that it is a guest:
// lab/vm/probe brings them there.

const (
	role      = "HILBERT_EGRESS_ROLE" // what a child of the test is
	worldPort = 9
	floodPort = 10
	hierarchy = "/sys/fs/cgroup"
)

func TestMain(m *testing.M) {
	switch os.Getenv(role) {
	case "":
		os.Exit(m.Run())
	case "world":
		receive()
	default:
		if from, is := strings.CutPrefix(os.Getenv(role), "from "); is {
			fetch(from)
		}
		send(os.Getenv(role))
	}
}

// flood sends to whoever connects as fast as it can.
func flood() {
	listener, err := net.Listen("tcp", fmt.Sprintf(":%d", floodPort))
	if err != nil {
		panic(err)
	}
	for {
		connection, err := listener.Accept()
		if err != nil {
			panic(err)
		}
		go func() {
			buffer := make([]byte, 16<<10)
			for {
				if _, err := connection.Write(buffer); err != nil {
					return
				}
			}
		}()
	}
}

// fetch takes what an address sends, and says how much that was whenever a line comes in.
func fetch(from string) {
	lines := bufio.NewScanner(os.Stdin)
	lines.Scan()
	connection, err := net.Dial("tcp", from)
	if err != nil {
		panic(err)
	}
	fmt.Fprintln(os.Stdout, "ready")
	var got syncatomic.Int64
	go func() {
		buffer := make([]byte, 64<<10)
		for {
			n, err := connection.Read(buffer)
			if got.Add(int64(n)); err != nil {
				return
			}
		}
	}()
	for lines.Scan() {
		fmt.Fprintln(os.Stdout, got.Load())
	}
	os.Exit(0)
}

// receive counts what comes, by sender, and says so whenever a line comes in. It is the world beyond the uplink.
func receive() {
	lines := bufio.NewScanner(os.Stdin)
	lines.Scan() // the network is there
	go flood()
	listener, err := net.Listen("tcp", fmt.Sprintf(":%d", worldPort))
	if err != nil {
		panic(err)
	}
	var mu sync.Mutex
	got := map[string]int64{}
	go func() {
		for {
			connection, err := listener.Accept()
			if err != nil {
				panic(err)
			}
			go func() {
				from := connection.RemoteAddr().(*net.TCPAddr).IP.String()
				buffer := make([]byte, 64<<10)
				for {
					n, err := connection.Read(buffer)
					mu.Lock()
					got[from] += int64(n)
					mu.Unlock()
					if err != nil {
						return
					}
				}
			}()
		}
	}()
	fmt.Fprintln(os.Stdout, "ready")
	for lines.Scan() {
		mu.Lock()
		fmt.Fprintln(os.Stdout, got[lines.Text()])
		mu.Unlock()
	}
}

// send sends to an address as fast as it can.
func send(to string) {
	bufio.NewScanner(os.Stdin).Scan()
	connection, err := net.Dial("tcp", to)
	if err != nil {
		panic(err)
	}
	fmt.Fprintln(os.Stdout, "ready")
	buffer := make([]byte, 64<<10)
	for {
		if _, err := connection.Write(buffer); err != nil {
			return
		}
	}
}

// child is a process in a cgroup and, unless it is of the host's network, in a network namespace of its own.
type child struct {
	process *exec.Cmd
	in      io.Writer
	out     *bufio.Scanner
}

func start(t *testing.T, what, cgroup string, host bool) *child {
	t.Helper()
	dir := filepath.Join(hierarchy, cgroup)
	must(t, os.MkdirAll(dir, 0o755))
	at, err := os.Open(dir)
	must(t, err)
	defer func() { _ = at.Close() }()
	c := &child{process: exec.Command(os.Args[0])}
	c.process.Env = append(os.Environ(), role+"="+what)
	c.process.Stderr = os.Stderr
	c.process.SysProcAttr = &syscall.SysProcAttr{UseCgroupFD: true, CgroupFD: int(at.Fd())}
	if !host {
		c.process.SysProcAttr.Cloneflags = syscall.CLONE_NEWNET
	}
	c.in, err = c.process.StdinPipe()
	must(t, err)
	out, err := c.process.StdoutPipe()
	must(t, err)
	c.out = bufio.NewScanner(out)
	must(t, c.process.Start())
	t.Cleanup(func() {
		_ = c.process.Process.Kill()
		_ = c.process.Wait()
		_ = os.Remove(dir)
	})
	return c
}

func (c *child) ask(t *testing.T, line string) string {
	t.Helper()
	_, err := fmt.Fprintln(c.in, line)
	must(t, err)
	if !c.out.Scan() {
		t.Fatal("a child has ended")
	}
	return c.out.Text()
}

func (c *child) inside(t *testing.T, commands ...string) {
	t.Helper()
	for _, one := range commands {
		run(t, fmt.Sprintf("nsenter -t %d -n %s", c.process.Process.Pid, one))
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func run(t *testing.T, command string) {
	t.Helper()
	argv := strings.Fields(command)
	out, err := exec.Command(argv[0], argv[1:]...).CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v\n%s", command, err, out)
	}
}

// veth makes a pair: name here, with so many queues to send by, eth0 in the child's network; 10.9.N.1 here and 10.9.N.2 there.
func veth(t *testing.T, name string, n int, queues uint32, there *child) {
	t.Helper()
	kernel, err := openNetlink()
	must(t, err)
	defer func() { _ = kernel.close() }()
	peer := attribute(make([]byte, unix.SizeofIfInfomsg), unix.IFLA_IFNAME, []byte("eth0\x00"))
	peer = attribute(peer, unix.IFLA_NET_NS_PID, number(uint32(there.process.Process.Pid)))
	info := attribute(nil, unix.IFLA_INFO_KIND, []byte("veth\x00"))
	info = attribute(info, unix.IFLA_INFO_DATA, attribute(nil, 1, peer)) // VETH_INFO_PEER
	body := attribute(make([]byte, unix.SizeofIfInfomsg), unix.IFLA_IFNAME, append([]byte(name), 0))
	body = attribute(body, unix.IFLA_LINKINFO, info)
	if queues > 1 {
		body = attribute(body, unix.IFLA_NUM_TX_QUEUES, number(queues))
	}
	must(t, kernel.ask(unix.RTM_NEWLINK, unix.NLM_F_CREATE|unix.NLM_F_EXCL, body, func([]byte) {}))
	t.Cleanup(func() { _ = exec.Command("ip", "link", "del", name).Run() })
	run(t, fmt.Sprintf("ip addr add 10.9.%d.1/24 dev %s", n, name))
	run(t, "ip link set "+name+" up")
	there.inside(t, "ip link set lo up", fmt.Sprintf("ip addr add 10.9.%d.2/24 dev eth0", n), "ip link set eth0 up",
		fmt.Sprintf("ip route add default via 10.9.%d.1", n))
}

// guest is the world, two pods with a network of their own, and one in the host's.
type guest struct {
	world *child
	pods  map[string]*child
}

const (
	pods     = "egress/besteffort/pod"
	toWorld  = "10.9.0.2:9"
	uplink   = "up0"
	ceiling  = 1 << 20
	fromOnce = 1500 * time.Millisecond
	window   = 3 * time.Second
	windows  = 5
)

func newGuest(t *testing.T, queues uint32) *guest {
	t.Helper()
	if os.Getenv("HILBERT_IN_GUEST") == "" {
		t.Skip("it changes the machine's network: run it by lab/vm/probe")
	}
	must(t, os.WriteFile("/proc/sys/net/ipv4/ip_forward", []byte("1"), 0o644))
	g := &guest{world: start(t, "world", pods+"World", false), pods: map[string]*child{}}
	veth(t, uplink, 0, queues, g.world)
	if got := g.world.ask(t, ""); got != "ready" {
		t.Fatal(got)
	}
	for n, name := range []string{"A", "B"} {
		g.pods[name] = start(t, toWorld, pods+name, false)
		veth(t, "pod"+name, n+1, 1, g.pods[name])
	}
	g.pods["C"] = start(t, toWorld, pods+"C", true)
	return g
}

func (g *guest) send(t *testing.T, names ...string) {
	t.Helper()
	for _, name := range names {
		if got := g.pods[name].ask(t, ""); got != "ready" {
			t.Fatal(got)
		}
	}
}

// rates are what arrives of each address, in bytes per second.
func (g *guest) rates(t *testing.T, addresses ...string) []float64 {
	t.Helper()
	time.Sleep(fromOnce)
	read := func() (out []float64) {
		for _, address := range addresses {
			var n float64
			_, err := fmt.Sscan(g.world.ask(t, address), &n)
			must(t, err)
			out = append(out, n)
		}
		return out
	}
	begin, before := time.Now(), read()
	time.Sleep(window)
	after, seconds := read(), time.Since(begin).Seconds()
	for i := range after {
		after[i] = (after[i] - before[i]) / seconds
	}
	t.Logf("%v: %.0f bytes/s", addresses, after)
	return after
}

const addressA, addressB, addressC = "10.9.1.2", "10.9.2.2", "10.9.0.1"

// shows measures until the rates are right: emulation has bad moments, and a sender that lost packets takes some time to find out that it may
// send again.
func (g *guest) shows(t *testing.T, what string, right func(rates []float64) bool, addresses ...string) {
	t.Helper()
	for range windows {
		if right(g.rates(t, addresses...)) {
			return
		}
	}
	t.Errorf("%s: that is not so", what)
}

// limited and free are in wide bands.
func limited(rate float64) bool { return rate > 0.5*ceiling && rate < 1.3*ceiling }
func free(rate float64) bool    { return rate > 1.6*ceiling }

func oneLimited(rates []float64) bool { return limited(rates[0]) }
func oneFree(rates []float64) bool    { return free(rates[0]) }

// TestGuestCeiling: a reclaimed pod keeps to the ceiling beside an online one, which is not delayed; also while the agent is away, together
// with one in the host's network; and no longer when it is all taken back.
func TestGuestCeiling(t *testing.T) {
	g := newGuest(t, 1)
	o := Options{Uplinks: []Uplink{{Name: uplink}}}
	e, err := Open(o)
	must(t, err)
	defer func() { _ = e.Detach() }()
	must(t, e.SetPods(reclaimed("A")))
	must(t, e.SetRates(uplink, Rates{Outgoing: ceiling}))
	g.send(t, "A", "B")
	g.shows(t, "the reclaimed pod keeps to the ceiling beside an online one", func(rates []float64) bool {
		return limited(rates[0]) && free(rates[1])
	}, addressA, addressB)
	before := countsOf(t, e)
	t.Logf("counts: %+v", before)
	if c := before.Online; c.Delayed != 0 || c.Dropped != 0 || float64(c.Bytes) < window.Seconds()*ceiling {
		t.Errorf("online: %+v", c)
	}
	if c := before.Reclaimed; c.Delayed == 0 || float64(c.Bytes) < 0.6*window.Seconds()*ceiling {
		t.Errorf("reclaimed: %+v", c)
	}

	must(t, e.Close()) // the agent is away
	g.shows(t, "it does while the agent is away", oneLimited, addressA)
	e, err = Open(o)
	must(t, err)
	after := countsOf(t, e)
	if after.Reclaimed.Bytes <= before.Reclaimed.Bytes {
		t.Errorf("counters began anew: %+v, before %+v", after, before)
	}
	must(t, e.SetPods(reclaimed("A", "C")))
	g.send(t, "C")
	g.shows(t, "two reclaimed pods share the ceiling, and the one that came first does not keep the other out", func(rates []float64) bool {
		return limited(rates[0]+rates[1]) && rates[1] > ceiling/20 && free(rates[2])
	}, addressA, addressC, addressB)

	must(t, e.SetPods(nil))
	g.shows(t, "it is free when it is no longer reclaimed", oneFree, addressA)
	must(t, e.SetPods(reclaimed("A", "C")))
	must(t, e.Detach())
	g.shows(t, "it is free when all is taken back", oneFree, addressA)
	g.nothingLeft(t, e)
}

// reclaimed are pods of the guest by their names.
func reclaimed(names ...string) (out []Pod) {
	for _, name := range names {
		out = append(out, Pod{Cgroup: pods + name, Reclaimed: true})
	}
	return out
}

func countsOf(t *testing.T, e *Egress) Counts {
	t.Helper()
	counts, err := e.Counts()
	must(t, err)
	return counts[uplink]
}

func (g *guest) nothingLeft(t *testing.T, e *Egress) {
	t.Helper()
	if _, err := os.Stat(e.pins); !os.IsNotExist(err) {
		t.Errorf("pins are left: %v", err)
	}
	kernel, err := openNetlink()
	must(t, err)
	defer func() { _ = kernel.close() }()
	left, err := kernel.qdiscs(e.uplinks[0].index)
	must(t, err)
	for _, one := range left {
		if one.handle != 0 {
			t.Errorf("qdisc %v is left", one)
		}
	}
}

// TestGuestQueues: an uplink with several queues gets a qdisc for each. What an agent left that never came back can be removed.
func TestGuestQueues(t *testing.T) {
	g := newGuest(t, 4)
	o := Options{Uplinks: []Uplink{{Name: uplink}}}
	e, err := Open(o)
	must(t, err)
	must(t, e.SetPods(reclaimed("A")))
	must(t, e.SetRates(uplink, Rates{Outgoing: ceiling}))
	kernel, err := openNetlink()
	must(t, err)
	defer func() { _ = kernel.close() }()
	found, err := kernel.qdiscs(e.uplinks[0].index)
	must(t, err)
	if what, kind := judge(found); what != keep || kind != "mq" {
		t.Errorf("qdiscs %v", found)
	}
	g.send(t, "A")
	g.shows(t, "it keeps to the ceiling", oneLimited, addressA)
	must(t, e.Close())
	must(t, Remove(o))
	g.shows(t, "it is free when all is removed", oneFree, addressA)
	g.nothingLeft(t, e)
	run(t, "ip link del "+uplink)
	if _, err := Open(o); err == nil {
		t.Error("an uplink that is not there is no error")
	}
}

// TestGuestTaken: a qdisc that somebody chose is left alone, and nothing stays behind.
func TestGuestTaken(t *testing.T) {
	newGuest(t, 1)
	kernel, err := openNetlink()
	must(t, err)
	defer func() { _ = kernel.close() }()
	index, err := net.InterfaceByName(uplink)
	must(t, err)
	var bounded bytes.Buffer // pfifo's only option: its limit
	must(t, binary.Write(&bounded, binary.NativeEndian, uint32(100)))
	must(t, kernel.addQdisc(index.Index, 7<<16, rootParent, "pfifo", bounded.Bytes()))
	_, err = Open(Options{Uplinks: []Uplink{{Name: uplink}}, Pins: "/sys/fs/bpf/hilbert-egress"})
	if refused, ok := errors.AsType[*Unsupported](err); !ok || refused.Reason != ReasonQdiscTaken {
		t.Fatalf("got %v, want %s", err, ReasonQdiscTaken)
	}
	left, err := kernel.qdiscs(index.Index)
	must(t, err)
	if len(left) != 1 || left[0].kind != "pfifo" {
		t.Errorf("qdiscs %v, want pfifo alone", left)
	}
	if _, err := os.Stat("/sys/fs/bpf/hilbert-egress"); !os.IsNotExist(err) {
		t.Errorf("pins are left: %v", err)
	}
}

// TestGuestOneOfTwoIsTaken: where somebody chose the qdisc of one uplink, the other has its ceiling all the same, and keeps it while the first one is freed and taken again.
func TestGuestOneOfTwoIsTaken(t *testing.T) {
	const second = "up1"
	g := newGuest(t, 1)
	far := &guest{world: start(t, "world", pods+"Other", false)}
	veth(t, second, 5, 1, far.world)
	if got := far.world.ask(t, ""); got != "ready" {
		t.Fatal(got)
	}
	g.more(t, "D", "10.9.5.2:9", 6)
	kernel, err := openNetlink()
	must(t, err)
	defer func() { _ = kernel.close() }()
	index, err := net.InterfaceByName(second)
	must(t, err)
	const theirs = 7 << 16
	var bounded bytes.Buffer
	must(t, binary.Write(&bounded, binary.NativeEndian, uint32(100)))
	take := func() { must(t, kernel.addQdisc(index.Index, theirs, rootParent, "pfifo", bounded.Bytes())) }
	take()
	o := Options{Uplinks: []Uplink{{Name: uplink}, {Name: second}}}
	e, err := Open(o)
	must(t, err)
	defer func() { _ = e.Detach() }()
	is := func(uplinks, taken int) {
		t.Helper()
		if len(e.Uplinks()) != uplinks || len(e.Taken()) != taken || taken == 1 && !strings.Contains(e.Taken()[second], "pfifo") {
			t.Fatalf("uplinks %q, taken %q; want %d and %d", e.Uplinks(), e.Taken(), uplinks, taken)
		}
	}
	again := func() {
		t.Helper()
		if err := e.CheckQdiscs(); !errors.Is(err, ErrUplinksChanged) {
			t.Fatalf("a qdisc is another one: %v", err)
		}
		must(t, e.Close())
		e, err = Open(o)
		must(t, err)
		must(t, e.SetPods(reclaimed("A", "D")))
	}
	first := func(what string) { t.Helper(); g.shows(t, what, oneLimited, addressA) }
	is(1, 1)
	must(t, e.CheckQdiscs())
	must(t, e.SetPods(reclaimed("A", "D")))
	must(t, e.SetRates(uplink, Rates{Outgoing: ceiling}))
	g.send(t, "A", "D")
	first("the other uplink has its ceiling")
	far.shows(t, "the one that is taken has none", oneFree, "10.9.6.2")
	before := countsOf(t, e)
	must(t, kernel.ask(unix.RTM_DELQDISC, 0, tcMessage(index.Index, theirs, rootParent), func([]byte) {}))
	again()
	is(2, 0)
	must(t, e.SetRates(second, Rates{Outgoing: ceiling}))
	far.shows(t, "it is free, and has its own ceiling", oneLimited, "10.9.6.2")
	take()
	again()
	is(1, 1)
	far.shows(t, "it is taken again", oneFree, "10.9.6.2")
	first("the other one's ceiling is as it was")
	if after := countsOf(t, e); after.Reclaimed.Bytes < before.Reclaimed.Bytes {
		t.Errorf("its counters began anew: %+v, before %+v", after, before)
	}
	left, err := kernel.qdiscs(index.Index)
	must(t, err)
	if len(left) != 1 || left[0].kind != "pfifo" {
		t.Errorf("qdiscs %v, want pfifo alone", left)
	}
}

// more starts another pod, reached at 10.9.N.2 and fd09:N::2 unless it is in the host's network.
func (g *guest) more(t *testing.T, name, what string, n int) {
	t.Helper()
	g.pods[name] = start(t, what, pods+name, n == 0)
	if n != 0 {
		veth(t, "pod"+name, n, 1, g.pods[name])
	}
}

// six gives an interface and the other end of its veth addresses of IPv6, and the way to the world.
func six(t *testing.T, name string, n int, there *child) {
	t.Helper()
	const noDetection = "/proc/sys/net/ipv6/conf/%s/accept_dad"
	must(t, os.WriteFile("/proc/sys/net/ipv6/conf/all/forwarding", []byte("1"), 0o644))
	must(t, os.WriteFile(fmt.Sprintf(noDetection, name), []byte("0"), 0o644))
	run(t, fmt.Sprintf("ip -6 addr add fd09:%d::1/64 dev %s", n, name))
	there.inside(t, fmt.Sprintf("ip -6 addr add fd09:%d::2/64 dev eth0", n), fmt.Sprintf("ip -6 route add default via fd09:%d::1", n))
}

// TestGuestUplinks: each uplink has its own ceiling, IPv6 counts as IPv4 does, and what a pod sends is known by uplink, also in the host's network. An uplink that goes leaves the
// others as they are.
func TestGuestUplinks(t *testing.T) {
	g := newGuest(t, 1)
	other := start(t, "world", pods+"Other", false)
	veth(t, "up1", 5, 1, other)
	if got := other.ask(t, ""); got != "ready" {
		t.Fatal(got)
	}
	g.more(t, "D", "10.9.5.2:9", 6)
	g.more(t, "E", "[fd09:8::2]:9", 7)
	six(t, uplink, 8, g.world)
	six(t, "podE", 7, g.pods["E"])
	time.Sleep(3 * time.Second) // the other ends make sure that nobody else has their addresses
	o := Options{Uplinks: []Uplink{{Name: uplink}, {Name: "up1", Link: 1 << 30}, {Name: "up9"}}}
	e, err := Open(o)
	must(t, err)
	defer func() { _ = e.Detach() }()
	if missing := e.Missing(); len(missing) != 1 || missing[0] != "up9" {
		t.Errorf("missing: %q", missing)
	}
	must(t, e.SetPods(reclaimed("A", "C", "D", "E")))
	must(t, e.SetRates(uplink, Rates{Outgoing: ceiling}))
	must(t, e.SetRates("up1", Rates{Outgoing: 8 * ceiling}))
	g.send(t, "A", "C", "D", "E")
	g.shows(t, "three pods share the ceiling of one uplink, by IPv4, IPv6 and from the host's network", func(rates []float64) bool {
		return limited(rates[0]+rates[1]+rates[2]) && rates[1] > ceiling/20 && rates[2] > ceiling/20
	}, addressA, addressC, "fd09:7::2")
	otherWorld := &guest{world: other}
	otherWorld.shows(t, "that of the other uplink is another", oneFree, "10.9.6.2")
	sent := e.Sent()
	for name, by := range map[string]string{"A": uplink, "C": uplink, "E": uplink, "D": "up1"} {
		for _, at := range []string{uplink, "up1"} {
			got := sent[pods+name][at]
			if most := got.Value > 100_000; !got.Known || most != (at == by) {
				t.Errorf("%s is said to have sent %+v by %s", name, got, at)
			}
		}
	}
	before := countsOf(t, e)
	run(t, "ip link del up1")
	if err := e.SetPods(reclaimed("A", "C", "D", "E")); !errors.Is(err, ErrUplinksChanged) {
		t.Fatalf("an uplink has gone: %v", err)
	}
	must(t, e.Close())
	e, err = Open(o)
	must(t, err)
	if after := countsOf(t, e); after.Reclaimed.Bytes < before.Reclaimed.Bytes || len(e.Missing()) != 2 {
		t.Errorf("counts %+v, before %+v; missing %q", after, before, e.Missing())
	}
	must(t, e.SetPods(reclaimed("A", "C", "D", "E")))
	if now := e.Sent()[pods+"A"][uplink]; now.Value < sent[pods+"A"][uplink].Value {
		t.Errorf("the counters of a pod began anew: %+v, before %+v", now, sent[pods+"A"])
	}
	g.shows(t, "the ceiling is as it was", func(rates []float64) bool { return limited(rates[0] + rates[1] + rates[2]) }, addressA, addressC, "fd09:7::2")
}

// fetched is what pods receive, in bytes per second.
func (g *guest) fetched(t *testing.T, names ...string) (out []float64) {
	t.Helper()
	time.Sleep(fromOnce)
	before := make([]float64, len(names))
	for i, name := range names {
		_, err := fmt.Sscan(g.pods[name].ask(t, ""), &before[i])
		must(t, err)
	}
	begin := time.Now()
	time.Sleep(window)
	for i, name := range names {
		var n float64
		_, err := fmt.Sscan(g.pods[name].ask(t, ""), &n)
		must(t, err)
		out = append(out, (n-before[i])/time.Since(begin).Seconds())
	}
	t.Logf("%v receive %.0f bytes/s", names, out)
	return out
}

func (g *guest) receives(t *testing.T, what string, right func(rates []float64) bool, names ...string) {
	t.Helper()
	for range windows {
		if right(g.fetched(t, names...)) {
			return
		}
	}
	t.Errorf("%s: that is not so", what)
}

// TestGuestIncoming: what comes in for reclaimed pods keeps to its ceiling, in the host's network too, and what comes for online pods does not; nobody is held when it is taken back.
func TestGuestIncoming(t *testing.T) {
	g := newGuest(t, 1)
	const from = "from 10.9.0.2:10"
	g.more(t, "R", from, 6)
	g.more(t, "O", from, 7)
	g.more(t, "H", from, 0)
	e, err := Open(Options{Uplinks: []Uplink{{Name: uplink}}, Incoming: true})
	must(t, err)
	defer func() { _ = e.Detach() }()
	must(t, e.SetPods(reclaimed("R", "H")))
	must(t, e.SetRates(uplink, Rates{Incoming: ceiling}))
	g.send(t, "R", "O")
	held := func(rate float64) bool { return rate > ceiling/50 && rate < 1.3*ceiling }
	g.receives(t, "a reclaimed pod is held, an online one is not", func(rates []float64) bool { return held(rates[0]) && free(rates[1]) }, "R", "O")
	counts := countsOf(t, e)
	if counts.Incoming.Dropped == 0 || counts.Incoming.Bytes < uint64(window.Seconds()*ceiling/50) {
		t.Errorf("%+v", counts)
	}
	g.send(t, "H")
	g.receives(t, "both reclaimed ones are held together", func(rates []float64) bool { return held(rates[0]+rates[1]) && free(rates[2]) }, "R", "H", "O")
	must(t, e.SetPods(reclaimed("H")))
	g.receives(t, "a pod is free when it is no longer reclaimed", oneFree, "R")
	must(t, e.Detach())
	g.receives(t, "all are free when all is taken back", func(rates []float64) bool { return rates[0]+rates[1] > 1.6*ceiling }, "R", "H")
	g.nothingLeft(t, e)
}

// TestGuestBackground: of two reclaimed pods, the one whose traffic is background has what the other leaves, and all of it where that is everything.
func TestGuestBackground(t *testing.T) {
	g := newGuest(t, 1)
	e, err := Open(Options{Uplinks: []Uplink{{Name: uplink}}})
	must(t, err)
	defer func() { _ = e.Detach() }()
	must(t, e.SetPods([]Pod{{Cgroup: pods + "A", Reclaimed: true}, {Cgroup: pods + "B", Reclaimed: true, Background: true}}))
	must(t, e.SetRates(uplink, Rates{Outgoing: ceiling}))
	g.send(t, "B")
	g.shows(t, "alone it has most of the ceiling", func(rates []float64) bool { return rates[0] > 0.3*ceiling && rates[0] < 1.3*ceiling }, addressB)
	g.send(t, "A")
	g.shows(t, "beside another it has little", func(rates []float64) bool { return limited(rates[0]) && rates[1] < rates[0]/3 }, addressA, addressB)
}

// TestGuestUpgrade: what an agent of another layout has pinned goes whole, programs, maps and the qdisc of an uplink that is none any more, and the new programs are there alone.
func TestGuestUpgrade(t *testing.T) {
	g := newGuest(t, 1)
	kernel, err := openNetlink()
	must(t, err)
	defer func() { _ = kernel.close() }()
	const pins = "/sys/fs/bpf/hilbert-egress"
	must(t, os.Mkdir(pins, 0o700))
	settings, err := ebpf.NewMap(&ebpf.MapSpec{Name: "settings", Type: ebpf.Array, KeySize: 4, ValueSize: 24, MaxEntries: 1})
	must(t, err)
	must(t, settings.Pin(pins+"/settings"))
	must(t, settings.Close())
	index := func(name string) int {
		found, err := net.InterfaceByName(name)
		must(t, err)
		return found.Index
	}
	for name, at := range map[string]ebpf.AttachType{"podA": ebpf.AttachTCXIngress, "podB": ebpf.AttachTCXEgress, uplink: ebpf.AttachTCXEgress} {
		drop, err := ebpf.NewProgram(&ebpf.ProgramSpec{
			Name: "hilbert_old", Type: ebpf.SchedCLS, AttachType: at, License: license, Instructions: asm.Instructions{asm.Mov.Imm(asm.R0, tcxDrop), asm.Return()},
		})
		must(t, err)
		old, err := link.AttachTCX(link.TCXOptions{Interface: index(name), Program: drop, Attach: at, Anchor: link.Head()})
		must(t, err)
		kind := "uplink"
		if at == ebpf.AttachTCXIngress {
			kind = "veth"
		}
		must(t, old.Pin(fmt.Sprintf("%s/%s-%d", pins, kind, index(name))))
		must(t, errors.Join(old.Close(), drop.Close()))
	}
	must(t, kernel.pace(index("podB"), 1))
	e, err := Open(Options{Uplinks: []Uplink{{Name: uplink}}})
	must(t, err)
	defer func() { _ = e.Detach() }()
	if left, err := kernel.look(index("podB")); left != replace || err != nil {
		t.Errorf("the qdisc of the uplink of before is left: %v, %v", left, err)
	}
	must(t, e.SetPods(reclaimed("A")))
	must(t, e.SetRates(uplink, Rates{Outgoing: ceiling}))
	entries, err := os.ReadDir(pins)
	must(t, err)
	for _, one := range entries {
		if kind, _, linked := strings.Cut(one.Name(), "-"); linked && e.links[one.Name()] == nil {
			t.Errorf("the pin %s of a %s is left", one.Name(), kind)
		}
	}
	g.send(t, "A", "B") // B's way back led by the uplink of before
	g.shows(t, "the reclaimed pod keeps to the ceiling beside an online one", func(rates []float64) bool {
		return limited(rates[0]) && free(rates[1])
	}, addressA, addressB)
}
