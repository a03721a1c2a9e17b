// Package doctor judges what was seen of a cluster with Hilbert: what is installed, what is broken, and how it is cured.
//
// Data flow: a caller fills Facts by reading the API server and hands them to Examine, which returns findings in a fixed order. For example, Facts without a Lease give
// the error "nobody has held the Lease" with the cure "look at the Deployment hilbertd". What could not be read is named in Facts.Unread and becomes a finding of
// level Unknown: missing data is never read as "not there".
//
// Invariants: Examine is a function of its arguments; it asks nothing and knows no clock. Every finding that is not OK has a cure. It changes nothing, and does not see
// whether nodes or pods are well: their agents' reports and hilbert explain say that.
package doctor

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// Level is how bad a finding is.
type Level string

// The levels, from the worst on.
const (
	Error   Level = "error"   // something does not work
	Unknown Level = "unknown" // it could not be seen
	Warning Level = "warning" // something is lost or will break
	Info    Level = "info"    // how this installation differs
	OK      Level = "ok"
)

// Finding is one thing that was found.
type Finding struct {
	Level Level `json:"level"`
	// Check is what was looked at, in a few words; scripts may compare it.
	Check string `json:"check"`
	// Message is what was found; Cure what to do about it.
	Message string `json:"message"`
	Cure    string `json:"cure,omitempty"`
}

// Facts are what was seen. What is in Unread was not, and its fields mean nothing.
type Facts struct {
	Now time.Time
	// Unseen are the promises about hardware that were never seen to hold on any.
	Unseen []string
	Client string // the build of this program
	// Unread says why a part could not be read, by its name: one of the constants Part….
	Unread map[string]string

	Kubernetes string // the API server's version
	// Served are resources as GROUP/VERSION/RESOURCE, of those that Features names.
	Served map[string]bool

	APIService *APIService // nil: there is none
	// MetricsServices are the APIServices of upstream's metrics APIs that there are.
	MetricsServices []MetricsService
	Hilbertd        string // the build that answers through it; empty: none answers
	Lease           *Lease // nil: there is none
	// Definitions are the custom resource definitions by name; one that is not there is missing from the map.
	Definitions map[string]Definition
	// Policies are the admission policies that are there, as KIND/NAME, and whether a binding puts each in force.
	Policies map[string]bool
	// Workloads are the Deployments and DaemonSets in the namespace of Hilbert.
	Namespace string
	Workloads []Workload
	// Reports are those of the nodes' agents. Labelled are the nodes that asked for an agent by their label.
	Reports  []Report
	Labelled []string
	// StaleAfter is the age from which an agent is called silent.
	StaleAfter time.Duration
}

// The parts of Facts that may be unread.
const (
	PartServed          = "served APIs"
	PartAPIService      = "APIService"
	PartMetricsServices = "the metrics APIs"
	PartHilbertd        = "hilbertd"
	PartLease           = "Lease"
	PartDefinitions     = "definitions"
	PartPolicies        = "admission policies"
	PartWorkloads       = "workloads"
	PartReports         = "node reports"
	PartNodes           = "nodes"
)

// MetricsService is an APIService of a metrics API: the Service, as namespace/name, that it leads to.
type MetricsService struct {
	Name, Service string
	Available     bool
}

// APIService is that of visibility.hilbert.dev.
type APIService struct {
	Available       bool
	Reason, Message string
	// Trusted: a certificate authority is named, without which the API server believes no hilbertd.
	Trusted bool
}

// Lease is who leads.
type Lease struct {
	Holder   string
	Renewed  time.Time
	Duration time.Duration
}

// Definition is a custom resource definition.
type Definition struct {
	Established bool
	Versions    []string // those that are served
}

// Workload is a Deployment or DaemonSet.
type Workload struct {
	Kind, Name, Image, Chart string
	Wanted, Ready, Updated   int
}

// Report is when a node's agent last reported.
type Report struct {
	Node     string
	Observed time.Time // zero: never
	// NotReady is why the agent does not see or control its node; empty: it does.
	NotReady string
}

// Definitions that Hilbert needs, by what is lost without each.
var definitions = []struct{ name, lost string }{
	{"queues.scheduling.hilbert.dev", "there is one queue and no limit"},
	{"reservations.scheduling.hilbert.dev", "nobody can keep places for pods to come"},
	{"resourcerequests.scheduling.hilbert.dev", "no application master can ask for containers"},
	{"customnoderesources.node.hilbert.dev", "agents cannot report: no NUMA nodes, no devices, nothing lent"},
	{"nodeconfigurations.node.hilbert.dev", "agents run with their files alone"},
	{"tidepools.scheduling.hilbert.dev", "no nodes change hands between services and offline work"},
	{"serviceprofiles.node.hilbert.dev", "lending is not steered by services' indicators"},
}

// Definitions returns the names of the custom resource definitions that Hilbert needs.
func Definitions() []string {
	names := make([]string, len(definitions))
	for i, d := range definitions {
		names[i] = d.name
	}
	return names
}

// Examine returns what is to be said, in the order in which it was looked at.
func Examine(f *Facts) []Finding {
	e := examiner{f: f}
	for _, check := range []struct {
		part string
		of   func()
	}{
		{"", e.versions},
		{PartDefinitions, e.definitions},
		{PartWorkloads, e.workloads},
		{PartLease, e.lease},
		{PartAPIService, e.apiService},
		{PartMetricsServices, e.metricsServices},
		{PartPolicies, e.policies},
		{PartReports, e.reports},
		{PartNodes, e.nodes},
		{"", e.hardware},
		{PartServed, e.features},
	} {
		if why, unread := f.Unread[check.part]; unread && check.part != "" {
			e.say(Unknown, check.part, "it could not be read: "+why, "run it with credentials that may read it, or try again")
			continue
		}
		check.of()
	}
	return e.out
}

// Worst is the worst level among findings.
func Worst(findings []Finding) Level {
	for _, level := range []Level{Error, Unknown, Warning, Info} {
		if slices.ContainsFunc(findings, func(x Finding) bool { return x.Level == level }) {
			return level
		}
	}
	return OK
}

type examiner struct {
	f   *Facts
	out []Finding
}

func (e *examiner) say(level Level, check, message, cure string) {
	e.out = append(e.out, Finding{level, check, message, cure})
}

func (e *examiner) versions() {
	f := e.f
	e.say(Info, "versions", fmt.Sprintf("hilbert %s, hilbertd %s, Kubernetes %s", f.Client, orNone(f.Hilbertd), orNone(f.Kubernetes)), "")
	if f.Hilbertd != "" && minor(f.Hilbertd) != minor(f.Client) {
		e.say(Warning, "versions", "this program and hilbertd are of different releases", "use the program of hilbertd's release; hilbert version names both")
	}
}

func (e *examiner) definitions() {
	for _, d := range definitions {
		have, ok := e.f.Definitions[d.name]
		switch {
		case !ok:
			e.say(Error, "definitions", d.name+" is missing: "+d.lost, "helm install hilbert-crds, or kubectl apply -f deploy/crds")
		case !have.Established || len(have.Versions) == 0:
			e.say(Error, "definitions", d.name+" is not served: "+d.lost, "kubectl describe crd "+d.name+" says why")
		}
	}
	if !e.told("definitions") {
		e.say(OK, "definitions", fmt.Sprintf("all %d are served", len(definitions)), "")
	}
}

// told says whether there is a finding of a check.
func (e *examiner) told(check string) bool {
	return slices.ContainsFunc(e.out, func(x Finding) bool { return x.Check == check })
}

func (e *examiner) workloads() {
	charts := map[string]bool{}
	images := map[string]bool{}
	scheduler := false
	for i := range e.f.Workloads {
		w := &e.f.Workloads[i]
		check := "workload " + w.Name
		scheduler = scheduler || w.Name == leaderName
		if w.Chart != "" {
			charts[w.Chart] = true
		}
		if w.Name == leaderName || w.Name == "hilbert-agent" {
			images[w.Image] = true
		}
		ready := fmt.Sprintf("%d of %d pods are ready (%s)", w.Ready, w.Wanted, w.Image)
		switch look := fmt.Sprintf("kubectl -n %s describe %s %s", e.f.Namespace, strings.ToLower(w.Kind), w.Name); {
		case w.Name == schedulersName:
			e.schedulers(w)
		case w.Name == "hilbert-cleanup":
			e.say(Warning, check, "agents are being removed: "+ready, "when all are ready, uninstall; or set agent.cleanup=false to go on")
		case w.Ready < w.Wanted && w.Ready == 0:
			e.say(Error, check, ready, look)
		case w.Ready < w.Wanted:
			e.say(Warning, check, ready, look)
		case w.Updated < w.Wanted && w.Name != "hilbert-watchdog" && w.Name != "hilbert-mps": // those are replaced when somebody deletes them
			e.say(Warning, check, fmt.Sprintf("%d of %d pods are of the new version", w.Updated, w.Wanted), look)
		default:
			e.say(OK, check, ready, "")
		}
	}
	if !scheduler {
		e.say(Info, "workload hilbertd", "the namespace "+e.f.Namespace+" has no Deployment hilbertd: hilbertd is not installed there, or runs outside of the cluster",
			"helm install hilbert deploy/charts/hilbert; or name its namespace with --namespace")
	}
	if len(images) > 1 {
		e.say(Warning, "images", "scheduler and agents run different images: "+strings.Join(sorted(images), ", "), "upgrade both to one release")
	}
	if len(charts) > 1 {
		e.say(Warning, "charts", "objects of several charts' versions are there: "+strings.Join(sorted(charts), ", "), "helm upgrade hilbert")
	} else if len(charts) == 1 {
		e.say(Info, "charts", "installed by "+sorted(charts)[0], "")
	}
}

func (e *examiner) lease() {
	const cure = "look at the log of the Deployment hilbertd; two replicas should run"
	switch l := e.f.Lease; {
	case l == nil:
		e.say(Error, "leader", "nobody has held the Lease: no hilbertd has led in this cluster", cure)
	case l.Holder == "":
		e.say(Error, "leader", "nobody holds the Lease", cure)
	case e.f.Now.Sub(l.Renewed) > l.Duration:
		e.say(Error, "leader", fmt.Sprintf("%s has not renewed the Lease for %s: nobody leads", l.Holder, age(e.f.Now.Sub(l.Renewed))), cure)
	default:
		e.say(OK, "leader", l.Holder+" leads", "")
	}
}

func (e *examiner) apiService() {
	const name = "v1alpha1.visibility.hilbert.dev"
	switch a := e.f.APIService; {
	case a == nil:
		e.say(Warning, "APIService", "there is none: hilbert explain, queue and snapshot cannot ask", "hilbert certificate | kubectl apply -f -, or serving.certificate of the chart")
	case !a.Available && !a.Trusted:
		e.say(Error, "APIService", name+" names no certificate authority, and no namespace can be deleted meanwhile", "hilbert certificate | kubectl apply -f -")
	case !a.Available:
		e.say(Error, "APIService", fmt.Sprintf("%s is not available (%s: %s), and no namespace can be deleted meanwhile", name, a.Reason, a.Message),
			"docs/how-to/operate.md lists the reasons; if Hilbert stays away, kubectl delete apiservice "+name)
	case e.f.Hilbertd == "":
		e.say(Warning, "APIService", "it is available, and what answers does not say that it is hilbertd: "+e.f.Unread[PartHilbertd], "hilbert version asks again")
	default:
		e.say(OK, "APIService", name+" is available", "")
	}
}

// metricsServices says whom the metrics APIs lead to, where the role metrics runs or one of them leads to it.
func (e *examiner) metricsServices() {
	const role = "hilbert-metrics"
	ours := e.f.Namespace + "/" + role
	runs := slices.ContainsFunc(e.f.Workloads, func(w Workload) bool { return w.Kind == "Deployment" && w.Name == role })
	for _, m := range e.f.MetricsServices {
		switch {
		case m.Service == ours && !m.Available:
			e.say(Error, "metrics", m.Name+" leads to "+ours+" and is not available, and no namespace can be deleted meanwhile",
				"docs/how-to/autoscale.md lists the reasons; if the role metrics stays away, kubectl delete apiservice "+m.Name)
		case m.Service == ours:
			e.say(OK, "metrics", m.Name+" leads to Hilbert", "")
		case runs:
			e.say(Warning, "metrics", m.Name+" leads to "+m.Service+": autoscalers get nothing from Hilbert by it",
				"leave it, and metrics.externalMetrics or metrics.customMetrics of the chart false; or delete it first, if nobody needs the other one")
		}
	}
	if runs && !slices.ContainsFunc(e.f.MetricsServices, func(m MetricsService) bool { return m.Service == ours }) {
		e.say(Warning, "metrics", "the role metrics runs, and no metrics API leads to it", "hilbert certificate --for metrics | kubectl create -f -, or metrics.enabled of the chart")
	}
}

func orNone(version string) string {
	if version == "" {
		return "unknown"
	}
	return version
}

// minor is the release that a version belongs to: v0.1 of v0.1.3-rc.1.
func minor(version string) string {
	parts := strings.SplitN(strings.Fields(version + " ")[0], ".", 3)
	return strings.Join(parts[:min(2, len(parts))], ".")
}

func age(d time.Duration) string { return d.Round(time.Second).String() }

func sorted(set map[string]bool) []string {
	out := make([]string, 0, len(set))
	for k := range set {
		out = append(out, k)
	}
	slices.Sort(out)
	return out
}
