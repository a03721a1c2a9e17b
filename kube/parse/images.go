package parse

import (
	"cmp"
	"encoding/binary"
	"hash/maphash"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/version"
	"k8s.io/component-helpers/nodedeclaredfeatures"
	"k8s.io/component-helpers/nodedeclaredfeatures/types"

	"hilbert.dev/hilbert/cluster/facts"
)

// normalized adds the tag that an image's name without tag or digest means.
func normalized(name string) string {
	if strings.LastIndexByte(name, ':') > strings.LastIndexByte(name, '/') {
		return name
	}
	return name + ":latest"
}

// maxImageSets bounds the lists of images that are remembered; when there are more it starts anew.
const maxImageSets = 1 << 10

// imageSets gives nodes with the same images the same slice. It remembers them by hash, because spelling fifty images out costs more
// than they do.
type imageSets struct {
	strings *interner
	seed    maphash.Seed
	known   map[uint64][]facts.Image
	scratch []facts.Image
}

// of lists what a node has under each of its names, sorted. Of two sizes for a name the first counts, as upstream has it. The result is shared: do not
// change it.
func (s *imageSets) of(list []corev1.ContainerImage) []facts.Image {
	s.scratch = s.scratch[:0]
	for i := range list {
		for _, name := range list[i].Names {
			s.scratch = append(s.scratch, facts.Image{Name: name, Size: list[i].SizeBytes})
		}
	}
	if len(s.scratch) == 0 {
		return nil
	}
	slices.SortStableFunc(s.scratch, func(a, b facts.Image) int { return cmp.Compare(a.Name, b.Name) })
	found := slices.CompactFunc(s.scratch, func(a, b facts.Image) bool { return a.Name == b.Name })
	defer clear(s.scratch) // else it would hold the node's strings
	hash := s.hash(found)
	if known, ok := s.known[hash]; ok && slices.Equal(known, found) {
		return known
	}
	out := slices.Clone(found)
	for i := range out {
		out[i].Name = s.strings.get(out[i].Name)
	}
	if s.known == nil || len(s.known) >= maxImageSets {
		s.known = make(map[uint64][]facts.Image)
	}
	s.known[hash] = out
	return out
}

// names lists the images of a pod, one entry for each use, under the names that nodes report.
func (s *imageSets) names(spec *corev1.PodSpec) []string {
	out := make([]string, 0, len(spec.InitContainers)+len(spec.Containers))
	add := func(name string) { out = append(out, s.strings.get(normalized(name))) }
	for i := range spec.InitContainers {
		add(spec.InitContainers[i].Image)
	}
	for i := range spec.Containers {
		add(spec.Containers[i].Image)
	}
	for i := range spec.Volumes {
		if image := spec.Volumes[i].Image; image != nil {
			add(image.Reference)
		}
	}
	return out
}

func (s *imageSets) hash(list []facts.Image) uint64 {
	var h maphash.Hash
	h.SetSeed(s.seed)
	var size [8]byte
	for i := range list {
		_, _ = h.WriteString(list[i].Name) // never fails
		binary.LittleEndian.PutUint64(size[:], uint64(list[i].Size))
		_, _ = h.Write(size[:])
	}
	return h.Sum64()
}

// referenceVersion is the Kubernetes version whose placement rules we honour.
var referenceVersion = version.MustParseGeneric("1.37.0")

// neededFeatures names what the pod needs its node to declare, sorted. nil for nearly every pod.
func neededFeatures(s *corev1.PodSpec) []string {
	framework := nodedeclaredfeatures.DefaultFramework
	needed, err := framework.InferForPodScheduling(&types.PodInfo{Spec: s}, referenceVersion)
	if err != nil || needed.IsEmpty() { // it fails without a version only
		return nil
	}
	names, err := framework.Unmap(needed)
	if err != nil { // it fails for a set of another framework only
		return nil
	}
	return names
}

// declared lists the features that a node declares, sorted. Nodes of one version share it.
func (p *Parser) declared(features []string) []string {
	if !slices.Equal(features, p.features) {
		p.features = p.constraints.sortedSet(features)
	}
	return p.features
}
