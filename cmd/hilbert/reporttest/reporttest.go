// Package reporttest has reports of nodes' agents, for the tests of the commands that show them.
//
// Nodes are agents in every state that hilbert top nodes and hilbert top pods tell apart, Devices are nodes with GPUs and network cards, and Lender is one that lends. For example,
// a test sets Nodes in a stand-in API server and runs hilbert top against it. What is wrong in a report is wrong on purpose: a node may say anything.
// It has no assertion of its own.
package reporttest

import (
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/yaml"

	"hilbert.dev/hilbert/api/node/v1alpha1"
	"hilbert.dev/hilbert/api/spec"
)

// Lender is a node of two NUMA nodes that lends.
func Lender(name string, observed time.Time) *v1alpha1.CustomNodeResource {
	c := &v1alpha1.CustomNodeResource{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID("cnr-" + name)}}
	c.APIVersion, c.Kind = spec.NodeAPIVersion, spec.NodeKind
	s := &c.Status
	s.ObservedAt, s.Mode, s.ThreadsPerCore = metav1.NewTime(observed), spec.ModeAgent, 1
	amounts := spec.NUMAAmounts{CPUs: 4, MemoryMiB: 2048}
	for _, numa := range []string{"0", "1"} {
		s.Topology = append(s.Topology, spec.TopologyElement{Type: spec.ElementSocket, Name: numa, Children: []spec.TopologyElement{{Type: spec.ElementNUMANode, Name: numa, Capacity: &amounts, Allocatable: &amounts}}})
	}
	s.Conditions = []metav1.Condition{{
		Type: spec.ConditionAgentReady, Status: metav1.ConditionTrue, Reason: spec.ReasonAgentRunning, LastTransitionTime: metav1.NewTime(observed),
	}}
	s.Colocation = &spec.Colocation{
		Headroom: spec.ReclaimedAmounts{MilliCPU: 3500, MemoryMiB: 1536}, Lent: spec.ReclaimedAmounts{MilliCPU: 2000, MemoryMiB: 512},
		Suppression: spec.SuppressionWeight,
		NUMANodes: []spec.NUMAHeadroom{
			{Name: "0", ReclaimedAmounts: spec.ReclaimedAmounts{MilliCPU: 2500, MemoryMiB: 1024}, CPUReason: "Use", MemoryReason: "Capacity", Message: "4 CPUs, 1.5 in use"},
			{Name: "1", ReclaimedAmounts: spec.ReclaimedAmounts{MilliCPU: 1000, MemoryMiB: 512}, CPUReason: "Pressure", MemoryReason: "Use"},
		},
	}
	return c
}

const nodesText = `
apiVersion: node.hilbert.dev/v1alpha1
kind: CustomNodeResource
metadata: {name: n1, uid: c1}
status:
  mode: agent
  threadsPerCore: 2
  observedAt: "2026-01-01T11:59:30Z"
  summary: {numaNodes: 2, freeCPUs: 8, dedicatedPods: 2, freeMemory: 11Gi}
  conditions: [{type: AgentReady, status: "True", reason: AgentRunning, message: "", lastTransitionTime: "2026-01-01T00:00:00Z"}]
  pools:
    - {name: reclaimed, cpuset: "7,15,23", pods: 3}
    - {name: share, cpuset: "3-6,11-14,22", pods: 9}
    - {name: system, cpuset: "0,8", pods: 1}
  topology:
    - type: Socket
      name: "0"
      children:
        - type: NUMA
          name: "0"
          capacity: {cpus: 16, cpuset: "0-15", memoryMiB: 16384}
          allocatable: {cpus: 14, cpuset: "1-7,9-15", memoryMiB: 16128}
          allocations:
            - {namespace: prod, name: db, uid: u1, cpuset: "1-2,9-10", cpus: 4, memoryMiB: 4096}
            - {namespace: ml, name: train, uid: u2, cpuset: "3,11", cpus: 2, moved: true}
          children: [{type: GPU, name: "0000:3b:00.0"}, {type: GPU, name: "0000:3c:00.0"}, {type: NIC, name: "0000:86:00.0"}]
    - type: Socket
      name: "1"
      children:
        - type: NUMA
          name: "1"
          closed: true
          capacity: {cpus: 16, cpuset: "16-31", memoryMiB: 16384}
          allocatable: {cpus: 16, cpuset: "16-31", memoryMiB: 16128}
          allocations: [{namespace: prod, name: cache, uid: u3, cpuset: "16-31", cpus: 16, memoryMiB: 16128, exclusive: true}]
---
apiVersion: node.hilbert.dev/v1alpha1
kind: CustomNodeResource
metadata: {name: n2, uid: c2}
status:
  mode: kubelet
  threadsPerCore: 1
  observedAt: "2026-01-01T11:30:00Z"
  summary: {numaNodes: 1, freeCPUs: 0, dedicatedPods: 1, freeMemory: 0Mi}
  conditions: [{type: AgentReady, status: "False", reason: RuntimeLost, message: "gone", lastTransitionTime: "2026-01-01T00:00:00Z"}]
  topology:
    - type: Socket
      name: "0"
      children:
        - type: NUMA
          name: "0"
          capacity: {cpus: 4, cpuset: "0-3", memoryMiB: 800}
          allocatable: {cpus: 3, memoryMiB: 700}
          allocations: [{namespace: default, name: pinned, uid: u4, cpuset: "2-3", cpus: 2}]
---
apiVersion: node.hilbert.dev/v1alpha1
kind: CustomNodeResource
metadata: {name: n3, uid: c3}
---
apiVersion: node.hilbert.dev/v1alpha1
kind: CustomNodeResource
metadata: {name: n4, uid: c4}
status:
  mode: agent
  threadsPerCore: 2
  observedAt: "2026-01-01T12:00:05Z"
  summary: {numaNodes: 1, freeCPUs: 4, dedicatedPods: 0, freeMemory: 1Gi}
  topology: [{type: Socket, name: "0", children: [{type: NUMA, name: "0", allocatable: {cpus: 4, memoryMiB: 2048}}]}]
`

// Nodes are reports of four nodes, of which two are malformed.
func Nodes(t *testing.T) (out []*unstructured.Unstructured) {
	t.Helper()
	for text := range strings.SplitSeq(nodesText, "---") {
		u := &unstructured.Unstructured{}
		if err := yaml.Unmarshal([]byte(text), &u.Object); err != nil {
			t.Fatal(err)
		}
		out = append(out, u)
	}
	return out
}

const devicesText = `
metadata: {name: n1}
status:
  mode: agent
  threadsPerCore: 2
  observedAt: "2026-01-01T11:59:30Z"
  topology:
    - {type: Socket, name: "0", children: [{type: NUMA, name: "0", capacity: {cpus: 16, cpuset: "0-15", memoryMiB: 16384}, allocatable: {cpus: 14, cpuset: "1-7,9-15", memoryMiB: 16128}}]}
    - {type: Socket, name: "1", children: [{type: NUMA, name: "1", capacity: {cpus: 16, cpuset: "16-31", memoryMiB: 16384}, allocatable: {cpus: 16, cpuset: "16-31", memoryMiB: 16128}}]}
  devices:
    owner: hilbert
    gpus:
      - {index: 3, uuid: GPU-3, address: "0000:86:00.0", model: A100, memoryMiB: 40960, clients: 24, isolation: [soft], numa: 1, switch: 1, socket: 1, closed: Unhealthy}
      - {index: 0, uuid: GPU-0, address: "0000:3b:00.0", model: A100, memoryMiB: 40960, grain: 10, clients: 24, isolation: [accounting, soft], numa: 0, switch: 0, socket: 0}
      - {index: 1, uuid: GPU-1, address: "0000:3c:00.0", model: A100, memoryMiB: 40960, grain: 10, clients: 24, isolation: [accounting, soft], numa: 0, switch: 0, socket: 0}
      - index: 2
        uuid: GPU-2
        address: "0000:5e:00.0"
        model: A100
        memoryMiB: 40960
        isolation: [hard]
        numa: 1
        switch: 1
        socket: 1
        instances: [{name: 1g.5gb, milli: 140, memoryMiB: 4864}, {name: 3g.20gb, milli: 420, memoryMiB: 19968}]
    nics:
      - {index: 0, address: "0000:3d:00.0", name: mlx5_0, bandwidthMbit: 100000, functions: 8, rdma: true, numa: 0, switch: 0, socket: 0}
      - {index: 1, address: "0000:87:00.0", name: eth1, bandwidthMbit: 800}
    allocations:
      - {namespace: ml, name: train, uid: u1, gpus: "1", nics: "0:25000/vf"}
      - {namespace: ml, name: serve-0, uid: u2, gpus: "0:250/10240Mi/soft", isolation: soft}
      - {namespace: ml, name: serve-1, uid: u3, gpus: "0:400/20480Mi/soft", isolation: soft, moved: true}
      - {namespace: ml, name: notebook, uid: u4, gpus: "2:mig-1", isolation: hard}
---
metadata: {name: n2}
status:
  observedAt: "2026-01-01T11:30:00Z"
  devices: {owner: hilbert, gpus: [{index: 0, model: A100, memoryMiB: 40960, clients: 2, isolation: [soft]}]}
---
metadata: {name: n3}
status:
  observedAt: "2026-01-01T12:00:00Z"
  devices: {owner: none, reason: Contested, gpus: [{index: 0, model: T4, memoryMiB: 15360}], allocations: [{namespace: ml, name: old, uid: u5, gpus: "0"}]}
---
metadata: {name: n4}
status:
  observedAt: "2026-01-01T12:00:00Z"
  devices: {owner: kubelet, gpus: [{index: 0, model: T4, memoryMiB: 15360}, {index: 1, model: T4, memoryMiB: 15360}], allocations: [{namespace: ml, name: old, uid: u5, gpus: "0"}]}
---
metadata: {name: n5}
status:
  observedAt: "2026-01-01T12:00:00Z"
  devices: {owner: hilbert, gpus: [{index: 0, model: T4, memoryMiB: 15360}], allocations: [{namespace: ml, name: lost, uid: u6, gpus: "7"}]}
---
metadata: {name: n6}
status: {observedAt: "2026-01-01T12:00:00Z", mode: agent}
---
metadata: {name: n7}
status:
  observedAt: "2026-01-01T12:00:00Z"
  devices:
    owner: kubelet
    reason: 'DevicePlugin: node.status offers nvidia.com/gpu 4'
    gpus: [{index: 0, model: V100, memoryMiB: 16384}, {index: 1, model: V100, memoryMiB: 16384}, {index: 2, model: V100, memoryMiB: 16384}, {index: 3, model: V100, memoryMiB: 16384}]
    allocations: [{namespace: ml, name: train, uid: u7, gpus: "2", owner: kubelet}]
    kubelet:
      unread: 'as of 2026-01-01T11:50:00Z: no answer'
      others:
        - {namespace: ml, name: who, resource: nvidia.com/gpu, id: tegra}
        - {namespace: ml, name: two, resource: nvidia.com/mig-1g.5gb, id: MIG-x, gpu: 0}
`

// Devices are nodes with GPUs and network cards, whole and in parts, the agent's and the kubelet's.
func Devices(t *testing.T) (out []*v1alpha1.CustomNodeResource) {
	t.Helper()
	for text := range strings.SplitSeq(devicesText, "---") {
		c := &v1alpha1.CustomNodeResource{}
		if err := yaml.UnmarshalStrict([]byte(text), c); err != nil {
			t.Fatal(err)
		}
		out = append(out, c)
	}
	return out
}
