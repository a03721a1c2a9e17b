package gpu

import (
	"cmp"
	"encoding/xml"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// The parts of nvidia-smi's XML that are read. Elements come and go between drivers: one that is not there stays empty, and is not known.
type (
	smiLog struct {
		XMLName  xml.Name `xml:"nvidia_smi_log"`
		Version  string   `xml:"driver_version"`
		Attached string   `xml:"attached_gpus"`
		GPUs     []smiGPU `xml:"gpu"`
	}
	smiGPU struct {
		ID          string       `xml:"id,attr"`
		Name        string       `xml:"product_name"`
		Arch        string       `xml:"product_architecture"`
		UUID        string       `xml:"uuid"`
		Minor       string       `xml:"minor_number"`
		MIG         string       `xml:"mig_mode>current_mig"`
		NextMIG     string       `xml:"mig_mode>pending_mig"`
		Instances   []smiMIG     `xml:"mig_devices>mig_device"`
		Total       string       `xml:"fb_memory_usage>total"`
		Reserved    string       `xml:"fb_memory_usage>reserved"`
		Compute     string       `xml:"compute_mode"`
		Recovery    string       `xml:"gpu_recovery_action"`
		Volatile    smiErrors    `xml:"ecc_errors>volatile"`
		Unrepaired  string       `xml:"ecc_errors>unrepairable_memory"`
		Channel     string       `xml:"ecc_errors>channel_repair_pending"`
		RemapWaits  string       `xml:"remapped_rows>remapped_row_pending"`
		RemapFailed string       `xml:"remapped_rows>remapped_row_failure"`
		Retirement  string       `xml:"retired_pages>pending_retirement"`
		Blacklist   string       `xml:"retired_pages>pending_blacklist"`
		Processes   []smiProcess `xml:"processes>process_info"`
	}
	// smiErrors are the names that uncorrectable errors have had.
	smiErrors struct {
		SRAM     string `xml:"sram_uncorrectable"`
		Parity   string `xml:"sram_uncorrectable_parity"`
		Secded   string `xml:"sram_uncorrectable_secded"`
		DRAM     string `xml:"dram_uncorrectable"`
		Double   string `xml:"double_bit>total"`
		DoubleMB string `xml:"double_bit>device_memory"`
	}
	smiMIG struct {
		Index           string `xml:"index"`
		GI              string `xml:"gpu_instance_id"`
		CI              string `xml:"compute_instance_id"`
		Multiprocessors string `xml:"device_attributes>shared>multiprocessor_count"`
		Total           string `xml:"fb_memory_usage>total"`
		Reserved        string `xml:"fb_memory_usage>reserved"`
	}
	smiProcess struct {
		PID  string `xml:"pid"`
		Type string `xml:"type"`
		Name string `xml:"process_name"`
	}
)

// ParseQuery reads what `nvidia-smi -q -x` printed. UUIDs and profiles of instances are not in it: they come from AddList. An error says that
// the answer is no inventory: nothing of it may be used.
func ParseQuery(text []byte) (*Inventory, error) {
	var log smiLog
	if err := xml.Unmarshal(text, &log); err != nil {
		return nil, fmt.Errorf("the driver's answer: %w", err)
	}
	inv := &Inventory{Version: log.Version}
	for i := range log.GPUs {
		g, err := log.GPUs[i].read()
		if err != nil {
			return nil, err
		}
		inv.GPUs = append(inv.GPUs, g)
	}
	// An answer without a count is of something else; and one must not look like GPUs that have vanished.
	if n, err := strconv.Atoi(log.Attached); err != nil || n < len(inv.GPUs) {
		return nil, fmt.Errorf("the driver tells of %d GPUs and says %q are attached", len(inv.GPUs), log.Attached)
	}
	slices.SortFunc(inv.GPUs, func(a, b GPU) int { return cmp.Compare(a.Address, b.Address) })
	for i := 1; i < len(inv.GPUs); i++ {
		if inv.GPUs[i].Address == inv.GPUs[i-1].Address {
			return nil, fmt.Errorf("the driver tells of two GPUs at %s", inv.GPUs[i].Address)
		}
	}
	return inv, nil
}

func (s *smiGPU) read() (GPU, error) {
	address, err := canonical(s.ID)
	if err != nil {
		return GPU{}, err
	}
	g := GPU{
		Address: address, UUID: known(s.UUID), Model: known(s.Name), Architecture: known(s.Arch), Compute: ComputeMode(known(s.Compute)), Memory: memory(s.Total, s.Reserved),
		MIG: migMode(s.MIG, s.NextMIG),
		Health: Health{
			Recovery:      known(s.Recovery),
			Uncorrected:   s.Volatile.any(),
			RepairPending: worst(answer(s.RemapWaits), answer(s.Channel), answer(s.Retirement), answer(s.Blacklist)),
			RepairFailed:  worst(answer(s.RemapFailed), answer(s.Unrepaired)),
		},
	}
	if n, err := strconv.ParseUint(known(s.Minor), 10, 16); err == nil {
		g.Node = "/dev/nvidia" + strconv.FormatUint(n, 10)
	}
	for i := range s.Instances {
		m := &s.Instances[i]
		gi, err1 := strconv.Atoi(m.GI)
		ci, err2 := strconv.Atoi(m.CI)
		if err := errors.Join(err1, err2); err != nil {
			return GPU{}, fmt.Errorf("a MIG device of the GPU at %s: %w", address, err)
		}
		sm, _ := strconv.ParseUint(m.Multiprocessors, 10, 16) // not a number: not known
		g.Instances = append(g.Instances, Instance{GI: gi, CI: ci, Multiprocessors: uint16(sm), Memory: memory(m.Total, m.Reserved)})
	}
	for _, p := range s.Processes {
		if pid, err := strconv.Atoi(p.PID); err == nil {
			g.Processes = append(g.Processes, Process{PID: pid, Name: strings.TrimSpace(p.Name), Graphics: p.Type == "G"})
		}
	}
	return g, nil
}

// nothing are the driver's words for that it does not say.
var nothing = []string{
	"n/a", "not supported", "unknown error", "err!", "gpu requires reset", "requested functionality has been deprecated",
}

// known is a value, or nothing where the driver says that it has none, in any of its words for that.
func known(text string) string {
	text = strings.TrimSpace(text)
	if slices.Contains(nothing, strings.ToLower(strings.Trim(text, "[]"))) {
		return ""
	}
	return text
}

// memory is the MiB that are left of a total; 0 where the total is not known. What is reserved is not told by older drivers.
func memory(total, reserved string) uint32 {
	all, ok := mebibytes(total)
	if !ok {
		return 0
	}
	kept, _ := mebibytes(reserved)
	return all - min(kept, all)
}

func mebibytes(text string) (uint32, bool) {
	number, ok := strings.CutSuffix(known(text), " MiB")
	n, err := strconv.ParseUint(number, 10, 32)
	return uint32(n), ok && err == nil
}

func migMode(now, next string) MIGMode {
	// A GPU that cannot be divided says "N/A"; one that says nothing is of a driver from before there was MIG.
	now, next = strings.TrimSpace(now), strings.TrimSpace(next)
	switch {
	case now != next:
		return MIGChanging
	case now == "Enabled":
		return MIGOn
	case now == "Disabled", now == "N/A", now == "":
		return MIGOff
	}
	return MIGUnknown
}

func answer(text string) Answer {
	switch strings.ToLower(known(text)) {
	case "yes":
		return Yes
	case "no":
		return No
	}
	return Unknown
}

// worst is yes if any is, and unknown only if all are.
func worst(list ...Answer) Answer { return slices.Max(list) }

func (e *smiErrors) any() (out Answer) {
	for _, text := range []string{e.SRAM, e.Parity, e.Secded, e.DRAM, e.Double, e.DoubleMB} {
		n, err := strconv.ParseUint(known(text), 10, 64)
		switch {
		case err != nil:
		case n > 0:
			return Yes
		default:
			out = No
		}
	}
	return out
}

var busID = regexp.MustCompile(`^([0-9a-f]{4,8}):([0-9a-f]{2}:[0-9a-f]{2}\.[0-7])$`)

// canonical turns nvidia-smi's address, "00000000:3B:00.0", into the kernel's, "0000:3b:00.0".
func canonical(address string) (string, error) {
	parts := busID.FindStringSubmatch(strings.ToLower(address))
	if parts == nil {
		return "", fmt.Errorf("%q is no PCI address", address)
	}
	domain := strings.TrimLeft(parts[1], "0")
	return strings.Repeat("0", max(4-len(domain), 0)) + domain + ":" + parts[2], nil
}

var (
	listedGPU      = regexp.MustCompile(`^GPU \d+: .*\(UUID: (GPU-[0-9a-f-]+)\)$`)
	listedInstance = regexp.MustCompile(`^\s+MIG (\S+)\s+Device\s+(\d+): \(UUID: (MIG-[0-9A-Za-z/-]+)\)$`)
)

// AddList adds to an inventory what only `nvidia-smi -L` prints: UUIDs and profiles of MIG instances, matched by their order. Those of a GPU
// of which the two answers differ in number stay without: instances were made or unmade in between, and the next inventory has them.
func (inv *Inventory) AddList(text []byte) {
	instances := make(map[string][]Instance) // by the GPU's UUID
	var uuid string
	for line := range strings.Lines(string(text)) {
		line = strings.TrimRight(line, " \r\n")
		if parts := listedGPU.FindStringSubmatch(line); parts != nil {
			uuid = parts[1]
		} else if parts := listedInstance.FindStringSubmatch(line); parts != nil {
			instances[uuid] = append(instances[uuid], Instance{Profile: parts[1], UUID: parts[3]})
		}
	}
	for i := range inv.GPUs {
		g := &inv.GPUs[i]
		listed := instances[g.UUID]
		if len(listed) != len(g.Instances) {
			continue
		}
		for k := range listed {
			g.Instances[k].Profile, g.Instances[k].UUID = listed[k].Profile, listed[k].UUID
		}
	}
}

// linkQuality is how well a way through the machine connects, as far as it says so by a word. NVLinks are above all of them.
var linkQuality = map[string]uint8{
	"X": 0, "SYS": 10, "NODE": 20, "PHB": 30, "PXB": 40, "PIX": 50,
}

const (
	nvlinkQuality = 100 // and one more for each link
	maxNVLinks    = 99
)

var underline = regexp.MustCompile("\x1b\\[[0-9;]*m")

// AddTopology adds how the GPUs are connected, from what `nvidia-smi topo -m` printed for n GPUs in the inventory's order. A table of another
// size, or with an unknown word, adds nothing: then all are taken to be connected alike.
func (inv *Inventory) AddTopology(text []byte) {
	n := len(inv.GPUs)
	links := make([]uint8, 0, n*n)
	for line := range strings.Lines(underline.ReplaceAllString(string(text), "")) {
		fields := strings.Fields(line)
		if len(fields) <= n || fields[0] != "GPU"+strconv.Itoa(len(links)/max(n, 1)) || strings.HasPrefix(fields[1], "GPU") {
			continue
		}
		for _, word := range fields[1 : n+1] {
			quality, ok := linkQuality[word]
			if count, isNVLink := strings.CutPrefix(word, "NV"); isNVLink {
				k, err := strconv.Atoi(count)
				quality, ok = nvlinkQuality+uint8(min(max(k, 0), maxNVLinks)), err == nil
			}
			if !ok {
				return
			}
			links = append(links, quality)
		}
	}
	if n > 1 && len(links) == n*n {
		inv.Links = links
	}
}
