package schedule

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"

	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/cluster"
	"hilbert.dev/hilbert/schedule/fragment"
	"hilbert.dev/hilbert/schedule/outside"
	"hilbert.dev/hilbert/schedule/profiles"
	"hilbert.dev/hilbert/topology"
)

// Follower decides for a Scheduler in another process, on a copy of its ledger, by the same code as one of several schedulers in one process does. After an error it is of no use.
type Follower struct {
	cfg      spec.Scheduling
	set      *profiles.Set
	epoch    string
	number   int
	replica  *cluster.Replica
	worker   *worker
	division outside.Division
	last     uint64
}

// NewFollower returns one that knows nothing yet.
func NewFollower(w *outside.Welcome) (*Follower, error) {
	f := &Follower{epoch: w.Epoch, number: w.Number}
	strict := json.NewDecoder(bytes.NewReader(w.Config))
	strict.DisallowUnknownFields()
	if err := strict.Decode(&f.cfg); err != nil {
		return nil, fmt.Errorf("the leader's scheduling configuration: %w", err)
	}
	var err error
	if f.set, err = profiles.New(&f.cfg); err != nil {
		return nil, fmt.Errorf("the leader's scheduling configuration: %w", err)
	}
	return f, nil
}

// Do takes a Work in, and decides on its pods.
func (f *Follower) Do(w *outside.Work) (*outside.Answer, error) {
	if w.Number != f.last+1 || w.Delta == nil {
		return nil, fmt.Errorf("message %d came after %d, or says nothing of the ledger", w.Number, f.last)
	}
	f.last = w.Number
	if w.Prices != nil {
		f.takePrices(w.Prices)
	}
	if w.Delta.Start {
		f.replica = cluster.NewReplica()
		f.worker = &worker{instance: newInstance(f.number, nil, f.replica.Snapshot(), f.set, &f.cfg)}
		f.divide()
	}
	if f.replica == nil {
		return nil, errors.New("the first message does not start")
	}
	if err := f.replica.Take(w.Delta); err != nil {
		return nil, fmt.Errorf("what the leader says of the ledger: %w", err)
	}
	if w.Division != nil {
		f.division = *w.Division
		f.divide()
	}
	answer := &outside.Answer{Epoch: f.epoch, Number: w.Number}
	if len(w.Pods) == 0 {
		return answer, nil
	}
	if !f.replica.Complete() {
		return nil, errors.New("pods are to be decided on before all nodes are known")
	}
	if err := f.decide(w.Pods); err != nil {
		return nil, err
	}
	for i := range f.worker.batch {
		answer.Decisions = append(answer.Decisions, f.worker.batch[i].decision())
	}
	return answer, nil
}

func (f *Follower) decide(pods []outside.Pod) error {
	batch := make([]task, 0, len(pods)) // the copy remembers the pods that were assumed until the next Delta
	for i := range pods {
		pod, err := f.replica.Pod(&pods[i].Pod)
		if err != nil {
			return err
		}
		if !f.set.Has(pods[i].Profile) {
			return fmt.Errorf("pod %s is placed by profile %d, which there is not", pod.UID, pods[i].Profile)
		}
		batch = append(batch, task{pod: *pod, profile: pods[i].Profile})
	}
	f.worker.batch = batch
	f.worker.run()
	return nil
}

func (t *task) decision() (d outside.Decision) {
	if !t.found {
		return d
	}
	d.Node = t.node
	if grant := t.choice.Grant; grant != (topology.Grant{}) {
		d.Grant = &grant
	}
	return d
}

// divide tells the worker which nodes are its own.
func (f *Follower) divide() {
	if f.worker == nil {
		return
	}
	f.worker.divided, f.worker.part = f.division.Parts != nil, f.division.Part
	if f.worker.divided {
		f.worker.placers.Confine(f.division.Parts, f.division.Part)
	} else {
		f.worker.placers.Divide(nil)
	}
}

func (f *Follower) takePrices(p *outside.Prices) {
	var models []string
	var prices []*fragment.Prices
	for i := range p.Models {
		if p.Models[i].Prices != nil {
			models, prices = append(models, p.Models[i].Name), append(prices, p.Models[i].Prices)
		}
	}
	f.set.Market().Take(p.Revision, models, prices, cmp.Or(p.Hosts, &fragment.HostPrices{}))
}

// Nodes is how many slots of nodes are known, and Revision the ledger's that they reflect.
func (f *Follower) Nodes() int {
	if f.replica == nil {
		return 0
	}
	return f.replica.Snapshot().Slots()
}
