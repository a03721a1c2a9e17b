package mutants

// mutant is a file with a change after which a test has to fail.
type mutant struct {
	check string // the first words of the check's row in docs/security.md
	what  string // what is missing then
	file  string
	from  string // is in the file once
	to    string
	pkg   string // of the test
	test  string
	// property: the test looks for a counterexample at random.
	property bool
}

const (
	wishes      = "a report wishes"
	mirrorPods  = "mirrors of static pods"
	pools       = "pools take no cores"
	exhaustion  = "600 resources"
	charges     = "charge = grant"
	viewers     = "viewers of a namespace"
	forwarding  = "a token is never passed on"
	metrics     = "`/metrics`: 401"
	softSlices  = "two namespaces on one soft GPU"
	twice       = "a variable that is set twice"
	unguarded   = "policies removed"
	parsers     = "fuzzing of what others wrote"
	maxAllow    = "r.Context(), &user, q.access()); err != nil {"
	maxAllowed  = "r.Context(), &user, q.access()); err != nil && q.Name == \"\" {"
	daemonTests = "./cmd/hilbertd/daemon"
)

var table = []mutant{
	{wishes, "any pod of the node may be wished away", "schedule/relief/relief.go", " || !mayRequest(pod, req):", ":", "./schedule/relief", "TestWishedAwayByACapturedNode", false},
	{wishes, "a pod of another node may be wished away", "schedule/relief/relief.go", " || pod.Node() != node || ", " || ", "./schedule/relief", "TestWishedAwayByACapturedNode", false},
	{wishes, "the budget is not kept", "schedule/relief/relief.go", "			r.tokens--\n", "", "./schedule/relief", "TestBudgetHolds", true},
	{wishes, "urgent evictions keep no distance", "schedule/relief/relief.go", "return last.Add(UrgentInterval)", "return last", "./schedule/relief", "TestBudgetHolds", true},

	{mirrorPods, "whoever marks a pod has it count as a mirror", "kube/parse/parser.go", `return o.Kind == "Node" && o.Name == pod.Spec.NodeName`, "return true", "./kube/parse", "TestMirrorPods", false},
	{mirrorPods, "no pod counts as a mirror", "kube/parse/parser.go", `return o.Kind == "Node" && o.Name == pod.Spec.NodeName`, "return false", "./kube/parse", "TestMirrorPods", false},
	{mirrorPods, "what a mirror says it was promised counts", "kube/parse/parser.go", "if !seen.Mirror {", "if true {", "./kube/parse", "TestMirrorsPromisesAreIgnored", false},
	{mirrorPods, "a mirror charges the queue of its namespace", "cluster/charge.go", "if pod.mirror {", "if false {", "./cluster", "TestQueuesAreChargedWhatOthersBind", false},

	{pools, "each name of a pool is worth a core", "topology/cores/divide.go", "if name != SharePool && p.MilliCPU < milliPerCPU*int64(threads) {", "if false {", "./node/allocate", "TestHostilePoolsTakeNothing", true},

	{exhaustion, "different pods that wait are not bounded", "schedule/scheduler.go", "s.store.Waiting().SetMost(*most)", "_ = *most", "./schedule", "TestHostileTenantCannotExhaust", false},
	{exhaustion, "pods with terms that wait are not bounded", "schedule/scheduler.go", "s.store.Waiting().SetMost(*most)", "_ = *most", "./schedule", "TestHostileTermsCannotExhaust", false},
	{exhaustion, "terms of waiting pods weigh nothing", "cluster/waiting/bound.go", "return min(1+terms/TermsPerClass, b.most)", "return min(1, b.most)", "./cluster", "TestWaitingTermsAreBounded", false},
	{exhaustion, "a Step looks at as many nodes as there are", "schedule/loop.go", "s.decisions.looked < maxLooks && ", "", "./schedule", "TestHostileTenantCannotExhaust", false},
	{exhaustion, "it is not counted what an event costs", "schedule/intake/shares.go", "s.until[s.last] += int64(pods / judgedPerEvent)", "_ = pods", "./schedule", "TestHostileGangsCannotExhaust", false},
	{exhaustion, "turns are of equal number, not of equal cost", "schedule/intake/shares.go", "return s.until[namespace] <= s.now", "return true", "./schedule/intake", "TestTurnsCostTheSame", true},
	{exhaustion, "nobody says what an event cost", "cmd/hilbertd/daemon/loop.go", "l.intake.Judged(l.scheduler.Apply(event, now))", "l.scheduler.Apply(event, now)", daemonTests, "TestDearEventsComeSeldom", false},

	{charges, "queues are charged the request", "cluster/charge.go", "if !pod.holding().isZero() {", "if false {", "./cluster", "TestQueuesAreChargedTheGrant", false},
	{charges, "limits are compared with the request", "cluster/charge.go", "pod.Queue().Admits(b.state.Charge(slot, pod.Class, g))", "pod.Queue().Admits(pod.Class.Charge)", "./cluster", "TestQueuesAreChargedTheGrant", false},
	{charges, "a slice is charged what it asked for, not the steps that it takes", "cluster/charge.go", "given := int64(bits.OnesCount16(g.GPUs)) * int64(g.Milli)", "given := min(int64(bits.OnesCount16(g.GPUs))*int64(g.Milli), c.GPU.Total())", "./cluster", "TestQueuesAreChargedWholeStepsOfGPUs", false},
	{charges, "what others bind is charged to nobody", "cluster/charge.go", "	charge := pod.Class.Charge\n	if !pod", "	charge := pod.Class.Charge\n	if !pod.Ours {\n		return nil\n	}\n	if !pod", "./cluster", "TestQueuesAreChargedWhatOthersBind", false},

	{viewers, "nobody is asked whether a user may see a namespace", "kube/visibility/server.go", maxAllow, maxAllowed, "./kube/visibility", "TestWhoAsks", false},

	{metrics, "metrics are for everybody", "cmd/hilbertd/daemon/server.go", "i.guardedElsewhere(endpoints.NewScrapes(l.meter.registry).ServeHTTP)", "endpoints.NewScrapes(l.meter.registry).ServeHTTP", daemonTests, "TestEveryPathIsGuarded", false},
	{metrics, "the configuration is for everybody", "cmd/hilbertd/daemon/server.go", "i.guarded(i.configz)", "i.configz", daemonTests, "TestEveryPathIsGuarded", false},
	{metrics, "whose name begins with this host's address counts as of this host", "kube/visibility/server.go", "address.Unmap().IsLoopback()", `address.Unmap().IsLoopback() || strings.HasPrefix(host, "127.0.0.1")`, daemonTests, "TestMetricsNeedARight", false},
	{
		metrics, "a scrape is made while it is sent", "cmd/hilbertd/endpoints/scrape.go", "	answer, ok := s.make(r)\n",
		"	s.making <- struct{}{}\n	defer func() { <-s.making }()\n	answer, ok := (&Scrapes{metrics: s.metrics, making: make(chan struct{}, 1)}).make(r)\n", "./cmd/hilbertd/endpoints", "TestSlowScrape", false,
	},
	{metrics, "a client may read as slowly as it likes", "cmd/hilbertd/endpoints/scrape.go", ".SetWriteDeadline(time.Now().Add(sendTimeout))", ".SetWriteDeadline(time.Now().Add(time.Hour))", "./cmd/hilbertd/endpoints", "TestSlowScrape", false},
	{metrics, "each false token is a question to the API server", "kube/visibility/tokens.go", "stranger && !t.strangers.AllowN(now, 1)", "stranger && false", "./kube/visibility", "TestTriedTokens", false},

	{softSlices, "two namespaces have slices of one GPU", "topology/device_slice.go", "&& !f.shares(i, t)", "&& false", "./topology", "TestDevicesAgainstOracle", true},
	{softSlices, "what one namespace left in the memory is given to another", "node/mps/shared.go", "	case owner.shared == is.Name:\n", "	case false:\n", "./node/mps", "TestGive", false},
	{softSlices, "memory is given to whoever comes", "node/devices/injector.go", "if err := j.devices.owners.Give(i, shared, s.Namespace, j.runningOn(i)); err != nil {", "if err := j.devices.owners.Give(i, shared, s.Namespace, j.runningOn(i)); err != nil && false {", "./node", "TestSharedMemoryIsOneNamespaces", false},
	{softSlices, "root of the host is given a slice", "node/mps/user.go", "if user == (User{}) {", "if false {", "./node/mps", "TestAdmit", false},

	{twice, "a doubled variable is taken", "node/cdi/inject.go", "if c.count(name) > 1 {", "if c.count(name) > 9 {", "./node/cdi", "TestNoGrantNoGPU", true},
	{twice, "a mount is compared as it is written", "node/cdi/inject.go", `clean := path.Clean("/" + place)`, `clean := place + path.Clean("")[1:]`, "./node/cdi", "TestInject", false},
	{twice, "containers without a grant see what the image asks for", "node/cdi/inject.go", `e.Env = append(e.Env, visible+"="+void)`, `_ = void`, "./node/cdi", "TestNoGrantNoGPU", true},
	{twice, "a toolkit that listens to unprivileged containers is taken", "node/cdi/toolkit.go", "is && !accepts {", "is && (accepts || !accepts) {", "./node/cdi", "TestToolkit", false},

	{unguarded, "promises are made without the policies", "kube/reports.go", `withheld := v.stale.promises || unguarded != ""`, "withheld := v.stale.promises", "./kube", "TestUnguardedReports", false},

	{parsers, "control characters reach the terminal", "cmd/hilbert/output/printable.go", `if unicode.IsControl(r) && r != '\n' && r != '\t' {`, `if unicode.IsControl(r) && r == 0 {`, "./cmd/hilbert/output", "FuzzPrintable", false},
	{parsers, "a length may be beyond the message", "kube/agent/podresources.go", "if n <= 0 || length > uint64(len(message)-n) {", "if n <= 0 {", "./kube/agent", "FuzzPodResources", false},
	{parsers, "a container's cgroup may be outside of the pods'", "node/nri/cgroup.go", ` || element == ".."`, "", "./node/nri", "FuzzMessages", false},
}
