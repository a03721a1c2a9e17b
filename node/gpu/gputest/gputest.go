// Package gputest is a driver for tests: it has the GPUs that a script gives it, and what befalls them is a line of a script.
//
// Data flow: Do takes a line such as "xid 0000:3b:00.0 79", and the next Inventory, or the next Observation made from it, shows what came of
// it. Invariants: an inventory is a copy that the fake never touches again, so a test may keep those of before; a line that the fake does not
// understand fails the test, because a fault that was never made would prove nothing.
//
// It knows nothing of what must follow: that is for the test to say. No product package imports it.
package gputest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"hilbert.dev/hilbert/node/gpu"
)

// Driver is a driver that does as it is told. It is not for several goroutines at once.
type Driver struct {
	t     testing.TB
	gpus  []gpu.GPU
	links []uint8
	away  error
	boot  int
	clock time.Duration
	xids  []gpu.Xid
}

// New is a driver without GPUs.
func New(t testing.TB) *Driver { return &Driver{t: t, boot: 1} }

// errHangs is a driver that gives no answer.
var errHangs = errors.New("nvidia-smi gives no answer")

// Inventory is what is there now.
func (d *Driver) Inventory(context.Context) (*gpu.Inventory, error) {
	if d.away != nil {
		return nil, d.away
	}
	inv := &gpu.Inventory{Version: "590.44.01", Links: slices.Clone(d.links)}
	for _, g := range d.gpus {
		g.Instances, g.Processes = slices.Clone(g.Instances), slices.Clone(g.Processes)
		inv.GPUs = append(inv.GPUs, g)
	}
	return inv, nil
}

// Observation is what an agent sees now, without what only it can know.
func (d *Driver) Observation() gpu.Observation {
	o := gpu.Observation{Boot: strconv.Itoa(d.boot), Xids: slices.Clone(d.xids)}
	var err error
	if o.Inventory, err = d.Inventory(d.t.Context()); err != nil {
		o.Why, o.Gone = err.Error(), errors.Is(err, gpu.ErrNoDriver)
	}
	return o
}

// Do makes one thing happen:
//
//	add ADDRESS [uuid=U] [memory=MiB] [model=M] [arch=A] [compute=MODE] [mig]    a GPU is there
//	remove ADDRESS                  it is not
//	uuid ADDRESS U                  it shows another UUID; "-" for none
//	lose ADDRESS                    it falls off the bus
//	health ADDRESS WORD...          recovery=Reset, uncorrected, pending, failed, or well
//	compute ADDRESS MODE            its compute mode is another
//	memory ADDRESS MiB              its memory is another; 0: the driver does not say
//	mig ADDRESS on|off|changing     its MIG mode
//	instance ADDRESS U PROFILE GI SM MiB    a MIG instance is made
//	unmake ADDRESS U                and unmade
//	compute-on ADDRESS PID NAME     a process computes on it
//	quiet ADDRESS                   and none does any more
//	xid ADDRESS CODE                the kernel's log tells of a fault
//	links N...                      how they are connected; without numbers: it does not say
//	unload                          the kernel module is not there
//	hang                            it gives no answer
//	load                            it is there and answers
//	reboot                          the kernel starts again, with an empty log
func (d *Driver) Do(line string) {
	d.t.Helper()
	fields := strings.Fields(line)
	if len(fields) == 0 {
		return
	}
	if err := d.do(fields[0], fields[1:]); err != nil {
		d.t.Fatalf("%s: %v", line, err)
	}
}

func (d *Driver) do(what string, args []string) error {
	switch what {
	case "unload":
		d.away = fmt.Errorf("%w: the module is not loaded", gpu.ErrNoDriver)
	case "hang":
		d.away = errHangs
	case "load":
		d.away = nil
	case "reboot":
		d.boot, d.xids, d.clock = d.boot+1, nil, 0
	case "links":
		d.links = nil
		for _, word := range args {
			n, err := strconv.ParseUint(word, 10, 8)
			if err != nil {
				return err
			}
			d.links = append(d.links, uint8(n))
		}
	default:
		if len(args) == 0 {
			return errors.New("want an address")
		}
		return d.one(what, args[0], args[1:])
	}
	return nil
}

// one does something to one GPU.
func (d *Driver) one(what, address string, args []string) error {
	switch what {
	case "add":
		return d.add(address, args)
	case "xid":
		code, err := number(args, 0)
		d.clock += time.Second
		d.xids = append(d.xids, gpu.Xid{Address: address, Code: code, At: d.clock})
		return err
	}
	i := slices.IndexFunc(d.gpus, func(g gpu.GPU) bool { return g.Address == address })
	if i < 0 {
		return errors.New("there is no such GPU")
	}
	g := &d.gpus[i]
	switch what {
	case "remove":
		d.gpus = slices.Delete(d.gpus, i, i+1)
	case "lose":
		*g = gpu.GPU{Address: address, Lost: "GPU is lost"}
	case "health":
		return health(&g.Health, args)
	case "memory":
		n, err := number(args, 0)
		g.Memory = uint32(n)
		return err
	case "instance":
		return instance(g, args)
	case "compute-on":
		if len(args) != 2 {
			return errors.New("want a PID and a name")
		}
		pid, err := number(args, 0)
		g.Processes = append(g.Processes, gpu.Process{PID: pid, Name: args[1]})
		return err
	case "quiet":
		g.Processes = nil
	default:
		if len(args) != 1 {
			return errors.New("want one word more")
		}
		return word(g, what, args[0])
	}
	return nil
}

// word changes what one word says.
func word(g *gpu.GPU, what, to string) error {
	switch what {
	case "uuid":
		g.UUID = strings.TrimPrefix(to, "-")
	case "compute":
		g.Compute = gpu.ComputeMode(to)
	case "mig":
		mode, ok := map[string]gpu.MIGMode{"on": gpu.MIGOn, "off": gpu.MIGOff, "changing": gpu.MIGChanging}[to]
		if !ok {
			return errors.New("want on, off or changing")
		}
		g.MIG = mode
	case "unmake":
		g.Instances = slices.DeleteFunc(g.Instances, func(in gpu.Instance) bool { return in.UUID == to })
	default:
		return errors.New("nothing of that name can happen")
	}
	return nil
}

func (d *Driver) add(address string, args []string) error {
	g := gpu.GPU{
		Address: address, UUID: "GPU-" + address, Model: "NVIDIA A100-SXM4-40GB", Architecture: "Ampere", Memory: 40_000,
		Node: "/dev/nvidia" + strconv.Itoa(len(d.gpus)), Compute: gpu.ComputeDefault, MIG: gpu.MIGOff, Health: gpu.Health{Recovery: "None"},
	}
	for _, arg := range args {
		key, value, _ := strings.Cut(arg, "=")
		switch key {
		case "uuid":
			g.UUID = value
		case "model":
			g.Model = value
		case "arch":
			g.Architecture = value
		case "compute":
			g.Compute = gpu.ComputeMode(value)
		case "mig":
			g.MIG = gpu.MIGOn
		case "memory":
			n, err := number([]string{value}, 0)
			if err != nil {
				return err
			}
			g.Memory = uint32(n)
		default:
			return fmt.Errorf("%q is nothing that a GPU has", key)
		}
	}
	d.gpus = append(d.gpus, g)
	slices.SortFunc(d.gpus, func(a, b gpu.GPU) int { return cmp.Compare(a.Address, b.Address) })
	return nil
}

func health(h *gpu.Health, words []string) error {
	*h = gpu.Health{Recovery: "None"}
	for _, word := range words {
		key, value, _ := strings.Cut(word, "=")
		switch key {
		case "well":
		case "unknown":
			h.Recovery = ""
		case "recovery":
			h.Recovery = value
		case "uncorrected":
			h.Uncorrected = gpu.Yes
		case "pending":
			h.RepairPending = gpu.Yes
		case "failed":
			h.RepairFailed = gpu.Yes
		default:
			return fmt.Errorf("%q is no fault", word)
		}
	}
	return nil
}

func instance(g *gpu.GPU, args []string) error {
	if len(args) != 5 {
		return errors.New("want UUID, profile, GPU instance, multiprocessors, MiB")
	}
	gi, err1 := number(args, 2)
	sm, err2 := number(args, 3)
	memory, err3 := number(args, 4)
	g.Instances = append(g.Instances, gpu.Instance{
		UUID: strings.TrimPrefix(args[0], "-"), Profile: args[1], GI: gi, Multiprocessors: uint16(sm), Memory: uint32(memory),
	})
	return errors.Join(err1, err2, err3)
}

func number(args []string, i int) (int, error) {
	if len(args) <= i {
		return 0, errors.New("want a number")
	}
	n, err := strconv.ParseUint(args[i], 10, 31)
	return int(n), err
}
