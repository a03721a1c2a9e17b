package explain

import (
	"fmt"
	"slices"
	"strings"
)

// OwnNames leaves out the names of pods of other namespaces than this one, for readers who may see no other. How many they are stays.
func (e *Explanation) OwnNames(namespace string) {
	if e == nil {
		return
	}
	for i := range e.Changes {
		pods := slices.Clone(e.Changes[i].Pods)
		for j := range pods {
			if pods[j].Namespace != namespace {
				pods[j] = Pod{Priority: pods[j].Priority}
			}
		}
		e.Changes[i].Pods = pods
	}
}

// podNames names the first of some pods and counts the others.
func podNames(pods []Pod) string {
	var names []string
	hidden := 0
	for i := range pods {
		switch {
		case pods[i].Name == "":
			hidden++
		case len(names) < maxNamed:
			names = append(names, pods[i].Namespace+"/"+pods[i].Name)
		}
	}
	if more := len(pods) - hidden - len(names); more > 0 {
		names = append(names, fmt.Sprintf("%d more pods", more))
	}
	switch hidden {
	case 0:
	case 1:
		names = append(names, "1 pod of another namespace")
	default:
		names = append(names, fmt.Sprintf("%d pods of other namespaces", hidden))
	}
	if last := len(names) - 1; last > 0 {
		return strings.Join(names[:last], ", ") + " and " + names[last]
	}
	return names[0]
}
