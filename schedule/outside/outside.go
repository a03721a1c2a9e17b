// Package outside is what goes between the leader and schedulers in processes of their own (ADR 0021): values only, written by package replica's codec.
//
// # How it works
//
// A scheduler says Hello and is answered with a Welcome. Then the leader sends Works, and each is answered before the next is made:
//
//	Hello    {Protocol: 1, Schema: "3f…", Name: "hilbert-scheduler-0"}
//	Welcome  {Epoch: "hilbertd-a_1f…/7", Number: 2, Config: …}
//	Work 1   rows of 512 nodes, more to come
//	Answer 1
//	Work 2   the rest of the nodes; 20 pods
//	Answer 2 20 decisions
//
// A Work without pods brings the copy of the ledger up to date. schedule.Scheduler makes Works and takes Answers in; schedule.Follower is the other side.
package outside

import (
	"hilbert.dev/hilbert/cluster/replica"
	"hilbert.dev/hilbert/schedule/fragment"
	"hilbert.dev/hilbert/topology"
)

// Protocol is the number of what this package says in words; it is another one when a message means something else though its fields are the same.
const Protocol = 1

// Schema is a digest of all messages, down to the ledger's own types.
func Schema() string {
	return replica.Schema(Hello{}, Welcome{}, Work{}, Answer{})
}

// Hello is the first message of a scheduler.
type Hello struct {
	Protocol int
	Schema   string
	// Version of the program, for people.
	Version string
	// Name of the process, for people.
	Name string
}

// Welcome is the leader's answer.
type Welcome struct {
	// Epoch says who leads, and the how manieth leader that is.
	Epoch string
	// Number seeds how the scheduler breaks ties.
	Number int
	// Config is the leader's spec.Scheduling, as JSON.
	Config []byte
}

// Work is what the leader sends then.
type Work struct {
	_ struct{} `cbor:",toarray"`
	// Number of the message, from 1 on.
	Number uint64
	Delta  *replica.Delta
	// Division and Prices are nil where they are as before.
	Division *Division
	Prices   *Prices
	// Pods to be decided on, each as if those before it had their places.
	Pods []Pod
}

// Division says which nodes are the scheduler's.
type Division struct {
	// Parts is the partition of each slot; nil: all nodes are everybody's.
	Parts []uint8
	// Part is the scheduler's.
	Part uint8
}

// Prices is a price list of GPUs, and of room on nodes without.
type Prices struct {
	Revision uint64
	Models   []Model
	Hosts    *fragment.HostPrices
}

// Model is what GPUs of a model are worth.
type Model struct {
	Name   string
	Prices *fragment.Prices
}

// Pod is a pod, and by which of the profiles it is placed.
type Pod struct {
	_       struct{} `cbor:",toarray"`
	Pod     replica.Pod
	Profile int
}

// Answer is the scheduler's answer to a Work, with a Decision for each of its pods.
type Answer struct {
	_         struct{} `cbor:",toarray"`
	Epoch     string
	Number    uint64
	Decisions []Decision
}

// Decision is a node for a pod; without one there is no room among the scheduler's nodes.
type Decision struct {
	_    struct{} `cbor:",toarray"`
	Node string
	// Grant is nil for nothing.
	Grant *topology.Grant
}
