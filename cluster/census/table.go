package census

// table gives dense numbers to definitions, by a text that equal definitions share. A number that was given back is given out again, the
// latest first, so that the lists which the numbers index stay as short as what is in use.
type table[T any] struct {
	list []T // the zero value where the number is free
	ids  map[string]int32
	free []int32
}

func newTable[T any]() table[T] { return table[T]{ids: make(map[string]int32)} }

// used is how many numbers are in use.
func (t *table[T]) used() int { return len(t.ids) }

func (t *table[T]) find(text string) (id int32, known bool) {
	id, known = t.ids[text]
	return id, known
}

// add gives a definition a number. Its text must not be known.
func (t *table[T]) add(text string, definition T) int32 {
	id := int32(len(t.list))
	if last := len(t.free) - 1; last >= 0 {
		id = t.free[last]
		t.free = t.free[:last]
		t.list[id] = definition
	} else {
		t.list = append(t.list, definition)
	}
	t.ids[text] = id
	return id
}

// remove frees the number of a text.
func (t *table[T]) remove(text string) {
	id := t.ids[text]
	delete(t.ids, text)
	var none T
	t.list[id] = none
	t.free = append(t.free, id)
}
