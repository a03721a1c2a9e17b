package explain

import (
	"fmt"
	"strings"
	"time"

	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/cmd/hilbert/output"
)

// harm says which services of the node are harmed, by whom and what is done, and how much of its CPUs may be promised a second time for that.
func (a *nodeAnswer) harm() string {
	var out strings.Builder
	if i := a.Interference; i != nil {
		lines := []string{fmt.Sprintf("%d services are watched; of %d of them too little was seen yet at their load", i.Watched, i.Learning)}
		if len(i.Unknown) > 0 {
			lines = append(lines, "not seen on this node: "+strings.Join(i.Unknown, ", "))
		}
		for _, f := range i.Findings {
			lines = append(lines, finding(&f, i.Mode))
		}
		for _, apart := range i.Apart {
			lines = append(lines, fmt.Sprintf("until %s pods like %s/%s are better placed elsewhere than beside %s/%s", apart.Until.UTC().Format(time.RFC3339),
				apart.Culprit.Namespace, apart.Culprit.Name, apart.Victim.Namespace, apart.Victim.Name))
		}
		section(&out, "Harmful neighbours (mode "+i.Mode+")", lines)
	}
	if o := a.Overcommit; o != nil {
		lines := []string{
			fmt.Sprintf("%d %% of its CPUs, %s CPUs more than services share, may be asked for before requests are lowered", o.Percent, output.Cores(o.ExtraMilliCPU)),
			o.Reason + ": " + o.Message,
		}
		if o.PeakPercent > 0 {
			lines = append(lines, fmt.Sprintf("services used up to %d %% of what they asked for, in %d hours of the week", o.PeakPercent, o.Hours))
		}
		section(&out, "Over-commitment", lines)
	}
	return out.String()
}

// steps is what a step of the ladder does, and what follows if the service is still harmed.
var steps = map[string]string{
	spec.InterferenceGrowthStopped: "no more is lent; if that does not help, the culprit is limited",
	spec.InterferenceLimited:       "the culprit has less CPU; if that does not help and it is reclaimed, it is evicted",
	spec.InterferenceEvicting:      "the culprit's eviction is asked for, within the cluster's budget",
	spec.InterferenceLeftAlone:     "the culprit is none that may be limited",
}

// finding says how a service is harmed, and what is done about it.
func finding(f *spec.InterferenceFinding, mode string) string {
	by := "nobody can be named"
	if f.Culprit != nil {
		by = fmt.Sprintf("by %s/%s", f.Culprit.Namespace, f.Culprit.Name)
	}
	does := steps[f.Step]
	if mode != spec.InterferenceAct && does != "" {
		does = "in mode act: " + does
	}
	text := fmt.Sprintf("%s/%s is harmed, %s (%s): %s", f.Victim.Namespace, f.Victim.Name, by, f.Step, f.Message)
	if does != "" {
		text += "; " + does
	}
	return text
}
