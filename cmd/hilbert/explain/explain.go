// Package explain is hilbert explain: where a pod or gang is placed or why it is not, what a node lends, how queues, Reservations, requests and TidePools stand, and what is
// recommended.
//
// Its one command reads a kind and a name, asks for the answer and prints it as text or as JSON. For example, hilbert explain pod web-0 prints what the leader's own filters
// say of each node, and hilbert explain tidepool mixed what the object's status says.
//
// Invariants: it changes nothing; what a part of an answer could not be read from is said in the answer, and does not keep the rest back.
// The reasons are not made here: package schedule/inspect and the agents' and controllers' statuses have them.
package explain

import (
	"context"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	nodev1alpha1 "hilbert.dev/hilbert/api/node/v1alpha1"
	"hilbert.dev/hilbert/api/scheduling/v1alpha1"
	"hilbert.dev/hilbert/cmd/exitcode"
	"hilbert.dev/hilbert/cmd/hilbert/ask"
	"hilbert.dev/hilbert/cmd/hilbert/complete"
	"hilbert.dev/hilbert/cmd/hilbert/output"
	"hilbert.dev/hilbert/cmd/hilbert/render"
	"hilbert.dev/hilbert/internal/nearest"
	"hilbert.dev/hilbert/kube/reach"
	kubevpa "hilbert.dev/hilbert/kube/vpa"
	"hilbert.dev/hilbert/schedule/inspect"
)

// What can be explained.
const (
	kindPod         = "pod"
	kindUnit        = "unit"
	kindNode        = "node"
	kindQueue       = "queue"
	kindReservation = "reservation"
	kindVPA         = "vpa"
	kindRequest     = "resourcerequest"
	kindTidePool    = "tidepool"
	kindNodeConf    = "nodeconfiguration"
)

// kind is a kind of object that can be explained.
type kind struct {
	name  string
	about string   // what is said of it
	words []string // other words for it; what --output name prints of an object is one of them
	alone bool     // its objects have no namespace
}

// kinds are all of them, in the order in which they are offered.
var kinds = []kind{
	{kindPod, "where it is, or why it waits", []string{"pods", "po"}, false},
	{kindUnit, "the gang of a PodGroup", []string{"units", "podgroup", "podgroups"}, false},
	{kindNode, "what it lends", []string{"nodes", "no"}, true},
	{kindQueue, "what it has, and who waits", []string{"queues"}, true},
	{kindReservation, "where its places are, and who has them", []string{"reservations", "hrsv"}, false},
	{kindVPA, "what is recommended, and what it waits for", []string{"verticalpodautoscaler", kubevpa.Resource}, false},
	{kindRequest, "which containers it has, and what the others wait for", []string{v1alpha1.ResourceRequests, "hreq"}, false},
	{kindTidePool, "how its nodes are divided, and why", []string{v1alpha1.TidePools}, true},
	{kindNodeConf, "how many nodes have it, and what the others wait for", []string{nodev1alpha1.NodeConfigurations, "nodeconf"}, true},
}

// kindOf finds a kind by any of its words; nil: there is none.
func kindOf(word string) *kind {
	i := slices.IndexFunc(kinds, func(k kind) bool { return k.name == word || slices.Contains(k.words, word) })
	if i < 0 {
		return nil
	}
	return &kinds[i]
}

// kindNames are their names.
func kindNames() (names []string) {
	for i := range kinds {
		names = append(names, kinds[i].name)
	}
	return names
}

// forms says how the command is written for each of them.
func forms() string {
	list := kindNames()
	for i, name := range list {
		list[i] = "hilbert explain " + name + " NAME"
	}
	last := len(list) - 1
	return strings.Join(list[:last], ", ") + ", or " + list[last]
}

// flags are the flags of hilbert explain.
type flags struct {
	ask.Hilbertd
	output output.Format
}

// subject is what is to be explained; nodes, queues, TidePools and NodeConfigurations have no namespace.
type subject struct{ kind, namespace, name string }

// NewCommand returns hilbert explain.
func NewCommand() *cobra.Command {
	var f flags
	cmd := &cobra.Command{
		Use:   "explain " + strings.Join(kindNames(), "|") + " NAME",
		Short: "Explain where a pod or gang is placed, or why it is not and what would help; what a node lends; how a queue, reservation, request or TidePool stands; or what is recommended",
		Long: `Explain where a pod is placed and how that node scores, or why no node fits: how many nodes each filter rejects, which nodes come
closest and what they lack, and which single change would make the pod fit.

For a unit (the gang of a PodGroup), show which members are placed, how many units are ahead in its queue, what blocks it now (missing
members, the limit of a queue, packing, capacity), and which single change would let it be placed: a higher limit, another unit gone, no packing
constraint, more members or nodes. The scheduler tries each change before it reports it. The command changes nothing in the cluster.

For a node, show what it lends to reclaimed pods and why not more, by NUMA node, how much of that is requested, which pods it wants evicted, what
its NUMA nodes can promise, which services are harmed by whom, and how much CPU may be promised a second time. The reasons come from the agent's CustomNodeResource; --from has only what the scheduler knows.

For a queue, show what it has of each resource, what bounds it, what it may take back or has to give back, which units come first, and why they wait.

For a reservation, show its places: where each is, which pod has it, or why it waits or was lost, and which of its owners wait. Of one that keeps the target of
a move, or room for a pod that grows, show for which pod and why; the pod's own answer names it too.

For a VerticalPodAutoscaler that names Hilbert's recommender (vpa), show what is recommended and why, whether pods have it, what that waits for, and the room
that is kept for pods that grow.

For a ResourceRequest, show how each container that is asked for stands, and why pods of it have no node. For a TidePool, show how its nodes are divided, why,
and which of them are changing hands. For a NodeConfiguration, show how far its rollout has come, what it waits for, or why it was taken back.

The NAME of a pod, unit, reservation, vpa or resourcerequest is looked for in --namespace, else in the namespace of the kubeconfig's context, else in default; NAMESPACE/NAME names both.
What -o name prints can be explained too: hilbert explain pod/web-0.`,
		Example: `  hilbert explain pod web-0 -n shop
  hilbert explain pod shop/web-0 -o jsonpath='{.explanation.changes[0]}'
  hilbert explain unit ml/train
  hilbert explain unit ml/train -o json
  hilbert explain node node-17
  hilbert explain queue research
  hilbert explain reservation web/release
  hilbert explain vpa shop/web
  hilbert explain resourcerequest etl/words
  hilbert explain tidepool mixed
  hilbert explain nodeconfiguration web
  hilbert snapshot > cluster.json && hilbert explain pod default/web-0 --from cluster.json`,
		Args:              cobra.RangeArgs(1, 2),
		ValidArgsFunction: f.complete,
		RunE:              f.run,
	}
	f.Flags(cmd)
	f.FromFlag(cmd)
	ask.NamespaceFlag(cmd, &f.Target)
	f.output.Flag(cmd)
	return cmd
}

func (f *flags) run(cmd *cobra.Command, args []string) error {
	if err := f.output.Check("explain"); err != nil {
		return err
	}
	of, err := f.subject(args)
	if err != nil {
		return err
	}
	a, err := f.answer(cmd, of)
	if err != nil {
		return err
	}
	return f.output.Write(cmd.OutOrStdout(), a)
}

func (f *flags) answer(cmd *cobra.Command, of subject) (output.Answer, error) {
	switch of.kind {
	case kindNode:
		return f.node(cmd.Context(), of.name)
	case kindQueue:
		v, err := f.Queues(cmd.Context(), of.name, ask.QueueLimit)
		return queueExplanation{v}, err
	case kindUnit:
		a, err := f.Unit(cmd.Context(), of.namespace, of.name)
		return unitAnswer{a}, err
	case kindReservation:
		return f.reservation(cmd.Context(), of.namespace, of.name)
	case kindVPA:
		return f.vpa(cmd.Context(), of.namespace, of.name)
	case kindRequest:
		return f.request(cmd.Context(), of.namespace, of.name)
	case kindTidePool:
		return f.tidePool(cmd.Context(), of.name)
	case kindNodeConf:
		return f.nodeConfiguration(cmd.Context(), of.name)
	}
	return f.pod(cmd.Context(), of.namespace, of.name)
}

// read reads an object of a kind that only the API server has, and returns what else can be asked there.
func (f *flags) read(ctx context.Context, kind, plural, path string, into any) (*reach.Inspector, error) {
	if f.From != "" {
		return nil, exitcode.Usagef("explain %s: a file has no %s; leave out --from", kind, plural)
	}
	inspector, err := reach.Reach(f.Target)
	if err != nil {
		return nil, ask.Cause(err)
	}
	return inspector, ask.Cause(inspector.Get(ctx, path, into))
}

// subject reads the arguments: KIND NAME, KIND NAMESPACE/NAME, or KIND/NAME.
func (f *flags) subject(args []string) (subject, error) {
	if len(args) == 1 {
		kind, name, ok := strings.Cut(args[0], "/")
		if !ok {
			return subject{}, exitcode.Usagef("explain: %q has no name; write %s", args[0], forms())
		}
		args = []string{kind, name}
	}
	word, _, _ := strings.Cut(args[0], ".") // podgroup.scheduling.k8s.io
	k := kindOf(word)
	if k == nil {
		return subject{}, exitcode.Usagef("explain: %q cannot be explained%s; write %s", args[0], nearest.Hint(args[0], kindNames()), forms())
	}
	of := subject{kind: k.name, name: args[1]}
	if k.alone {
		if of.name == "" || strings.Contains(of.name, "/") {
			return of, exitcode.Usagef("explain: %q is no %s: a %s has no namespace; write its name", args[1], of.kind, of.kind)
		}
		return of, nil
	}
	return of, f.place(&of, args[1])
}

// place finds out the namespace.
func (f *flags) place(of *subject, text string) (err error) {
	namespace, name, ok := strings.Cut(text, "/")
	switch {
	case !ok && f.From != "" && f.Target.Namespace == "":
		of.namespace = "default" // a file has no context
		return f.named(of, text)
	case !ok:
		if of.namespace, err = f.Target.DefaultNamespace(); err != nil {
			return ask.Cause(err)
		}
		return f.named(of, text)
	}
	if f.Target.Namespace != "" && f.Target.Namespace != namespace {
		return exitcode.Usagef("explain: %q is not in the namespace %s that --namespace names; leave one of them out", text, f.Target.Namespace)
	}
	of.namespace, of.name = namespace, name
	return f.named(of, text)
}

func (f *flags) named(of *subject, text string) error {
	if of.namespace == "" || of.name == "" || strings.Contains(of.name, "/") {
		return exitcode.Usagef("explain: %q is no %s; write NAMESPACE/NAME", text, of.kind)
	}
	return nil
}

// complete completes the kind, then the name.
func (f *flags) complete(cmd *cobra.Command, args []string, begun string) ([]cobra.Completion, cobra.ShellCompDirective) {
	if len(args) == 0 {
		var offered []cobra.Completion
		for i := range kinds {
			offered = append(offered, cobra.CompletionWithDesc(kinds[i].name, kinds[i].about))
		}
		return offered, cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveKeepOrder
	}
	k := kindOf(args[0])
	if k == nil || len(args) > 1 || f.From != "" {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	names := map[string]complete.Func{
		kindPod: complete.Pods(&f.Target), kindUnit: complete.Units(&f.Target), kindNode: complete.Nodes(&f.Target), kindQueue: complete.Queues(&f.Target),
		kindReservation: complete.Reservations(&f.Target), kindVPA: complete.In(&f.Target, kubevpa.Path),
		kindRequest: complete.In(&f.Target, requestPath), kindTidePool: complete.TidePools(&f.Target), kindNodeConf: complete.NodeConfigurations(&f.Target),
	}[k.name]
	return names(cmd, args[1:], begun)
}

// unitAnswer is how a gang stands.
type unitAnswer struct{ *inspect.UnitAnswer }

// WriteText renders the answer.
func (a unitAnswer) WriteText(w io.Writer) error { return render.Unit(w, a.UnitAnswer) }

// queueExplanation is how a queue stands.
type queueExplanation struct{ *inspect.QueueView }

// WriteText renders the answer.
func (a queueExplanation) WriteText(w io.Writer) error { return render.Queue(w, a.QueueView) }
