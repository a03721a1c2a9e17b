package kube

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
			volumes.Obligation{Claim: claim, ClaimUID: "u", Node: "n1"},
			"/api/v1/namespaces/shop/persistentvolumeclaims/data",
			`{"metadata":{"uid":"u","annotations":{"volume.kubernetes.io/selected-node":"n1"}}}`,
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
		result := volumeResult(&bind.Write{Volume: c.o}, bind.Result{Outcome: bind.Refused}, 409)
		if want := map[bool]bind.Outcome{true: bind.Conflict, false: bind.Refused}[c.o.Volume != ""]; result.Outcome != want {
			t.Errorf("%s: a conflict is %v", c.path, result.Outcome)
		}
	}
}
