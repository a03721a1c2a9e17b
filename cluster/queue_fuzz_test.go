package cluster_test

import (
	"encoding/binary"
	"fmt"
	"testing"

	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/cluster"
	"hilbert.dev/hilbert/cluster/facts"
	"hilbert.dev/hilbert/internal/script"
	"hilbert.dev/hilbert/resource"
)

// bytesOf reads a fuzzer's bytes as choices; when they end, all choices are zero.
type bytesOf []byte

func (b *bytesOf) byte() byte {
	if len(*b) == 0 {
		return 0
	}
	first := (*b)[0]
	*b = (*b)[1:]
	return first
}

// name is one of a few, or any short text.
func (b *bytesOf) name() string {
	n := b.byte()
	if n < 240 {
		return []string{"", "a", "b", "c", "d", "e", "default", "a/b"}[n%8]
	}
	name := make([]byte, 1+n%3)
	for i := range name {
		name[i] = b.byte()
	}
	return string(name)
}

// amount is one of the absurd, or any number.
func (b *bytesOf) amount() int64 {
	n := b.byte()
	if int(n) < 20*len(absurd) {
		return absurd[int(n)%len(absurd)]
	}
	var number [8]byte
	for i := range number {
		number[i] = b.byte()
	}
	return int64(binary.LittleEndian.Uint64(number[:]))
}

func (b *bytesOf) amounts() (list []resource.Quantity) {
	for range b.byte() % 4 {
		name := []string{resource.NameCPU, resource.NameMemory, spec.ResourceGPUMilli, "x/y"}[b.byte()%4]
		list = append(list, resource.Quantity{Name: name, Amount: b.amount()})
	}
	return list
}

func (b *bytesOf) queue() *facts.Queue {
	flags := b.byte()
	q := &facts.Queue{Name: b.name(), Parent: b.name(), Guaranteed: b.amounts(), Max: b.amounts(), Weight: b.amount(), BorrowsNothing: flags&1 != 0}
	if flags&2 != 0 {
		q.Namespaces = &facts.LabelSelector{Expressions: []facts.Requirement{{Key: "team", Operator: facts.Exists}}}
	}
	return q
}

// FuzzQueues plants trees of queues from whatever is said about them. Nothing panics or overflows; after every event the books are right (see
// Verify: no queue is guaranteed more than its limit, no children more than their parent, who hangs below a refused queue is refused); and the
// same facts in one list, last first, make the same tree.
func FuzzQueues(f *testing.F) {
	f.Add([]byte{})
	f.Add([]byte{0, 0, 1, 2, 1, 0, 3, 0, 0, 0, 0, 2, 1, 1, 0, 4, 0, 0, 0, 0, 3, 2, 0, 0})
	f.Add([]byte{0, 1, 1, 0, 1, 0, 10, 1, 0, 10, 0, 0, 0, 2, 1, 1, 0, 10, 0, 0, 0, 0, 3, 1, 1, 0, 9, 0, 0, 2, 2, 1})
	f.Fuzz(func(t *testing.T, data []byte) {
		read := bytesOf(data)
		store := cluster.NewStore()
		store.Apply(facts.NodeUpserted{Node: townNode(0)})
		for i, namespace := range []string{"x", "y"} {
			uid := facts.UID(fmt.Sprint("p", i))
			store.Apply(facts.PodUpserted{Pod: facts.Pod{UID: uid, Namespace: namespace, Name: string(uid), Node: "n0", Requirements: townNeeds[i]}})
		}
		for range 64 {
			if len(read) == 0 {
				break
			}
			fuzzQueueEvent(store, &read)
			if err := store.Verify(); err != nil {
				t.Fatal(err)
			}
		}
		dump := store.Dump()
		dump.Sort()
		for i, j := 0, len(dump.Queues)-1; i < j; i, j = i+1, j-1 {
			dump.Queues[i], dump.Queues[j] = dump.Queues[j], dump.Queues[i]
		}
		fresh, err := cluster.Load(dump)
		if err != nil {
			t.Fatal(err)
		}
		if got, want := script.Queues(fresh), script.Queues(store); got != want {
			t.Fatalf("told anew:\n%s\nwith a history:\n%s", got, want)
		}
	})
}

func fuzzQueueEvent(store *cluster.Store, read *bytesOf) {
	switch read.byte() % 5 {
	case 0, 1:
		store.Apply(facts.QueueUpserted{Queue: read.queue()})
	case 2:
		n := facts.Namespace{Name: []string{"x", "y", "z"}[read.byte()%3]}
		if name := read.name(); name != "-" {
			n.Labels = append(n.Labels, facts.Label{Key: spec.LabelQueue, Value: name})
		}
		if read.byte()%2 == 0 {
			n.Labels = append(n.Labels, facts.Label{Key: "team"})
		}
		store.Apply(facts.NamespaceUpserted{Namespace: n})
	case 3:
		store.Apply(facts.QueueRemoved{Name: read.name()})
	case 4:
		var list []*facts.Queue
		for range read.byte() % 8 {
			list = append(list, read.queue())
		}
		store.Apply(facts.QueuesListed{Queues: list})
	}
}
