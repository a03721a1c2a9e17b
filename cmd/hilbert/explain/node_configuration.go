package explain

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	nodev1alpha1 "hilbert.dev/hilbert/api/node/v1alpha1"
	"hilbert.dev/hilbert/api/spec"
)

// configurationAnswer is how far a NodeConfiguration has come, and what it waits for.
type configurationAnswer struct {
	Name    string                               `json:"name"`
	Paused  bool                                 `json:"paused,omitempty"`
	Expires *time.Time                           `json:"expires,omitempty"`
	Status  nodev1alpha1.NodeConfigurationStatus `json:"status"`
}

// nodeConfiguration reads the object, whose status says it all.
func (f *flags) nodeConfiguration(ctx context.Context, name string) (*configurationAnswer, error) {
	var c nodev1alpha1.NodeConfiguration
	if _, err := f.read(ctx, kindNodeConf, "NodeConfigurations", "/apis/"+nodev1alpha1.GroupVersion.String()+"/"+nodev1alpha1.NodeConfigurations+"/"+name, &c); err != nil {
		return nil, err
	}
	return &configurationAnswer{c.Name, c.Spec.Paused, c.Spec.Expires, c.Status}, nil
}

// WriteText renders the answer.
func (a *configurationAnswer) WriteText(w io.Writer) error {
	var out strings.Builder
	s := &a.Status
	fmt.Fprintf(&out, "NodeConfiguration %s: %d nodes targeted, %d told, %d have applied it\n", a.Name, s.Nodes.Targeted, s.Nodes.Told, s.Nodes.Applied)
	if len(s.Conditions) == 0 {
		out.WriteString("\nHilbert's controller has not said anything about it. Does it run?\n")
	}
	section(&out, "Conditions", conditionLines(s.Conditions))
	if r := s.Rollout; r != nil {
		section(&out, "Rollout of revision "+r.Revision, rollout(r))
	}
	if s.Stable != nil {
		section(&out, "On the other nodes", []string{fmt.Sprintf("revision %s: %s", s.Stable.Name(), s.Stable.Parameters)})
	}
	var notes []string
	if a.Paused {
		notes = append(notes, "spec.paused: no further node gets what has changed")
	}
	if a.Expires != nil {
		notes = append(notes, "it ends to target nodes at "+a.Expires.UTC().Format(time.RFC3339))
	}
	section(&out, "Also", notes)
	_, err := io.WriteString(w, out.String())
	return err
}

// rollout says how far a revision has come, and what it waits for.
func rollout(r *spec.RolloutStatus) []string {
	lines := []string{r.Message}
	if b := r.Before; b.Nodes > 0 {
		lines = append(lines, fmt.Sprintf("before it, %d of %d agents were not ready; on the %d nodes of which it is known, %.3f threads waited for each shared CPU and %d evictions were wanted",
			b.Unready, b.Nodes, b.Known, float64(b.RunDelay)/1000, b.Evictions))
	}
	return lines
}
