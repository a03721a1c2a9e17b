package script

import (
	"slices"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"

	"hilbert.dev/hilbert/cluster/facts"
)

var storageKinds = map[string]facts.StorageKind{
	"claim": facts.PersistentVolumeClaim, "volume": facts.PersistentVolume, "class": facts.StorageClassKind,
	"driver": facts.CSIDriver, "room": facts.CSIStorageCapacity, "node": facts.CSINode, "attached": facts.VolumeAttachment,
}

// Storage reads a storage object, or that one is gone. Sizes are in GiB; nodes are named by one label.
//
//	storage claim data class=fast size=5 modes=(rwo,rwop) selected=n1 volume=v bound lost deleting owner=p uid=u version=3
//	storage volume v class=fast driver=csi size=5 modes=rwo on=zone:a zone=a+b claim=data uid=u available version=3
//	storage class fast driver=csi waits on=zone:a
//	storage driver csi capacity required
//	storage room r class=fast most=5 on=zone:a
//	storage node n1 drivers=(csi,other:5) migrated=kubernetes.io/aws-ebs
//	storage attached x node=n1 driver=csi volume=v
//	storage claim data gone
func Storage(t testing.TB, d *datadriven.TestData) facts.Event {
	t.Helper()
	kind, name := storageKinds[d.CmdArgs[0].Key], d.CmdArgs[1].Key
	if d.HasArg("gone") {
		gone := facts.StorageName{Kind: kind, Name: name}
		if kind == facts.PersistentVolumeClaim || kind == facts.CSIStorageCapacity {
			gone.Namespace = "default"
		}
		return facts.StorageRemoved{Name: gone}
	}
	r := storageReader{t, d}
	switch kind {
	case facts.PersistentVolumeClaim:
		return facts.StorageUpserted{Object: r.claim(name)}
	case facts.PersistentVolume:
		return facts.StorageUpserted{Object: r.volume(name)}
	case facts.StorageClassKind:
		return facts.StorageUpserted{Object: &facts.StorageClass{Name: name, Driver: r.text("driver"), Attaches: r.text("driver"), Waits: d.HasArg("waits"), Nodes: r.nodes()}}
	case facts.CSIDriver:
		return facts.StorageUpserted{Object: &facts.StorageDriver{Name: name, TellsCapacity: d.HasArg("capacity"), Required: d.HasArg("required")}}
	case facts.CSINode:
		return facts.StorageUpserted{Object: r.node(name)}
	case facts.VolumeAttachment:
		return facts.StorageUpserted{Object: &facts.Attachment{Name: name, Node: r.text("node"), Driver: r.text("driver"), Volume: r.text("volume")}}
	case facts.CSIStorageCapacity:
		return facts.StorageUpserted{Object: &facts.StorageCapacity{
			Namespace: "default", Name: name, StorageClass: r.text("class"), Most: r.size("most"), Capacity: r.size("capacity"), Told: d.HasArg("capacity"), Nodes: facts.LabelSelector{Expressions: r.nodes()[0].Expressions},
		}}
	}
	d.Fatalf(t, "storage: unknown kind %q", d.CmdArgs[0].Key)
	return nil
}

type storageReader struct {
	t testing.TB
	d *datadriven.TestData
}

func (r storageReader) text(key string) (text string) {
	r.d.MaybeScanArgs(r.t, key, &text)
	return text
}

func (r storageReader) size(key string) int64 {
	if !r.d.HasArg(key) {
		return 0
	}
	return scaled(r.t, r.d, r.text(key), 1<<30)
}

func (r storageReader) modes() (modes facts.AccessModes) {
	for _, arg := range r.d.CmdArgs {
		for _, mode := range arg.Vals {
			if arg.Key == "modes" {
				modes |= map[string]facts.AccessModes{"rwo": facts.ReadWriteOnce, "rox": facts.ReadOnlyMany, "rwx": facts.ReadWriteMany, "rwop": facts.ReadWriteOncePod}[mode]
			}
		}
	}
	return modes
}

// nodes reads on=label:value.
func (r storageReader) nodes() []facts.Term {
	label, value, ok := strings.Cut(r.text("on"), ":")
	if !ok {
		return nil
	}
	return []facts.Term{{Expressions: []facts.Requirement{{Key: label, Operator: facts.In, Values: []string{value}}}}}
}

func (r storageReader) claim(name string) *facts.Claim {
	c := &facts.Claim{
		ClaimName: facts.ClaimName{Namespace: "default", Name: name}, UID: r.text("uid"), Pod: facts.UID(r.text("owner")), StorageClass: r.text("class"),
		Volume: r.text("volume"), Bound: r.d.HasArg("bound"), Lost: r.d.HasArg("lost"), Deleting: r.d.HasArg("deleting"), SelectedNode: r.text("selected"),
		Size: r.size("size"), Sized: r.d.HasArg("size"), Modes: r.modes(), Version: r.text("version"),
	}
	if c.UID == "" {
		c.UID = name
	}
	return c
}

func (r storageReader) volume(name string) *facts.Volume {
	v := &facts.Volume{
		Name: name, StorageClass: r.text("class"), Size: r.size("size"), Modes: r.modes(), Nodes: r.nodes(), Available: r.d.HasArg("available"),
		Deleting: r.d.HasArg("deleting"), Version: r.text("version"),
	}
	if driver := r.text("driver"); driver != "" {
		v.Handle = facts.VolumeHandle{Driver: driver, Handle: name}
	}
	if claim := r.text("claim"); claim != "" {
		v.Claim, v.ClaimUID = facts.ClaimName{Namespace: "default", Name: claim}, r.text("uid")
	}
	if zones := r.text("zone"); zones != "" {
		v.Zones = []facts.Requirement{{Key: facts.LabelZone, Operator: facts.In, Values: strings.Split(zones, "+")}}
	}
	return v
}

func (r storageReader) node(name string) *facts.StorageNode {
	n := &facts.StorageNode{Node: name}
	for _, arg := range r.d.CmdArgs {
		if arg.Key == "migrated" {
			n.Migrated = arg.Vals
		}
		if arg.Key != "drivers" {
			continue
		}
		for _, driver := range arg.Vals {
			name, limit, limited := strings.Cut(driver, ":")
			d := facts.NodeDriver{Name: name, Limited: limited}
			if limited {
				d.Limit = scaled(r.t, r.d, limit, 1)
			}
			n.Drivers = append(n.Drivers, d)
		}
	}
	slices.SortFunc(n.Drivers, func(a, b facts.NodeDriver) int { return strings.Compare(a.Name, b.Name) })
	return n
}

// claims reads the claims that a pod uses; a name that ends in ! is of an ephemeral volume.
func claims(values []string) (uses []facts.ClaimUse) {
	for _, value := range values {
		name, ephemeral := strings.CutSuffix(value, "!")
		uses = append(uses, facts.ClaimUse{Claim: name, Ephemeral: ephemeral})
	}
	return uses
}
