// Package complete tells the shell how an argument or flag of hilbert may go on: with the names that the cluster, or the kubeconfig, has now.
//
// Data flow: the shell runs "hilbert __complete explain pod we"; cobra calls the function that the command has registered, which lists the pods of the namespace by
// the same flags and credentials as the command itself, and cobra prints those that begin with "we".
//
// Invariants: it asks for at most patience, and offers what it has learnt by then; what cannot be asked offers nothing, and no error reaches the terminal: BASH_COMP_DEBUG_FILE
// has it. It only reads.
//
// It knows no command: each command says which names belong where.
package complete

import (
	"context"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	nodev1alpha1 "hilbert.dev/hilbert/api/node/v1alpha1"
	schedulingv1alpha1 "hilbert.dev/hilbert/api/scheduling/v1alpha1"
	"hilbert.dev/hilbert/kube/parse"
	"hilbert.dev/hilbert/kube/reach"
)

// patience bounds how long somebody waits for the names after Tab.
const patience = 3 * time.Second

// Func completes one argument or the value of one flag.
type Func = cobra.CompletionFunc

// Flag has the value of a flag completed.
func Flag(cmd *cobra.Command, name string, f Func) {
	_ = cmd.RegisterFlagCompletionFunc(name, f) // it fails for a flag that is not there, or has a function already
}

// Namespaces completes the names of namespaces.
func Namespaces(t *reach.Target) Func { return names(t, "/api/v1/namespaces") }

// Nodes completes the names of nodes.
func Nodes(t *reach.Target) Func { return names(t, "/api/v1/nodes") }

// Queues completes the names of Queues.
func Queues(t *reach.Target) Func {
	return names(t, "/apis/"+schedulingv1alpha1.GroupVersion.String()+"/"+schedulingv1alpha1.Queues)
}

// TidePools completes the names of TidePools.
func TidePools(t *reach.Target) Func {
	return names(t, "/apis/"+schedulingv1alpha1.GroupVersion.String()+"/"+schedulingv1alpha1.TidePools)
}

// NodeConfigurations completes the names of NodeConfigurations.
func NodeConfigurations(t *reach.Target) Func {
	return names(t, "/apis/"+nodev1alpha1.GroupVersion.String()+"/"+nodev1alpha1.NodeConfigurations)
}

// Pods completes NAME or NAMESPACE/NAME of pods.
func Pods(t *reach.Target) Func {
	return namespaced(t, func(namespace string) []string { return []string{"/api/v1/namespaces/" + namespace + "/pods"} })
}

// Units completes NAME or NAMESPACE/NAME of the PodGroups of every API that the cluster may have.
func Units(t *reach.Target) Func {
	return namespaced(t, func(namespace string) (paths []string) {
		for _, version := range parse.PodGroupVersions {
			paths = append(paths, "/apis/"+parse.GroupScheduling+"/"+version+"/namespaces/"+namespace+"/"+parse.PodGroups)
		}
		return append(paths, "/apis/"+parse.GroupSigs+"/"+parse.VersionSigs+"/namespaces/"+namespace+"/"+parse.PodGroups)
	})
}

// Reservations completes NAME or NAMESPACE/NAME of the Reservations.
func Reservations(t *reach.Target) Func {
	return namespaced(t, func(namespace string) []string {
		return []string{"/apis/" + schedulingv1alpha1.GroupVersion.String() + "/namespaces/" + namespace + "/" + schedulingv1alpha1.Reservations}
	})
}

// In completes NAME or NAMESPACE/NAME of the objects at a path of a namespace.
func In(t *reach.Target, path func(namespace string) string) Func {
	return namespaced(t, func(namespace string) []string { return []string{path(namespace)} })
}

// Kubeconfig completes --context, --cluster and --user from the kubeconfig.
func Kubeconfig(t *reach.Target, of func(reach.Entries) []string) Func {
	return func(*cobra.Command, []string, string) ([]cobra.Completion, cobra.ShellCompDirective) {
		entries, err := t.Entries()
		debug(err)
		return of(entries), cobra.ShellCompDirectiveNoFileComp
	}
}

func names(t *reach.Target, paths ...string) Func {
	return func(cmd *cobra.Command, args []string, begun string) ([]cobra.Completion, cobra.ShellCompDirective) {
		return offers(list(cmd.Context(), t, paths), args, begun), cobra.ShellCompDirectiveNoFileComp
	}
}

// namespaced completes names in the namespace that is written before a slash, else in the one that the command would take.
func namespaced(t *reach.Target, paths func(namespace string) []string) Func {
	return func(cmd *cobra.Command, args []string, begun string) ([]cobra.Completion, cobra.ShellCompDirective) {
		namespace, _, written := strings.Cut(begun, "/")
		if !written {
			var err error
			if namespace, err = t.DefaultNamespace(); err != nil {
				debug(err)
				return nil, cobra.ShellCompDirectiveNoFileComp
			}
		}
		found := list(cmd.Context(), t, paths(url.PathEscape(namespace)))
		if written {
			for i := range found {
				found[i] = namespace + "/" + found[i]
			}
		}
		return offers(found, args, begun), cobra.ShellCompDirectiveNoFileComp
	}
}

// list asks for the names at some paths, and returns what it has learnt.
func list(ctx context.Context, t *reach.Target, paths []string) (all []string) {
	target := *t
	target.Server = "" // a hilbertd does not list objects
	inspector, err := reach.Reach(target)
	if err != nil {
		debug(err)
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for _, path := range paths {
		found, err := inspector.Names(ctx, path)
		debug(err)
		all = append(all, found...)
	}
	return all
}

// offers are the names that go on with what was begun, each once, and are no arguments yet.
func offers(names, args []string, begun string) (out []cobra.Completion) {
	for _, name := range names {
		if strings.HasPrefix(name, begun) && !slices.Contains(args, name) {
			out = append(out, name)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// debug tells why there are no names, to whom looks for it.
func debug(err error) {
	if err != nil {
		cobra.CompDebugln("hilbert: "+err.Error(), false)
	}
}
