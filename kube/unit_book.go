package kube

import (
	"cmp"
	"log/slog"
	"maps"
	"slices"
	"sync"

	"hilbert.dev/hilbert/cluster/facts"
	"hilbert.dev/hilbert/kube/parse"
)

// unitBook makes one set of units of the PodGroups of several APIs, which the ledger tells apart by namespace and name only. Where two
// have the same name, that of the first API, the API server's own, counts. It sends nothing before each API has sent its list.
type unitBook struct {
	mu     sync.Mutex
	out    receiver
	warner parse.Warner
	pages  [2]map[facts.UnitName]*facts.Unit // by API, nil before its first list
}

func newUnitBook(out receiver, log *slog.Logger) *unitBook {
	return &unitBook{out: out, warner: parse.Warner{Log: log}}
}

// page is where one API tells its units.
func (b *unitBook) page(api int) receiver { return bookPage{b, api} }

type bookPage struct {
	book *unitBook
	api  int
}

func (p bookPage) send(event facts.Event) error {
	b := p.book
	b.mu.Lock()
	defer b.mu.Unlock()
	page := &b.pages[p.api]
	switch e := event.(type) {
	case facts.UnitsListed:
		*page = make(map[facts.UnitName]*facts.Unit, len(e.Units))
		for _, u := range e.Units {
			(*page)[u.UnitName] = u
		}
		return b.tellAll()
	case facts.UnitUpserted:
		before := b.effective(e.Unit.UnitName)
		(*page)[e.Unit.UnitName] = e.Unit
		return b.tell(e.Unit.UnitName, before)
	case facts.UnitRemoved:
		before := b.effective(e.Name)
		delete(*page, e.Name)
		return b.tell(e.Name, before)
	}
	return b.out.send(event)
}

// effective is the unit of a name, nil for none.
func (b *unitBook) effective(name facts.UnitName) *facts.Unit {
	if b.pages[0][name] != nil && b.pages[1][name] != nil {
		b.warner.Warn("podgroup "+name.String(), "two APIs have a PodGroup of that name; the one of "+parse.GroupScheduling+" counts, the other is ignored")
	}
	return cmp.Or(b.pages[0][name], b.pages[1][name])
}

func (b *unitBook) complete() bool { return b.pages[0] != nil && b.pages[1] != nil }

// tell tells what has become of a unit.
func (b *unitBook) tell(name facts.UnitName, before *facts.Unit) error {
	now := b.effective(name)
	switch {
	case !b.complete() || now == before:
		return nil
	case now == nil:
		return b.out.send(facts.UnitRemoved{Name: name})
	}
	return b.out.send(facts.UnitUpserted{Unit: now})
}

func (b *unitBook) tellAll() error {
	if !b.complete() {
		return nil
	}
	names := maps.Clone(b.pages[1])
	maps.Copy(names, b.pages[0])
	list := make([]*facts.Unit, 0, len(names))
	for name := range names {
		list = append(list, b.effective(name))
	}
	slices.SortFunc(list, func(x, y *facts.Unit) int {
		return cmp.Or(cmp.Compare(x.Namespace, y.Namespace), cmp.Compare(x.Name, y.Name))
	})
	return b.out.send(facts.UnitsListed{Units: list})
}
