package kubelet

import (
	"slices"
	"strconv"
	"strings"

	"hilbert.dev/hilbert/node/gpu"
)

// maxID bounds a plugin's name for a device, in bytes. Longer ones are of no plugin that is known here.
const maxID = 128

// ID is a plugin's name for a device, read. Of UUID, Address, Minor and Index it has one.
type ID struct {
	// UUID is of a GPU, or of a MIG instance.
	UUID string
	// Address is of the PCI bus, "0000:3b:00.0".
	Address string
	// Minor is the number of its device file, and Index the driver's of the GPU; -1: none.
	Minor, Index int
	// GI and CI are the driver's numbers of a GPU instance, and of a compute instance in it; -1: none.
	GI, CI int
	// Replica is which of several that share the device, by the plugin's count; -1: the plugin does not share it.
	Replica int
	slashed bool // as GKE's plugin writes the replica
}

// Parse reads a name:
//
//	GPU-27b94a00-…             a GPU, and MIG-… an instance: NVIDIA's plugin
//	MIG-GPU-27b94a00-…/1/0     an instance, by drivers before 470
//	GPU-27b94a00-…::3          of which the plugin makes several
//	nvidia0, nvidia0/gi1       by device file, and with /vgpu3 of which the plugin makes several: GKE's
//	0                          a GPU by the driver's number
//	0000:3b:00.0               by PCI address
//
// False: it is none of them.
func Parse(text string) (ID, bool) {
	id := ID{Minor: -1, Index: -1, GI: -1, CI: -1, Replica: -1}
	if len(text) > maxID {
		return id, false
	}
	name, replica, shared := strings.Cut(text, "::")
	if shared {
		var ok bool
		if id.Replica, ok = count(replica); !ok {
			return id, false
		}
	}
	switch {
	case strings.HasPrefix(name, "GPU-"), strings.HasPrefix(name, "MIG-"):
		return id, id.uuid(name)
	case strings.HasPrefix(name, "nvidia"):
		return id, !shared && id.file(strings.TrimPrefix(name, "nvidia"))
	case strings.Contains(name, ":"):
		return id, id.address(name)
	}
	var ok bool
	id.Index, ok = count(name)
	return id, ok
}

// String writes it as Parse reads it.
func (id ID) String() string {
	var text string
	switch {
	case id.UUID != "" && id.GI >= 0:
		text = "MIG-" + id.UUID + "/" + strconv.Itoa(id.GI) + "/" + strconv.Itoa(id.CI)
	case id.UUID != "":
		text = id.UUID
	case id.Address != "":
		text = id.Address
	case id.Minor >= 0:
		text = "nvidia" + strconv.Itoa(id.Minor)
		if id.GI >= 0 {
			text += "/gi" + strconv.Itoa(id.GI)
		}
	default:
		text = strconv.Itoa(id.Index)
	}
	switch {
	case id.slashed:
		return text + "/vgpu" + strconv.Itoa(id.Replica)
	case id.Replica >= 0:
		return text + "::" + strconv.Itoa(id.Replica)
	}
	return text
}

// count reads a number as plugins write it: without sign or zeros before it.
func count(text string) (int, bool) {
	const most = 1 << 16
	n, err := strconv.Atoi(text)
	return n, err == nil && n >= 0 && n < most && strconv.Itoa(n) == text
}

func (id *ID) uuid(name string) bool {
	parts := strings.Split(name, "/")
	old, instance := strings.CutPrefix(parts[0], "MIG-GPU-")
	if instance && len(parts) == 3 {
		var gi, ci bool
		id.GI, gi = count(parts[1])
		id.CI, ci = count(parts[2])
		id.UUID = "GPU-" + old
		return gi && ci && plain(old)
	}
	id.UUID = parts[0]
	return len(parts) == 1 && plain(parts[0][len("GPU-"):])
}

// plain reports whether a UUID's rest has only what UUIDs are written with.
func plain(text string) bool {
	return text != "" && !strings.ContainsFunc(text, func(r rune) bool {
		return r != '-' && (r < '0' || r > '9') && (r < 'a' || r > 'z') && (r < 'A' || r > 'Z')
	})
}

// file reads what stands behind nvidia: "0", "0/gi1", "0/gi1/vgpu3", "0/vgpu3".
func (id *ID) file(rest string) (ok bool) {
	parts := strings.Split(rest, "/")
	if id.Minor, ok = count(parts[0]); !ok {
		return false
	}
	parts = parts[1:]
	if len(parts) > 0 && strings.HasPrefix(parts[0], "gi") {
		if id.GI, ok = count(parts[0][len("gi"):]); !ok {
			return false
		}
		parts = parts[1:]
	}
	if len(parts) > 0 && strings.HasPrefix(parts[0], "vgpu") {
		if id.Replica, ok = count(parts[0][len("vgpu"):]); !ok {
			return false
		}
		id.slashed, parts = true, parts[1:]
	}
	return len(parts) == 0
}

// address reads a PCI address as the kernel writes it, or with eight digits of a domain and large letters, as the driver does.
func (id *ID) address(name string) bool {
	const short, long = len("0000:3b:00.0"), len("00000000:3b:00.0")
	id.Address = strings.ToLower(name)
	if len(name) == long {
		id.Address = strings.TrimPrefix(id.Address, "0000")
	}
	if len(id.Address) != short {
		return false
	}
	for i, c := range []byte(id.Address) {
		switch want := "0000:00:00.0"[i]; {
		case want != '0' && c != want, want == '0' && !strings.ContainsRune("0123456789abcdef", rune(c)):
			return false
		}
	}
	return true
}

// Place is where a device is among the GPUs of a node: a GPU's index, and that of its instance, -1 for the whole GPU. GPU -1: it is certainly none of
// them.
type Place struct{ GPU, Instance int }

// find says which of the GPUs, by index, a name means. False: it is not known, or it could mean two.
func (id ID) find(slots []gpu.Slot) (Place, bool) {
	switch {
	case id.Address != "":
		return Place{slices.IndexFunc(slots, func(s gpu.Slot) bool { return s.Address == id.Address }), -1}, true
	case strings.HasPrefix(id.UUID, "MIG-"):
		return only(slots, func(_ *gpu.Slot, in *gpu.SlotInstance) bool { return in != nil && in.UUID == id.UUID })
	case id.UUID != "" && id.GI >= 0:
		return only(slots, func(s *gpu.Slot, in *gpu.SlotInstance) bool {
			return in != nil && s.GPU.UUID == id.UUID && in.GI == id.GI && in.CI == id.CI
		})
	case id.UUID != "":
		return only(slots, func(s *gpu.Slot, in *gpu.SlotInstance) bool { return in == nil && s.GPU.UUID == id.UUID })
	case id.Minor >= 0:
		file := "/dev/nvidia" + strconv.Itoa(id.Minor)
		return only(slots, func(s *gpu.Slot, in *gpu.SlotInstance) bool {
			return s.GPU.Node == file && !away(s) && (in != nil) == (id.GI >= 0) && (in == nil || in.GI == id.GI && !in.Gone)
		})
	}
	return numbered(slots, id.Index)
}

// only is the one GPU, or instance, that fits.
func only(slots []gpu.Slot, fits func(*gpu.Slot, *gpu.SlotInstance) bool) (out Place, ok bool) {
	found := 0
	for i := range slots {
		s := &slots[i]
		if fits(s, nil) {
			out, found = Place{i, -1}, found+1
		}
		for k := range s.Instances {
			if fits(s, &s.Instances[k]) {
				out, found = Place{i, k}, found+1
			}
		}
	}
	return out, found == 1
}

// numbered is the GPU of the driver's number, which counts those that it knows by their addresses. If one that was there is not, the plugin may have
// counted before that or after, so it is unknown.
func numbered(slots []gpu.Slot, index int) (Place, bool) {
	order := make([]int, 0, len(slots))
	for i := range slots {
		if away(&slots[i]) {
			return Place{}, false
		}
		order = append(order, i)
	}
	if index >= len(order) {
		return Place{}, false
	}
	slices.SortFunc(order, func(a, b int) int { return strings.Compare(slots[a].Address, slots[b].Address) })
	return Place{order[index], -1}, true
}

// away reports whether what is remembered of a GPU is of before.
func away(s *gpu.Slot) bool {
	return s.Closed == gpu.DriverAway || s.Closed == gpu.Vanished || s.Closed == gpu.Replaced || s.GPU.UUID == ""
}
