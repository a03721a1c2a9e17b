package devices

import (
	"fmt"
	"math/bits"
	"slices"

	"hilbert.dev/hilbert/node/cdi"
	"hilbert.dev/hilbert/topology"
)

// CardFunctions are the PCI functions of a network card, with their device files.
type CardFunctions struct {
	Card    cdi.Function
	Virtual []cdi.Function // in the card's order
}

// functionsOf are the functions of a pod's cards that have device files to inject. A virtual function is the pod's own for as long as the pod is
// known.
func (j *Injector) functionsOf(uid string, g *topology.Grant) (out []cdi.Function, err error) {
	for set := g.NICs; set != 0; set &= set - 1 {
		i := bits.TrailingZeros16(set)
		if i >= len(j.devices.numbers.known.Cards) {
			return nil, fmt.Errorf("network card %d: there are %d", i, len(j.devices.numbers.known.Cards))
		}
		address := j.devices.numbers.known.Cards[i]
		if why := j.devices.last.FunctionsUnknown[address]; why != "" {
			return nil, fmt.Errorf("network card %d: %s", i, why)
		}
		card := j.devices.last.Functions[address]
		f := card.Card
		if g.NIC.Function {
			if f, err = j.functionOf(uid, i, &card); err != nil {
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
func (j *Injector) functionOf(uid string, i int, card *CardFunctions) (f cdi.Function, err error) {
	own := j.devices.numbers.known.Functions[uid]
	if at := slices.IndexFunc(card.Virtual, func(f cdi.Function) bool { return slices.Contains(own, f.Address) }); at >= 0 {
		return card.Virtual[at], nil
	}
	if !slices.ContainsFunc(card.Virtual, func(f cdi.Function) bool { return len(f.Files) > 0 }) {
		return f, nil
	}
	taken, err := j.takenFiles(uid, i, card)
	if err != nil {
		return f, err
	}
	free := slices.IndexFunc(card.Virtual, func(f cdi.Function) bool {
		return len(f.Files) > 0 && !slices.ContainsFunc(f.Alone(), func(file string) bool { return taken[file] })
	})
	if free < 0 {
		return f, fmt.Errorf("none of its %d virtual functions has device files that no other pod has", len(card.Virtual))
	}
	return card.Virtual[free], j.keepFunction(uid, card.Virtual[free].Address)
}

// takenFiles are the device files of a card's virtual functions that other pods have. The error names a pod whose function is not known.
func (j *Injector) takenFiles(but string, i int, card *CardFunctions) (map[string]bool, error) {
	taken := make(map[string]bool)
	for _, h := range j.node.Manager.Devices.Held() {
		if h.UID == but || !h.Grant.NIC.Function || h.Grant.NICs&(1<<i) == 0 {
			continue
		}
		known := false
		for _, f := range card.Virtual {
			if !slices.Contains(j.devices.numbers.known.Functions[h.UID], f.Address) {
				continue
			}
			known = true
			for _, file := range f.Alone() {
				taken[file] = true
			}
		}
		if p := j.node.Pods.Of(h.UID); !known && p != nil && len(p.Containers) > 0 {
			return nil, fmt.Errorf("it is not known which of its functions %s/%s has", h.Namespace, h.Name)
		}
	}
	return taken, nil
}

// keepFunction gives a pod a function. No answer waits for the disk: the container says itself which function it has (see mark), and so the runtime does
// after a restart. On a disk that refuses what is to be kept none is given.
func (j *Injector) keepFunction(uid, address string) error {
	numbers := j.devices.numbers
	if numbers.err != nil {
		return numbers.err
	}
	numbers.noteFunction(uid, address)
	numbers.save(j.node.Now())
	return nil
}
