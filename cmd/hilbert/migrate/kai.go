package migrate

import (
	"math"
	"strconv"

	"go.yaml.in/yaml/v3"

	"hilbert.dev/hilbert/api/spec"
)

const kaiDomain = "kai.scheduler/"

func kai() system {
	return system{
		name: "kai", schedulers: []string{"kai-scheduler"}, prefixes: []string{kaiDomain, "runai/"},
		groups: []string{"scheduling.run.ai", "kai.scheduler"},
		kinds: map[string]func(*run, subject) ([]*yaml.Node, bool){
			"Queue": kaiQueue,
		},
		pod: kaiPod,
	}
}

// kaiPod: KAI's annotations about GPUs have no domain, so they are its own only on pods that name it, or its queue.
func kaiPod(p *pod, named bool) {
	w, queued := p.take(kaiDomain + "queue")
	if queued {
		p.run.inQueue(p.of, p.system.name, w, w.value)
	}
	if named || queued {
		p.kaiGPU()
		if w, ok := p.take("pod-group-name"); ok {
			p.inGang(w, w.value)
		}
	}
	for _, placement := range [][2]string{
		{kaiDomain + "topology-required-placement", spec.AnnotationRequiredTopology},
		{kaiDomain + "topology-preferred-placement", spec.AnnotationPreferredTopology},
	} {
		if w, ok := p.take(placement[0]); ok {
			p.say(Manual, w, "write it on the PodGroup: "+placement[1]+": "+w.value)
		}
	}
	if w, ok := p.take("runai/node-pool"); ok {
		p.say(Manual, w, "nodes are divided by labels; write a nodeSelector")
	}
	p.takeLost(map[string]string{
		kaiDomain + "topology":                 "topologies are node labels",
		kaiDomain + "preemptibility":           "whether a pod may be evicted follows from priority, and from its Queue (spec.reclaim)",
		kaiDomain + "stale-podgroup-timestamp": "written by KAI",
		kaiDomain + "start-time-timestamp":     "written by KAI",
	})
}

// kaiGPU: a fraction of a GPU, or an amount of its memory, of the pod's first container.
func (p *pod) kaiGPU() {
	devices, several := p.take("gpu-fraction-num-devices")
	if several && devices.value != "1" {
		p.wrong(devices, "a pod has a part of one GPU, not of several; ask for whole GPUs")
		return
	}
	fraction, hasFraction := p.take("gpu-fraction")
	memory, hasMemory := p.take("gpu-memory")
	switch {
	case hasFraction:
		f, err := strconv.ParseFloat(fraction.value, 64)
		if err != nil || f <= 0 || f >= 1 {
			p.wrong(fraction, "want a number between 0 and 1")
			return
		}
		milli := strconv.FormatInt(int64(math.Ceil(f*1000-1e-6)), 10)
		p.setResource(p.first(), spec.ResourceGPUMilli, milli)
		p.say(Translated, fraction, spec.ResourceGPUMilli+": "+milli+", and that share of the memory")
	case hasMemory && p.run.options.GPUMemoryMiB > 0:
		share, from := p.vgpuShare(memory, word{}, word{})
		if share == 0 || share > 99 {
			p.wrong(memory, "want MiB, less than a GPU has")
			return
		}
		p.setResource(p.first(), spec.ResourceGPUCore, strconv.FormatInt(share, 10))
		p.tellShare(from, word{}, share)
		p.setResource(p.first(), spec.ResourceGPUMemory, memory.value)
		p.say(Translated, memory, spec.ResourceGPUMemory+": "+memory.value)
	case hasMemory:
		p.wrong(memory, "it is a share of a GPU without a share of compute, which Hilbert needs; say how much memory a GPU has (--gpu-memory)")
	}
	if w, ok := p.take("mps"); ok && w.value == "true" {
		p.setAnnotation(spec.AnnotationIsolation, "soft")
		p.say(Translated, w, spec.AnnotationIsolation+": soft")
	}
}
