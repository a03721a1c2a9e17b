package agent

import (
	"context"
	_ "embed"
	"fmt"
	"path"
	"strconv"
	"strings"

	"hilbert.dev/hilbert/lab/vm"
)

//go:embed testdata/nvidia-smi
var nvidiaSMI string

const (
	driverVersion = "590.44.01"
	// driverProc is where NVIDIA's module has a directory. The kernel has /proc/driver for such, and nothing can be made in it but by a mount.
	driverProc = "/proc/driver"
	// libcuda is what a specification of CDI brings, of the driver's version. standInFile has a stand-in's address, in the containers that have it.
	libcuda     = "/usr/lib/x86_64-linux-gnu/libcuda.so." + driverVersion
	standInFile = "/run/gpu"
	// devicesKept is where the agent keeps which number belongs to which device.
	devicesKept = "/var/lib/hilbert/devices.json"
	cdiFile     = "/var/run/cdi/nvidia.yaml"
)

// function is a PCI function of the guest, as its kernel has it.
type function struct {
	address string
	node    int    // its NUMA node
	above   string // the directory of the switch that it is below
	disk    string // of a stand-in for a GPU: the numbers of its device file, "254:16"
	mebi    int64  // and its size
	link    string // of a network card: its interface
}

// standIn is a stand-in for a GPU, with the card that is to be under the same switch.
type standIn struct {
	function
	uuid, model string
	number      int // of its device file
	card        function
}

func (s *standIn) file() string { return fmt.Sprintf("/dev/nvidia%d", s.number) }

// functions are those of a PCI class, by address.
func (r *rig) functions(class string) (out []function) {
	r.t.Helper()
	script := `for dir in /sys/bus/pci/devices/*; do
		read -r class <$dir/class
		if [ "$class" = ` + class + ` ]; then
			echo "${dir##*/} $(cat $dir/numa_node) $(readlink -f $dir) disk=$(cat $dir/virtio*/block/*/dev) sectors=$(cat $dir/virtio*/block/*/size) link=$(ls $dir/net)"
		fi
	done 2>/dev/null`
	text, err := r.Guest.Shell(r.t.Context(), script)
	if err != nil {
		r.t.Fatal(err)
	}
	for line := range strings.Lines(text) {
		words := strings.Fields(line)
		if len(words) != 6 {
			r.t.Fatalf("a function of class %s: %q", class, line)
		}
		f := function{address: words[0]}
		if f.node, err = strconv.Atoi(words[1]); err != nil {
			r.t.Fatal(err)
		}
		f.above = path.Dir(path.Dir(words[2])) // its own port, and what that hangs from
		f.disk = strings.TrimPrefix(words[3], "disk=")
		if sectors, err := strconv.ParseInt(strings.TrimPrefix(words[4], "sectors="), 10, 64); err == nil {
			f.mebi = sectors / 2048
		}
		f.link = strings.TrimPrefix(words[5], "link=")
		out = append(out, f)
	}
	return out
}

// standIns are the guest's stand-ins for GPUs, by NUMA node.
func (r *rig) standIns() (out [vm.Nodes]standIn) {
	r.t.Helper()
	gpus, cards := r.functions("0x030200"), r.functions("0x020000")
	if len(gpus) != vm.Nodes {
		r.t.Fatalf("%+v, want one stand-in in each NUMA node", gpus)
	}
	for i, f := range gpus {
		s := standIn{function: f, number: i, model: "Stand-in of PCI class 0302"}
		s.uuid = fmt.Sprintf("GPU-%s-0000-0000-0000-000000000000", strings.NewReplacer(":", "", ".", "0").Replace(f.address)[2:])
		for _, c := range cards {
			if c.above == f.above {
				s.card = c
			}
		}
		if f.node < 0 || f.node >= vm.Nodes || out[f.node].address != "" || f.disk == "" || s.card.link == "" {
			r.t.Fatalf("%+v below %+v, want a disk and a card below one switch in each NUMA node", s, cards)
		}
		out[f.node] = s
	}
	return out
}

// deviceFiles makes the files of the stand-ins as they are now, as the driver and what goes with it do.
func (r *rig) deviceFiles(gpus [vm.Nodes]standIn) {
	r.t.Helper()
	script := ""
	for i := range gpus {
		script += fmt.Sprintf("rm -f %[1]s\nbusybox mknod %[1]s b %[2]s || exit 1\n", gpus[i].file(), strings.Replace(gpus[i].disk, ":", " ", 1))
	}
	if _, err := r.Guest.Shell(r.t.Context(), script); err != nil {
		r.t.Fatal(err)
	}
}

// driver gives the stand-ins what NVIDIA's driver and its container toolkit bring, and starts the agent so that it gives them out; all until the test
// ends. The links of their network cards are up for as long.
func (r *rig) driver(gpus [vm.Nodes]standIn) {
	r.t.Helper()
	ctx := r.t.Context()
	must := func(err error) {
		if r.t.Helper(); err != nil {
			r.t.Fatal(err)
		}
	}
	_, err := r.Guest.Shell(ctx, "mount -t tmpfs tmpfs "+driverProc)
	must(err)
	must(r.Guest.WriteString(ctx, libcuda, "no library\n"))
	links, specification := "", "cdiVersion: 0.5.0\nkind: nvidia.com/gpu\ndevices:\n"
	for i := range gpus {
		s := &gpus[i]
		_, err = r.Guest.Shell(ctx, fmt.Sprintf("mkdir -p %[1]s/nvidia/gpus/%[2]s && cat >%[1]s/nvidia/gpus/%[2]s/information <<END\n"+
			"Model: \t\t %[3]s\nGPU UUID: \t %[4]s\nBus Location: \t %[2]s\nDevice Minor: \t %[5]d\nEND\n", driverProc, s.address, s.model, s.uuid, s.number))
		must(err)
		must(r.Guest.WriteString(ctx, standInFile+"s/"+s.address, s.address+"\n"))
		links += " " + s.card.link
		specification += fmt.Sprintf("  - name: %s\n    containerEdits:\n      deviceNodes: [{path: %s}]\n      env: [STAND_IN=%[3]s]\n"+
			"      mounts: [{hostPath: %[4]ss/%[3]s, containerPath: %[4]s, options: [ro, nosuid, nodev, bind]}]\n", s.uuid, s.file(), s.address, standInFile)
	}
	specification += fmt.Sprintf("containerEdits:\n  mounts: [{hostPath: %[1]s, containerPath: %[1]s, options: [ro, nosuid, nodev, bind]}]\n", libcuda)
	must(r.Guest.WriteString(ctx, cdiFile, specification))
	_, err = r.Guest.Shell(ctx, fmt.Sprintf("echo %s >%s/nvidia/version; for link in %s; do ip link set $link up || exit 1; done", driverVersion, driverProc, links))
	must(err)
	r.deviceFiles(gpus)
	must(r.Guest.WriteFile(ctx, "/usr/bin/nvidia-smi", strings.NewReader(nvidiaSMI), 0o755))
	r.reconfigure("lending: {enabled: false}", "lending: {enabled: false}, devices: {owner: hilbert, interval: 3s}")
	r.t.Cleanup(func() { // before the agent starts again as it was
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		if err := r.Guest.Service(agentName).Stop(ctx); err != nil {
			r.t.Error(err)
		}
		_, err := r.Guest.Shell(ctx, fmt.Sprintf("umount %s; rm -rf %s %s %ss %s /usr/bin/nvidia-smi /dev/nvidia*; for link in %s; do ip link set $link down; done",
			driverProc, libcuda, cdiFile, standInFile, devicesKept, links))
		if err != nil {
			r.t.Error(err)
		}
	})
}
