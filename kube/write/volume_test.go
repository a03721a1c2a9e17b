package write

import (
	"testing"

	"hilbert.dev/hilbert/cluster/facts"
	"hilbert.dev/hilbert/cluster/volumes"
	"hilbert.dev/hilbert/kube/apiserver"
	"hilbert.dev/hilbert/schedule/bind"
)

func TestVolumeCall(t *testing.T) {
	claim := facts.ClaimName{Namespace: "shop", Name: "data"}
	for _, c := range []struct {
		o          volumes.Obligation
		path, body string
	}{
		{
			volumes.Obligation{Claim: claim, ClaimUID: "u", Node: "n1", Version: "5"},
			"/api/v1/namespaces/shop/persistentvolumeclaims/data",
			`{"metadata":{"uid":"u","resourceVersion":"5","annotations":{"volume.kubernetes.io/selected-node":"n1"}}}`,
		},
		{
			volumes.Obligation{Claim: claim, ClaimUID: "u", Node: "n1", Volume: "v", Version: "7"},
			"/api/v1/persistentvolumes/v",
			`{"metadata":{"resourceVersion":"7","annotations":{"pv.kubernetes.io/bound-by-controller":"yes"}},` +
				`"spec":{"claimRef":{"kind":"PersistentVolumeClaim","namespace":"shop","name":"data","uid":"u","apiVersion":"v1"}}}`,
		},
	} {
		var call apiserver.Call
		if err := volumeCall(&bind.Write{Kind: bind.WriteVolume, Volume: c.o}, &call); err != nil || call.Path != c.path || string(call.Body) != c.body {
			t.Errorf("%s %s: %v", call.Path, call.Body, err)
		}
		if result := volumeResult(bind.Result{Outcome: bind.Refused}, 409); result.Outcome != bind.Conflict {
			t.Errorf("%s: a conflict is %v", c.path, result.Outcome)
		}
	}
	unknown := bind.Write{Kind: bind.WriteVolume, Volume: volumes.Obligation{Claim: claim, ClaimUID: "u", Node: "n1", Volume: "v"}}
	if err := volumeCall(&unknown, &apiserver.Call{}); err == nil {
		t.Error("a volume without a version, which another claim may have, is given to this one")
	}
}
