// Package security attacks a real API server on which all of deploy/ is installed: as the agent of a captured node, as that node's kubelet, and as
// a tenant who may edit one namespace. It holds what docs/security.md claims.
//
// Everybody has credentials of their own: a token that the API server has issued for a pod of theirs (TokenRequest), or a kubelet's certificate. Nobody
// is impersonated, so that what a token says of its pod and its node is what a real one says.
//
// Each attempt must be refused, or change nothing. Then the rule that refuses it is taken away, the same attempt must succeed, and the rule is put
// back: an attempt that fails for another reason is a defect of the test. What hilbertd and an agent ask for while they work is read from the API
// server's audit log, and must be what their roles grant, to the verb.
//
// It does not test what rules say about the spelling of pods' annotations: package policy does, rule by rule.
package security
