package cores

// Mark is a point to which Rollback returns.
type Mark struct{ depth, length int }

// undo is what a change replaced.
type undo struct {
	id     string // whose holding has changed; empty: nobody's
	had    bool
	before Holding
	standing
}

// Mark opens the journal: until Rollback or Forget of this mark, changes can be undone. Marks nest; the outer one ends the inner ones.
func (a *Allocator) Mark() Mark {
	m := Mark{depth: a.depth, length: len(a.journal)}
	a.depth++
	return m
}

// Rollback undoes what was done since the mark, exactly; only the revision moves on, so that offers made meanwhile are not taken for current.
func (a *Allocator) Rollback(m Mark) {
	for len(a.journal) > m.length {
		last := a.journal[len(a.journal)-1]
		a.journal = a.journal[:len(a.journal)-1]
		if last.had {
			a.holdings[last.id] = last.before
		} else {
			delete(a.holdings, last.id)
		}
		a.standing = last.standing
		a.revision++
	}
	a.Forget(m)
}

// Forget ends a mark and keeps what was done since.
func (a *Allocator) Forget(m Mark) {
	a.depth = m.depth
	if a.depth == 0 {
		a.journal = nil
	}
}

// change comes before each change: of id's holding, or with an empty id of something else.
func (a *Allocator) change(id string) {
	a.revision++
	if a.depth == 0 {
		return
	}
	before, had := a.holdings[id]
	a.journal = append(a.journal, undo{id: id, had: had, before: before, standing: a.standing})
}
