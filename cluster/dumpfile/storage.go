package dumpfile

import (
	"errors"

	"hilbert.dev/hilbert/cluster/facts"
)

// storageRecord is one storage object: the field of its kind is set.
type storageRecord struct {
	Claim    *claimRecord        `json:"claim,omitempty"`
	Volume   *volumeRecord       `json:"volume,omitempty"`
	Class    *storageClassRecord `json:"class,omitempty"`
	Driver   *driverRecord       `json:"driver,omitempty"`
	Capacity *capacityRecord     `json:"capacity,omitempty"`
	Node     *storageNodeRecord  `json:"node,omitempty"`
	Attached *attachmentRecord   `json:"attached,omitempty"`
}

type claimUseRecord struct {
	Claim     string       `json:"claim,omitempty"`
	Inline    handleRecord `json:"inline,omitzero"`
	Ephemeral bool         `json:"ephemeral,omitempty"`
}

type handleRecord struct {
	Driver string `json:"driver,omitempty"`
	Handle string `json:"handle,omitempty"`
}

func writeClaimUse(u facts.ClaimUse) claimUseRecord {
	return claimUseRecord{u.Claim, handleRecord(u.Inline), u.Ephemeral}
}

func readClaimUse(r claimUseRecord) facts.ClaimUse {
	return facts.ClaimUse{Claim: r.Claim, Inline: facts.VolumeHandle(r.Inline), Ephemeral: r.Ephemeral}
}

type claimRecord struct {
	Namespace    string            `json:"namespace"`
	Name         string            `json:"name"`
	UID          string            `json:"uid"`
	Pod          facts.UID         `json:"pod,omitempty"`
	StorageClass string            `json:"storageClass,omitempty"`
	Volume       string            `json:"volume,omitempty"`
	Bound        bool              `json:"bound,omitempty"`
	Lost         bool              `json:"lost,omitempty"`
	Deleting     bool              `json:"deleting,omitempty"`
	SelectedNode string            `json:"selectedNode,omitempty"`
	Size         int64             `json:"size,omitempty"`
	Sized        bool              `json:"sized,omitempty"`
	Modes        facts.AccessModes `json:"modes,omitempty"`
	Block        bool              `json:"block,omitempty"`
	Attributes   string            `json:"attributes,omitempty"`
	Selector     selectorRecord    `json:"selector,omitzero"`
	Version      string            `json:"version,omitempty"`
}

type volumeRecord struct {
	Name           string              `json:"name"`
	StorageClass   string              `json:"storageClass,omitempty"`
	Size           int64               `json:"size,omitempty"`
	Modes          facts.AccessModes   `json:"modes,omitempty"`
	Block          bool                `json:"block,omitempty"`
	Attributes     string              `json:"attributes,omitempty"`
	Labels         map[string]string   `json:"labels,omitempty"`
	Nodes          *[]termRecord       `json:"nodes,omitempty"` // absent: everywhere
	Handle         handleRecord        `json:"handle,omitzero"`
	InTree         string              `json:"inTree,omitempty"`
	Translated     *[]termRecord       `json:"translated,omitempty"` // absent: everywhere
	Zones          []requirementRecord `json:"zones,omitempty"`
	ClaimNamespace string              `json:"claimNamespace,omitempty"`
	Claim          string              `json:"claim,omitempty"`
	ClaimUID       string              `json:"claimUID,omitempty"`
	Available      bool                `json:"available,omitempty"`
	Deleting       bool                `json:"deleting,omitempty"`
	Version        string              `json:"version,omitempty"`
}

type storageClassRecord struct {
	Name     string        `json:"name"`
	Driver   string        `json:"driver,omitempty"`
	Attaches string        `json:"attaches,omitempty"`
	InTree   bool          `json:"inTree,omitempty"`
	Waits    bool          `json:"waits,omitempty"`
	Nodes    *[]termRecord `json:"nodes,omitempty"` // absent: everywhere
}

type driverRecord struct {
	Name          string `json:"name"`
	TellsCapacity bool   `json:"tellsCapacity,omitempty"`
	Required      bool   `json:"required,omitempty"`
}

type storageNodeRecord struct {
	Node     string             `json:"node"`
	Drivers  []nodeDriverRecord `json:"drivers,omitempty"`
	Migrated []string           `json:"migrated,omitempty"`
}

type nodeDriverRecord struct {
	Name  string `json:"name"`
	Limit *int64 `json:"limit,omitempty"` // absent: none
}

type attachmentRecord struct {
	Name   string `json:"name"`
	Node   string `json:"node"`
	Driver string `json:"driver"`
	Volume string `json:"volume"`
}

func writeNodeDriver(d facts.NodeDriver) nodeDriverRecord {
	r := nodeDriverRecord{Name: d.Name}
	if d.Limited {
		r.Limit = &d.Limit
	}
	return r
}

func readNodeDriver(r nodeDriverRecord) facts.NodeDriver {
	d := facts.NodeDriver{Name: r.Name}
	if r.Limit != nil {
		d.Limit, d.Limited = *r.Limit, true
	}
	return d
}

type capacityRecord struct {
	Namespace    string         `json:"namespace"`
	Name         string         `json:"name"`
	StorageClass string         `json:"storageClass"`
	Nodes        selectorRecord `json:"nodes"`
	Most         int64          `json:"most"`
	Capacity     *int64         `json:"capacity,omitempty"` // nil: the driver does not say
}

func writeTerms(list []facts.Term) *[]termRecord {
	if list == nil {
		return nil
	}
	records := make([]termRecord, 0, len(list))
	for _, t := range list {
		records = append(records, writeTerm(t))
	}
	return &records
}

func readTerms(records *[]termRecord) []facts.Term {
	if records == nil {
		return nil
	}
	list := make([]facts.Term, 0, len(*records))
	for _, r := range *records {
		list = append(list, readTerm(r))
	}
	return list
}

func writeStorage(object facts.StorageObject) (r storageRecord) {
	switch o := object.(type) {
	case *facts.Claim:
		r.Claim = &claimRecord{
			Namespace: o.Namespace, Name: o.Name, UID: o.UID, Pod: o.Pod, StorageClass: o.StorageClass, Volume: o.Volume, Bound: o.Bound, Lost: o.Lost,
			Deleting: o.Deleting, SelectedNode: o.SelectedNode, Size: o.Size, Sized: o.Sized, Modes: o.Modes, Block: o.Block, Attributes: o.Attributes,
			Selector: writeSelector(o.Selector), Version: o.Version,
		}
	case *facts.Volume:
		r.Volume = &volumeRecord{
			Name: o.Name, StorageClass: o.StorageClass, Size: o.Size, Modes: o.Modes, Block: o.Block, Attributes: o.Attributes, Labels: labelMap(o.Labels),
			Nodes: writeTerms(o.Nodes), Handle: handleRecord(o.Handle), InTree: o.InTree, Translated: writeTerms(o.Translated),
			Zones: each(o.Zones, writeRequirement), ClaimNamespace: o.Claim.Namespace, Claim: o.Claim.Name, ClaimUID: o.ClaimUID,
			Available: o.Available, Deleting: o.Deleting, Version: o.Version,
		}
	case *facts.StorageClass:
		r.Class = &storageClassRecord{o.Name, o.Driver, o.Attaches, o.InTree, o.Waits, writeTerms(o.Nodes)}
	case *facts.StorageDriver:
		r.Driver = &driverRecord{o.Name, o.TellsCapacity, o.Required}
	case *facts.StorageCapacity:
		r.Capacity = &capacityRecord{Namespace: o.Namespace, Name: o.Name, StorageClass: o.StorageClass, Nodes: writeSelector(o.Nodes), Most: o.Most}
		if o.Told {
			r.Capacity.Capacity = &o.Capacity
		}
	case *facts.StorageNode:
		r.Node = &storageNodeRecord{o.Node, each(o.Drivers, writeNodeDriver), o.Migrated}
	case *facts.Attachment:
		r.Attached = &attachmentRecord{o.Name, o.Node, o.Driver, o.Volume}
	}
	return r
}

func readStorage(r *storageRecord) (facts.StorageObject, error) {
	switch {
	case r.Claim != nil:
		c := r.Claim
		return &facts.Claim{
			ClaimName: facts.ClaimName{Namespace: c.Namespace, Name: c.Name}, UID: c.UID, Pod: c.Pod, StorageClass: c.StorageClass, Volume: c.Volume, Bound: c.Bound,
			Lost: c.Lost, Deleting: c.Deleting, SelectedNode: c.SelectedNode, Size: c.Size, Sized: c.Sized, Modes: c.Modes, Block: c.Block, Attributes: c.Attributes,
			Selector: readSelector(c.Selector), Version: c.Version,
		}, nil
	case r.Volume != nil:
		v := r.Volume
		return &facts.Volume{
			Name: v.Name, StorageClass: v.StorageClass, Size: v.Size, Modes: v.Modes, Block: v.Block, Attributes: v.Attributes, Labels: labelList(v.Labels),
			Nodes: readTerms(v.Nodes), Handle: facts.VolumeHandle(v.Handle), InTree: v.InTree, Translated: readTerms(v.Translated),
			Zones: each(v.Zones, readRequirement), Claim: facts.ClaimName{Namespace: v.ClaimNamespace, Name: v.Claim}, ClaimUID: v.ClaimUID,
			Available: v.Available, Deleting: v.Deleting, Version: v.Version,
		}, nil
	case r.Class != nil:
		c := r.Class
		return &facts.StorageClass{Name: c.Name, Driver: c.Driver, Attaches: c.Attaches, InTree: c.InTree, Waits: c.Waits, Nodes: readTerms(c.Nodes)}, nil
	case r.Driver != nil:
		return &facts.StorageDriver{Name: r.Driver.Name, TellsCapacity: r.Driver.TellsCapacity, Required: r.Driver.Required}, nil
	case r.Capacity != nil:
		c := r.Capacity
		capacity := &facts.StorageCapacity{Namespace: c.Namespace, Name: c.Name, StorageClass: c.StorageClass, Nodes: readSelector(c.Nodes), Most: c.Most}
		if c.Capacity != nil {
			capacity.Capacity, capacity.Told = *c.Capacity, true
		}
		return capacity, nil
	case r.Node != nil:
		return &facts.StorageNode{Node: r.Node.Node, Drivers: each(r.Node.Drivers, readNodeDriver), Migrated: r.Node.Migrated}, nil
	case r.Attached != nil:
		a := r.Attached
		return &facts.Attachment{Name: a.Name, Node: a.Node, Driver: a.Driver, Volume: a.Volume}, nil
	}
	return nil, errors.New("storage: an object is of no kind; write one of claim, volume, class, driver, capacity, node, attached")
}
