package cluster

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
)

// WriteJSON writes the dump as one JSON object, an element a line, without holding more than a line of it. Requirements that are equal
// stand once, in a list of their own. Sort first, for equal dumps to be equal bytes.
func (d *Dump) WriteJSON(w io.Writer) error {
	distinct, index := d.distinct()
	buffered := bufio.NewWriter(w)
	o := objectWriter{w: buffered}
	o.field("revision", d.Revision)
	o.field("resources", d.Resources)
	o.list("defaults", len(d.Defaults), func(i int) any { return spreadDefaultRecord(d.Defaults[i]) })
	o.list("namespaces", len(d.Namespaces), func(i int) any {
		return namespaceRecord{d.Namespaces[i].Name, labelMap(d.Namespaces[i].Labels)}
	})
	o.list("workloads", len(d.Workloads), func(i int) any {
		x := d.Workloads[i]
		return workloadRecord{workloadText(x.Kind), x.Namespace, x.Name, writeSelector(x.Pods)}
	})
	o.list("budgets", len(d.Budgets), func(i int) any {
		b := d.Budgets[i]
		return budgetRecord{b.Namespace, b.Name, writeSelector(b.Pods), b.Allowed, b.Disrupted}
	})
	o.list("requirements", len(distinct), func(i int) any { return writeRequirements(distinct[i]) })
	o.list("nodes", len(d.Nodes), func(i int) any { return writeNode(d.Nodes[i]) })
	o.list("pods", len(d.Pods), func(i int) any { return writePod(&d.Pods[i], index[i]) })
	o.end()
	return errors.Join(o.err, buffered.Flush())
}

// distinct lists the requirements by their first pod, and for each pod the index of its own.
func (d *Dump) distinct() (list []*Requirements, index []int) {
	byPointer, byKey := make(map[*Requirements]int), make(map[string]int)
	index = make([]int, len(d.Pods))
	for i := range d.Pods {
		r := d.Pods[i].Facts.Requirements
		at, known := byPointer[r]
		if !known {
			key := string(r.appendKey(nil))
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

// objectWriter writes one JSON object field by field. After an error it writes nothing more.
type objectWriter struct {
	w      *bufio.Writer
	fields int
	err    error
}

func (o *objectWriter) text(s string) {
	if o.err == nil {
		_, o.err = o.w.WriteString(s)
	}
}

func (o *objectWriter) name(name string) {
	if o.fields == 0 {
		o.text("{\n")
	} else {
		o.text(",\n")
	}
	o.fields++
	o.text(strconv.Quote(name) + ": ")
}

func (o *objectWriter) value(v any) {
	if o.err != nil {
		return
	}
	data, err := json.Marshal(v)
	if err != nil {
		o.err = err
		return
	}
	_, o.err = o.w.Write(data)
}

func (o *objectWriter) field(name string, v any) {
	o.name(name)
	o.value(v)
}

func (o *objectWriter) list(name string, length int, element func(int) any) {
	o.name(name)
	o.text("[")
	for i := range length {
		if i > 0 {
			o.text(",")
		}
		o.text("\n")
		o.value(element(i))
	}
	o.text("]")
}

func (o *objectWriter) end() { o.text("\n}") }

// ReadDump reads what WriteJSON wrote, element by element. A field that is not known, stands twice or is missing is an error; so is a pod
// whose requirements are not there. What the values mean is checked by Load.
func ReadDump(decoder *json.Decoder) (*Dump, error) {
	decoder.DisallowUnknownFields()
	d := &Dump{}
	var distinct []*Requirements
	var index []int
	err := readObject(decoder, map[string]func() error{
		"revision":  func() error { return decoder.Decode(&d.Revision) },
		"resources": func() error { return decoder.Decode(&d.Resources) },
		"defaults": readList(decoder, func(r *spreadDefaultRecord) error {
			d.Defaults = append(d.Defaults, SpreadDefault(*r))
			return nil
		}),
		"namespaces": readList(decoder, func(r *namespaceRecord) error {
			d.Namespaces = append(d.Namespaces, Namespace{r.Name, labelList(r.Labels)})
			return nil
		}),
		"workloads": readList(decoder, func(r *workloadRecord) error {
			d.Workloads = append(d.Workloads, &Workload{WorkloadKind(r.Kind), r.Namespace, r.Name, readSelector(r.Pods)})
			return nil
		}),
		"budgets": readList(decoder, func(r *budgetRecord) error {
			d.Budgets = append(d.Budgets, &Budget{r.Namespace, r.Name, readSelector(r.Pods), r.Allowed, r.Disrupted})
			return nil
		}),
		"requirements": readList(decoder, func(r *requirementsRecord) error {
			distinct = append(distinct, readRequirements(r))
			return nil
		}),
		"nodes": readList(decoder, func(r *nodeRecord) error {
			d.Nodes = append(d.Nodes, readNode(r))
			return nil
		}),
		"pods": readList(decoder, func(r *podRecord) error {
			pod, err := readPod(r)
			d.Pods = append(d.Pods, pod)
			index = append(index, r.Requirements)
			return err
		}),
	})
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

// readObject reads an object in which each of the fields stands once, in any order.
func readObject(decoder *json.Decoder, fields map[string]func() error) error {
	if err := expect(decoder, '{'); err != nil {
		return err
	}
	for decoder.More() {
		token, err := decoder.Token()
		if err != nil {
			return err
		}
		name, ok := token.(string)
		read := fields[name]
		if !ok || read == nil {
			return fmt.Errorf("field %q is not known, or stands twice", name)
		}
		delete(fields, name)
		if err := read(); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	if len(fields) > 0 {
		return fmt.Errorf("field %q is missing", slices.Sorted(maps.Keys(fields))[0])
	}
	return expect(decoder, '}')
}

func readList[R any](decoder *json.Decoder, take func(*R) error) func() error {
	return func() error {
		if err := expect(decoder, '['); err != nil {
			return err
		}
		for i := 0; decoder.More(); i++ {
			var r R
			if err := decoder.Decode(&r); err != nil {
				return fmt.Errorf("element %d: %w", i, err)
			}
			if err := take(&r); err != nil {
				return fmt.Errorf("element %d: %w", i, err)
			}
		}
		return expect(decoder, ']')
	}
}

func expect(decoder *json.Decoder, want json.Delim) error {
	token, err := decoder.Token()
	if err != nil {
		return err
	}
	if token != want {
		return fmt.Errorf("found %v where %v should be", token, want)
	}
	return nil
}
