package explain

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"hilbert.dev/hilbert/api/scheduling/v1alpha1"
)

// tideAnswer is how the nodes of a TidePool are divided, and why.
type tideAnswer struct {
	Name   string                  `json:"name"`
	Status v1alpha1.TidePoolStatus `json:"status"`
}

// tidePool reads the object, whose status says it all.
func (f *flags) tidePool(ctx context.Context, name string) (*tideAnswer, error) {
	var p v1alpha1.TidePool
	if _, err := f.read(ctx, kindTidePool, "TidePools", "/apis/"+v1alpha1.GroupVersion.String()+"/"+v1alpha1.TidePools+"/"+name, &p); err != nil {
		return nil, err
	}
	return &tideAnswer{p.Name, p.Status}, nil
}

// WriteText renders the answer.
func (a *tideAnswer) WriteText(w io.Writer) error {
	var out strings.Builder
	s := &a.Status
	fmt.Fprintf(&out, "TidePool %s: %d nodes, %d with online (%d wanted), %d with offline\n", a.Name, s.Nodes, s.Online, s.Wanted, s.Offline)
	if len(s.Conditions) == 0 {
		out.WriteString("\nHilbert's controller has not said anything about it. Does it run with controller.tides.enabled?\n")
	}
	section(&out, "Why so many for online", []string{s.Why})
	section(&out, "Conditions", conditionLines(s.Conditions))
	var changing []string
	for _, c := range s.Changing {
		changing = append(changing, strings.TrimSuffix(fmt.Sprintf("%s is with %s, %d pods of the other side are there: %s", c.Node, c.To, c.Pods, c.Why), ": "))
	}
	section(&out, "Changing hands", changing)
	if s.Next != nil {
		section(&out, "Next", []string{fmt.Sprintf("window %s begins at %s: at least %d nodes for online", s.Next.Name, s.Next.Begins.UTC().Format(time.RFC3339), s.Next.Online)})
	}
	section(&out, "Forecast", []string{s.Forecast})
	if n := 0; len(s.HandOvers) > 0 {
		for _, h := range s.HandOvers {
			n += h.Nodes
		}
		section(&out, "In the last hour", []string{fmt.Sprintf("%d nodes changed hands", n)})
	}
	_, err := io.WriteString(w, out.String())
	return err
}
