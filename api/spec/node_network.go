package spec

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// AnnotationUplinks stands on a Node and names its uplinks, in the place of node.lending.network.uplinks: "eth0,eth1=10000". An administrator writes it; a kubelet may not.
const AnnotationUplinks = "hilbert.dev/uplinks"

// AnnotationTrafficClass stands on a pod: TrafficBackground, or TrafficBestEffort, which is what a pod without it has.
const AnnotationTrafficClass = "hilbert.dev/traffic-class"

// The values of AnnotationTrafficClass, by the names of IEEE 802.1Q. A pod can lower its own traffic with it, and nothing else.
const (
	// TrafficBestEffort is the class of all traffic that nobody has said anything of.
	TrafficBestEffort = "best-effort"
	// TrafficBackground: the traffic takes what the others leave, as that of a bulk transfer does that nobody waits for.
	TrafficBackground = "background"
)

// TrafficClassOf reads a pod's annotation. The error names the key and what it may be; the pod is then as one without it.
func TrafficClassOf(annotations map[string]string) (string, error) {
	switch class := annotations[AnnotationTrafficClass]; class {
	case "", TrafficBestEffort:
		return TrafficBestEffort, nil
	case TrafficBackground:
		return TrafficBackground, nil
	default:
		return TrafficBestEffort, fmt.Errorf("%s: %q: want %s or %s", AnnotationTrafficClass, class, TrafficBackground, TrafficBestEffort)
	}
}

// LendingNetwork limits what reclaimed pods send off the node, and what comes in for them.
type LendingNetwork struct {
	// Enabled limits what all reclaimed pods send together, by each uplink, to what the online pods leave. The agent then needs hostNetwork, /sys/fs/bpf, CAP_BPF,
	// CAP_NET_ADMIN and CAP_SYS_PTRACE (the chart gives them where the file says true). The limit stays in the kernel after the agent stops: to remove it, start an agent once with false and these
	// permissions.
	Enabled bool `json:"enabled,omitempty"`
	// Uplinks are the network interfaces that lead off the node, MaxUplinks at most, each with the Mbit/s that it carries where its driver does not say that: "eth1=10000". Each has a
	// limit of its own. Empty: those of the default routes of IPv4 and IPv6. The annotation hilbert.dev/uplinks of the Node takes the place of all of them.
	Uplinks []string `json:"uplinks,omitempty"`
	// LinkMbps is what the uplinks without a number of their own carry together, in Mbit/s, each an equal part. 0: what their drivers say.
	LinkMbps int64 `json:"linkMbps,omitempty"`
	// Incoming also limits what comes in by each uplink for reclaimed pods: what is beyond the limit is dropped, so that its senders slow down.
	Incoming bool `json:"incoming,omitempty"`
}

// MaxUplinks bounds the uplinks of a node.
const MaxUplinks = 8

// Uplink is a network interface that leads off the node. Mbps is what it carries, in Mbit/s; 0: that is not said.
type Uplink struct {
	Name string
	Mbps int64
}

// ParseUplink reads "eth0" or "eth0=10000".
func ParseUplink(text string) (Uplink, error) {
	const longest = 15 // of the kernel, IFNAMSIZ
	name, number, said := strings.Cut(text, "=")
	if name == "" || len(name) > longest || name == "." || name == ".." || strings.ContainsAny(name, "/:, \t\n\v\f\r") {
		return Uplink{}, fmt.Errorf("%q: write the name of a network interface, and \"=\" and its Mbit/s if its driver does not say these: eth0 or eth0=10000", text)
	}
	if !said {
		return Uplink{Name: name}, nil
	}
	const most = 10_000_000
	mbps, err := strconv.ParseInt(number, 10, 64)
	if err != nil || mbps < 1 || mbps > most || strconv.FormatInt(mbps, 10) != number {
		return Uplink{}, fmt.Errorf("%q: want the Mbit/s as a whole number from 1 to %d", text, most)
	}
	return Uplink{name, mbps}, nil
}

// ParseUplinks reads a list of uplinks. The error names every mistake by its place.
func ParseUplinks(list []string) (out []Uplink, err error) {
	var errs []error
	if len(list) > MaxUplinks {
		errs = append(errs, fmt.Errorf("%d uplinks; write at most %d", len(list), MaxUplinks))
	}
	for i, text := range list {
		one, err := ParseUplink(text)
		switch {
		case err != nil:
			errs = append(errs, fmt.Errorf("[%d]: %w", i, err))
		case slices.ContainsFunc(out, func(other Uplink) bool { return other.Name == one.Name }):
			errs = append(errs, fmt.Errorf("[%d]: %q: write each interface once", i, one.Name))
		default:
			out = append(out, one)
		}
	}
	return out, errors.Join(errs...)
}

// UplinksOf reads the annotation of a Node; nil: it names none. The error names the annotation.
func UplinksOf(annotations map[string]string) (list []string, err error) {
	text := strings.TrimSpace(annotations[AnnotationUplinks])
	if text == "" {
		return nil, nil
	}
	for part := range strings.SplitSeq(text, ",") {
		list = append(list, strings.TrimSpace(part))
	}
	if _, err := ParseUplinks(list); err != nil {
		return nil, fmt.Errorf("%s: %w", AnnotationUplinks, err)
	}
	return list, nil
}

// check finds what is wrong.
func (n *LendingNetwork) check(bad report) {
	if len(n.Uplinks) > MaxUplinks {
		bad("node.lending.network.uplinks", "%d uplinks; write at most %d", len(n.Uplinks), MaxUplinks)
	}
	seen := make(map[string]bool, len(n.Uplinks))
	for i, text := range n.Uplinks {
		at := fmt.Sprintf("node.lending.network.uplinks[%d]", i)
		one, err := ParseUplink(text)
		if err != nil {
			bad(at, "%w", err)
		} else if seen[one.Name] {
			bad(at, "%q: write each interface once", one.Name)
		}
		seen[one.Name] = true
	}
	if n.LinkMbps < 0 {
		bad("node.lending.network.linkMbps", "%d is less than 0", n.LinkMbps)
	}
}
