package standin

import (
	"cmp"
	"fmt"
	"io"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
)

// metricsPath is where the calls are told, as the real one tells them.
const metricsPath = "/metrics"

// call is what requests are counted by.
type call struct{ verb, resource, sub string }

func compareCalls(a, b call) int {
	return cmp.Or(cmp.Compare(a.resource, b.resource), cmp.Compare(a.sub, b.sub), cmp.Compare(a.verb, b.verb))
}

// calls counts requests.
type calls struct{ of sync.Map } // *atomic.Int64 by call

func (c *calls) note(r *http.Request, q *query) {
	verb := r.Method
	if verb == http.MethodGet && q.name == "" {
		if verb = "LIST"; q.watch {
			verb = "WATCH"
		}
	}
	key := call{verb, q.resource, q.sub}
	n, known := c.of.Load(key)
	if !known {
		n, _ = c.of.LoadOrStore(key, new(atomic.Int64))
	}
	if counter, ok := n.(*atomic.Int64); ok { // nothing else is put in
		counter.Add(1)
	}
}

// write tells them in the text format of Prometheus.
func (c *calls) write(w io.Writer) {
	counts := make(map[call]int64)
	c.of.Range(func(key, n any) bool {
		of, isCall := key.(call)
		if counter, ok := n.(*atomic.Int64); ok && isCall {
			counts[of] = counter.Load()
		}
		return true
	})
	keys := make([]call, 0, len(counts))
	for key := range counts {
		keys = append(keys, key)
	}
	slices.SortFunc(keys, compareCalls)
	for _, key := range keys {
		fmt.Fprintf(w, "apiserver_request_total{verb=%q,resource=%q,subresource=%q} %d\n", key.verb, key.resource, key.sub, counts[key])
	}
}
