# Hilbert. `make` builds the product and runs the quick tests; `make help`
# lists the rest. Only Go, git and make are needed.

SHELL       := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := all

# Pure Go everywhere: one static binary. The race detector alone needs C.
export CGO_ENABLED ?= 0
# Public cluster traces. Tests that replay them skip, and say so, without.
export HILBERT_TRACES ?= $(abspath $(CURDIR)/../shared/traces)

GO      ?= go
# A prefix for every long command: make test NICE="nice -n 19".
NICE    ?=
ARGS    ?=
SEEDS   ?= 100
COUNT   ?= 10
CASES   ?= 100000
CHECKS  ?= 1000
PLAYS   ?= 3
SEED    ?= 1
# A count, not a duration: at the end of a duration Go 1.26 may report its own deadline as a failure (go.dev/issue/75804).
FUZZTIME ?= 300000x
LDFLAGS ?= -s -w
# What make stores puts under the API server.
STORES  ?= etcd sqlite postgres

# A release: make release VERSION=v0.1.0. RELEASE_KEY signs it; RELEASE_ARGS go to hilbert-release.
VERSION       ?=
DIST          ?= dist
RELEASE_KEY   ?=
RELEASE_ARGS  ?=

# What the embedded control plane says it is. Without this it reads v0.0.0,
# which kubectl cannot parse.
KUBE_VERSION := $(shell sed -n 's/^[[:space:]]*k8s\.io\/kubernetes \(v[0-9.]*\).*/\1/p' lab/go.mod 2>/dev/null)
KUBE_MAJOR    = $(word 1,$(subst ., ,$(KUBE_VERSION:v%=%)))
KUBE_MINOR    = $(word 2,$(subst ., ,$(KUBE_VERSION:v%=%)))
LAB_LDFLAGS   = $(LDFLAGS) $(foreach pkg,k8s.io/component-base/version k8s.io/client-go/pkg/version, \
	-X $(pkg).gitVersion=$(KUBE_VERSION) -X $(pkg).gitMajor=$(KUBE_MAJOR) -X $(pkg).gitMinor=$(KUBE_MINOR))

TOOL     = $(GO) tool -modfile=tools/go.mod
LAB_TOOL = $(GO) tool -modfile=../tools/go.mod

# The linters that judge a package by itself. The others (govet and its like)
# first read all of Kubernetes' source for facts about what the lab imports:
# 10 GiB of memory and minutes each time, so the lab is linted on demand and its
# tests run without vet.
comma := ,
LAB_LINTERS = $(subst $(eval) ,$(comma),errcheck errorlint fatcontext forbidigo funlen gocognit ineffassign \
	nolintlint perfsprint revive sloglint unused usetesting)

# tested runs tests of the lab, once: a test that fails now and then is a defect.
tested = bash -c 'cd lab && $(LAB_TOOL) gotestsum --format $(1) --hide-summary skipped --packages "$(2)" -- -vet=off $(3)'

# timed runs a command and says how long it took.
timed = @start=$$(date +%s); $(NICE) $(2); printf '%-12s %4d s\n' '$(1)' "$$(($$(date +%s) - start))"

##@ Every day

.PHONY: all
all: build quick ## build the product and run the quick tests (seconds)

.PHONY: build
build: ## bin/hilbert and bin/hilbertd
	@mkdir -p bin
	$(call timed,build,$(GO) build -ldflags '$(LDFLAGS)' -o bin/ ./cmd/hilbert ./cmd/hilbertd)

.PHONY: quick
quick: ## the product's tests in their short form
	$(call timed,quick,$(GO) test -short ./...)

.PHONY: demo
demo: lab ## a real control plane, 1,000 hollow nodes and a day's work; ARGS go to the demo
	bin/hilbert-lab demo $(ARGS)

.PHONY: try
try: build ## a minute of the simulator, without a control plane: a fleet's half day with and without Hilbert, drawn in try.html; ARGS go to hilbert sim colocation
	$(call timed,try,bin/hilbert sim colocation --synthetic --nodes 48 --days 0.5 --no-ablations --report try.html $(ARGS))
	@echo 'Open try.html in a browser.'

.PHONY: lab
lab: ## bin/hilbert-lab: a whole control plane, minutes to build the first time
	@mkdir -p bin
	$(call timed,lab,$(GO) -C lab build -ldflags '$(LAB_LDFLAGS)' -o ../bin/hilbert-lab ./cmd/hilbert-lab)

# The specs of Kubernetes' own end-to-end tests, in a module of their own.
.PHONY: e2e-suite
e2e-suite: ## bin/e2e-scheduling: upstream's [sig-scheduling] specs; minutes to build the first time, seconds beside what make lab has compiled
	@mkdir -p bin
	$(call timed,e2e-suite,$(GO) -C lab/e2e build -ldflags '$(LDFLAGS)' -o ../../bin/ ./cmd/e2e-scheduling)

.PHONY: e2e-workloads
e2e-workloads: ## bin/e2e-workloads: upstream's specs of scheduling, workload controllers and storage
	@mkdir -p bin
	$(call timed,e2e-workloads,$(GO) -C lab/e2e build -ldflags '$(LDFLAGS)' -o ../../bin/ ./cmd/e2e-workloads)

##@ Before a change lands

# Properties draw the same histories each time, so that the same tree passes or fails; make properties draws others.
test unit lab-short: export RAPID_SEED ?= 1
test unit lab-short: export RAPID_NOFAILFILE = true

.PHONY: test
test: vet unit house sim-test generated release-short alerts-test lab-short chart-test ## everything that a change must pass

.PHONY: vet
vet: ## gofmt, and go vet over the product
	$(call timed,gofmt,bash -c 'bad=$$(gofmt -l .); [ -z "$$bad" ] || { echo "not gofmt-ed:"; echo "$$bad"; exit 1; }')
	$(call timed,vet,$(GO) vet ./...)

.PHONY: unit
unit: ## all tests of the product
	$(call timed,unit,$(GO) test -timeout 20m ./...)

.PHONY: house
house: ## the import rules and limits of internal/lint, uncached
	$(call timed,house,$(GO) test -count=1 ./internal/lint)

.PHONY: generated
generated: ## the API's deep copies are what controller-gen writes
	$(call timed,generated,$(GO) -C tools/generate test -vet=off -count=1 ./...)

.PHONY: sim-test
sim-test: build ## short simulations: the same seed gives the same digest
	$(call timed,sim,bash .ci/sim)
	$(call timed,sim elsewhere,env HILBERT_SIM_SEEDS=50 $(GO) test -count=1 -timeout 30m -run 'TestFaultsElsewhere' ./sim)

# Packages whose tests all need a guest, or operators that are minutes to build, so that lab-short would only link them to have each test skipped: 17 s of CPU
# time a package. It compiles them; vm-short, vm-test and operators-test run them.
LAB_GUESTS = ./vm/agent ./vm/chart ./vm/colocation/... ./vm/join ./vm/memory ./vm/reclaimed ./vm/systemd ./operators

.PHONY: lab-short
lab-short: ## the lab's tests in their short form, on a real control plane
	$(call timed,compile guests,$(GO) -C lab list -test -export $(LAB_GUESTS) >/dev/null)
	$(call timed,lab-short,$(call tested,pkgname,$$($(GO) list ./... | grep -vxF "$$($(GO) list $(LAB_GUESTS))"),-short -timeout 15m -ldflags "$(LAB_LDFLAGS)"))

.PHONY: lint
lint: ## golangci-lint over the product (the first run builds the linter: minutes)
	$(call timed,lint,$(TOOL) golangci-lint run ./...)

.PHONY: vulns
vulns: ## known vulnerabilities of what we link; skipped, with a word, where their database cannot be reached
	$(call timed,vulns,.ci/vulns)

.PHONY: lint-lab
lint-lab: ## vet and the linters of LAB_LINTERS over the lab: many minutes, because it type-checks Kubernetes
	$(call timed,vet lab,$(GO) -C lab vet ./...)
	$(call timed,lint lab,bash -c 'cd lab && $(LAB_TOOL) golangci-lint run --enable-only $(LAB_LINTERS) ./... && $(LAB_TOOL) golangci-lint fmt --diff')

.PHONY: fmt
fmt: ## format all code
	@$(TOOL) golangci-lint fmt ./...
	@cd lab && $(LAB_TOOL) golangci-lint fmt ./...

.PHONY: gen
gen: ## write all generated files, among them pages of docs/reference
	$(GO) generate ./...
	$(GO) -C lab generate ./...

# What the pages link to, at the same relative places.
SITE = README.md CHANGELOG.md CONTRIBUTING.md SECURITY.md LICENSE docs examples sim/numa/doc.go
.PHONY: site
site: ## the documentation as a site in bin/site/html; wants mkdocs-material (of Debian or PyPI) in the PATH
	rm -rf bin/site && mkdir -p bin/site/src
	git ls-files -z $(SITE) | xargs -0 cp --parents -t bin/site/src
	mkdocs build --quiet --strict

.PHONY: screenshots
screenshots: export HILBERT_SCREENSHOTS := $(CURDIR)/bin/screenshots
screenshots: ## pictures of the dashboard's and the demo's pages in bin/screenshots: light, dark and narrow; the demo's is that of HILBERT_DEMO_PAGE or made up; wants chromium in the PATH
	@mkdir -p bin/screenshots
	$(GO) test -vet=off -count=1 -v -run 'TestBrowser$$' ./cmd/hilbert/dashboard
	$(GO) -C lab test -vet=off -count=1 -v -run 'TestScreenshots$$' ./report

.PHONY: man
man: ## manual pages of hilbert and hilbertd in bin/man
	$(GO) test -count=1 -run '^TestManualPages$$' ./internal/reference -args -man $(CURDIR)/bin/man

.PHONY: e2e
e2e: lab e2e-suite ## upstream's quick Conformance specs of scheduling, with Hilbert as the default scheduler; ARGS go to it
	$(call timed,e2e,bin/hilbert-lab e2e --scheduler=hilbert --conformance --quick $(ARGS))

##@ Long suites

.PHONY: properties
# The short form of tests plays a fifth of RAPID_CHECKS: without it the packages' long tests would be played as well.
properties: export RAPID_CHECKS = $(shell echo $$((5 * $(CHECKS))))
properties: export RAPID_NOFAILFILE = true
properties: ## CHECKS new histories of every property; what fails prints the seed that repeats it
	$(call timed,properties,$(GO) test -short -count=1 -timeout 120m $$($(GO) list -f '{{.ImportPath}} {{.TestImports}}{{.XTestImports}}' ./... | sed -n 's: .*[[ ]pgregory.net/rapid[] ].*::p'))

# What has goroutines, processes and clocks; the rest is a function of its arguments.
STALLS = ./cmd/... ./kube/... ./node/... ./examples/... ./internal/doctest/... ./schedule ./schedule/bind
.PHONY: stalls
stalls: export RAPID_SEED ?= 1
stalls: export RAPID_NOFAILFILE = true
stalls: export STALL ?= 1500
stalls: ## tests PLAYS times, each program stopped again and again for up to STALL ms, as where there is more work than CPUs: tests that bet on how long something takes fail; PLAYS=1 STALLS=./kube/... for a part
	$(call timed,stalls,$(GO) test -vet=off -short -count=$(PLAYS) -timeout 120m -exec '$(CURDIR)/.ci/stall' $(STALLS))

.PHONY: nightly
nightly: ## what is too long for .ci/run: SEEDS seeds of each simulation, a million differential cases, the lab, all guests, long fuzzing; hours
	$(MAKE) test
	$(MAKE) properties
	$(MAKE) stalls
	$(MAKE) sim
	$(MAKE) sim-claims SEEDS=200
	$(MAKE) chaos SEEDS=1000
	$(MAKE) sim-moves SEEDS=1000
	$(MAKE) sim-interference SEEDS=1000
	$(MAKE) sim-churn SEEDS=100
	$(MAKE) sim-tides
	$(MAKE) diff CASES=1000000
	$(MAKE) lab-test
	$(MAKE) recommend-scale
	$(MAKE) operators-test
	$(MAKE) vm-test
	$(MAKE) soak
	$(MAKE) fuzz
	$(MAKE) lint lint-lab

.PHONY: integration-upstream
integration-upstream: lab ## upstream's integration tests of scheduling in lab/integration/tests.txt, with Hilbert and then with kube-scheduler; status 1 if one fails only with Hilbert; half an hour
	$(call timed,integration-upstream,bin/hilbert-lab integration $(ARGS))

.PHONY: integration-upstream-short
integration-upstream-short: lab ## the quick ones of them, with Hilbert alone
	$(call timed,integration-upstream-short,bin/hilbert-lab integration --scheduler=hilbert --short $(ARGS))

.PHONY: e2e-upstream
e2e-upstream: lab e2e-workloads ## upstream's specs in lab/suite/specs.txt, with Hilbert and then with kube-scheduler; status 1 if one fails only with Hilbert; 45 minutes
	$(call timed,e2e-upstream,bin/hilbert-lab e2e --program bin/e2e-workloads $(ARGS))

.PHONY: lab-test
lab-test: ## all tests of the lab
	$(call timed,lab-test,$(GO) -C lab test -vet=off -count=1 -timeout 60m -ldflags '$(LAB_LDFLAGS)' ./...)

.PHONY: lab-scenarios
lab-scenarios: ## play the simulator's scenarios on a real API server; each must print the same
	$(call timed,lab-scenarios,$(GO) -C lab test -vet=off -count=1 -timeout 60m -ldflags '$(LAB_LDFLAGS)' -v ./scenario)

.PHONY: security-test
security-test: ## attacks on a real API server, with the credentials of each agent, kubelet, tenant and viewer; each again without the rule that refuses it
	$(call timed,security-test,$(GO) -C lab test -vet=off -count=1 -timeout 20m -ldflags '$(LAB_LDFLAGS)' -v ./security ./visibility)

.PHONY: security-mutants
security-mutants: ## each rule of docs/security.md that is code is broken on purpose, in a line; the test that holds it must fail: some 10 minutes
	$(call timed,security-mutants,$(GO) -C lab test -vet=off -count=1 -timeout 60m -v ./security/mutants)

.PHONY: crash-test
crash-test: ## kill and freeze the scheduler while it binds, then check every node
	$(call timed,crash-test,$(GO) -C lab test -vet=off -count=1 -timeout 60m -ldflags '$(LAB_LDFLAGS)' -v ./crash)

# Any machine with Go builds it: its SQLite is the one in Go.
.PHONY: kine
kine: ## bin/kine: etcd's protocol over other databases, for make stores
	@mkdir -p bin
	$(call timed,kine,env CGO_ENABLED=0 $(GO) -C tools/kine build -ldflags '$(LDFLAGS)' -o ../../bin/ github.com/k3s-io/kine)

.PHONY: stores
stores: lab e2e-suite kine ## the crash test, the scenarios and upstream's quick Conformance specs on each store of STORES; 20 minutes
	$(call timed,stores,env LAB_LDFLAGS="$(LAB_LDFLAGS)" bash .ci/stores $(STORES))

.PHONY: stores-short
stores-short: kine ## a short crash test on SQLite
	$(call timed,stores-short,env HILBERT_STORE=sqlite HILBERT_KINE=$(CURDIR)/bin/kine $(GO) -C lab test -vet=off -count=1 -short -timeout 10m -ldflags '$(LAB_LDFLAGS)' -run 'TestCrash$$$$' ./crash)

.PHONY: numa-test
numa-test: ## 1,000 hollow agents and 10,000 NUMA-bound pods, also with bad reports, rivals and foreign pods
	$(call timed,numa-test,$(GO) -C lab test -vet=off -count=1 -timeout 60m -ldflags '$(LAB_LDFLAGS)' -v ./numa -args \
		-numa.nodes=1000 -numa.pods=10000 -numa.write=10s -numa.refresh=5m -numa.steady=6m -numa.patience=10m $(ARGS))

.PHONY: recommend-scale
recommend-scale: ## 4,000 pods of 1,000 Deployments on 1,000 nodes get what is recommended for them: what it asks of the API server, and what the controller costs; some 10 minutes on two CPUs
	$(call timed,recommend-scale,$(GO) -C lab test -vet=off -count=1 -timeout 60m -ldflags '$(LAB_LDFLAGS)' -v -run 'TestScale$$$$' ./recommend/process -args \
		-nodes=1000 -deployments=1000 -interval=5s -patience=15m $(ARGS))

.PHONY: elastic-test
elastic-test: ## 20 lending nodes, a third of them under a rising load: how soon online pods have their cores, and evicted work runs again; about 15 minutes
	@mkdir -p bin/elastic
	$(call timed,elastic-test,$(GO) -C lab test -vet=off -count=1 -timeout 60m -ldflags '$(LAB_LDFLAGS)' -v ./elastic -args \
		-elastic.long -elastic.out=$(CURDIR)/bin/elastic $(ARGS))

.PHONY: operators-test
operators-test: export HILBERT_OPERATORS := 1
operators-test: ## Kueue, JobSet, the MPI operator, Kubeflow Trainer and KubeRay, each built from its module and run beside Hilbert; half an hour to build the first time
	$(call timed,operators-test,$(GO) -C lab test -vet=off -count=1 -timeout 120m -ldflags '$(LAB_LDFLAGS)' -v ./operators)

.PHONY: vm-parts
vm-parts: ## download and build the parts of the VM test bed into HILBERT_CACHE: minutes, once
	$(call timed,vm-parts,$(GO) -C lab run ./cmd/hilbert-vm-bed parts)

# The packages whose short form boots a guest. To link the tests of each takes as long as a short test; what the others have in the short form, lab-short runs.
VM_SHORT = ./vm/agent ./vm/probe ./vm/colocation

.PHONY: vm-short
vm-short: export HILBERT_VM := 1
vm-short: vm-parts ## short tests of the agent on a real kernel with an unmodified kubelet
	$(call timed,vm-short,$(call tested,standard-verbose,$(VM_SHORT),-short -count=1 -p 1 -timeout 20m -ldflags "$(LAB_LDFLAGS)"))

.PHONY: vm-test
vm-test: export HILBERT_VM := 1
vm-test: vm-parts ## all tests of the agent on a real kernel
	$(call timed,vm-test,$(call tested,standard-verbose,./vm/...,-count=1 -p 1 -timeout 90m -ldflags "$(LAB_LDFLAGS)"))

.PHONY: vm-chart-test
vm-chart-test: export HILBERT_VM := 1
vm-chart-test: vm-parts ## a release in a guest as people install it: install, upgrade, rollback and uninstall with helm, hilbertd, agent and watchdog as pods
	$(call timed,vm-chart-test,$(GO) -C lab test -vet=off -count=1 -timeout 60m -ldflags '$(LAB_LDFLAGS)' -v ./vm/chart)

.PHONY: soak
soak: export HILBERT_VM := 1
soak: export HILBERT_SOAK ?= 1h
soak: vm-parts ## a guest's node for HILBERT_SOAK (1h) under kills, full and frozen disks and clock jumps in random order; HILBERT_SOAK_SEED repeats one
	$(call timed,soak,$(GO) -C lab test -vet=off -count=1 -timeout 0 -ldflags '$(LAB_LDFLAGS)' -v -run 'TestSoak$$$$' ./vm/soak)

.PHONY: vm-colocation
vm-colocation: export HILBERT_VM := 1
vm-colocation: vm-parts ## the colocation experiments in guests, ten rounds each: two hours; results and pictures in bin/colocation
	$(call timed,vm-colocation,$(GO) -C lab test -vet=off -count=1 -p 1 -timeout 240m -ldflags '$(LAB_LDFLAGS)' -v \
		-run 'TestColocation$$$$|TestBursts$$$$|TestLock$$$$' ./vm/colocation/... -args \
		-colocation.rounds=10 -colocation.window=20s -colocation.out=$(CURDIR)/bin/colocation $(ARGS))

.PHONY: sim
sim: build ## simulate SEEDS seeds with four schedulers
	$(call timed,sim,env SEEDS=$(SEEDS) bash .ci/sim)

.PHONY: sim-claims
sim-claims: ## simulate SEEDS seeds of pods and gangs with claims whose drivers refuse, are away and make volumes twice; a minute for some 60
	$(call timed,sim-claims,env HILBERT_SIM_SEEDS=$(SEEDS) $(GO) test -count=1 -timeout 60m -run 'TestFaultsOfClaims' ./sim)

.PHONY: chaos
chaos: ## simulate SEEDS seeds of clusters in which everything goes wrong while three schedulers decide in one process, or in processes of their own on a network that fails
	$(call timed,chaos,env HILBERT_SIM_SEEDS=$(SEEDS) $(GO) test -count=1 -timeout 120m -run 'TestFaultsBeside|TestFaultsElsewhere|TestOutsiders|TestReservations' ./sim ./schedule)

.PHONY: sim-moves
sim-moves: ## simulate SEEDS seeds of moves with evictions, and as many with EvictionRequests, while leaders change, foreign binders take room, nodes die and responders refuse or hang
	$(call timed,sim-moves,$(GO) test -count=1 -timeout 60m -run 'TestMoves' ./sim/moves -args -seeds $(SEEDS))

.PHONY: sim-churn
sim-churn: ## pods come and go with and without moves, SEEDS times at each load: those that are moved serve no less in the mean
	$(call timed,sim-churn,env HILBERT_SIM_SEEDS=$(SEEDS) $(GO) test -count=1 -timeout 60m -run 'TestMovesServeNoLess' ./sim/packing)

.PHONY: sim-interference
sim-interference: ## name harmful neighbours in SEEDS mixes of the machine model
	$(call timed,sim-interference,env HILBERT_SIM_SEEDS=$(SEEDS) $(GO) test -count=1 -timeout 60m -run 'TestNames' ./sim/interference)

.PHONY: sim-tides
sim-tides: ## on each recorded load of HILBERT_TRACES: no way of ours misses more targets than HPA alone, and on most at most half
	$(call timed,sim-tides,env HILBERT_SIM_SERIES=all $(GO) test -count=1 -timeout 30m -run 'TestNoSeriesIsWorse' ./sim/tide)

.PHONY: gpu-test
gpu-test: ## soft slices and containers with NVIDIA's driver, MPS, container toolkit (nvidia-ctk), CUDA's compiler and runc, as root on a machine whose GPU nobody uses; changes no setting of it
	$(call timed,gpu-test,env HILBERT_GPU=1 $(GO) test -count=1 -p 1 -timeout 10m -v -run TestOnDriver ./node/cdi ./node/mps)

.PHONY: chaos-lab
chaos-lab: ## kill, freeze, slow down and cut off dispatchers, schedulers, a real API server and its store while 10,000 pods are bound, by a plan of SEED; SHORT=-short for a minute of it
	$(call timed,chaos-lab,$(GO) -C lab test $(SHORT) -v -count=1 -timeout 60m -run 'TestSchedulersElsewhere' ./crash -args -seed $(SEED))

.PHONY: diff
diff: lab ## compare CASES placements with kube-scheduler's plugins, from SEED; ARGS go to it (--keep: failures become regression tests)
	$(call timed,diff,bin/hilbert-lab diff --cases $(CASES) --seed $(SEED) $(ARGS))

.PHONY: race
race: export CGO_ENABLED := 1
race: ## all tests of the product under the race detector (needs a C compiler)
	$(call timed,race,$(GO) test -race -timeout 30m ./...)

.PHONY: fuzz
fuzz: ## run each fuzz target for FUZZTIME inputs (such as 20000x)
	@{ grep -rHo --include='*_test.go' --exclude-dir=lab '^func Fuzz[A-Za-z0-9_]*' . || echo 'no fuzz targets' >&2; } | \
	while IFS=: read -r file func; do \
		echo "== $${func#func } $$(dirname "$$file")"; \
		$(GO) test -run '^$$' -fuzz "^$${func#func }\$$" -fuzztime $(FUZZTIME) "$$(dirname "$$file")"; \
	done

.PHONY: bench
bench: ## benchmarks of the product, COUNT times each, with a summary; raw results in bin/bench.txt
	@mkdir -p bin
	$(GO) test -run '^$$' -bench . -benchmem -count $(COUNT) -timeout 60m ./... | tee bin/bench.txt
	@$(TOOL) benchstat bin/bench.txt

.PHONY: bench-schedule
bench-schedule: lab ## pods per second on a real API server: raw Bindings, kube-scheduler, Hilbert; ARGS go to it
	bin/hilbert-lab bench schedule --nodes 5000 --pods 10000 $(ARGS)

.PHONY: bench-decide
bench-decide: lab ## decisions per second in memory: kube-scheduler and Hilbert; ARGS go to it
	bin/hilbert-lab bench decide $(ARGS)

##@ Releases

.PHONY: release
release: ## all artifacts of VERSION in DIST, from the commit that is checked out; RELEASE_KEY=FILE signs them
	@[ -n "$(VERSION)" ] || { echo 'make release VERSION=v0.1.0' >&2; exit 2; }
	@[ -z "$$(git status --porcelain)" ] || { echo 'the tree has changes that are in no commit: a release is made from a commit' >&2; exit 2; }
	$(call timed,release,$(GO) -C tools/release run . make -root $(CURDIR) -out $(abspath $(DIST)) -version $(VERSION) \
		-commit "$$(git rev-parse HEAD)" -time "$$(git log -1 --format=%ct)" $(if $(RELEASE_KEY),-key $(abspath $(RELEASE_KEY))) $(RELEASE_ARGS))

.PHONY: release-short
release-short: ## a release for one platform, twice with the same digests; the charts, against the plain manifests and golden texts
	$(call timed,release,$(GO) -C tools/release test -vet=off -timeout 20m ./artifacts ./charttest)

.PHONY: alerts-test
alerts-test: ## the chart's alerts, with Prometheus' own rules and query engine (minutes to build the first time)
	$(call timed,alerts,$(GO) -C tools/alerts test -vet=off ./...)

.PHONY: release-test
release-test: ## a release for every platform, twice, the second time without a build cache
	$(call timed,release-all,$(GO) -C tools/release test -vet=off -count=1 -timeout 60m ./artifacts -args -all)

.PHONY: chart-test
chart-test: lab ## the charts on a real API server: dry run of every manifest, install, upgrade, rollback, uninstall
	$(call timed,chart-test,$(GO) -C tools/release test -vet=off -count=1 -timeout 20m ./cluster)

##@ Housekeeping

.PHONY: clean
clean: ## remove all build outputs
	rm -rf bin $(DIST)

.PHONY: help
help: ## this list
	@awk 'BEGIN {FS = ":.*## "} /^##@/ {printf "\n%s\n", substr($$0, 5)} /^[a-z-]+:.*## / {printf "  %-16s %s\n", $$1, $$2}' $(MAKEFILE_LIST)
