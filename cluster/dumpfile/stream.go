package dumpfile

import (
	"encoding/json"
	"fmt"
	"maps"

	"hilbert.dev/hilbert/cluster"
	"hilbert.dev/hilbert/cluster/facts"
	"hilbert.dev/hilbert/internal/jsonstream"
)

// Write writes the fields of a dump. Requirements that are equal stand once, in a list of their own. Sort first, for equal dumps to be
// equal bytes.
func Write(o *jsonstream.Writer, d *cluster.Dump) {
	distinct, index := distinctRequirements(d)
	o.Field("revision", d.Revision)
	o.Field("resources", d.Resources)
	o.List("defaults", len(d.Defaults), func(i int) any { return spreadDefaultRecord(d.Defaults[i]) })
	o.Field("maxWaitingClasses", d.MaxWaitingClasses)
	o.List("namespaces", len(d.Namespaces), func(i int) any {
		return namespaceRecord{d.Namespaces[i].Name, labelMap(d.Namespaces[i].Labels)}
	})
	o.List("workloads", len(d.Workloads), func(i int) any {
		x := d.Workloads[i]
		return workloadRecord{workloadText(x.Kind), x.Namespace, x.Name, writeSelector(x.Pods)}
	})
	o.List("budgets", len(d.Budgets), func(i int) any {
		b := d.Budgets[i]
		return budgetRecord{b.Namespace, b.Name, writeSelector(b.Pods), b.Allowed, b.Disrupted}
	})
	o.List("queues", len(d.Queues), func(i int) any { return writeQueue(d.Queues[i]) })
	o.List("units", len(d.Units), func(i int) any { return writeUnit(&d.Units[i]) })
	o.List("reservations", len(d.Reservations), func(i int) any { return reservationRecord(d.Reservations[i]) })
	o.List("placeholders", len(d.Placeholders), func(i int) any { return writePlaceholders(&d.Placeholders[i]) })
	o.List("reports", len(d.Reports), func(i int) any { return writeReport(d.Reports[i]) })
	o.List("storage", len(d.Storage), func(i int) any { return writeStorage(d.Storage[i]) })
	o.List("devices", len(d.DRA), func(i int) any { return writeDRA(d.DRA[i]) })
	o.List("requirements", len(distinct), func(i int) any { return writeRequirements(distinct[i]) })
	o.List("nodes", len(d.Nodes), func(i int) any { return writeNode(d.Nodes[i]) })
	o.List("pods", len(d.Pods), func(i int) any { return writePod(&d.Pods[i], index[i]) })
}

// distinctRequirements lists the requirements by their first pod, and for each pod the index of its own.
func distinctRequirements(d *cluster.Dump) (list []*facts.Requirements, index []int) {
	byPointer, byKey := make(map[*facts.Requirements]int), make(map[string]int)
	index = make([]int, len(d.Pods))
	for i := range d.Pods {
		r := d.Pods[i].Facts.Requirements
		at, known := byPointer[r]
		if !known {
			key := string(r.AppendKey(nil))
			if at, known = byKey[key]; !known {
				at = len(list)
				list = append(list, r)
				byKey[key] = at
			}
			byPointer[r] = at
		}
		index[i] = at
	}
	return list, index
}

// Read reads what Write wrote, element by element. A field that is not known, stands twice or is missing is an error; so is a pod
// whose requirements are not there. Older files lack maxWaitingClasses, queues, units, reservations, placeholders, reports, storage or devices, and have none; a file that
// has them has them before the pods, as Write does. What the values mean is checked by Load.
func Read(decoder *json.Decoder) (*cluster.Dump, error) {
	d := &cluster.Dump{}
	var distinct []*facts.Requirements
	var index []int
	fields := bookFields(d, decoder)
	maps.Copy(fields, jsonstream.Fields{
		"revision":  jsonstream.Value(decoder, &d.Revision),
		"resources": jsonstream.Value(decoder, &d.Resources),
		"defaults": jsonstream.List(decoder, func(r *spreadDefaultRecord) error {
			d.Defaults = append(d.Defaults, facts.SpreadDefault(*r))
			return nil
		}),
		"namespaces": jsonstream.List(decoder, func(r *namespaceRecord) error {
			d.Namespaces = append(d.Namespaces, facts.Namespace{Name: r.Name, Labels: labelList(r.Labels)})
			return nil
		}),
		"workloads": jsonstream.List(decoder, func(r *workloadRecord) error {
			d.Workloads = append(d.Workloads, &facts.Workload{Kind: facts.WorkloadKind(r.Kind), Namespace: r.Namespace, Name: r.Name, Pods: readSelector(r.Pods)})
			return nil
		}),
		"budgets": jsonstream.List(decoder, func(r *budgetRecord) error {
			d.Budgets = append(d.Budgets, &facts.Budget{Namespace: r.Namespace, Name: r.Name, Pods: readSelector(r.Pods), Allowed: r.Allowed, Disrupted: r.Disrupted})
			return nil
		}),
		"requirements": jsonstream.List(decoder, func(r *requirementsRecord) error {
			distinct = append(distinct, readRequirements(r))
			return nil
		}),
		"nodes": jsonstream.List(decoder, func(r *nodeRecord) error {
			d.Nodes = append(d.Nodes, readNode(r))
			return nil
		}),
	})
	pods := jsonstream.List(decoder, func(r *podRecord) error {
		pod, err := readPod(r)
		d.Pods = append(d.Pods, pod)
		index = append(index, r.Requirements)
		return err
	})
	fields["pods"] = func() error {
		for name := range bookFields(d, decoder) {
			delete(fields, name)
		}
		return pods()
	}
	err := jsonstream.Read(decoder, fields)
	if err != nil {
		return nil, err
	}
	for i, at := range index {
		if at < 0 || at >= len(distinct) {
			return nil, fmt.Errorf("pod %s: requirements: there is no number %d among %d", d.Pods[i].Facts.UID, at, len(distinct))
		}
		d.Pods[i].Facts.Requirements = distinct[at]
	}
	return d, nil
}

// bookFields are those that older files lack.
func bookFields(d *cluster.Dump, decoder *json.Decoder) jsonstream.Fields {
	return jsonstream.Fields{
		"maxWaitingClasses": jsonstream.Value(decoder, &d.MaxWaitingClasses),
		"queues": jsonstream.List(decoder, func(r *queueRecord) error {
			d.Queues = append(d.Queues, readQueue(r))
			return nil
		}),
		"units": jsonstream.List(decoder, func(r *unitRecord) error {
			d.Units = append(d.Units, readUnit(r))
			return nil
		}),
		"reservations": jsonstream.List(decoder, func(r *reservationRecord) error {
			d.Reservations = append(d.Reservations, cluster.ReservationRecord(*r))
			return nil
		}),
		"placeholders": jsonstream.List(decoder, func(r *placeholdersRecord) error {
			record, err := readPlaceholders(r)
			d.Placeholders = append(d.Placeholders, record)
			return err
		}),
		"reports": jsonstream.List(decoder, func(r *reportRecord) error {
			report, err := readReport(r)
			d.Reports = append(d.Reports, report)
			return err
		}),
		"storage": jsonstream.List(decoder, func(r *storageRecord) error {
			object, err := readStorage(r)
			d.Storage = append(d.Storage, object)
			return err
		}),
		"devices": jsonstream.List(decoder, func(r *draRecord) error {
			object, err := readDRA(r)
			d.DRA = append(d.DRA, object)
			return err
		}),
	}
}
