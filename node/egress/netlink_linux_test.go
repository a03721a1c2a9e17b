package egress

import (
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

func TestJudge(t *testing.T) {
	const root, ours = rootParent, ourRoot
	for name, c := range map[string]struct {
		found []qdisc
		want  verdict
	}{
		"a veth":                    {nil, replace},
		"the kernel's default":      {[]qdisc{{"fq_codel", 0, root}}, replace},
		"fq by default":             {[]qdisc{{"fq", 0, root}}, keep},
		"fq by somebody":            {[]qdisc{{"fq", 8 << 16, root}, {"clsact", 0xffff0000, 0xfffffff1}}, keep},
		"queues by default":         {[]qdisc{{"mq", 0, root}, {"fq_codel", 0, 1}, {"fq_codel", 0, 2}}, replace},
		"queues with fq":            {[]qdisc{{"mq", 0, root}, {"fq", 0, 1}, {"fq", 0, 2}}, keep},
		"queues, one without fq":    {[]qdisc{{"mq", 8 << 16, root}, {"fq", 0, 1}, {"pfifo", 0, 2}}, taken},
		"queues of ours, half done": {[]qdisc{{"mq", ours, root}, {"fq", 0, 1}, {"fq_codel", 0, 2}}, replace},
		"a shaper":                  {[]qdisc{{"htb", 1 << 16, root}, {"fq", 2 << 16, 1<<16 | 1}}, taken},
	} {
		if got, _ := judge(c.found); got != c.want {
			t.Errorf("%s: verdict %d, want %d", name, got, c.want)
		}
	}
}

func TestDefaultRoute(t *testing.T) {
	const head = "Iface\tDestination\tGateway\tFlags\tRefCnt\tUse\tMetric\tMask\tMTU\tWindow\tIRTT\n"
	for name, c := range map[string]struct{ routes, want string }{
		"none":             {head + "eth0\t0000000A\t00000000\t0001\t0\t0\t0\t00FFFFFF\t0\t0\t0\n", ""},
		"one":              {head + "eth1\t00000000\t0202000A\t0003\t0\t0\t0\t00000000\t0\t0\t0\n", "eth1"},
		"the least metric": {head + "wifi\t00000000\t0202000A\t0003\t0\t0\t600\t00000000\t0\t0\t0\neth1\t00000000\t0202000A\t0003\t0\t0\t100\t00000000\t0\t0\t0\n", "eth1"},
		"half a default":   {head + "vpn\t00000000\t0202000A\t0003\t0\t0\t0\t00000080\t0\t0\t0\n", ""},
		"cut off":          {head + "eth1\t00000000\n", ""},
		"empty":            {"", ""},
	} {
		if got := defaultRoute(c.routes); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

func TestDefaultRoute6(t *testing.T) {
	const all, none = "00000000000000000000000000000000 00 ", "00000000000000000000000000000000 00 "
	const by, direct = "fe800000000000000000000000000001 ", "00000000000000000000000000000000 "
	for name, c := range map[string]struct{ routes, want string }{
		"none":             {"fe800000000000000000000000000000 40 " + none + direct + "00000100 00000001 00000000 00000001     eth0\n" + all + none + direct + "ffffffff 00000001 00000000 00200200       lo\n", ""},
		"one":              {all + none + by + "00000400 00000001 00000000 00000003     eth1\n", "eth1"},
		"the least metric": {all + none + by + "00000400 00000001 00000000 00000003     eth1\n" + all + none + by + "00000064 00000001 00000000 00450003     eth2\n", "eth2"},
		"rejected":         {all + none + by + "00000400 00000001 00000000 00000203     eth1\n", ""},
		"half of all":      {"20000000000000000000000000000000 03 " + none + by + "00000400 00000001 00000000 00000003     eth1\n", ""},
		"cut off":          {all + "\n", ""},
	} {
		if got := defaultRoute6(c.routes); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

// Uplinks are those of both families, each once; what a card has carried is known or not known as a whole.
func TestUplinks(t *testing.T) {
	proc, sys := t.TempDir(), t.TempDir()
	write := func(name, text string) {
		t.Helper()
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	e := &Egress{options: Options{Proc: proc, Sys: sys}}
	if names, err := e.defaultUplinks(); err == nil {
		t.Errorf("%q without a route", names)
	}
	const four = "Iface\nx\neth1\t00000000\t0202000A\t0003\t0\t0\t0\t00000000\t0\t0\t0\n"
	const six = "00000000000000000000000000000000 00 00000000000000000000000000000000 00 fe800000000000000000000000000001 00000400 00000001 00000000 00000003 "
	write(filepath.Join(proc, "self/net/ipv6_route"), six+"eth6\n")
	for _, c := range []struct{ file, text, want string }{
		{"ipv6_route", six + "eth6\n", "eth6"}, {"route", four, "eth1 eth6"}, {"ipv6_route", six + "eth1\n", "eth1"},
	} {
		write(filepath.Join(proc, "self/net", c.file), c.text)
		if names, err := e.defaultUplinks(); err != nil || strings.Join(names, " ") != c.want {
			t.Errorf("%q, %v, want %q", names, err, c.want)
		}
	}
	e.uplinks = []iface{{name: "eth1", index: 1}, {name: "eth6", index: 2}}
	if e.Traffic()["eth1"] != (Traffic{}) {
		t.Error("what is not there is known")
	}
	for i, file := range []string{"rx_bytes", "tx_bytes", "rx_missed_errors", "rx_fifo_errors", "tx_dropped"} {
		write(filepath.Join(sys, "class/net/eth1/statistics", file), strconv.Itoa(1<<i)+"\n")
	}
	write(filepath.Join(sys, "class/net/eth1/speed"), "1000\n")
	if got := e.Traffic()["eth1"]; got.Received.Value != 1 || got.Sent.Value != 2 || got.Lost.Value != 4+8+16 || got.Link.Value != 1.25e8 || !got.Lost.Known {
		t.Errorf("%+v", got)
	}
	if e.Traffic()["eth6"].Link.Known {
		t.Error("a speed is known that no driver says")
	}
	for _, c := range []struct {
		options    Options
		eth1, eth6 float64
	}{
		{Options{Link: 3e8}, 1.5e8, 1.5e8},
		{Options{Link: 3e8, Uplinks: []Uplink{{Name: "eth1"}, {Name: "eth6", Link: 5e8}}}, 3e8, 5e8},
		{Options{Uplinks: []Uplink{{Name: "eth1"}, {Name: "eth6", Link: 5e8}}}, 1.25e8, 5e8},
	} {
		e.options.Link, e.options.Uplinks = c.options.Link, c.options.Uplinks
		if got := e.Traffic(); got["eth1"].Link.Value != c.eth1 || got["eth6"].Link.Value != c.eth6 {
			t.Errorf("%+v: %+v", c.options, got)
		}
	}
	e.options.Link, e.options.Uplinks = 0, []Uplink{{Name: "eth1"}, {Name: "eth6"}, {Name: "eth7"}}
	e.uplinks[1].name = "before" // it was renamed
	if err := e.followUplinks([]iface{{name: "eth6", index: 2}, {name: "eth1", index: 1}}); err != nil || !slices.Equal(e.Uplinks(), []string{"eth1", "eth6"}) {
		t.Errorf("%v: uplinks %v", err, e.Uplinks())
	}
	if err := e.followUplinks([]iface{{name: "eth6", index: 3}, {name: "eth1", index: 1}}); !errors.Is(err, ErrUplinksChanged) {
		t.Errorf("a card that another has replaced: %v", err)
	}
	e.missing = []string{"eth7"}
	if err := e.followUplinks([]iface{{name: "eth6", index: 2}, {name: "eth1", index: 1}, {name: "eth7", index: 4}}); !errors.Is(err, ErrUplinksChanged) {
		t.Errorf("one that was missing has come: %v", err)
	}
	e.missing, e.options.Uplinks = nil, nil
	write(filepath.Join(proc, "self/net/route"), strings.ReplaceAll(four, "eth1", "eth9"))
	if err := e.followUplinks([]iface{{name: "eth6", index: 2}, {name: "eth1", index: 1}}); !errors.Is(err, ErrUplinksChanged) {
		t.Errorf("a default route leads by another interface: %v", err)
	}
}

// TestTakenUplinks: an uplink whose qdisc others chose is left out, and the others stay. It is looked for again when it is free, and one that has its ceiling is left when it is taken.
func TestTakenUplinks(t *testing.T) {
	t.Parallel()
	stands := map[int]verdict{1: replace, 2: taken, 3: keep}
	look := func(index int) (verdict, error) {
		what, known := stands[index]
		switch {
		case !known:
			return taken, unix.EIO
		case what == taken:
			return taken, &Unsupported{ReasonQdiscTaken, fmt.Sprintf("qdisc tbf of %d", index)}
		}
		return what, nil
	}
	all := []iface{{name: "eth1", index: 1}, {name: "eth2", index: 2}, {name: "eth3", index: 3}}
	ours, left, err := withoutTaken(all, look)
	e := &Egress{uplinks: ours, taken: left}
	if err != nil || !slices.Equal(e.Uplinks(), []string{"eth1", "eth3"}) || !maps.Equal(e.Taken(), map[string]string{"eth2": "qdisc tbf of 2"}) {
		t.Fatalf("uplinks %q, taken %q, %v", e.Uplinks(), e.Taken(), err)
	}
	if ours, _, err := withoutTaken(all[1:2], look); len(ours) != 0 || !strings.Contains(fmt.Sprint(err), "eth2: QdiscTaken") {
		t.Errorf("with none that is free: %v, %v", ours, err)
	}
	if _, _, err := withoutTaken([]iface{{name: "eth1", index: 1}, {name: "eth4", index: 4}}, look); !errors.Is(err, unix.EIO) {
		t.Errorf("where the kernel does not answer: %v", err)
	}
	stands[1] = keep // it has fq by now
	for _, c := range []struct {
		name    string
		index   int
		now     verdict
		changed bool
	}{
		{"nothing", 3, keep, false},
		{"one of ours is taken", 3, taken, true},
		{"the kernel's own is back", 1, replace, true},
		{"the one that was taken is free", 2, replace, true},
		{"somebody gave that one fq", 2, keep, true},
	} {
		was := stands[c.index]
		stands[c.index] = c.now
		if err := e.checkQdiscs(look); errors.Is(err, ErrUplinksChanged) != c.changed || !c.changed && err != nil {
			t.Errorf("%s: %v", c.name, err)
		}
		stands[c.index] = was
	}
	delete(stands, 3)
	if err := e.checkQdiscs(look); !errors.Is(err, unix.EIO) || errors.Is(err, ErrUplinksChanged) {
		t.Errorf("where the kernel does not answer: %v", err)
	}
	e.options.Proc = t.TempDir()
	route := "Iface\nx\neth2\t00000000\t0202000A\t0003\t0\t0\t0\t00000000\t0\t0\t0\n"
	if err := errors.Join(os.MkdirAll(filepath.Join(e.options.Proc, "self/net"), 0o755), os.WriteFile(filepath.Join(e.options.Proc, "self/net/route"), []byte(route), 0o644)); err != nil {
		t.Fatal(err)
	}
	if err := e.followUplinks(all); err != nil {
		t.Errorf("a default route that leads by the one that is taken is no change: %v", err)
	}
	anew := slices.Clone(all)
	anew[1].index = 7
	if err := e.followUplinks(anew); !errors.Is(err, ErrUplinksChanged) {
		t.Errorf("the one that was taken was made anew under its name: %v", err)
	}
}

func TestSpeedAndQueues(t *testing.T) {
	sys := t.TempDir()
	for name, text := range map[string]string{"fast": "10000\n", "virtual": "-1\n", "odd": "?\n"} {
		for _, queue := range []string{"tx-0", "tx-1", "rx-0"} {
			if err := os.MkdirAll(filepath.Join(sys, "class/net", name, "queues", queue), 0o755); err != nil {
				t.Fatal(err)
			}
		}
		if err := os.WriteFile(filepath.Join(sys, "class/net", name, "speed"), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if got, known := speed(sys, "fast"); !known || got != 1.25e9 {
		t.Errorf("speed %g, %v, want 1.25e9 bytes/s", got, known)
	}
	for _, name := range []string{"virtual", "odd", "absent"} {
		if got, known := speed(sys, name); known {
			t.Errorf("%s: speed %g, want it not known", name, got)
		}
	}
	if got := queues(sys, "fast"); got != 2 {
		t.Errorf("%d queues, want 2", got)
	}
	if got := queues(sys, "absent"); got != 1 {
		t.Errorf("%d queues of what is not there, want 1", got)
	}
}

// message is one of the kernel's.
func message(kind uint16, sequence uint32, body []byte) []byte {
	out := binary.NativeEndian.AppendUint32(nil, uint32(unix.NLMSG_HDRLEN+len(body)))
	out = binary.NativeEndian.AppendUint16(out, kind)
	out = binary.NativeEndian.AppendUint16(out, 0)
	out = binary.NativeEndian.AppendUint32(out, sequence)
	out = binary.NativeEndian.AppendUint32(out, 0)
	return append(append(out, body...), make([]byte, aligned(len(body))-len(body))...)
}

func TestAnswers(t *testing.T) {
	refused := binary.NativeEndian.AppendUint32(nil, uint32(0xffffffff-uint32(unix.ENODEV)+1))
	for name, c := range map[string]struct {
		data    []byte
		visited int
		done    bool
		err     error
	}{
		"two and the end":     {append(append(message(16, 5, []byte("ab")), message(16, 5, []byte("c"))...), message(unix.NLMSG_DONE, 5, number(0))...), 2, true, nil},
		"more to come":        {message(16, 5, []byte("ab")), 1, false, nil},
		"of an earlier asker": {append(message(16, 4, []byte("ab")), message(unix.NLMSG_ERROR, 4, refused)...), 0, false, nil},
		"refused":             {message(unix.NLMSG_ERROR, 5, refused), 0, true, unix.ENODEV},
		"acknowledged":        {message(unix.NLMSG_ERROR, 5, number(0)), 0, true, nil},
	} {
		visited := 0
		n := &netlink{sequence: 5}
		done, err := n.answers(c.data, func([]byte) { visited++ })
		if visited != c.visited || done != c.done || !errors.Is(err, c.err) {
			t.Errorf("%s: visited %d, done %v, error %v", name, visited, done, err)
		}
	}
}

// FuzzAnswers: nothing that a kernel may say leads out of bounds, or never ends.
func FuzzAnswers(f *testing.F) {
	f.Add(message(16, 5, attribute(make([]byte, 16), 3, []byte("eth0\x00"))))
	f.Add([]byte{1, 0, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13})
	f.Fuzz(func(_ *testing.T, data []byte) {
		n := &netlink{sequence: 5}
		_, _ = n.answers(data, func(body []byte) {
			attributes(body, func(_ uint16, value []byte) { _, _ = text(value), word(value) })
		})
	})
}

func TestInterfaces(t *testing.T) {
	n, err := openNetlink()
	if err != nil {
		t.Skip(err)
	}
	defer func() { _ = n.close() }()
	all, err := n.interfaces()
	if err != nil {
		t.Fatal(err)
	}
	for _, one := range all {
		if one.name == "lo" && one.index == 1 && one.peer == -1 {
			return
		}
	}
	t.Errorf("no loopback among %+v", all)
}
