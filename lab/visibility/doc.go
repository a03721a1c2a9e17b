// Package visibility tests the aggregated API of hilbertd behind a real kube-apiserver: who may ask what, and what becomes of the cluster when nobody
// answers.
//
// Data flow: a control plane with its controllers, the roles of deploy/, and hilbertd in this process as the account that deploy/ gives it. The APIService
// leads to a Service of type ExternalName, localhost, because kube-apiserver takes no endpoints on loopback; which hilbertd that is, its port says.
//
// Invariants: users have certificates and tokens of their own, never impersonation; every answer comes through kube-apiserver unless a test says otherwise.
// It is all tests: nothing here is imported.
package visibility
