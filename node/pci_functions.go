package node

import (
	"fmt"
	"maps"
	"math/bits"
	"slices"
	"strings"

	"hilbert.dev/hilbert/node/cdi"
	"hilbert.dev/hilbert/topology"
)

// CardFunctions are the PCI functions of a network card, with their device files.
type CardFunctions struct {
	Card    cdi.Function
	Virtual []cdi.Function // in the card's order
}

// functionsOf are the functions of a pod's cards that have device files to inject. A virtual function is the pod's own for as long as the pod is
// known, and is on disk before a container gets it.
func (a *Agent) functionsOf(uid string, g *topology.Grant) (out []cdi.Function, err error) {
	d := &a.devices
	for set := g.NICs; set != 0; set &= set - 1 {
		i := bits.TrailingZeros16(set)
		if i >= len(d.numbers.Cards) {
			return nil, fmt.Errorf("network card %d: there are %d", i, len(d.numbers.Cards))
		}
		address := d.numbers.Cards[i]
		if why := d.last.FunctionsUnknown[address]; why != "" {
			return nil, fmt.Errorf("network card %d: %s", i, why)
		}
		card := d.last.Functions[address]
		f := card.Card
		if g.NIC.Function {
			if f, err = a.functionOf(uid, i, &card); err != nil {
				return nil, fmt.Errorf("network card %d at %s: %w", i, address, err)
			}
		}
		if len(f.Files) > 0 {
			out = append(out, f)
		}
	}
	return out, nil
}

// functionOf is the virtual function of card i that a pod has, or the first that is free. The zero Function: there is nothing to inject, because an
// interface is the network plugin's to move.
func (a *Agent) functionOf(uid string, i int, card *CardFunctions) (f cdi.Function, err error) {
	own := a.devices.numbers.Functions[uid]
	if at := slices.IndexFunc(card.Virtual, func(f cdi.Function) bool { return slices.Contains(own, f.Address) }); at >= 0 {
		return card.Virtual[at], nil
	}
	if !slices.ContainsFunc(card.Virtual, func(f cdi.Function) bool { return len(f.Files) > 0 }) {
		return f, nil
	}
	taken, err := a.takenFiles(uid, i, card)
	if err != nil {
		return f, err
	}
	free := slices.IndexFunc(card.Virtual, func(f cdi.Function) bool {
		return len(f.Files) > 0 && !slices.ContainsFunc(f.Alone(), func(file string) bool { return taken[file] })
	})
	if free < 0 {
		return f, fmt.Errorf("none of its %d virtual functions has device files that no other pod has", len(card.Virtual))
	}
	return card.Virtual[free], a.keepFunction(uid, card.Virtual[free].Address)
}

// takenFiles are the device files of a card's virtual functions that other pods have. The error is a pod of which nobody knows which function it has.
func (a *Agent) takenFiles(but string, i int, card *CardFunctions) (map[string]bool, error) {
	taken := make(map[string]bool)
	for _, h := range a.manager.HeldDevices() {
		if h.UID == but || !h.Grant.NIC.Function || h.Grant.NICs&(1<<i) == 0 {
			continue
		}
		known := false
		for _, f := range card.Virtual {
			if !slices.Contains(a.devices.numbers.Functions[h.UID], f.Address) {
				continue
			}
			known = true
			for _, file := range f.Alone() {
				taken[file] = true
			}
		}
		if p := a.pods[h.UID]; !known && p != nil && len(p.containers) > 0 {
			return nil, fmt.Errorf("it is not known which of its functions %s/%s has", h.Namespace, h.Name)
		}
	}
	return taken, nil
}

// keepFunction gives a pod a function, on disk.
func (a *Agent) keepFunction(uid, address string) error {
	d := &a.devices
	d.noteFunction(uid, address)
	a.saveDeviceNumbers()
	if d.saveErr != nil {
		own := d.numbers.Functions[uid]
		d.numbers.Functions[uid] = own[:len(own)-1]
	}
	return d.saveErr
}

func (d *devices) noteFunction(uid, address string) {
	if d.numbers.Functions == nil {
		d.numbers.Functions = make(map[string][]string)
	}
	d.numbers.Functions[uid] = append(d.numbers.Functions[uid], address)
}

// recallFunctions notes which functions a pod has, as far as the runtime tells of the CDI devices of what runs.
func (a *Agent) recallFunctions(uid string, devices []string) {
	d := &a.devices
	for _, name := range devices {
		address, ours := strings.CutPrefix(name, cdi.CardKind+"=")
		if own := d.numbers.Functions[uid]; ours && !slices.Contains(own, address) && len(own) < 2*topology.MaxNICs {
			d.noteFunction(uid, address)
		}
	}
}

// forgetFunctions frees the functions of pods that are gone.
func (d *devices) forgetFunctions(pods []string) {
	maps.DeleteFunc(d.numbers.Functions, func(uid string, _ []string) bool {
		_, here := slices.BinarySearch(pods, uid)
		return !here
	})
}
