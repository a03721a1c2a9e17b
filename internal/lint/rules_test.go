package lint

import (
	"slices"
	"strings"
)

// rule is one promise: what breaks it, and why it was made.
type rule struct {
	name  string
	why   string
	check func(*tree) []breach
}

// breach is one place where a rule does not hold.
type breach struct {
	place
	what string
}

// Patterns name packages as go list does: "./x" is a package of the tree, and
// "/..." at the end takes in what lies below.

// core is where decisions are made; CONTRIBUTING.md lists it.
var core = []string{
	"./resource/...", "./topology/...", "./cluster/...", "./schedule/...",
	"./node/advise/...", "./node/allocate/...", "./node/evict/...", "./node/hint/...", "./node/interference/...", "./node/oom/...", "./node/overcommit/...",
	"./node/rdt/throttle/...", "./node/bandwidth/intensive/...",
	"./control/...",
}

// vocabulary is what core may import besides itself. Whatever core really
// imports of it is held to the same purity as core.
var vocabulary = []string{"./api/spec/...", "./internal/..."}

var (
	kubernetes = []string{"k8s.io/...", "sigs.k8s.io/..."}
	roles      = [][]string{{"./schedule/..."}, {"./node/..."}, {"./control/..."}}
	kubeDoor   = []string{"./kube/..."}
	simDoor    = []string{"./sim/..."}
	crds       = []string{"./api/..."} // without spec and nodeplugin, see crd()
	// generation is where code and manifests are generated from the CRDs.
	generation = []string{"./internal/gen/..."}
)

// placeFloors are the packages of schedule/place, the lowest first. Each may import those before it only.
var placeFloors = []string{
	"./schedule/place/rules", "./schedule/place/index", "./schedule/place/pack", "./schedule/place/victims", "./schedule/place/explain", "./schedule/place",
}

// planned names patterns that have no package yet. TestPatternsMatch fails
// when one appears, so that this list only ever shrinks.
var planned = []string{
	"./internal/gen/...",
}

const (
	maxFileLines     = 500
	maxTestFileLines = 800
	maxFuncLines     = 70
	minDocSentences  = 3
	minDocWords      = 40
)

var rules = []rule{
	{
		name: "core-imports",
		why: "core decides, shell acts: clients, files, loggers, contexts and the environment belong to the shell, " +
			"so that a decision is a function of its arguments and can be replayed",
		check: neverImport(core, nil,
			"context", "crypto/rand", "log/...", "net/...", "os/...", "io/ioutil", "plugin", "syscall", "testing/..."),
	},
	{
		name: "core-kubernetes",
		why: "kube parses objects once, at the door; k8s.io/api/core/v1 alone drags klog and net/http into " +
			"every simulation, test and agent that only wants to decide",
		check: neverReach(core, append([]string{"net/http"}, kubernetes...)...),
	},
	{
		name:  "core-inward",
		why:   "a decision that imports its shell cannot run behind another one; ports are declared in core and implemented outside",
		check: coreInward,
	},
	{
		name:  "core-clock",
		why:   "now is an argument: virtual time, replay and identical digests depend on it",
		check: coreUses("time", "Now", "Since", "Until", "Sleep", "After", "AfterFunc", "NewTimer", "NewTicker", "Tick"),
	},
	{
		name:  "core-rand",
		why:   "the seed is an argument: the same seed must give the same placement on any machine",
		check: coreRand,
	},
	{
		name: "core-concurrency",
		why: "core is called by one goroutine at a time and takes a Runner where it may run in parallel; " +
			"goroutines, channels and locks in it would let the schedule of the Go runtime decide",
		check: coreConcurrency,
	},
	{
		name:  "core-print",
		why:   "core has no logger: what it wants to say is a value that the shell renders",
		check: corePrint,
	},
	{
		name:  "roles-apart",
		why:   "schedule, node and control meet in cluster, topology, resource and api/spec; an import would tie two roles into one process",
		check: rolesApart,
	},
	{
		name: "decide-apart",
		why: "schedule/inspect reads schedulers and schedule/admit serves both: a decision that depended on what is shown could not be replayed, " +
			"and a gate that knew the pipeline could not be rehearsed",
		check: all(
			neverReach([]string{"./schedule"}, "./schedule/inspect/..."),
			neverReach([]string{"./schedule/admit"}, "./schedule", "./schedule/bind/...", "./schedule/inspect/..."),
		),
	},
	{
		name: "cluster-rooms",
		why: "the counts, the quota and the logs are sums that the ledger keeps in step: one that knew the ledger, or another of them, could not be " +
			"tested and verified by itself",
		check: all(
			neverReach([]string{"./cluster/changes/..."}, "./cluster", "./cluster/facts/...", "./cluster/census/...", "./cluster/quota/..."),
			neverReach([]string{"./cluster/census/..."}, "./cluster", "./cluster/quota/..."),
			neverReach([]string{"./cluster/quota/..."}, "./cluster", "./cluster/census/..."),
			neverReach([]string{"./cluster/facts/..."}, "./cluster", "./cluster/census/...", "./cluster/quota/..."),
		),
	},
	{
		name:  "core-render",
		why:   "core says what is; tables, bars and widths of terminals are cmd/hilbert/render's, or each caller would get the text that one of them likes",
		check: neverImport([]string{"./schedule/...", "./cluster/..."}, nil, "text/tabwriter", "text/template", "html/..."),
	},
	{
		name: "schedule-parts",
		why: "queue, place and bind meet in package schedule only: the order of units may not depend on where they fit, a placement not on who waits, " +
			"and a commit on neither",
		check: all(
			neverImport([]string{"./schedule/queue/..."}, nil, "./schedule/bind/...", "./schedule/place/...", "./schedule/relief/..."),
			neverImport([]string{"./schedule/place/..."}, nil, "./schedule/bind/...", "./schedule/queue/...", "./schedule/relief/..."),
			neverImport([]string{"./schedule/bind/..."}, nil, "./schedule/place/...", "./schedule/queue/...", "./schedule/relief/..."),
		),
	},
	{
		name: "doors-apart",
		why:  "kube and sim are two doors to the same core; sharing code between them hides a difference that the simulator should find",
		check: all(
			neverReach(kubeDoor, simDoor...),
			neverReach(simDoor, kubeDoor...),
		),
	},
	{
		name: "judge-apart",
		why: "sim/judge and sim/check check the scheduler; code that both share would hide a mistake from the check. check reads Plans, writes and " +
			"the ledger, and decides nothing with the scheduler's code",
		check: all(
			neverReach([]string{"./sim/judge"}, "./cluster", "./schedule/..."),
			neverImport([]string{"./sim/check"}, nil, "./schedule", "./schedule/place/...", "./schedule/queue/..."),
		),
	},
	{
		name: "kubernetes-at-the-door",
		why:  "kube, cmd, the CRD groups and generation know Kubernetes' libraries; everything else speaks our vocabulary, so an upgrade touches one package",
		check: neverImport([]string{"./..."}, join([]string{"./lab/...", "./cmd/...", "./api/...", "./tools/release/..."}, kubeDoor, generation),
			kubernetes...),
	},
	{
		name:  "client-go-owner",
		why:   "kube is the sole owner of client-go: its rate limits, caches and retries are decided in one place",
		check: neverImport([]string{"./..."}, join([]string{"./lab/..."}, kubeDoor), "k8s.io/client-go/..."),
	},
	{
		name: "kube-rooms",
		why: "parse is pure: objects in, our words out, so that its tests need no server and the tool and hilbertd read an object alike. " +
			"apiserver and lease are below what uses them. agent and reach belong to other processes than the watch and the writer of hilbertd: " +
			"an agent that could import the writer could bind pods",
		check: all(
			neverImport([]string{"./kube/parse/..."}, nil, "k8s.io/client-go/...", "net/...", "./kube/apiserver/...", "./kube/lease/...", "./kube/agent/...", "./kube/reach/...", "./kube/visibility/...", "./kube"),
			neverImport([]string{"./kube/apiserver/..."}, nil, "./kube", "./kube/parse/...", "./kube/lease/...", "./kube/agent/...", "./kube/reach/...", "./kube/visibility/..."),
			neverImport([]string{"./kube/lease/..."}, nil, "./kube", "./kube/parse/...", "./kube/agent/...", "./kube/reach/...", "./kube/visibility/..."),
			neverImport([]string{"./kube/agent/..."}, nil, "./kube", "./kube/lease/...", "./kube/reach/...", "./kube/visibility/..."),
			neverImport([]string{"./kube/reach/..."}, nil, "./kube", "./kube/agent/..."),
			neverImport([]string{"./kube/visibility/..."}, nil, "./kube", "./kube/parse/...", "./kube/agent/...", "./kube/reach/..."),
			neverImport([]string{"./kube/write/...", "./kube/optional/..."}, nil, "./kube", "./kube/agent/...", "./kube/reach/...", "./kube/visibility/..."),
			neverImport([]string{"./kube"}, nil, "./kube/write/...", "./kube/agent/...", "./kube/reach/...", "./kube/visibility/..."),
		),
	},
	{
		name: "loop-knows-no-node",
		why: "node/loop says how messages reach the one goroutine that owns the agent's state, and every controller relies on it: a loop that knew what " +
			"the messages are about could touch that state from outside, and could not be tested alone",
		check: neverImport([]string{"./node/loop/..."}, nil, "./...", "log/...", "net/...", "os/..."),
	},
	{
		name: "cores-are-the-agents",
		why: "the scheduler promises amounts and the agent picks CPUs; a scheduler that imported the CPU allocator would decide what only the node " +
			"knows, and topology would need it in a circle",
		check: neverImport([]string{"./topology", "./cluster/...", "./schedule/...", "./kube/..."}, nil, "./topology/cores/..."),
	},
	{
		name: "agents-schedule-nothing",
		why: "the processes on a node keep what was promised and decide no placement: an agent that linked the ledger, the scheduler or its loop would " +
			"bring both onto every node, and could bind pods there",
		check: neverImport([]string{"./cmd/hilbertd/agent/...", "./cmd/hilbertd/endpoints/..."}, nil, "./cluster", "./schedule/...", "./kube", "./cmd/hilbertd/daemon/..."),
	},
	{
		name: "report-draws",
		why:  "internal/report knows pixels and words only, so that every command and experiment can draw with it",
		check: neverImport([]string{"./internal/report/..."}, nil, "./resource/...", "./topology/...", "./cluster/...", "./schedule/...", "./node/...", "./sim/...",
			"./kube/...", "./cmd/..."),
	},
	{
		name:  "crds-at-the-door",
		why:   "the CRD groups embed api/spec under TypeMeta; whoever needs the fields takes api/spec and stays free of Kubernetes",
		check: crdsAtTheDoor,
	},
	{
		name: "place-floors",
		why: "schedule/place is read from the bottom: what a node may take, the order of nodes, several pods together, who has to leave, why not. " +
			"A lower floor that knew a higher one could be neither read nor replaced alone, as the rankings are to be",
		check: floors(placeFloors),
	},
	{
		name:  "spec-std-only",
		why:   "api/spec is imported by everything, so whatever it imports is imported by everything",
		check: specStdOnly,
	},
	{
		name:  "package-name",
		why:   "a package is named by the noun that it provides; a drawer called util collects what nobody owns",
		check: packageNames,
	},
	{
		name:  "package-doc",
		why:   "a package says what it is for, what always holds and what it is not: three sentences and forty words are the least that takes",
		check: packageDocs,
	},
	{
		name:  "file-lines",
		why:   "a file is read as a whole: 500 lines of code, 800 of tests",
		check: fileLines,
	},
	{
		name:  "func-lines",
		why:   "a function fits a screen: 70 lines",
		check: funcLines,
	},
	{
		name:  "todo-issue",
		why:   "a TODO without an issue is a wish that nobody will find: write TODO(#12)",
		check: todos,
	},
	{
		name:  "orphan",
		why:   "a package that nothing imports is not part of the product, however well it is tested",
		check: orphans,
	},
	{
		name:  "testing-in-product",
		why:   "package testing registers flags and marks code as test support; a product package must not link it",
		check: testingInProduct,
	},
	{
		name:  "test-durations",
		why:   "a machine with more work than CPUs takes any time for anything: a test that fails for it fails now and then, and never for its cause",
		check: testDurations,
	},
	{
		name:  "dependency-row",
		why:   "every direct dependency has its reason in docs/dependencies.md, or it is not worth its upkeep; nobody looks for the reason of one that is gone",
		check: dependencyRows,
	},
}

// matches says whether name, as tree.rel gives it, falls under a pattern.
func matches(patterns []string, name string) bool {
	return slices.ContainsFunc(patterns, func(pattern string) bool {
		prefix, below := strings.CutSuffix(pattern, "/...")
		if !below {
			return name == pattern
		}
		return name == prefix || strings.HasPrefix(name, prefix+"/")
	})
}

func join(lists ...[]string) []string { return slices.Concat(lists...) }

func all(checks ...func(*tree) []breach) func(*tree) []breach {
	return func(t *tree) []breach {
		var out []breach
		for _, check := range checks {
			out = append(out, check(t)...)
		}
		return out
	}
}
