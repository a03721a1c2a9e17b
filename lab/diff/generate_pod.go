package diff

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	componentresource "k8s.io/component-helpers/resource"
)

func uid(name string) types.UID { return types.UID("uid-" + name) }

// pod draws a pod that is not bound.
func (g *generator) pod() *corev1.Pod {
	pod := &corev1.Pod{}
	pod.Name = g.name("pod")
	pod.UID = uid(pod.Name)
	pod.Namespace = "ns0"
	if g.chance(g.taste.namespaced) {
		pod.Namespace = g.namespace()
	}
	pod.Labels = g.podLabels()
	pod.Spec.SchedulerName = schedulerName
	g.containers(pod)
	g.sizes(pod)
	pod.Spec.Tolerations = g.tolerations()
	if g.chance(g.taste.selector) {
		pod.Spec.NodeSelector = g.nodeSelector()
	}
	pod.Spec.Affinity = g.affinity(pod.Labels)
	g.spread(pod)
	g.features(pod)
	g.owner(pod)
	return pod
}

func (g *generator) podLabels() map[string]string {
	switch {
	case g.chance(0.05):
		return nil
	case g.dense && g.chance(0.7):
		return map[string]string{"app": "a"}
	}
	return g.labels(podLabels)
}

func (g *generator) containers(pod *corev1.Pod) {
	ports := make(map[string]bool) // a pod has each once
	containers := 1 + min(g.IntN(3), g.IntN(3))
	if g.imageRich {
		containers += g.IntN(6)
	}
	for range containers {
		pod.Spec.Containers = append(pod.Spec.Containers, g.container("c", ports))
	}
	for g.chance(g.taste.init) && len(pod.Spec.InitContainers) < 3 {
		c := g.container("i", ports)
		if g.chance(0.5) {
			always := corev1.ContainerRestartPolicyAlways
			c.RestartPolicy = &always
		}
		pod.Spec.InitContainers = append(pod.Spec.InitContainers, c)
	}
	if g.chance(g.taste.image / 4) {
		pod.Spec.Volumes = append(pod.Spec.Volumes, corev1.Volume{
			Name:         "image",
			VolumeSource: corev1.VolumeSource{Image: &corev1.ImageVolumeSource{Reference: g.imageName()}},
		})
	}
}

func (g *generator) container(prefix string, taken map[string]bool) corev1.Container {
	c := corev1.Container{Name: g.name(prefix), Image: g.imageName()}
	for g.chance(g.taste.port/2) && len(c.Ports) < 3 {
		p := corev1.ContainerPort{
			HostPort: pick[int32](g, 0, 80, 80, 443),
			Protocol: pick(g, "", corev1.ProtocolTCP, corev1.ProtocolTCP, corev1.ProtocolUDP, corev1.ProtocolSCTP),
			HostIP:   pick(g, "", "", "0.0.0.0", "127.0.0.1", "10.0.0.1", "::"),
		}
		p.ContainerPort = cmp.Or(p.HostPort, 8080)
		id := fmt.Sprint(p.HostPort, cmp.Or(p.Protocol, corev1.ProtocolTCP), p.HostIP)
		if taken[id] {
			break
		}
		taken[id] = true
		c.Ports = append(c.Ports, p)
	}
	if g.chance(g.taste.request) || g.chance(0.3) {
		c.Resources = g.resources()
	}
	return c
}

// resources draws requests, and the limits that must go with some.
func (g *generator) resources() corev1.ResourceRequirements {
	r := corev1.ResourceRequirements{Requests: g.requests()}
	for _, name := range []corev1.ResourceName{widget, hugePage} {
		if amount, ok := r.Requests[name]; ok {
			if r.Limits == nil {
				r.Limits = corev1.ResourceList{}
			}
			r.Limits[name] = amount
		}
	}
	return r
}

// imageName is as a person writes it: the tag may be missing.
func (g *generator) imageName() string {
	if g.imageRich && g.chance(0.8) {
		return manyImage(g.IntN(manyImages + 2))
	}
	return pick(g, "registry.example/web:1", "app", "app:latest", "db:2", "library/db:2", "big:1", "small:1", "none:1", "localhost:5000/tool", "unknown",
		"registry.example/web@sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855")
}

func (g *generator) requests() corev1.ResourceList {
	out := corev1.ResourceList{}
	if g.chance(0.7) {
		out[corev1.ResourceCPU] = pick(g, q("0"), q("1m"), q("100m"), q("250m"), q("500m"), q("0.5"), q("1"), q("1500m"), q("2"))
	}
	if g.chance(0.7) {
		out[corev1.ResourceMemory] = pick(g, q("0"), q("1"), q("100Mi"), q("128Mi"), q("200Mi"), q("512Mi"), q("1Gi"), q("1.5Gi"))
	}
	if g.chance(g.taste.tight / 20) {
		out[corev1.ResourceCPU] = q("1000000")
	}
	if g.chance(g.taste.tight / 20) {
		out[corev1.ResourceMemory] = q("1Pi")
	}
	if g.chance(0.15) {
		out[corev1.ResourceEphemeralStorage] = pick(g, q("0"), q("1Gi"), q("4Gi"))
	}
	if g.chance(g.taste.extended) {
		out[widget] = pick(g, q("0"), q("1"), q("1"), q("2"), q("3"))
	}
	if g.chance(g.taste.extended / 3) {
		out[hugePage] = pick(g, q("0"), q("4Mi"), q("64Mi"))
		if _, ok := out[corev1.ResourceCPU]; !ok {
			out[corev1.ResourceCPU] = q("100m")
		}
	}
	return out
}

// sizes draws what the pod asks for as a whole. A pod-level request covers those of its containers.
func (g *generator) sizes(pod *corev1.Pod) {
	if g.chance(g.taste.init / 2) {
		pod.Spec.Overhead = corev1.ResourceList{corev1.ResourceCPU: q("100m"), corev1.ResourceMemory: q("64Mi")}
	}
	if !g.chance(g.taste.podLevel) {
		return
	}
	sums := componentresource.AggregateContainerRequests(pod, componentresource.PodResourcesOptions{})
	requests := corev1.ResourceList{}
	for _, name := range []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory, hugePage} {
		sum, asked := sums[name]
		if g.chance(0.4) || name == hugePage && (!asked || len(requests) == 0) {
			continue
		}
		switch {
		case g.chance(0.4):
		case name == corev1.ResourceCPU:
			sum.Add(pick(g, q("0"), q("1m"), q("250m"), q("1")))
		case name == corev1.ResourceMemory:
			sum.Add(pick(g, q("0"), q("1"), q("100Mi"), q("1Gi")))
		}
		requests[name] = sum
	}
	pod.Spec.Resources = &corev1.ResourceRequirements{Requests: requests}
	if amount, ok := requests[hugePage]; ok {
		pod.Spec.Resources.Limits = corev1.ResourceList{hugePage: amount}
	}
}

// resize draws a status of a bound pod in which its node has other resources for it than the spec asks.
func (g *generator) resize(pod *corev1.Pod) {
	if !g.chance(g.taste.resize) {
		return
	}
	pod.Status.ContainerStatuses, pod.Status.Conditions = nil, nil
	for i := range pod.Spec.Containers {
		if g.chance(0.3) {
			continue
		}
		c := corev1.ContainerStatus{Name: pod.Spec.Containers[i].Name}
		if g.chance(0.7) {
			c.AllocatedResources = g.requests()
		}
		if g.chance(0.7) {
			c.Resources = &corev1.ResourceRequirements{Requests: g.requests()}
		}
		pod.Status.ContainerStatuses = append(pod.Status.ContainerStatuses, c)
	}
	if g.chance(0.3) {
		pod.Status.Conditions = []corev1.PodCondition{{
			Type: corev1.PodResizePending, Status: corev1.ConditionTrue,
			Reason: pick(g, corev1.PodReasonInfeasible, corev1.PodReasonDeferred),
		}}
	}
	if pod.Spec.Resources != nil && g.chance(0.5) {
		pod.Status.AllocatedResources = pick(g, nil, corev1.ResourceList{corev1.ResourceCPU: q("2")}, corev1.ResourceList{corev1.ResourceMemory: q("2G")})
		pod.Status.Resources = &corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceCPU: q("4"), corev1.ResourceMemory: q("4Gi")}}
	}
}

func (g *generator) tolerations() []corev1.Toleration {
	var out []corev1.Toleration
	for g.chance(g.taste.tolerate) && len(out) < 4 {
		t := corev1.Toleration{
			Key:      pick(g, taintKeys...),
			Operator: pick(g, "", corev1.TolerationOpEqual, corev1.TolerationOpExists),
			Value:    pick(g, "", "v1", "v2"),
			Effect:   pick(g, "", corev1.TaintEffectNoSchedule, corev1.TaintEffectPreferNoSchedule, corev1.TaintEffectNoExecute),
		}
		if t.Operator == corev1.TolerationOpExists {
			t.Value = ""
			if g.chance(0.2) {
				t.Key = ""
			}
		}
		if t.Effect == corev1.TaintEffectNoExecute && g.chance(0.5) {
			seconds := int64(300)
			t.TolerationSeconds = &seconds
		}
		out = append(out, t)
	}
	return out
}

// features makes the pod need a feature that its node must declare.
func (g *generator) features(pod *corev1.Pod) {
	if !g.chance(g.taste.feature) {
		return
	}
	switch g.IntN(4) {
	case 0:
		no := false
		pod.Spec.HostUsers = &no
		if pod.Spec.HostNetwork = g.chance(0.8); pod.Spec.HostNetwork {
			for i := range pod.Spec.Containers {
				c := &pod.Spec.Containers[i]
				c.Ports = slices.DeleteFunc(c.Ports, func(p corev1.ContainerPort) bool { return p.HostPort == 0 })
			}
			for i := range pod.Spec.InitContainers {
				c := &pod.Spec.InitContainers[i]
				c.Ports = slices.DeleteFunc(c.Ports, func(p corev1.ContainerPort) bool { return p.HostPort == 0 })
			}
		}
	case 1:
		never := corev1.ContainerRestartPolicyNever
		c := &pod.Spec.Containers[0]
		c.RestartPolicy = &never
		c.RestartPolicyRules = []corev1.ContainerRestartRule{{
			Action: pick(g, corev1.ContainerRestartRuleActionRestartAllContainers, corev1.ContainerRestartRuleActionRestart),
			ExitCodes: &corev1.ContainerRestartRuleOnExitCodes{
				Operator: corev1.ContainerRestartRuleOnExitCodesOpIn, Values: []int32{42},
			},
		}}
	case 2:
		pod.Spec.Volumes = append(pod.Spec.Volumes, corev1.Volume{
			Name: "scratch", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}},
		})
		pod.Spec.Containers[0].VolumeMounts = []corev1.VolumeMount{{Name: "scratch", MountPath: "/scratch", BindMountOptions: []string{"noexec"}}}
	}
}

// owner makes the pod belong to something that default spreading looks at, or to something that it does not.
func (g *generator) owner(pod *corev1.Pod) {
	if len(g.workloads) == 0 || !g.chance(g.taste.defaults) {
		return
	}
	w := pick(g, g.workloads...)
	yes := true
	ref := metav1.OwnerReference{APIVersion: "apps/v1", Kind: w.Kind, Name: w.Name, UID: uid(w.Name), Controller: &yes}
	if w.Kind == kindController {
		ref.APIVersion = "v1"
	}
	if g.chance(0.1) {
		ref.APIVersion = pick(g, "v1", "apps/v1", "batch/v1", "apps/v1beta1")
	}
	if g.chance(0.1) {
		ref.Controller = nil
	}
	if g.chance(0.8) {
		pod.Namespace = w.Namespace
	}
	pod.OwnerReferences = []metav1.OwnerReference{ref}
}

// nodeSelector asks for one label mostly.
func (g *generator) nodeSelector() map[string]string {
	switch g.IntN(12) {
	case 0:
		return map[string]string{}
	case 1:
		return map[string]string{"nowhere": "x"}
	}
	out := make(map[string]string)
	for len(out) == 0 || g.chance(0.2) {
		p := nodeLabels[min(g.IntN(len(nodeLabels)), g.IntN(len(nodeLabels)))]
		maps.Copy(out, g.labels([]pool{p}))
	}
	return out
}
