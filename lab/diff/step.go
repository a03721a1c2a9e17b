package diff

import (
	"encoding/json"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"sigs.k8s.io/yaml"
)

// Case is a cluster's history: what happened, in order, and which pods were judged in between. It needs nothing else to be replayed.
type Case struct {
	// Profile is how both are configured, by name; see Profiles.
	Profile string `json:"profile"`
	// Seed, Indexes and Coarse are the placer's: the seed of its ties, how many indexes it keeps, and how many domains a topology key may
	// have for them to keep a group of nodes for each.
	Seed    uint64 `json:"seed"`
	Indexes int    `json:"indexes"`
	Coarse  int    `json:"coarse"`
	// Lazy: a second snapshot and placer are asked at every so many judgements only; 0 is never.
	Lazy int `json:"lazy,omitempty"`
	// Preempts: preemption is compared wherever a pod does not fit, with so many cost indexes; 0 is never.
	Preempts int    `json:"preempts,omitempty"`
	Steps    []Step `json:"steps"`
}

// Step is one thing that happens; exactly one field is set. A step that makes no sense where it stands (the removal of what is not
// there) does nothing, so that any part of a case is a case.
type Step struct {
	// Node exists with these properties; RemoveNode exists no more.
	Node       *corev1.Node `json:"node,omitempty"`
	RemoveNode string       `json:"removeNode,omitempty"`
	// Pod is bound and exists with these properties, or has finished. RemovePod exists no more, by UID.
	Pod       *corev1.Pod `json:"pod,omitempty"`
	RemovePod string      `json:"removePod,omitempty"`

	Namespace       *corev1.Namespace `json:"namespace,omitempty"`
	RemoveNamespace string            `json:"removeNamespace,omitempty"`

	Service        *corev1.Service               `json:"service,omitempty"`
	Controller     *corev1.ReplicationController `json:"replicationController,omitempty"`
	ReplicaSet     *appsv1.ReplicaSet            `json:"replicaSet,omitempty"`
	StatefulSet    *appsv1.StatefulSet           `json:"statefulSet,omitempty"`
	RemoveWorkload *Workload                     `json:"removeWorkload,omitempty"`

	// Budget exists with these properties; RemoveBudget, by namespace/name, exists no more.
	Budget       *policyv1.PodDisruptionBudget `json:"budget,omitempty"`
	RemoveBudget string                        `json:"removeBudget,omitempty"`

	// Relist gives Hilbert everything anew, in consistent lists, as after a broken watch.
	Relist bool `json:"relist,omitempty"`

	// Judge asks both schedulers about this pod, and compares.
	Judge *corev1.Pod `json:"judge,omitempty"`

	// Commit puts a pod that was judged on a node, as the binder commits a Plan. Release, by UID, gives that up.
	Commit  *Placement `json:"commit,omitempty"`
	Release string     `json:"release,omitempty"`
}

// Workload names something that selects pods.
type Workload struct {
	Kind      string `json:"kind"`
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
}

// Placement puts a pod, by UID, on a node.
type Placement struct {
	Pod  string `json:"pod"`
	Node string `json:"node"`
	// Lag: the snapshot learns it by assuming it, and is not advanced for the judgements that follow at once.
	Lag bool `json:"lag,omitempty"`
	// Reject, with Lag: the ledger never learns it. It is as if it had not been after those judgements.
	Reject bool `json:"reject,omitempty"`
}

// YAML renders the case, without the fields that say nothing but that Go would write all the same.
func (c *Case) YAML() ([]byte, error) {
	text, err := json.Marshal(c)
	if err != nil {
		return nil, fmt.Errorf("render a case: %w", err)
	}
	var tree any
	if err := json.Unmarshal(text, &tree); err != nil {
		return nil, fmt.Errorf("render a case: %w", err)
	}
	quiet(tree)
	out, err := yaml.Marshal(tree)
	if err != nil {
		return nil, fmt.Errorf("render a case: %w", err)
	}
	return out, nil
}

// noise are fields whose zero value is written, though it means the same as none.
var noise = map[string]bool{
	"status": true, "spec": true, "resources": true, "strategy": true, "template": true, "loadBalancer": true, "replicas": true,
	"metadata": true, "nodeInfo": true, "daemonEndpoints": true, "kubeletEndpoint": true, "Port": true, "updateStrategy": true, "serviceName": true,
	"architecture": true, "bootID": true, "containerRuntimeVersion": true, "kernelVersion": true, "kubeProxyVersion": true, "kubeletVersion": true,
	"machineID": true, "operatingSystem": true, "osImage": true, "systemUUID": true, "containers": true, "creationTimestamp": true,
}

// quiet removes noise, and reports whether nothing is left.
func quiet(tree any) (empty bool) {
	switch t := tree.(type) {
	case map[string]any:
		for key, child := range t {
			if quiet(child) && noise[key] {
				delete(t, key)
			}
		}
		return len(t) == 0
	case []any:
		for _, child := range t {
			quiet(child)
		}
	case string:
		return t == ""
	case float64:
		return t == 0
	case nil:
		return true
	}
	return false
}

// ParseCase reads what YAML has written.
func ParseCase(text []byte) (*Case, error) {
	c := new(Case)
	if err := yaml.UnmarshalStrict(text, c); err != nil {
		return nil, fmt.Errorf("read a case: %w", err)
	}
	return c, nil
}
