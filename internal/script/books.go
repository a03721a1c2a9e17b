package script

import (
	"fmt"
	"slices"
	"strings"

	"hilbert.dev/hilbert/cluster"
	"hilbert.dev/hilbert/cluster/quota"
	"hilbert.dev/hilbert/resource"
)

// Queues renders the tree: of each queue, for every resource that it holds, is guaranteed or limited in, used/guaranteed/limit; the namespaces
// that feed it; and what is wrong with it. Pods are counted only where they are guaranteed or limited.
func Queues(s *cluster.Store) string {
	var b strings.Builder
	s.Quota().Root().Each(func(q *quota.Queue) {
		name, indent := q.Name, ""
		if q.Parent() == nil {
			name = "root"
		} else {
			indent = strings.Repeat("  ", 1+strings.Count(q.Path(), "/"))
		}
		b.WriteString(indent + name)
		for kind := range s.Kinds() {
			k := resource.Kind(kind)
			used := q.Used(k)
			if k == resource.Pods {
				used = 0
			}
			if used == 0 && q.Guaranteed(k) == 0 && q.Limit(k) == quota.Unlimited {
				continue
			}
			limit := "-"
			if q.Limit(k) != quota.Unlimited {
				limit = amount(k, q.Limit(k))
			}
			fmt.Fprintf(&b, " %s=%s/%s/%s", strings.TrimPrefix(s.KindName(k), "hilbert.dev/"), amount(k, q.Used(k)), amount(k, q.Guaranteed(k)), limit)
		}
		if names := tenants(q); len(names) > 0 {
			fmt.Fprintf(&b, " of %s", strings.Join(names, ", "))
		}
		b.WriteString("\n")
		if q.Problem.Reason != "" {
			fmt.Fprintf(&b, "%s  ! %s: %s (refuses: %v)\n", indent, q.Problem.Reason, q.Problem.Message, q.Refuses)
		}
	})
	return b.String()
}

func tenants(q *quota.Queue) []string {
	var names []string
	for _, t := range q.Tenants() {
		names = append(names, t.Namespace)
	}
	slices.Sort(names)
	return names
}

// Units renders every unit: how many of its members are placed and bound, how many it needs at once, how many more have to be placed
// together, and how many may go one by one.
func Units(s *cluster.Store) string {
	lines := map[string]string{}
	s.Units().Each(func(u *cluster.Unit) {
		state := "waits"
		switch {
		case !u.Ready():
			state = "held"
		case u.Running():
			state = "runs"
		}
		lines[u.String()] = fmt.Sprintf("%s %s: placed %d of %d, bound %d, min %d, need %d, spare %d",
			u.UnitName, state, u.Placed(), len(u.Pods()), u.Bound(), u.MinMember(), u.Need(), u.Spare())
	})
	var b strings.Builder
	for _, name := range sortedKeys(lines) {
		b.WriteString(lines[name] + "\n")
	}
	return b.String()
}
