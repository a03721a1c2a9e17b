package egress

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"hilbert.dev/hilbert/node/advise"
)

const (
	rootParent = 0xffffffff // TC_H_ROOT
	// tcMessageBytes is the size of the struct tcmsg.
	tcMessageBytes = 20
	// ourRoot is the handle of a root qdisc of ours, by which a later run knows it; ourLeaf is that of the first queue's.
	ourRoot, ourLeaf = 0x4842 << 16, 0x4843 << 16
	// maxQueues bounds the queues of an uplink.
	maxQueues = 1024

	// fq's options, and their values: packets that may wait in all, and of one flow. The defaults, 10,000 and 100, drop bursts of forwarded
	// flows that the kernel's own default does not.
	fqLimit, fqFlowLimit     = 1, 2
	packetsMost, packetsFlow = 100_000, 10_000
)

// qdisc is one that was set, or the kernel's own: then its handle is 0.
type qdisc struct {
	kind           string
	handle, parent uint32
}

func (n *netlink) qdiscs(index int) ([]qdisc, error) {
	var found []qdisc
	err := n.ask(unix.RTM_GETQDISC, unix.NLM_F_DUMP, tcMessage(index, 0, 0), func(body []byte) {
		if len(body) < tcMessageBytes || int(binary.NativeEndian.Uint32(body[4:])) != index {
			return
		}
		one := qdisc{handle: binary.NativeEndian.Uint32(body[8:]), parent: binary.NativeEndian.Uint32(body[12:])}
		attributes(body[tcMessageBytes:], func(kind uint16, value []byte) {
			if kind == unix.TCA_KIND {
				one.kind = text(value)
			}
		})
		found = append(found, one)
	})
	if err != nil {
		return nil, fmt.Errorf("qdiscs: %w", err)
	}
	return found, nil
}

// tcMessage is the kernel's struct tcmsg.
func tcMessage(index int, handle, parent uint32) []byte {
	body := make([]byte, tcMessageBytes)
	binary.NativeEndian.PutUint32(body[4:], uint32(index))
	binary.NativeEndian.PutUint32(body[8:], handle)
	binary.NativeEndian.PutUint32(body[12:], parent)
	return body
}

// verdict is what is to be done about an interface's qdiscs.
type verdict int

const (
	keep    verdict = iota // packets' times are kept to
	replace                // the kernel's default is there
	taken                  // another one was chosen
)

// judge says what is to be done, and names the root.
func judge(found []qdisc) (verdict, string) {
	var root *qdisc
	leaves, paced := 0, 0
	for i, q := range found {
		switch {
		case q.parent == rootParent:
			root = &found[i]
		case q.kind == "clsact" || q.kind == "ingress": // they are no queues
		default:
			leaves++
			if q.kind == "fq" {
				paced++
			}
		}
	}
	switch {
	case root == nil:
		return replace, "" // a device without a queue, such as a veth
	case root.kind == "fq", root.kind == "mq" && leaves > 0 && leaves == paced:
		return keep, root.kind
	case root.handle == 0, root.handle == ourRoot:
		return replace, root.kind
	}
	return taken, root.kind
}

// look says what is to be done about an interface's qdiscs. One that others chose is an *Unsupported.
func (n *netlink) look(index int) (verdict, error) {
	found, err := n.qdiscs(index)
	if err != nil {
		return taken, err
	}
	what, kind := judge(found)
	if what == taken {
		return taken, &Unsupported{ReasonQdiscTaken, fmt.Sprintf("the uplink has qdisc %s, which an administrator or another program chose; it would have to be fq, or mq of fq", kind)}
	}
	return what, nil
}

// pace gives an interface fq, one for each of its queues, unless it has that.
func (n *netlink) pace(index, queues int) error {
	what, err := n.look(index)
	if err != nil || what == keep {
		return err
	}
	if queues <= 1 {
		err = n.addFQ(index, ourRoot, rootParent)
	} else {
		err = n.addQdisc(index, ourRoot, rootParent, "mq", nil)
		for i := range min(queues, maxQueues) {
			if err == nil {
				err = n.addFQ(index, ourLeaf+uint32(i)<<16, ourRoot|uint32(i+1))
			}
		}
	}
	if err == nil {
		return nil
	}
	undone := n.unpace(index)
	if errors.Is(err, unix.ENOENT) {
		return errors.Join(&Unsupported{ReasonNoFQ, "the kernel has no qdisc fq (CONFIG_NET_SCH_FQ, module sch_fq)"}, undone)
	}
	return errors.Join(fmt.Errorf("qdisc fq: %w", err), undone)
}

func (n *netlink) addFQ(index int, handle, parent uint32) error {
	options := attribute(attribute(nil, fqLimit, number(packetsMost)), fqFlowLimit, number(packetsFlow))
	return n.addQdisc(index, handle, parent, "fq", options)
}

func (n *netlink) addQdisc(index int, handle, parent uint32, kind string, options []byte) error {
	body := attribute(tcMessage(index, handle, parent), unix.TCA_KIND, append([]byte(kind), 0))
	if options != nil {
		body = attribute(body, unix.TCA_OPTIONS, options)
	}
	return n.ask(unix.RTM_NEWQDISC, unix.NLM_F_CREATE|unix.NLM_F_REPLACE, body, func([]byte) {})
}

// unpace takes our qdisc away; the kernel then puts its default there.
func (n *netlink) unpace(index int) error {
	found, err := n.qdiscs(index)
	if err != nil {
		return err
	}
	for _, q := range found {
		if q.parent != rootParent || q.handle != ourRoot {
			continue
		}
		err := n.ask(unix.RTM_DELQDISC, 0, tcMessage(index, ourRoot, rootParent), func([]byte) {})
		if err != nil && !errors.Is(err, unix.ENODEV) && !errors.Is(err, unix.ENOENT) {
			return fmt.Errorf("remove the uplink's qdisc: %w", err)
		}
	}
	return nil
}

// queues counts the queues that an interface sends by.
func queues(sys, name string) int {
	found, err := filepath.Glob(filepath.Join(sys, "class/net", name, "queues/tx-*"))
	if err != nil || len(found) == 0 {
		return 1
	}
	return len(found)
}

// speed is what an interface carries, in bytes per second, as its driver says.
func speed(sys, name string) (float64, bool) {
	var megabits float64
	text, err := os.ReadFile(filepath.Join(sys, "class/net", name, "speed"))
	if err != nil {
		return 0, false
	}
	if _, err := fmt.Sscan(string(text), &megabits); err != nil || megabits <= 0 {
		return 0, false
	}
	return megabits * 1e6 / 8, true
}

// traffic is what an interface has carried, and what it carries per second each way.
func traffic(sys, name string) (t Traffic) {
	counter := func(file string) (advise.Sample, bool) {
		text, err := os.ReadFile(filepath.Join(sys, "class/net", name, "statistics", file))
		if err != nil {
			return advise.Sample{}, false
		}
		n, err := strconv.ParseUint(strings.TrimSpace(string(text)), 10, 64)
		return advise.Known(float64(n)), err == nil
	}
	var missed, dropped, fifo advise.Sample
	known := [5]bool{}
	t.Received, known[0] = counter("rx_bytes")
	t.Sent, known[1] = counter("tx_bytes")
	missed, known[2] = counter("rx_missed_errors")
	fifo, known[3] = counter("rx_fifo_errors")
	dropped, known[4] = counter("tx_dropped")
	if known != [5]bool{true, true, true, true, true} {
		return Traffic{}
	}
	t.Lost, t.Unsent = advise.Known(missed.Value+fifo.Value+dropped.Value), dropped
	if carried, known := speed(sys, name); known {
		t.Link = advise.Known(carried)
	}
	return t
}
