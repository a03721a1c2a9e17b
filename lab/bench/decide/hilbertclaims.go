package decide

import (
	"encoding/json"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	scenarios "hilbert.dev/hilbert/bench"
	"hilbert.dev/hilbert/cluster/facts"
	"hilbert.dev/hilbert/kube/parse"
	"hilbert.dev/hilbert/schedule"
	writes "hilbert.dev/hilbert/schedule/bind"
)

// hilbertClaims is the watch on claims: what is told of them, and what comes of the writes about them.
type hilbertClaims struct {
	claimObjects

	scheduler *schedule.Scheduler
	parser    *parse.Parser
	zones     map[string]string // of each node
	// Of the pod at hand.
	volume *corev1.PersistentVolumeClaim
	device *resourcev1.ResourceClaim
	err    error // the first
}

func newHilbertClaims(kind scenarios.Case, scheduler *schedule.Scheduler, nodes []scenarios.Node, now time.Time) *hilbertClaims {
	c := &hilbertClaims{
		claimObjects: claimObjects{kind: kind}, scheduler: scheduler, parser: parse.NewParser(corev1.DefaultSchedulerName, nil),
		zones: make(map[string]string, len(nodes)),
	}
	if kind == scenarios.Devices {
		scheduler.Apply(facts.DRAUpserted{Object: c.parser.DeviceClass(deviceClass())}, now)
	} else {
		scheduler.Apply(facts.StorageUpserted{Object: c.parser.StorageClass(storageClass())}, now)
	}
	for i := range nodes {
		n := &nodes[i]
		c.zones[n.Name] = n.Labels[scenarios.LabelZone]
		if kind == scenarios.Devices {
			scheduler.Apply(facts.DRAUpserted{Object: c.parser.ResourceSlice(deviceSlice(n.Name))}, now)
		} else {
			scheduler.Apply(facts.StorageUpserted{Object: c.parser.StorageNode(csiNode(n.Name))}, now)
		}
	}
	return c
}

// come gives a pod its claim, which is made now unless it was there before.
func (c *hilbertClaims) come(pod *facts.Pod, claim string, there bool, now time.Time) {
	if c.kind == scenarios.Devices {
		pod.ResourceClaims = []facts.ResourceClaimUse{{Claim: claim}}
		c.device = c.deviceClaim(claim)
		c.seeDevice(now)
		return
	}
	pod.Claims = []facts.ClaimUse{{Claim: claim}}
	if there {
		return
	}
	c.volume = c.volumeClaim(claim)
	if c.kind == scenarios.Volumes {
		c.bindVolume(claimZone(claim), now)
		return
	}
	c.scheduler.Apply(facts.StorageUpserted{Object: c.parser.Claim(c.volume)}, now)
}

func (c *hilbertClaims) bindVolume(zone string, now time.Time) {
	made := c.bind(c.volume, zone)
	c.scheduler.Apply(facts.StorageUpserted{Object: c.parser.Volume(made)}, now)
	c.scheduler.Apply(facts.StorageUpserted{Object: c.parser.Claim(c.volume)}, now)
}

func (c *hilbertClaims) seeDevice(now time.Time) {
	c.scheduler.Apply(facts.DRAUpserted{Object: c.parser.ResourceClaim(c.device)}, now)
}

// see is what the watch says after a write about the claim of the pod at hand. A claim that is told its node gets a volume there at once.
func (c *hilbertClaims) see(w *writes.Write, now time.Time) {
	switch w.Kind {
	case writes.WriteVolume:
		c.volume = c.volume.DeepCopy()
		metav1.SetMetaDataAnnotation(&c.volume.ObjectMeta, parse.AnnotationSelectedNode, w.Volume.Node)
		c.bindVolume(c.zones[w.Volume.Node], now)
	case writes.WriteClaim:
		c.device = c.device.DeepCopy()
		if w.Claim.Protect {
			c.device.Finalizers = []string{resourcev1.Finalizer}
		} else {
			c.allocate(w)
		}
		c.touch(c.device)
		c.seeDevice(now)
	}
}

func (c *hilbertClaims) allocate(w *writes.Write) {
	if w.Claim.Allocation != "" {
		allocation := new(resourcev1.AllocationResult)
		if err := json.Unmarshal([]byte(w.Claim.Allocation), allocation); err != nil && c.err == nil {
			c.err = fmt.Errorf("allocation of claim %s: %w", w.Claim.Claim, err)
		}
		c.device.Status.Allocation = allocation
	}
	c.device.Status.ReservedFor = append(c.device.Status.ReservedFor, resourcev1.ResourceClaimConsumerReference{Resource: "pods", Name: string(w.Pod), UID: types.UID(w.Pod)})
}

// leave removes the claim of a pod that has left, unless it is kept.
func (c *hilbertClaims) leave(claim string, now time.Time) {
	name := facts.ClaimName{Namespace: scenarios.Namespace, Name: claim}
	switch {
	case c.kind == scenarios.Devices:
		c.scheduler.Apply(facts.DRARemoved{Name: (&facts.ResourceClaim{ClaimName: name}).DRAName()}, now)
	case !c.keeps():
		c.scheduler.Apply(facts.StorageRemoved{Name: (&facts.Claim{ClaimName: name}).StorageName()}, now)
		c.scheduler.Apply(facts.StorageRemoved{Name: (&facts.Volume{Name: volumeName(claim)}).StorageName()}, now)
	}
}
