package dumpfile

import (
	"encoding/json"
	"strings"
	"testing"

	"hilbert.dev/hilbert/cluster"
)

// FuzzLoad: a snapshot comes from a file that somebody sent. Whatever is in it, it is refused or loaded, and the books of what is loaded are sound.
func FuzzLoad(f *testing.F) {
	const head = `{"revision":1,"resources":[],"defaults":[],"namespaces":[],"workloads":[],"budgets":[],`
	f.Add(head + `"requirements":[{}],"nodes":[{"name":"n"}],"pods":[{"uid":"a","namespace":"x","name":"p","phase":"bound","node":"n","requirements":0}]}`)
	f.Add(head + `"requirements":[{"requests":[{"name":"cpu","amount":9223372036854775807}]}],"nodes":[{"name":"n","allocatable":[{"name":"cpu","amount":-1}]}],"pods":[{"uid":"a","namespace":"x","name":"p","phase":"assumed","node":"n","requirements":0,"grant":{"gpus":[0]}}]}`)
	f.Add(head + `"requirements":[],"nodes":[],"pods":[]}`)
	f.Fuzz(func(t *testing.T, text string) {
		d, err := Read(json.NewDecoder(strings.NewReader(text)))
		if err != nil {
			t.Skip()
		}
		store, err := cluster.Load(d)
		if err != nil {
			t.Skip()
		}
		if err := store.Verify(); err != nil {
			t.Error(err)
		}
	})
}
