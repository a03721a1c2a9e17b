package changes_test

import (
	"slices"
	"testing"

	"pgregory.net/rapid"

	"hilbert.dev/hilbert/cluster/changes"
)

type thing struct {
	id   int
	last changes.Revision
}

// reader follows a log of things, and knows what it should be told.
type reader struct {
	cursor changes.Revision
	missed []int // what changed since it last read, in order, each once
}

// expect takes note that a thing changed.
func (r *reader) expect(id int) {
	if !slices.Contains(r.missed, id) {
		r.missed = append(r.missed, id)
	}
}

// read holds what the log says against what changed. alone says that nobody else reads.
func (r *reader) read(t *rapid.T, log *changes.Things[*thing], alone bool) {
	list, complete := log.Since(&r.cursor, nil)
	if alone && !complete {
		t.Fatal("the only reader cannot read on")
	}
	var ids []int
	for _, changed := range list {
		if !slices.Contains(ids, changed.id) {
			ids = append(ids, changed.id)
		}
	}
	if alone && len(ids) != len(list) {
		t.Fatalf("%d entries name %d things", len(list), len(ids))
	}
	if complete && !slices.Equal(ids, r.missed) {
		t.Fatalf("read %v, changed have %v", ids, r.missed)
	}
	r.missed = nil
}

// TestThings notes random things and lets readers read or skip at random times. A reader whose read is complete learns of exactly those things
// that changed since its last one, each once if nobody else has read in between, in the order of the first change.
func TestThings(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var log changes.Things[*thing]
		things := make([]*thing, rapid.IntRange(1, 2*changes.Kept).Draw(t, "things"))
		for i := range things {
			things[i] = &thing{id: i}
		}
		readers := make([]reader, rapid.IntRange(1, 3).Draw(t, "readers"))
		note := func(from, many int) {
			for _, changed := range things[from:min(len(things), from+many)] {
				log.Note(changed, &changed.last)
				for i := range readers {
					readers[i].expect(changed.id)
				}
			}
		}
		for range rapid.IntRange(1, 30).Draw(t, "steps") {
			r := &readers[rapid.IntRange(0, len(readers)-1).Draw(t, "reader")]
			switch rapid.IntRange(0, 3).Draw(t, "what") {
			case 0:
				log.Skip(&r.cursor)
				r.missed = nil
			case 1:
				r.read(t, &log, len(readers) == 1)
			default:
				note(rapid.IntRange(0, len(things)-1).Draw(t, "from"), rapid.SampledFrom([]int{1, 3, changes.Kept}).Draw(t, "many"))
			}
		}
	})
}

// TestSlowReader: a reader that has missed entries is told so, and can read on from there.
func TestSlowReader(t *testing.T) {
	var log changes.Things[*thing]
	var slow, quick changes.Revision
	for i := range 2 * changes.Kept {
		changed := &thing{id: i}
		log.Note(changed, &changed.last)
	}
	log.Skip(&quick) // from here on the log may forget
	if list, complete := log.Since(&slow, nil); complete || len(list) > 0 {
		t.Fatalf("%d entries, complete: %v", len(list), complete)
	}
	late := &thing{id: -1}
	log.Note(late, &late.last)
	if list, complete := log.Since(&slow, nil); !complete || len(list) != 1 || list[0] != late {
		t.Fatalf("%d entries after it, complete: %v", len(list), complete)
	}
}

// TestLog follows the ring beyond its capacity: a cursor is covered while its next entry is remembered, and then reads every change in order.
func TestLog(t *testing.T) {
	var log changes.Log
	change := func(i int) changes.Change { return changes.Change{Slot: changes.Slot(i), Kind: changes.Charged} }
	for i := range changes.Capacity + 10 {
		log.Append(change(i))
	}
	if log.Covers(9) || !log.Covers(10) || log.Covers(log.Len()+1) {
		t.Errorf("covers 9: %v, 10: %v, the future: %v", log.Covers(9), log.Covers(10), log.Covers(log.Len()+1))
	}
	for r := changes.Revision(10); r < log.Len(); r++ {
		if log.At(r) != change(int(r)) {
			t.Fatalf("entry %d is %+v", r, log.At(r))
		}
	}
	before := log.Len()
	log.Forget()
	if log.Covers(before) || !log.Covers(log.Len()) {
		t.Error("a reader may read on after the log has forgotten what it has not read")
	}
}
