// Package facts is the vocabulary of what the outside world says: pods, nodes, PodGroups, queues, namespaces, workloads, disruption
// budgets and node reports, reduced to what scheduling looks at.
//
// A door (kube or sim) parses each API object once into a fact and hands it to the ledger as an Event. For example, a watch event for a
// pod with a node selector becomes
//
//	facts.PodUpserted{Pod: facts.Pod{
//		UID: "7c1e…", Namespace: "shop", Name: "web-0", Ours: true,
//		Requirements: &facts.Requirements{
//			Requests:     []resource.Quantity{{Name: resource.NameCPU, Amount: 500}},
//			NodeSelector: []facts.Label{{Key: "pool", Value: "online"}},
//		},
//	}}
//
// Facts are immutable values: a change is a new fact. They know how to match one another (a selector and labels, a toleration and a taint)
// and how to encode themselves into a Key, so that equal requirements can be interned. Names end where the ledger begins: facts.Pod is what
// the API says of a pod, cluster.Pod is the ledger's record of it.
//
// The package holds no state and decides nothing. It imports amounts and the machine model, and never the ledger.
package facts
