package evict

import (
	"fmt"

	"hilbert.dev/hilbert/node/advise"
)

// leastHelp is what a pod must help to be worth it, and what a finding lacks: so one pod is asked for at a time.
const leastHelp = 0.01

// found reads what a plugin says. It has no hard level: nothing that a plugin says is urgent, and no pod is stopped for it.
func found(v *view, i int) reading {
	f := &v.o.Findings[i]
	switch {
	case f.Stale:
		return reading{}
	case !f.Met || v.p.Plugins.PerHour == 0:
		return reading{known: true, hard: never(), soft: never()}
	}
	return reading{known: true, hard: never(), soft: side{value: 1, enter: 1, need: leastHelp}}
}

func sayFound(v *view, i int, _ *reading) string {
	f := &v.o.Findings[i]
	return fmt.Sprintf("plugin %s found %s: %s", f.Plugin, f.Condition, f.Message)
}

// help is what a plugin says that a pod would help by going; not known where it does not name the pod.
func (w *Watch) help(uid string) advise.Sample {
	for i := range w.named {
		if w.named[i].UID == uid {
			return advise.Known(min(w.named[i].Gain, 1))
		}
	}
	return advise.Sample{}
}

// gain is what would come back if a pod left.
func (w *Watch) gain(pod *Pod) advise.Sample {
	if r := detectors[w.Detector].resource; r != help {
		return r.gain(pod, w.NUMANode)
	}
	return w.help(pod.UID)
}
