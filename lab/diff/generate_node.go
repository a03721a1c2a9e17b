package diff

import (
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apiresource "k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// pool is a label's key and the values it may have. The value "-" leaves the label out.
type pool struct {
	key    string
	values []string
}

const absent = "-"

var (
	nodeLabels = []pool{
		{corev1.LabelTopologyZone, []string{"a", "a", "b", "b", "c", "", absent}},
		{corev1.LabelTopologyRegion, []string{"r", "r", "s", absent}},
		{"rack", []string{"1", "2", "3", absent}},
		{"disk", []string{"ssd", "hdd", "", absent, absent}},
		{"cores", []string{"4", "8", "08", "16", "abc", "9223372036854775808", "", absent}},
		{"gpu", []string{"", "true", absent, absent}},
	}
	podLabels = []pool{
		{"app", []string{"a", "a", "b", "c", absent}},
		{"tier", []string{"x", "y", "", absent, absent}},
		{"hash", []string{"1", "2", absent}},
	}
	namespaceLabels = []pool{
		{"team", []string{"red", "blue", "", absent}},
		{"env", []string{"prod", "test", absent}},
	}
	topologyKeys = []string{
		corev1.LabelHostname, corev1.LabelHostname, corev1.LabelTopologyZone, corev1.LabelTopologyZone, corev1.LabelTopologyRegion, "rack", "nowhere",
	}
)

// labels draws a value for each key of the pools.
func (g *generator) labels(pools []pool) map[string]string {
	out := make(map[string]string, len(pools)+1)
	for i := range pools {
		if v := pick(g, pools[i].values...); v != absent {
			out[pools[i].key] = v
		}
	}
	return out
}

func (g *generator) addNode() {
	if len(g.nodes) >= fewNodes && !g.wide || len(g.nodes) >= wideNodes {
		return
	}
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: g.name("node")}}
	node.Labels = g.nodeLabels(node.Name)
	node.Spec.Taints = g.taints()
	node.Spec.Unschedulable = g.chance(g.taste.cordon / 2)
	node.Status.Allocatable = g.allocatable()
	node.Status.Images = g.nodeImages()
	node.Status.DeclaredFeatures = g.declared()
	g.nodes = append(g.nodes, node)
	g.do(Step{Node: node})
}

// changeNode changes one thing about a node. A node that was removed comes back this way.
func (g *generator) changeNode() {
	if len(g.nodes) == 0 {
		return
	}
	i := g.IntN(len(g.nodes))
	node := *g.nodes[i]
	what := g.IntN(8)
	if g.chance(g.taste.image / 2) {
		what = 6
	}
	switch what {
	case 0:
		node.Labels = g.nodeLabels(node.Name)
	case 1, 2:
		if node.Labels == nil {
			node.Labels = map[string]string{}
		}
		node.Labels = maps.Clone(node.Labels)
		one := g.labels(nodeLabels[:3])
		key := pick(g, nodeLabels[:3]...).key
		delete(node.Labels, key)
		if v, ok := one[key]; ok {
			node.Labels[key] = v
		}
	case 3:
		node.Spec.Taints = g.taints()
	case 4:
		node.Spec.Unschedulable = !node.Spec.Unschedulable && g.chance(g.taste.cordon)
	case 5:
		node.Status.Allocatable = g.allocatable()
	case 6:
		node.Status.Images = g.nodeImages()
	case 7:
		node.Status.DeclaredFeatures = g.declared()
	}
	g.nodes[i] = &node
	g.do(Step{Node: &node})
}

func (g *generator) nodeLabels(name string) map[string]string {
	if g.chance(g.taste.oddLabel / 10) {
		return nil
	}
	kinds := nodeLabels
	if g.plain {
		kinds = nodeLabels[:1]
	}
	out := g.labels(kinds)
	out[corev1.LabelHostname] = name
	if g.chance(g.taste.oddLabel / 2) {
		switch g.IntN(3) {
		case 0:
			delete(out, corev1.LabelHostname)
		case 1:
			out[corev1.LabelHostname] = "twin" // as another node may call itself
		case 2:
			out[corev1.LabelHostname] = ""
		}
	}
	return out
}

var taintKeys = []string{"k1", "k1", "k2", "k3", corev1.TaintNodeUnschedulable}

func (g *generator) taints() []corev1.Taint {
	var out []corev1.Taint
	for g.chance(g.taste.taint) && len(out) < 4 {
		taint := corev1.Taint{
			Key: pick(g, taintKeys...), Value: pick(g, "", "v1", "v2"),
			Effect: pick(g, corev1.TaintEffectNoSchedule, corev1.TaintEffectPreferNoSchedule, corev1.TaintEffectPreferNoSchedule, corev1.TaintEffectNoExecute),
		}
		if slices.ContainsFunc(out, func(other corev1.Taint) bool { return other.MatchTaint(&taint) }) {
			break
		}
		out = append(out, taint)
	}
	return out
}

const (
	widget   = "example.com/widget"
	hugePage = "hugepages-2Mi"
)

// allocatable draws what a node has: mostly enough, and tight in a tight case.
func (g *generator) allocatable() corev1.ResourceList {
	if g.plain && g.chance(0.9) {
		return corev1.ResourceList{corev1.ResourceCPU: q("8"), corev1.ResourceMemory: q("32Gi"), corev1.ResourcePods: q("110"), widget: q("8")}
	}
	out := corev1.ResourceList{}
	set := func(name corev1.ResourceName, values ...apiresource.Quantity) { out[name] = pick(g, values...) }
	if g.chance(g.taste.tight) {
		set(corev1.ResourceCPU, q("0"), q("500m"), q("1"), q("1500m"), q("2"), q("4"))
		set(corev1.ResourceMemory, q("0"), q("512Mi"), q("1Gi"), q("2G"), q("4Gi"))
		set(corev1.ResourcePods, q("0"), q("1"), q("3"), q("5"), q("110"))
	} else {
		set(corev1.ResourceCPU, q("16"), q("32"), q("7910m"), q("64"))
		set(corev1.ResourceMemory, q("32Gi"), q("64Gi"), q("16333333Ki"), q("1Pi"))
		set(corev1.ResourcePods, q("110"), q("250"))
	}
	for _, name := range []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory, corev1.ResourcePods} {
		if g.chance(g.taste.tight / 20) {
			delete(out, name)
		}
	}
	if g.chance(0.5) {
		set(corev1.ResourceEphemeralStorage, q("0"), q("1Gi"), q("10Gi"), q("100Gi"))
	}
	if g.chance(0.2 + g.taste.extended) {
		set(widget, q("0"), q("1"), q("2"), q("8"))
	}
	if g.chance(g.taste.extended) {
		set(hugePage, q("0"), q("4Mi"), q("64Mi"))
	}
	return out
}

// image is one image under its names. Its size is the same everywhere.
type image struct {
	names []string
	size  int64
}

const mebi = 1 << 20

var images = []image{
	{[]string{"registry.example/web:1", "registry.example/web@sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"}, 500 * mebi},
	{[]string{"app:latest"}, 23 * mebi},
	{[]string{"db:2", "library/db:2"}, 1000 * mebi},
	{[]string{"big:1"}, 1777777777},
	{[]string{"small:1"}, 1},
	{[]string{"none:1"}, 0},
	{[]string{"localhost:5000/tool:latest"}, 46*mebi + 1},
	{nil, 99 * mebi},
}

// manyImages is how many further images an image-rich case has: kubelets report up to 50 of each node.
const manyImages = 60

func manyImage(i int) string { return fmt.Sprintf("registry.example/many-%d:1", i) }

func (g *generator) nodeImages() []corev1.ContainerImage {
	var out []corev1.ContainerImage
	if g.imageRich {
		for i := range manyImages {
			if g.chance(0.6) {
				out = append(out, corev1.ContainerImage{Names: []string{manyImage(i)}, SizeBytes: int64(1+i*37%900) * mebi})
			}
		}
	}
	for g.chance(g.taste.image) && len(out) < 6 {
		i := pick(g, images...)
		out = append(out, corev1.ContainerImage{Names: i.names, SizeBytes: i.size})
	}
	return out
}

// featureNames are the features that pods may need here, and an unknown one, sorted.
var featureNames = []string{"RestartAllContainersOnContainerExits", "SomethingNew", "UserNamespacesHostNetworkSupport", "VolumeBindMountOptions"}

func (g *generator) declared() []string {
	var out []string
	for _, name := range featureNames {
		if g.chance(0.8) {
			out = append(out, name)
		}
	}
	return out
}

// q parses a quantity, once for each spelling.
func q(text string) apiresource.Quantity { return quantities[text].DeepCopy() }

var quantities = func() map[string]apiresource.Quantity {
	out := make(map[string]apiresource.Quantity)
	for _, text := range []string{
		"0", "1", "2", "3", "4", "5", "8", "16", "32", "64", "110", "250", "1m", "100m", "250m", "500m", "0.5", "1500m", "7910m", "1000000",
		"4Mi", "64Mi", "100Mi", "128Mi", "200Mi", "512Mi", "1Gi", "2G", "1.5Gi", "4Gi", "10Gi", "32Gi", "64Gi", "100Gi", "16333333Ki", "1Pi",
	} {
		// As the API server says it. Upstream adds in place to the big numbers that a fraction makes of "1.5Gi".
		spelt := apiresource.MustParse(text)
		out[text] = apiresource.MustParse(spelt.String())
	}
	return out
}()
