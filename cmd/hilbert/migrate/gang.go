package migrate

import (
	"fmt"
	"strconv"

	"go.yaml.in/yaml/v3"

	"hilbert.dev/hilbert/api/spec"
)

// gangKey names a PodGroup.
type gangKey struct{ namespace, name string }

// gang is what is known of a PodGroup: from pods, or from an object of another system.
type gang struct {
	name    string
	min     int // 0: not said
	timeout string
	written bool // the manifest has the PodGroup
	at      word // what spoke of it first
	system  string
}

// joinGang names the pod's gang in Hilbert's words, and remembers it.
func (p *pod) joinGang() {
	g := &p.gang
	if g.name == "" {
		return
	}
	if p.run.options.PodGroups == SIGPodGroups {
		p.setLabel(spec.LabelPodGroup, g.name)
	} else {
		p.root.make("spec", "schedulingGroup").set("podGroupName", g.name)
	}
	known := p.run.gang(gangKey{p.of.namespace, g.name})
	if known.min == 0 {
		known.min = g.min
	}
	if known.timeout == "" {
		known.timeout = g.timeout
	}
	if known.at.key == "" {
		known.at, known.system = g.at, g.system
	}
}

// inGang says that the pod belongs to a gang.
func (p *pod) inGang(w word, name string) {
	p.gang.name, p.gang.at, p.gang.system = name, w, p.system.name
	p.say(Translated, w, "member of the PodGroup "+name)
}

// gang finds a gang, or begins one.
func (r *run) gang(key gangKey) *gang {
	g := r.gangs[key]
	if g == nil {
		g = &gang{name: key.name}
		r.gangs[key] = g
		r.gangOrder = append(r.gangOrder, key)
	}
	return g
}

// podGroups are the PodGroups that pods spoke of and that stand nowhere in the manifest. A gang of unknown size may stand elsewhere.
func (r *run) podGroups() (out []*yaml.Node) {
	for _, key := range r.gangOrder {
		if g := r.gangs[key]; !g.written && g.min > 0 {
			out = append(out, r.podGroup(key, g))
		}
	}
	return out
}

// podGroup writes a PodGroup.
func (r *run) podGroup(key gangKey, g *gang) *yaml.Node {
	meta := map[string]any{"name": key.name}
	if key.namespace != "" {
		meta["namespace"] = key.namespace
	}
	if g.timeout != "" {
		meta["annotations"] = map[string]string{spec.AnnotationTimeout: g.timeout}
	}
	if r.options.PodGroups == SIGPodGroups {
		return encode(map[string]any{
			"apiVersion": "scheduling.x-k8s.io/v1alpha1", "kind": "PodGroup", "metadata": meta, "spec": map[string]any{"minMember": g.min},
		})
	}
	return encode(map[string]any{
		"apiVersion": "scheduling.k8s.io/v1beta1", "kind": "PodGroup", "metadata": meta,
		"spec": map[string]any{"schedulingPolicy": map[string]any{"gang": map[string]any{"minCount": g.min}}},
	})
}

// number reads a positive number of a word.
func (p *pod) number(w word) (int, bool) {
	n, err := strconv.Atoi(w.value)
	if err != nil || n < 1 {
		p.wrong(w, "a whole number of at least 1 is wanted")
		return 0, false
	}
	return n, true
}

// inQueue remembers which queue the pod's namespace shall be charged to: Hilbert charges a namespace's Queue, and not a pod's.
func (r *run) inQueue(s subject, system string, w word, queue string) {
	f := Finding{Object: s.String(), Line: w.line, System: system, Word: w.String()}
	known, ok := r.queues[s.namespace]
	switch {
	case !ok:
		r.queues[s.namespace] = queue
		r.queueOrder = append(r.queueOrder, queueOf{s.namespace, f})
		return
	case known != queue:
		f.Outcome = Lost
		f.Message = fmt.Sprintf("a namespace has one Queue, and others of namespace %q are in %s; move these pods to a namespace of their own", s.namespace, known)
	default:
		f.Outcome, f.Message = Translated, "the namespace's Queue"
	}
	r.add(f)
}

// labelNamespaces writes the queues on the Namespaces of the manifest, and says how to do it for others.
func (r *run) labelNamespaces() {
	for _, q := range r.queueOrder {
		queue, f := r.queues[q.namespace], q.at
		f.Outcome, f.Message = Translated, fmt.Sprintf("Namespace %s has the label %s: %s", q.namespace, spec.LabelQueue, queue)
		if ns, ok := r.namespaces[q.namespace]; ok {
			ns.make("metadata", "labels").set(spec.LabelQueue, queue)
		} else {
			f.Outcome = Manual
			f.Message = fmt.Sprintf("Hilbert charges the Queue of the namespace: kubectl label namespace %s %s=%s", namespaceOf(subject{namespace: q.namespace}), spec.LabelQueue, queue)
		}
		r.add(f)
	}
}
