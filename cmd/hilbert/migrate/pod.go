package migrate

import (
	"fmt"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"hilbert.dev/hilbert/api/spec"
)

// templates are the pod and pod templates of a kind that Kubernetes has.
func templates(s subject) []object {
	switch group(s.apiVersion) + "/" + s.kind {
	case "/Pod":
		return []object{s.object}
	case "/ReplicationController", "apps/Deployment", "apps/StatefulSet", "apps/DaemonSet", "apps/ReplicaSet", "batch/Job":
		return present(s.at("spec", "template"))
	case "/PodTemplate":
		return present(s.at("template"))
	case "batch/CronJob":
		return present(s.at("spec", "jobTemplate", "spec", "template"))
	case "jobset.x-k8s.io/JobSet":
		return under(s.at("spec").list("replicatedJobs"), "template", "spec", "template")
	case "leaderworkerset.x-k8s.io/LeaderWorkerSet":
		t := s.at("spec", "leaderWorkerTemplate")
		return append(present(t.at("leaderTemplate")), present(t.at("workerTemplate"))...)
	case "ray.io/RayCluster":
		spec := s.at("spec")
		return append(present(spec.at("headGroupSpec", "template")), under(spec.list("workerGroupSpecs"), "template")...)
	case "kubeflow.org/PyTorchJob", "kubeflow.org/TFJob", "kubeflow.org/MPIJob", "kubeflow.org/XGBoostJob", "kubeflow.org/PaddleJob", "kubeflow.org/JAXJob":
		var out []object
		spec := s.at("spec")
		for _, key := range spec.keys() {
			if !strings.HasSuffix(key, "ReplicaSpecs") {
				continue
			}
			for _, role := range spec.at(key).keys() {
				out = append(out, present(spec.at(key, role, "template"))...)
			}
		}
		return out
	}
	return nil
}

func present(o object) []object {
	if o.node == nil {
		return nil
	}
	return []object{o}
}

func under(list []object, path ...string) (out []object) {
	for _, o := range list {
		out = append(out, present(o.at(path...))...)
	}
	return out
}

// pod is a pod, or a template of pods, on its way. A system's function takes the words that it knows, and writes Hilbert's.
type pod struct {
	run    *run
	of     subject
	root   object
	system *system // whose function is on
	moved  bool    // a word of another system was taken: Hilbert shall schedule it
	stays  bool    // a word was kept: its system stays
	gang   gang    // what its annotations say of its gang
}

// pod rewrites one pod or template.
func (r *run) pod(s subject, root object) { r.member(s, root, "") }

// member rewrites a pod or template, which may be of a gang that its owner names.
func (r *run) member(s subject, root object, gangName string) {
	p := &pod{run: r, of: s, root: root, moved: gangName != "", gang: gang{name: gangName}}
	scheduler, _ := root.at("spec").text("schedulerName")
	for i := range systems() {
		p.system = &systems()[i]
		named := slices.Contains(p.system.schedulers, scheduler)
		p.moved = p.moved || named
		if p.system.pod != nil {
			p.system.pod(p, named)
		}
		if named {
			p.translated(root.at("spec").line("schedulerName"), "spec.schedulerName: "+scheduler, "spec.schedulerName: "+r.options.SchedulerName)
		}
	}
	for i := range systems() {
		p.system = &systems()[i]
		p.leftovers()
	}
	if p.moved || p.stays {
		root.make("spec").set("schedulerName", r.options.SchedulerName)
	}
	p.joinGang()
	root.at("metadata").prune("annotations")
	root.at("metadata").prune("labels")
}

// leftovers tells of the words of a system that its function has not taken.
func (p *pod) leftovers() {
	tell := func(o object, where, key string) {
		value, _ := o.text(key)
		p.unknown(o.line(key), where+" "+key+": "+value, "its meaning is not known here; take it out, or write what it should become")
	}
	for _, where := range []string{"labels", "annotations"} {
		o := p.root.at("metadata", where)
		for _, key := range o.keys() {
			if p.system.owns(key) && !p.system.keeps(key) {
				tell(o, strings.TrimSuffix(where, "s"), key)
			}
		}
	}
	for _, c := range p.containers() {
		for _, list := range []string{"limits", "requests"} {
			o := c.at("resources", list)
			for _, key := range o.keys() {
				if p.system.owns(key) {
					tell(o, "resource", key)
				}
			}
		}
	}
}

// containers are all of the pod's, those that start first before the others.
func (p *pod) containers() []object {
	s := p.root.at("spec")
	return append(s.list("initContainers"), s.list("containers")...)
}

// word is what was taken out of a manifest.
type word struct {
	key, value string
	line       int
}

// String is how findings show it.
func (w word) String() string { return w.key + ": " + w.value }

// take takes a label or an annotation; which of both does not matter to any system.
func (p *pod) take(key string) (word, bool) {
	p.run.asked.word(key)
	for _, where := range []string{"labels", "annotations"} {
		o := p.root.at("metadata", where)
		if value, ok := o.text(key); ok {
			w := word{key, value, o.line(key)}
			o.remove(key)
			p.moved = true
			return w, true
		}
	}
	return word{}, false
}

// peek reports whether a label or annotation is there, and leaves it.
func (p *pod) peek(key string) (value string, ok bool) {
	for _, where := range []string{"labels", "annotations"} {
		if value, ok = p.root.at("metadata", where).text(key); ok {
			return value, true
		}
	}
	return "", false
}

// takeResource takes a resource of a container: its limit, or its request where it has no limit.
func (p *pod) takeResource(c object, name string) (word, bool) {
	p.run.asked.resource(name)
	w, found := word{}, false
	for _, list := range []string{"requests", "limits"} {
		o := c.at("resources", list)
		if value, ok := o.text(name); ok {
			if found && w.value != value {
				p.lost(w, "an extended resource has one amount, so the limit counts: "+value)
			}
			w, found = word{name, value, o.line(name)}, true
			o.remove(name)
			c.at("resources").prune(list)
		}
	}
	p.moved = p.moved || found
	return w, found
}

// setResource asks for an amount of an extended resource; Kubernetes takes a limit as the request, too.
func (p *pod) setResource(c object, name, amount string) {
	c.make("resources", "limits").set(name, amount)
	if o := c.at("resources", "requests"); o.node != nil {
		o.set(name, amount)
	}
}

func (p *pod) setLabel(key, value string) { p.root.make("metadata", "labels").set(key, value) }

func (p *pod) setAnnotation(key, value string) {
	p.root.make("metadata", "annotations").set(key, value)
}

// allowTheLevel begins what is told where a namespace must allow a QoS level.
const allowTheLevel = "allow the level"

// level gives the pod a QoS level for a word.
func (p *pod) level(w word, level spec.QoSLevel, more ...string) {
	p.setLabel(spec.LabelQoS, string(level))
	p.say(Translated, w, spec.LabelQoS+": "+string(level))
	for _, m := range more {
		p.lost(w, m)
	}
	allow := map[spec.QoSLevel]string{spec.QoSDedicated: spec.LabelAllowDedicated, spec.QoSSystem: spec.LabelAllowSystem}[level]
	if allow == "" || level == spec.QoSSystem && p.of.namespace == "kube-system" {
		return
	}
	if ns, ok := p.run.namespaces[p.of.namespace]; ok {
		ns.make("metadata", "labels").set(allow, "true")
		return
	}
	p.say(Manual, w, fmt.Sprintf(allowTheLevel+": kubectl label namespace %s %s=true", namespaceOf(p.of), allow))
}

func namespaceOf(s subject) string {
	if s.namespace == "" {
		return "NAMESPACE"
	}
	return s.namespace
}

func (p *pod) say(outcome Outcome, w word, message string) {
	p.run.add(Finding{Outcome: outcome, Object: p.of.String(), Line: w.line, System: p.system.name, Word: w.String(), Message: message})
}

func (p *pod) translated(line int, text, message string) {
	key, value, _ := strings.Cut(text, ": ")
	p.say(Translated, word{key, value, line}, message)
}

func (p *pod) unknown(line int, text, message string) {
	key, value, _ := strings.Cut(text, ": ")
	p.say(Unknown, word{key, value, line}, message)
}

// lost tells that a meaning is gone.
func (p *pod) lost(w word, why string) { p.say(Lost, w, why) }

// wrong tells of a value that its system would refuse, or that has no counterpart.
func (p *pod) wrong(w word, what string) { p.say(Unknown, w, what) }

// takeLost takes words that mean nothing to Hilbert.
func (p *pod) takeLost(words map[string]string) {
	for key := range words {
		p.run.asked.word(key)
	}
	for _, where := range []string{"labels", "annotations"} {
		for _, key := range p.root.at("metadata", where).keys() {
			if why, ok := words[key]; ok {
				w, _ := p.take(key)
				p.lost(w, why)
			}
		}
	}
}

// keep tells that words stay, because their system does.
func (p *pod) keep(message string) {
	for _, where := range []string{"labels", "annotations"} {
		o := p.root.at("metadata", where)
		for _, key := range o.keys() {
			if p.system.keeps(key) {
				value, _ := o.text(key)
				p.say(Kept, word{key, value, o.line(key)}, message)
				p.stays = true
			}
		}
	}
}

// require adds a node affinity term to those that the pod has: each of the pod's alternatives is narrowed.
func (p *pod) require(key, operator string, values []string) {
	affinity := p.root.make("spec", "affinity", "nodeAffinity", "requiredDuringSchedulingIgnoredDuringExecution")
	term := map[string]any{"key": key, "operator": operator, "values": values}
	if terms := affinity.list("nodeSelectorTerms"); len(terms) > 0 {
		for _, t := range terms {
			_, list := t.field("matchExpressions")
			if list == nil {
				t.put("matchExpressions", encode([]any{term}))
				continue
			}
			list.Content = append(list.Content, encode(term))
		}
		return
	}
	affinity.put("nodeSelectorTerms", encode([]any{map[string]any{"matchExpressions": []any{term}}}))
}

// first is the pod's first container, which gets what a system asks for the pod as a whole.
func (p *pod) first() object {
	if list := p.root.at("spec").list("containers"); len(list) > 0 {
		return list[0]
	}
	c := object{&yaml.Node{Kind: yaml.MappingNode, Tag: "!!map"}}
	return c // a template without containers: the API server will say so
}
