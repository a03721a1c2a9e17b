package migrate

import (
	"fmt"
	"math"
	"slices"
	"strconv"

	"go.yaml.in/yaml/v3"
)

// objectWords reads the fields of another system's object: what is taken is gone, and what is left is unknown.
type objectWords struct {
	run    *run
	of     subject
	system string
	at     object
}

func (o *objectWords) say(outcome Outcome, w word, message string) {
	o.run.add(Finding{Outcome: outcome, Object: o.of.String(), Line: w.line, System: o.system, Word: w.String(), Message: message})
}

// take takes a field. What is no scalar is shown as such.
func (o *objectWords) take(key string) (word, bool) {
	_, value := o.at.field(key)
	if value == nil {
		return word{}, false
	}
	w := word{key, value.Value, o.at.line(key)}
	if value.Kind != yaml.ScalarNode {
		w.value = "…"
	}
	o.at.remove(key)
	return w, true
}

// takeMap takes a mapping.
func (o *objectWords) takeMap(key string) (*yaml.Node, word, bool) {
	_, value := o.at.field(key)
	if value == nil || value.Kind != yaml.MappingNode {
		return nil, word{}, false
	}
	w, _ := o.take(key)
	return value, w, true
}

// number reads a whole number of at least so much.
func (o *objectWords) number(w word, least int) (int, bool) {
	n, err := strconv.Atoi(w.value)
	if err != nil || n < least {
		o.say(Unknown, w, fmt.Sprintf("a whole number of at least %d is wanted", least))
		return 0, false
	}
	return n, true
}

// gang is that of a PodGroup, with the members that it needs.
func (o *objectWords) gang() *gang {
	g := o.run.gang(gangKey{o.of.namespace, o.of.name})
	g.written, g.min = true, 1
	if w, ok := o.take("minMember"); ok {
		if n, ok := o.number(w, 1); ok {
			g.min = n
			o.say(Translated, w, fmt.Sprintf("the PodGroup needs %d members", n))
		}
	}
	return g
}

// keepMetadata gives an object that stands for the old one its labels and annotations, but for those that a system owns: what is left of these is unknown.
func (o *objectWords) keepMetadata(instead *yaml.Node) *yaml.Node {
	for _, where := range []string{"labels", "annotations"} {
		from := o.of.at("metadata", where)
		for _, key := range from.keys() {
			value, _ := from.text(key)
			if slices.ContainsFunc(systems(), func(s system) bool { return s.owns(key) && !s.keeps(key) }) {
				o.say(Unknown, word{key, value, from.line(key)}, "its meaning is not known here; take it out")
				continue
			}
			if key != "kubectl.kubernetes.io/last-applied-configuration" {
				object{instead}.make("metadata", where).set(key, value)
			}
		}
	}
	return instead
}

// lose takes fields that mean nothing to Hilbert, in the order in which they stand.
func (o *objectWords) lose(fields map[string]string) {
	for _, key := range o.at.keys() {
		if why, ok := fields[key]; ok {
			w, _ := o.take(key)
			o.say(Lost, w, why)
		}
	}
}

// leftovers tells of the fields that nobody has taken.
func (o *objectWords) leftovers() {
	for _, key := range o.at.keys() {
		w, _ := o.take(key)
		o.say(Unknown, w, "the field's meaning is not known here; take it out")
	}
}

// queue is a Queue of Hilbert's in the making.
type queue struct {
	name string
	spec object
}

func newQueue(name string) *queue {
	return &queue{name, object{&yaml.Node{Kind: yaml.MappingNode, Tag: "!!map"}}}
}

func (q *queue) set(o *objectWords, w word, key, value string) {
	q.spec.set(key, value)
	o.say(Translated, w, fmt.Sprintf("spec.%s: %s", key, value))
}

func (q *queue) put(o *objectWords, w word, key string, value *yaml.Node) {
	q.spec.put(key, value)
	o.say(Translated, w, "spec."+key)
}

// number sets a whole number, at least 1.
func (q *queue) number(o *objectWords, w word, key string) {
	n, ok := o.number(w, 1)
	if !ok {
		return
	}
	q.spec.put(key, encode(n))
	o.say(Translated, w, fmt.Sprintf("spec.%s: %d", key, n))
}

func (q *queue) node() *yaml.Node {
	n := encode(map[string]any{"apiVersion": "scheduling.hilbert.dev/v1alpha1", "kind": "Queue", "metadata": map[string]any{"name": q.name}})
	object{n}.put("spec", q.spec.node)
	return n
}

// sigsPodGroup is the PodGroup of the scheduler plugins' old group, which Koordinator reads.
func sigsPodGroup(r *run, s subject) ([]*yaml.Node, bool) {
	o := &objectWords{run: r, of: s, system: "koordinator", at: s.at("spec")}
	g := o.gang()
	if w, ok := o.take("scheduleTimeoutSeconds"); ok {
		if n, ok := o.number(w, 0); ok {
			g.timeout = strconv.Itoa(n) + "s"
			o.say(Translated, w, "a timeout of "+g.timeout)
		}
	}
	o.lose(map[string]string{"minResources": "a gang waits for room for its members, and not for an amount"})
	o.leftovers()
	return []*yaml.Node{o.keepMetadata(r.podGroup(gangKey{s.namespace, s.name}, g))}, true
}

// elasticQuota is Koordinator's quota: a guarantee and a limit, in a tree that labels make.
func elasticQuota(r *run, s subject) ([]*yaml.Node, bool) {
	o := &objectWords{run: r, of: s, system: "koordinator", at: s.at("spec")}
	labels := &objectWords{run: r, of: s, system: "koordinator", at: s.at("metadata", "labels")}
	notes := &objectWords{run: r, of: s, system: "koordinator", at: s.at("metadata", "annotations")}
	q := newQueue(s.name)
	if w, ok := labels.take(koordinatorQuota + "parent"); ok && w.value != "koordinator-root-quota" {
		q.set(o, w, "parent", w.value)
	}
	if amounts, w, ok := o.takeMap("min"); ok {
		q.put(o, w, "guaranteed", amounts)
	}
	if amounts, w, ok := o.takeMap("max"); ok {
		q.put(o, w, "max", amounts)
	}
	labels.lose(map[string]string{
		koordinatorQuota + "is-parent": "a Queue that others name as parent is one", koordinatorQuota + "is-root": "the root is not written",
		koordinatorQuota + "allow-lent-resource": "what a Queue does not use others may always borrow", koordinatorQuota + "tree-id": "there is one tree of Queues",
		koordinatorQuota + "profile": "quotas are not made from nodes", koordinatorQuota + "ignore-default-tree": "there is one tree of Queues",
		koordinatorQuota + "allow-force-update": "Hilbert accepts what the API server accepts, and says in the condition Ready what it cannot keep",
	})
	notes.lose(map[string]string{
		koordinatorQuota + "shared-weight": "what is not guaranteed is divided by one weight for all resources (spec.weight), and not by an amount of each",
		koordinatorQuota + "guaranteed":    "spec.guaranteed is what the Queue gets back", koordinatorQuota + "total-resource": "the root has what the nodes have",
		koordinatorQuota + "admission": "limits are checked when a pod is placed",
	})
	if w, ok := notes.take(koordinatorQuota + "namespaces"); ok {
		o.say(Manual, w, "label these namespaces scheduling.hilbert.dev/queue="+s.name+", or write spec.namespaceSelector")
	}
	o.leftovers()
	return []*yaml.Node{o.keepMetadata(q.node())}, true
}

// kaiQueue: amounts of cpu in thousandths, of memory in 10^6 bytes, of GPUs in GPUs; -1 is without limit.
func kaiQueue(r *run, s subject) ([]*yaml.Node, bool) {
	o := &objectWords{run: r, of: s, system: "kai", at: s.at("spec")}
	q := newQueue(s.name)
	if w, ok := o.take("parentQueue"); ok && w.value != "" {
		q.set(o, w, "parent", w.value)
	}
	weights := make(map[string]word)
	for _, res := range []struct {
		field, name, unit string
	}{{"cpu", "cpu", "m"}, {"memory", "memory", "M"}, {"gpu", "nvidia.com/gpu", ""}} {
		at := &objectWords{run: r, of: s, system: "kai", at: o.at.at("resources", res.field)}
		for _, amount := range []struct{ field, ours string }{{"quota", "guaranteed"}, {"limit", "max"}} {
			w, ok := at.take(amount.field)
			if !ok {
				continue
			}
			w.key = res.field + "." + w.key
			n, err := strconv.ParseFloat(w.value, 64)
			switch {
			case err != nil:
				at.say(Unknown, w, "it is no number")
			case n == -1 && amount.ours == "max": // no limit: say nothing
			case n == -1:
				at.say(Lost, w, "a guarantee without limit; write how much the Queue gets back")
			case res.unit == "" && n != math.Trunc(n):
				q.spec.make(amount.ours).set("hilbert.dev/gpu-milli", strconv.FormatFloat(n*1000, 'f', -1, 64))
				at.say(Translated, w, "spec."+amount.ours+" of hilbert.dev/gpu-milli")
			default:
				q.spec.make(amount.ours).set(res.name, strconv.FormatFloat(n, 'f', -1, 64)+res.unit)
				at.say(Translated, w, "spec."+amount.ours+" of "+res.name)
			}
		}
		if w, ok := at.take("overQuotaWeight"); ok {
			weights[res.field] = w
		}
		at.leftovers()
		o.at.at("resources").prune(res.field)
	}
	kaiWeight(o, q, weights)
	o.at.prune("resources")
	o.lose(map[string]string{
		"displayName": "a Queue has its name alone", "priority": "Queues are served by what they use of their share",
		"preemptMinRuntime": "a Queue says after which time its pods may be evicted for others (spec.reclaimMinRuntime)",
	})
	if w, ok := o.take("reclaimMinRuntime"); ok {
		q.set(o, w, "reclaimMinRuntime", w.value)
	}
	o.leftovers()
	return []*yaml.Node{o.keepMetadata(q.node())}, true
}

// kaiWeight: KAI has a weight for each resource, a Queue has one.
func kaiWeight(o *objectWords, q *queue, weights map[string]word) {
	fields := []string{"gpu", "cpu", "memory"}
	for i, field := range fields {
		w, ok := weights[field]
		if !ok {
			continue
		}
		n, err := strconv.ParseFloat(w.value, 64)
		if err != nil || n < 0 {
			o.say(Unknown, w, "it is no weight")
			return
		}
		if n < 1 {
			q.set(o, w, "borrowing", "Never")
			return
		}
		q.spec.put("weight", encode(int(math.Round(n))))
		o.say(Translated, w, fmt.Sprintf("spec.weight: %d, for all resources", int(math.Round(n))))
		for _, other := range fields[i+1:] {
			if v, ok := weights[other]; ok && v.value != w.value {
				o.say(Lost, v, "a Queue has one weight for all resources; that of "+field+" counts")
			}
		}
		return
	}
}
