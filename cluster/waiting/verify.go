package waiting

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"hilbert.dev/hilbert/cluster/facts"
)

// Verify holds the Bound against the pods that are taken in, and those that are held back. It works out from them alone whether there is room for any, and
// returns the first difference.
func (b *Bound) Verify(pods, held []Pod) error {
	taken := make(map[string]map[Key]takenClass)
	for i := range pods {
		p := &pods[i]
		if taken[p.Namespace] == nil {
			taken[p.Namespace] = make(map[Key]takenClass)
		}
		taken[p.Namespace][p.Class] = takenClass{taken[p.Namespace][p.Class].pods + 1, b.weight(p.Terms)}
	}
	for name, classes := range taken {
		if err := b.verifyTaken(name, classes); err != nil {
			return err
		}
	}
	if len(held) != len(b.held) {
		return fmt.Errorf("%d pods are held back, known are %d", len(held), len(b.held))
	}
	slices.SortFunc(held, func(p, q Pod) int {
		return cmp.Or(strings.Compare(p.Namespace, q.Namespace), cmp.Compare(p.Created, q.Created), strings.Compare(string(p.UID), string(q.UID)))
	})
	spaces := make(map[string]bool)
	for name := range taken {
		spaces[name] = true
	}
	for i := range held {
		p := &held[i]
		spaces[p.Namespace] = true
		if known := b.held[p.UID]; known == nil || known.Pod != *p {
			return fmt.Errorf("pod %s is held back as %+v, known is %+v", p.UID, *p, known)
		}
	}
	crowded := make(map[string]bool)
	for i := range held {
		crowded[held[i].Namespace] = true
	}
	if len(crowded) != b.crowded {
		return fmt.Errorf("pods are held back in %d namespaces, counted are %d", len(crowded), b.crowded)
	}
	if len(spaces) != len(b.namespaces) {
		return fmt.Errorf("pods wait in %d namespaces, known are %d", len(spaces), len(b.namespaces))
	}
	if b.Due() {
		return nil // there may be room, and Next is still to be asked
	}
	return b.verifyRoom(taken, held)
}

func (b *Bound) verifyTaken(name string, classes map[Key]takenClass) error {
	n := b.namespaces[name]
	if len(classes) > b.most {
		return fmt.Errorf("%d classes of namespace %s wait, at most %d may", len(classes), name, b.most)
	}
	if n == nil || len(n.taken) != len(classes) || n.sum != sum(classes) {
		return fmt.Errorf("%d classes of namespace %s wait, of weight %d, it is known as %+v", len(classes), name, sum(classes), n)
	}
	for class, of := range classes {
		if n.taken[class] != of {
			return fmt.Errorf("of class %x wait %+v in namespace %s, counted are %+v", class, of, name, n.taken[class])
		}
	}
	return nil
}

func sum(classes map[Key]takenClass) (sum int) {
	for _, c := range classes {
		sum += c.weight
	}
	return sum
}

// verifyRoom looks for a pod that is held back though it could be taken in. The pods are in order of their namespaces and of their age.
func (b *Bound) verifyRoom(taken map[string]map[Key]takenClass, held []Pod) error {
	type group struct {
		gang  string
		class Key
	}
	blocked := make(map[string]facts.UID) // by namespace: the oldest for which there is no room
	seen := make(map[string]map[group]bool)
	gangs := make(map[facts.UnitName]map[Key]int) // the weights of their classes
	for i := range held {
		if p := &held[i]; p.Gang != "" {
			name := facts.UnitName{Namespace: p.Namespace, Name: p.Gang}
			if gangs[name] == nil {
				gangs[name] = make(map[Key]int)
			}
			gangs[name][p.Class] = b.weight(p.Terms)
		}
	}
	for i := range held {
		p := &held[i]
		own := map[Key]int{p.Class: b.weight(p.Terms)}
		g := group{class: p.Class}
		if p.Gang != "" {
			g, own = group{gang: p.Gang}, gangs[facts.UnitName{Namespace: p.Namespace, Name: p.Gang}]
		}
		if seen[p.Namespace] == nil {
			seen[p.Namespace] = make(map[group]bool)
		}
		if seen[p.Namespace][g] || len(own) > b.most {
			continue
		}
		seen[p.Namespace][g] = true
		classes, fresh := taken[p.Namespace], 0
		for class, weight := range own {
			if classes[class].pods == 0 {
				fresh += weight
			}
		}
		switch _, waits := blocked[p.Namespace]; {
		case fresh == 0:
			return fmt.Errorf("pod %s is held back, though it brings no class", p.UID)
		case !waits && (len(classes) == 0 || sum(classes)+fresh <= b.most):
			return fmt.Errorf("pod %s is held back, though %d of %d classes wait in namespace %s and it brings %d", p.UID, sum(classes), b.most, p.Namespace, fresh)
		case !waits:
			blocked[p.Namespace] = p.UID
		}
	}
	return nil
}
