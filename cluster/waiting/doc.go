// Package waiting bounds how many different pods of one namespace wait at once. Each class of pods that wait costs memory and time of its own: a class, a
// shape, an explanation, terms that are counted on nodes. Pods of one class cost no more than one, so that a Deployment of 100,000 replicas is never
// held back; 100,000 pods each unlike the others are, beyond the first few thousand.
//
// A pod that waits is either taken in, and its class counts, or held back, and then nothing is kept but its facts and its place in line:
//
//	most is 2                     taken in          held back, the oldest first
//	a arrives, of class A         A                 –
//	b arrives, of class B         A, B              –
//	c arrives, of class C         A, B              c
//	d arrives, of class D         A, B              c, d
//	e arrives, of class A         A (2 pods), B     c, d
//	b gets its place              A (2 pods)        c, d      there is room:
//	Next                          A (2 pods), C     d         c is taken in
//
// A class with terms about other pods counts as four more for each of them (CountedTerm): all pods are counted for it that it is about, which may be those of every tenant.
// So the terms of a namespace's waiting pods cost no more than a quarter of the bound times the pods that run. One that terms of others are about counts as one more for each
// TermsPerClass of them: to judge it costs as much more. So a tenant whose pods carry thousands of terms has fewer classes wait, and nobody else pays.
//
// What is taken in together is a batch: all single pods of one class, or all members of a gang, so that no two gangs ever hold room for a part of each. A
// batch waits for its turn unless all of its classes are taken in already. A gang with more classes than may wait is never taken in, and is in
// nobody's way.
//
// The unit of fairness is the namespace, and not the queue: several tenants may share a queue, and one of them must not take the room of the others.
//
// A class ends when the last of its pods is bound, deleted or changed. A pod on its way to a node still waits here, because its Binding may fail.
//
// The package is pure. The ledger computes the Keys, tells of what changes, and asks Next after each event.
package waiting
