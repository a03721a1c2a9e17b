package gpu

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
)

// Output is what one run of nvidia-smi printed.
type Output struct {
	Stdout []byte
	Stderr string
	Code   int // that it ended with
}

// Codes by which nvidia-smi says what is wrong, as its manual has them.
const (
	codeNoDevices = 6  // nothing was found for the query
	codeNoDriver  = 9  // the kernel module is not loaded
	codeNoLibrary = 12 // libnvidia-ml cannot be loaded
)

// SMI is the driver as nvidia-smi tells of it.
type SMI struct {
	// Run runs nvidia-smi, or finds what a run of it printed. An error is that there is no output; one that wraps ErrNoDriver, that there is
	// nothing to run.
	Run func(ctx context.Context, arguments ...string) (Output, error)
	// Proc is /proc: driver/nvidia/gpus in it names the GPUs that the kernel module knows, even those that nvidia-smi stumbles over.
	Proc fs.FS

	links    []uint8 // of the GPUs in linksOf: they do not change while those are there
	linksFor []string
}

// Inventory asks for everything at once, and if that fails for each GPU by itself: one GPU that fell off the bus makes the whole query fail, and
// must not close the others.
func (s *SMI) Inventory(ctx context.Context) (*Inventory, error) {
	out, err := s.Run(ctx, "-q", "-x")
	if err != nil {
		return nil, err
	}
	if out.Code == codeNoDriver || out.Code == codeNoLibrary {
		return nil, fmt.Errorf("%w: %s", ErrNoDriver, out.says())
	}
	inv, err := ParseQuery(out.Stdout)
	if err != nil { // whatever the code: some are warnings beside a whole answer
		if inv, err = s.oneByOne(ctx, out, err); err != nil {
			return nil, err
		}
	}
	s.addInstances(ctx, inv)
	s.addLinks(ctx, inv)
	return inv, nil
}

// oneByOne asks for each GPU that the kernel module knows. It fails where it knows none, or none answers: that says nothing of any one GPU.
func (s *SMI) oneByOne(ctx context.Context, all Output, failed error) (*Inventory, error) {
	if all.Code != 0 {
		failed = fmt.Errorf("nvidia-smi ended with %d: %s", all.Code, all.says())
	}
	entries, err := fs.ReadDir(s.Proc, "driver/nvidia/gpus")
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%w: %w", ErrNoDriver, failed)
	}
	if err != nil {
		return nil, errors.Join(failed, err)
	}
	if len(entries) == 0 && all.Code == codeNoDevices {
		return &Inventory{}, nil
	}
	inv := &Inventory{}
	answered := false
	for _, entry := range entries {
		address, err := canonical(entry.Name())
		if err != nil {
			continue
		}
		g := GPU{Address: address}
		out, err := s.Run(ctx, "-q", "-x", "-i", address)
		if err != nil {
			return nil, err
		}
		one, err := ParseQuery(out.Stdout)
		if err == nil && len(one.GPUs) == 1 && one.GPUs[0].Address == address {
			g, inv.Version, answered = one.GPUs[0], one.Version, true
		} else {
			g.Lost = out.says()
		}
		inv.GPUs = append(inv.GPUs, g)
	}
	if !answered {
		return nil, failed
	}
	return inv, nil
}

// addInstances names the MIG instances. If that fails, they have no UUID, and none is given.
func (s *SMI) addInstances(ctx context.Context, inv *Inventory) {
	if !slices.ContainsFunc(inv.GPUs, func(g GPU) bool { return len(g.Instances) > 0 }) {
		return
	}
	if out, err := s.Run(ctx, "-L"); err == nil {
		inv.AddList(out.Stdout)
	}
}

// addLinks asks how the GPUs are connected, once for as long as they are the same. If that fails, it is asked again the next time.
func (s *SMI) addLinks(ctx context.Context, inv *Inventory) {
	var uuids []string
	for i := range inv.GPUs {
		if inv.GPUs[i].Lost != "" {
			return // the table would have fewer rows
		}
		uuids = append(uuids, inv.GPUs[i].UUID)
	}
	if len(uuids) < 2 {
		return
	}
	if s.links == nil || !slices.Equal(uuids, s.linksFor) {
		s.links, s.linksFor = nil, uuids
		if out, err := s.Run(ctx, "topo", "-m"); err == nil && out.Code == 0 {
			inv.AddTopology(out.Stdout)
			s.links = inv.Links
		}
	}
	inv.Links = s.links
}

// says is the last line that was printed, which is where nvidia-smi says what is wrong.
func (o *Output) says() string {
	const most = 200
	text := strings.TrimSpace(o.Stderr)
	if text == "" {
		text = strings.TrimSpace(string(o.Stdout))
	}
	text = text[strings.LastIndexByte(text, '\n')+1:]
	return text[:min(len(text), most)]
}
