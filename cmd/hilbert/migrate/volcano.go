package migrate

import (
	"fmt"
	"maps"
	"strconv"

	"go.yaml.in/yaml/v3"

	"hilbert.dev/hilbert/api/spec"
)

const (
	volcanoDomain  = "volcano.sh/"
	volcanoPlaces  = "scheduling.volcano.sh/"
	volcanoOldGang = "scheduling.k8s.io/group-name"
)

func volcano() system {
	return system{
		name: "volcano", schedulers: []string{"volcano"},
		prefixes: []string{volcanoDomain, volcanoPlaces, volcanoOldGang},
		groups:   []string{"scheduling.volcano.sh", "batch.volcano.sh", "flow.volcano.sh", "bus.volcano.sh", "nodeinfo.volcano.sh", "topology.volcano.sh"},
		kinds: map[string]func(*run, subject) ([]*yaml.Node, bool){
			"PodGroup": volcanoPodGroup, "Queue": volcanoQueue, "Job": volcanoJob,
		},
		pod: volcanoPod,
	}
}

func volcanoPod(p *pod, _ bool) {
	for _, key := range []string{volcanoPlaces + "group-name", volcanoOldGang} {
		if w, ok := p.take(key); ok {
			p.inGang(w, w.value)
		}
	}
	if w, ok := p.take(volcanoPlaces + "queue-name"); ok {
		p.run.inQueue(p.of, p.system.name, w, w.value)
	}
	if w, ok := p.take(volcanoDomain + "qos-level"); ok {
		switch w.value {
		case "LC":
			p.level(w, spec.QoSDedicated)
		case "HLS":
			p.level(w, spec.QoSShared, "Hilbert has one level of shared pods; give those that need more a pool of their own ("+spec.AnnotationPool+")")
		case "LS":
			p.level(w, spec.QoSShared)
		case "BE":
			p.level(w, spec.QoSReclaimed)
		default:
			p.wrong(w, "want LC, HLS, LS or BE")
		}
	}
	if w, ok := p.take(volcanoDomain + "numa-topology-policy"); ok {
		switch w.value {
		case "none", "best-effort", "restricted", "single-numa-node":
			p.setAnnotation(spec.AnnotationNUMAPolicy, w.value)
			p.say(Translated, w, spec.AnnotationNUMAPolicy+": "+w.value)
		default:
			p.wrong(w, "want none, best-effort, restricted or single-numa-node")
		}
	}
	for _, key := range []string{volcanoDomain + "jdb-min-available", volcanoDomain + "jdb-max-unavailable"} {
		if w, ok := p.take(key); ok {
			p.say(Manual, w, "write a PodDisruptionBudget: Hilbert heeds it when it preempts and evicts")
		}
	}
	for _, c := range p.containers() {
		p.vgpu(c, vgpuWords{volcanoDomain + "vgpu-number", volcanoDomain + "vgpu-memory", "", volcanoDomain + "vgpu-cores"})
	}
	p.takeLost(map[string]string{
		volcanoDomain + "preemptable":       "whether a pod may be evicted follows from priority, and from its Queue (spec.reclaim)",
		volcanoDomain + "revocable-zone":    "no nodes are lent by the hour",
		volcanoDomain + "topology-decision": "written by Volcano",
		volcanoDomain + "task-topology":     "members of one subgroup are packed together, see " + spec.LabelSubgroup,
		volcanoDomain + "cooldown-time":     "a Queue says after which time its pods may be evicted (spec.reclaimMinRuntime)",
	})
}

// volcanoPodGroup: a gang, and the Queue of its namespace.
func volcanoPodGroup(r *run, s subject) ([]*yaml.Node, bool) {
	o := &objectWords{run: r, of: s, system: "volcano", at: s.at("spec")}
	g := o.gang()
	if w, ok := o.take("queue"); ok {
		r.inQueue(s, o.system, w, w.value)
	}
	o.lose(map[string]string{
		"minTaskMember":     "members of all tasks are counted together",
		"minResources":      "a gang waits for room for its members, and not for an amount",
		"priorityClassName": "the priority is that of the pods; set priorityClassName in their template",
	})
	if w, ok := o.take("networkTopology"); ok {
		o.say(Manual, w, "name the node label of the tier: "+spec.AnnotationRequiredTopology+" (hard) or "+spec.AnnotationPreferredTopology+" (soft)")
	}
	o.leftovers()
	return []*yaml.Node{o.keepMetadata(r.podGroup(gangKey{s.namespace, s.name}, g))}, true
}

// volcanoQueue: guaranteed, max, weight.
func volcanoQueue(r *run, s subject) ([]*yaml.Node, bool) {
	o := &objectWords{run: r, of: s, system: "volcano", at: s.at("spec")}
	q := newQueue(s.name)
	if w, ok := o.take("parent"); ok && w.value != "root" && w.value != "" {
		q.set(o, w, "parent", w.value)
	}
	if w, ok := o.take("weight"); ok {
		q.number(o, w, "weight")
	}
	if amounts, w, ok := o.takeMap("capability"); ok {
		q.put(o, w, "max", amounts)
	}
	guarantee := object{}
	if g := o.at.at("guarantee", "resource"); g.node != nil {
		guarantee = g
		q.put(o, word{"guarantee.resource", "…", o.at.line("guarantee")}, "guaranteed", g.node)
	}
	o.at.remove("guarantee")
	if amounts, w, ok := o.takeMap("deserved"); ok {
		if guarantee.node == nil {
			q.put(o, w, "guaranteed", amounts)
		} else {
			o.say(Lost, w, "a Queue has one amount that it gets back from others, its guarantee; raise spec.guaranteed to what it deserves if that is meant")
		}
	}
	if w, ok := o.take("reclaimable"); ok && w.value == "false" {
		q.set(o, w, "reclaim", "Never")
	}
	o.lose(map[string]string{
		"priority":        "Queues are served by what they use of their share",
		"type":            "it says how Volcano came to know of the Queue",
		"affinity":        "a Queue has no nodes of its own; use node affinity and taints",
		"extendClusters":  "Hilbert schedules one cluster",
		"dequeueStrategy": "a unit that does not fit does not block those behind it, but nodes are reserved for it after some time",
	})
	o.leftovers()
	return []*yaml.Node{o.keepMetadata(q.node())}, true
}

// volcanoJob: a Job for each task, and one PodGroup.
func volcanoJob(r *run, s subject) ([]*yaml.Node, bool) {
	o := &objectWords{run: r, of: s, system: "volcano", at: s.at("spec")}
	tasks := o.at.list("tasks")
	members := 0
	if w, ok := o.take("minAvailable"); ok {
		members, _ = o.number(w, 0)
	}
	if w, ok := o.take("queue"); ok {
		r.inQueue(s, o.system, w, w.value)
	}
	class, _ := o.take("priorityClassName")
	_, _ = o.take("schedulerName")
	fields := map[string]any{"completionMode": "Indexed"}
	for _, f := range [][2]string{{"ttlSecondsAfterFinished", "ttlSecondsAfterFinished"}, {"maxRetry", "backoffLimit"}} {
		if w, ok := o.take(f[0]); ok {
			if n, ok := o.number(w, 0); ok {
				fields[f[1]] = n
				o.say(Translated, w, "spec."+f[1]+" of each Job")
			}
		}
	}
	out, replicas := volcanoTasks(r, s, tasks, class, fields)
	if members == 0 {
		members = replicas
	}
	g := r.gang(gangKey{s.namespace, s.name})
	g.written, g.min = true, max(members, 1)
	o.lose(map[string]string{
		"policies": "a Job retries failed pods, see spec.podFailurePolicy", "plugins": "env, svc, ssh and the like are Volcano's controller's; a headless Service and the Job's index (JOB_COMPLETION_INDEX) stand in",
		"volumes": "write the volumes in the tasks' templates", "minSuccess": "see spec.successPolicy of a Job", "runningEstimate": "Hilbert asks for no estimate",
		"networkTopology": "write " + spec.AnnotationRequiredTopology + " on the PodGroup",
	})
	r.add(Finding{
		Outcome: Translated, Object: s.String(), Line: s.line("kind"), System: "volcano", Word: "kind: Job",
		Message: fmt.Sprintf("%d Jobs of Kubernetes, one a task, and a PodGroup that needs %d members", len(tasks), g.min),
	})
	o.at.remove("tasks")
	o.leftovers()
	for _, n := range out {
		o.keepMetadata(n)
	}
	return append([]*yaml.Node{r.podGroup(gangKey{s.namespace, s.name}, g)}, out...), true
}

// volcanoTasks are the Jobs of a job's tasks, and how many pods they have together.
func volcanoTasks(r *run, s subject, tasks []object, class word, fields map[string]any) (out []*yaml.Node, replicas int) {
	for i, t := range tasks {
		task := &objectWords{run: r, of: s, system: "volcano", at: t}
		name := "task" + strconv.Itoa(i)
		if w, ok := task.take("name"); ok {
			name = w.value
		}
		count := 1
		if w, ok := task.take("replicas"); ok {
			count, _ = task.number(w, 0)
		}
		replicas += count
		template := t.at("template")
		if template.node == nil {
			r.add(Finding{Outcome: Unknown, Object: s.String(), Line: s.line("spec"), System: "volcano", Word: "spec.tasks: " + name, Message: "it has no template of pods"})
			continue
		}
		if class.value != "" {
			template.make("spec").set("priorityClassName", class.value)
		}
		if _, ok := template.at("spec").text("restartPolicy"); !ok {
			template.make("spec").set("restartPolicy", "Never")
		}
		r.member(s, template, s.name)
		task.lose(map[string]string{
			"minAvailable": "members of all tasks are counted together", "policies": "a Job retries failed pods, see spec.podFailurePolicy",
			"topologyPolicy": "write " + spec.AnnotationNUMAPolicy + " on the pods", "dependsOn": "Jobs do not wait for each other; let the pods wait",
			"maxRetry": "see spec.backoffLimit of the Job", "partitionPolicy": "write " + spec.LabelSubgroup + " on the pods",
		})
		out = append(out, jobOf(s, name, count, fields, template))
	}
	return out, replicas
}

// jobOf is the Job of one task, with the fields that all tasks share.
func jobOf(s subject, task string, count int, fields map[string]any, template object) *yaml.Node {
	meta := map[string]any{"name": s.name + "-" + task}
	if s.namespace != "" {
		meta["namespace"] = s.namespace
	}
	job := maps.Clone(fields)
	job["completions"], job["parallelism"] = count, count
	n := encode(map[string]any{"apiVersion": "batch/v1", "kind": "Job", "metadata": meta, "spec": job})
	object{n}.at("spec").put("template", template.node)
	return n
}
