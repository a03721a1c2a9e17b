package kube

import "hilbert.dev/hilbert/cluster/facts"

// resources are what a Watch lists and watches. Which is which in Lists is said by listed.
var resources = [...]string{
	"nodes", "pods", "namespaces", "poddisruptionbudgets", "services", "replicationcontrollers", "replicasets", "statefulsets",
	"podgroups", "queues", "customnoderesources", // empty where the API server does not have them
	"finished pods", // which of a gang's members have ended must be known before anything is given up as partial
	"persistentvolumeclaims", "persistentvolumes", "storageclasses", "csidrivers", "csistoragecapacities", "csinodes",
	"volumeattachments",
	"resourceclaims", "deviceclasses", "resourceslices", "devicetaintrules", // empty where the API server does not have resource.k8s.io/v1
	"reservations", // which rooms are kept must be known before they are given to others
}

// Lists keeps which of the lists that a Watch begins with have arrived. The zero value has none. Nothing may be decided before it has
// all: a pod could be placed beside pods that it must be kept apart from.
type Lists struct{ arrived [len(resources)]bool }

// Note takes in an event of the Watch, whatever it is.
func (l *Lists) Note(event facts.Event) {
	if i, ok := listed(event); ok {
		l.arrived[i] = true
	}
}

// Complete reports whether every list has arrived.
func (l *Lists) Complete() bool { return len(l.Missing()) == 0 }

// Missing names the resources whose lists have not arrived.
func (l *Lists) Missing() []string {
	var out []string
	for i, arrived := range l.arrived {
		if !arrived {
			out = append(out, resources[i])
		}
	}
	return out
}

// listed tells which of the resources an event lists.
func listed(event facts.Event) (index int, ok bool) {
	switch e := event.(type) {
	case facts.NodesListed:
		return 0, true
	case facts.PodsListed:
		return 1, true
	case facts.NamespacesListed:
		return 2, true
	case facts.BudgetsListed:
		return 3, true
	case facts.WorkloadsListed:
		return 3 + int(e.Kind), true // the kinds begin at 1, in the order of resources
	case facts.UnitsListed:
		return 8, true
	case facts.QueuesListed:
		return 9, true
	case facts.ReportsListed:
		return 10, true
	case facts.FinishedListed:
		return 11, true
	case facts.StorageListed:
		return 11 + int(e.Kind), true // the kinds begin at 1, in the order of resources
	case facts.DRAListed:
		return 11 + facts.StorageKinds + int(e.Kind), true // likewise
	case facts.ReservationsListed:
		return len(resources) - 1, true
	}
	return 0, false
}
