package render

import (
	"fmt"
	"strings"

	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/cmd/hilbert/output"
)

// maxNames is how many names a line has before it only counts.
const maxNames = 4

// KubeletNotes is what is not known of the devices that the kubelet gave to pods.
func KubeletNotes(k *spec.KubeletDevices) (out []string) {
	if k == nil {
		return nil
	}
	if k.Unread != "" {
		out = append(out, "what the kubelet gave is not read: "+k.Unread)
	}
	var unknown []string
	for _, o := range k.Others {
		if o.GPU == nil {
			unknown = append(unknown, fmt.Sprintf("%s/%s %s %q", o.Namespace, o.Name, o.Resource, o.ID))
		}
	}
	if len(unknown) > 0 {
		out = append(out, "held, and not known which: "+Named(unknown))
	}
	return out
}

// Named lists the first names, and counts the others.
func Named(names []string) string {
	if more := len(names) - maxNames; more > 0 {
		return strings.Join(names[:maxNames], ", ") + fmt.Sprintf(" and %d more", more)
	}
	return output.OrDash(strings.Join(names, ", "))
}
