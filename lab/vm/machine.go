package vm

import (
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
)

const (
	// CPUs, Nodes and NodeMiB are the guest's processors and its NUMA nodes where Options do not say, and the memory of each of those. The first
	// of the CPUs are node 0 and socket 0.
	CPUs, Nodes, NodeMiB = 8, 2, 2048
	// farDistance is what the firmware says of the way from one node to the other; the way within is 10. Of more than two, each is nearer to the other of its pair.
	farDistance, pairDistance = 21, 12
	// busNumbers are those of PCI that the root complexes of the nodes divide, and leave the last few for what is below the last of them; none gets more than widestBuses.
	busNumbers, widestBuses = 0xf0, 0x40
	// gpuGiB is the size of node 0's stand-in for a GPU. Those of other nodes are larger, so that they can be told apart.
	gpuGiB = 16
)

// MachineDirs are the directories of the guest that say what machine it is.
func MachineDirs() []string {
	return []string{
		"/sys/devices/system/cpu", "/sys/devices/system/node", "/sys/class/net", "/sys/class/infiniband", "/sys/bus/pci/devices",
		"/sys/devices/pci*", "/sys/block", "/sys/class/block",
	}
}

// machine is QEMU's command line: the machine, what it boots, and the ports that lead to it.
func machine(o Options, ports map[int]int) []string {
	p := o.Parts
	argv := []string{
		"-machine", "q35", "-accel", "tcg,thread=" + threads(o) + ",tb-size=512",
		// Without x2apic every one of the boots counted was good, with it 33 of 36.
		"-cpu", "max,-x2apic",
		"-smp", fmt.Sprintf("%d,sockets=%d,cores=%d,threads=1", o.CPUs, o.Nodes, o.CPUs/o.Nodes),
		"-m", fmt.Sprintf("%dM", o.Nodes*NodeMiB),
		"-nodefaults", "-no-user-config", "-display", "none", "-no-reboot",
		"-serial", "file:" + filepath.Join(o.Dir, "console"), "-qmp", "unix:" + monitorSocket(o) + ",server=on,wait=off",
		"-kernel", p.Kernel, "-initrd", p.Initrd,
		// no_timer_check: on a busy host the kernel may count too few ticks of the timer while it looks whether that works, and panics.
		"-append", "console=ttyS0 panic=-1 psi=1 tsc=reliable quiet mitigations=off nokaslr no_timer_check",
		// One queue, for emulation has lost an interrupt of the disk: the answer to any later request then brings the lost one along, where
		// with a queue for each CPU whatever waited in that queue would wait for ever.
		"-drive", "if=none,id=root,format=raw,cache=unsafe,snapshot=on,file=" + p.Disk, "-device", "virtio-blk-pci,drive=root,num-queues=1",
		"-device", "virtio-rng-pci",
		"-netdev", "user,id=net" + forwards(ports), "-device", "virtio-net-pci,netdev=net,romfile=",
	}
	for node := range o.Nodes {
		argv = append(argv, numaNode(node, o.CPUs/o.Nodes)...)
		argv = append(argv, pcieSwitch(node, o.Nodes)...)
	}
	for from := range o.Nodes {
		for to := range o.Nodes {
			if from != to {
				argv = append(argv, "-numa", fmt.Sprintf("dist,src=%d,dst=%d,val=%d", from, to, distance(from, to, o.Nodes)))
			}
		}
	}
	return argv
}

// distance is what the firmware says of the way from one node to another.
func distance(from, to, nodes int) int {
	if nodes > 2 && from/2 == to/2 {
		return pairDistance
	}
	return farDistance
}

// threads is whether each processor has a thread of QEMU's. One alone needs none of its own: a thread less that waits for the host, and none of the races in
// which the timer of a processor gets lost.
func threads(o Options) string {
	if o.CPUs == 1 {
		return "single"
	}
	return "multi"
}

func numaNode(node, perNode int) []string {
	return []string{
		"-object", fmt.Sprintf("memory-backend-ram,id=mem%d,size=%dM", node, NodeMiB),
		"-numa", fmt.Sprintf("node,nodeid=%d,cpus=%d-%d,memdev=mem%d", node, node*perNode, (node+1)*perNode-1, node),
	}
}

// pcieSwitch hangs a switch below a root complex of the node, and a network card and a stand-in for a GPU (a disk of nothing that says
// that it is a 3D controller) below the switch.
func pcieSwitch(node, nodes int) []string {
	bus := min(widestBuses, busNumbers/nodes) * (node + 1)
	devices := []string{
		fmt.Sprintf("pxb-pcie,id=complex%[1]d,bus=pcie.0,bus_nr=%[2]d,numa_node=%[1]d", node, bus),
		fmt.Sprintf("pcie-root-port,id=port%[1]d,bus=complex%[1]d,chassis=%[1]d,slot=%[2]d", node, 2*node),
		fmt.Sprintf("x3130-upstream,id=up%[1]d,bus=port%[1]d", node),
		fmt.Sprintf("xio3130-downstream,id=down%[1]dgpu,bus=up%[1]d,chassis=%[2]d,slot=0", node, 10+2*node),
		fmt.Sprintf("xio3130-downstream,id=down%[1]dnic,bus=up%[1]d,chassis=%[2]d,slot=1", node, 11+2*node),
		fmt.Sprintf("virtio-blk-pci,drive=gpu%[1]d,bus=down%[1]dgpu,class=0x0302", node),
		fmt.Sprintf("e1000e,netdev=nic%[1]d,bus=down%[1]dnic,romfile=", node),
	}
	argv := []string{
		"-blockdev", fmt.Sprintf("driver=null-co,node-name=gpu%d,size=%d", node, (gpuGiB+8*node)<<30),
		"-netdev", fmt.Sprintf("user,id=nic%d,restrict=on", node),
	}
	for _, device := range devices {
		argv = append(argv, "-device", device)
	}
	return argv
}

func forwards(ports map[int]int) string {
	var b strings.Builder
	for _, port := range slices.Sorted(maps.Keys(ports)) {
		fmt.Fprintf(&b, ",hostfwd=tcp:127.0.0.1:%d-:%d", ports[port], port)
	}
	return b.String()
}
