package cluster_test

import (
	"testing"

	"hilbert.dev/hilbert/cluster"
	"hilbert.dev/hilbert/cluster/facts"
	"hilbert.dev/hilbert/resource"
)

// TestAttachedFollowsPodsAndAttachments: a node that can attach two volumes has one attached by a pod, and the other by a VolumeAttachment; both leave.
func TestAttachedFollowsPodsAndAttachments(t *testing.T) {
	t.Parallel()
	store := cluster.NewStore()
	apply := func(what string, event facts.Event) {
		t.Helper()
		store.Apply(event)
		if err := store.Verify(); err != nil {
			t.Fatalf("%s: %v", what, err)
		}
	}
	asks := &cluster.Class{Requirements: &facts.Requirements{}, Volumes: &facts.VolumeNeeds{Drivers: []facts.DriverNeed{{Driver: "d", Own: 1}}}}
	room := func(what string, want bool) {
		t.Helper()
		if _, full := store.Attachable(store.Slot("n"), asks); (full == "") != want {
			t.Errorf("%s: no room on the node: %q, want room: %v", what, full, want)
		}
	}
	pods := resource.Quantity{Name: resource.NamePods, Amount: 9}
	apply("the node", facts.NodeUpserted{Node: &facts.Node{Name: "n", Allocatable: []resource.Quantity{pods}}})
	apply("its drivers", facts.StorageUpserted{Object: &facts.StorageNode{Node: "n", Drivers: []facts.NodeDriver{{Name: "d", Limit: 2, Limited: true}}}})
	for _, name := range []string{"v", "w"} {
		apply("a volume", facts.StorageUpserted{Object: &facts.Volume{Name: name, Handle: facts.VolumeHandle{Driver: "d", Handle: name}}})
	}
	apply("a claim", facts.StorageUpserted{Object: &facts.Claim{ClaimName: facts.ClaimName{Namespace: "ns", Name: "c"}, UID: "c", Volume: "v", Bound: true}})
	room("nothing is attached", true)
	apply("a pod", facts.PodUpserted{Pod: facts.Pod{UID: "p", Namespace: "ns", Name: "p", Node: "n", Requirements: &facts.Requirements{}, Claims: []facts.ClaimUse{{Claim: "c"}}}})
	room("a pod has one", true)
	attachment := &facts.Attachment{Name: "a", Node: "n", Driver: "d", Volume: "w"}
	apply("an attachment", facts.StorageUpserted{Object: attachment})
	room("and one is attached", false)
	apply("it ends", facts.StorageRemoved{Name: attachment.StorageName()})
	room("the pod has one", true)
	apply("the pod leaves", facts.PodRemoved{UID: "p"})
	if uses := store.Volumes().Uses("p"); uses != nil {
		t.Errorf("a pod that has gone uses %v", uses)
	}
}
