package bind

// outbox is the writes that Ready hands out next. It numbers them, so that no two writes of the Binder have one number, whoever asked for them.
type outbox struct {
	writes []Write
	number uint64 // of the latest write
}

// add gives a write its ID, and returns the number by which its owner will know the answer.
func (o *outbox) add(owner Owner, w *Write) uint64 {
	o.number++
	w.ID = WriteID{owner, o.number}
	o.writes = append(o.writes, *w)
	return o.number
}
