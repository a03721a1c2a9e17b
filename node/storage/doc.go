// Package storage asks the kubelet of this node what its pods hold of the node's file systems, so that where one is short the reclaimed pod
// that holds most can go.
//
// Data flow: a Kubelet gets /stats/summary from the kubelet's own port; Parse, which is pure, makes a Reading of it; the agent keeps the last
// Reading and asks it for each pod, with the time. The kubelet measures anyway, for its own evictions: writable layers by the runtime, volumes and
// logs each minute, by project quotas where there are any. Nothing is walked here.
//
// Invariants: what is not there, or is older than MaxAge, is not known, and never zero; a sum of which a part is missing is not known either,
// since it would pass for the whole. The kubelet is asked only behind a certificate that lies on the node's own disk or that the cluster's CA vouches
// for; no redirect is followed, no proxy used. Time and bytes are bounded by Timeout and MaxBody, and each outcome has a name.
//
// It measures nothing itself, judges nothing, and starts no goroutine.
package storage
