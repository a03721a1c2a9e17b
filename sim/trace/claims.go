package trace

import (
	"fmt"
	"maps"
	"math/rand/v2"

	"hilbert.dev/hilbert/cluster/facts"
)

// TaskClaim is a PersistentVolumeClaim of a task, as a StatefulSet makes them: it comes with the first pod of the name, and the next pod of the name uses it too.
type TaskClaim struct {
	StorageClass string
	Size         int64 // bytes
}

// Storage is the storage of a workload. All of its classes wait for the first consumer.
type Storage struct {
	Classes []*facts.StorageClass
	// Volumes are there from the beginning, and are given back when their claims go.
	Volumes []*facts.Volume
}

// The storage classes of synthetic workloads: volumes that exist on nodes, that are made on a node, and that are made for a zone.
const (
	ClassLocal = "local"
	ClassMade  = "made"
	ClassZonal = "zonal"
)

// localVolumeSize is that of every volume that exists, in bytes.
const localVolumeSize = int64(100) << 30

// claim gives so many percent of the pods a claim, and each node a volume.
func (s Synthetic) claim(w *Workload, random *rand.Rand) {
	w.Storage = &Storage{Classes: []*facts.StorageClass{
		{Name: ClassLocal, Waits: true}, {Name: ClassMade, Driver: "made.example", Waits: true}, {Name: ClassZonal, Driver: "zonal.example", Waits: true},
	}}
	for i, n := range w.Nodes {
		labels := maps.Clone(n.Labels)
		labels[facts.HostnameKey] = n.Name
		n.Labels = labels
		w.Storage.Volumes = append(w.Storage.Volumes, &facts.Volume{
			Name: fmt.Sprintf("local-%06d", i), StorageClass: ClassLocal, Size: localVolumeSize, Modes: facts.ReadWriteOnce, Available: true, Version: "1",
			Nodes: []facts.Term{{Expressions: []facts.Requirement{{Key: facts.HostnameKey, Operator: facts.In, Values: []string{n.Name}}}}},
		})
	}
	for i := range w.Tasks {
		if random.IntN(100) >= s.Claims {
			continue
		}
		classes := [...]string{ClassMade, ClassMade, ClassZonal, ClassLocal}
		class := classes[random.IntN(len(classes))]
		w.Tasks[i].Claims = []TaskClaim{{StorageClass: class, Size: int64(1+random.IntN(100)) << 30}}
	}
}
