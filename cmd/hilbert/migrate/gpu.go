package migrate

import (
	"fmt"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"

	"hilbert.dev/hilbert/api/spec"
)

// vgpuWords are the resources by which HAMi, and Volcano's plugin that came from it, share GPUs: how many, MiB and percent of the memory of each,
// percent of the compute of each. Memory that is not said is all of it; compute that is not said has no limit.
type vgpuWords struct{ number, memory, memoryPercent, cores string }

// whole reads an amount that is a whole number, also as API servers write it: 4k is 4000.
func whole(text string) (int64, bool) {
	q, err := resource.ParseQuantity(text)
	if err != nil {
		return 0, false
	}
	n, exact := q.AsInt64()
	return n, exact && n >= 0
}

// vgpu rewrites a container's GPUs.
func (p *pod) vgpu(c object, names vgpuWords) {
	amounts := make(map[string]word)
	for _, name := range []string{names.memory, names.memoryPercent, names.cores} {
		if name == "" {
			continue
		}
		if w, ok := p.takeResource(c, name); ok {
			n, ok := whole(w.value)
			if !ok {
				p.wrong(w, "a whole number is wanted")
				return
			}
			w.value = strconv.FormatInt(n, 10)
			amounts[name] = w
		}
	}
	if len(amounts) == 0 && names.number == spec.ResourceNvidiaGPU {
		return // whole GPUs, which Hilbert knows by the same name
	}
	number, ok := p.takeResource(c, names.number)
	if !ok {
		number = word{names.number, "1", p.root.at("metadata").line("name")}
		if len(amounts) == 0 {
			return
		}
	}
	memory, percent, cores := amounts[names.memory], amounts[names.memoryPercent], amounts[names.cores]
	share, from := p.vgpuShare(memory, percent, cores)
	switch {
	case share == 0 && memory.key == "" && from.key == "": // nothing said of a share
		share = 100
	case share == 0:
		p.wrong(from, "it is a share of a GPU without a share of compute, which Hilbert needs; add "+names.cores+", or say how much memory a GPU has (--gpu-memory)")
		return
	}
	if share >= 100 {
		p.setResource(c, spec.ResourceNvidiaGPU, number.value)
		p.say(Translated, number, spec.ResourceNvidiaGPU+": "+number.value+", whole GPUs")
		if memory.key != "" {
			p.setResource(c, spec.ResourceGPUMemory, memory.value)
			p.say(Translated, memory, spec.ResourceGPUMemory+": "+memory.value+", which each GPU must have")
		}
		return
	}
	if number.value != "1" {
		p.wrong(number, "a pod has a part of one GPU, not of several; ask for whole GPUs")
		return
	}
	p.setResource(c, spec.ResourceGPUCore, strconv.FormatInt(share, 10))
	p.tellShare(from, cores, share)
	switch {
	case memory.key != "":
		p.setResource(c, spec.ResourceGPUMemory, memory.value)
		p.say(Translated, memory, spec.ResourceGPUMemory+": "+memory.value)
	case percent.key != "" && percent.value == strconv.FormatInt(share, 10): // what Hilbert takes without a word
	case percent.key != "" && p.run.options.GPUMemoryMiB > 0:
		p.gpuMemoryShare(c, percent, 1)
	case percent.key != "":
		p.lost(percent, fmt.Sprintf("the pod gets %d %% of a GPU's memory with its compute; say how much memory a GPU has (--gpu-memory) to keep the ratio", share))
	}
}

// tellShare says where the share of compute comes from.
func (p *pod) tellShare(from, cores word, share int64) {
	text := fmt.Sprintf("%s: %d", spec.ResourceGPUCore, share)
	if from == cores {
		p.say(Translated, from, text)
		return
	}
	p.say(Invented, from, text+", as much of the compute as of the memory: its system would not limit it")
}

// vgpuShare is how much of a GPU's compute is asked for, in percent, and the word that says so; 0 if it is not known.
func (p *pod) vgpuShare(memory, percent, cores word) (int64, word) {
	read := func(w word) int64 {
		n, _ := strconv.ParseInt(w.value, 10, 64)
		return n
	}
	switch {
	case read(cores) > 0:
		return read(cores), cores
	case read(percent) > 0:
		return read(percent), percent
	case read(memory) > 0 && p.run.options.GPUMemoryMiB > 0:
		return min(max((read(memory)*100+p.run.options.GPUMemoryMiB-1)/p.run.options.GPUMemoryMiB, 1), 100), memory
	}
	return 0, memory
}

const hamiDomain = "hami.io/"

func hami() system {
	return system{
		name: "hami", schedulers: []string{"hami-scheduler"},
		prefixes: []string{
			hamiDomain, "nvidia.com/gpumem", "nvidia.com/gpumem-percentage", "nvidia.com/gpucores", "nvidia.com/use-gputype", "nvidia.com/nouse-gputype",
			"nvidia.com/use-gpuuuid", "nvidia.com/nouse-gpuuuid", "nvidia.com/vgpu-mode", "nvidia.com/numa-bind", "nvidia.com/priority",
		},
		groups: []string{"hami.io"},
		pod:    hamiPod,
	}
}

func hamiPod(p *pod, _ bool) {
	for _, c := range p.containers() {
		p.vgpu(c, vgpuWords{spec.ResourceNvidiaGPU, "nvidia.com/gpumem", "nvidia.com/gpumem-percentage", "nvidia.com/gpucores"})
		if w, ok := p.takeResource(c, "nvidia.com/priority"); ok {
			p.lost(w, "parts of one GPU are equals")
		}
	}
	for _, list := range [][2]string{{"nvidia.com/use-gputype", "In"}, {"nvidia.com/nouse-gputype", "NotIn"}} {
		operator := list[1]
		if w, ok := p.take(list[0]); ok {
			var models []string
			for m := range strings.SplitSeq(w.value, ",") {
				models = append(models, strings.TrimSpace(m))
			}
			p.require(spec.LabelGPUModel, operator, models)
			p.say(Invented, w, fmt.Sprintf("node affinity to %s %s %s; HAMi looks for a part of the model's name, a label's value is all of it: compare with your nodes' labels",
				spec.LabelGPUModel, operator, strings.Join(models, ", ")))
		}
	}
	if w, ok := p.take("nvidia.com/vgpu-mode"); ok {
		isolation := map[string]string{"hami-core": "soft", "mps": "soft", "mig": "hard"}[w.value]
		if isolation == "" {
			p.wrong(w, "want hami-core, mps or mig")
		} else {
			p.setAnnotation(spec.AnnotationIsolation, isolation)
			p.say(Translated, w, spec.AnnotationIsolation+": "+isolation)
		}
	}
	if w, ok := p.take("nvidia.com/numa-bind"); ok && w.value == "true" {
		p.setAnnotation(spec.AnnotationNear, "numa,required")
		p.say(Translated, w, spec.AnnotationNear+": numa,required")
	}
	p.takeLost(map[string]string{
		"nvidia.com/use-gpuuuid":             "pods do not choose GPUs by name",
		"nvidia.com/nouse-gpuuuid":           "pods do not choose GPUs by name",
		hamiDomain + "node-scheduler-policy": "how nodes are scored is a scheduling profile's (scheduling.profiles)",
		hamiDomain + "gpu-scheduler-policy":  "how GPUs are scored is a scheduling profile's (scheduling.profiles)",
	})
}
