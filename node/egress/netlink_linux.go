package egress

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// Of the kernel's routing netlink we need: the interfaces, whose network namespace is which, and qdiscs.

const (
	// messageBytes is the largest answer that is read at once. The kernel sends no larger ones in a dump.
	messageBytes = 64 << 10
	// answersMost bounds the messages of one answer: an interface, or a qdisc, each.
	answersMost = 1 << 16
	// typeMask is what of an attribute's type is not flags.
	typeMask = 0x3fff
)

// netlink is a socket to the kernel's routing.
type netlink struct {
	fd       int
	sequence uint32
}

func openNetlink() (*netlink, error) {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.NETLINK_ROUTE)
	if err != nil {
		return nil, fmt.Errorf("netlink: %w", err)
	}
	// The kernel answers in the same call; if it does not, the tick must not hang.
	err = unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &unix.Timeval{Sec: 2})
	if err == nil {
		err = unix.Bind(fd, &unix.SockaddrNetlink{Family: unix.AF_NETLINK})
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("netlink: %w", err), unix.Close(fd))
	}
	return &netlink{fd: fd}, nil
}

func (n *netlink) close() error { return unix.Close(n.fd) }

// ask sends a message and gives each message of the answer, without its header, to visit.
func (n *netlink) ask(kind, flags uint16, body []byte, visit func(body []byte)) error {
	n.sequence++
	header := make([]byte, unix.NLMSG_HDRLEN, unix.NLMSG_HDRLEN+len(body))
	binary.NativeEndian.PutUint32(header[0:], uint32(unix.NLMSG_HDRLEN+len(body)))
	binary.NativeEndian.PutUint16(header[4:], kind)
	binary.NativeEndian.PutUint16(header[6:], flags|unix.NLM_F_REQUEST|unix.NLM_F_ACK)
	binary.NativeEndian.PutUint32(header[8:], n.sequence)
	if err := unix.Sendto(n.fd, append(header, body...), 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
		return fmt.Errorf("netlink: %w", err)
	}
	buffer := make([]byte, messageBytes)
	for range answersMost {
		got, _, err := unix.Recvfrom(n.fd, buffer, 0)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil {
			return fmt.Errorf("netlink: %w", err)
		}
		done, err := n.answers(buffer[:got], visit)
		if done || err != nil {
			return err
		}
	}
	return errors.New("netlink: the answer does not end")
}

// answers goes through the messages of a packet, and reports whether the last one was among them.
func (n *netlink) answers(data []byte, visit func(body []byte)) (done bool, err error) {
	for len(data) >= unix.NLMSG_HDRLEN {
		length := int(binary.NativeEndian.Uint32(data))
		kind := binary.NativeEndian.Uint16(data[4:])
		if length < unix.NLMSG_HDRLEN || length > len(data) {
			return false, fmt.Errorf("netlink: a message of %d bytes in %d", length, len(data))
		}
		body := data[unix.NLMSG_HDRLEN:length]
		mine := binary.NativeEndian.Uint32(data[8:]) == n.sequence
		data = data[min(aligned(length), len(data)):]
		switch {
		case !mine: // left over from a request that timed out
		case kind == unix.NLMSG_DONE || kind == unix.NLMSG_ERROR:
			if len(body) < 4 {
				return true, nil
			}
			if code := int32(binary.NativeEndian.Uint32(body)); code < 0 {
				return true, unix.Errno(-code)
			}
			return true, nil
		default:
			visit(body)
		}
	}
	return false, nil
}

func aligned(n int) int { return (n + 3) &^ 3 }

// attribute appends an attribute to a message.
func attribute(to []byte, kind uint16, value []byte) []byte {
	to = binary.NativeEndian.AppendUint16(to, uint16(4+len(value)))
	to = binary.NativeEndian.AppendUint16(to, kind)
	to = append(to, value...)
	return append(to, make([]byte, aligned(len(value))-len(value))...)
}

func number(n uint32) []byte { return binary.NativeEndian.AppendUint32(nil, n) }

// attributes calls visit for each attribute of a message.
func attributes(data []byte, visit func(kind uint16, value []byte)) {
	for len(data) >= 4 {
		length := int(binary.NativeEndian.Uint16(data))
		if length < 4 || length > len(data) {
			return
		}
		visit(binary.NativeEndian.Uint16(data[2:])&typeMask, data[4:length])
		data = data[min(aligned(length), len(data)):]
	}
}

// text is a string attribute.
func text(value []byte) string { return unix.ByteSliceToString(value) }

// word is a 32-bit attribute.
func word(value []byte) int32 {
	if len(value) < 4 {
		return -1
	}
	return int32(binary.NativeEndian.Uint32(value))
}

// iface is a network interface. Peer is the namespace, by the number that ours has for it, of the other end; -1: it has none, or here.
type iface struct {
	index int
	name  string
	peer  int32
}

// interfaces lists the interfaces of our namespace. It also makes the kernel number the namespaces of their other ends.
func (n *netlink) interfaces() ([]iface, error) {
	var found []iface
	err := n.ask(unix.RTM_GETLINK, unix.NLM_F_DUMP, make([]byte, unix.SizeofIfInfomsg), func(body []byte) {
		if len(body) < unix.SizeofIfInfomsg {
			return
		}
		one := iface{index: int(binary.NativeEndian.Uint32(body[4:])), peer: -1}
		attributes(body[unix.SizeofIfInfomsg:], func(kind uint16, value []byte) {
			switch kind {
			case unix.IFLA_IFNAME:
				one.name = text(value)
			case unix.IFLA_LINK_NETNSID:
				one.peer = word(value)
			}
		})
		found = append(found, one)
	})
	if err != nil {
		return nil, fmt.Errorf("network interfaces: %w", err)
	}
	return found, nil
}

// namespace is the number that our namespace has for another one; -1: none.
func (n *netlink) namespace(file *os.File) (int32, error) {
	found := int32(-1)
	err := n.ask(unix.RTM_GETNSID, 0, attribute(make([]byte, 4), unix.NETNSA_FD, number(uint32(file.Fd()))), func(body []byte) {
		if len(body) < 4 {
			return
		}
		attributes(body[4:], func(kind uint16, value []byte) {
			if kind == unix.NETNSA_NSID {
				found = word(value)
			}
		})
	})
	return found, err
}
