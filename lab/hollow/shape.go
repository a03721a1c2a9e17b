package hollow

import (
	"fmt"
	"maps"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Names that GPU nodes carry.
const (
	// ResourceGPU counts whole GPUs.
	ResourceGPU corev1.ResourceName = "nvidia.com/gpu"
	// ResourceGPUMilli counts thousandths of GPUs.
	ResourceGPUMilli corev1.ResourceName = "hilbert.dev/gpu-milli"
	// LabelBlock and LabelRack name the parts of the network that a node is in.
	LabelBlock = "topology.hilbert.dev/block"
	LabelRack  = "topology.hilbert.dev/rack"
	// LabelGPUModel names the model of a node's GPUs.
	LabelGPUModel = "hilbert.dev/gpu-model"
)

const (
	// milliPerGPU is what one GPU counts in ResourceGPUMilli.
	milliPerGPU = 1000
	// podsPerNode is the pod capacity of a hollow node, the kubelet's default.
	podsPerNode = 110
	region      = "lab"
	zones       = 3
	// nodesPerRack and racksPerBlock make the network: a rack has one of each machine of the mix.
	nodesPerRack  = 20
	racksPerBlock = 5
)

// Shape is what one hollow node looks like from outside.
type Shape struct {
	Name        string
	Labels      map[string]string
	Annotations map[string]string
	Taints      []corev1.Taint
	// Allocatable is also reported as capacity. Without pods in it, the node takes 110.
	Allocatable corev1.ResourceList
}

// machine is a kind of machine that clusters rent by the hundred.
type machine struct {
	name      string
	cpu       int64 // cores
	memoryGiB int64
	gpus      int64
	model     string
}

// mix is twenty machines in the proportions of an ordinary cluster: many middling ones, some large, one in ten with GPUs.
var mix = []machine{
	large, medium, medium, small, large, huge, medium, small, large, trainer,
	medium, large, small, medium, huge, large, medium, small, large, inferer,
}

var (
	small   = machine{name: "lab.8c32", cpu: 8, memoryGiB: 32}
	medium  = machine{name: "lab.16c64", cpu: 16, memoryGiB: 64}
	large   = machine{name: "lab.32c128", cpu: 32, memoryGiB: 128}
	huge    = machine{name: "lab.96c384", cpu: 96, memoryGiB: 384}
	trainer = machine{name: "lab.96c768.8xA100", cpu: 96, memoryGiB: 768, gpus: 8, model: "A100"}
	inferer = machine{name: "lab.64c256.4xT4", cpu: 64, memoryGiB: 256, gpus: 4, model: "T4"}
)

// Shapes returns n nodes like a real cluster's: three zones, racks in blocks, a few machine sizes, some with GPUs. The i-th is always the same.
func Shapes(n int) []Shape {
	shapes := make([]Shape, n)
	for i := range shapes {
		m := mix[i%len(mix)]
		zone := fmt.Sprintf("%s-%c", region, 'a'+rune(i%zones))
		shapes[i] = Shape{
			Name: fmt.Sprintf("node-%05d", i),
			Labels: map[string]string{
				corev1.LabelInstanceTypeStable: m.name, corev1.LabelTopologyZone: zone, corev1.LabelTopologyRegion: region,
				LabelRack: fmt.Sprintf("rack-%03d", i/nodesPerRack), LabelBlock: fmt.Sprintf("block-%02d", i/nodesPerRack/racksPerBlock),
			},
			Allocatable: m.allocatable(),
		}
		if m.gpus > 0 {
			shapes[i].Labels[LabelGPUModel] = m.model
		}
	}
	return shapes
}

func (m machine) allocatable() corev1.ResourceList {
	list := corev1.ResourceList{
		corev1.ResourceCPU:              *resource.NewQuantity(m.cpu, resource.DecimalSI),
		corev1.ResourceMemory:           *resource.NewQuantity(m.memoryGiB<<30, resource.BinarySI),
		corev1.ResourceEphemeralStorage: *resource.NewQuantity(200<<30, resource.BinarySI),
		corev1.ResourcePods:             *resource.NewQuantity(podsPerNode, resource.DecimalSI),
	}
	if m.gpus > 0 {
		list[ResourceGPU] = *resource.NewQuantity(m.gpus, resource.DecimalSI)
		list[ResourceGPUMilli] = *resource.NewQuantity(m.gpus*milliPerGPU, resource.DecimalSI)
	}
	return list
}

// node is the Node object of the i-th shape: registered and ready in one write, as hollow nodes have nothing to warm up.
func (s Shape) node(i int, now metav1.Time) *corev1.Node {
	labels := map[string]string{
		corev1.LabelHostname:   s.Name,
		corev1.LabelOSStable:   "linux",
		corev1.LabelArchStable: "amd64",
	}
	maps.Copy(labels, s.Labels)
	allocatable := maps.Clone(s.Allocatable)
	if allocatable == nil {
		allocatable = corev1.ResourceList{}
	}
	if _, set := allocatable[corev1.ResourcePods]; !set {
		allocatable[corev1.ResourcePods] = *resource.NewQuantity(podsPerNode, resource.DecimalSI)
	}
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: s.Name, Labels: labels, Annotations: s.Annotations},
		Spec:       corev1.NodeSpec{Taints: s.Taints},
		Status: corev1.NodeStatus{
			Capacity:    allocatable,
			Allocatable: allocatable,
			Addresses: []corev1.NodeAddress{
				{Type: corev1.NodeInternalIP, Address: nodeIP(i)},
				{Type: corev1.NodeHostName, Address: s.Name},
			},
			NodeInfo: corev1.NodeSystemInfo{
				Architecture: "amd64", OperatingSystem: "linux", OSImage: "hollow", KubeletVersion: "v1.37.0", ContainerRuntimeVersion: "hollow://0",
			},
			Conditions: []corev1.NodeCondition{
				condition(corev1.NodeReady, corev1.ConditionTrue, "HollowNodeReady", now),
				condition(corev1.NodeMemoryPressure, corev1.ConditionFalse, "HollowNode", now),
				condition(corev1.NodeDiskPressure, corev1.ConditionFalse, "HollowNode", now),
				condition(corev1.NodePIDPressure, corev1.ConditionFalse, "HollowNode", now),
			},
		},
	}
}

func condition(kind corev1.NodeConditionType, status corev1.ConditionStatus, reason string, now metav1.Time) corev1.NodeCondition {
	return corev1.NodeCondition{
		Type: kind, Status: status, Reason: reason, Message: "simulated by hilbert-lab", LastHeartbeatTime: now, LastTransitionTime: now,
	}
}

// nodeIP gives the first 2^22 nodes addresses of their own in 10.64.0.0/10.
func nodeIP(i int) string {
	return fmt.Sprintf("10.%d.%d.%d", 64+(i>>16)&0x3f, (i>>8)&0xff, i&0xff)
}
