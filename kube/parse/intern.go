package parse

import (
	"log/slog"
	"strings"
)

// maxInterned bounds the strings that an interner remembers; when it is full it starts anew, which costs sharing, not correctness.
const maxInterned = 1 << 16

// interner gives equal strings the same memory. Labels, namespaces and node names repeat on thousands of objects, and each decoded
// object brings its own copy.
type interner struct{ seen map[string]string }

func (in *interner) get(s string) string {
	if s == "" {
		return ""
	}
	if known, ok := in.seen[s]; ok {
		return known
	}
	if in.seen == nil || len(in.seen) >= maxInterned {
		in.seen = make(map[string]string)
	}
	s = strings.Clone(s)
	in.seen[s] = s
	return s
}

// maxWarned bounds the objects that a warner remembers: of more, the oldest is forgotten, and is complained about again at its next update. So nobody silences what is said of others.
const maxWarned = 1024

// Warner logs a complaint about an object once, though the object is parsed at each of its updates.
type Warner struct {
	Log   *slog.Logger
	seen  map[string]bool
	order []string // of seen; the oldest is at next once there are maxWarned
	next  int
}

func (w *Warner) Warn(object, message string, args ...any) {
	if w.Log == nil || w.seen[object] {
		return
	}
	if w.seen == nil {
		w.seen = make(map[string]bool)
	}
	if len(w.order) < maxWarned {
		w.order = append(w.order, object)
	} else {
		delete(w.seen, w.order[w.next])
		w.order[w.next], w.next = object, (w.next+1)%maxWarned
	}
	w.seen[object] = true
	w.Log.Warn(message, append([]any{"object", object}, args...)...)
}
