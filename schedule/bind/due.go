package bind

// dueRows are the condition rows that may be written now. The token bucket limits the writes of a second, so the order decides which messages wait.
// The first message of a pod or gang comes before updates of earlier messages, but one write in updateShare is an update, so that what users read of
// pods that wait is not outdated for as long as others come. Within each group the queues take turns, each with its oldest row.
//
// Example: 100,000 pods of queue a fit nowhere, and at 50 writes a second their messages take half an hour. A pod of queue b that fits nowhere
// is told so by the second write.
//
// A row whose subject is gone stays where it is until its turn comes, and is skipped then. Where turns come slower than subjects go, these rows would gather, so
// they are taken out when they are more than half of all.
type dueRows struct {
	first, again turns
	firsts       int // popped in a row while updates waited
	dropped      int // at least so many rows were dropped since they were last taken out
}

// fewDropped rows are not worth being taken out.
const fewDropped = 64

// drop takes note that a row was dropped.
func (d *dueRows) drop() {
	if d.dropped++; d.dropped > fewDropped && 2*d.dropped > d.Len() {
		d.first.purge()
		d.again.purge()
		d.dropped = 0
	}
}

// updateShare: one in so many writes is an update, if there are any.
const updateShare = 4

func (d *dueRows) Len() int { return d.first.n + d.again.n }

func (d *dueRows) push(r *conditionRow) {
	if r.written.Reason == "" {
		d.first.push(r)
		return
	}
	d.again.push(r)
}

// pop takes out the next row; there must be one.
func (d *dueRows) pop() *conditionRow {
	if d.first.n > 0 && (d.again.n == 0 || d.firsts < updateShare-1) {
		if d.firsts++; d.again.n == 0 {
			d.firsts = 0
		}
		return d.first.pop()
	}
	d.firsts = 0
	return d.again.pop()
}

// turns is rows by the queue of their subject. The queues take turns.
type turns struct {
	byQueue map[string]*fifo[*conditionRow]
	order   fifo[string] // the queues that have rows
	n       int
}

func (t *turns) push(r *conditionRow) {
	rows := t.byQueue[r.queue]
	if rows == nil {
		if t.byQueue == nil {
			t.byQueue = make(map[string]*fifo[*conditionRow])
		}
		rows = &fifo[*conditionRow]{}
		t.byQueue[r.queue] = rows
		t.order.push(r.queue)
	}
	rows.push(r)
	t.n++
}

func (t *turns) pop() *conditionRow {
	name := t.order.pop()
	rows := t.byQueue[name]
	r := rows.pop()
	t.n--
	if rows.Len() > 0 {
		t.order.push(name)
	} else {
		delete(t.byQueue, name)
	}
	return r
}

// purge takes out the rows that were dropped.
func (t *turns) purge() {
	var order fifo[string]
	t.n = 0
	for _, name := range t.order.list[t.order.head:] {
		rows := t.byQueue[name]
		var kept fifo[*conditionRow] // a new list: the old one's memory comes back
		for _, r := range rows.list[rows.head:] {
			if !r.dropped {
				kept.push(r)
			}
		}
		if *rows = kept; kept.Len() == 0 {
			delete(t.byQueue, name)
			continue
		}
		order.push(name)
		t.n += kept.Len()
	}
	t.order = order
}

// fifo is a list that gives the oldest element first. Its memory follows its length.
type fifo[T any] struct {
	list []T
	head int
}

func (f *fifo[T]) Len() int { return len(f.list) - f.head }

func (f *fifo[T]) push(v T) { f.list = append(f.list, v) }

func (f *fifo[T]) pop() T {
	var none T
	v := f.list[f.head]
	f.list[f.head] = none
	if f.head++; f.head*2 >= len(f.list) {
		f.list = append([]T(nil), f.list[f.head:]...)
		f.head = 0
	}
	return v
}
