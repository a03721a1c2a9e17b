package topology

import (
	"fmt"
	"math/bits"
	"strconv"
	"strings"
)

// GPUText renders the GPUs of a grant as the Binding's annotation has them: whole ones "0,3"; a part "2:250/10240Mi" (thousandths of compute, and
// memory), by accounting, or "2:250/10240Mi/soft"; a MIG instance by its index "2:mig-3". Empty: none.
func (g *Grant) GPUText() string {
	part := ""
	switch {
	case g.Instance > 0:
		part = ":mig-" + strconv.Itoa(int(g.Instance-1))
	case g.GPUs != 0 && !g.isWhole():
		part = ":" + strconv.Itoa(int(g.Milli))
		if g.Memory > 0 {
			part += "/" + strconv.FormatUint(uint64(g.Memory), 10) + "Mi"
		}
		if g.Isolation == Soft {
			part += "/" + Soft.String()
		}
	}
	return indices(g.GPUs, part)
}

// NICText renders the network cards of a grant as the Binding's annotation has them: "1", with bandwidth in Mbit/s "1:25000", with a virtual
// function "1:vf", with both "1:25000/vf". Empty: none.
func (g *Grant) NICText() string {
	part := ""
	switch {
	case g.NIC.Bandwidth > 0:
		part = ":" + strconv.FormatUint(uint64(g.NIC.Bandwidth), 10)
		if g.NIC.Function {
			part += "/vf"
		}
	case g.NIC.Function:
		part = ":vf"
	}
	return indices(g.NICs, part)
}

func indices(set uint16, part string) string {
	var b strings.Builder
	for ; set != 0; set &= set - 1 {
		if b.Len() > 0 {
			b.WriteByte(',')
		}
		b.WriteString(strconv.Itoa(bits.TrailingZeros16(set)))
		b.WriteString(part)
	}
	return b.String()
}

// ParseGPUs reads what GPUText wrote into the grant, and leaves its network cards and NUMA nodes. The compute and memory of a MIG instance are not in it:
// see Devices.Complete. r is what the pod asks for, and the grant must answer it; nil: it is not known. An index alone, where a part was asked for,
// is how older Bindings wrote it, and is given as it was asked for. On an error the grant is unchanged.
func (g *Grant) ParseGPUs(text string, r *Request) error {
	var out Grant
	var first string
	set, err := parseIndices(text, "GPU", MaxGPUs, &first)
	if err != nil {
		return err
	}
	out.GPUs = set
	if err := out.parsePart(first); err != nil {
		return fmt.Errorf("GPUs %q: %w", text, err)
	}
	if !out.isWhole() && set&(set-1) != 0 {
		return fmt.Errorf("GPUs %q: a part of several GPUs; want one", text)
	}
	if r != nil {
		if first == "" && r.Milli > 0 && set&(set-1) == 0 {
			out.Milli, out.Memory, out.Isolation = r.Milli, r.Memory, max(r.Isolation, Accounting)
		}
		asked := Request{Milli: r.Milli, Whole: r.Whole, Memory: r.Memory, Isolation: r.Isolation}
		if !out.Answers(&asked) {
			return fmt.Errorf("GPUs %q: the pod asks for something else", text)
		}
	}
	if r != nil {
		out = out.For(r.Tenant)
	}
	out.NICs, out.NIC, out.NUMANodes = g.NICs, g.NIC, g.NUMANodes
	*g = out
	return nil
}

// parsePart reads what stands behind the colon.
func (g *Grant) parsePart(text string) error {
	if text == "" {
		g.Milli = FullGPU
		return nil
	}
	if index, ok := strings.CutPrefix(text, "mig-"); ok {
		k, err := strconv.ParseUint(index, 10, 8)
		if err != nil || k >= MaxInstances {
			return fmt.Errorf("%q: want a MIG instance from mig-0 to mig-%d", text, MaxInstances-1)
		}
		g.Instance, g.Isolation = int8(k+1), Hard
		return nil
	}
	g.Isolation = Accounting
	rest, soft := strings.CutSuffix(text, "/"+Soft.String())
	if soft {
		g.Isolation = Soft
	}
	compute, memory, said := strings.Cut(rest, "/")
	milli, err := strconv.ParseUint(compute, 10, 16)
	if err != nil || milli == 0 || milli > FullGPU {
		return fmt.Errorf("%q: want thousandths from 1 to %d, mig-INDEX, or nothing", compute, FullGPU)
	}
	g.Milli = int16(milli)
	if !said {
		return nil
	}
	m, err := strconv.ParseUint(strings.TrimSuffix(memory, "Mi"), 10, 32)
	if err != nil || !strings.HasSuffix(memory, "Mi") || m == 0 || m > MaxAmount {
		return fmt.Errorf("%q is no amount of memory; want for example 10240Mi", memory)
	}
	g.Memory = uint32(m)
	return nil
}

// ParseNICs reads what NICText wrote into the grant, and leaves its GPUs and NUMA nodes. r is what the pod asks for, and the grant must answer it; nil:
// it is not known. On an error the grant is unchanged.
func (g *Grant) ParseNICs(text string, r *NICRequest) error {
	var part string
	set, err := parseIndices(text, "network card", MaxNICs, &part)
	if err != nil {
		return err
	}
	var nic NICGrant
	amount := part
	if part == "vf" {
		nic.Function, amount = true, ""
	} else if rest, ok := strings.CutSuffix(part, "/vf"); ok {
		nic.Function, amount = true, rest
	}
	if amount != "" || part != "" && part != "vf" {
		b, err := strconv.ParseUint(amount, 10, 32)
		if err != nil || b == 0 || b > MaxAmount {
			return fmt.Errorf("network cards %q: %q: want Mbit/s, vf, or both as in 25000/vf", text, part)
		}
		nic.Bandwidth = uint32(b)
	}
	if r != nil && (bits.OnesCount16(set) != int(r.Count) || nic != NICGrant{r.Bandwidth, r.Function}) {
		return fmt.Errorf("network cards %q: the pod asks for something else", text)
	}
	g.NICs, g.NIC = set, nic
	return nil
}

// parseIndices reads "0:PART,3:PART". The part must be the same everywhere.
func parseIndices(text, what string, most int, part *string) (set uint16, err error) {
	for field := range strings.SplitSeq(text, ",") {
		number, amounts, said := strings.Cut(strings.TrimSpace(field), ":")
		index, err := strconv.ParseUint(number, 10, 8)
		switch {
		case err != nil || int(index) >= most || said && amounts == "":
			return 0, fmt.Errorf("%ss %q: %q: want INDEX or INDEX:AMOUNTS, with an index from 0 to %d", what, text, field, most-1)
		case set&(1<<index) != 0:
			return 0, fmt.Errorf("%ss %q: %s %d stands twice", what, text, what, index)
		case set != 0 && amounts != *part:
			return 0, fmt.Errorf("%ss %q: amounts differ", what, text)
		}
		set |= 1 << index
		*part = amounts
	}
	return set, nil
}
